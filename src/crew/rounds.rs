//! What a worker sees to between two tasks, by the clock.

use super::{looks::Looks, timer::Timer};
use crate::{
    engine::{Observer, Strategy, Worker},
    ground::thread,
};

/// After this time, in nanoseconds, tasks from outside have a turn, though the worker has tasks of its own. (tokio aims at
/// the same.) The engine, which has no clock, gives them one after a number of tasks too.
const TURN: u64 = 200_000;

/// How often a worker comes by between two looks, at most. The number of tasks between two turns that the engine counts is
/// smaller, and the timer has a thread, so it does no harm if all of those take long.
const MOST: u32 = 255;

/// See the module.
pub(crate) struct Rounds {
    looks: Looks,
    /// When those from outside had their last turn.
    turn: u64,
    /// Whether it wakes those whose time has come.
    wakes: bool,
}

impl Rounds {
    pub(crate) fn new() -> Self {
        Self {
            looks: Looks::new(MOST),
            turn: 0,
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
        self.looks = Looks::new(MOST);
    }

    #[inline(always)]
    pub(super) fn come_by<T: Send, Q: Strategy, O: Observer>(
        &mut self,
        worker: &mut Worker<'_, T, Q, O>,
    ) {
        if self.looks.come_by() {
            self.look(worker);
        }
    }

    #[inline(never)]
    fn look<T: Send, Q: Strategy, O: Observer>(&mut self, worker: &mut Worker<'_, T, Q, O>) {
        let now = thread::nanos();
        self.looks.look(now);
        if self.wakes && Timer::global().is_due() {
            Timer::global().wake_due();
        }
        if now.saturating_sub(self.turn) >= TURN {
            self.turn = now;
            worker.hurry();
            worker.core().observe_time(now);
        }
    }
}
