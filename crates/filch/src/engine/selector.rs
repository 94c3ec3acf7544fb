//! Selects a task when it is not simply the newest of the worker's own queue; `lanes.md` has the
//! rules.

use super::{
    event::{Event, Observer, Source},
    lanes::{Priority, Raised},
    queue::{Queue, Strategy},
    turns::DueTurn,
    worker::{Found, Worker},
};
use crate::base::canary::{Canary, broken};
use std::mem;

/// The number of tasks that a turn of the injector takes, if tasks are short.
const INJECTOR_TURN_BATCH: usize = 8;

impl<T: Send, Q: Strategy, O: Observer> Worker<'_, T, Q, O> {
    /// Called when a task may have to run before the newest of its own queue: a turn is due, a flag
    /// is up, or the last task has yielded.
    #[cold]
    pub(super) fn find_preferred(&mut self) -> Found<T> {
        self.selection.turns.subtract_steps();
        let found = self.choose_preferred();
        self.selection.turns.rearm();
        if found.is_none() && self.core.wants_attention() {
            // While the bit is set, every push of a running task takes the slow path.
            self.core.clear_unneeded_attention();
        }
        found
    }

    fn choose_preferred(&mut self) -> Found<T> {
        let raised = self.core.flags().read();
        let turn = self.selection.turn(raised);
        if turn == Some(DueTurn::Low)
            && let found @ Some(_) = self.take_low_turn(raised)
        {
            self.selection.urgent_next = raised.urgent();
            return found;
        }
        if let found @ Some(_) = self.take_urgent_or_affine(raised, turn) {
            return found;
        }
        if self.selection.turns.injector.is_due()
            && let found @ Some(_) = self.take_turn_of_injector()
        {
            return found;
        }
        if self.selection.turns.take_turn_of_oldest()
            && let Some(task) = self.queue.pop_oldest()
        {
            return Some((task, Source::Local));
        }
        if !mem::take(&mut self.yielded) {
            return None;
        }
        // Alternately, so that neither the tasks from outside nor this worker's older ones have to
        // wait until the others have run out.
        self.selection.yield_to_injector = !self.selection.yield_to_injector;
        if self.selection.yield_to_injector
            && let Some(task) = self.take_injected(1)
        {
            return Some((task, Source::Injector));
        }
        self.queue.pop_oldest().map(|task| (task, Source::Local))
    }

    /// Gives the injector a turn at the next step, even if the worker's own queue holds tasks,
    /// unless it has had the last turn. For drivers, which have a clock: the worker itself counts
    /// tasks, and those may be long.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(0, Placement::Injector).unwrap();
    /// let mut worker = core.enter(0);
    /// let _ = worker.step(|_, mut running| running.spawn(1, Placement::Local));
    /// core.inject(2, Placement::Injector).unwrap();
    /// worker.force_injector_poll(); // the clock says that it is time
    /// let _ = worker.step(|task, _| assert_eq!(task, 2));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn force_injector_poll(&mut self) {
        self.selection.turns.force_injector_poll();
    }

    /// Sets the time, in nanoseconds since some fixed moment, for the turns of this worker and, as
    /// [`Core::observe_time`](super::Core::observe_time), for those of all. High and normal tasks
    /// that more urgent ones have kept waiting for 100 ms have a turn, and so has the oldest task
    /// of the worker's own queue if that has not been empty for 10 ms.
    ///
    /// ```
    /// # use filch::engine::{Core, Priority, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// for urgent in 1..=5 {
    ///     core.inject(urgent, Placement::Lane(Priority::High)).unwrap();
    /// }
    /// core.inject(0, Placement::Injector).unwrap();
    /// let (mut worker, mut order) = (core.enter(0), vec![]);
    /// for millis in [0, 60, 120, 180] { // the time before each step
    ///     worker.observe_time(millis * 1_000_000);
    ///     let _ = worker.step(|task, _| order.push(task));
    /// }
    /// assert_eq!(order, [1, 2, 0, 3]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn observe_time(&mut self, now: u64) {
        let high = self.core.flags().read().has(Priority::High);
        let own = self.queue.has_own();
        let normal = own || !self.core.injector.is_empty() || self.has_pinned();
        self.selection.observe_time(now, high, normal, own);
        self.core.observe_time(now);
    }

    /// Called when a search has found `found`. A push into the injector during the search may have
    /// counted on it, although the searcher had checked the injector before; then no other worker
    /// knows of that task. So the injected task comes next. If the found task was stolen, the
    /// injected one runs first, and the stolen one waits in its own queue, where thieves can take
    /// it.
    pub(super) fn after_missed(&mut self, found: (T, Source)) -> Found<T> {
        let (task, source) = found;
        self.core.request_attention_for_missed(self.id);
        if source == Source::Injector || self.core.injector.is_empty() {
            return Some((task, source));
        }
        self.selection.turns.make_injector_due();
        match source {
            Source::Steal { victim, .. } if self.queue.keeps_stolen(victim) => {}
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
    /// If the injector is empty, the turn belongs to the rest of the last batch from it. These
    /// tasks are in its own queue, and a task that spawns others for ever would keep them there.
    fn take_turn_of_injector(&mut self) -> Found<T> {
        let turns = &mut self.selection.turns;
        turns.injector.restart();
        let most = if mem::take(&mut turns.one_task) {
            1
        } else {
            INJECTOR_TURN_BATCH
        };
        if let Some(task) = self.take_pinned().or_else(|| self.take_injected_now(most)) {
            return Some((task, Source::Injector));
        }
        if self.selection.batch_left == 0 {
            return None;
        }
        self.selection.count_batch_turn();
        self.queue.pop_oldest().map(|task| (task, Source::Local))
    }

    /// Takes a normal task from a place that needs no search.
    fn take_normal(&mut self) -> Found<T> {
        // While there are always urgent tasks, this is the only turn that the injector gets.
        if self.selection.turns.injector.is_due()
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
    fn take_urgent_or_affine(&mut self, raised: Raised, turn: Option<DueTurn>) -> Found<T> {
        if turn == Some(DueTurn::Normal) {
            self.selection.over_normal = 0;
            let found = self
                .take_own_affine_in_turn(raised)
                .or_else(|| self.take_normal());
            if found.is_some() {
                self.selection.urgent_next = raised.urgent();
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
        if raised.has_affine() && !mem::take(&mut self.selection.affine_last) {
            return self.take_own_affine(raised);
        }
        None
    }

    /// Takes an urgent task, where no other kind is to have a turn; at most `most` futures that
    /// were spawned from outside.
    pub(super) fn take_urgent(&mut self, raised: Raised, most: usize) -> Found<T> {
        let high = self.selection.is_due(DueTurn::High, raised) && !self.selection.urgent_next;
        self.take_urgent_in_turn(raised, high.then_some(DueTurn::High), most)
    }

    /// Takes a Critical task, or else a High one (the other way round when High has a turn), or
    /// else up to `most` futures that were spawned from outside.
    fn take_urgent_in_turn(
        &mut self,
        raised: Raised,
        turn: Option<DueTurn>,
        most: usize,
    ) -> Found<T> {
        let futures = !self.core.futures.is_empty();
        if !raised.urgent() && !futures {
            return None;
        }
        let order = if turn == Some(DueTurn::High) {
            [Priority::High, Priority::Critical]
        } else {
            [Priority::Critical, Priority::High]
        };
        for level in order {
            if let Some(task) = self.core.lanes.take(self.core.flags(), level) {
                self.selection.record_urgent(level, raised);
                return Some((task, Source::Lane(level)));
            }
        }
        if !raised.spawned() && !futures {
            return None;
        }
        let (task, moved) = self.take_spawned(most)?;
        self.selection.record_spawned(1 + moved);
        Some((task, Source::Injector))
    }

    /// Takes one of the worker's own affine tasks, or one of its node, alternately.
    pub(super) fn take_own_affine(&mut self, raised: Raised) -> Found<T> {
        if !raised.has_affine() {
            return None;
        }
        let core = self.core;
        let mut mailboxes = [Some(self.id), core.node_mailbox(self.id)];
        if self.selection.own_affine_last {
            mailboxes.swap(0, 1);
        }
        let (task, mailbox) = mailboxes.into_iter().flatten().find_map(|mailbox| {
            let task = core.mailboxes[mailbox].take_affine(core.flags())?;
            Some((task, mailbox))
        })?;
        self.selection.affine_last = true;
        self.selection.own_affine_last = mailbox == self.id;
        Some((task, core.affine_source(self.id, mailbox)))
    }

    pub(super) fn take_low(&mut self) -> Found<T> {
        let task = self.core.lanes.take(self.core.flags(), Priority::Low)?;
        Some((task, Source::Lane(Priority::Low)))
    }

    /// Gives a turn to tasks that are passed over otherwise: an affine task of a worker that has
    /// not been free for as long as the interval of a turn, or a Low task.
    fn take_low_turn(&mut self, raised: Raised) -> Found<T> {
        if raised.has_affine()
            && let found @ Some(_) = self.take_stuck_affine()
        {
            // The Low tasks are still due, and next in the round-robin order.
            self.selection.last = DueTurn::Normal;
            return found;
        }
        self.selection.turns.low.restart();
        if !self.core.low_age.is_old_enough() {
            return None;
        }
        self.take_low()
    }

    /// Takes an affine task of another worker or node, if none of its has been taken since the last
    /// turn.
    fn take_stuck_affine(&mut self) -> Found<T> {
        let mailboxes = &self.core.mailboxes;
        let own_node = self.core.node_mailbox(self.id);
        let mut next = 0;
        if let Some((owner, taken)) = self.selection.watched.take() {
            next = owner + 1;
            if mailboxes[owner].has_affine() && mailboxes[owner].taken() == taken {
                return self.take_affine_of(owner);
            }
        }
        self.selection.watched = (0..mailboxes.len())
            .map(|i| (next + i) % mailboxes.len())
            .filter(|&owner| owner != self.id && Some(owner) != own_node)
            .find(|&owner| mailboxes[owner].has_affine())
            .map(|owner| (owner, mailboxes[owner].taken()));
        None
    }

    /// Takes an affine task of another worker that does not sleep, or of a node none of whose
    /// workers sleeps, after a complete search has found nothing.
    pub(super) fn take_affine_of_others(&mut self) -> Found<T> {
        if !self.core.flags().read().has_affine() {
            return None;
        }
        let mailboxes = self.core.mailboxes.len();
        (1..mailboxes)
            .map(|i| (self.id + i) % mailboxes)
            .find_map(|owner| self.take_affine_of(owner))
    }

    fn take_affine_of(&self, owner: usize) -> Found<T> {
        let core = self.core;
        if !core.mailboxes[owner].has_affine() {
            return None;
        }
        let is_kept = core.node_mailbox(self.id) == Some(owner) || broken(Canary::AffineTake);
        let mut workers = core.mailbox_workers(owner);
        if !is_kept && workers.any(|worker| core.sleep.is_asleep_or_waking(worker)) {
            // The worker has nothing else to do; another worker has called it, or this one does.
            let mut workers = core.mailbox_workers(owner);
            match workers.any(|worker| core.sleep.is_woken(worker)) {
                true => core.notify_shared(self.id),
                false => core.notify_mailbox(self.id, owner),
            }
            return None;
        }
        let task = core.mailboxes[owner].take_affine(core.flags())?;
        Some((task, core.affine_source(self.id, owner)))
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
