//! Closures that enter a pool, behind a pointer: what enters it is compiled once.

use super::inner::WorkerContext;
use crate::base::once_call::OnceCall;

/// A closure behind a pointer, to be called once. The functions that take one are compiled once,
/// and not for every closure that enters a pool.
pub(crate) type ContextCall<'f> = &'f mut dyn FnMut(&WorkerContext<'_, '_>);

/// Passes `f` to `enter`, which calls it once, and returns its result.
#[inline(always)]
pub(crate) fn call_once<R>(
    f: impl FnOnce(&WorkerContext<'_, '_>) -> R,
    enter: impl FnOnce(ContextCall<'_>),
) -> R {
    let mut f = OnceCall::new(f);
    enter(&mut |context| f.call(|f| f(context)));
    f.take_result()
}
