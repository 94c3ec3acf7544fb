//! Events that the engine reports, and their observers.

use super::lanes::Priority;

/// Where a task was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// Its own queue.
    Local,
    /// The injector.
    Injector,
    /// Another worker's queue.
    Steal {
        /// The worker that it was stolen from.
        victim: usize,
        /// Whether that worker is in another [node](super::Distances).
        far: bool,
    },
    /// The lane of a level; never [`Priority::Normal`], which has none.
    Lane(Priority),
    /// The affine tasks of a worker: its own, or those of another one that was not free.
    Affine {
        /// The worker that should have run the task.
        worker: usize,
    },
    /// The affine tasks of a node.
    AffineNode {
        /// The [node](super::Distances::node) that should have run the task.
        node: usize,
        /// Whether the worker is of that node.
        kept: bool,
    },
}

/// The worker number of events that happen outside of any worker.
pub const OUTSIDE: usize = usize::MAX;

/// Something that happened to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It entered.
    Entered,
    /// It left.
    Left {
        /// Tasks from its queue that went to the injector.
        handed_on: usize,
    },
    /// It is about to run a task.
    Started {
        /// Where the task came from.
        source: Source,
    },
    /// Tasks of other workers are in its own queue now: they were taken together with the one that
    /// it starts, or were stolen and come after it.
    Moved {
        /// The number of tasks.
        tasks: usize,
    },
    /// The task has finished or panicked.
    Finished,
    /// It spawned a task into its own queue.
    SpawnedLocal,
    /// It spawned a task into the injector.
    SpawnedGlobal,
    /// It spawned a task into the lane of a level.
    SpawnedLane {
        /// The level of the task.
        level: Priority,
    },
    /// It spawned an affine task for a worker.
    SpawnedFor {
        /// The worker that should run the task.
        worker: usize,
    },
    /// It spawned an affine task for a node.
    SpawnedForNode {
        /// The node that should run the task.
        node: usize,
    },
    /// Tasks of its queue went to the injector: half of them because the queue was full, or all
    /// that others may run because the worker is about to leave.
    Spilled {
        /// The number of tasks.
        tasks: usize,
    },
    /// It searched for tasks in the queues of others.
    Searched {
        /// How many queues it tried to take from.
        attempts: usize,
        /// How many races for a task it lost there; each was tried again.
        retries: usize,
    },
    /// It has no task any more.
    Idle,
    /// It has tasks again.
    Busy,
    /// It is falling asleep.
    Parked,
    /// It is awake again.
    Unparked,
    /// It woke another worker.
    Woke {
        /// The worker that was woken.
        target: usize,
    },
    /// It woke a particular worker, for an affine task or because a push preferred it.
    Called {
        /// The worker that was woken.
        target: usize,
    },
}

/// Receives the events of the engine. All output, metrics and traces are built on it.
///
/// The default method does nothing, and [`NoObserver`] uses it: the calls disappear when compiled.
/// An observer is called by the worker itself, in the middle of its work, so it should have
/// separate storage for each worker and share nothing.
///
/// ```
/// use filch::engine::{Event, Observer};
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// #[derive(Default)]
/// struct Steals(AtomicUsize);
///
/// impl Observer for Steals {
///     fn event(&self, _worker: usize, event: Event) {
///         if let Event::Moved { tasks } = event {
///             self.0.fetch_add(tasks, Relaxed);
///         }
///     }
/// }
/// ```
pub trait Observer: Sync {
    /// Called when `event` happened to `worker`.
    ///
    /// ```
    /// use filch::engine::{Core, Event, Observer, PerWorker, Placement, Settings};
    /// use std::sync::Mutex;
    ///
    /// struct Log(Mutex<Vec<(usize, Event)>>);
    ///
    /// impl Observer for Log {
    ///     fn event(&self, worker: usize, event: Event) {
    ///         self.0.lock().unwrap().push((worker, event));
    ///     }
    /// }
    ///
    /// let log = Log(Mutex::default());
    /// let core: Core<u32, PerWorker, &Log> =
    ///     Core::new(Settings::new(1), &Default::default(), &log)?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// let _ = core.enter(0).step(|_, _| ());
    /// let events = log.0.lock().unwrap();
    /// assert_eq!(events[0], (0, Event::Entered));
    /// assert!(events.contains(&(0, Event::Finished)));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline(always)]
    fn event(&self, worker: usize, event: Event) {
        let _ = (worker, event);
    }
}

/// The observer that compiles to nothing.
///
/// ```
/// use filch::engine::{Event, Observer, NoObserver};
/// NoObserver.event(0, Event::Idle);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// Two observers side by side.
///
/// ```
/// use filch::engine::{Event, Observer, NoObserver};
/// (NoObserver, NoObserver).event(0, Event::Busy);
/// ```
impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline(always)]
    fn event(&self, worker: usize, event: Event) {
        self.0.event(worker, event);
        self.1.event(worker, event);
    }
}

impl<O: Observer + ?Sized> Observer for &O {
    #[inline(always)]
    fn event(&self, worker: usize, event: Event) {
        (**self).event(worker, event);
    }
}

impl<O: Observer + Send + ?Sized> Observer for std::sync::Arc<O> {
    #[inline(always)]
    fn event(&self, worker: usize, event: Event) {
        (**self).event(worker, event);
    }
}
