//! The state that the workers of one engine share.

use super::{
    backlog::Backlog,
    event::{Event, OUTSIDE, Observer, Source},
    gate::{Gate, GateState, Verdict},
    injector::Injector,
    lanes::{Flags, Lanes, LowAge},
    mailbox::Mailbox,
    queue::Strategy,
    settings::Settings,
    sleep::SleeperList,
    sleep_state::SleepState,
    victims::Victims,
};
use crate::base::{
    canary::{Canary, broken},
    error::BuildError,
    padded::Padded,
    sync::{AtomicUsize, Ordering, fence_after_rmw, fence_seq_cst},
    sys::barrier,
};
use std::{fmt, sync::OnceLock};

/// The most workers without tasks that fall asleep without a search, since all others search.
const MAX_REFUSED_SEARCHERS: usize = 8;

/// The state that the workers of one engine share: queues, the gate word, the sleep word.
///
/// The [module documentation](super) shows one in use.
pub struct Core<T: Send, Q: Strategy, O: Observer> {
    pub(super) store: Q::Store<T>,
    pub(super) injector: Injector<T>,
    /// Futures that were spawned from outside.
    pub(super) futures: Injector<T>,
    /// Tasks of the other levels than the normal one.
    pub(super) lanes: Lanes<T>,
    pub(super) low_age: LowAge,
    /// The pinned and affine tasks of each worker; then the affine tasks of each node, if there are
    /// several.
    pub(super) mailboxes: Box<[Padded<Mailbox<T>>]>,
    pub(super) gate: Gate,
    pub(super) sleep: SleeperList,
    pub(super) observer: O,
    pub(super) settings: Settings,
    /// The number of workers that take part at present.
    pub(super) present: AtomicUsize,
    pub(super) backlog: Backlog,
    /// The order in which each worker visits the others, created at its first visit, since workers
    /// enter and leave often.
    victims: Box<[OnceLock<Victims>]>,
}

impl<T: Send, Q: Strategy, O: Observer> Core<T, Q, O> {
    /// Creates an engine without workers.
    ///
    /// ```
    /// use filch::engine::{Core, PerWorker, PerWorkerSpec, Settings, NoObserver};
    ///
    /// let none: Result<Core<u32, PerWorker, NoObserver>, _> =
    ///     Core::new(Settings::new(0), &PerWorkerSpec::default(), NoObserver);
    /// assert!(none.unwrap_err().is_config());
    /// ```
    ///
    /// # Errors
    /// When a setting makes no sense; the error names it.
    pub fn new(settings: Settings, spec: &Q::Spec, observer: O) -> Result<Self, BuildError> {
        settings.check()?;
        barrier::check_variable()?;
        let one_sided = barrier::prepare() == barrier::BarrierKind::Process;
        let capacity = settings.inject_capacity.unwrap_or(usize::MAX);
        let (nodes, producer_node) = (settings.distances.nodes(), &settings.producer_node);
        let injector = || Injector::for_nodes(capacity, nodes, producer_node);
        Ok(Self {
            store: Q::store(spec, settings.workers)?,
            injector: injector(),
            futures: injector(),
            lanes: Lanes::new(capacity),
            low_age: LowAge::default(),
            mailboxes: (0..settings.workers + if nodes > 1 { nodes } else { 0 })
                .map(|_| Padded::new(Mailbox::new()))
                .collect(),
            victims: (0..settings.workers).map(|_| OnceLock::new()).collect(),
            gate: Gate::new(),
            sleep: SleeperList::new(settings.workers, one_sided),
            observer,
            settings,
            present: AtomicUsize::new(0),
            backlog: Backlog::default(),
        })
    }

    pub(super) fn victims(&self, worker: usize) -> Victims {
        self.victims[worker]
            .get_or_init(|| Victims::new(&self.settings.distances, worker))
            .clone()
    }

    /// Called when there is an affine task in `mailbox`: wakes its worker if that sleeps, or one of
    /// its node, and otherwise a sleeper that takes the task if none of them becomes free.
    pub(super) fn notify_mailbox(&self, by: usize, mailbox: usize) {
        if !{ self.mailbox_workers(mailbox) }.any(|worker| self.wake_worker(by, worker)) {
            self.notify_shared(by);
        }
    }

    /// Returns the workers that should run the affine tasks in `mailbox`.
    pub(super) fn mailbox_workers(&self, mailbox: usize) -> impl Iterator<Item = usize> {
        let node = mailbox.checked_sub(self.workers());
        let members = node.map(|node| self.settings.distances.members(node));
        let worker = node.is_none().then_some(mailbox);
        worker.into_iter().chain(members.into_iter().flatten())
    }

    /// Returns the mailbox of the node of `worker`, if there is one.
    pub(super) fn node_mailbox(&self, worker: usize) -> Option<usize> {
        let node = self.settings.distances.node(worker)?;
        Some(self.workers() + node).filter(|&mailbox| mailbox < self.mailboxes.len())
    }

    /// Returns the source of a task that `worker` has taken from the affine ones in `mailbox`.
    pub(super) fn affine_source(&self, worker: usize, mailbox: usize) -> Source {
        match mailbox.checked_sub(self.workers()) {
            None => Source::Affine { worker: mailbox },
            Some(node) => Source::AffineNode {
                node,
                kept: self.node_mailbox(worker) == Some(mailbox),
            },
        }
    }

    /// Returns the place of a NUMA node among those of the workers, see
    /// [`Distances::find_node`](super::Distances).
    pub(crate) fn find_node(&self, number: usize) -> Result<Option<usize>, &[usize]> {
        self.settings.distances.find_node(number)
    }

    /// Whether `worker` is in a node.
    pub(crate) fn is_in_node(&self, worker: usize, node: usize) -> bool {
        self.settings.distances.node(worker) == Some(node)
    }

    /// Wakes `worker` if it sleeps.
    fn wake_worker(&self, by: usize, worker: usize) -> bool {
        let woken = self.sleep.wake_worker(worker);
        if woken {
            self.observer.event(by, Event::Called { target: worker });
            self.settings.unpark.unpark(worker);
        }
        woken
    }

    /// Admits no more tasks. When all tasks in flight have run, every worker gets
    /// [`Step::Exit`](super::Step::Exit).
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// core.close();
    /// assert!(core.inject(2, Placement::Injector).unwrap_err().is_closed());
    /// assert!(!core.is_stopped()); // a task is left
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn close(&self) {
        self.stop_if_finished(self.close_to_outside());
    }

    /// Refuses tasks from outside from now on, and adds those that the injector has counted to the
    /// gate (`gate.md`, *Tasks that the injector counts*).
    fn close_to_outside(&self) -> Verdict {
        if !self.is_open() {
            return Verdict::Running;
        }
        let defect = broken(Canary::CloseNotBusy);
        // False when another thread has closed the gate meanwhile, and the end has been reported.
        let unfinished = defect || self.gate.begin_busy();
        let entered = self.injector.close() + self.futures.close();
        let closed = self.gate.close();
        if defect {
            // Too late: `close` did not include them.
            let _ = self.gate.withdraw(entered.wrapping_neg());
            return closed;
        }
        match self.gate.end_busy(entered as i64) {
            Verdict::Finished if unfinished => Verdict::Finished,
            _ => Verdict::Running,
        }
    }

    /// Admits no more tasks, and makes every worker exit after the task that it is running. Queued
    /// tasks stay; [`take_queued`](Self::take_queued) returns them.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// core.stop();
    /// assert!(core.is_stopped());
    /// assert_eq!(core.take_queued(|| ()), [1]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn stop(&self) {
        // The verdict is not needed: all workers are stopped anyway.
        let _ = self.close_to_outside();
        self.stop_workers();
    }

    /// Whether tasks from outside are admitted.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert!(core.is_open());
    /// core.close();
    /// assert!(!core.is_open());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.gate.state().is_open()
    }

    /// Whether the workers must exit.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// core.close();
    /// let mut worker = core.enter(0);
    /// while !core.is_stopped() {
    ///     let _ = worker.step(|task, _| assert_eq!(task, 1));
    /// }
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.sleep.state().is_stopped()
    }

    /// Returns the current state of the gate.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// let state = core.gate_state();
    /// assert_eq!((state.is_open(), state.in_flight()), (true, 1));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn gate_state(&self) -> GateState {
        let entered = self.injector.entered() + self.futures.entered();
        self.gate.state().with_entered(entered)
    }

    /// Takes all queued tasks, once all workers have left.
    ///
    /// `wait` is called while a thread from outside has been admitted and has not queued its task
    /// yet, or is about to close the gate; it should give that thread time.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// core.inject(2, Placement::Affine(0)).unwrap();
    /// core.stop();
    /// let mut tasks = core.take_queued(std::thread::yield_now);
    /// tasks.sort();
    /// assert_eq!(tasks, [1, 2]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// When a worker is still taking part.
    #[must_use]
    pub fn take_queued(&self, mut wait: impl FnMut()) -> Vec<T> {
        // Acquire: pairs with the release in `Worker::leave`.
        assert_eq!(
            self.present.load(Ordering::Acquire),
            0,
            "tasks can be taken back only when every worker has left"
        );
        let mut tasks = Vec::new();
        loop {
            tasks.append(&mut self.injector.drain());
            tasks.append(&mut self.futures.drain());
            tasks.append(&mut self.lanes.drain(self.flags()));
            for mailbox in &self.mailboxes {
                tasks.append(&mut mailbox.drain(self.flags()));
            }
            Q::reset(&self.store, |task| tasks.push(task));
            // Exact when no worker is busy; another thread may be in the middle of a close.
            let gate = self.gate_state();
            if gate.busy_workers() == 0 && tasks.len() as i64 >= gate.in_flight() {
                let _ = self.gate.withdraw(tasks.len());
                return tasks;
            }
            wait();
        }
    }

    /// Returns the number of tasks, at some recent moment, in the queues that are not a worker's
    /// own: the injector, the lanes, the affine tasks.
    #[must_use]
    pub(crate) fn shared_len(&self) -> usize {
        let affine = if self.flags().read().has_affine() {
            self.mailboxes
                .iter()
                .map(|mailbox| mailbox.affine_len())
                .sum()
        } else {
            0
        };
        self.injector.len() + self.futures.len() + self.lanes.len() + affine
    }

    /// Moves the tasks in these queues that are `useless` to `into`: they count as finished.
    /// `useless` is called under a lock for every task, so it should be short, and must not panic.
    pub(crate) fn remove_useless(&self, useless: impl Fn(&T) -> bool, into: &mut Vec<T>) {
        let before = into.len();
        self.injector.remove_useless(&useless, into);
        self.futures.remove_useless(&useless, into);
        self.lanes.remove_useless(self.flags(), &useless, into);
        if self.flags().read().has_affine() {
            for mailbox in &self.mailboxes {
                mailbox.remove_useless(self.flags(), &useless, into);
            }
        }
        let taken = into.len() - before;
        if taken > 0 {
            self.stop_if_finished(self.gate.withdraw(taken));
        }
    }

    /// Returns the most workers at a time.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(3), &Default::default(), NoObserver)?;
    /// assert_eq!(core.workers(), 3); // numbers 0, 1 and 2
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn workers(&self) -> usize {
        self.settings.workers
    }

    /// Returns the observer.
    ///
    /// ```
    /// use filch::engine::{Core, PerWorker, Placement, Settings};
    /// use filch::observe::Counters;
    ///
    /// let core: Core<u32, PerWorker, Counters> =
    ///     Core::new(Settings::new(1), &Default::default(), Counters::new(1))?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// let _ = core.enter(0).step(|_, _| ());
    /// assert_eq!(core.observer().worker(0).executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Returns the flags of the lanes and mailboxes.
    #[inline(always)]
    pub(super) fn flags(&self) -> &Flags {
        self.sleep.flags()
    }

    /// Whether there is a task in any queue that more than one worker may take from.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert!(!core.has_work());
    /// core.inject(1, Placement::Injector).unwrap();
    /// assert!(core.has_work());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn has_work(&self) -> bool {
        let raised = self.flags().read();
        raised.lanes() || raised.has_affine() || self.has_normal_work()
    }

    pub(super) fn has_normal_work(&self) -> bool {
        // In this order: tasks move from the injector to the workers' queues, and not back without
        // a notification.
        !self.injector.is_empty() || !self.futures.is_empty() || Q::has_work(&self.store)
    }

    /// Whether an urgent task is queued. Costs one load, so that a long task may call it
    /// periodically.
    ///
    /// ```
    /// # use filch::engine::{Core, Priority, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// assert!(!core.has_urgent());
    /// core.inject(2, Placement::Lane(Priority::High)).unwrap();
    /// assert!(core.has_urgent());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn has_urgent(&self) -> bool {
        self.flags().read().urgent()
    }

    /// Whether a worker sleeps, which could be woken for another task.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// let mut worker = core.enter(0);
    /// while !matches!(worker.step(|_, _| ()), Step::Park(_)) {}
    /// assert!(core.has_sleepers());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn has_sleepers(&self) -> bool {
        self.sleep.state().has_sleepers()
    }

    /// Returns the number of normal tasks from outside at some recent moment.
    #[must_use]
    pub(crate) fn injected(&self) -> usize {
        self.injector.len()
    }

    /// Returns the current state of the sleep word.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert_eq!(core.sleep_state().searching(), 0); // there is no worker yet
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn sleep_state(&self) -> SleepState {
        self.sleep.state()
    }

    /// Returns the most workers that may search at a time: half of them, rounded up, but always
    /// two, and of more than 16 workers all but eight. A worker that waits for a part of its task
    /// searches too, and must not send the only other one to sleep right before it has the next
    /// part for it (`filch-bench traps`, case `regions` with two workers: 1.3 times faster than
    /// with one; 1.8 now). Of many workers half may not search either: those that fall asleep at
    /// the end of a parallel region are woken one after the other in the next one (256 simulated
    /// workers: 166 times faster than one, 204 with this limit; `bench/results/scale`).
    pub(super) fn search_limit(&self) -> usize {
        let present = self.present();
        (present - (present / 2).min(MAX_REFUSED_SEARCHERS)).max(2)
    }

    /// Returns how many of `tasks` from outside one worker may take, so that the other workers get
    /// some too.
    pub(super) fn fair_share(&self, tasks: usize) -> usize {
        tasks / self.present().max(1) + 1
    }

    /// Returns the number of workers that take part, at some recent moment.
    pub(super) fn present(&self) -> usize {
        // Relaxed: a heuristic.
        self.present.load(Ordering::Relaxed)
    }

    /// Called when a task was pushed to a queue that all workers check: wakes a sleeper if no
    /// worker searches, and requests attention if all workers are busy. The push must have ended
    /// with a read-modify-write.
    pub(super) fn notify_shared(&self, by: usize) {
        // Pairs with the fence in `Worker::make_pushes_visible`: either this load sees that the
        // last search has ended, or the check after that search sees the push.
        fence_after_rmw();
        if self.sleep.state().wants_wake() && !broken(Canary::PushWake) {
            let _ = self.take_sleeper(by);
        }
        self.request_attention();
    }

    /// [`notify_shared`](Self::notify_shared) that prefers to wake `worker`.
    pub(super) fn notify_near(&self, by: usize, worker: usize) {
        // Pairs as in `notify_shared`.
        fence_after_rmw();
        let wanted = self.sleep.state().wants_wake() && !broken(Canary::PushWake);
        if !(wanted && self.wake_worker(by, worker)) {
            // The worker is awake or about to sleep, or pushes have counted on this call meanwhile.
            self.notify_shared(by);
        }
    }

    /// Called when tasks were moved into the queue of worker `by`, which may be at rest: wakes a
    /// sleeper if no worker searches.
    #[cold]
    #[inline(never)]
    pub(super) fn notify_moved(&self, by: usize) {
        // Pairs with the fence in `Worker::make_pushes_visible`, as in `notify_shared`.
        fence_seq_cst();
        let _ = self.wake_one(by);
    }

    /// Whether a push by a running task into its worker's own queue may have to wake a sleeper, or
    /// attention is requested.
    #[inline(always)]
    pub(super) fn must_notify(&self) -> bool {
        // Between the push and the load of the sleep word: the light side of the barrier in
        // `Worker::make_pushes_visible`. Without such barriers the word is always marked as needing
        // care.
        barrier::interrupt_point();
        self.sleep.state().needs_slow_push() && !broken(Canary::PushWake)
    }

    /// Wakes a sleeper if there is one and no worker searches. Returns whether it did.
    pub(super) fn wake_one(&self, by: usize) -> bool {
        // Checked before the core number is read, which is a call.
        if !self.sleep.state().wants_wake() {
            return false;
        }
        let woken = self.take_sleeper(by);
        if !woken && !broken(Canary::AttentionTakeBack) {
            // Only stale entries were listed. One of them was counted as searching for a moment,
            // and a push may have relied on that search.
            self.request_attention_for_missed(by);
        }
        woken
    }

    /// Wakes a sleeper if there is one and no worker searches. Returns whether it did. If it did
    /// not, the caller must request attention.
    pub(super) fn take_sleeper(&self, by: usize) -> bool {
        let (core, near) = (self.current_core(), self.near_workers(by));
        let woken = self.sleep.wake_one(core, near);
        if let Some(worker) = woken {
            self.unpark(by, worker);
        }
        woken.is_some()
    }

    /// Wakes up to `most` sleepers, but no more than [`Settings::wake_fanout`]. Returns whether it
    /// woke one.
    pub(super) fn wake_several(&self, by: usize, most: usize) -> bool {
        let most = most.min(self.settings.wake_fanout);
        if most == 0 || !self.has_sleepers() {
            return false;
        }
        let (limit, core) = (self.search_limit(), self.current_core());
        let near = self.near_workers(by);
        let woken = (0..most).map_while(|_| self.sleep.wake_more(limit, core, near.clone()));
        woken.inspect(|&worker| self.unpark(by, worker)).count() > 0
    }

    /// Returns the workers of the node of the waker: `by`, or a thread from outside. None where
    /// there are not several nodes.
    fn near_workers(&self, by: usize) -> impl Iterator<Item = usize> + Clone {
        let distances = &self.settings.distances;
        let node = match distances.nodes() {
            0 | 1 => None,
            _ if by == OUTSIDE => (self.settings.producer_node)(),
            _ => distances.node(by),
        };
        let node = node.filter(|&node| node < distances.nodes());
        node.map(|node| distances.members(node))
            .into_iter()
            .flatten()
    }

    pub(super) fn current_core(&self) -> Option<u32> {
        (self.settings.current_core)()
    }

    pub(super) fn stop_if_finished(&self, verdict: Verdict) {
        if verdict == Verdict::Finished {
            self.stop_workers();
        }
    }

    fn stop_workers(&self) {
        self.sleep.stop();
        while let Some(worker) = self.sleep.wake_any() {
            self.unpark(OUTSIDE, worker);
        }
    }

    fn unpark(&self, by: usize, worker: usize) {
        self.observer.event(by, Event::Woke { target: worker });
        self.settings.unpark.unpark(worker);
    }
}

impl<T: Send, Q: Strategy, O: Observer> fmt::Debug for Core<T, Q, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("gate", &self.gate)
            .field("sleep", &self.sleep)
            .field("injector", &self.injector)
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}
