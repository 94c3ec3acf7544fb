//! Subflows that run before the closure that builds them returns.

use super::{
    error::TaskFault, heap_run::store, nested::Subflow, report::RunReport, spare,
    start::run_in_task, value::Value,
};
use std::mem;

impl Subflow<'_> {
    /// Runs the tasks that have been added so far, and returns when they are done. The worker works
    /// on them too, and on other tasks while it waits. Then their [values](super::Graph::value) can
    /// be [taken](Self::take), and more tasks can be added, for another join or for the time when
    /// the closure has returned.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let mut rounds = 0;
    /// graph.subflow("halve", |sub| {
    ///     let mut left = 100;
    ///     while left > 1 {
    ///         let half = sub.value("half", move || left / 2);
    ///         if sub.join().is_none() {
    ///             return; // the run was stopped
    ///         }
    ///         left = sub.take(half).unwrap();
    ///         rounds += 1;
    ///     }
    /// });
    /// graph.plan()?.run()?;
    /// assert_eq!(rounds, 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Returns `None` if the tasks cannot be run, or not all of them were finished: one has failed,
    /// or the run was stopped. Then the task of the subflow is not finished either, so what is
    /// added after that does not run. The error of the run says why, with names such as
    /// `outer/inner`.
    ///
    /// The tasks that have run are left behind: [`len`](super::Graph::len) does not count them, and
    /// they are dropped. Edges from them to tasks that are added later have no effect, and edges to
    /// them are an error. Their values stay until the subflow ends, for later tasks too.
    ///
    /// In a run with a limit of [jobs](super::RunOptions::jobs) the tasks of a join run one at a
    /// time, in the place of the task that waits for them.
    #[doc(alias = "corun")]
    pub fn join(&self) -> Option<RunReport> {
        let run = self.task.run();
        let mut plan = self.take_plan();
        plan.parts.forget_joined_edges();
        let checked = spare::check(&mut plan);
        let is_valid = checked.is_ok();
        let ended = self.task.enter_worker(|context| {
            let result = match checked {
                Ok(()) if plan.is_empty() => Ok(0),
                Ok(()) => {
                    let outcome = run_in_task(&mut plan, context, run.control());
                    match outcome.incomplete || outcome.has_failed() {
                        true => Err(Box::new(outcome)),
                        false => Ok(outcome.ran),
                    }
                }
                Err(error) => {
                    run.record_fault(self.task.index, TaskFault::Graph(error));
                    return None;
                }
            };
            let ran = *result.as_ref().ok().unwrap_or(&0);
            let finished = run.add_inner(context, self.task.index, result);
            finished.then_some(RunReport { ran })
        });
        *self.parts_box() = mem::take(&mut plan.parts);
        let old = is_valid.then(|| self.parts().leave_behind());
        self.task.enter_worker(|context| store(None, plan, context));
        if ended.is_none() {
            self.failed.set(true);
        }
        // The destructors are user code: a panic is one of this task.
        drop(old);
        ended
    }

    /// Takes the value that a task has produced in a [join](Self::join); `None` if it did not run,
    /// or the value has been moved.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.subflow("sum", |sub| {
    ///     let parts: Vec<_> = (0..4).map(|n| sub.value("part", move || n * n)).collect();
    ///     sub.join();
    ///     let sum: i32 = parts.into_iter().filter_map(|part| sub.take(part)).sum();
    ///     assert_eq!(sum, 14);
    /// });
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the value belongs to another graph, or its task was removed.
    pub fn take<T: Send + Sync + 'static>(&self, value: Value<T>) -> Option<T> {
        let slot = self.parts().rare.values.slot(value);
        slot.replace(None)
    }

    /// Calls `f` with the value that a task has produced in a [join](Self::join).
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.subflow("words", |sub| {
    ///     let words = sub.value("words", || vec!["to", "be"]);
    ///     assert_eq!(sub.peek(words, Vec::len), None);
    ///     sub.join();
    ///     assert_eq!(sub.peek(words, Vec::len), Some(2));
    ///     // Tasks that are added later can use it too.
    ///     sub.map("joined", words.moved(), |words: Vec<&str>| words.join(" "));
    /// });
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the value belongs to another graph, or its task was removed.
    pub fn peek<T: Send + Sync + 'static, R>(
        &self,
        value: Value<T>,
        f: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        let slot = self.parts().rare.values.slot(value);
        slot.peek(f)
    }
}
