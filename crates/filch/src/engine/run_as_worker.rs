//! Threads that become workers in the middle of another activity.

use super::{
    event::Observer,
    queue::Strategy,
    worker::{Phase, RunningWorker, Worker},
};

impl<'c, T: Send, Q: Strategy, O: Observer> Worker<'c, T, Q, O> {
    /// Runs `f` as a task that was not queued: how a thread from outside takes part for one call.
    /// Only for a worker that has just entered or run a task.
    ///
    /// `wait` is called while a thread that has found all work finished has not stopped the workers
    /// yet: tasks that `f` spawns then would be left to workers that exit. Afterwards
    /// [`is_stopped`](super::Core::is_stopped) returns true.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// let mut worker = core.enter(0);
    /// worker.run_as_worker(|| (), |mut running| running.spawn(1, Placement::Local));
    /// assert!(matches!(worker.step(|task, _| assert_eq!(task, 1)), Step::Ran));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn run_as_worker<R>(
        &mut self,
        mut wait: impl FnMut(),
        f: impl FnOnce(RunningWorker<'_, 'c, T, Q, O>) -> R,
    ) -> R {
        debug_assert_eq!(self.phase, Phase::Active, "not in the middle of a search");
        if self.reported_idle && !self.become_busy() {
            while !self.core.is_stopped() {
                wait();
            }
        }
        self.count += 1;
        f(RunningWorker { worker: self })
    }

    /// [`run_as_worker`](Self::run_as_worker) for a worker between two steps: it stops searching or
    /// sleeping.
    pub(crate) fn interrupt<R>(
        &mut self,
        wait: impl FnMut(),
        f: impl FnOnce(RunningWorker<'_, 'c, T, Q, O>) -> R,
    ) -> R {
        self.leave_search();
        self.run_as_worker(wait, f)
    }

    /// [`run_as_worker`](Self::run_as_worker) for a thread that is a worker until the returned
    /// value is dropped. While the thread does something else, other workers take the tasks in its
    /// queue.
    pub(crate) fn become_permanent<'w>(&'w mut self) -> RunningWorker<'w, 'c, T, Q, O> {
        debug_assert!(
            self.reported_idle && self.phase == Phase::Active,
            "it has just entered"
        );
        let _ = self.become_busy();
        self.count += 1;
        RunningWorker { worker: self }
    }

    /// See [`RunningWorker::retire`].
    pub(super) fn retire(&mut self) {
        self.retired = true;
        self.count -= 1;
        self.flush_again();
    }

    /// See [`RunningWorker::flush_count`].
    pub(super) fn flush_again(&mut self) {
        let verdict = self.flush_count();
        // The next task that it runs has to be counted again. Its queue is not marked as idle:
        // thieves must still visit it.
        self.reported_idle = true;
        self.core.stop_if_finished(verdict);
    }
}
