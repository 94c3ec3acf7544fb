//! One worker, and its one step.

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

/// What a step came to.
#[must_use = "a worker that must park, or leave, has to be told apart from one that works"]
#[derive(Debug)]
pub enum Step {
    /// The worker ran a task.
    Ran,
    /// There was nothing; do this, then step again.
    Idle(IdleAction),
    /// Sleep until the worker is unparked, then [`Worker::resume`].
    Park(Ticket),
    /// The work is over: drop the worker.
    Exit,
}

/// Permission to sleep: the worker is in the list of sleepers and has looked once more where that
/// was its duty. There is no other way to get one than a step.
#[must_use = "a worker that was told to park must be resumed"]
#[derive(Debug)]
pub struct Ticket {
    pub(super) worker: usize,
    pub(super) timeout: Option<Duration>,
}

impl Ticket {
    /// How long to sleep at most.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

/// Where a worker stands between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It looks at home first.
    Active,
    /// It counts as searching.
    Searching,
    /// It was woken on the core of another worker, and has given way so many times (`Worker::give_way`).
    Standby(u32),
    /// It is in the list of sleepers and was the last one searching: one more look is due.
    LastLook(Option<Duration>),
    /// It sleeps, or is about to.
    Parked,
}

/// What a look around came to.
enum Search<T> {
    Found(T, Source),
    Nothing,
    /// Nothing yet: look again.
    Unfinished,
    /// As [`Acquired::Spared`].
    Spared,
}

/// A worker: it takes part from [`Core::enter`] until it is dropped.
///
/// When it leaves, what is in its queue and in its box goes to the injector, its count goes to the gate, and if it
/// was the last one searching somebody else is woken in its place.
pub struct Worker<'c, T: Send, Q: Strategy, O: Observer> {
    pub(super) core: &'c Core<T, Q, O>,
    pub(super) queue: Q::Handle<'c, T>,
    pub(super) id: usize,
    /// Tasks spawned minus tasks finished since the last flush; zero while `resting`.
    pub(super) count: i64,
    pub(super) selector: TaskSelector,
    pub(super) wake: WakeCounter,
    pub(super) phase: Phase,
    /// Not busy in the sense of the gate: everything is flushed.
    pub(super) resting: bool,
    /// Told the queue and the observer that it has run out.
    pub(super) idle: bool,
    /// The task that ran last asked to let older ones run.
    pub(super) yielded: bool,
    /// So many tasks of the own queue are taken from its old end: those ahead of one that wants to be behind all.
    pub(super) behind: usize,
    /// Tasks of the own queue may have changed places since it was last empty.
    pub(super) shuffled: bool,
    /// The newest task of the own queue, which was the only one, is to be run next, and nobody was told of it.
    pub(super) quiet: bool,
    /// There may be tasks in the own queue that were [spawned silently](RunningWorker::spawn_unnotified).
    pub(super) silent: bool,
    /// It has returned [`IdleAction::Poll`] since it last found a task.
    polled: bool,
    /// ClockSampler in vain in a row.
    pub(super) rounds: u32,
    /// The number of looks in vain after which the worker sleeps, though the policy would have it go on.
    pub(super) patience: u32,
    batch_wait: BatchWait,
    /// Made when it is first needed: a guest that finds work at home never does.
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
            behind: 0,
            shuffled: false,
            quiet: false,
            silent: false,
            polled: false,
            rounds: 0,
            patience: u32::MAX,
            batch_wait: BatchWait::new(),
            victims: None,
            rng: Rng::for_worker(settings.seed, id),
        }
    }

    /// What the workers share.
    #[must_use]
    pub fn core(&self) -> &'c Core<T, Q, O> {
        self.core
    }

    /// The worker's number.
    #[must_use]
    pub fn id(&self) -> usize {
        self.id
    }

    /// One move: runs a task with `run`, or looks for one, or takes a step towards sleep.
    ///
    /// Urgent tasks come first, and those that this worker should run. Then come those of the own queue, newest
    /// first; then those of the injector, in a batch (now and then the other way round); then those of others, and
    /// when there is nothing else, the Low ones.
    #[inline]
    pub fn step(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        if self.core.sleep.state().stopped() {
            return Step::Exit;
        }
        self.step_late(run)
    }

    /// A step that takes place even when the workers have been sent home: for a task that still waits for
    /// others then. [`Step::Exit`] means that there is nothing to do at the moment.
    #[inline]
    pub fn step_late(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        if self.phase == Phase::Active {
            let turn = self.selector.turns.tick();
            let raised = self.core.flags().read();
            if (turn
                || self.yielded
                || raised.presses()
                || self.selector.is_turn_of_futures(raised))
                && let Some((task, source)) = self.find_other()
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

    /// Takes the newest task of the own queue, or the oldest while somebody wants to be behind all that are there.
    #[inline(always)]
    pub(super) fn take_own(&mut self) -> Option<T> {
        if self.behind > 0
            && let task @ Some(_) = self.take_oldest()
        {
            return task;
        }
        self.queue.pop()
    }

    /// A task is started, most likely the one that nobody was told of, which was the oldest of the own queue.
    #[inline]
    pub(super) fn start_after_deferred(&mut self, source: Source) {
        self.quiet = false;
        if source != Source::Local || self.queue.has_own() {
            self.notify_deferred();
        }
    }

    /// Something else comes before the tasks that nobody was told of.
    #[cold]
    pub(super) fn notify_deferred(&mut self) {
        self.quiet = false;
        self.silent = false;
        if self.queue.has_own() {
            self.notify();
        }
    }

    /// A running task has pushed into the own queue: wakes a sleeper if no worker searches.
    #[inline(always)]
    pub(super) fn notify(&mut self) {
        debug_assert!(!self.resting, "`Worker::await_pushes` counts on it");
        if self.core.must_notify() {
            self.notify_with_care();
        }
    }

    /// The rest of [`notify`](Self::notify).
    #[cold]
    pub(super) fn notify_with_care(&mut self) {
        barrier::light();
        if self.core.wake_one(self.id) {
            // The woken worker comes to steal.
            self.queue.open();
        }
    }

    /// Whether the own queue holds a task.
    pub fn has_own(&self) -> bool {
        self.queue.has_own()
    }

    fn take_oldest(&mut self) -> Option<T> {
        self.behind -= 1;
        let task = self.queue.oldest();
        if task.is_none() {
            self.behind = 0;
        }
        task
    }

    /// A step of a worker that has nothing in its own queue.
    #[inline(never)]
    fn step_idle(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        match self.look_around() {
            Ok((task, source)) => {
                self.run(task, source, run);
                Step::Ran
            }
            Err(step) => step,
        }
    }

    /// ClockSampler for a task where others have theirs; or says what to do instead.
    fn look_around(&mut self) -> Result<(T, Source), Step> {
        match self.phase {
            Phase::Active => {
                if let Some(found) = self.look_near() {
                    self.polled = false;
                    return Ok(found);
                }
                if self.core.settings.polls && !std::mem::replace(&mut self.polled, true) {
                    // Not in the middle of a search, which others count on.
                    return Err(Step::Idle(IdleAction::Poll));
                }
                self.become_idle();
                if !self.core.sleep.start_search(self.core.search_limit()) {
                    // Enough others are looking.
                    return Err(self.fall_asleep(false, None));
                }
                self.phase = Phase::Searching;
                self.rounds = 0;
            }
            Phase::Searching => {}
            Phase::Standby(times) => return Err(self.give_way(times)),
            Phase::LastLook(timeout) => return Err(self.look_once_more(timeout)),
            Phase::Parked => unreachable!("a parked worker is resumed before it steps"),
        }
        let found = match self.search() {
            Search::Found(task, source) => (task, source),
            Search::Unfinished => return Err(Step::Idle(IdleAction::Spin(1))),
            // They may need help at any time, so no sleep; but somebody else may want the processor.
            Search::Spared => return Err(Step::Idle(IdleAction::Yield)),
            Search::Nothing => {
                self.rounds = self.rounds.saturating_add(1);
                let policy = &self.core.settings.idle;
                let tired = self.rounds > self.patience && policy.adapts();
                match policy.idle(if tired { u32::MAX } else { self.rounds }) {
                    IdleAction::Park(timeout) => match self.take_left_behind() {
                        Some(found) => found,
                        None => return Err(self.fall_asleep(true, timeout)),
                    },
                    action => return Err(Step::Idle(action)),
                }
            }
        };
        self.found();
        // If what was there has gone again, the next step looks anew.
        self.after_missed(found)
            .ok_or(Step::Idle(IdleAction::Spin(1)))
    }

    /// ClockSampler where a worker that has run out need not search.
    fn look_near(&mut self) -> Found<T> {
        let outside = self
            .take_mail()
            .or_else(|| self.take_injected(self.core.settings.inject_batch));
        if let Some(task) = outside {
            return Some((task, Source::Injector));
        }
        let raised = self.core.flags().read();
        // The normal ones have had their turn.
        let pressing = self.take_urgent(raised, self.core.settings.inject_batch);
        if let found @ Some(_) = pressing.or_else(|| self.take_own_affine(raised)) {
            return found;
        }
        // A glance at the others without telling anybody: who counts on a searcher counts on those that have
        // announced themselves. It saves four writes to words that everybody uses, and reading the clock twice,
        // when there is something right away.
        match self.hunt() {
            Acquired::Task {
                task,
                victim,
                moved,
            } => {
                if moved > 0 && !broken(Canary::Glance) {
                    // On their way they were nowhere to be seen, and a last look may have missed them.
                    self.core.notify_moved(self.id);
                }
                Some((task, source_of(victim)))
            }
            Acquired::Nothing | Acquired::Spared if raised.has(Level::Low) => self.take_low(),
            Acquired::Nothing | Acquired::Unfinished | Acquired::Spared => None,
        }
    }

    pub(super) fn take_mail(&mut self) -> Option<T> {
        self.core.mailboxes[self.id].take_mail()
    }

    /// Whether there are tasks for this worker alone. A driver that parks it must wake it for them.
    #[must_use]
    pub fn has_mail(&self) -> bool {
        self.core.mailboxes[self.id].has_mail()
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

    /// Takes at most so many, without waiting for more.
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
    /// queue. Returns how many went there.
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
            // Pairs with the fence in `Core::request_attention`: that look at the flag, or this one at the queue.
            fence_after_rmw();
        }
        // For what is left, and what has come since the flag was lowered.
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

    /// ClockSampler everywhere but in the boxes of others.
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
            // Those who need no help keep nobody from the rest.
            Acquired::Spared => {
                let rest = self.take_low().or_else(|| self.take_left_behind());
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

    /// The first task after a while without.
    #[cold]
    ///
    /// False when everything was finished, and everybody is about to be sent home.
    pub(super) fn become_busy(&mut self) -> bool {
        let mut going_on = true;
        if self.resting {
            self.resting = false;
            going_on = self.core.gate.busy();
        }
        (self.idle, self.polled) = (false, false);
        self.queue.busy();
        self.core.observer.event(self.id, Event::Busy);
        going_on
    }

    pub(super) fn become_idle(&mut self) {
        if !self.idle {
            self.idle = true;
            // Its queue is empty.
            (self.shuffled, self.silent) = (false, false);
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
            // Its task is in flight, so the work is not finished.
            let _ = self.become_busy();
        }
        if self.quiet || self.silent && source != Source::Local {
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
