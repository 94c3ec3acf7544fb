//! Joins of two closures.

use crate::{here, registry::global};
use std::marker::PhantomData;

/// Passed to a closure of [`join_context`]: whether it has moved to another thread.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// The context describes this thread, so it is not `Send`.
    stays: PhantomData<*const ()>,
}

impl FnContext {
    #[inline(always)]
    fn new(migrated: bool) -> Self {
        Self {
            migrated,
            stays: PhantomData,
        }
    }

    /// Whether the closure runs on another thread than the call was made on.
    #[must_use]
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, potentially in parallel, and returns both results.
///
/// The first closure runs at once, the second when a thread is idle or the first has returned.
/// Called from outside of any pool, both run on threads of the global one.
///
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() < 4 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = rayon_core::join(|| sum(left), || sum(right));
///     left + right
/// }
/// assert_eq!(sum(&(0..100).collect::<Vec<_>>()), 4950);
/// ```
///
/// # Panics
/// If a closure panics, after both have ended. If both panic, the first one's panic is propagated.
#[inline]
pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if here::is_inside() {
        filch::join(oper_a, oper_b)
    } else {
        join_from_outside(oper_a, oper_b)
    }
}

#[cold]
#[inline(never)]
fn join_from_outside<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let (mut oper_a, mut oper_b) = (Some(oper_a), Some(oper_b));
    let (mut a, mut b) = (None, None);
    join_erased(
        &mut || a = oper_a.take().map(|oper_a| oper_a()),
        &mut || b = oper_b.take().map(|oper_b| oper_b()),
    );
    (a.expect("called once"), b.expect("called once"))
}

/// A join on the global pool, called from outside. Without the types of the closures, so that it is
/// compiled once, and not once more for each join of a program.
fn join_erased(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
    global().install(|| filch::join(a, b));
}

/// [`join`] whose closures receive whether they have moved to another thread.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(1).build()?;
/// let moved = pool.install(|| rayon_core::join_context(|a| a.migrated(), |b| b.migrated()));
/// assert_eq!(moved, (false, false)); // there is no other
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
///
/// # Panics
/// As [`join`].
#[inline]
pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    if here::is_inside() {
        join_inside(oper_a, oper_b)
    } else {
        join_context_from_outside(oper_a, oper_b)
    }
}

#[inline(always)]
fn join_inside<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    filch::join_context(
        move |cx| oper_a(FnContext::new(cx.migrated())),
        move |cx| oper_b(FnContext::new(cx.migrated())),
    )
}

#[cold]
#[inline(never)]
fn join_context_from_outside<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // Both closures have moved, since the caller is not a worker.
    join_from_outside(
        || oper_a(FnContext::new(true)),
        || oper_b(FnContext::new(true)),
    )
}
