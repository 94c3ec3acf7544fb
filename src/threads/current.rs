//! Which worker this thread is.

use std::cell::Cell;

/// The engine (by the address of its core, or zero) whose thread this is at present, and the worker that it is there.
type Place = (usize, Option<usize>);

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new((0, None)) };
}

/// The number of the worker that this thread is, or `None` on a thread that is none.
///
/// For state that each worker keeps for itself outside of its scratch: a shard of a buffer pool, a
/// counter, a log.
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
/// executor.join();
/// ```
#[must_use]
pub fn current_worker() -> Option<usize> {
    PLACE.get().1
}

/// Whether this is a thread of the engine whose core is at `engine`.
pub(crate) fn is_thread_of(engine: usize) -> bool {
    PLACE.get().0 == engine
}

/// From now on this is a thread of the engine at `engine`, and the worker `worker` if it is one.
pub(crate) fn stay(engine: usize, worker: Option<usize>) {
    PLACE.set((engine, worker));
}

/// Makes the thread again what it is now, when this is dropped.
pub(crate) struct Remembered(Place);

/// See [`Remembered`].
pub(crate) fn remember() -> Remembered {
    Remembered(PLACE.get())
}

impl Drop for Remembered {
    fn drop(&mut self) {
        PLACE.set(self.0);
    }
}
