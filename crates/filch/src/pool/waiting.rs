//! Waits for an event inside a task, and runs other jobs meanwhile.

use super::{
    backoff::{WaitBackoff, pause},
    context::WorkerContext,
    current_task,
    job::Job,
    latch::WaitTarget,
};
use crate::{
    base::{sys::stack, thread},
    engine::{IdleAction, Mark, Step},
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

impl WorkerContext<'_, '_> {
    /// Runs other jobs until `event` has happened, and sleeps when there are none.
    ///
    /// What has been queued since `wait_mark` belongs to what is waited for. When the task is
    /// isolated, or the stack is no longer ample, only that is run, and the jobs of the mailbox.
    pub(crate) fn wait(&self, event: &impl WaitTarget, wait_mark: Mark) {
        self.with_wait_target(event, || self.wait_for(event, wait_mark));
    }

    fn wait_for(&self, event: &impl WaitTarget, wait_mark: Mark) {
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        // Jobs that run in a wait are not served at a checkpoint.
        let serving = self.serving.replace(false);
        let mut backoff = WaitBackoff::new();
        let (mut exits, mut iterations) = (0, 1_u32);
        // The same for all iterations: they have one frame.
        let ample = stack::is_ample();
        while !event.happened() {
            if ample && self.run_own(event, &mut iterations) {
                break;
            }
            thread::point();
            self.watch_clock();
            let others = ample && !self.is_isolated();
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
            if park_limit.is_none() && self.pool().core().wants_attention() {
                self.poll_injector_if_due();
            }
            // Futures that wake themselves may never leave the worker's own queue empty.
            if self.running().is_taking_older_first() && self.run_beside(event) {
                continue;
            }
            if related_only {
                match self.run_related(event, &backoff) {
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
                    self.run_nested(job);
                    continue;
                }
                // A wait that leaves unrelated work alone has not looked into its mailbox.
                let mail = park_limit.and_then(|_| self.running().take_pinned());
                mail.or_else(|| self.running().take_own())
            } else {
                self.pop_above(self.floor(wait_mark))
            };
            if let Some(job) = job {
                // A worker that runs a task does not count as searching: others rely on searchers
                // to find work.
                self.running().stop_search();
                self.run_popped(job);
                continue;
            }
            if self.run_beside(event) {
                continue;
            }
            if !others {
                if !self.skip_time() {
                    self.sleep_until(event);
                }
                continue;
            }
            if let Some(time) = park_limit {
                if self.run_from_runner(event) {
                    backoff.reset();
                    continue;
                }
                self.running().end_wait();
                self.sleep_for(event, Some(time));
                continue;
            }
            let begin = thread::nanos();
            match self.step() {
                Step::Ran => {
                    WaitBackoff::record_unrelated(begin, thread::nanos());
                    exits = 0;
                }
                Step::Idle(_) | Step::Exit if self.skip_time() => {}
                Step::Idle(IdleAction::Yield) => thread::yield_now(),
                Step::Idle(IdleAction::Spin(pauses)) => pause(pauses, event),
                Step::Idle(IdleAction::Park(_)) => {}
                Step::Idle(IdleAction::Poll) => self.poll_driver(),
                Step::Park(ticket) => {
                    let asleep = thread::nanos();
                    if !self.skip_time() {
                        self.sleep_until(event);
                    }
                    let slept = thread::nanos().saturating_sub(asleep);
                    self.running()
                        .resume_after(ticket, Duration::from_nanos(slept));
                }
                // The other workers have exited, so this worker will not be woken for work that
                // arrives now.
                Step::Exit => {
                    exits += 1;
                    match exits {
                        ..=YIELDS_BEFORE_TIMED_PARK => thread::yield_now(),
                        _ => {
                            let factor = exits - YIELDS_BEFORE_TIMED_PARK;
                            let time = TIMED_PARK * factor.min(MAX_TIMED_PARK_FACTOR);
                            self.sleep_for(event, Some(time));
                        }
                    }
                }
            }
        }
        self.running().end_wait();
        self.serving.set(serving);
    }

    /// Runs what the current job has queued, as long as nothing else has precedence and no reading
    /// of the clock is due. Returns whether `event` has happened.
    #[inline]
    fn run_own(&self, event: &impl WaitTarget, iterations: &mut u32) -> bool {
        if self.is_isolated() || self.watches_clock() {
            return false;
        }
        let (core, job_mark) = (self.pool().core(), self.job_mark());
        while !iterations.is_multiple_of(ITERATIONS_PER_CLOCK_SAMPLE) {
            if !self.has_queued()
                || !self.running().queue().owner().is_above(job_mark)
                || core.wants_attention()
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
            if event.happened() {
                return true;
            }
        }
        false
    }

    /// Takes an urgent job, or one that this worker is preferred for.
    fn take_addressed(&self) -> Option<Job> {
        let running = self.running();
        running.take_urgent().or_else(|| running.take_affine())
    }

    /// Runs a job that the wait for `event` is likely to depend on: urgent work aside, one that the
    /// current job has enqueued, or one from the queue of the worker that runs what is waited for.
    /// (Stealing from the thief of one's own task is *leapfrogging*: Wagner and Calder, 1993.)
    fn run_related(&self, event: &impl WaitTarget, backoff: &WaitBackoff) -> bool {
        // A stolen job leaves the young end above the mark until the next pop.
        let has_own = self.has_queued() && self.running().queue().owner().is_above(self.job_mark());
        // Not at every search: it counts as a step, and other work gets its turn by steps.
        if (has_own || self.pool().core().has_urgent())
            && let Some(job) = self.running().take_preferred()
        {
            self.running().stop_search();
            self.run_nested(job);
            return true;
        }
        if has_own && let Some(job) = self.pop() {
            self.running().stop_search();
            self.run_popped(job);
            return true;
        }
        if self.run_beside(event) {
            return true;
        }
        backoff.should_steal() && self.run_from_runner(event)
    }

    /// Runs a job from the queue of the worker that runs what is waited for.
    fn run_from_runner(&self, event: &impl WaitTarget) -> bool {
        if let Some(runner) = event.runner()
            && runner != self.worker()
            && let Some(job) = self.running().steal_from(runner)
        {
            // The wait may have searched before.
            self.running().stop_search();
            self.run_nested(job);
            return true;
        }
        false
    }

    /// Runs a job that is in no queue of this worker, and that the wait for `event` may depend on.
    fn run_beside(&self, event: &impl WaitTarget) -> bool {
        match event.take_job() {
            Some(job) => {
                self.running().end_wait();
                self.run_nested(job);
                true
            }
            None => self.run_pinned_below(),
        }
    }

    /// Parks until `event` has happened, or for `time` if there is a limit.
    fn sleep_for(&self, event: &impl WaitTarget, time: Option<Duration>) {
        if event.register_sleeper(self.worker()) {
            let is_over = || event.happened() || event.has_job() || self.is_notified();
            self.park(time, is_over);
            event.unregister_sleeper();
        }
    }

    /// Runs a pinned task from the mailbox of this thread in another pool that it is a worker of:
    /// the sender of the task may be what this wait ultimately depends on.
    fn run_pinned_below(&self) -> bool {
        if self.other.is_null() {
            return false;
        }
        let mail = self.below().find_map(|context| {
            // This context is not borrowed, as in `on_outer`.
            let job = context.running().take_pinned()?;
            Some((context, job))
        });
        let Some((context, job)) = mail else {
            return false;
        };
        self.running().end_wait();
        context.as_covering(|context| {
            context.running().stop_search();
            context.run_popped(job);
            context.rest_if_retired();
        });
        true
    }

    /// Whether the worker has a reason to wake up.
    fn is_notified(&self) -> bool {
        self.running().is_notified() || self.below().any(|context| context.running().has_pinned())
    }

    fn sleep_until(&self, event: &impl WaitTarget) {
        // Other workers should run what this worker may not run now.
        self.running().notify_deferred();
        // What a task waits for is running already and most often short: when a chain of waits
        // unwinds, each link is set a moment after the one before, and being woken for each would
        // cost a hundred times as much (`filch-bench traps`, case `spine_right`).
        for round in 1..=thread::spin_limit(CHECKS_BEFORE_PARK) {
            if event.happened() || event.has_job() || self.is_notified() {
                return;
            }
            if round % 16 == 0 {
                thread::yield_now();
            }
            pause(8, event);
        }
        self.sleep_for(event, None);
    }
}
