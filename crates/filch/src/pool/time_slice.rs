//! How long a thread may run jobs in [`Pool::run_for`](super::Pool::run_for).

use crate::base::thread;
use std::cell::Cell;

thread_local! {
    /// When the present time slice of this thread is over, in nanoseconds of [`thread::nanos`].
    static END: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Calls `f` in a time slice that is over after `nanos`, or when the slice is over that this thread
/// has already.
pub(super) fn limit_to<R>(nanos: u64, f: impl FnOnce() -> R) -> R {
    struct RestoreEnd(Option<u64>);
    impl Drop for RestoreEnd {
        fn drop(&mut self) {
            END.set(self.0);
        }
    }
    let before = END.get();
    let _restore = RestoreEnd(before);
    let end = thread::nanos().saturating_add(nanos);
    END.set(Some(before.map_or(end, |before| before.min(end))));
    f()
}

/// Whether this thread is in a time slice.
pub(crate) fn is_limited() -> bool {
    END.get().is_some()
}

/// Whether this thread is in a time slice that is over.
pub(crate) fn is_over() -> bool {
    END.get().is_some_and(|end| thread::nanos() >= end)
}
