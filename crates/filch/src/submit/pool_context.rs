//! The pool of a task, and the context that this thread has in it.

use crate::{
    base::unwind::{self, Payload},
    pool::{Inner, Pool, context::WorkerContext},
};

/// Calls `f` with the pool that the caller works for and its context there, else with the global
/// pool.
#[inline]
pub(super) fn with_current_pool<R>(
    f: impl FnOnce(&Inner, Option<&WorkerContext<'_, '_>>) -> R,
) -> R {
    WorkerContext::with(|context| match context {
        Some(here) => f(here.pool(), context),
        None => Pool::with_default(|pool| f(pool.inner(), None)),
    })
}

/// Calls `f` with the context that this thread has in `pool`, if it has one.
#[inline(always)]
pub(super) fn in_context_of<R>(
    pool: &Inner,
    f: impl FnOnce(Option<&WorkerContext<'_, '_>>) -> R,
) -> R {
    WorkerContext::with(|context| match context {
        Some(here) if std::ptr::eq(here.pool(), pool) => f(context),
        Some(here) if here.is_inside(pool) => here.on_enclosing(pool, |context| f(Some(context))),
        _ => f(None),
    })
}

/// Calls `f` with the pool of that number, if it exists, and the context that this thread has in
/// it, if any.
pub(super) fn with_pool<R>(
    number: u32,
    f: impl FnOnce(Option<&Inner>, Option<&WorkerContext<'_, '_>>) -> R,
) -> R {
    WorkerContext::with(|context| match context {
        Some(here) if here.pool().number() == number => f(Some(here.pool()), context),
        _ => match context.and_then(|context| context.find_pool(number)) {
            Some(pool) => in_context_of(pool, |context| f(Some(pool), context)),
            None => f(Inner::find(number).as_deref(), None),
        },
    })
}

/// Whether the pool of that number has a hook that is called when it has work: then an event loop
/// runs its tasks.
pub(super) fn is_driven(number: u32) -> bool {
    with_pool(number, |pool, _| pool.is_some_and(Inner::has_work_hook))
}

/// Reports panics that reach no waiter to the pool of that number.
pub(super) fn report_panics<const N: usize>(pool: u32, payloads: [Option<Payload>; N]) {
    for payload in payloads.into_iter().flatten() {
        with_pool(pool, |pool, _| report_panic(pool, payload));
    }
}

/// Reports a panic that reaches no waiter.
pub(super) fn report_panic(pool: Option<&Inner>, payload: Payload) {
    match pool {
        Some(pool) => pool.panicked(payload),
        None => unwind::discard(payload),
    }
}
