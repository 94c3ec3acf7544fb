//! The progress of a run, reported while it runs.

use crate::base::unwind::{self, Payload};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How far a run is: see [`RunOptions::on_progress`](super::RunOptions::on_progress).
///
/// ```
/// use filch::{Graph, graph::RunOptions};
/// use std::sync::Mutex;
///
/// let graph = Graph::new();
/// graph.linearize((0..3).map(|_| graph.task("", || ())));
/// let options = RunOptions::new().on_progress(|progress| {
///     assert!(progress.done() <= progress.total());
/// });
/// graph.plan()?.run_with(&options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunProgress {
    done: u64,
    total: u64,
}

impl RunProgress {
    /// Returns how many tasks are done. In a loop a task counts each time that it runs, so the
    /// number may exceed the total.
    ///
    /// ```
    /// use filch::{Graph, graph::RunOptions};
    /// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
    ///
    /// let last = Arc::new(AtomicU64::new(0));
    /// let graph = Graph::new();
    /// (0..5).for_each(|_| { graph.task("", || ()); });
    /// let seen = last.clone();
    /// let options = RunOptions::new().on_progress(move |progress| {
    ///     seen.store(progress.done(), Ordering::Relaxed);
    /// });
    /// graph.plan()?.run_with(&options)?;
    /// assert_eq!(last.load(Ordering::Relaxed), 5); // the last call comes before the end
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn done(self) -> u64 {
        self.done
    }

    /// Returns how many tasks the graph has. A graph inside a task counts as that task.
    ///
    /// ```
    /// use filch::{Graph, graph::RunOptions};
    ///
    /// let graph = Graph::new();
    /// (0..5).for_each(|_| { graph.task("", || ()); });
    /// let options = RunOptions::new().on_progress(|progress| assert_eq!(progress.total(), 5));
    /// graph.plan()?.run_with(&options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn total(self) -> u64 {
        self.total
    }
}

/// The callback of the user.
pub(super) type OnProgress = Arc<dyn Fn(RunProgress) + Send + Sync>;

/// Counts the tasks that are done and calls the callback: one call at a time, with growing numbers.
///
/// A worker that finds another one in the callback leaves the report to that one, which calls it
/// again. So no worker waits, and a callback that runs tasks of the same run is not called inside
/// itself.
pub(super) struct ProgressReporter {
    callback: OnProgress,
    state: Mutex<ProgressState>,
}

#[derive(Default)]
struct ProgressState {
    done: u64,
    /// Whether a worker is in the callback. It checks `done` again before it leaves.
    is_reporting: bool,
}

impl ProgressReporter {
    pub(super) fn new(callback: OnProgress) -> Self {
        Self {
            callback,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run: no task of it is done.
    pub(super) fn reset(&self) {
        self.lock().done = 0;
    }

    /// Counts a task as done. `on_panic` gets the panics of the callback.
    pub(super) fn task_done(&self, total: u64, on_panic: impl Fn(Payload)) {
        let mut state = self.lock();
        state.done += 1;
        if state.is_reporting {
            return;
        }
        state.is_reporting = true;
        loop {
            let done = state.done;
            drop(state);
            if let Err(payload) = unwind::contain(|| (self.callback)(RunProgress { done, total })) {
                on_panic(payload);
            }
            state = self.lock();
            if state.done == done {
                state.is_reporting = false;
                return;
            }
        }
    }
}

impl fmt::Debug for ProgressReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressReporter").finish_non_exhaustive()
    }
}
