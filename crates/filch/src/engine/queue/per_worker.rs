//! A deque for every worker; idle workers steal.

use super::{Acquired, Hunt, Queue, Strategy};
use crate::{
    base::{
        error::BuildError,
        padded::Padded,
        sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, hint},
    },
    engine::deque::{Capacity, Deque, MAX_BATCH, Owner, Steal},
};
use std::fmt;

/// How many times a thief retries after a lost race before it visits the next victim.
///
/// A race is lost because another thread got a task, so there was one a moment ago. Four losses in
/// a row indicate contention, and then the next victim is the better choice.
const STEAL_RETRIES: usize = 4;

/// How many visits in a row must find a quiet deque with a single task before the thief knocks.
///
/// A worker that runs a chain of tasks has one task in its deque half of the time, for some
/// nanoseconds each. A knock for that one costs both sides a microsecond and more, and the owner
/// its fence-free pops, for a task that is gone by then. Sixteen visits take 1 to 2 µs: little for
/// a task that really waits (`filch-bench executor`, case `chain`; with four, one visit in sixteen
/// still knocked for nothing).
const MAX_SINGLE_TASK_VISITS_QUIET: u32 = if cfg!(filch_loom) { 0 } else { 16 };

/// The same for deques that are not quiet: no knock is needed, but the chain would move from worker
/// to worker, and each task with its data from cache to cache (`filch-bench future`, case `chain`).
const MAX_SINGLE_TASK_VISITS_OPEN: u32 = if cfg!(filch_loom) { 0 } else { 4 };

/// A work-stealing deque for every worker: newest first for its owner, oldest first for thieves,
/// which take up to half of the tasks.
///
/// The default strategy; [`Shared`](super::Shared) documents when to prefer that one.
#[derive(Clone, Copy, Debug)]
pub struct PerWorker;

/// The settings of [`PerWorker`].
///
/// ```
/// use filch::engine::{Capacity, PerWorkerSpec};
///
/// let spec = PerWorkerSpec {
///     capacity: Capacity::bounded(256),
///     ..Default::default()
/// };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerWorkerSpec {
    /// The capacity of each deque.
    pub capacity: Capacity,
    /// The most tasks that a thief takes at once; never more than half. With one, thieves steal
    /// single tasks.
    pub steal_batch: usize,
    /// The number of tasks from which on a thief takes more than one. Where tasks are the pending
    /// halves of recursive calls, the oldest one alone is worth the most.
    pub batch_from: usize,
}

impl Default for PerWorkerSpec {
    fn default() -> Self {
        Self {
            capacity: Capacity::default(),
            steal_batch: STEAL_BATCH,
            batch_from: 0,
        }
    }
}

/// How long a thief observes a worker that asks to be spared, in spin-loop hints: some
/// microseconds. Each observation costs the worker a cache miss, so there should be many steps
/// between two.
const OBSERVATION_SPINS: u32 = 200;

/// The fewest steps that the worker has to make during an observation. Tasks that take longer than
/// that are worth stealing, which costs both sides about a microsecond.
pub(crate) const STEPS: u32 = 8;

/// The fewest steps if tasks are so small that a cache miss costs as much as several of them.
pub(crate) const FAST_STEPS: u32 = 256;

/// The number of observations, a few hundred microseconds, after which the worker must make
/// `FAST_STEPS`.
const MAX_OBSERVATIONS: u32 = 64;

/// Returns the number of steps for which a worker is spared at the `observation`th observation, if
/// it asks for `min_steps`.
fn required_steps(min_steps: u32, observation: u32) -> u32 {
    min_steps.max(if observation <= MAX_OBSERVATIONS {
        STEPS
    } else {
        FAST_STEPS
    })
}

/// The most tasks of a steal, which takes at most half of a deque: a thief also has to run what it
/// copies. At 5 ns a task these keep it busy for 20 µs, as long as a knock may take
/// (`filch-bench executor`, case `local_fanout`).
const STEAL_BATCH: usize = 4096;

/// The deques, and a hint which workers may have tasks.
///
/// Bit `i` of the hint means that worker `i` is busy, so its deque may hold tasks. Only the worker
/// itself changes its bit: it sets the bit when it finds a task, before it runs any, and clears it
/// when it has no task and its deque is empty. So a clear bit is never wrong for longer than it
/// takes the store to arrive, and no thief can clear a bit that the owner has just set. The hint is
/// not used before a worker sleeps: [`Strategy::has_work`] checks every deque.
pub struct PerWorkerStore<T> {
    deques: Box<[Deque<T>]>,
    busy: Box<[Padded<AtomicU64>]>,
    steal_batch: usize,
    batch_from: usize,
    /// What each worker requests of thieves.
    requests: Box<[Padded<ThiefRequests>]>,
}

/// What a worker requests of thieves.
#[derive(Debug, Default)]
struct ThiefRequests {
    /// Whether to take its tasks one at a time.
    one_by_one: AtomicBool,
    /// The fewest steps during an observation for which thieves spare its tasks; zero if it makes
    /// no such request.
    min_steps: AtomicU32,
    /// The worker's steps, which show that it makes progress.
    steps: AtomicU32,
}

impl<T> PerWorkerStore<T> {
    fn hint(&self, worker: usize) -> (&AtomicU64, u64) {
        (&self.busy[worker / 64], 1 << (worker % 64))
    }
}

impl<T> fmt::Debug for PerWorkerStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.deques).finish()
    }
}

impl Strategy for PerWorker {
    type Spec = PerWorkerSpec;
    type Store<T: Send> = PerWorkerStore<T>;
    type Handle<'a, T: Send + 'a> = PerWorkerQueue<'a, T>;

    fn store<T: Send>(spec: &PerWorkerSpec, workers: usize) -> Result<Self::Store<T>, BuildError> {
        if spec.steal_batch == 0 {
            return Err(BuildError::config(
                "a steal must take at least one task; set steal_batch to 1 or more",
            ));
        }
        Ok(PerWorkerStore {
            deques: (0..workers).map(|_| Deque::new(spec.capacity)).collect(),
            busy: (0..workers.div_ceil(64))
                .map(|_| Padded::default())
                .collect(),
            steal_batch: spec.steal_batch,
            batch_from: spec.batch_from,
            requests: (0..workers).map(|_| Padded::default()).collect(),
        })
    }

    fn handle<T: Send>(store: &Self::Store<T>, worker: usize) -> PerWorkerQueue<'_, T> {
        PerWorkerQueue {
            owner: store.deques[worker]
                .owner()
                .expect("a worker has one handle at a time"),
            store,
            worker,
            single: (worker, 0),
            takes_batches: true,
            observations: (0, 0),
        }
    }

    fn has_work<T: Send>(store: &Self::Store<T>) -> bool {
        store.deques.iter().any(|deque| !deque.is_empty())
    }

    fn alert<T: Send>(store: &Self::Store<T>) {
        for (word, busy) in store.busy.iter().enumerate() {
            // Relaxed: a worker that becomes busy right now checks the shared queues first.
            let mut bits = busy.load(Ordering::Relaxed);
            while bits != 0 {
                store.deques[64 * word + bits.trailing_zeros() as usize].alert();
                bits &= bits - 1;
            }
        }
    }

    fn reset<T: Send>(store: &Self::Store<T>, mut give: impl FnMut(T)) {
        for (worker, _) in store.deques.iter().enumerate() {
            Self::handle(store, worker).drain_own(&mut give);
        }
    }
}

/// One worker's deque, and its access to the others.
#[derive(Debug)]
pub struct PerWorkerQueue<'a, T: Send> {
    owner: Owner<'a, T>,
    store: &'a PerWorkerStore<T>,
    worker: usize,
    /// The victim whose deque was last seen with a single task, and the number of such visits in a
    /// row.
    single: (usize, u32),
    /// Whether this worker takes batches.
    takes_batches: bool,
    /// The last victim that asked to be spared, and the number of its observations in a row.
    observations: (usize, u32),
}

impl<'a, T: Send> PerWorkerQueue<'a, T> {
    /// Returns the worker's own deque.
    #[inline(always)]
    pub(crate) fn owner(&mut self) -> &mut Owner<'a, T> {
        &mut self.owner
    }

    /// Makes this worker steal tasks one at a time from now on.
    pub(crate) fn steal_one_by_one(&mut self) {
        self.takes_batches = false;
    }

    /// Sets whether thieves should take this worker's tasks one at a time. Returns the previous
    /// setting.
    pub(crate) fn set_one_by_one(&mut self, one_by_one: bool) -> bool {
        // Relaxed: see `try_acquire`.
        self.store.requests[self.worker]
            .one_by_one
            .swap(one_by_one, Ordering::Relaxed)
    }

    /// Asks thieves to spare this worker's tasks while it [makes progress](Self::count_step), by at
    /// least `steps` steps during an observation of some microseconds: where tasks are tiny and few
    /// at a time, they are done sooner than stolen. If the worker makes fewer steps, or has not
    /// become very fast after many observations, the thief steals and revokes the request. Tasks
    /// that were queued before are not spared, so the request is only made if the deque is empty.
    /// With 0 there is no request. Returns the previous setting.
    pub(crate) fn ask_to_be_spared(&mut self, steps: u32) -> u32 {
        let alone = self.store.deques[self.worker].is_empty();
        let min_steps = if alone { steps } else { 0 };
        let request = &self.store.requests[self.worker].min_steps;
        // Relaxed, here and below: see `try_acquire`. A load and a store: if a thief revokes the
        // request in between, it steals one task, which is harmless.
        let before = request.load(Ordering::Relaxed);
        request.store(min_steps, Ordering::Relaxed);
        before
    }

    /// Counts a step, for [`ask_to_be_spared`](Self::ask_to_be_spared).
    #[inline(always)]
    pub(crate) fn count_step(&mut self) {
        let steps = &self.store.requests[self.worker].steps;
        // Relaxed, here and below: only this worker writes it, and it is only compared with itself.
        let next = steps.load(Ordering::Relaxed).wrapping_add(1);
        steps.store(next, Ordering::Relaxed);
    }

    /// Whether `victim`, which asks to be spared, makes enough progress.
    #[cold]
    fn makes_progress(&mut self, victim: usize) -> bool {
        let requests = &self.store.requests[victim];
        if self.observations.0 != victim {
            self.observations = (victim, 0);
        }
        self.observations.1 += 1;
        // Relaxed: as in `count_step`.
        let before = requests.steps.load(Ordering::Relaxed);
        (0..OBSERVATION_SPINS).for_each(|_| hint::spin_loop());
        // Relaxed: as in `count_step`.
        let steps = requests.steps.load(Ordering::Relaxed).wrapping_sub(before);
        // Relaxed: a request, which is only a hint.
        if steps
            >= required_steps(
                requests.min_steps.load(Ordering::Relaxed),
                self.observations.1,
            )
        {
            return true;
        }
        self.observations.1 = 0;
        // Relaxed: a request, which is only a hint.
        requests.min_steps.store(0, Ordering::Relaxed);
        false
    }

    /// Takes the oldest task of `victim`, even if it is the only one.
    pub(crate) fn steal_from(&mut self, victim: usize) -> Option<T> {
        match self.store.deques[victim].steal() {
            Steal::Taken(task) => Some(task),
            // The caller retries.
            Steal::Empty | Steal::Retry => None,
        }
    }

    /// Continues to steal from a victim with many tasks, until `most` tasks or half of what it had
    /// have been taken: a later steal would mean another knock. Returns the number of additional
    /// tasks.
    fn take_more(&mut self, victim: usize, mut taken: usize, most: usize) -> usize {
        let deque = &self.store.deques[victim];
        let first = taken;
        // Only after a full batch: otherwise there were no more tasks, or there was no room.
        while taken >= MAX_BATCH && taken < most && deque.len() > taken + MAX_BATCH {
            if self.owner.reserve(MAX_BATCH) < MAX_BATCH {
                break;
            }
            let batch = deque.steal_batch(&mut self.owner, (most - taken).min(MAX_BATCH));
            let Steal::Taken((task, moved)) = batch else {
                break;
            };
            taken += 1 + moved;
            self.owner.push(task).ok().expect("room was reserved");
        }
        taken - first
    }

    /// Whether it is too early to steal from `victim`, because it has a single task.
    fn defers_single_task(&mut self, victim: usize) -> bool {
        if !self.store.deques[victim].is_single() {
            if self.single.0 == victim {
                self.single.1 = 0;
            }
            return false;
        }
        // Counted across victims: with a count for each, two victims with one task each would put
        // off the thief alternately, for ever.
        self.single.0 = victim;
        self.single.1 += 1;
        let limit = if self.store.deques[victim].is_quiet() {
            MAX_SINGLE_TASK_VISITS_QUIET
        } else {
            MAX_SINGLE_TASK_VISITS_OPEN
        };
        self.single.1 <= limit
    }
}

impl<T: Send> Queue<T> for PerWorkerQueue<'_, T> {
    #[inline(always)]
    fn push(&mut self, task: T) -> Result<(), T> {
        self.owner.push(task)
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<T> {
        self.owner.pop()
    }

    fn pop_oldest(&mut self) -> Option<T> {
        self.owner.pop_oldest()
    }

    fn open(&mut self) {
        self.owner.open();
    }

    fn has_own(&self) -> bool {
        !self.owner.is_empty()
    }

    #[inline]
    fn own_len(&self) -> usize {
        self.owner.len()
    }

    #[inline]
    fn prepare_next(&mut self) -> bool {
        let alone = self.owner.is_empty();
        // Thieves leave the task to this worker while it makes progress.
        self.ask_to_be_spared(if alone { STEPS } else { 0 });
        if alone {
            self.count_step();
        }
        alone
    }

    fn keeps_stolen(&self, victim: usize) -> bool {
        // Relaxed: set before the task was pushed, and read after it was stolen, so the steal makes
        // it visible. A worker in an isolated wait may hold a lock while it waits for its tasks,
        // and takes no other task.
        let one = self.store.requests[victim]
            .one_by_one
            .load(Ordering::Relaxed);
        self.takes_batches && !one
    }

    fn try_acquire(&mut self, hunt: &mut Hunt<'_>) -> Acquired<T> {
        let (mut deferred, mut observed, mut spared) = (false, false, false);
        while let Some(victim) = hunt.next_victim() {
            let (word, bit) = self.store.hint(victim);
            // Relaxed: a hint.
            if word.load(Ordering::Relaxed) & bit == 0 {
                continue;
            }
            if self.defers_single_task(victim) {
                deferred = true;
                continue;
            }
            let requests = &self.store.requests[victim];
            // Relaxed: a request, which is only a hint.
            if requests.min_steps.load(Ordering::Relaxed) != 0 {
                if self.store.deques[victim].is_empty() {
                    continue;
                }
                // One observation per hunt, so that other victims are visited soon.
                if std::mem::replace(&mut observed, true) || self.makes_progress(victim) {
                    spared = true;
                    continue;
                }
            }
            let more = hunt.attempt();
            let mut lost = true;
            let deque = &self.store.deques[victim];
            // Relaxed: a request. A thief that takes a batch nevertheless has read it before it was
            // set.
            let one = requests.one_by_one.load(Ordering::Relaxed);
            let most = if one || !self.takes_batches || deque.len() < self.store.batch_from {
                1
            } else {
                self.store.steal_batch
            };
            for _ in 0..STEAL_RETRIES {
                match deque.steal_batch(&mut self.owner, most) {
                    Steal::Taken((task, moved)) => {
                        self.observations.1 = 0;
                        let moved = moved + self.take_more(victim, moved + 1, most);
                        return Acquired::Task {
                            task,
                            victim,
                            moved,
                        };
                    }
                    Steal::Empty => {
                        lost = false;
                        break;
                    }
                    Steal::Retry => {
                        hunt.retry();
                        hint::spin_loop();
                    }
                }
            }
            if lost || !more {
                return Acquired::Unfinished;
            }
        }
        if deferred {
            Acquired::Unfinished
        } else if spared {
            Acquired::Spared
        } else {
            Acquired::Nothing
        }
    }

    fn drain_own(&mut self, mut give: impl FnMut(T)) {
        while let Some(task) = self.owner.pop_oldest() {
            give(task);
        }
    }

    fn busy(&mut self) {
        let (word, bit) = self.store.hint(self.worker);
        // Relaxed: a hint. Setting it before the first push becomes visible only shortens the
        // search of others.
        word.fetch_or(bit, Ordering::Relaxed);
    }

    fn idle(&mut self) {
        let (word, bit) = self.store.hint(self.worker);
        // Relaxed: a hint, and only this worker pushes into its deque, which is empty.
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{
        FAST_STEPS, MAX_OBSERVATIONS, MAX_SINGLE_TASK_VISITS_QUIET, PerWorker, PerWorkerQueue,
        PerWorkerSpec, STEPS, required_steps,
    };
    use crate::{
        base::rng::Rng,
        engine::{Acquired, Hunt, Queue, Strategy, Topology, Victims},
    };
    use std::{
        sync::atomic::{AtomicBool, Ordering::Relaxed},
        thread,
    };

    /// Returns the number of hunts that it takes to steal a task of the other of two workers.
    fn hunts(thief: &mut PerWorkerQueue<'_, usize>) -> u32 {
        let (mut victims, mut rng) = (Victims::new(&Topology::flat(2), 1), Rng::new(1));
        (1..=10 * (MAX_OBSERVATIONS + MAX_SINGLE_TASK_VISITS_QUIET))
            .find(|_| {
                let mut hunt = Hunt::new(&mut victims, &mut rng, 1);
                matches!(thief.try_acquire(&mut hunt), Acquired::Task { .. })
            })
            .expect("no victim is spared for ever")
    }

    /// Queues three tasks of a worker that asks to be spared after the first `before` of them, and
    /// continues with `steps`. Returns the number of hunts that it took to steal one.
    fn spared(
        before: usize,
        steps: impl FnOnce(&mut PerWorkerQueue<'_, usize>, &AtomicBool),
    ) -> u32 {
        let store = PerWorker::store::<usize>(&PerWorkerSpec::default(), 2).unwrap();
        let (mut owner, mut thief) = (PerWorker::handle(&store, 0), PerWorker::handle(&store, 1));
        owner.busy();
        (0..before).for_each(|task| owner.push(task).unwrap());
        owner.ask_to_be_spared(STEPS);
        (before..3).for_each(|task| owner.push(task).unwrap());
        let stolen = AtomicBool::new(false);
        thread::scope(|scope| {
            let thief = scope.spawn(|| {
                let hunts = hunts(&mut thief);
                stolen.store(true, Relaxed);
                hunts
            });
            steps(&mut owner, &stolen);
            thief.join().unwrap()
        })
    }

    #[test]
    fn a_worker_without_steps_is_not_spared() {
        assert_eq!(spared(0, |_, _| ()), 1);
    }

    #[test]
    fn fast_workers_are_spared_longer() {
        assert_eq!(required_steps(STEPS, 1), STEPS);
        assert_eq!(required_steps(STEPS, MAX_OBSERVATIONS + 1), FAST_STEPS);
        assert_eq!(required_steps(FAST_STEPS, 1), FAST_STEPS);
    }

    #[test]
    fn a_worker_that_makes_steps_is_spared_for_a_while() {
        let stepping = |owner: &mut PerWorkerQueue<'_, usize>, stolen: &AtomicBool| {
            while !stolen.load(Relaxed) {
                owner.count_step();
                // Not too fast: an observation lasts for some dozens of steps.
                (0..4).for_each(|_| std::hint::spin_loop());
            }
        };
        // At most: on a loaded machine the owner does not always make progress.
        assert!(spared(0, stepping) <= MAX_OBSERVATIONS + 1);
        assert_eq!(spared(1, stepping), 1, "the request came too late");
    }
}
