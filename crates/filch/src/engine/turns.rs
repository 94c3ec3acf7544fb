//! The state that a worker keeps from one selection of a task to the next: which kind of task has
//! had turns, and which one is due; `lanes.md` has the rules.

use super::lanes::{Ageing, Priority, Raised};
use crate::base::canary::{Canary, broken};
use std::mem;

/// How long, in nanoseconds, more urgent tasks may keep a worker from a less urgent one, where a
/// driver supplies the time. Then a turn is due, though fewer of them than [`Ageing`] says have
/// started. With urgent tasks of a few milliseconds and less, the number comes first. With longer
/// ones, a turn in a tenth of a second is late for no batch of work, and costs the urgent tasks one
/// task in that time.
const TURN_AFTER_NS: u64 = 100_000_000;

/// How long, in nanoseconds, a worker takes the newest task of its own queue before the oldest has
/// a turn, where a driver supplies the time. Each turn begins another branch of a recursion, whose
/// tasks are queued at the same time as those of the others: with a hundred turns a second these
/// stay few. A task that waits behind an endless chain of others is late by some leaves of 10 ms.
const OLDEST_AFTER_NS: u64 = 10_000_000;

/// How long a worker has been kept from one kind of tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    /// When it was last observed that the worker was not, or when the time was first observed.
    since: Option<u64>,
}

impl Delay {
    /// Records whether the worker is `kept` from the tasks at the time `now`. Returns whether it
    /// has been for as long as `limit`.
    fn is_late(&mut self, now: u64, kept: bool, limit: u64) -> bool {
        let since = self.since.filter(|_| kept).unwrap_or(now);
        self.since = Some(since);
        now.saturating_sub(since) >= limit
    }
}

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
    /// Whether the oldest task of the worker's own queue has a turn.
    oldest_due: bool,
}

impl Turns {
    fn new(injector: u32, low: u32) -> Self {
        let mut turns = Self {
            left: 0,
            stride: 0,
            injector: Countdown::new(injector),
            low: Countdown::new(low),
            one_task: false,
            oldest_due: false,
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
    pub(super) fn subtract_steps(&mut self) {
        let steps = self.stride.wrapping_sub(self.left);
        for countdown in [&mut self.injector, &mut self.low] {
            countdown.left = countdown.left.saturating_sub(steps);
        }
        self.stride = self.left;
    }

    /// Makes the next turn that of the injector because time has passed, unless the injector has
    /// had the last one.
    pub(super) fn force_injector_poll(&mut self) {
        self.subtract_steps();
        if self.injector.left < self.injector.every {
            self.bring_forward();
        }
        self.rearm();
    }

    /// Makes the next turn that of the injector.
    pub(super) fn make_injector_due(&mut self) {
        self.subtract_steps();
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

    /// Gives the oldest task of the worker's own queue the next turn.
    fn make_oldest_due(&mut self) {
        self.subtract_steps();
        self.oldest_due = true;
        self.rearm();
    }

    /// Returns whether the oldest task of the worker's own queue has a turn, which it has had then.
    pub(super) fn take_turn_of_oldest(&mut self) -> bool {
        mem::take(&mut self.oldest_due)
    }

    pub(super) fn rearm(&mut self) {
        self.stride = match self.oldest_due {
            true => 1,
            false => self.injector.steps().min(self.low.steps()),
        };
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
pub(super) struct SelectionState {
    pub(super) turns: Turns,
    ageing: Ageing,
    /// Critical tasks in a row, while High ones waited.
    over_high: u32,
    /// Urgent tasks since the normal ones had a turn.
    pub(super) over_normal: u32,
    /// How long Critical tasks have kept High ones waiting.
    high: Delay,
    /// How long urgent tasks have kept normal ones waiting.
    normal: Delay,
    /// How long newer tasks of the worker's own queue have kept the oldest waiting.
    oldest: Delay,
    /// Whether its own queue has been empty since the time was last observed.
    pub(super) drained: bool,
    /// Whether a High task has started since the time was last observed.
    high_started: bool,
    /// Whether a normal task has started since the time was last observed.
    pub(super) normal_started: bool,
    /// A less urgent task had its turn while urgent tasks waited: the next selection takes an
    /// urgent one.
    pub(super) urgent_next: bool,
    /// The last turn that was given.
    pub(super) last: DueTurn,
    /// The previous task was one of this worker's affine tasks.
    pub(super) affine_last: bool,
    /// The last affine task was from this worker's own mailbox, and not from that of its node.
    pub(super) own_affine_last: bool,
    /// The mailbox of another worker or node with affine tasks, and how many of them had been taken
    /// when it was checked.
    pub(super) watched: Option<(usize, u64)>,
    /// Whether the last yield tried the injector first.
    pub(super) yield_to_injector: bool,
    /// How many tasks the last batches from outside added to its own queue, less the turns that
    /// they have had. Some of them may be gone.
    pub(super) batch_left: usize,
    /// The number of steps before the next batch of futures that were spawned from outside: as many
    /// as the last batch added to its own queue.
    futures: u32,
}

impl SelectionState {
    pub(super) fn new(inject_interval: u32, ageing: Ageing) -> Self {
        // With a turn at every task, Low tasks would always come first.
        let low = if ageing.low == 1 { 2 } else { ageing.low };
        Self {
            turns: Turns::new(inject_interval, low),
            ageing,
            over_high: 0,
            over_normal: 0,
            high: Delay::default(),
            normal: Delay::default(),
            oldest: Delay::default(),
            drained: false,
            high_started: false,
            normal_started: false,
            urgent_next: false,
            last: DueTurn::Low,
            affine_last: false,
            own_affine_last: false,
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
            DueTurn::High => {
                reached(self.over_high, self.ageing.high) && raised.has(Priority::High)
            }
            DueTurn::Normal => reached(self.over_normal, self.ageing.normal),
            DueTurn::Low => self.turns.low.is_due(),
        }
    }

    /// Makes turns due by the time, of the kinds of tasks that others have kept waiting for long:
    /// `high` and `normal` say whether such tasks exist, `own` whether the worker's own queue has
    /// any.
    pub(super) fn observe_time(&mut self, now: u64, high: bool, normal: bool, own: bool) {
        let high = high && self.over_high > 0 && !mem::take(&mut self.high_started);
        if self.high.is_late(now, high, TURN_AFTER_NS) {
            self.over_high = self.over_high.max(self.ageing.high);
        }
        let normal = normal && self.over_normal > 0 && !mem::take(&mut self.normal_started);
        if self.normal.is_late(now, normal, TURN_AFTER_NS) {
            self.over_normal = self.over_normal.max(self.ageing.normal);
        }
        let own = own && !mem::take(&mut self.drained);
        if self.oldest.is_late(now, own, OLDEST_AFTER_NS) {
            // The next one has a turn at the second observation at the earliest: if all tasks are
            // long, every other task is the newest.
            self.oldest = Delay::default();
            self.turns.make_oldest_due();
        }
    }

    /// Records a batch that has added `moved` tasks to its own queue, which held `queued` tasks.
    pub(super) fn record_batch(&mut self, queued: usize, moved: usize) {
        self.batch_left = self.batch_left.min(queued) + moved;
    }

    /// Records a turn of a task of the last batches.
    pub(super) fn count_batch_turn(&mut self) {
        self.batch_left = self.batch_left.saturating_sub(1);
    }

    pub(super) fn record_spawned(&mut self, tasks: usize) {
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        self.over_normal = self.over_normal.saturating_add(tasks);
        self.futures = tasks - 1;
    }

    pub(super) fn record_urgent(&mut self, level: Priority, raised: Raised) {
        self.over_normal = self.over_normal.saturating_add(1);
        self.high_started |= level == Priority::High;
        self.urgent_next = level < Priority::Critical && raised.has(Priority::Critical);
        self.over_high = if level == Priority::Critical && raised.has(Priority::High) {
            self.over_high.saturating_add(1)
        } else {
            0
        };
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;
    use crate::engine::lanes::{Flags, Lanes};

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
            turns.subtract_steps();
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
    fn turns_are_due_by_the_time_too() {
        const MILLI: u64 = 1_000_000;
        let ageing = Ageing::default();
        let mut state = SelectionState::new(61, ageing);
        let flags = Flags::new();
        let lanes = Lanes::new(usize::MAX);
        lanes.push_always(&flags, Priority::High, 0);
        let raised = flags.read();
        state.observe_time(5 * MILLI, true, true, false);
        state.record_urgent(Priority::Critical, raised);
        state.observe_time(104 * MILLI, true, true, false);
        assert!(!state.is_due(DueTurn::High, raised) && !state.is_due(DueTurn::Normal, raised));
        // A High task has started, and no normal one.
        state.record_urgent(Priority::High, raised);
        state.record_urgent(Priority::Critical, raised);
        state.observe_time(105 * MILLI, true, true, false);
        assert!(!state.is_due(DueTurn::High, raised) && state.is_due(DueTurn::Normal, raised));
        state.observe_time(205 * MILLI, true, true, false);
        assert!(state.is_due(DueTurn::High, raised));
        // Nothing waits, or nothing more urgent has started.
        let mut state = SelectionState::new(61, ageing);
        state.observe_time(0, false, true, false);
        state.record_urgent(Priority::Critical, raised);
        state.observe_time(500 * MILLI, false, false, false);
        assert!(!state.is_due(DueTurn::High, raised) && !state.is_due(DueTurn::Normal, raised));
        // Without an interval there are no turns.
        let never = Ageing {
            high: 0,
            normal: 0,
            low: 0,
        };
        let mut state = SelectionState::new(0, never);
        state.observe_time(0, true, true, false);
        state.record_urgent(Priority::Critical, raised);
        state.observe_time(500 * MILLI, true, true, false);
        assert!(!state.is_due(DueTurn::High, raised) && !state.is_due(DueTurn::Normal, raised));
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
            turns.subtract_steps();
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
            turns.subtract_steps();
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
