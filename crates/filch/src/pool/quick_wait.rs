//! The beginning of a wait for jobs that the waiter has queued itself, such as the tasks of a
//! scope.
//!
//! Most scopes are small, and end in the queue of their worker. [`WorkerContext::wait`] prepares
//! for all that may happen in a wait: searches, sleep, tasks that are handed off, an entry in the
//! list of waits. [`WorkerContext::wait_for_queued`] runs the waiter's own jobs first, and begins
//! such a wait only when something else has to be done.

use super::{context::WorkerContext, current_task, inner::Serving, latch::WaitTarget};
use crate::{
    base::{sys::stack, thread},
    engine::{Mark, Queue},
};

/// The number of jobs between two checks of what need not be known before each job: the clock, and
/// whether other workers have ended what is waited for.
const JOBS_PER_CHECK: u32 = 64;

/// What a due turn has led to.
#[must_use]
enum TurnServed {
    /// A job had precedence, and has run.
    OneJob,
    /// No job has precedence.
    Nothing,
    /// The wait is over, or has to do more than this loop does.
    NotHere,
}

impl WorkerContext<'_, '_> {
    /// [`wait`](Self::wait) for an event that most likely happens when the jobs that were queued
    /// since `wait_mark` have run here. The worker is running a task, and does not search.
    #[inline(always)]
    pub(crate) fn wait_for_queued(&self, target: &impl WaitTarget, wait_mark: Mark) {
        if self.is_isolated() || self.has_clock_work() || !stack::is_ample() {
            return self.wait(target, wait_mark);
        }
        if !self.run_queued(target, wait_mark) {
            self.wait(target, wait_mark);
        }
    }

    /// Runs what has been queued since `wait_mark`, as long as the worker has no reason to run or
    /// do something else. Returns whether `target` has happened.
    #[inline(always)]
    fn run_queued(&self, target: &impl WaitTarget, wait_mark: Mark) -> bool {
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        // As in `wait_for`.
        let serving = self.serving.replace(Serving::No);
        let (job_mark, searched) = (self.job_mark(), self.searched.replace(false));
        let job_mark =
            self.with_wait_target(target, || self.run_newest(target, wait_mark, job_mark));
        self.job_mark.set(job_mark);
        if searched {
            self.searched.set(true);
        }
        // The worker has not searched, so it is active as before.
        self.notify_deferred();
        if self.wants_attention() {
            self.repeat_alert();
        }
        self.serving.set(serving);
        target.has_happened()
    }

    /// Runs the jobs of [`run_queued`](Self::run_queued) in a task that began at `job_mark`.
    /// Returns its mark afterwards, as [`keep_job_mark`](Self::keep_job_mark) would leave it. Not
    /// inlined, so that the state of the loop has all registers.
    #[inline(never)]
    fn run_newest(&self, target: &impl WaitTarget, wait_mark: Mark, mut job_mark: Mark) -> Mark {
        // What a search leaves in the queue is below the second mark.
        let (mut jobs, mut floor, mut searched) = (0_u32, wait_mark, false);
        loop {
            let mut running = self.running();
            if !running.queue().owner().has_tasks_above(floor)
                || running.core().wants_attention()
                || self.batch_below.get().is_some()
                || self.is_isolated()
            {
                break;
            }
            jobs += 1;
            if jobs == JOBS_PER_CHECK || !running.try_continue_own() {
                jobs = 0;
                self.job_mark.set(job_mark);
                let served = match target.has_happened() {
                    true => TurnServed::NotHere,
                    false => self.serve_turn(),
                };
                job_mark = self.job_mark();
                if self.searched.replace(false) {
                    (floor, searched) = (floor.later(job_mark), true);
                }
                match served {
                    TurnServed::NotHere => break,
                    // Another job may have precedence too.
                    TurnServed::OneJob => continue,
                    TurnServed::Nothing => {}
                }
            }
            let mut running = self.running();
            // Thieves may have taken all of them.
            let Some(job) = running.queue().pop() else {
                break;
            };
            running.record_start();
            // As in `run_nested`.
            let begin = running.queue().owner().mark();
            let owned = target.owned_jobs();
            self.job_mark.set(begin);
            job.run(self);
            job_mark = job_mark.earlier(begin);
            // As in `keep_job_mark`.
            if self.searched.replace(false) {
                job_mark = self.job_mark();
                (floor, searched) = (floor.later(job_mark), true);
            }
            thread::point();
            // Other workers write the shared part of the count after every task. So it is read only
            // if the owner's own part does not show that jobs are pending: it has none, or the job
            // was none of those that are waited for, which may be over.
            let left = target.owned_jobs();
            if (left <= 0 || left >= owned) && target.has_happened() {
                break;
            }
        }
        self.searched.set(searched);
        job_mark
    }

    /// Runs a job that has precedence over those of the worker's own queue, if there is one.
    #[cold]
    #[inline(never)]
    fn serve_turn(&self) -> TurnServed {
        if self.running().is_taking_older_first()
            || self.has_clock_work()
            || self.lacks_substitute()
        {
            return TurnServed::NotHere;
        }
        self.pool().core().observe_time(thread::nanos());
        let Some(job) = self.running().take_preferred() else {
            return TurnServed::Nothing;
        };
        if let Some(job) = self.run_elsewhere(job) {
            self.run_nested(job);
        }
        TurnServed::OneJob
    }
}
