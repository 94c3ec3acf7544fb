//! Tasks that a runtime schedules.

use super::{build::Task, runtime::Runtime};

/// A handle to a task that runtimes of the same graph can [schedule](Runtime::schedule). It is a
/// number, and `Copy`.
///
/// Made by [`Task::schedulable`](Task::schedulable).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Schedulable {
    graph: u64,
    index: u32,
}

impl Schedulable {
    /// Returns the number of the task, as [`Task::index`](Task::index) does.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let later = graph.task("later", || ()).schedulable();
    /// assert_eq!(graph.get(later.index()).unwrap().name(), "later");
    /// ```
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }
}

impl Task<'_, '_> {
    /// Returns a handle with which [runtimes](super::Graph::runtime) of the graph can
    /// [schedule](Runtime::schedule) this task.
    ///
    /// The tasks of such a graph are claimed before they run, as in a graph with conditions. That
    /// costs a few nanoseconds a task.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let backup = graph.task("backup", || ());
    /// let handle = backup.schedulable();
    /// assert_eq!(handle.index(), backup.index());
    /// ```
    #[must_use]
    pub fn schedulable(self) -> Schedulable {
        let mut parts = self.graph.parts();
        if let Err(at) = parts.rare.schedulable.binary_search(&self.index()) {
            parts.rare.make().schedulable.insert(at, self.index());
        }
        Schedulable {
            graph: parts.rare.make().values.graph(),
            index: self.index(),
        }
    }
}

impl Runtime<'_> {
    /// Runs a task of the same graph, no matter which of its predecessors are done. Returns false,
    /// and does nothing, if the task is running, or scheduled and not begun. A task that is
    /// suspended, such as a future or a module, is running.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let mut stored = false;
    /// let graph = Graph::new();
    /// let store = graph.task("store", || stored = true);
    /// let by_hand = store.schedulable();
    /// let choose = graph.condition("which?", || 0);
    /// let work = graph.runtime("work", move |rt| {
    ///     assert!(rt.schedule(by_hand));
    /// });
    /// choose.precede([work, store]); // the condition chooses "work" only
    /// graph.plan()?.run()?;
    /// assert!(stored);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// - The task is queued on this worker. It may begin before the runtime's closure returns, on
    ///   another worker or while this one waits. Neither the runtime nor its successors wait for
    ///   it; the run does.
    /// - It is as if a condition had chosen the task: when it begins, it waits for all its
    ///   predecessors again from then on. Those that were done before do not count any more. When
    ///   it ends, it releases its own successors.
    /// - If it is released by its predecessors, or chosen, while it is running, the run fails and
    ///   the error names the task. So a task that is scheduled should be one that nothing else
    ///   releases then. A loop that leads back to the runtime's own task needs a condition, since
    ///   the runtime is running until its closure has returned.
    /// - If the run is stopped before the task begins, it does not run, and is one of the
    ///   [skipped](super::RunError::skipped) tasks.
    ///
    /// # Panics
    /// If the task belongs to another graph, also one inside or around this one, or was removed.
    pub fn schedule(&self, task: Schedulable) -> bool {
        let run = self.run();
        assert!(
            task.graph == run.shape.graph,
            "a task of another graph was scheduled"
        );
        assert!(
            run.shape.schedulable.binary_search(&task.index).is_ok(),
            "a task was scheduled that was removed"
        );
        let scheduled = run.nodes[task.index as usize].schedule();
        if scheduled {
            self.enter_worker(|context| run.queue(context, task.index));
        }
        scheduled
    }
}
