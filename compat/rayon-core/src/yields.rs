//! Yielding to other tasks.

use crate::here;

/// The result of [`yield_now`] or [`yield_local`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// A task was run.
    Executed,
    /// No task was found.
    Idle,
}

impl Yield {
    fn new(ran: bool) -> Self {
        if ran { Self::Executed } else { Self::Idle }
    }
}

/// Runs one task from any queue. `None` on a thread outside of any pool.
///
/// ```
/// use rayon_core::{Yield, spawn, yield_now};
///
/// assert_eq!(yield_now(), None);
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(1).build()?;
/// pool.install(|| {
///     assert_eq!(yield_now(), Some(Yield::Idle));
///     spawn(|| {});
///     assert_eq!(yield_now(), Some(Yield::Executed));
/// });
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub fn yield_now() -> Option<Yield> {
    here::is_inside().then(|| Yield::new(filch::yield_now()))
}

/// Runs one task of this thread's own queue, if it has one. `None` on a thread outside of any pool.
///
/// ```
/// use rayon_core::{Yield, spawn, yield_local};
///
/// assert_eq!(yield_local(), None);
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(1).build()?;
/// pool.install(|| {
///     spawn(|| {});
///     assert_eq!(yield_local(), Some(Yield::Executed));
///     assert_eq!(yield_local(), Some(Yield::Idle));
/// });
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub fn yield_local() -> Option<Yield> {
    here::is_inside().then(|| Yield::new(filch::yield_local()))
}
