//! Periodic duties of a worker between two tasks, by the clock.

use super::{Parkers, clock_sampler::ClockSampler, timer::Timer};
use crate::{
    base::thread,
    engine::{Observer, Strategy, Worker},
};

/// Interval, in nanoseconds, after which a task from outside runs, though the worker has tasks of
/// its own. (tokio has the same target.) The engine, which has no clock, runs one after a number of
/// tasks too.
const INJECTOR_INTERVAL_NANOS: u64 = 200_000;

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
    /// When the driver was polled last, or a poll was due.
    poll: u64,
    /// When the driver was last polled regardless of what the worker had queued.
    overdue: u64,
    /// Whether it wakes the tasks whose deadlines have passed.
    wakes: bool,
}

impl Maintenance {
    pub(crate) fn new() -> Self {
        Self {
            sampler: ClockSampler::new(MAX_TASKS_BETWEEN_SAMPLES),
            turn: 0,
            poll: 0,
            overdue: 0,
            wakes: true,
        }
    }

    /// For a thread that works for a pool nested in something else, and serves no timers there.
    pub(crate) fn in_between() -> Self {
        Self {
            wakes: false,
            ..Self::new()
        }
    }

    /// Resets the sampler, because the next tasks are unrelated to those before.
    pub(super) fn restart(&mut self) {
        self.sampler = ClockSampler::new(MAX_TASKS_BETWEEN_SAMPLES);
    }

    /// Called after a task has run. Returns whether to poll the driver now.
    #[inline(always)]
    pub(super) fn after_task<T: Send, Q: Strategy, O: Observer>(
        &mut self,
        worker: &mut Worker<'_, T, Q, O>,
        parkers: &Parkers,
    ) -> bool {
        self.sampler.tick() && self.run(worker, parkers)
    }

    #[inline(never)]
    fn run<T: Send, Q: Strategy, O: Observer>(
        &mut self,
        worker: &mut Worker<'_, T, Q, O>,
        parkers: &Parkers,
    ) -> bool {
        let now = thread::nanos();
        self.sampler.record(now);
        if self.wakes && Timer::global().is_due() {
            Timer::global().wake_due();
        }
        if now.saturating_sub(self.turn) >= INJECTOR_INTERVAL_NANOS {
            self.turn = now;
            worker.force_injector_poll();
            worker.core().observe_time(now);
        }
        if !parkers.has_driver() || now.saturating_sub(self.poll) < DRIVER_INTERVAL_NANOS {
            return false;
        }
        self.poll = now;
        parkers.hand_over();
        if worker.has_own() && now.saturating_sub(self.overdue) < DRIVER_OVERDUE_NANOS {
            return false;
        }
        self.overdue = now;
        true
    }
}
