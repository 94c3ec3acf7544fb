//! Periodic duties of a worker between two tasks, by the clock.

use super::{Parkers, clock_sampler::ClockSampler, timer::Timer};
use crate::{
    base::thread,
    engine::{Observer, Strategy, Worker},
};
use std::task::Waker;

/// Interval, in nanoseconds, after which a task from outside runs, though the worker has tasks of
/// its own. (tokio has the same target.) The engine, which has no clock, runs one after a number of
/// tasks too.
const INJECTOR_INTERVAL_NANOS: u64 = 200_000;

/// How long, in nanoseconds, a worker leaves timers that are due alone while it has not run the
/// futures that it woke for the last ones: those would be queued behind the next ones.
const DUE_BATCH_NANOS: u64 = 200_000;

/// Interval, in nanoseconds, after which a worker that runs futures takes its oldest task, though
/// it takes the newest first. Longer than the branches of a recursion: each turn begins another
/// one.
const OLDEST_INTERVAL_NANOS: u64 = 1_000_000;

/// The maximum number of tasks between two readings of the clock. The engine's own interval between
/// two tasks from outside is a smaller number of tasks, and the timer has a thread, so it is
/// harmless if all of those tasks take long.
const MAX_TASKS_BETWEEN_SAMPLES: u32 = 255;

/// Interval, in nanoseconds, after which a busy worker checks the driver of its pool: a sleeping
/// worker takes it over, or else this worker polls it if its own queue is empty. A poll is a system
/// call of about half a microsecond, so it costs half a per cent at most. tokio polls every 61
/// tasks, which is after some 300 µs in an HTTP server.
const DRIVER_INTERVAL_NANOS: u64 = 100_000;

/// Interval, in nanoseconds, after which a worker polls the driver although its own queue is not
/// empty. Until then events wait behind the queued tasks, most of which are due to earlier events,
/// so that events are served in order.
const DRIVER_OVERDUE_NANOS: u64 = 1_000_000;

/// The times of the last duties: see the module.
pub(crate) struct Maintenance {
    sampler: ClockSampler,
    /// When a task from outside was last requested.
    turn: u64,
    /// When its oldest task last had a turn because of the time.
    oldest: u64,
    /// When the driver was polled last, or a poll was due.
    poll: u64,
    /// When the driver was last polled regardless of what the worker had queued.
    overdue: u64,
    /// Whether it wakes the tasks whose deadlines have passed.
    wakes: bool,
    /// About how many of those that it woke last it has not run.
    unrun: usize,
    /// When it woke them.
    woken: u64,
    /// Whether the last wakers are those of timers only, and the worker has run all that it woke
    /// before.
    first: bool,
}

impl Maintenance {
    pub(crate) fn new() -> Self {
        Self {
            sampler: ClockSampler::new(MAX_TASKS_BETWEEN_SAMPLES),
            turn: 0,
            oldest: 0,
            poll: 0,
            overdue: 0,
            wakes: true,
            unrun: 0,
            woken: 0,
            first: false,
        }
    }

    /// For a thread that works for a pool nested in something else, and serves no timers there.
    pub(crate) fn in_between() -> Self {
        Self {
            wakes: false,
            ..Self::new()
        }
    }

    /// Called after a sleep: the next tasks are unrelated to those before.
    pub(super) fn restart(&mut self) {
        self.sampler = ClockSampler::new(MAX_TASKS_BETWEEN_SAMPLES);
        self.unrun = 0;
    }

    /// Called after a task has run. Adds the wakers of what is due or ready to `ready`, and returns
    /// whether there are any.
    #[inline(always)]
    pub(super) fn after_task<T: Send, Q: Strategy, O: Observer>(
        &mut self,
        worker: &mut Worker<'_, T, Q, O>,
        parkers: &Parkers,
        ready: &mut Vec<Waker>,
    ) -> bool {
        self.sampler.tick() && self.run(worker, parkers, ready)
    }

    #[inline(never)]
    fn run<T: Send, Q: Strategy, O: Observer>(
        &mut self,
        worker: &mut Worker<'_, T, Q, O>,
        parkers: &Parkers,
        ready: &mut Vec<Waker>,
    ) -> bool {
        let now = thread::nanos();
        self.unrun = self.unrun.saturating_sub(self.sampler.calls() as usize);
        self.sampler.record(now);
        self.first = false;
        let has_run_due = self.unrun == 0 || now.saturating_sub(self.woken) >= DUE_BATCH_NANOS;
        if self.wakes && has_run_due && Timer::global().is_due() {
            Timer::global().take_due(ready);
            self.first = self.unrun == 0;
            (self.unrun, self.woken) = (ready.len(), now);
        }
        // Not together with timers: a task from outside, and all that it spawns, would come before
        // the futures that are woken now.
        if ready.is_empty() && now.saturating_sub(self.turn) >= INJECTOR_INTERVAL_NANOS {
            self.turn = now;
            worker.force_injector_poll();
            worker.observe_time(now);
        }
        if now.saturating_sub(self.oldest) >= OLDEST_INTERVAL_NANOS {
            self.oldest = now;
            worker.make_oldest_due();
        }
        if parkers.has_driver() && self.begin_due_poll(now, worker.has_own(), parkers) {
            parkers.poll(ready);
            self.first &= ready.len() == self.unrun;
        }
        !ready.is_empty()
    }

    /// Whether what [`after_task`](Self::after_task) has found comes before what the worker has
    /// queued, as it would from a lane: none of that was woken by timers that were due before.
    pub(super) fn are_first(&self) -> bool {
        self.first
    }

    /// Records a poll of the driver at `now` if one is due, after handing the driver over to
    /// another worker if that is possible. Returns whether this worker must poll.
    fn begin_due_poll(&mut self, now: u64, has_own: bool, parkers: &Parkers) -> bool {
        if now.saturating_sub(self.poll) < DRIVER_INTERVAL_NANOS {
            return false;
        }
        self.poll = now;
        parkers.hand_over();
        if has_own && now.saturating_sub(self.overdue) < DRIVER_OVERDUE_NANOS {
            return false;
        }
        self.overdue = now;
        true
    }
}
