//! Runs other jobs nested in a task that does not wait for any of them in particular.

use super::{context::WorkerContext, current_task, job::Job};
use crate::{
    base::thread,
    engine::{Core, Mark, PerWorker, Step},
    observe::Counters,
    threads::{ClockSampler, timer::Timer},
};
use std::{cell::Cell, mem};

/// The maximum number of jobs that one checkpoint serves: some tens of microseconds, if they are as
/// short as polls of futures should be.
const MAX_PER_CHECKPOINT: usize = 16;

/// The maximum nesting depth of served jobs on one stack: a job that is served at a checkpoint may
/// itself reach a checkpoint. Without a limit, ten thousand woken futures with a checkpoint each
/// would nest in one another, and the first would end last.
const MAX_NESTED_SERVES: u8 = 4;

/// The shortest time between two tasks of the injector that a worker serves inside a task, in
/// nanoseconds. The same as between two tasks (`threads::maintenance`).
const INJECTOR_DELAY_NANOS: u64 = 200_000;

/// The maximum number of calls of [`WorkerContext::is_attention_due`] between two readings of the
/// clock. If leaves are long after many short ones, this number of them passes before the injector
/// is served.
const MAX_CHECKS_BETWEEN_SAMPLES: u32 = 7;

thread_local! {
    /// The number of served jobs on the stack of this thread.
    static SERVED: Cell<u8> = const { Cell::new(0) };

    /// When this thread serves the injector inside a task.
    static INJECTOR: Cell<InjectorClock> = const { Cell::new(InjectorClock::new()) };
}

/// Decides when tasks of the injector run inside other tasks.
#[derive(Clone, Copy)]
struct InjectorClock {
    sampler: ClockSampler,
    /// When the injector was last served.
    served: u64,
    /// The injector is due to be served, and has not been served yet.
    due: bool,
}

impl InjectorClock {
    const fn new() -> Self {
        Self {
            sampler: ClockSampler::new(MAX_CHECKS_BETWEEN_SAMPLES),
            served: 0,
            due: false,
        }
    }

    /// Checks, while tasks are in the injector, whether they are due to be served.
    fn check(&mut self) -> bool {
        if !self.due && self.sampler.tick() {
            let now = thread::nanos();
            self.sampler.record(now);
            if now.saturating_sub(self.served) >= INJECTOR_DELAY_NANOS {
                (self.served, self.due) = (now, true);
            }
        }
        self.due
    }
}

/// Which jobs a checkpoint serves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serve {
    /// Urgent tasks and futures.
    Urgent,
    /// Urgent tasks and futures, and tasks from outside when they are due.
    All,
}

/// A cheap check whether a job should yield to other work.
pub(crate) struct Urgency<'a>(&'a Core<Job, PerWorker, Counters>);

impl Urgency<'_> {
    /// Whether [`WorkerContext::should_give_way`] is worth a call.
    #[inline(always)]
    pub(crate) fn is_raised(&self) -> bool {
        let timer = Timer::global();
        self.0.has_urgent()
            || self.0.wants_attention()
            || timer.is_waited_for() && timer.poll_clock()
    }
}

impl WorkerContext<'_, '_> {
    /// Runs one job, if there is one that this worker may run now.
    pub(crate) fn help_once(&self) -> bool {
        self.help(1) == 1
    }

    /// Runs at most `most` jobs, as long as there are any that this worker may run now. Returns
    /// their number.
    pub(crate) fn help(&self, most: usize) -> usize {
        if self.has_isolated_waits() {
            return 0;
        }
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        let ran = (0..most)
            .take_while(|_| matches!(self.step(), Step::Ran))
            .count();
        self.running().end_wait();
        ran
    }

    /// [`help`](Self::help) for a task that waits for something, and cannot continue before the
    /// jobs have run that it has enqueued. Where waits are isolated, only those jobs run, and those
    /// of the mailbox.
    pub(crate) fn help_in_wait(&self, most: usize) -> usize {
        if !self.has_isolated_waits() {
            return self.help(most);
        }
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        let floor = self.floor(self.job_mark());
        let mut ran = 0;
        while ran < most
            && let Some(job) = self.pop_above(floor)
        {
            self.run_popped(job);
            ran += 1;
        }
        self.running().end_wait();
        ran
    }

    /// Runs one job of this worker's own queue, or of its mailbox, if it may run it now.
    pub(crate) fn help_itself(&self) -> bool {
        let job = match self.isolated.get() {
            Some(mark) => self.pop_above(mark),
            None if self.has_isolated_waits() => self.running().take_pinned(),
            None => self.pop().or_else(|| self.running().take_pinned()),
        };
        let Some(job) = job else {
            return false;
        };
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        self.run_popped(job);
        // The task continues, for an unknown time.
        self.running().end_wait();
        true
    }

    /// Whether a job that can continue later should return here, so that other work runs first.
    pub(crate) fn should_give_way(&self) -> bool {
        if Timer::global().is_due() {
            self.wake_due();
        }
        if self.has_isolated_waits() {
            return false;
        }
        if self.pool().core().has_urgent() {
            return true;
        }
        self.poll_injector_if_due()
    }

    /// Makes the worker's next step take a task from the injector, if the injector is due. Returns
    /// whether there is work that should run before what this worker has queued.
    #[cold]
    pub(super) fn poll_injector_if_due(&self) -> bool {
        let due = self.is_attention_due();
        if due && self.take_injectors_turn() {
            self.running().make_injector_due();
        }
        due
    }

    /// A checkpoint in a long task: runs urgent tasks and futures nested in it. Returns whether any
    /// ran.
    #[inline(always)]
    pub(crate) fn checkpoint(&self) -> bool {
        if self.mark_poll_long() {
            self.notify_deferred();
        }
        self.has_urgent() && self.serve(Serve::Urgent)
    }

    /// A checkpoint between two leaves of a computation that occupies this worker for long: tasks
    /// from outside may run here too. Returns whether any ran.
    #[inline(always)]
    pub(crate) fn leaf_checkpoint(&self) -> bool {
        if self.mark_poll_long() {
            self.notify_deferred();
        }
        self.watch_clock();
        self.preempt()
    }

    /// Runs other work here if this worker is requested to serve it. Returns whether any ran.
    #[inline(always)]
    pub(crate) fn preempt(&self) -> bool {
        let core = self.pool().core();
        (core.wants_attention() || core.has_urgent()) && self.preempt_slowly()
    }

    #[cold]
    #[inline(never)]
    fn preempt_slowly(&self) -> bool {
        self.is_attention_due() && self.serve(Serve::All)
    }

    /// Whether there is work that should run before what this worker has queued: urgent work, or a
    /// task from outside that is due.
    #[cold]
    pub(super) fn is_attention_due(&self) -> bool {
        let core = self.pool().core();
        if core.has_urgent() || self.running().has_affine() {
            return true;
        }
        if core.injected() == 0 {
            core.settle_attention();
            return false;
        }
        // `Pool::on_worker` guarantees one of the pool's own threads, so guests do not take from
        // the injector.
        if self.is_guest() {
            return false;
        }
        let mut clock = INJECTOR.get();
        let due = clock.check();
        INJECTOR.set(clock);
        due
    }

    /// Returns whether the injector is due to be served, and clears that state.
    fn take_injectors_turn(&self) -> bool {
        let mut clock = INJECTOR.get();
        let due = mem::take(&mut clock.due);
        INJECTOR.set(clock);
        due
    }

    /// Returns a cheap check for callers that need one every few nanoseconds.
    #[inline(always)]
    pub(crate) fn urgency(&self) -> Urgency<'_> {
        Urgency(self.pool().core())
    }

    /// Runs unrelated work nested in the current task. Runs nothing where waits are isolated.
    ///
    /// What the served jobs enqueue without waiting for it goes to the shared queues, as if it came
    /// from outside. In the worker's own queue it would be above what the current task has
    /// enqueued, and the task's next join would run it.
    #[cold]
    #[inline(never)]
    fn serve(&self, what: Serve) -> bool {
        struct RestoreServing<'a>(&'a Cell<bool>, bool, u8);
        impl Drop for RestoreServing<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
                SERVED.set(self.2);
            }
        }
        let depth = SERVED.get();
        if self.has_isolated_waits() || depth >= MAX_NESTED_SERVES {
            return false;
        }
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        SERVED.set(depth + 1);
        let back = RestoreServing(&self.serving, self.serving.replace(true), depth);
        // No wait target of another task: jobs that run here do not continue with more of their
        // kind.
        let served = self.with_wait_target(self, || {
            (0..MAX_PER_CHECKPOINT)
                .map_while(|_| self.take_served(what))
                .map(|job| self.run_nested(job))
                .count()
        });
        drop(back);
        // The task continues, for an unknown time.
        self.notify_deferred();
        served > 0
    }

    fn take_served(&self, what: Serve) -> Option<Job> {
        let running = self.running();
        if let urgent @ Some(_) = running.take_urgent() {
            return urgent;
        }
        if what == Serve::Urgent {
            return None;
        }
        if let affine @ Some(_) = running.take_affine() {
            return affine;
        }
        (self.take_injectors_turn() && !self.is_guest())
            .then(|| running.take_injected())
            .flatten()
    }

    /// Whether a job runs here nested in another task, at a checkpoint of it.
    #[inline(always)]
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.get()
    }

    /// Advances an auto-advancing clock, because nothing can be run here: the clock of this pool,
    /// or of another one whose task this thread runs. Returns whether one advanced.
    pub(crate) fn skip_time(&self) -> bool {
        let skip = |context: &WorkerContext<'_, '_>| {
            context.pool().threads() == 0 && context.pool().skip_time(context.has_isolated_waits())
        };
        skip(self) || self.below().any(skip)
    }

    /// Takes the newest job of this worker that was queued since `mark`, or one from its mailbox.
    pub(super) fn pop_above(&self, mark: Mark) -> Option<Job> {
        if self.running().is_taking_older_first() {
            self.running().move_newest_behind(mark);
            // Jobs that are re-enqueued repeatedly would starve the mailbox too.
            if let pinned @ Some(_) = self.running().take_pinned() {
                return pinned;
            }
        }
        if self.running().queue().owner().is_above(mark)
            && let Some(job) = self.pop()
        {
            return Some(job);
        }
        self.running().take_pinned()
    }
}
