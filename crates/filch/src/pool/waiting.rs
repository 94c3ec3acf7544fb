//! Waits inside a task for an event, the *target*, and runs other jobs meanwhile.
//!
//! Each iteration of a wait has a [scope](WaitScope), which the back-off
//! ([`backoff`](super::backoff)) and the state of the worker decide. It runs at most one job of its
//! scope, or sleeps:
//!
//! | scope | runs | else |
//! |---|---|---|
//! | `Own`: isolated, little stack left, or replaced by a substitute | jobs queued since the wait or the isolation began, pinned jobs | sleeps until the target |
//! | `Related` | urgent jobs; what the current job has queued; jobs of the worker that runs the target | pauses |
//! | `Delayed` | the same, affine and pinned jobs | parks for the time that is left |
//! | `Any` | everything | searches, then sleeps as an idle worker does |
//!
//! Before that, an iteration runs what the current job has queued, without any check but one
//! ([`run_own`](WorkerContext::run_own)): most waits end there.

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

/// How long a wait parks at first where it would not be woken for work. A complete search, with its
/// pauses, takes some hundred microseconds.
const TIMED_PARK: Duration = Duration::from_millis(1);

/// The maximum multiple of [`TIMED_PARK`]: each unsuccessful search adds one, up to this.
const MAX_TIMED_PARK_FACTOR: u32 = 16;

/// Number of searches, with a yield after each, before the first timed park: most such waits are
/// short.
const YIELDS_BEFORE_TIMED_PARK: u32 = 8;

/// Number of iterations of a wait between two readings of the clock for Low tasks, which get turns
/// by the time that they have waited.
const ITERATIONS_PER_CLOCK_SAMPLE: u32 = 64;

/// What a wait runs at present; see the module.
enum WaitScope {
    Own,
    Related,
    /// The longest time to park.
    Delayed(Duration),
    Any,
}

/// The state of a wait.
struct WaitProgress {
    /// What was queued since this mark belongs to what is waited for.
    mark: Mark,
    backoff: WaitBackoff,
    /// The last task that was handed off, while its substitute works in place of this worker.
    given: Option<GivenJob>,
    /// The number of jobs and searches so far.
    iterations: u32,
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
    /// Runs other jobs until `target` has happened, and sleeps when there are none.
    ///
    /// What has been queued since `wait_mark` belongs to what is waited for. When the stack is no
    /// longer ample, only that is run, and pinned jobs; in an isolated task what was queued since
    /// the isolation began.
    pub(crate) fn wait(&self, target: &dyn WaitTarget, wait_mark: Mark) {
        let listed = ListedTarget {
            target,
            waiting: Waiting::new(WaitList::global()),
        };
        self.with_wait_target(target, || self.wait_for(&listed, wait_mark));
    }

    fn wait_for(&self, target: &impl WaitTarget, wait_mark: Mark) {
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        // Jobs that run in a wait are not served at a checkpoint.
        let serving = self.serving.replace(Serving::No);
        let mut progress = WaitProgress {
            mark: wait_mark,
            backoff: WaitBackoff::new(),
            given: None,
            iterations: 1,
            exits: 0,
        };
        // The same for all iterations: they have one frame.
        let ample = stack::is_ample();
        while !target.has_happened() {
            if ample && self.run_own(target, &mut progress) {
                break;
            }
            thread::point();
            self.watch_clock();
            let others =
                ample && !self.is_isolated() && self.update_handoff(target, &mut progress.given);
            if progress
                .iterations
                .is_multiple_of(ITERATIONS_PER_CLOCK_SAMPLE)
            {
                self.pool().core().observe_time(thread::nanos());
            }
            progress.iterations = progress.iterations.wrapping_add(1);
            let scope = match others {
                true => self.wait_scope(target, &mut progress.backoff),
                false => WaitScope::Own,
            };
            // A wait that leaves unrelated work alone takes no turn of the injector.
            if !matches!(scope, WaitScope::Delayed(_)) && self.wants_attention() {
                self.poll_injector_if_due();
            }
            // Futures that wake themselves may never leave the worker's own queue empty.
            if self.running().is_taking_older_first() && self.run_needed_by_wait(target) {
                continue;
            }
            match scope {
                WaitScope::Own => self.run_own_or_sleep(target, &progress),
                WaitScope::Related => match self.run_related(target, &mut progress) {
                    true => progress.backoff.reset(),
                    false => progress.backoff.snooze(target),
                },
                WaitScope::Delayed(time) => self.run_related_or_park(target, time, &mut progress),
                WaitScope::Any => self.run_any_or_sleep(target, &mut progress),
            }
        }
        self.end_wait(serving);
    }

    /// What a wait that may take unrelated work takes now.
    fn wait_scope(&self, target: &impl WaitTarget, backoff: &mut WaitBackoff) -> WaitScope {
        if !self.running().is_taking_older_first()
            && !backoff.allows_unrelated(target.runner().is_some())
        {
            return WaitScope::Related;
        }
        // As long as nothing is queued, there is nothing to leave alone: the wait searches and
        // sleeps as an idle worker does, and is woken for what it waits for to be shared.
        match backoff.park_limit() {
            Some(time) if self.pool().core().has_work() => WaitScope::Delayed(time),
            _ => WaitScope::Any,
        }
    }

    /// One iteration of a wait that runs only what was queued since it or the isolation began, and
    /// pinned jobs.
    fn run_own_or_sleep(&self, target: &impl WaitTarget, progress: &WaitProgress) {
        // A search may have raised the mark of the job.
        let floor = self.floor(progress.mark.later(self.job_mark()));
        if let Some(job) = self.pop_above(floor) {
            self.run_taken(job);
        } else if !self.run_needed_by_wait(target) {
            self.sleep_without_search(target, progress.given.as_ref());
        }
    }

    /// One iteration of a wait that leaves unrelated work alone for some time.
    fn run_related_or_park(
        &self,
        target: &impl WaitTarget,
        time: Duration,
        progress: &mut WaitProgress,
    ) {
        // The turns of the injector are for unrelated work.
        if let Some(job) = self.take_addressed() {
            self.running().stop_search();
            self.run_unrelated(target, job, &mut progress.given);
        } else if let Some(job) = self.running().take_pinned() {
            self.run_taken(job);
        } else if !self.run_newest_own(target, progress) && !self.run_needed_by_wait(target) {
            if self.run_from_runner(target, &mut progress.given) {
                progress.backoff.reset();
                return;
            }
            self.stop_search_and_notify();
            self.sleep_for(target, Some(time), None);
        }
    }

    /// One iteration of a wait that runs any work.
    fn run_any_or_sleep(&self, target: &impl WaitTarget, progress: &mut WaitProgress) {
        if let Some(job) = self.running().take_preferred() {
            self.running().stop_search();
            self.run_unrelated(target, job, &mut progress.given);
        } else if !self.run_newest_own(target, progress) && !self.run_needed_by_wait(target) {
            self.search_in_wait(target, progress);
        }
    }

    /// Runs a job of this worker, which a wait has just taken. A worker that runs a job does not
    /// count as searching: others rely on searchers to find work.
    fn run_taken(&self, job: Job) {
        self.running().stop_search();
        self.run_popped(job);
    }

    /// Searches for any work and runs it, or sleeps as an idle worker does until `target`.
    fn search_in_wait(&self, target: &impl WaitTarget, progress: &mut WaitProgress) {
        let (begin, mut ran_here) = (thread::nanos(), false);
        let step = self.step_with(|job| {
            let job = self.keep_or_hand_off(target, job, &mut progress.given);
            ran_here = job.is_some();
            job
        });
        match step {
            Step::Ran => {
                // The queue was empty: what the search has left in it is unrelated.
                progress.mark = self.mark();
                self.job_mark.set(progress.mark);
                self.searched.set(true);
                if ran_here {
                    WaitBackoff::record_unrelated(begin, thread::nanos());
                }
                progress.exits = 0;
            }
            Step::Idle(_) | Step::Exit if self.skip_time() => {}
            Step::Idle(IdleAction::Yield) => thread::yield_now(),
            Step::Idle(IdleAction::Spin(pauses)) => pause(pauses, target),
            Step::Idle(IdleAction::Park(_)) => {}
            Step::Idle(IdleAction::Poll) => self.poll_driver(),
            Step::Park(token) => {
                let asleep = thread::nanos();
                if !self.skip_time() {
                    self.sleep_until(target, None);
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
                        self.sleep_for(target, Some(time), None);
                    }
                }
            }
        }
    }

    /// Ends a wait. `serving` is what was being served before it began.
    fn end_wait(&self, serving: Serving) {
        self.running().end_wait();
        self.repeat_alert();
        self.serving.set(serving);
    }

    /// Makes this worker stop searching in the middle of a wait, before it runs a job or sleeps
    /// without a search, and wakes sleepers for jobs that were queued without a notification.
    fn stop_search_and_notify(&self) {
        self.running().end_wait();
    }

    /// Runs what the current job has queued, as long as nothing else has precedence and no reading
    /// of the clock is due. Returns whether `target` has happened.
    #[inline]
    fn run_own(&self, target: &impl WaitTarget, progress: &mut WaitProgress) -> bool {
        if self.is_isolated() || self.has_clock_work() {
            return false;
        }
        while !progress
            .iterations
            .is_multiple_of(ITERATIONS_PER_CLOCK_SAMPLE)
        {
            // A search in a nested wait may have raised it.
            let job_mark = self.job_mark();
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
            progress.iterations = progress.iterations.wrapping_add(1);
            progress.backoff.reset();
            self.run_taken(job);
            thread::point();
            if target.has_happened() {
                return true;
            }
        }
        false
    }

    /// Whether a wait for `target` may take unrelated work, now that it has `given` a task to a
    /// substitute or not: the substitute works in place of this worker. If none is free, unrelated
    /// work is left alone, unless it may be needed and no other thread is awake to run it.
    #[inline]
    fn update_handoff(&self, target: &impl WaitTarget, given: &mut Option<GivenJob>) -> bool {
        let replaced = given.as_ref().is_some_and(|given| {
            let needs_more = target.may_be_queued() && given.is_overdue();
            !given.has_returned() && !needs_more
        });
        if replaced {
            return false;
        }
        *given = None;
        !self.lacks_substitute() || target.may_be_queued() && self.is_last_awake()
    }

    /// Hands a submitted task off, or returns a job that may run here. If no substitute is free,
    /// the task is queued again, and the wait sleeps for a moment.
    fn keep_or_hand_off(
        &self,
        target: &impl WaitTarget,
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
            HandoffOutcome::Refused(job) if target.may_be_queued() && self.is_last_awake() => {
                Some(job)
            }
            HandoffOutcome::Refused(job) => {
                self.running().spawn(job, Placement::Injector);
                self.stop_search_and_notify();
                self.sleep_for(target, Some(TIMED_PARK), None);
                None
            }
            HandoffOutcome::InPlace(job) => Some(job),
        }
    }

    /// Runs a job that may be unrelated to the wait, here or on a substitute.
    fn run_unrelated(&self, target: &impl WaitTarget, job: Job, given: &mut Option<GivenJob>) {
        if let Some(job) = self.keep_or_hand_off(target, job, given) {
            self.run_nested(job);
        }
    }

    /// Runs a job of the worker's own queue, which is unrelated if it was queued before the current
    /// job began. Returns false if there is none.
    fn run_newest_own(&self, target: &impl WaitTarget, progress: &mut WaitProgress) -> bool {
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
        self.lower_job_mark(self.mark());
        if related {
            // The next iteration takes a turn that is due, which a wait without related work leaves
            // alone; until then no strand of a graph continues.
            progress.backoff.reset();
            self.run_taken(job);
        } else {
            self.running().stop_search();
            self.running().record_start();
            self.run_unrelated(target, job, &mut progress.given);
        }
        true
    }

    /// Takes an urgent job, or one that this worker is preferred for.
    fn take_addressed(&self) -> Option<Job> {
        let urgent = self.running().take_urgent();
        urgent.or_else(|| self.running().take_affine())
    }

    /// Runs a job that the wait for `target` is likely to depend on: urgent work aside, one that
    /// the current job has enqueued, or one from the queue of the worker that runs what is waited
    /// for. (Stealing from the thief of one's own task is *leapfrogging*: Wagner and Calder, 1993.)
    fn run_related(&self, target: &impl WaitTarget, progress: &mut WaitProgress) -> bool {
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
            self.run_unrelated(target, job, &mut progress.given);
            return true;
        }
        if has_own && let Some(job) = self.pop() {
            self.run_taken(job);
            return true;
        }
        self.run_needed_by_wait(target)
            || progress.backoff.should_steal() && self.run_from_runner(target, &mut progress.given)
    }

    /// Runs a job from the queue of the worker that runs what is waited for.
    fn run_from_runner(&self, target: &impl WaitTarget, given: &mut Option<GivenJob>) -> bool {
        if let Some(runner) = target.runner()
            && runner != self.worker()
            && let Some(job) = self.running().steal_from(runner)
        {
            // The wait may have searched before.
            self.running().stop_search();
            self.run_unrelated(target, job, given);
            return true;
        }
        false
    }

    /// Runs a job that is in no queue of this worker, and that the wait for `target` may depend on.
    fn run_needed_by_wait(&self, target: &impl WaitTarget) -> bool {
        match target.take_job() {
            Some(job) => {
                self.stop_search_and_notify();
                self.run_nested(job);
                true
            }
            None => self.run_pinned_of_enclosing(),
        }
    }

    /// Parks until `target` has happened, or a substitute has returned that a task was `given` to;
    /// or for `time` if there is a limit.
    fn sleep_for(
        &self,
        target: &impl WaitTarget,
        time: Option<Duration>,
        given: Option<&GivenJob>,
    ) {
        if target.register_sleeper(self.worker()) {
            self.sleep_in_wait(|| self.park(time, || self.is_wait_over(target, given)));
            target.unregister_sleeper();
        }
    }

    /// Whether a wait should sleep no longer.
    fn is_wait_over(&self, target: &impl WaitTarget, given: Option<&GivenJob>) -> bool {
        target.has_happened()
            || target.has_job()
            || self.is_notified()
            || given.is_some_and(GivenJob::has_returned)
    }

    /// Sleeps in a wait that runs nothing unrelated at present.
    fn sleep_without_search(&self, target: &impl WaitTarget, given: Option<&GivenJob>) {
        if self.skip_time() {
            return;
        }
        self.stop_search_and_notify();
        match given {
            // It is not woken when a substitute is free again.
            None if self.lacks_substitute() => self.sleep_for(target, Some(TIMED_PARK), None),
            Some(_) if target.may_be_queued() => self.sleep_for(target, Some(OVERDUE), given),
            _ => self.sleep_until(target, given),
        }
    }

    /// Runs a pinned task from the mailbox of this thread in another pool that it is a worker of:
    /// the sender of the task may be what this wait ultimately depends on.
    fn run_pinned_of_enclosing(&self) -> bool {
        if self.other.is_null() {
            return false;
        }
        let mail = self.enclosing().find_map(|context| {
            // This context is not borrowed, as in `call_on_enclosing`.
            let job = context.running().take_pinned()?;
            Some((context, job))
        });
        let Some((context, job)) = mail else {
            return false;
        };
        self.stop_search_and_notify();
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

    /// Sleeps until `target` has happened, or the worker is notified, after some checks.
    fn sleep_until(&self, target: &impl WaitTarget, given: Option<&GivenJob>) {
        // Other workers should run what this worker may not run now.
        self.running().notify_deferred();
        // What a task waits for is running already and most often short: when a chain of waits
        // unwinds, each link is set a moment after the one before, and being woken for each would
        // cost a hundred times as much (`filch-bench traps`, case `spine_right`).
        for round in 1..=thread::spin_limit(CHECKS_BEFORE_PARK) {
            if self.is_wait_over(target, given) {
                return;
            }
            if round % 16 == 0 {
                thread::yield_now();
            }
            pause(8, target);
        }
        self.sleep_for(target, None, given);
    }
}
