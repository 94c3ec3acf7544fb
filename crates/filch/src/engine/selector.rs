//! Selects a task when it is not simply the newest of the worker's own queue; `lanes.md` has the
//! rules.

use super::{
    event::{Event, Observer, Source},
    lanes::{Ageing, Level, Raised},
    queue::{Queue, Strategy},
    worker::Worker,
};
use crate::base::canary::{Canary, broken};
use std::mem;

/// The number of tasks that a turn of the injector takes, if tasks are short.
const INJECTOR_TURN_BATCH: usize = 8;

/// Counts down the steps to a turn.
#[derive(Clone, Copy, Debug)]
struct Countdown {
    /// The interval in steps; zero never gives a turn.
    every: u32,
    left: u32,
}

impl Countdown {
    fn new(every: u32) -> Self {
        Self { every, left: every }
    }

    fn is_due(self) -> bool {
        self.every != 0 && self.left == 0
    }

    fn restart(&mut self) {
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
    injector: Countdown,
    low: Countdown,
    /// Whether the due turn of the injector comes early because tasks are long, so that it takes
    /// one task only.
    one_task: bool,
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
    fn catch_up(&mut self) {
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
    pub(super) fn force(&mut self) {
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

    fn rearm(&mut self) {
        self.stride = self.injector.steps().min(self.low.steps());
        self.left = self.stride;
    }
}

/// Which tasks have a turn, though others would come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
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
    over_normal: u32,
    /// A less urgent task had its turn while urgent tasks waited: the next selection takes an
    /// urgent one.
    urgent_next: bool,
    /// The last turn that was given.
    last: Turn,
    /// The previous task was one of this worker's affine tasks.
    affine_last: bool,
    /// Another worker with affine tasks, and how many of them had been taken when it was checked.
    watched: Option<(usize, u64)>,
    /// Whether the last yield tried the injector first.
    yield_to_injector: bool,
    /// How many tasks the last batch from the injector added to the own queue, at its old end, less
    /// the turns that they have had. Some of them may be gone.
    pub(super) batch_left: usize,
    /// The number of steps before the next batch of futures that were spawned from outside: as many
    /// as the last batch added to the own queue.
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
            last: Turn::Low,
            affine_last: false,
            watched: None,
            yield_to_injector: false,
            batch_left: 0,
            futures: 0,
        }
    }

    /// Whether futures that were spawned from outside come before the own queue: there are some,
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
    fn turn(&mut self, raised: Raised) -> Option<Turn> {
        self.urgent_next &= raised.urgent();
        if self.urgent_next || broken(Canary::LaneTurns) {
            return None;
        }
        let circle = match self.last {
            Turn::High => [Turn::Normal, Turn::Low, Turn::High],
            Turn::Normal => [Turn::Low, Turn::High, Turn::Normal],
            Turn::Low => [Turn::High, Turn::Normal, Turn::Low],
        };
        let turn = circle.into_iter().find(|&turn| self.is_due(turn, raised))?;
        self.last = turn;
        Some(turn)
    }

    /// Whether a turn is due, also if there is no more urgent task at the moment: otherwise a turn
    /// of the Low tasks would come first.
    fn is_due(&self, turn: Turn, raised: Raised) -> bool {
        let reached = |count, every| every != 0 && count >= every;
        match turn {
            Turn::High => reached(self.over_high, self.ageing.high) && raised.has(Level::High),
            Turn::Normal => reached(self.over_normal, self.ageing.normal),
            Turn::Low => self.turns.low.is_due(),
        }
    }

    fn record_spawned(&mut self, tasks: usize) {
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        self.over_normal = self.over_normal.saturating_add(tasks);
        self.futures = tasks - 1;
    }

    fn record_urgent(&mut self, level: Level, raised: Raised) {
        self.over_normal = self.over_normal.saturating_add(1);
        self.urgent_next = level < Level::Critical && raised.has(Level::Critical);
        self.over_high = if level == Level::Critical && raised.has(Level::High) {
            self.over_high.saturating_add(1)
        } else {
            0
        };
    }
}

/// Returns the source of a task that a hunt found.
pub(super) fn source_of(victim: usize) -> Source {
    if victim == super::OUTSIDE {
        Source::Injector
    } else {
        Source::Steal { victim }
    }
}

/// A task and its source.
pub(super) type Found<T> = Option<(T, Source)>;

impl<T: Send, Q: Strategy, O: Observer> Worker<'_, T, Q, O> {
    /// Called when a task may have to run before the newest of the own queue: a turn is due, a flag
    /// is up, or the last task has yielded.
    #[cold]
    pub(super) fn find_preferred(&mut self) -> Found<T> {
        self.selector.turns.catch_up();
        let found = self.choose_preferred();
        self.selector.turns.rearm();
        if found.is_none() && self.core.wants_attention() {
            // While the bit is set, every push of a running task takes the slow path.
            self.core.settle_attention();
        }
        found
    }

    fn choose_preferred(&mut self) -> Found<T> {
        let raised = self.core.flags().read();
        let turn = self.selector.turn(raised);
        if turn == Some(Turn::Low)
            && let found @ Some(_) = self.take_low_turn(raised)
        {
            self.selector.urgent_next = raised.urgent();
            return found;
        }
        if let found @ Some(_) = self.take_urgent_or_affine(raised, turn) {
            return found;
        }
        if self.selector.turns.injector.is_due()
            && let found @ Some(_) = self.take_turn_of_injector()
        {
            return found;
        }
        if !mem::take(&mut self.yielded) {
            return None;
        }
        // Alternately, so that neither the tasks from outside nor this worker's older ones have to
        // wait until the others have run out.
        self.selector.yield_to_injector = !self.selector.yield_to_injector;
        if self.selector.yield_to_injector
            && let Some(task) = self.take_injected(1)
        {
            return Some((task, Source::Injector));
        }
        self.queue.oldest().map(|task| (task, Source::Local))
    }

    /// Gives the injector a turn at the next step, even if the own queue holds tasks, unless it has
    /// had the last turn. For drivers, which have a clock: the worker itself counts tasks, and
    /// those may be long.
    pub fn force_injector_poll(&mut self) {
        self.selector.turns.force_injector_poll();
    }

    /// Called when a search has found `found`. A push into the injector during the search may have
    /// counted on it, although the searcher had checked the injector before; then no other worker
    /// knows of that task. So the injected task comes next. If the found task was stolen, the
    /// injected one runs first, and the stolen one waits in the own queue, where thieves can take
    /// it.
    pub(super) fn after_missed(&mut self, found: (T, Source)) -> Found<T> {
        let (task, source) = found;
        self.core.request_attention_for_missed();
        if source == Source::Injector || self.core.injector.is_empty() {
            return Some((task, source));
        }
        self.selector.turns.force();
        match source {
            Source::Steal { victim } if self.queue.keeps_stolen(victim) => {}
            _ => return Some((task, source)),
        }
        if let Err(task) = self.queue.push(task) {
            return Some((task, source));
        }
        self.core.observer.event(self.id, Event::Moved { tasks: 1 });
        self.core.notify_moved(self.id);
        match self.take_injected(1) {
            Some(injected) => Some((injected, Source::Injector)),
            None => Some((self.queue.pop()?, Source::Local)),
        }
    }

    /// Gives the injector its turn. If tasks are short, it takes several: a worker that spawns
    /// tasks of 50 ns for itself would otherwise leave one to two microseconds between two tasks
    /// from outside.
    ///
    /// If the injector is empty, the turn belongs to the rest of the last batch from it. These tasks
    /// are in the own queue, and a task that spawns others for ever would keep them there.
    fn take_turn_of_injector(&mut self) -> Found<T> {
        let turns = &mut self.selector.turns;
        turns.injector.restart();
        let most = if mem::take(&mut turns.one_task) {
            1
        } else {
            INJECTOR_TURN_BATCH
        };
        if let Some(task) = self.take_pinned().or_else(|| self.take_injected_now(most)) {
            return Some((task, Source::Injector));
        }
        self.selector.batch_left = self.selector.batch_left.checked_sub(1)?;
        self.queue.oldest().map(|task| (task, Source::Local))
    }

    /// Takes a normal task from a place that needs no search.
    fn take_normal(&mut self) -> Found<T> {
        // While there are always urgent tasks, this is the only turn that the injector gets.
        if self.selector.turns.injector.is_due()
            && let found @ Some(_) = self.take_turn_of_injector()
        {
            return found;
        }
        if let Some(task) = self.take_own() {
            return Some((task, Source::Local));
        }
        let task = self.take_pinned().or_else(|| self.take_injected(1))?;
        Some((task, Source::Injector))
    }

    /// Takes an urgent task, unless it is the turn of the normal ones; or every other time one of
    /// the worker's affine tasks.
    fn take_urgent_or_affine(&mut self, raised: Raised, turn: Option<Turn>) -> Found<T> {
        if turn == Some(Turn::Normal) {
            self.selector.over_normal = 0;
            let found = self
                .take_own_affine_in_turn(raised)
                .or_else(|| self.take_normal());
            if found.is_some() {
                self.selector.urgent_next = raised.urgent();
                return found;
            }
        }
        if !broken(Canary::LaneOrder)
            && let found @ Some(_) =
                self.take_urgent_in_turn(raised, turn, self.core.settings.inject_batch)
        {
            return found;
        }
        self.take_own_affine_in_turn(raised)
    }

    /// Takes one of the worker's affine tasks every other time.
    fn take_own_affine_in_turn(&mut self, raised: Raised) -> Found<T> {
        if raised.has_affine() && !mem::take(&mut self.selector.affine_last) {
            return self.take_own_affine(raised);
        }
        None
    }

    /// Takes an urgent task, where no other kind is to have a turn; at most `most` futures that
    /// were spawned from outside.
    pub(super) fn take_urgent(&mut self, raised: Raised, most: usize) -> Found<T> {
        let high = self.selector.is_due(Turn::High, raised) && !self.selector.urgent_next;
        self.take_urgent_in_turn(raised, high.then_some(Turn::High), most)
    }

    /// Takes a Critical task, or else a High one (the other way round when High has a turn), or
    /// else up to `most` futures that were spawned from outside.
    fn take_urgent_in_turn(&mut self, raised: Raised, turn: Option<Turn>, most: usize) -> Found<T> {
        let futures = !self.core.futures.is_empty();
        if !raised.urgent() && !futures {
            return None;
        }
        let order = if turn == Some(Turn::High) {
            [Level::High, Level::Critical]
        } else {
            [Level::Critical, Level::High]
        };
        for level in order {
            if let Some(task) = self.core.lanes.take(self.core.flags(), level) {
                self.selector.record_urgent(level, raised);
                return Some((task, Source::Lane(level)));
            }
        }
        if !raised.spawned() && !futures {
            return None;
        }
        let (task, moved) = self.take_spawned(most)?;
        self.selector.record_spawned(1 + moved);
        Some((task, Source::Injector))
    }

    /// Takes one of the worker's own affine tasks.
    pub(super) fn take_own_affine(&mut self, raised: Raised) -> Found<T> {
        if !raised.has_affine() {
            return None;
        }
        let task = self.core.mailboxes[self.id].take_affine(self.core.flags())?;
        self.selector.affine_last = true;
        Some((task, Source::Affine { worker: self.id }))
    }

    pub(super) fn take_low(&mut self) -> Found<T> {
        let task = self.core.lanes.take(self.core.flags(), Level::Low)?;
        Some((task, Source::Lane(Level::Low)))
    }

    /// Gives a turn to tasks that are passed over otherwise: an affine task of a worker that has
    /// not been free for as long as the interval of a turn, or a Low task.
    fn take_low_turn(&mut self, raised: Raised) -> Found<T> {
        if raised.has_affine()
            && let found @ Some(_) = self.take_stuck_affine()
        {
            // The Low tasks are still due, and next in the round-robin order.
            self.selector.last = Turn::Normal;
            return found;
        }
        self.selector.turns.low.restart();
        if !self.core.low_age.is_ripe() {
            return None;
        }
        self.take_low()
    }

    /// Takes an affine task of another worker, if none of that worker's has been taken since the
    /// last turn.
    fn take_stuck_affine(&mut self) -> Found<T> {
        let mailboxes = &self.core.mailboxes;
        let mut next = 0;
        if let Some((owner, taken)) = self.selector.watched.take() {
            next = owner + 1;
            if mailboxes[owner].has_affine() && mailboxes[owner].taken() == taken {
                return self.take_affine_of(owner);
            }
        }
        self.selector.watched = (0..mailboxes.len())
            .map(|i| (next + i) % mailboxes.len())
            .find(|&owner| owner != self.id && mailboxes[owner].has_affine())
            .map(|owner| (owner, mailboxes[owner].taken()));
        None
    }

    /// Takes an affine task of another worker that does not sleep, after a complete search has
    /// found nothing.
    pub(super) fn take_affine_of_others(&mut self) -> Found<T> {
        if !self.core.flags().read().has_affine() {
            return None;
        }
        let workers = self.core.mailboxes.len();
        (1..workers)
            .map(|i| (self.id + i) % workers)
            .find_map(|owner| self.take_affine_of(owner))
    }

    fn take_affine_of(&self, owner: usize) -> Found<T> {
        let mailbox = &self.core.mailboxes[owner];
        if !mailbox.has_affine() {
            return None;
        }
        if self.core.sleep.is_down(owner) && !broken(Canary::AffineTake) {
            // The worker has nothing else to do; another worker has called it, or this one does.
            self.core.notify_mailbox(self.id, owner);
            return None;
        }
        let task = mailbox.take_affine(self.core.flags())?;
        Some((task, Source::Affine { worker: owner }))
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;
    use crate::engine::{Core, PerWorker, Placement, Settings, Step};
    use std::sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    };

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

    type TestCore = Core<u32, PerWorker, Injects>;

    /// Injects a task when it is armed, at the end of a hunt: after the searcher has checked the
    /// injector.
    struct Injects {
        armed: AtomicBool,
        core: OnceLock<Weak<TestCore>>,
    }

    impl Observer for Injects {
        fn event(&self, _worker: usize, event: Event) {
            if matches!(event, Event::Searched { .. }) && self.armed.swap(false, Relaxed) {
                let core = self.core.get().and_then(Weak::upgrade);
                core.unwrap().inject(9, Placement::Injector).unwrap();
            }
        }
    }

    /// Returns the order in which a worker runs tasks, if it steals one while another is injected.
    fn order_of_stolen(thief_takes_one: bool, victim_wants_one: bool) -> Vec<u32> {
        let observer = Injects {
            armed: AtomicBool::new(false),
            core: OnceLock::new(),
        };
        let core = TestCore::new(Settings::new(2), &Default::default(), observer).unwrap();
        let core = Arc::new(core);
        let this = Arc::downgrade(&core);
        core.observer().core.set(this).ok().unwrap();
        let (mut busy, mut thief) = (core.enter(0), core.enter(1));
        if thief_takes_one {
            thief.queue.steal_one_by_one();
        }
        core.inject(0, Placement::Injector).unwrap();
        let mut order = Vec::new();
        let _ran = busy.step(|_, mut running| {
            assert!(
                matches!(thief.step(|_, _| ()), Step::Idle(_)),
                "it searches"
            );
            running.queue().set_one_by_one(victim_wants_one);
            running.try_spawn(1, Placement::Local).unwrap();
            running.try_spawn(2, Placement::Local).unwrap();
            core.observer().armed.store(true, Relaxed);
            while order.len() < 3 {
                let _step = thief.step(|task, _| order.push(task));
            }
        });
        order
    }

    #[test]
    fn a_task_injected_during_a_search_runs_before_the_stolen_one() {
        assert_eq!(order_of_stolen(false, false), [9, 1, 2]);
        // A stolen task that must not wait runs at once, and then the injected one.
        assert_eq!(order_of_stolen(true, false), [1, 9, 2]);
        assert_eq!(order_of_stolen(false, true), [1, 9, 2]);
    }
}
