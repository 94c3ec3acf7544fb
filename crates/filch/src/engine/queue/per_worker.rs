//! A deque for every worker; idle workers steal.

use super::{Acquired, Hunt, Queue, Strategy};
use crate::{
    base::{
        error::BuildError,
        padded::Padded,
        sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, hint},
    },
    engine::deque::{Capacity, Deque, MAX_BATCH, Owner, Steal},
};
use std::{fmt, sync::OnceLock};

/// How many times a thief retries after a lost race before it visits the next victim.
///
/// A race is lost because another thread got a task, so there was one a moment ago. Four losses in
/// a row indicate contention, and then the next victim is the better choice.
const STEAL_RETRIES: usize = 4;

/// How many visits in a row must find a quiet deque with a single task before the thief knocks.
/// Probes of other busy workers in between count as visits.
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
    /// halves of recursive calls, the oldest one alone is worth the most. From a
    /// [near](Hunt::is_near) victim a thief takes half of any number: the others of its node then
    /// find tasks there, and visit no far one.
    pub batch_from: usize,
}

impl PerWorkerSpec {
    /// [`batch_from`](Self::batch_from) of a [`Pool`](crate::Pool). Recursive joins rarely have
    /// that many halves pending; a loop that spawns does.
    pub const POOL_BATCH_FROM: usize = 64;
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

/// The most tasks that the queues of an engine begin with room for. A system that promises more
/// memory than it has would not refuse more, and end the program later.
const MAX_INITIAL_CAPACITY: usize = 1 << 26;

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
///
/// In a pool of more than 64 workers a count of the bits stands beside them, so that a worker which
/// searches while all others are idle visits none of them.
pub struct PerWorkerStore<T> {
    /// Each is created by its worker when it enters for the first time: so its memory is on the
    /// node of that worker, and a number that is never used costs two words.
    deques: Box<[OnceLock<Box<Deque<T>>>]>,
    capacity: Capacity,
    busy: Box<[Padded<AtomicU64>]>,
    busy_count: Padded<AtomicUsize>,
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

impl<T: Send> PerWorkerStore<T> {
    /// Returns the deque of `worker`, or `None` if that worker has never entered.
    #[inline]
    fn deque(&self, worker: usize) -> Option<&Deque<T>> {
        self.deques[worker].get().map(|deque| &**deque)
    }

    /// Returns the deque of `worker`, which is created if there is none.
    fn own_deque(&self, worker: usize) -> &Deque<T> {
        self.deques[worker].get_or_init(|| Box::new(Deque::new(self.capacity)))
    }
}

impl<T> PerWorkerStore<T> {
    fn hint(&self, worker: usize) -> (&AtomicU64, u64) {
        (&self.busy[worker / 64], 1 << (worker % 64))
    }

    /// Whether a worker other than `worker` may be busy.
    fn others_are_busy(&self, worker: usize) -> bool {
        let (word, bit) = self.hint(worker);
        // Relaxed, here and below: hints.
        let bits = word.load(Ordering::Relaxed);
        if bits & !bit != 0 || self.busy.len() == 1 {
            return bits & !bit != 0;
        }
        // Relaxed: a hint. A moment too low when the bit is set and not counted yet.
        self.busy_count.load(Ordering::Relaxed) > usize::from(bits & bit != 0)
    }

    /// Adds `change` to the count of busy workers, if there is one.
    fn count_busy(&self, change: isize) {
        if self.busy.len() > 1 {
            // Relaxed: a hint.
            self.busy_count
                .fetch_add(change as usize, Ordering::Relaxed);
        }
    }
}

impl<T> fmt::Debug for PerWorkerStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deques = self.deques.iter().filter_map(OnceLock::get);
        f.debug_list().entries(deques).finish()
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
        let fits = spec.capacity.initial() <= MAX_INITIAL_CAPACITY
            && Deque::<T>::has_memory_for(workers, spec.capacity);
        if !fits {
            return Err(BuildError::config(format!(
                "there is not enough memory for {workers} queues of such a capacity; ask for at most \
                 {MAX_INITIAL_CAPACITY} tasks each, or for fewer: queues grow",
            )));
        }
        let store = PerWorkerStore {
            deques: (0..workers).map(|_| OnceLock::new()).collect(),
            capacity: spec.capacity,
            busy: (0..workers.div_ceil(64))
                .map(|_| Padded::default())
                .collect(),
            busy_count: Padded::default(),
            steal_batch: spec.steal_batch,
            batch_from: spec.batch_from,
            requests: (0..workers).map(|_| Padded::default()).collect(),
        };
        if cfg!(filch_loom) {
            // The model checker does not see the synchronisation of a lazy creation.
            for worker in 0..workers {
                let _ = store.own_deque(worker);
            }
        }
        Ok(store)
    }

    fn handle<T: Send>(store: &Self::Store<T>, worker: usize) -> PerWorkerQueue<'_, T> {
        PerWorkerQueue {
            owner: store
                .own_deque(worker)
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
        // A worker creates its deque before it pushes, so a push that must be seen is seen here.
        let mut deques = store.deques.iter().filter_map(OnceLock::get);
        deques.any(|deque| !deque.is_empty())
    }

    fn queued<T: Send>(store: &Self::Store<T>) -> usize {
        let deques = store.deques.iter().filter_map(OnceLock::get);
        deques.map(|deque| deque.len()).sum()
    }

    fn alert<T: Send>(store: &Self::Store<T>) {
        for (word, busy) in store.busy.iter().enumerate() {
            // Relaxed: a worker that becomes busy right now checks the shared queues first.
            let mut bits = busy.load(Ordering::Relaxed);
            while bits != 0 {
                if let Some(deque) = store.deque(64 * word + bits.trailing_zeros() as usize) {
                    deque.alert();
                }
                bits &= bits - 1;
            }
        }
    }

    fn reset<T: Send>(store: &Self::Store<T>, mut give: impl FnMut(T)) {
        for (worker, deque) in store.deques.iter().enumerate() {
            if deque.get().is_some() {
                Self::handle(store, worker).drain_own(&mut give);
            }
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
    pub(crate) fn hold_off_thieves(&mut self, steps: u32) -> u32 {
        let alone = self.owner.is_empty();
        let min_steps = if alone { steps } else { 0 };
        let request = &self.store.requests[self.worker].min_steps;
        // Relaxed, here and below: see `try_acquire`. A load and a store: if a thief revokes the
        // request in between, it steals one task, which is harmless.
        let before = request.load(Ordering::Relaxed);
        request.store(min_steps, Ordering::Relaxed);
        before
    }

    /// Counts a step, for [`hold_off_thieves`](Self::hold_off_thieves).
    #[inline(always)]
    pub(crate) fn count_step(&mut self) {
        let steps = &self.store.requests[self.worker].steps;
        // Relaxed, here and below: only this worker writes it, and it is only compared with itself.
        let next = steps.load(Ordering::Relaxed).wrapping_add(1);
        steps.store(next, Ordering::Relaxed);
    }

    /// Observes `victim`, which asks to be spared. Returns whether it makes enough progress.
    #[cold]
    fn observe_progress(&mut self, victim: usize) -> bool {
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
        match self.store.deque(victim)?.steal() {
            Steal::Taken(task) => Some(task),
            // The caller retries.
            Steal::Empty | Steal::Retry => None,
        }
    }

    /// Continues to steal from a victim with many tasks, until `most` tasks or half of what it had
    /// have been taken: a later steal would mean another knock. Returns the number of additional
    /// tasks.
    fn take_more(&mut self, deque: &Deque<T>, mut taken: usize, most: usize) -> usize {
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

    /// Steals from `deque`, which is that of `victim`: `Unfinished` if it lost against others too
    /// often, `Nothing` if the deque is empty.
    fn try_steal(&mut self, victim: usize, deque: &Deque<T>, hunt: &mut Hunt<'_>) -> Acquired<T> {
        let request = &self.store.requests[victim].one_by_one;
        // Relaxed: a request. A thief that takes a batch nevertheless has read it before it was
        // set.
        let one = request.load(Ordering::Relaxed);
        let few = deque.len() < self.store.batch_from && !hunt.is_near();
        let most = if one || !self.takes_batches || few {
            1
        } else {
            self.store.steal_batch
        };
        for _ in 0..STEAL_RETRIES {
            match deque.steal_batch(&mut self.owner, most) {
                Steal::Taken((task, moved)) => {
                    self.observations.1 = 0;
                    let moved = moved + self.take_more(deque, moved + 1, most);
                    return Acquired::Task {
                        task,
                        victim,
                        moved,
                    };
                }
                Steal::Empty => return Acquired::Nothing,
                Steal::Retry => {
                    hunt.retry();
                    hint::spin_loop();
                }
            }
        }
        Acquired::Unfinished
    }

    /// Counts a visit of `victim`. Returns whether it is too early to steal from it, because it has
    /// a single task.
    fn defer_single_task(&mut self, victim: usize, deque: &Deque<T>) -> bool {
        if !deque.is_single() {
            if self.single.0 == victim {
                self.single.1 = 0;
            } else if self.single.1 > 0 {
                // Probes of others count too, so that a single task waits as long beside many busy
                // workers as beside one.
                self.single.1 += 1;
            }
            return false;
        }
        // Counted across victims: with a count for each, two victims with one task each would put
        // off the thief alternately, for ever.
        self.single.0 = victim;
        self.single.1 += 1;
        let limit = if deque.is_quiet() {
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
        self.hold_off_thieves(if alone { STEPS } else { 0 });
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

    fn left_tasks(&self, victim: usize) -> usize {
        self.store.deque(victim).map_or(0, Deque::len)
    }

    fn try_acquire(&mut self, hunt: &mut Hunt<'_>) -> Acquired<T> {
        let (mut deferred, mut observed, mut spared) = (false, false, false);
        if !self.store.others_are_busy(self.worker) {
            return Acquired::Nothing;
        }
        while let Some(victim) = hunt.next_victim() {
            let (word, bit) = self.store.hint(victim);
            // Relaxed: a hint.
            if word.load(Ordering::Relaxed) & bit == 0 {
                continue;
            }
            let Some(deque) = self.store.deque(victim) else {
                continue;
            };
            hunt.probe();
            if self.defer_single_task(victim, deque) {
                deferred = true;
                hunt.defer(victim);
                continue;
            }
            let requests = &self.store.requests[victim];
            // Relaxed: a request, which is only a hint.
            if requests.min_steps.load(Ordering::Relaxed) != 0 {
                if deque.is_empty() {
                    continue;
                }
                // One observation per hunt, so that other victims are visited soon.
                if std::mem::replace(&mut observed, true) || self.observe_progress(victim) {
                    spared = true;
                    continue;
                }
            }
            let may_go_on = hunt.attempt();
            match self.try_steal(victim, deque, hunt) {
                Acquired::Nothing if may_go_on => {}
                Acquired::Nothing => return Acquired::Unfinished,
                acquired => return acquired,
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
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            self.store.count_busy(1);
        }
    }

    fn idle(&mut self) {
        // The deque is empty.
        self.owner.set_reordered(false);
        let (word, bit) = self.store.hint(self.worker);
        // Relaxed: a hint, and only this worker pushes into its deque, which is empty.
        if word.fetch_and(!bit, Ordering::Relaxed) & bit != 0 {
            self.store.count_busy(-1);
        }
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests;
