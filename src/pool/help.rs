//! A worker runs other jobs in the middle of a task that does not wait for any of them in particular.

use super::{context::WorkerContext, job::Job, task};
use crate::{
    base::thread,
    engine::{Core, Mark, PerWorker, Step},
    observe::Counters,
    threads::{ClockSampler, timer::Timer},
};
use std::{cell::Cell, mem};

/// How many jobs one checkpoint serves at most: some tens of microseconds, if they are as short as
/// futures are meant to be.
const MAX_PER_CHECKPOINT: usize = 16;

/// How deep served jobs nest on one stack: a job that is served at a checkpoint may itself come to a
/// checkpoint. Without a limit, ten thousand woken futures with a checkpoint each would nest in one
/// another, and the first would end last.
const NESTED: u8 = 4;

/// How long a worker inside of a task sees tasks in the injector before it gives them a turn, in
/// nanoseconds: as long as between two tasks (`threads::maintenance`). Until then a worker that is between two
/// tasks may take them, which delays no task that is under way.
const TURN: u64 = 200_000;

/// How many checks of [`WorkerContext::is_attention_due`] pass between two readings of the clock at most. If
/// leaves are long after many short ones, that is how many of them pass before the injector's turn.
const CHECKS: u32 = 7;

thread_local! {
    /// How many served jobs are on the stack of this thread.
    static SERVED: Cell<u8> = const { Cell::new(0) };

    /// When this thread gives the injector a turn inside of a task.
    static INJECTOR: Cell<InjectorClock> = const { Cell::new(InjectorClock::new()) };
}

/// Decides when the injector has a turn inside of tasks.
#[derive(Clone, Copy)]
struct InjectorClock {
    sampler: ClockSampler,
    /// When tasks were first seen there, or had their last turn; zero if none were there at the last check.
    since: u64,
    /// A turn is due that has not been taken.
    due: bool,
}

impl InjectorClock {
    const fn new() -> Self {
        Self {
            sampler: ClockSampler::new(CHECKS),
            since: 0,
            due: false,
        }
    }

    /// Tasks are in the injector. Whether it is their turn.
    fn check(&mut self) -> bool {
        if !self.due && (self.since == 0 || self.sampler.tick()) {
            let now = thread::nanos().max(1);
            self.sampler.record(now);
            if self.since == 0 {
                self.since = now;
            } else if now.saturating_sub(self.since) >= TURN {
                (self.since, self.due) = (now, true);
            }
        }
        self.due
    }

    /// The injector is empty.
    fn reset(&mut self) {
        (self.since, self.due) = (0, false);
    }
}

/// What a checkpoint serves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serve {
    /// Urgent tasks and futures.
    Urgent,
    /// Those, and tasks from outside when it is their turn.
    All,
}

/// Where to see whether a job should give way.
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

    /// Runs at most so many jobs, as long as there are any that this worker may run now; says how many.
    pub(crate) fn help(&self, most: usize) -> usize {
        if self.has_isolated_waits() {
            return 0;
        }
        let _aside = task::set_aside();
        self.poll_is_long();
        let ran = (0..most)
            .take_while(|_| matches!(self.step(), Step::Ran))
            .count();
        self.running().settle();
        ran
    }

    /// [`help`](Self::help) by a task that waits for something, and does not get on before the jobs have run that it has
    /// queued: where nothing else is run, those are, and mail.
    pub(crate) fn help_in_wait(&self, most: usize) -> usize {
        if !self.has_isolated_waits() {
            return self.help(most);
        }
        let _aside = task::set_aside();
        self.poll_is_long();
        let floor = self.floor(self.began());
        let mut ran = 0;
        while ran < most
            && let Some(job) = self.pop_above(floor)
        {
            self.run(job);
            ran += 1;
        }
        self.running().settle();
        ran
    }

    /// Runs one job that is in this worker's own queue, or its mail, if it may run it now.
    pub(crate) fn help_itself(&self) -> bool {
        let job = match self.isolated.get() {
            Some(mark) => self.pop_above(mark),
            None if self.has_isolated_waits() => self.running().take_mail(),
            None => self.pop().or_else(|| self.running().take_mail()),
        };
        let Some(job) = job else {
            return false;
        };
        let _aside = task::set_aside();
        self.poll_is_long();
        self.run(job);
        // The task goes on, for who knows how long.
        self.running().settle();
        true
    }

    /// Whether there is anything in this worker's own queue.
    pub(crate) fn has_tasks(&self) -> bool {
        !self.running().queue().owner().is_empty()
    }

    /// Whether a job that can go on later should end here, so that other work comes first.
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

    /// Has the worker's next step take a task from the injector, if it is the injector's turn. Returns
    /// whether there is work that should come before what this worker has queued.
    #[cold]
    pub(super) fn poll_injector_if_due(&self) -> bool {
        let due = self.is_attention_due();
        if due && self.take_injectors_turn() {
            self.running().force_injector_poll();
        }
        due
    }

    /// A checkpoint in a long task: urgent tasks and futures run in the middle of it. Returns whether
    /// any ran.
    #[inline(always)]
    pub(crate) fn checkpoint(&self) -> bool {
        if self.poll_is_long() {
            self.notify_deferred();
        }
        self.has_urgent() && self.serve(Serve::Urgent)
    }

    /// A checkpoint between two leaves of a computation that holds this worker for long: tasks from
    /// outside have their turn here too. Returns whether any ran.
    #[inline(always)]
    pub(crate) fn leaf_checkpoint(&self) -> bool {
        if self.poll_is_long() {
            self.notify_deferred();
        }
        self.watch_clock();
        self.preempt()
    }

    /// Lets other work run here if this worker is asked for attention. Returns whether any ran.
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
    /// task from outside whose turn it is.
    #[cold]
    pub(super) fn is_attention_due(&self) -> bool {
        let core = self.pool().core();
        if core.has_urgent() || self.running().has_affine() {
            return true;
        }
        let mut clock = INJECTOR.get();
        if core.injected() == 0 {
            clock.reset();
            INJECTOR.set(clock);
            core.settle_attention();
            return false;
        }
        // `Pool::on_worker` promises one of the pool's own threads, so guests leave the injector alone.
        if self.is_guest() {
            return false;
        }
        let due = clock.check();
        INJECTOR.set(clock);
        due
    }

    /// Whether the injector's turn is due; it counts as taken.
    fn take_injectors_turn(&self) -> bool {
        let mut clock = INJECTOR.get();
        let due = mem::take(&mut clock.due);
        INJECTOR.set(clock);
        due
    }

    /// For callers that have to ask more often than every few nanoseconds.
    #[inline(always)]
    pub(crate) fn urgency(&self) -> Urgency<'_> {
        Urgency(self.pool().core())
    }

    /// Runs work of others in the middle of the present task; nothing where a wait would run nothing
    /// of others.
    ///
    /// What the served jobs queue without waiting for it goes to the shared queues, as if it came from
    /// outside: in the own queue it would lie above what the present task has queued, and the task's
    /// next join would run it.
    #[cold]
    #[inline(never)]
    fn serve(&self, what: Serve) -> bool {
        struct Back<'a>(&'a Cell<bool>, bool, u8);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
                SERVED.set(self.2);
            }
        }
        let depth = SERVED.get();
        if self.has_isolated_waits() || depth >= NESTED {
            return false;
        }
        let _aside = task::set_aside();
        self.poll_is_long();
        SERVED.set(depth + 1);
        let back = Back(&self.serving, self.serving.replace(true), depth);
        // No wait target of others: jobs that run here do not go on with more of their kind.
        let served = self.with_wait_target(self, || {
            (0..MAX_PER_CHECKPOINT)
                .map_while(|_| self.take_served(what))
                .map(|job| self.nest(job))
                .count()
        });
        drop(back);
        // The task goes on, for an unknown time.
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
        if let boxed @ Some(_) = running.take_affine() {
            return boxed;
        }
        (self.take_injectors_turn() && !self.is_guest())
            .then(|| running.take_injected())
            .flatten()
    }

    /// Whether a job runs here in the middle of another task, at a checkpoint of it.
    #[inline(always)]
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.get()
    }

    /// Nothing can be run here. True when a clock that moves by itself has moved for that: the clock of this pool, or of
    /// another one that this thread is in the middle of.
    pub(crate) fn skip_time(&self) -> bool {
        let skip = |context: &WorkerContext<'_, '_>| {
            context.pool().threads() == 0 && context.pool().skip_time(context.has_isolated_waits())
        };
        skip(self) || self.below().any(skip)
    }

    /// Takes the newest job of this worker that was queued since `mark`, or one that came by mail.
    pub(super) fn pop_above(&self, mark: Mark) -> Option<Job> {
        if self.running().is_taking_older_first() {
            self.running().rotate_above(mark);
            // Jobs that come again and again would keep the mail waiting too.
            if let mail @ Some(_) = self.running().take_mail() {
                return mail;
            }
        }
        if self.running().queue().owner().is_above(mark)
            && let Some(job) = self.pop()
        {
            return Some(job);
        }
        self.running().take_mail()
    }
}
