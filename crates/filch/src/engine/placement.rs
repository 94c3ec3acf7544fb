//! Where a new task is queued: [`Placement`], and the calls that take one.

use super::{
    core::Core,
    event::{Event, OUTSIDE, Observer},
    lanes::Priority,
    queue::{Queue, Strategy},
    worker::{RunningWorker, Worker},
};
use crate::base::error::Refused;

/// Where a new task is queued, and which workers are notified of it.
///
/// Every task enters the engine with one of these: a worker that runs a task calls
/// [`RunningWorker::spawn`], any other thread [`Core::inject`]. (The exceptions are batches from
/// outside, [`Core::inject_batch`], and the second half of a join in a pool.)
///
/// | placement | queue and order | notified |
/// |---|---|---|
/// | `Local` | own queue; its worker takes the newest first, thieves the oldest | a sleeper |
/// | `LocalUnnotified` | as `Local` | deferred |
/// | `LocalLast` | own queue; runs after all tasks that are in it now | a sleeper |
/// | `Next` | own queue; the next task of its worker | deferred if alone, else a sleeper |
/// | `Injector` | shared; first in, first out for each producer | a sleeper, or busy workers |
/// | `InjectorNear(w)` | as `Injector` | `w` if it sleeps, else as `Injector` |
/// | `FutureInjector` | shared; before the injector, first in, first out | as `Injector` |
/// | `Lane(level)` | shared; before all tasks of lower levels | as `Injector` |
/// | `Affine(w)` | mailbox of `w`, before its own queue; others help if `w` is busy | `w`, or a sleeper |
/// | `AffineNode(n)` | mailbox of a node; others help if its workers are busy | one of `n`, or a sleeper |
/// | `Pinned(w)` | mailbox of `w`; no other worker runs it | `w` |
///
/// *Own queue*: that of the worker that spawns. A thread that is not a worker has none, so for
/// [`Core::inject`] the first four mean `Injector`. There is no lane for [`Priority::Normal`]:
/// `Lane(Priority::Normal)` means `Local`.
///
/// *A sleeper*: one sleeping worker is woken, unless a worker is searching, which will find the
/// task. For `Local` and `LocalLast` this is subject to [`WakePolicy`](super::WakePolicy). *Busy
/// workers*: if all workers are running tasks, they are requested to serve the queue beside their
/// own. *Deferred*: the worker that spawns runs the task itself, so no sleeper is woken. It makes
/// up for that before it runs another task first, or when it
/// [ends its wait](RunningWorker::end_wait); [`RunningWorker::notify`] does it at once.
///
/// *When there is no room*: an own queue may be bounded. Then [`RunningWorker::spawn`] uses the
/// injector, and [`RunningWorker::try_spawn`] returns the task. Every other placement accepts all
/// tasks of a worker, since a worker that waited for room would wait for itself. From outside the
/// injectors and lanes refuse a task beyond
/// [`Settings::inject_capacity`](super::Settings::inject_capacity), and all placements refuse it
/// after [`Core::close`].
///
/// *Workers that have left*: an affine task in the mailbox of such a worker, or of a node whose
/// last worker has left, goes to the injector, so any worker runs it. A pinned one goes to worker
/// 0, or to the injector if that one has left too or has not entered.
///
/// All orders are subject to the turns of [`Ageing`](super::Ageing), so that no queue starves.
///
/// A placement that is a constant costs nothing: the calls are inlined, and only the code for that
/// placement remains.
///
/// ```
/// use filch::engine::{Core, Priority, PerWorker, Placement, Settings, NoObserver};
///
/// let core: Core<&str, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
/// core.inject("first", Placement::Injector).unwrap();
/// let (mut worker, mut order) = (core.enter(0), vec![]);
/// while order.len() < 7 {
///     let _ = worker.step(|task, mut running| {
///         order.push(task);
///         if task == "first" {
///             running.spawn("low", Placement::Lane(Priority::Low));
///             running.spawn("shared", Placement::Injector);
///             running.spawn("oldest", Placement::Local);
///             running.spawn("newest", Placement::Local);
///             running.spawn("affine", Placement::Affine(0));
///             running.spawn("urgent", Placement::Lane(Priority::Critical));
///         }
///     });
/// }
/// assert_eq!(order, ["first", "urgent", "affine", "newest", "oldest", "shared", "low"]);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// The young end of the worker's own queue: the cheapest, with the data in the cache.
    Local,
    /// [`Local`](Self::Local), but no sleeper is woken, regardless of the policy: for several tasks
    /// in a row, after which the worker [notifies](RunningWorker::notify) once, or for a task that
    /// this worker runs soon.
    LocalUnnotified,
    /// The worker's own queue, behind all tasks that are in it now: until the turn of this task the
    /// worker takes the oldest first. For a task that lets others run before it continues. Only
    /// queues with [`own_len`](Queue::own_len) have such a turn; for others, as
    /// [`Local`](Self::Local).
    LocalLast,
    /// The worker's own queue, as the next task of this worker. Two tasks that wake each other run
    /// faster on one worker, so thieves leave the task alone for a moment, and no sleeper is woken
    /// for it. If there are other tasks in the queue, as [`Local`](Self::Local).
    Next,
    /// The injector, which all workers take batches from: behind all tasks that this thread has put
    /// there before. Tasks of other threads are interleaved with them.
    Injector,
    /// [`Injector`](Self::Injector), but if a worker has to be woken, preferably this one instead
    /// of the one that fell asleep last. Repeated calls then find warm caches and local memory.
    InjectorNear(usize),
    /// The injector of futures that were not polled yet. It comes before the
    /// [`Injector`](Self::Injector) and before the workers' own queues, in batches, so that many
    /// futures start soon.
    FutureInjector,
    /// The lane of a level, which all workers check: the urgent levels before their own queues,
    /// [`Priority::Low`] after everything else.
    Lane(Priority),
    /// The mailbox of a worker that should run the task if it is free soon. Otherwise any worker
    /// does.
    Affine(usize),
    /// The mailbox of a [node](super::Distances::node), one of whose workers should run the task if
    /// one is free soon. Otherwise any worker does. As [`Injector`](Self::Injector) where there are
    /// not several nodes.
    AffineNode(usize),
    /// The mailbox of the only worker that may run the task. It does so between two tasks.
    Pinned(usize),
}

impl Placement {
    /// Whether the task goes to the queue of the worker that spawns it.
    #[inline(always)]
    pub(crate) const fn is_own(self) -> bool {
        matches!(
            self,
            Self::Local
                | Self::LocalUnnotified
                | Self::LocalLast
                | Self::Next
                | Self::Lane(Priority::Normal)
        )
    }
}

impl<T: Send, Q: Strategy, O: Observer> RunningWorker<'_, '_, T, Q, O> {
    /// Queues a task. If the worker's own queue is meant and full, the task goes to the injector.
    /// [`Placement`] has an example.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(3, Placement::Injector).unwrap();
    /// let (mut worker, mut order) = (core.enter(0), vec![]);
    /// while order.len() < 4 {
    ///     let _ = worker.step(|task, mut running| {
    ///         order.push(task);
    ///         if task > 0 {
    ///             running.spawn(task - 1, Placement::Local);
    ///         }
    ///     });
    /// }
    /// assert_eq!(order, [3, 2, 1, 0]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// When the placement names a worker or node that does not exist.
    #[inline(always)]
    pub fn spawn(&mut self, task: T, placement: Placement) {
        if let Err(task) = self.try_spawn(task, placement) {
            self.spawn_overflow(task);
        }
    }

    /// [`spawn`](Self::spawn) of a task that did not fit into the worker's own queue.
    #[cold]
    #[inline(never)]
    fn spawn_overflow(&mut self, task: T) {
        self.worker.push_injected(task);
    }

    /// [`spawn`](Self::spawn) that returns the task if the worker's own queue is meant and full.
    ///
    /// ```
    /// use filch::engine::{Capacity, Core, PerWorker, PerWorkerSpec, Placement, Settings, NoObserver};
    ///
    /// let spec = PerWorkerSpec { capacity: Capacity::bounded(2), ..Default::default() };
    /// let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &spec, NoObserver)?;
    /// core.inject(0, Placement::Injector).unwrap();
    /// let _ = core.enter(0).step(|_, mut running| {
    ///     assert_eq!(running.try_spawn(1, Placement::Local), Ok(()));
    ///     assert_eq!(running.try_spawn(2, Placement::Local), Ok(()));
    ///     assert_eq!(running.try_spawn(3, Placement::Local), Err(3));
    ///     assert_eq!(running.try_spawn(4, Placement::Injector), Ok(()));
    /// });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The task, when the queue is full.
    ///
    /// # Panics
    /// When the placement names a worker or node that does not exist.
    #[inline(always)]
    pub fn try_spawn(&mut self, task: T, placement: Placement) -> Result<(), T> {
        let worker = &mut *self.worker;
        if !placement.is_own() {
            worker.push_shared(task, placement);
            return Ok(());
        }
        let next = placement == Placement::Next && worker.queue.prepare_next();
        worker.queue.push(task)?;
        worker.count_spawned(Event::SpawnedLocal);
        if placement == Placement::LocalUnnotified {
            worker.has_unnotified = true;
        } else if next {
            worker.next_unnotified = true;
        } else if worker.wake.push() {
            worker.notify();
        }
        if placement == Placement::LocalLast {
            worker.oldest_first = worker.queue.own_len();
        }
        Ok(())
    }
}

impl<T: Send, Q: Strategy, O: Observer> Worker<'_, T, Q, O> {
    /// Adds a task that does not go to the worker's own queue. Not always inlined: the frames of
    /// unoptimised builds would grow by the locals of all arms.
    #[inline]
    fn push_shared(&mut self, task: T, placement: Placement) {
        let (core, id) = (self.core, self.id);
        match placement {
            Placement::InjectorNear(near) => {
                core.assert_worker(near);
                core.injector.push_always([task]);
                self.count_spawned(Event::SpawnedGlobal);
                core.notify_near(id, near);
            }
            Placement::FutureInjector => {
                core.futures.push_always([task]);
                self.count_spawned(Event::SpawnedGlobal);
                core.notify_shared(id);
            }
            Placement::Lane(level) => {
                core.lanes.push_always(core.flags(), level, task);
                self.count_spawned(Event::SpawnedLane { level });
                core.notify_shared(id);
            }
            Placement::Affine(owner) => {
                core.assert_worker(owner);
                core.push_affine(owner, task);
                self.count_spawned(Event::SpawnedFor { worker: owner });
                core.notify_mailbox(id, owner);
            }
            Placement::AffineNode(node) if core.has_nodes() => {
                let mailbox = core.mailbox_of(node);
                core.push_affine(mailbox, task);
                self.count_spawned(Event::SpawnedForNode { node });
                core.notify_mailbox(id, mailbox);
            }
            Placement::Pinned(owner) => {
                core.assert_worker(owner);
                self.count += 1;
                core.push_pinned(owner, task);
            }
            _ => self.push_injected(task),
        }
    }

    fn push_injected(&mut self, task: T) {
        self.core.injector.push_always([task]);
        self.count_spawned(Event::SpawnedGlobal);
        self.core.notify_shared(self.id);
    }

    #[inline(always)]
    fn count_spawned(&mut self, event: Event) {
        self.count += 1;
        self.core.observer.event(self.id, event);
    }
}

impl<T: Send, Q: Strategy, O: Observer> Core<T, Q, O> {
    /// Adds a task from outside.
    ///
    /// ```
    /// use filch::engine::{Core, Priority, PerWorker, Placement, Settings, NoObserver};
    ///
    /// let core: Core<&str, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject("some time", Placement::Injector).unwrap();
    /// core.inject("last", Placement::Lane(Priority::Low)).unwrap();
    /// core.inject("first", Placement::Lane(Priority::Critical)).unwrap();
    /// let (mut worker, mut order) = (core.enter(0), vec![]);
    /// while order.len() < 3 {
    ///     let _ = worker.step(|task, _| order.push(task));
    /// }
    /// assert_eq!(order, ["first", "some time", "last"]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The task, when the gate is closed, or the queue that the placement names is full.
    ///
    /// # Panics
    /// When the placement names a worker or node that does not exist.
    #[inline(always)]
    pub fn inject(&self, task: T, placement: Placement) -> Result<(), Refused<T>> {
        match placement {
            Placement::AffineNode(node) if self.has_nodes() => {
                let mailbox = self.mailbox_of(node);
                let task = self.admit(task)?;
                self.push_affine(mailbox, task);
                self.notify_mailbox(OUTSIDE, mailbox);
            }
            Placement::Local
            | Placement::LocalUnnotified
            | Placement::LocalLast
            | Placement::Next
            | Placement::Injector
            | Placement::AffineNode(_)
            | Placement::Lane(Priority::Normal) => {
                // The injector counts the task until `close`, and so does that of the futures.
                self.injector.admit(task)?;
                self.notify_shared(OUTSIDE);
            }
            Placement::InjectorNear(near) => {
                self.assert_worker(near);
                self.injector.admit(task)?;
                self.notify_near(OUTSIDE, near);
            }
            Placement::FutureInjector => {
                self.futures.admit(task)?;
                self.notify_shared(OUTSIDE);
            }
            Placement::Lane(level) => {
                let task = self.admit(task)?;
                if let Err(task) = self.lanes.push(self.flags(), level, task) {
                    self.stop_if_finished(self.gate.withdraw(1));
                    return Err(Refused::full(task));
                }
                self.notify_shared(OUTSIDE);
            }
            Placement::Affine(worker) => {
                self.assert_worker(worker);
                let task = self.admit(task)?;
                self.push_affine(worker, task);
                self.notify_mailbox(OUTSIDE, worker);
            }
            Placement::Pinned(worker) => {
                self.assert_worker(worker);
                let task = self.admit(task)?;
                self.push_pinned(worker, task);
            }
        }
        Ok(())
    }

    /// Adds all tasks to the injector from outside, in their order, or none.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings { inject_capacity: Some(3), ..Settings::new(1) }, &Default::default(), NoObserver)?;
    /// assert!(core.inject_batch(vec![1, 2]).is_ok());
    /// let refused = core.inject_batch(vec![3, 4]).unwrap_err();
    /// assert!(refused.is_full());
    /// assert_eq!(refused.into_inner(), [3, 4]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// All the tasks, when the gate is closed or they don't all fit into the injector.
    pub fn inject_batch(&self, tasks: Vec<T>) -> Result<(), Refused<Vec<T>>> {
        self.injector.admit_batch(tasks)?;
        self.notify_shared(OUTSIDE);
        Ok(())
    }

    /// Counts a task at the gate, or refuses it.
    fn admit(&self, task: T) -> Result<T, Refused<T>> {
        if self.gate.enter(1) {
            Ok(task)
        } else {
            Err(Refused::closed(task))
        }
    }

    fn assert_worker(&self, worker: usize) {
        assert!(worker < self.workers(), "no worker {worker} in this engine");
    }

    fn has_nodes(&self) -> bool {
        self.mailboxes.len() > self.workers()
    }

    /// Returns the mailbox of a node.
    fn mailbox_of(&self, node: usize) -> usize {
        let nodes = self.settings.distances.nodes();
        assert!(node < nodes, "no node {node} in this engine");
        self.workers() + node
    }

    /// Adds an affine task to `mailbox`, or adds it to the injector if the worker, or all workers
    /// of the node, have left.
    pub(super) fn push_affine(&self, mailbox: usize, task: T) {
        // After the end the worker may be about to leave, and the thread that spawns now must be
        // able to find the task again.
        let gone = self.sleep.state().is_stopped();
        let pushed = if gone {
            Err(task)
        } else {
            self.mailboxes[mailbox].push_affine(self.flags(), task)
        };
        if let Err(task) = pushed {
            self.injector.push_always([task]);
        }
    }

    /// Adds a pinned task for `worker` and wakes it, or passes the task on if the worker has left.
    fn push_pinned(&self, worker: usize, task: T) {
        match self.mailboxes[worker].push_pinned(task) {
            // Correct whether the worker sleeps or is about to: it checks its pinned tasks after it
            // has been unparked.
            Ok(()) => self.settings.unpark.unpark(worker),
            Err(task) => self.push_orphan(task),
        }
    }

    /// Adds a pinned task of a worker that has left to those of worker 0 and wakes it. A wait may
    /// depend on the task, and if all that could run it are in isolated waits, they take nothing
    /// but pinned tasks. If worker 0 is not there, or may be about to leave because the engine has
    /// stopped, the task goes to the injector.
    pub(super) fn push_orphan(&self, task: T) {
        let pushed = match self.is_stopped() {
            true => Err(task),
            false => self.mailboxes[0].push_orphan(task),
        };
        match pushed {
            // As in `push_pinned`.
            Ok(()) => self.settings.unpark.unpark(0),
            Err(task) => {
                self.injector.push_always([task]);
                self.notify_shared(OUTSIDE);
            }
        }
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests;
