//! One worker, and its step function.

use super::{
    batch_wait::BatchWait,
    core::Core,
    event::{Event, Observer, Source},
    idle::{IdleAction, WakeCounter},
    injector::Take,
    lanes::Level,
    queue::{Acquired, Hunt, Queue, Strategy},
    running::RunningWorker,
    selector::{Found, TaskSelector, source_of},
    victims::Victims,
};
use crate::base::{
    canary::{Canary, broken},
    rng::Rng,
    sync::{Ordering, fence_after_rmw},
    sys::barrier,
};
use std::{fmt, time::Duration};

/// The result of a step.
#[must_use = "a worker that must park, or leave, must not be treated as one that works"]
#[derive(Debug)]
pub enum Step {
    /// The worker ran a task.
    Ran,
    /// There was no task; do this, then step again.
    Idle(IdleAction),
    /// Sleep until the worker is unparked, then [`Worker::resume`].
    Park(Ticket),
    /// The work is finished: drop the worker.
    Exit,
}

/// Permission to sleep: the worker is in the list of sleepers and has checked the queues once more
/// where the protocol requires it. Only a step returns one.
#[must_use = "a worker that was parked must be resumed"]
#[derive(Debug)]
pub struct Ticket {
    pub(super) worker: usize,
    pub(super) timeout: Option<Duration>,
}

impl Ticket {
    /// Returns the longest time to sleep.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

/// The state of a worker between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It takes tasks of its own queue first.
    Active,
    /// It counts as searching.
    Searching,
    /// It was woken on the core of another worker, and has yielded this number of times
    /// (`Worker::yield_in_standby`).
    Standby(u32),
    /// It is in the list of sleepers and was the last searcher: it must check every queue once
    /// more.
    LastCheck(Option<Duration>),
    /// It sleeps, or is about to.
    Parked,
}

/// The result of a search.
enum Search<T> {
    Found(T, Source),
    Nothing,
    /// No task yet: search again.
    Unfinished,
    /// As [`Acquired::Spared`].
    Spared,
}

/// A worker: it takes part from [`Core::enter`] until it is dropped.
///
/// When it leaves, the tasks in its queue and in its mailbox go to the injector, and its count goes
/// to the gate. If it was the last searcher, another worker is woken in its place.
pub struct Worker<'c, T: Send, Q: Strategy, O: Observer> {
    pub(super) core: &'c Core<T, Q, O>,
    pub(super) queue: Q::Handle<'c, T>,
    pub(super) id: usize,
    /// Tasks spawned minus tasks finished since the last flush; zero while `resting`.
    pub(super) count: i64,
    pub(super) selector: TaskSelector,
    pub(super) wake: WakeCounter,
    pub(super) phase: Phase,
    /// Whether it is not busy in the sense of the gate: its count has been flushed.
    pub(super) resting: bool,
    /// Whether it has reported to the queue and the observer that it has no task.
    pub(super) idle: bool,
    /// Whether the task that ran last asked to let older ones run.
    pub(super) yielded: bool,
    /// The number of tasks that are taken from the old end of the own queue first: those ahead of a
    /// task that must run behind all of them.
    pub(super) oldest_first: usize,
    /// Whether tasks of the own queue may have changed places since it was last empty.
    pub(super) reordered: bool,
    /// Whether the newest task of the own queue, which was the only one, is to run next and was
    /// queued without a notification.
    pub(super) next_unnotified: bool,
    /// Whether there may be tasks in the own queue that were spawned [without a
    /// notification](super::Placement::LocalUnnotified).
    pub(super) has_unnotified: bool,
    /// Whether it has returned [`IdleAction::Poll`] since it last found a task.
    polled: bool,
    /// The number of failed searches in a row.
    pub(super) rounds: u32,
    /// The number of failed searches after which the worker sleeps, even if the policy would
    /// continue.
    pub(super) max_rounds: u32,
    batch_wait: BatchWait,
    /// Created on first use: a thread that takes part for one call and finds tasks in its own queue
    /// never needs it.
    victims: Option<Victims>,
    pub(super) rng: Rng,
}

impl<'c, T: Send, Q: Strategy, O: Observer> Worker<'c, T, Q, O> {
    pub(super) fn enter(core: &'c Core<T, Q, O>, id: usize) -> Self {
        let settings = &core.settings;
        assert!(id < settings.workers, "no worker {id} in this engine");
        let queue = Q::handle(&core.store, id);
        core.mailboxes[id].open();
        // Relaxed: a heuristic until the worker leaves.
        core.present.fetch_add(1, Ordering::Relaxed);
        core.sleep.cores().awake(id, core.current_core());
        core.observer.event(id, Event::Entered);
        Self {
            core,
            queue,
            id,
            count: 0,
            selector: TaskSelector::new(settings.inject_interval, settings.ageing),
            wake: WakeCounter::new(settings.wake),
            phase: Phase::Active,
            resting: true,
            idle: true,
            yielded: false,
            oldest_first: 0,
            reordered: false,
            next_unnotified: false,
            has_unnotified: false,
            polled: false,
            rounds: 0,
            max_rounds: u32::MAX,
            batch_wait: BatchWait::new(),
            victims: None,
            rng: Rng::for_worker(settings.seed, id),
        }
    }

    /// Returns the state that the workers share.
    #[must_use]
    pub fn core(&self) -> &'c Core<T, Q, O> {
        self.core
    }

    /// Returns the worker's number.
    #[must_use]
    pub fn id(&self) -> usize {
        self.id
    }

    /// Makes one step: runs a task with `run`, or searches for one, or proceeds towards sleep.
    ///
    /// Urgent tasks come first, then this worker's affine tasks. Then come those of its own queue,
    /// newest first; then those of the injector, in a batch (periodically the other way round);
    /// then those of other workers, and finally the Low ones.
    #[inline]
    pub fn step(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        if self.core.sleep.state().stopped() {
            return Step::Exit;
        }
        self.step_late(run)
    }

    /// A step that takes place even when the workers have been stopped, for a task that still waits
    /// for others then. [`Step::Exit`] means that there is nothing to do at the moment.
    #[inline]
    pub fn step_late(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        if self.phase == Phase::Active {
            let turn = self.selector.turns.tick();
            let raised = self.core.flags().read();
            if (turn
                || self.yielded
                || raised.has_preferred()
                || self.selector.tick_turn_of_futures(raised))
                && let Some((task, source)) = self.find_preferred()
            {
                self.run(task, source, run);
                return Step::Ran;
            }
            if let Some(task) = self.take_own() {
                self.run(task, Source::Local, run);
                return Step::Ran;
            }
        }
        self.step_idle(run)
    }

    /// Takes the newest task of the own queue, or the oldest while a task has to run behind all
    /// that are there.
    #[inline(always)]
    pub(super) fn take_own(&mut self) -> Option<T> {
        if self.oldest_first > 0
            && let task @ Some(_) = self.take_oldest()
        {
            return task;
        }
        self.queue.pop()
    }

    /// Called when a task is started after one was queued to run next without a notification. The
    /// started task is most likely that one, which was the oldest of the own queue.
    #[inline]
    pub(super) fn start_after_deferred(&mut self, source: Source) {
        self.next_unnotified = false;
        if source != Source::Local || self.queue.has_own() {
            self.notify_deferred();
        }
    }

    /// Wakes a sleeper for tasks that were queued without a notification, because another task runs
    /// before them.
    #[cold]
    pub(super) fn notify_deferred(&mut self) {
        self.next_unnotified = false;
        self.has_unnotified = false;
        if self.queue.has_own() {
            self.notify();
        }
    }

    /// Called when a running task has pushed into the own queue: wakes a sleeper if no worker
    /// searches.
    #[inline(always)]
    pub(super) fn notify(&mut self) {
        if self.resting {
            // A waker that a paused clock calls on a worker that is about to sleep.
            self.core.notify_moved(self.id);
        } else if self.core.must_notify() {
            self.notify_slowly();
        }
    }

    /// The slow path of [`notify`](Self::notify).
    #[cold]
    pub(super) fn notify_slowly(&mut self) {
        barrier::light();
        if self.core.wake_one(self.id) {
            // The woken worker will steal from this queue.
            self.queue.open();
        }
    }

    /// Whether the own queue holds a task.
    pub fn has_own(&self) -> bool {
        self.queue.has_own()
    }

    fn take_oldest(&mut self) -> Option<T> {
        self.oldest_first -= 1;
        let task = self.queue.oldest();
        if task.is_none() {
            self.oldest_first = 0;
        }
        task
    }

    /// A step of a worker that has no task in its own queue.
    #[inline(never)]
    fn step_idle(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        match self.find_elsewhere() {
            Ok((task, source)) => {
                self.run(task, source, run);
                Step::Ran
            }
            Err(step) => step,
        }
    }

    /// Searches for a task outside of the own queue, or returns what to do instead.
    fn find_elsewhere(&mut self) -> Result<(T, Source), Step> {
        match self.phase {
            Phase::Active => {
                if let Some(found) = self.find_unannounced() {
                    self.polled = false;
                    return Ok(found);
                }
                if self.core.settings.polls && !std::mem::replace(&mut self.polled, true) {
                    // Not in the middle of a search, on which pushes count.
                    return Err(Step::Idle(IdleAction::Poll));
                }
                self.become_idle();
                if !self.core.sleep.start_search(self.core.search_limit()) {
                    // Enough other workers are searching.
                    return Err(self.fall_asleep(false, None));
                }
                self.phase = Phase::Searching;
                self.rounds = 0;
            }
            Phase::Searching => {}
            Phase::Standby(times) => return Err(self.yield_in_standby(times)),
            Phase::LastCheck(timeout) => return Err(self.finish_last_check(timeout)),
            Phase::Parked => unreachable!("a parked worker is resumed before it steps"),
        }
        let found = match self.search() {
            Search::Found(task, source) => (task, source),
            Search::Unfinished => return Err(Step::Idle(IdleAction::Spin(1))),
            // The spared workers may need help at any time, so this one does not sleep; but another
            // thread may need the core.
            Search::Spared => return Err(Step::Idle(IdleAction::Yield)),
            Search::Nothing => {
                self.rounds = self.rounds.saturating_add(1);
                let policy = &self.core.settings.idle;
                let give_up = self.rounds > self.max_rounds && policy.adapts();
                match policy.idle(if give_up { u32::MAX } else { self.rounds }) {
                    IdleAction::Park(timeout) => match self.take_affine_of_others() {
                        Some(found) => found,
                        None => return Err(self.fall_asleep(true, timeout)),
                    },
                    action => return Err(Step::Idle(action)),
                }
            }
        };
        self.found();
        // If the found task is gone again, the next step searches anew.
        self.after_missed(found)
            .ok_or(Step::Idle(IdleAction::Spin(1)))
    }

    /// Checks the places that a worker without tasks visits without announcing a search.
    fn find_unannounced(&mut self) -> Found<T> {
        let outside = self
            .take_pinned()
            .or_else(|| self.take_injected(self.core.settings.inject_batch));
        if let Some(task) = outside {
            return Some((task, Source::Injector));
        }
        let raised = self.core.flags().read();
        // The normal tasks have had their turn.
        let pressing = self.take_urgent(raised, self.core.settings.inject_batch);
        if let found @ Some(_) = pressing.or_else(|| self.take_own_affine(raised)) {
            return found;
        }
        // An unannounced visit to the other workers: pushes count only on workers that have
        // announced a search. If it finds a task, it saves four writes to shared words and two
        // clock reads.
        match self.hunt() {
            Acquired::Task {
                task,
                victim,
                moved,
            } => {
                if moved > 0 && !broken(Canary::Glance) {
                    // The tasks were in no queue for a moment, and a last check may have missed
                    // them.
                    self.core.notify_moved(self.id);
                }
                Some((task, source_of(victim)))
            }
            Acquired::Nothing | Acquired::Spared if raised.has(Level::Low) => self.take_low(),
            Acquired::Nothing | Acquired::Unfinished | Acquired::Spared => None,
        }
    }

    pub(super) fn take_pinned(&mut self) -> Option<T> {
        self.core.mailboxes[self.id].take_pinned()
    }

    /// Whether there are tasks that only this worker may run. A driver that parks it must wake it
    /// for them.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, Silent};
    /// # let core: Core<u32, PerWorker, Silent> = Core::new(Settings::new(1), &Default::default(), Silent)?;
    /// let worker = core.enter(0);
    /// core.inject(1, Placement::Pinned(0)).unwrap();
    /// assert!(worker.has_pinned());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn has_pinned(&self) -> bool {
        self.core.mailboxes[self.id].has_pinned()
    }

    #[inline]
    pub(super) fn take_injected(&mut self, most: usize) -> Option<T> {
        if self.core.injector.is_empty() {
            return None;
        }
        self.take_injected_batch(most)
    }

    #[cold]
    fn take_injected_batch(&mut self, most: usize) -> Option<T> {
        let injector = &self.core.injector;
        let queued = if most > 1 {
            self.batch_wait.wait(|| injector.len())
        } else {
            injector.len()
        };
        self.take_some_injected(most, queued)
    }

    /// Takes at most `most` tasks, without waiting for more.
    pub(super) fn take_injected_now(&mut self, most: usize) -> Option<T> {
        match self.core.injector.len() {
            0 => None,
            queued => self.take_some_injected(most, queued),
        }
    }

    fn take_some_injected(&mut self, most: usize, queued: usize) -> Option<T> {
        let injector = &self.core.injector;
        let share = self.core.fair_share(queued);
        let queue = &mut self.queue;
        match injector.try_take(most.min(share), |task| queue.push(task)) {
            Take::Taken(task, moved) => {
                self.note_moved(moved);
                self.selector.batch_left = moved;
                if !injector.is_empty() {
                    // This worker may be busy for long now, and so may all others.
                    self.core.request_attention();
                }
                Some(task)
            }
            Take::Empty | Take::Busy => None,
        }
    }

    /// Takes up to `most` futures that were spawned from outside; all but the first go to the own
    /// queue. Returns the first and the number of the others.
    pub(super) fn take_spawned(&mut self, most: usize) -> Option<(T, usize)> {
        let core = self.core;
        let queued = if most > 1 {
            self.batch_wait.wait(|| core.futures.len())
        } else {
            1
        };
        let most = most.min(core.fair_share(queued));
        let queue = &mut self.queue;
        let taken = core.futures.try_take(most, |task| queue.push(task));
        if core.futures.is_empty() && core.flags().lower_spawned() {
            // Pairs with the fence in `Core::request_attention`: either the load there sees the
            // flag lowered, or the check below sees the push.
            fence_after_rmw();
        }
        // For the futures that are left, and those that were pushed since the flag was lowered.
        if !core.futures.is_empty() {
            core.request_attention();
        }
        match taken {
            Take::Taken(task, moved) => {
                self.note_moved(moved);
                Some((task, moved))
            }
            Take::Empty | Take::Busy => None,
        }
    }

    fn note_moved(&self, tasks: usize) {
        if tasks > 0 {
            self.core.observer.event(self.id, Event::Moved { tasks });
        }
    }

    /// Searches everywhere except in the mailboxes of other workers.
    fn search(&mut self) -> Search<T> {
        let raised = self.core.flags().read();
        let pressing = self.take_urgent(raised, self.core.settings.inject_batch);
        if let Some((task, source)) = pressing.or_else(|| self.take_own_affine(raised)) {
            return Search::Found(task, source);
        }
        if let Some(task) = self.take_injected(self.core.settings.inject_batch) {
            return Search::Found(task, Source::Injector);
        }
        match self.hunt() {
            Acquired::Task { task, victim, .. } => Search::Found(task, source_of(victim)),
            Acquired::Unfinished => Search::Unfinished,
            // Workers that need no help do not delay the remaining tasks.
            Acquired::Spared => {
                let rest = self.take_low().or_else(|| self.take_affine_of_others());
                rest.map_or(Search::Spared, |(task, source)| Search::Found(task, source))
            }
            Acquired::Nothing => match self.take_low() {
                Some((task, source)) => Search::Found(task, source),
                None => Search::Nothing,
            },
        }
    }

    /// Visits victims.
    fn hunt(&mut self) -> Acquired<T> {
        let settings = &self.core.settings;
        let victims = self
            .victims
            .get_or_insert_with(|| self.core.victims(self.id));
        let mut hunt = Hunt::new(victims, &mut self.rng, settings.steal_tries);
        let acquired = self.queue.try_acquire(&mut hunt);
        let (attempts, retries) = hunt.effort();
        if attempts > 0 {
            self.core
                .observer
                .event(self.id, Event::Searched { attempts, retries });
        }
        if let Acquired::Task { moved, .. } = acquired {
            self.note_moved(moved);
        }
        acquired
    }

    /// Whether the worker is running tasks: it neither searches nor sleeps, and the gate counts it
    /// as busy.
    #[inline(always)]
    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active && !self.idle
    }

    /// Records that the worker has a task after a period without.
    ///
    /// Returns false when all work was finished, and the workers are about to be stopped.
    #[cold]
    pub(super) fn become_busy(&mut self) -> bool {
        let mut unfinished = true;
        if self.resting {
            self.resting = false;
            unfinished = self.core.gate.busy();
        }
        (self.idle, self.polled) = (false, false);
        self.queue.busy();
        self.core.observer.event(self.id, Event::Busy);
        unfinished
    }

    pub(super) fn become_idle(&mut self) {
        if !self.idle {
            self.idle = true;
            // Its queue is empty.
            (self.reordered, self.has_unnotified) = (false, false);
            self.queue.idle();
            self.core.observer.event(self.id, Event::Idle);
        }
    }

    #[inline(always)]
    fn run(
        &mut self,
        task: T,
        source: Source,
        run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>),
    ) {
        if self.idle {
            // The task is in flight, so the work is not finished.
            let _ = self.become_busy();
        }
        if self.next_unnotified || self.has_unnotified && source != Source::Local {
            self.start_after_deferred(source);
        }
        self.core.observer.event(self.id, Event::Started { source });
        self.wake.pop();
        run(task, RunningWorker { worker: self });
    }
}

impl<T: Send, Q: Strategy, O: Observer> fmt::Debug for Worker<'_, T, Q, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("id", &self.id)
            .field("phase", &self.phase)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
