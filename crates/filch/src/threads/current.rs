//! The worker number of a thread.

use std::cell::Cell;

/// The engine (by the address of its core, or zero) whose thread this is at present, and its worker
/// number there.
type Place = (usize, Option<usize>);

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new((0, None)) };
}

/// Returns the worker number of this thread, or `None` if it is not a worker.
///
/// For state that each worker keeps outside of its scratch: a shard of a buffer pool, a counter, a
/// log.
///
/// ```
/// use filch::Executor;
///
/// assert_eq!(filch::current_worker(), None);
/// let executor = Executor::builder()
///     .workers(2)
///     .build(|_| (), |_: (), cx| assert_eq!(filch::current_worker(), Some(cx.id())))
///     .unwrap();
/// executor.spawn(()).unwrap();
/// executor.finish();
/// ```
#[doc(alias("current_thread_index", "this_worker_id"))]
#[must_use]
pub fn current_worker() -> Option<usize> {
    PLACE.get().1
}

/// Whether this is a thread of the engine whose core is at `engine`.
pub(crate) fn is_thread_of(engine: usize) -> bool {
    PLACE.get().0 == engine
}

/// Makes this a thread of the engine at `engine`, and the worker `worker` if there is one.
pub(crate) fn set_current_worker(engine: usize, worker: Option<usize>) {
    PLACE.set((engine, worker));
}

/// Restores the thread's present place when dropped.
pub(crate) struct RestorePlace(Place);

/// See [`RestorePlace`].
pub(crate) fn restore_place_later() -> RestorePlace {
    RestorePlace(PLACE.get())
}

impl Drop for RestorePlace {
    fn drop(&mut self) {
        PLACE.set(self.0);
    }
}
