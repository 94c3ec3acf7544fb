//! What a worker sees to between two tasks, by the clock.

use super::{Parkers, clock_sampler::ClockSampler, timer::Timer};
use crate::{
    base::thread,
    engine::{Observer, Strategy, Worker},
};

/// After this time, in nanoseconds, tasks from outside have a turn, though the worker has tasks of its own. (tokio aims at
/// the same.) The engine, which has no clock, gives them one after a number of tasks too.
const TURN: u64 = 200_000;

/// How often a worker comes by between two looks, at most. The number of tasks between two turns that the engine counts is
/// smaller, and the timer has a thread, so it does no harm if all of those take long.
const MOST: u32 = 255;

/// After this time, in nanoseconds, a busy worker sees to the driver of its pool: a worker that sleeps takes
/// it over, or else this worker polls it if its own queue is empty. A poll is a system call of about half a
/// microsecond, so it costs half a per cent at most. tokio polls every 61 tasks, which is after some 300 µs
/// in an HTTP server.
const POLL: u64 = 100_000;

/// After this time, in nanoseconds, a worker polls the driver although its own queue is not empty. Until then
/// events wait behind the queued tasks, most of which are earlier events, so that events are served in order.
const OVERDUE: u64 = 1_000_000;

/// See the module.
pub(crate) struct Maintenance {
    sampler: ClockSampler,
    /// When those from outside had their last turn.
    turn: u64,
    /// When the driver was polled last, or a poll was due.
    poll: u64,
    /// When the driver was last polled whatever the worker had queued.
    overdue: u64,
    /// Whether it wakes those whose time has come.
    wakes: bool,
}

impl Maintenance {
    pub(crate) fn new() -> Self {
        Self {
            sampler: ClockSampler::new(MOST),
            turn: 0,
            poll: 0,
            overdue: 0,
            wakes: true,
        }
    }

    /// For a thread that works for a pool in the middle of something else, and wakes nobody there.
    pub(crate) fn in_between() -> Self {
        Self {
            wakes: false,
            ..Self::new()
        }
    }

    /// The tasks that come now have nothing to do with those before.
    pub(super) fn restart(&mut self) {
        self.sampler = ClockSampler::new(MOST);
    }

    /// A task has run. True when it is time to poll the driver.
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
        if now.saturating_sub(self.turn) >= TURN {
            self.turn = now;
            worker.force_injector_poll();
            worker.core().observe_time(now);
        }
        if !parkers.has_driver() || now.saturating_sub(self.poll) < POLL {
            return false;
        }
        self.poll = now;
        parkers.hand_over();
        if worker.has_own() && now.saturating_sub(self.overdue) < OVERDUE {
            return false;
        }
        self.overdue = now;
        true
    }
}
