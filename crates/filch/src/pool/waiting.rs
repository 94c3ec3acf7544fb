//! Waits for an event inside a task, and runs other jobs meanwhile.

use super::{
    backoff::{WaitBackoff, pause},
    blocking::HandoffOutcome,
    context::WorkerContext,
    current_task,
    handoff::{GivenJob, OVERDUE},
    inner::Serving,
    job::Job,
    latch::WaitTarget,
    waits::{OnCycle, WaitList, Waiting},
};
use crate::{
    base::{sys::stack, thread},
    engine::{IdleAction, Mark, Placement, Step},
};
use std::time::Duration;

/// Number of checks, with eight pauses in between, before a wait parks: 10 to 20 µs, about the cost
/// of parking and being woken.
const CHECKS_BEFORE_PARK: u32 = 64;

/// How long a wait parks at first where it would not be woken for work. A search costs some hundred
/// microseconds.
const TIMED_PARK: Duration = Duration::from_millis(1);

/// The maximum multiple of [`TIMED_PARK`]: each unsuccessful search adds one, up to this.
const MAX_TIMED_PARK_FACTOR: u32 = 16;

/// Number of searches, with a yield after each, before that: most such waits are short.
const YIELDS_BEFORE_TIMED_PARK: u32 = 8;

/// Number of iterations of a wait between two readings of the clock for Low tasks, which get turns
/// by the time that they have waited.
const ITERATIONS_PER_CLOCK_SAMPLE: u32 = 64;

/// The state of a wait.
struct WaitProgress {
    /// What was queued since this mark belongs to what is waited for.
    mark: Mark,
    /// The last task that was handed off, while its substitute works in place of this worker.
    given: Option<GivenJob>,
    /// The number of searches since the other workers have exited.
    exits: u32,
}

/// A wait target whose wait is listed when it first sleeps.
struct ListedTarget<'e> {
    /// Behind a pointer: waits are long functions, and compiled once.
    target: &'e dyn WaitTarget,
    waiting: Waiting<'static>,
}

impl WaitTarget for ListedTarget<'_> {
    #[inline(always)]
    fn has_happened(&self) -> bool {
        self.target.has_happened()
    }

    fn register_sleeper(&self, worker: usize) -> bool {
        if let Some(event) = self.target.event() {
            // Other threads use the frame of the caller until the event has happened.
            self.waiting.list_event(event, OnCycle::Stay);
        }
        self.target.register_sleeper(worker)
    }

    fn unregister_sleeper(&self) {
        self.target.unregister_sleeper();
    }

    fn take_job(&self) -> Option<Job> {
        self.target.take_job()
    }

    fn has_job(&self) -> bool {
        self.target.has_job()
    }

    fn may_be_queued(&self) -> bool {
        self.target.may_be_queued()
    }

    fn runner(&self) -> Option<usize> {
        self.target.runner()
    }
}

impl WorkerContext<'_, '_> {
    /// Runs other jobs until `event` has happened, and sleeps when there are none.
    ///
    /// What has been queued since `wait_mark` belongs to what is waited for. When the task is
    /// isolated, or the stack is no longer ample, only that is run, and the jobs of the mailbox.
    pub(crate) fn wait(&self, event: &dyn WaitTarget, wait_mark: Mark) {
        let listed = ListedTarget {
            target: event,
            waiting: Waiting::new(WaitList::global()),
        };
        self.with_wait_target(event, || self.wait_for(&listed, wait_mark));
    }

    fn wait_for(&self, event: &impl WaitTarget, wait_mark: Mark) {
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        // Jobs that run in a wait are not served at a checkpoint.
        let serving = self.serving.replace(Serving::No);
        let mut backoff = WaitBackoff::new();
        let mut progress = WaitProgress {
            mark: wait_mark,
            given: None,
            exits: 0,
        };
        let mut iterations = 1_u32;
        // The same for all iterations: they have one frame.
        let ample = stack::is_ample();
        while !event.has_happened() {
            if ample && self.run_own(event, &mut iterations) {
                break;
            }
            thread::point();
            self.watch_clock();
            let others =
                ample && !self.is_isolated() && self.may_take_unrelated(event, &mut progress.given);
            if iterations.is_multiple_of(ITERATIONS_PER_CLOCK_SAMPLE) {
                self.pool().core().observe_time(thread::nanos());
            }
            iterations = iterations.wrapping_add(1);
            let related_only = others
                && !self.running().is_taking_older_first()
                && !backoff.allows_unrelated(event.runner().is_some());
            // As long as nothing is queued, there is nothing to leave alone: the wait searches and
            // sleeps as an idle worker does, and is woken for what it waits for to be shared.
            let park_limit = (others && !related_only)
                .then(|| backoff.park_limit())
                .flatten()
                .filter(|_| self.pool().core().has_work());
            // A wait that leaves unrelated work alone takes no turn of the injector.
            if park_limit.is_none() && self.wants_attention() {
                self.poll_injector_if_due();
            }
            // Futures that wake themselves may never leave the worker's own queue empty.
            if self.running().is_taking_older_first() && self.run_needed_by_wait(event) {
                continue;
            }
            if related_only {
                match self.run_related(event, &backoff, &mut progress.given) {
                    true => backoff.reset(),
                    false => backoff.snooze(event),
                }
                continue;
            }
            let job = if others {
                let pressing = match park_limit {
                    // The turns of the injector are for unrelated work.
                    Some(_) => self.take_addressed(),
                    None => self.running().take_preferred(),
                };
                if let Some(job) = pressing {
                    self.running().stop_search();
                    self.run_unrelated(event, job, &mut progress.given);
                    continue;
                }
                // A wait that leaves unrelated work alone has not checked its mailbox.
                let mail = park_limit.and_then(|_| self.running().take_pinned());
                if mail.is_none() && self.run_oldest_own(event, &mut progress.given) {
                    continue;
                }
                mail
            } else {
                // A search may have raised the mark of the job.
                self.pop_above(self.floor(progress.mark.or_above(self.job_mark())))
            };
            if let Some(job) = job {
                // A worker that runs a task does not count as searching: others rely on searchers
                // to find work.
                self.running().stop_search();
                self.run_popped(job);
                continue;
            }
            if self.run_needed_by_wait(event) {
                continue;
            }
            if !others {
                self.sleep_without_search(event, progress.given.as_ref());
                continue;
            }
            if let Some(time) = park_limit {
                if self.run_from_runner(event, &mut progress.given) {
                    backoff.reset();
                    continue;
                }
                self.running().end_wait();
                self.sleep_for(event, Some(time), None);
                continue;
            }
            self.search_in_wait(event, &mut progress);
        }
        self.end_wait(serving);
    }

    /// Searches for any work and runs it, or sleeps as an idle worker does until `event`.
    fn search_in_wait(&self, event: &impl WaitTarget, progress: &mut WaitProgress) {
        let begin = thread::nanos();
        match self.step_with(|job| self.keep_or_hand_off(event, job, &mut progress.given)) {
            Step::Ran => {
                // The queue was empty: what the search has left in it is unrelated.
                progress.mark = self.mark();
                self.job_mark.set(progress.mark);
                if progress.given.is_none() {
                    WaitBackoff::record_unrelated(begin, thread::nanos());
                }
                progress.exits = 0;
            }
            Step::Idle(_) | Step::Exit if self.skip_time() => {}
            Step::Idle(IdleAction::Yield) => thread::yield_now(),
            Step::Idle(IdleAction::Spin(pauses)) => pause(pauses, event),
            Step::Idle(IdleAction::Park(_)) => {}
            Step::Idle(IdleAction::Poll) => self.poll_driver(),
            Step::Park(token) => {
                let asleep = thread::nanos();
                if !self.skip_time() {
                    self.sleep_until(event, None);
                }
                let slept = thread::nanos().saturating_sub(asleep);
                self.running()
                    .resume_after(token, Duration::from_nanos(slept));
            }
            // The other workers have exited, so this worker will not be woken for work that
            // arrives now.
            Step::Exit => {
                progress.exits += 1;
                match progress.exits {
                    ..=YIELDS_BEFORE_TIMED_PARK => thread::yield_now(),
                    _ => {
                        let factor = progress.exits - YIELDS_BEFORE_TIMED_PARK;
                        let time = TIMED_PARK * factor.min(MAX_TIMED_PARK_FACTOR);
                        self.sleep_for(event, Some(time), None);
                    }
                }
            }
        }
    }

    /// Ends a wait before which this was the kind of serving.
    fn end_wait(&self, serving: Serving) {
        self.running().end_wait();
        self.repeat_alert();
        self.serving.set(serving);
    }

    /// Runs what the current job has queued, as long as nothing else has precedence and no reading
    /// of the clock is due. Returns whether `event` has happened.
    #[inline]
    fn run_own(&self, event: &impl WaitTarget, iterations: &mut u32) -> bool {
        if self.is_isolated() || self.has_clock_work() {
            return false;
        }
        let job_mark = self.job_mark();
        while !iterations.is_multiple_of(ITERATIONS_PER_CLOCK_SAMPLE) {
            // A stolen job leaves the young end above the mark, and each step that is counted
            // brings the turn of the injector closer.
            if !self.has_queued()
                || !self.running().queue().owner().has_tasks_above(job_mark)
                || self.wants_attention()
                || !self.running().try_continue_own()
            {
                return false;
            }
            let Some(job) = self.pop() else {
                return false;
            };
            *iterations = iterations.wrapping_add(1);
            self.running().stop_search();
            self.run_popped(job);
            thread::point();
            if event.has_happened() {
                return true;
            }
        }
        false
    }

    /// Whether a wait for `event` may take unrelated work, now that it has `given` a task to a
    /// substitute or not: the substitute works in place of this worker. If none is free, unrelated
    /// work is left alone, unless it may be needed and no other thread is awake to run it.
    #[inline]
    fn may_take_unrelated(&self, event: &impl WaitTarget, given: &mut Option<GivenJob>) -> bool {
        let replaced = given.as_ref().is_some_and(|given| {
            let needs_more = event.may_be_queued() && given.is_overdue();
            !given.has_returned() && !needs_more
        });
        if replaced {
            return false;
        }
        *given = None;
        !self.lacks_substitute() || event.may_be_queued() && self.is_last_awake()
    }

    /// Hands a submitted task off, or returns a job that may run here.
    fn keep_or_hand_off(
        &self,
        event: &impl WaitTarget,
        job: Job,
        given: &mut Option<GivenJob>,
    ) -> Option<Job> {
        // With jobs of its own to run it does not only wait: as at a leaf.
        let waits = !self.has_queued();
        match self.hand_off(job, waits) {
            HandoffOutcome::Given(now) => {
                match waits {
                    true => *given = Some(now),
                    false => now.pause(),
                }
                None
            }
            // No other thread would run it.
            HandoffOutcome::Refused(job) if event.may_be_queued() && self.is_last_awake() => {
                Some(job)
            }
            HandoffOutcome::Refused(job) => {
                self.running().spawn(job, Placement::Injector);
                self.running().end_wait();
                self.sleep_for(event, Some(TIMED_PARK), None);
                None
            }
            HandoffOutcome::InPlace(job) => Some(job),
        }
    }

    /// Runs a job that may be unrelated to the wait, here or on a substitute.
    fn run_unrelated(&self, event: &impl WaitTarget, job: Job, given: &mut Option<GivenJob>) {
        if let Some(job) = self.keep_or_hand_off(event, job, given) {
            self.run_nested(job);
        }
    }

    /// Runs a job of the worker's own queue, which is unrelated if it was queued before the current
    /// job began. Returns false if there is none.
    fn run_oldest_own(&self, event: &impl WaitTarget, given: &mut Option<GivenJob>) -> bool {
        let related = self
            .running()
            .queue()
            .owner()
            .has_tasks_above(self.job_mark());
        let Some(job) = self.running().take_own() else {
            return false;
        };
        // Also if another thread runs the job.
        self.lower_batch(self.mark());
        // A worker that runs a task does not count as searching: others rely on searchers to find
        // work.
        self.running().stop_search();
        if related {
            self.run_popped(job);
        } else {
            self.running().record_start();
            self.run_unrelated(event, job, given);
        }
        true
    }

    /// Takes an urgent job, or one that this worker is preferred for.
    fn take_addressed(&self) -> Option<Job> {
        let urgent = self.running().take_urgent();
        urgent.or_else(|| self.running().take_affine())
    }

    /// Runs a job that the wait for `event` is likely to depend on: urgent work aside, one that the
    /// current job has enqueued, or one from the queue of the worker that runs what is waited for.
    /// (Stealing from the thief of one's own task is *leapfrogging*: Wagner and Calder, 1993.)
    fn run_related(
        &self,
        event: &impl WaitTarget,
        backoff: &WaitBackoff,
        given: &mut Option<GivenJob>,
    ) -> bool {
        // A stolen job leaves the young end above the mark until the next pop.
        let has_own = self.has_queued()
            && self
                .running()
                .queue()
                .owner()
                .has_tasks_above(self.job_mark());
        // Not at every search: it counts as a step, and other work gets its turn by steps.
        if (has_own || self.pool().core().has_urgent())
            && let Some(job) = self.running().take_preferred()
        {
            self.running().stop_search();
            self.run_unrelated(event, job, given);
            return true;
        }
        if has_own && let Some(job) = self.pop() {
            self.running().stop_search();
            self.run_popped(job);
            return true;
        }
        if self.run_needed_by_wait(event) {
            return true;
        }
        backoff.should_steal() && self.run_from_runner(event, given)
    }

    /// Runs a job from the queue of the worker that runs what is waited for.
    fn run_from_runner(&self, event: &impl WaitTarget, given: &mut Option<GivenJob>) -> bool {
        if let Some(runner) = event.runner()
            && runner != self.worker()
            && let Some(job) = self.running().steal_from(runner)
        {
            // The wait may have searched before.
            self.running().stop_search();
            self.run_unrelated(event, job, given);
            return true;
        }
        false
    }

    /// Runs a job that is in no queue of this worker, and that the wait for `event` may depend on.
    fn run_needed_by_wait(&self, event: &impl WaitTarget) -> bool {
        match event.take_job() {
            Some(job) => {
                self.running().end_wait();
                self.run_nested(job);
                true
            }
            None => self.run_pinned_of_enclosing(),
        }
    }

    /// Parks until `event` has happened, or a substitute has returned that a task was `given` to;
    /// or for `time` if there is a limit.
    fn sleep_for(&self, event: &impl WaitTarget, time: Option<Duration>, given: Option<&GivenJob>) {
        if event.register_sleeper(self.worker()) {
            self.sleep_in_wait(|| self.park(time, || self.is_wait_over(event, given)));
            event.unregister_sleeper();
        }
    }

    /// Whether a wait should sleep no longer.
    fn is_wait_over(&self, event: &impl WaitTarget, given: Option<&GivenJob>) -> bool {
        event.has_happened()
            || event.has_job()
            || self.is_notified()
            || given.is_some_and(GivenJob::has_returned)
    }

    /// Sleeps in a wait that runs nothing unrelated at present.
    fn sleep_without_search(&self, event: &impl WaitTarget, given: Option<&GivenJob>) {
        if self.skip_time() {
            return;
        }
        self.running().end_wait();
        match given {
            // It is not woken when a substitute is free again.
            None if self.lacks_substitute() => self.sleep_for(event, Some(TIMED_PARK), None),
            Some(_) if event.may_be_queued() => self.sleep_for(event, Some(OVERDUE), given),
            _ => self.sleep_until(event, given),
        }
    }

    /// Runs a pinned task from the mailbox of this thread in another pool that it is a worker of:
    /// the sender of the task may be what this wait ultimately depends on.
    fn run_pinned_of_enclosing(&self) -> bool {
        if self.other.is_null() {
            return false;
        }
        let mail = self.enclosing().find_map(|context| {
            // This context is not borrowed, as in `on_enclosing`.
            let job = context.running().take_pinned()?;
            Some((context, job))
        });
        let Some((context, job)) = mail else {
            return false;
        };
        self.running().end_wait();
        context.as_current_again(|context| {
            context.running().stop_search();
            context.run_popped(job);
            context.flush_if_retired();
        });
        true
    }

    /// Whether the worker has a reason to wake up.
    fn is_notified(&self) -> bool {
        self.running().is_notified()
            || self
                .enclosing()
                .any(|context| context.running().has_pinned())
    }

    fn sleep_until(&self, event: &impl WaitTarget, given: Option<&GivenJob>) {
        // Other workers should run what this worker may not run now.
        self.running().notify_deferred();
        // What a task waits for is running already and most often short: when a chain of waits
        // unwinds, each link is set a moment after the one before, and being woken for each would
        // cost a hundred times as much (`filch-bench traps`, case `spine_right`).
        for round in 1..=thread::spin_limit(CHECKS_BEFORE_PARK) {
            if self.is_wait_over(event, given) {
                return;
            }
            if round % 16 == 0 {
                thread::yield_now();
            }
            pause(8, event);
        }
        self.sleep_for(event, None, given);
    }
}
