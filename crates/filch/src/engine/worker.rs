//! One worker, its step function, and its type while it is running a task.

use super::{
    batch_wait::BatchWait,
    core::Core,
    event::{Event, Observer, Source},
    idle::{IdleAction, WakeCounter},
    queue::{Queue, Strategy},
    turns::SelectionState,
    victims::Victims,
};
use crate::base::{rng::Rng, sync::Ordering, sys::barrier};
use std::{fmt, mem::ManuallyDrop, time::Duration};

/// The result of a step.
#[must_use = "a worker that must park, or leave, must not be treated as one that works"]
#[derive(Debug)]
pub enum Step {
    /// The worker ran a task.
    Ran,
    /// There was no task; do this, then step again.
    Idle(IdleAction),
    /// Sleep until the worker is unparked, then [`Worker::resume`].
    Park(ParkToken),
    /// The work is finished: drop the worker.
    Exit,
}

/// Permission to sleep: the worker is in the list of sleepers and has checked the queues once more
/// where the protocol requires it. Only a step returns one.
#[must_use = "a worker that was parked must be resumed"]
#[derive(Debug)]
pub struct ParkToken {
    pub(super) worker: usize,
    pub(super) timeout: Option<Duration>,
}

impl ParkToken {
    /// Returns the longest time to sleep.
    ///
    /// ```
    /// use filch::engine::{Core, PerWorker, Settings, NoObserver, Step, Tiered};
    /// use std::time::Duration;
    ///
    /// let second = Some(Duration::from_secs(1));
    /// let settings = Settings {
    ///     idle: Box::new(Tiered { park_timeout: second, ..Tiered::default() }),
    ///     ..Settings::new(1)
    /// };
    /// let core: Core<u32, PerWorker, NoObserver> = Core::new(settings, &Default::default(), NoObserver)?;
    /// let mut worker = core.enter(0);
    /// let token = loop {
    ///     if let Step::Park(token) = worker.step(|_, _| ()) {
    ///         break token;
    ///     }
    /// };
    /// assert_eq!(token.timeout(), second);
    /// worker.resume(token);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
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

/// A task and its source.
pub(super) type Found<T> = Option<(T, Source)>;

/// A worker: it takes part from [`Core::enter`] until it is dropped.
///
/// When it leaves, the tasks in its queue and the affine ones in its mailbox go to the injector,
/// the pinned ones to a worker that stays, and its count goes to the gate. If it was the last
/// searcher, another worker is woken in its place.
pub struct Worker<'c, T: Send, Q: Strategy, O: Observer> {
    pub(super) core: &'c Core<T, Q, O>,
    pub(super) queue: Q::Handle<'c, T>,
    pub(super) id: usize,
    /// Tasks spawned minus tasks finished since the last flush; zero while `idle_at_gate`.
    pub(super) count: i64,
    pub(super) selection: SelectionState,
    pub(super) wake: WakeCounter,
    pub(super) phase: Phase,
    /// Whether the gate does not count it as busy: its count has been flushed.
    pub(super) idle_at_gate: bool,
    /// Whether it has reported to the queue and the observer that it has no task.
    pub(super) reported_idle: bool,
    /// Whether the task that ran last asked to let older ones run.
    pub(super) yielded: bool,
    /// The number of tasks that are taken from the old end of its own queue first: those ahead of a
    /// task that must run behind all of them.
    pub(super) oldest_first: usize,
    /// What has run before the oldest task of its own queue, as
    /// [`count_towards_oldest`](RunningWorker::count_towards_oldest) has counted it since the last
    /// turn of that task.
    pub(super) passed_over: u32,
    /// Whether the newest task of its own queue, which was the only one, is to run next and was
    /// queued without a notification.
    pub(super) next_unnotified: bool,
    /// Whether there may be tasks in its own queue that were spawned [without a
    /// notification](super::Placement::LocalUnnotified).
    pub(super) has_unnotified: bool,
    /// Whether it has [retired](RunningWorker::retire): the work may end without it.
    pub(super) retired: bool,
    /// Whether it has returned [`IdleAction::Poll`] since it last found a task.
    pub(super) polled: bool,
    /// Whether it was woken and has found no task since.
    pub(super) woken: bool,
    /// The number of tasks that its last hunts have left to their owners.
    pub(super) deferred_tasks: usize,
    /// The number of failed searches in a row.
    pub(super) rounds: u32,
    /// The number of failed searches after which the worker sleeps, even if the policy would
    /// continue.
    pub(super) max_rounds: u32,
    pub(super) batch_wait: BatchWait,
    /// The number of takes from the injector, where there are several nodes.
    pub(super) near_takes: u32,
    /// The same for the injector of futures.
    pub(super) near_spawned_takes: u32,
    /// Created on first use: a thread that takes part for one call and finds tasks in its own queue
    /// never needs it.
    pub(super) victims: Option<Victims>,
    pub(super) rng: Rng,
}

/// A worker that is running a task. Only then may it spawn, because only then is it counted as
/// busy. The task counts as finished when this is dropped, also by a panic.
pub struct RunningWorker<'w, 'c, T: Send, Q: Strategy, O: Observer> {
    pub(super) worker: &'w mut Worker<'c, T, Q, O>,
}

impl<T: Send, Q: Strategy, O: Observer> Core<T, Q, O> {
    /// Makes worker `worker` take part. It leaves when the returned value is dropped.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(7, Placement::Injector).unwrap();
    /// let mut worker = core.enter(0);
    /// let _ = worker.step(|task, _| assert_eq!(task, 7));
    /// drop(worker); // it leaves, and may enter again
    /// let _worker = core.enter(0);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// When `worker` is not the number of a worker, or that one takes part already.
    pub fn enter(&self, worker: usize) -> Worker<'_, T, Q, O> {
        Worker::enter(self, worker)
    }
}

impl<'c, T: Send, Q: Strategy, O: Observer> Worker<'c, T, Q, O> {
    fn enter(core: &'c Core<T, Q, O>, id: usize) -> Self {
        let settings = &core.settings;
        assert!(id < settings.workers, "no worker {id} in this engine");
        let queue = Q::handle(&core.store, id);
        core.mailboxes[id].open();
        if let Some(node) = core.node_mailbox(id) {
            core.mailboxes[node].open();
        }
        // Relaxed: a heuristic until the worker leaves.
        core.present.fetch_add(1, Ordering::Relaxed);
        core.sleep.cores().awake(id, core.current_core());
        core.observer.event(id, Event::Entered);
        Self {
            core,
            queue,
            id,
            count: 0,
            selection: SelectionState::new(settings.inject_interval, settings.ageing),
            wake: WakeCounter::new(settings.wake),
            phase: Phase::Active,
            idle_at_gate: true,
            reported_idle: true,
            yielded: false,
            oldest_first: 0,
            passed_over: 0,
            next_unnotified: false,
            has_unnotified: false,
            retired: false,
            polled: false,
            woken: false,
            deferred_tasks: 0,
            rounds: 0,
            max_rounds: u32::MAX,
            batch_wait: BatchWait::new(),
            near_takes: 0,
            near_spawned_takes: 0,
            victims: None,
            rng: Rng::for_worker(settings.seed, id),
        }
    }

    /// Returns the worker's number.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(2), &Default::default(), NoObserver)?;
    /// assert_eq!(core.enter(1).id(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> usize {
        self.id
    }

    /// Makes one step: runs a task with `run`, or searches for one, or proceeds towards sleep.
    ///
    /// Urgent tasks come first, then this worker's affine tasks. Then come those of its own queue,
    /// newest first; then its pinned tasks; then those of the injector, in a batch (periodically
    /// the other way round); then those of other workers, and finally the Low ones.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// core.close();
    /// let mut worker = core.enter(0);
    /// assert!(matches!(worker.step(|task, _| assert_eq!(task, 1)), Step::Ran));
    /// // No task is left and none will come.
    /// while !matches!(worker.step(|_, _| ()), Step::Exit) {}
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline]
    pub fn step(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        if self.core.sleep.state().is_stopped() {
            return Step::Exit;
        }
        self.step_after_stop(run)
    }

    /// A step that takes place even when the workers have been stopped, for a task that still waits
    /// for others then. [`Step::Exit`] means that there is nothing to do at the moment.
    #[inline]
    pub(crate) fn step_after_stop(
        &mut self,
        run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>),
    ) -> Step {
        match self.begin_step() {
            Ok(task) => {
                run(task, RunningWorker { worker: self });
                Step::Ran
            }
            Err(step) => step,
        }
    }

    /// The first half of a step: takes a task that runs now, or does what there is to do without
    /// one. The task counts as finished when a [`RunningWorker`] of this worker is dropped.
    #[inline(always)]
    pub(super) fn begin_step(&mut self) -> Result<T, Step> {
        if self.phase == Phase::Active {
            let turn = self.selection.turns.tick();
            let raised = self.core.flags().read();
            if (turn
                || self.yielded
                || raised.has_preferred()
                || self.selection.tick_turn_of_futures(raised))
                && let Some((task, source)) = self.find_preferred()
            {
                self.record_run(source);
                return Ok(task);
            }
            if let Some(task) = self.take_own() {
                self.record_run(Source::Local);
                return Ok(task);
            }
        }
        self.begin_idle_step()
    }

    /// Returns the worker as one that runs a task. That the task finishes is recorded elsewhere.
    #[inline(always)]
    pub(crate) fn running(&mut self) -> ManuallyDrop<RunningWorker<'_, 'c, T, Q, O>> {
        ManuallyDrop::new(RunningWorker { worker: self })
    }

    /// Takes the newest task of its own queue, or the oldest while a task has to run behind all
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
    /// started task is most likely that one, which was the oldest of its own queue.
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

    /// Called when a running task has pushed into its own queue: wakes a sleeper if no worker
    /// searches.
    #[inline(always)]
    pub(super) fn notify(&mut self) {
        if self.idle_at_gate {
            // Only when a paused clock calls a waker on a worker that is about to sleep.
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

    /// Whether its own queue holds a task.
    pub(crate) fn has_own(&self) -> bool {
        self.queue.has_own()
    }

    /// Gives the oldest task of its own queue a turn as soon as the tasks that run are
    /// [counted](RunningWorker::count_towards_oldest). For drivers, which have a clock.
    pub(crate) fn make_oldest_due(&mut self) {
        self.passed_over = u32::MAX;
    }

    fn take_oldest(&mut self) -> Option<T> {
        self.oldest_first -= 1;
        let task = self.queue.pop_oldest();
        if task.is_none() {
            self.oldest_first = 0;
        }
        task
    }

    /// [`begin_step`](Self::begin_step) of a worker that has no task in its own queue.
    #[inline(never)]
    fn begin_idle_step(&mut self) -> Result<T, Step> {
        self.selection.drained = true;
        let (task, source) = self.find_elsewhere()?;
        self.record_run(source);
        Ok(task)
    }

    /// Whether the worker is running tasks: it neither searches nor sleeps, and the gate counts it
    /// as busy.
    #[inline(always)]
    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active && !self.reported_idle
    }

    /// Records that the worker has a task after a period without.
    ///
    /// Returns false when all work was finished, and the workers are about to be stopped.
    #[cold]
    pub(super) fn become_busy(&mut self) -> bool {
        let mut unfinished = true;
        if self.idle_at_gate {
            self.idle_at_gate = false;
            unfinished = self.core.gate.begin_busy();
        }
        (self.reported_idle, self.polled) = (false, false);
        self.queue.busy();
        self.core.observer.event(self.id, Event::Busy);
        unfinished
    }

    pub(super) fn become_idle(&mut self) {
        if !self.reported_idle {
            self.reported_idle = true;
            // Its queue is empty.
            self.has_unnotified = false;
            self.queue.idle();
            self.core.observer.event(self.id, Event::Idle);
        }
    }

    /// Records that a task from `source` runs now.
    #[inline(always)]
    fn record_run(&mut self, source: Source) {
        if self.reported_idle {
            // The task is in flight, so the work is not finished.
            let _ = self.become_busy();
        }
        if self.next_unnotified || self.has_unnotified && source != Source::Local {
            self.start_after_deferred(source);
        }
        if matches!(
            source,
            Source::Local | Source::Injector | Source::Steal { .. }
        ) {
            self.selection.normal_started = true;
        }
        self.core.observer.event(self.id, Event::Started { source });
        self.wake.pop();
    }
}

impl<T: Send, Q: Strategy, O: Observer> Drop for RunningWorker<'_, '_, T, Q, O> {
    #[inline(always)]
    fn drop(&mut self) {
        self.worker.count -= 1;
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Finished);
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

impl<T: Send, Q: Strategy, O: Observer> fmt::Debug for RunningWorker<'_, '_, T, Q, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunningWorker").field(&self.worker).finish()
    }
}
