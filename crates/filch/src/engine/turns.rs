//! The state that a worker keeps from one selection of a task to the next: which kind of task has
//! had turns, and which one is due; `lanes.md` has the rules.

use super::lanes::{Ageing, Level, Raised};
use crate::base::canary::{Canary, broken};

/// Counts down the steps to a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Countdown {
    /// The interval in steps; zero never gives a turn.
    every: u32,
    left: u32,
}

impl Countdown {
    fn new(every: u32) -> Self {
        Self { every, left: every }
    }

    pub(super) fn is_due(self) -> bool {
        self.every != 0 && self.left == 0
    }

    pub(super) fn restart(&mut self) {
        self.left = self.every;
    }

    /// Returns the number of steps after which to check this countdown again.
    fn steps(self) -> u32 {
        if self.every == 0 {
            u32::MAX
        } else {
            self.left.max(1)
        }
    }
}

/// Two countdowns behind one number that every step decrements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    left: u32,
    /// What `left` was set to.
    stride: u32,
    pub(super) injector: Countdown,
    pub(super) low: Countdown,
    /// Whether the due turn of the injector comes early because tasks are long, so that it takes
    /// one task only.
    pub(super) one_task: bool,
}

impl Turns {
    fn new(injector: u32, low: u32) -> Self {
        let mut turns = Self {
            left: 0,
            stride: 0,
            injector: Countdown::new(injector),
            low: Countdown::new(low),
            one_task: false,
        };
        turns.rearm();
        turns
    }

    /// Counts a step. Returns whether a turn is due.
    #[inline(always)]
    pub(super) fn tick(&mut self) -> bool {
        self.left = self.left.wrapping_sub(1);
        self.left == 0
    }

    /// Counts a step and returns true, unless a turn would be due: then returns false.
    #[inline(always)]
    pub(super) fn tick_unless_due(&mut self) -> bool {
        let due = self.left == 1;
        self.left = self.left.wrapping_sub(u32::from(!due));
        !due
    }

    /// Postpones a due turn to the next step.
    pub(super) fn postpone(&mut self) {
        self.left = self.left.max(1);
    }

    /// Subtracts the steps since the last call from the countdowns.
    pub(super) fn catch_up(&mut self) {
        let steps = self.stride.wrapping_sub(self.left);
        for countdown in [&mut self.injector, &mut self.low] {
            countdown.left = countdown.left.saturating_sub(steps);
        }
        self.stride = self.left;
    }

    /// Makes the next turn that of the injector because time has passed, unless the injector has
    /// had the last one.
    pub(super) fn force_injector_poll(&mut self) {
        self.catch_up();
        if self.injector.left < self.injector.every {
            self.bring_forward();
        }
        self.rearm();
    }

    /// Makes the next turn that of the injector.
    pub(super) fn make_injector_due(&mut self) {
        self.catch_up();
        self.bring_forward();
        self.rearm();
    }

    fn bring_forward(&mut self) {
        if self.injector.left > 0 {
            (self.injector.left, self.one_task) = (0, true);
        }
    }

    /// Limits the next turn of the injector to one task.
    pub(super) fn limit_batch_to_one(&mut self) {
        self.one_task = true;
    }

    pub(super) fn rearm(&mut self) {
        self.stride = self.injector.steps().min(self.low.steps());
        self.left = self.stride;
    }
}

/// Which tasks have a turn, though others would come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DueTurn {
    High,
    Normal,
    Low,
}

/// The state that a worker keeps from one selection to the next.
#[derive(Debug)]
pub(super) struct TaskSelector {
    pub(super) turns: Turns,
    ageing: Ageing,
    /// Critical tasks in a row, while High ones waited.
    over_high: u32,
    /// Urgent tasks since the normal ones had a turn.
    pub(super) over_normal: u32,
    /// A less urgent task had its turn while urgent tasks waited: the next selection takes an
    /// urgent one.
    pub(super) urgent_next: bool,
    /// The last turn that was given.
    pub(super) last: DueTurn,
    /// The previous task was one of this worker's affine tasks.
    pub(super) affine_last: bool,
    /// Another worker with affine tasks, and how many of them had been taken when it was checked.
    pub(super) watched: Option<(usize, u64)>,
    /// Whether the last yield tried the injector first.
    pub(super) yield_to_injector: bool,
    /// How many tasks the last batch from the injector added to its own queue, at its old end, less
    /// the turns that they have had. Some of them may be gone.
    pub(super) batch_left: usize,
    /// The number of steps before the next batch of futures that were spawned from outside: as many
    /// as the last batch added to its own queue.
    futures: u32,
}

impl TaskSelector {
    pub(super) fn new(inject_interval: u32, ageing: Ageing) -> Self {
        // With a turn at every task, Low tasks would always come first.
        let low = if ageing.low == 1 { 2 } else { ageing.low };
        Self {
            turns: Turns::new(inject_interval, low),
            ageing,
            over_high: 0,
            over_normal: 0,
            urgent_next: false,
            last: DueTurn::Low,
            affine_last: false,
            watched: None,
            yield_to_injector: false,
            batch_left: 0,
            futures: 0,
        }
    }

    /// Whether futures that were spawned from outside come before its own queue: there are some,
    /// and those of the last batch have had time to run. If not, it counts as a step.
    #[inline(always)]
    pub(super) fn tick_turn_of_futures(&mut self, raised: Raised) -> bool {
        if !raised.spawned() {
            return false;
        }
        let due = self.futures == 0;
        self.futures -= u32::from(!due);
        due
    }

    /// Returns the turn to give. When several are due, they are given one after the other,
    /// round-robin, with an urgent task in between; so none of them can keep the others waiting.
    pub(super) fn turn(&mut self, raised: Raised) -> Option<DueTurn> {
        self.urgent_next &= raised.urgent();
        if self.urgent_next || broken(Canary::LaneTurns) {
            return None;
        }
        let circle = match self.last {
            DueTurn::High => [DueTurn::Normal, DueTurn::Low, DueTurn::High],
            DueTurn::Normal => [DueTurn::Low, DueTurn::High, DueTurn::Normal],
            DueTurn::Low => [DueTurn::High, DueTurn::Normal, DueTurn::Low],
        };
        let turn = circle.into_iter().find(|&turn| self.is_due(turn, raised))?;
        self.last = turn;
        Some(turn)
    }

    /// Whether a turn is due, also if there is no more urgent task at the moment: otherwise a turn
    /// of the Low tasks would come first.
    pub(super) fn is_due(&self, turn: DueTurn, raised: Raised) -> bool {
        let reached = |count, every| every != 0 && count >= every;
        match turn {
            DueTurn::High => reached(self.over_high, self.ageing.high) && raised.has(Level::High),
            DueTurn::Normal => reached(self.over_normal, self.ageing.normal),
            DueTurn::Low => self.turns.low.is_due(),
        }
    }

    pub(super) fn record_spawned(&mut self, tasks: usize) {
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        self.over_normal = self.over_normal.saturating_add(tasks);
        self.futures = tasks - 1;
    }

    pub(super) fn record_urgent(&mut self, level: Level, raised: Raised) {
        self.over_normal = self.over_normal.saturating_add(1);
        self.urgent_next = level < Level::Critical && raised.has(Level::Critical);
        self.over_high = if level == Level::Critical && raised.has(Level::High) {
            self.over_high.saturating_add(1)
        } else {
            0
        };
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::Turns;

    /// Returns at which of the first `steps` steps the injector and the Low tasks have a turn, if
    /// each turn is taken at once. At every `early`th step the turns are checked before they are
    /// due.
    fn turns(injector: u32, low: u32, steps: u32, early: u32) -> (Vec<u32>, Vec<u32>) {
        let mut turns = Turns::new(injector, low);
        let mut seen = (Vec::new(), Vec::new());
        for step in 1..=steps {
            if !turns.tick() && (early == 0 || step % early != 0) {
                continue;
            }
            turns.catch_up();
            if turns.injector.is_due() {
                turns.injector.restart();
                seen.0.push(step);
            }
            if turns.low.is_due() {
                turns.low.restart();
                seen.1.push(step);
            }
            turns.rearm();
        }
        seen
    }

    #[test]
    fn turns_come_when_they_are_due() {
        for early in [0, 1, 2, 7] {
            assert_eq!(
                turns(5, 7, 21, early),
                (vec![5, 10, 15, 20], vec![7, 14, 21])
            );
            assert_eq!(turns(0, 4, 9, early), (vec![], vec![4, 8]));
            assert_eq!(turns(1, 0, 3, early), (vec![1, 2, 3], vec![]));
            assert_eq!(turns(0, 0, 99, early), (vec![], vec![]));
        }
    }

    #[test]
    fn a_turn_that_is_not_taken_stays_due() {
        let mut turns = Turns::new(3, 0);
        assert_eq!([(); 3].map(|()| turns.tick()), [false, false, true]);
        for _ in 0..3 {
            turns.catch_up();
            assert!(turns.injector.is_due());
            turns.rearm();
            assert!(turns.tick(), "the next step checks again");
        }
    }

    #[test]
    fn time_brings_a_turn_forward_but_not_two_in_a_row() {
        let mut turns = Turns::new(61, 0);
        turns.force_injector_poll();
        assert!(!turns.tick(), "it has just begun");
        for _ in 0..3 {
            turns.force_injector_poll();
            assert!(turns.tick());
            turns.catch_up();
            assert!(turns.injector.is_due());
            turns.injector.restart();
            turns.rearm();
            // The next task is one of the worker's own, even if more time passes.
            turns.force_injector_poll();
            assert!(!turns.tick());
        }
        // Two calls still give one task.
        turns.force_injector_poll();
        turns.force_injector_poll();
        assert!(turns.injector.is_due() && turns.one_task);
        // Without an interval there are no turns.
        let mut never = Turns::new(0, 0);
        never.tick();
        never.force_injector_poll();
        assert!(!never.tick());
    }
}
