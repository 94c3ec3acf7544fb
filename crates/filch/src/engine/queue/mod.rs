//! Queue strategies: how the workers of one engine share their tasks, chosen at compile time.

mod per_worker;
mod shared;

pub(crate) use per_worker::{FAST_STEPS, STEPS};
pub use per_worker::{PerWorker, PerWorkerSpec};
pub use shared::{Shared, SharedSpec};

use super::victims::Victims;
use crate::base::{error::BuildError, rng::Rng};

/// How the workers of one engine share their tasks, chosen at compile time.
///
/// It defines what the workers share (its `Store`) and what each of them holds (its `Handle`, a
/// [`Queue`]). [`PerWorker`] gives every worker a deque, from which idle workers steal;
/// [`Shared`] is one queue for all. A user can write a third one:
///
/// ```
/// use filch::engine::{Acquired, Hunt, Queue, Strategy};
/// use filch::{BuildError, Executor};
/// use std::sync::Mutex;
///
/// /// One stack for all workers: the newest task first, regardless of its origin.
/// #[derive(Debug)]
/// struct OneStack;
///
/// struct Handle<'a, T>(&'a Mutex<Vec<T>>);
///
/// impl Strategy for OneStack {
///     type Spec = ();
///     type Store<T: Send> = Mutex<Vec<T>>;
///     type Handle<'a, T: Send + 'a> = Handle<'a, T>;
///
///     fn store<T: Send>(_: &(), _workers: usize) -> Result<Mutex<Vec<T>>, BuildError> {
///         Ok(Mutex::default())
///     }
///     fn handle<T: Send>(store: &Mutex<Vec<T>>, _worker: usize) -> Handle<'_, T> {
///         Handle(store)
///     }
///     fn has_work<T: Send>(store: &Mutex<Vec<T>>) -> bool {
///         !store.lock().unwrap().is_empty()
///     }
///     fn reset<T: Send>(store: &Mutex<Vec<T>>, mut give: impl FnMut(T)) {
///         std::mem::take(&mut *store.lock().unwrap()).into_iter().for_each(&mut give);
///     }
/// }
///
/// impl<T: Send> Queue<T> for Handle<'_, T> {
///     fn push(&mut self, task: T) -> Result<(), T> {
///         self.0.lock().unwrap().push(task);
///         Ok(())
///     }
///     fn pop(&mut self) -> Option<T> {
///         self.0.lock().unwrap().pop()
///     }
///     fn pop_oldest(&mut self) -> Option<T> {
///         let mut stack = self.0.lock().unwrap();
///         (!stack.is_empty()).then(|| stack.remove(0))
///     }
///     fn try_acquire(&mut self, _hunt: &mut Hunt<'_>) -> Acquired<T> {
///         Acquired::Nothing // `pop` has checked everything already
///     }
///     fn drain_own(&mut self, _give: impl FnMut(T)) {} // no task belongs to this worker alone
/// }
///
/// let executor = Executor::builder()
///     .workers(2)
///     .strategy::<OneStack>(())
///     .build(|_| 0_u64, |n: u64, cx| *cx.scratch() += n)
///     .unwrap();
/// executor.spawn_batch((1..=100).collect::<Vec<_>>()).unwrap();
/// assert_eq!(executor.finish().scratch.iter().sum::<u64>(), 5050);
/// ```
pub trait Strategy: Sized + 'static {
    /// The settings.
    type Spec: Clone + Default + Send + Sync + 'static;
    /// What the workers share.
    type Store<T: Send>: Send + Sync;
    /// What one worker holds.
    type Handle<'a, T: Send + 'a>: Queue<T>;

    /// Creates the store for workers `0..workers`.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Strategy};
    ///
    /// let nothing = PerWorkerSpec { steal_batch: 0, ..Default::default() };
    /// assert!(PerWorker::store::<u32>(&nothing, 2).unwrap_err().is_config());
    /// assert!(PerWorker::store::<u32>(&PerWorkerSpec::default(), 2).is_ok());
    /// ```
    ///
    /// # Errors
    /// When the spec makes no sense.
    fn store<T: Send>(spec: &Self::Spec, workers: usize) -> Result<Self::Store<T>, BuildError>;

    /// Returns the handle of `worker`. The engine calls this when the worker enters and drops the
    /// handle when the worker leaves; it never holds two for one worker.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// let mut first = PerWorker::handle(&store, 0);
    /// let mut second = PerWorker::handle(&store, 1);
    /// first.push("task").unwrap();
    /// assert_eq!(second.pop(), None); // it is not the second worker's
    /// assert_eq!(first.pop(), Some("task"));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn handle<T: Send>(store: &Self::Store<T>, worker: usize) -> Self::Handle<'_, T>;

    /// Whether there is a task that some worker's [`try_acquire`](Queue::try_acquire) or
    /// [`pop`](Queue::pop) would find.
    ///
    /// This is the last check before a worker sleeps, after a barrier: a task that was pushed
    /// before the barrier and has not been taken must be seen, regardless of any hints.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// assert!(!PerWorker::has_work(&store));
    /// PerWorker::handle(&store, 0).push(1).unwrap();
    /// assert!(PerWorker::has_work(&store));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn has_work<T: Send>(store: &Self::Store<T>) -> bool;

    /// Returns the number of tasks in the store at some recent moment: for statistics. By default
    /// one if there are any.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// let mut queue = PerWorker::handle(&store, 0);
    /// queue.push(1).unwrap();
    /// queue.push(2).unwrap();
    /// assert_eq!(PerWorker::queued(&store), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn queued<T: Send>(store: &Self::Store<T>) -> usize {
        usize::from(Self::has_work(store))
    }

    /// Makes every busy worker observe, at its next pop, that attention is requested. Only for
    /// queues whose pops have a fast path without that check.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// let mut queue = PerWorker::handle(&store, 0);
    /// queue.busy();
    /// queue.push(1).unwrap();
    /// PerWorker::alert(&store);
    /// assert_eq!(queue.pop(), Some(1)); // takes nothing away
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn alert<T: Send>(store: &Self::Store<T>) {
        let _ = store;
    }

    /// Passes all remaining tasks to `give` and resets the store. No worker holds a handle when
    /// this is called.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// PerWorker::handle(&store, 0).push(1).unwrap();
    /// PerWorker::handle(&store, 1).push(2).unwrap();
    /// let mut left = vec![];
    /// PerWorker::reset(&store, |task| left.push(task));
    /// assert_eq!(left, [1, 2]);
    /// assert!(!PerWorker::has_work(&store));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn reset<T: Send>(store: &Self::Store<T>, give: impl FnMut(T));
}

/// One worker's end of a [`Strategy`].
pub trait Queue<T> {
    /// Adds a task of this worker, or returns it when there is no room.
    ///
    /// ```
    /// use filch::engine::{Queue, Shared, SharedSpec, Strategy};
    ///
    /// let store = Shared::store(&SharedSpec { capacity: Some(1) }, 1)?;
    /// let mut queue = Shared::handle(&store, 0);
    /// assert_eq!(queue.push(1), Ok(()));
    /// assert_eq!(queue.push(2), Err(2));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The task, when the queue is full.
    fn push(&mut self, task: T) -> Result<(), T>;

    /// Takes the task that this worker should run next, from those that it pushed itself.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// let mut queue = PerWorker::handle(&store, 0);
    /// queue.push("old").unwrap();
    /// queue.push("new").unwrap();
    /// assert_eq!(queue.pop(), Some("new")); // `Shared` would return the old one
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn pop(&mut self) -> Option<T>;

    /// Takes the oldest task of this worker, which runs when it yields.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// let mut queue = PerWorker::handle(&store, 0);
    /// queue.push("old").unwrap();
    /// queue.push("new").unwrap();
    /// assert_eq!(queue.pop_oldest(), Some("old"));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn pop_oldest(&mut self) -> Option<T>;

    /// Takes a task from other workers.
    ///
    /// ```
    /// use filch::{Rng, engine::{Acquired, Distances, Hunt, PerWorker, Queue, Strategy, Victims}};
    ///
    /// let store = PerWorker::store(&Default::default(), 2)?;
    /// let (mut rich, mut poor) = (PerWorker::handle(&store, 0), PerWorker::handle(&store, 1));
    /// rich.busy();
    /// (0..4).for_each(|task| rich.push(task).unwrap());
    ///
    /// let (mut victims, mut rng) = (Victims::new(&Distances::flat(2), 1), Rng::new(1));
    /// let stolen = poor.try_acquire(&mut Hunt::new(&mut victims, &mut rng, 1));
    /// assert_eq!(stolen, Acquired::Task { task: 0, victim: 0, moved: 1 });
    /// assert_eq!(poor.pop(), Some(1));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn try_acquire(&mut self, hunt: &mut Hunt<'_>) -> Acquired<T>;

    /// Whether a task that this worker has just taken from `victim` may wait in its queue, where
    /// thieves can take it in turn, while it runs another.
    ///
    /// ```
    /// use filch::engine::{Queue, Shared, SharedSpec, Strategy};
    ///
    /// let store = Shared::store(&SharedSpec::default(), 2)?;
    /// let queue = Shared::handle::<u32>(&store, 0);
    /// assert!(queue.keeps_stolen(1));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn keeps_stolen(&self, victim: usize) -> bool {
        let _ = victim;
        true
    }

    /// Returns the number of tasks, at some recent moment, that are left in the queue of `victim`,
    /// which this worker has just taken one from; 0 if that is not known.
    ///
    /// ```
    /// use filch::engine::{PerWorker, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&Default::default(), 2)?;
    /// let (mut owner, thief) = (PerWorker::handle(&store, 0), PerWorker::handle(&store, 1));
    /// assert_eq!(thief.left_tasks(0), 0);
    /// owner.push(1).unwrap();
    /// assert_eq!(thief.left_tasks(0), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn left_tasks(&self, victim: usize) -> usize {
        let _ = victim;
        0
    }

    /// Passes all tasks that only this worker's queue holds to `give`, because the worker leaves.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// let mut queue = PerWorker::handle(&store, 0);
    /// queue.push(1).unwrap();
    /// let mut own = vec![];
    /// queue.drain_own(|task| own.push(task));
    /// assert_eq!((own, queue.pop()), (vec![1], None));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn drain_own(&mut self, give: impl FnMut(T));

    /// Whether there seem to be tasks that this worker pushed and no worker has taken; also true if
    /// that is not known.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// let mut queue = PerWorker::handle(&store, 0);
    /// assert!(!queue.has_own());
    /// queue.push(1).unwrap();
    /// assert!(queue.has_own());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn has_own(&self) -> bool {
        true
    }

    /// Returns the number of tasks that this worker pushed and no worker has taken, at some recent
    /// moment; 0 if that is not known. For [`Placement::LocalLast`](super::Placement::LocalLast).
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// let mut queue = PerWorker::handle(&store, 0);
    /// queue.push(1).unwrap();
    /// queue.push(2).unwrap();
    /// assert_eq!(queue.own_len(), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn own_len(&self) -> usize {
        0
    }

    /// Prepares the queue for a push of [`Placement::Next`](super::Placement::Next). Returns
    /// whether that task will be the only one of this worker, so that no sleeper must be woken for
    /// it; false if that is not known.
    ///
    /// ```
    /// use filch::engine::{PerWorker, PerWorkerSpec, Queue, Strategy};
    ///
    /// let store = PerWorker::store(&PerWorkerSpec::default(), 2)?;
    /// let mut queue = PerWorker::handle(&store, 0);
    /// assert!(queue.prepare_next());
    /// queue.push(1).unwrap();
    /// assert!(!queue.prepare_next()); // not the only one any more
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn prepare_next(&mut self) -> bool {
        false
    }

    /// Prepares the queue for a thief that is expected, so that its steal is cheap.
    fn open(&mut self) {}

    /// Records that the worker has tasks from now on.
    fn busy(&mut self) {}

    /// Records that the worker has no task, and that its own queue is empty.
    fn idle(&mut self) {}
}

/// The result of [`Queue::try_acquire`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired<T> {
    /// A task.
    Task {
        /// The task to run.
        task: T,
        /// The worker that it was taken from.
        victim: usize,
        /// How many more have moved to the worker's own queue.
        moved: usize,
    },
    /// There is no task.
    Nothing,
    /// No task yet: a race was lost, or not every worker was visited. Search again.
    Unfinished,
    /// There are only tasks of workers that asked to be spared, and make progress.
    Spared,
}

/// One search for tasks of other workers: which to visit, and how many attempts to make.
///
/// ```
/// use filch::engine::{Distances, Hunt, Victims};
/// use filch::Rng;
///
/// let (mut victims, mut rng) = (Victims::new(&Distances::flat(4), 0), Rng::new(1));
/// let mut hunt = Hunt::new(&mut victims, &mut rng, 2);
/// let visited: Vec<_> = std::iter::from_fn(|| hunt.next_victim()).collect();
/// assert_eq!(visited.len(), 3); // a round visits every other worker once
/// ```
#[derive(Debug)]
pub struct Hunt<'a> {
    victims: &'a mut Victims,
    tries: usize,
    attempts: usize,
    retries: usize,
    deferred: usize,
}

impl<'a> Hunt<'a> {
    /// Continues the round of `victims`, or starts a new one, for at most `tries` attempts.
    ///
    /// ```
    /// # use filch::{Rng, engine::{Distances, Hunt, Victims}};
    /// # let (mut victims, mut rng) = (Victims::new(&Distances::flat(4), 0), Rng::new(1));
    /// let mut hunt = Hunt::new(&mut victims, &mut rng, 1);
    /// assert!(hunt.next_victim().is_some());
    /// assert!(!hunt.attempt()); // one attempt only
    /// ```
    pub fn new(victims: &'a mut Victims, rng: &mut Rng, tries: usize) -> Self {
        if !victims.in_round() {
            victims.start_round(rng);
        }
        Self {
            victims,
            tries: tries.max(1),
            attempts: 0,
            retries: 0,
            deferred: 0,
        }
    }

    /// Returns the next worker to visit, or `None` when the round is over.
    ///
    /// ```
    /// use filch::{Rng, engine::{Distances, Hunt, Victims}};
    ///
    /// let (mut victims, mut rng) = (Victims::new(&Distances::flat(3), 1), Rng::new(1));
    /// let mut hunt = Hunt::new(&mut victims, &mut rng, 2);
    /// let mut visited: Vec<_> = std::iter::from_fn(|| hunt.next_victim()).collect();
    /// visited.sort();
    /// assert_eq!(visited, [0, 2]); // all but worker 1 itself
    /// ```
    pub fn next_victim(&mut self) -> Option<usize> {
        self.victims.next()
    }

    /// Whether the last victim is in the node of this worker, and there are others. False where all
    /// workers are equally near.
    ///
    /// ```
    /// use filch::{Rng, engine::{Distances, Hunt, Victims}};
    ///
    /// let distances = Distances::nested(4, 1, |worker, _| Some(worker / 2));
    /// let (mut victims, mut rng) = (Victims::new(&distances, 0), Rng::new(1));
    /// let mut hunt = Hunt::new(&mut victims, &mut rng, 1);
    /// assert!(hunt.next_victim() == Some(1) && hunt.is_near());
    /// ```
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.victims.is_near()
    }

    /// Returns the victims that the round has not visited yet, in their order: for strategies that
    /// record which workers a search of another strategy visits.
    ///
    /// ```
    /// # use filch::{Rng, engine::{Hunt, Distances, Victims}};
    /// # let (mut victims, mut rng) = (Victims::new(&Distances::flat(4), 0), Rng::new(1));
    /// let mut hunt = Hunt::new(&mut victims, &mut rng, 2);
    /// let mut left = hunt.unvisited();
    /// assert_eq!(left.clone().count(), 3);
    /// assert_eq!(hunt.next_victim(), left.next());
    /// assert_eq!(hunt.unvisited().count(), 2);
    /// ```
    #[must_use]
    pub fn unvisited(&self) -> Victims {
        self.victims.clone()
    }

    /// Counts a probe of the last victim, which is busy, whether or not an attempt to take a task
    /// follows.
    pub(super) fn probe(&mut self) {
        self.victims.count_probe();
    }

    /// Counts an attempt to take a task. Returns false when that was the last one of this hunt.
    ///
    /// ```
    /// # use filch::{Rng, engine::{Distances, Hunt, Victims}};
    /// # let (mut victims, mut rng) = (Victims::new(&Distances::flat(4), 0), Rng::new(1));
    /// let mut hunt = Hunt::new(&mut victims, &mut rng, 2);
    /// assert!(hunt.attempt());
    /// assert!(!hunt.attempt());
    /// ```
    pub fn attempt(&mut self) -> bool {
        self.attempts += 1;
        self.attempts < self.tries
    }

    /// Counts a lost race.
    ///
    /// ```
    /// # use filch::{Rng, engine::{Distances, Hunt, Victims}};
    /// # let (mut victims, mut rng) = (Victims::new(&Distances::flat(4), 0), Rng::new(1));
    /// let mut hunt = Hunt::new(&mut victims, &mut rng, 2);
    /// hunt.retry(); // for `Event::Searched`: a steal has to be tried again
    /// assert!(hunt.attempt()); // it does not count as an attempt
    /// ```
    pub fn retry(&mut self) {
        self.retries += 1;
    }

    /// Counts a task of `victim` that is left to its owner for now, and revisits that one soon.
    pub(super) fn defer(&mut self, victim: usize) {
        self.deferred += 1;
        self.victims.revisit(victim);
    }

    /// Returns the number of tasks that were left to their owners.
    #[must_use]
    pub(crate) fn deferred(&self) -> usize {
        self.deferred
    }

    /// Returns the numbers of attempts and of lost races so far.
    #[must_use]
    pub(crate) fn attempts_and_retries(&self) -> (usize, usize) {
        (self.attempts, self.retries)
    }
}
