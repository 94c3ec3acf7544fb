//! A deque for every worker; the idle steal.

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

/// How often a lost race for a victim's task is tried again before the next victim.
///
/// A race is lost because somebody else got a task, so there was one a moment ago. Four in a row
/// mean a crowd, and then the next victim is the better choice.
const RETRIES: usize = 4;

/// How often in a row a thief must see a quiet deque with a single task before it knocks.
///
/// A worker that runs a chain of tasks has one task in its deque half of the time, for some nanoseconds
/// each. Knocking for that one costs both sides a microsecond and more, and the owner its fence-free
/// pops, for a task that is gone by then. Sixteen looks take 1 to 2 µs: nothing for a task that really
/// waits (`filch-bench executor`, case `chain`; with four, one look in sixteen was still wrong).
const PATIENCE: u32 = if cfg!(filch_loom) { 0 } else { 16 };

/// The same where thieves go in and out: no knock is needed, but the chain would go from worker to worker, and each task with
/// what it uses from cache to cache (`filch-bench future`, case `chain`).
const LESS_PATIENCE: u32 = if cfg!(filch_loom) { 0 } else { 4 };

/// A work-stealing deque for every worker: newest first for its owner, oldest first for thieves, who
/// take half of what there is.
///
/// The strategy of choice for almost everything; [`Shared`](super::Shared) tells when not.
#[derive(Clone, Copy, Debug)]
pub struct PerWorker;

/// What can be set about [`PerWorker`].
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
    /// How many tasks a deque holds.
    pub capacity: Capacity,
    /// The most tasks that a thief takes at once; never more than half. One is classic stealing.
    pub steal_batch: usize,
    /// From how many tasks on a thief takes more than one. Where tasks are the pending halves of
    /// recursive calls, the oldest one alone is worth the most.
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

/// How long a thief looks at a worker that asks to be left alone, in spin-loop hints: some microseconds. Each look costs
/// the worker a miss, so there should be many steps between two.
const LOOK: u32 = 200;

/// How many steps it has to make meanwhile, at least. Tasks that take longer than that are worth stealing, which costs
/// both sides about a microsecond.
pub(crate) const STEPS: u32 = 8;

/// How many it makes if its tasks are so tiny that a line from its cache costs as much as several.
pub(crate) const FAST_STEPS: u32 = 256;

/// How many looks a thief takes, a few hundred microseconds, before the tasks have to be tiny.
const MOST_LOOKS: u32 = 64;

/// How many steps are enough to be left alone, at the `look`th look at a worker with that wish.
fn enough_steps(wish: u32, look: u32) -> u32 {
    wish.max(if look <= MOST_LOOKS {
        STEPS
    } else {
        FAST_STEPS
    })
}

/// Half of a deque, but at most so many: what a thief copies it also has to run. At 5 ns a task these keep it
/// busy for 20 µs, as long as a knock may take (`filch-bench executor`, case `local_fanout`).
const STEAL_BATCH: usize = 4096;

/// The deques, and a hint of who may have work.
///
/// Bit `i` of the hint says that worker `i` is busy, so its deque may hold something. Only the worker
/// itself changes its bit: it sets it when it finds work, before it runs any, and clears it when
/// it has run out and its deque is empty. So a clear bit is never wrong for longer than it takes the
/// store to arrive, and no thief can clear a bit that the owner has just set (the race in seed 004).
/// Before a worker sleeps the hint is not asked: [`Strategy::has_work`] looks at every deque.
pub struct PerWorkerStore<T> {
    deques: Box<[Deque<T>]>,
    busy: Box<[Padded<AtomicU64>]>,
    steal_batch: usize,
    batch_from: usize,
    /// What each worker asks of thieves.
    wishes: Box<[Padded<Wishes>]>,
}

/// What a worker asks of thieves.
#[derive(Debug, Default)]
struct Wishes {
    /// To take its tasks one at a time.
    one_by_one: AtomicBool,
    /// To leave its tasks to it as long as it makes so many steps while a thief looks; no wish if zero.
    leave_me: AtomicU32,
    /// Tells that it gets on.
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
            wishes: (0..workers).map(|_| Padded::default()).collect(),
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
            greedy: true,
            looks: (0, 0),
        }
    }

    fn has_work<T: Send>(store: &Self::Store<T>) -> bool {
        store.deques.iter().any(|deque| !deque.is_empty())
    }

    fn alert<T: Send>(store: &Self::Store<T>) {
        for (word, busy) in store.busy.iter().enumerate() {
            // Relaxed: a worker that becomes busy right now looks at the shared queues first.
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

/// One worker's deque, and its view of the others.
#[derive(Debug)]
pub struct PerWorkerQueue<'a, T: Send> {
    owner: Owner<'a, T>,
    store: &'a PerWorkerStore<T>,
    worker: usize,
    /// Whose deque was last seen quiet with a single task, and how often in a row such a one was seen.
    single: (usize, u32),
    /// Whether this worker takes batches.
    greedy: bool,
    /// How often in a row it has looked at others who asked to be left alone.
    looks: (usize, u32),
}

impl<'a, T: Send> PerWorkerQueue<'a, T> {
    /// The worker's own deque.
    #[inline(always)]
    pub fn owner(&mut self) -> &mut Owner<'a, T> {
        &mut self.owner
    }

    /// From now on this worker takes tasks of others one at a time.
    pub fn steal_one_by_one(&mut self) {
        self.greedy = false;
    }

    /// Whether thieves should take this worker's tasks one at a time. Returns what was set before.
    pub fn set_one_by_one(&mut self, one_by_one: bool) -> bool {
        // Relaxed: see `try_acquire`.
        self.store.wishes[self.worker]
            .one_by_one
            .swap(one_by_one, Ordering::Relaxed)
    }

    /// Asks thieves to leave this worker's tasks to it as long as it [gets on](Self::count_step) with them, by so many steps
    /// while one looks, which takes some microseconds: where tasks are tiny and few at a time, they are done sooner than
    /// stolen. If the worker makes fewer, or has not become very fast after many looks, the thief takes what it finds
    /// and takes back the wish. What was queued before is for everybody, so the wish counts only if there is nothing. 0 is
    /// no wish. Returns what was set before.
    pub fn set_thief_patience(&mut self, steps: u32) -> u32 {
        let alone = self.store.deques[self.worker].is_empty();
        let leave_me = if alone { steps } else { 0 };
        let wish = &self.store.wishes[self.worker].leave_me;
        // Relaxed, here and below: see `try_acquire`. In two steps: a thief that takes the wish back in between
        // is a steal that nobody minds.
        let before = wish.load(Ordering::Relaxed);
        wish.store(leave_me, Ordering::Relaxed);
        before
    }

    /// One step more, for [`set_thief_patience`](Self::set_thief_patience).
    #[inline(always)]
    pub fn count_step(&mut self) {
        let steps = &self.store.wishes[self.worker].steps;
        // Relaxed, here and below: only this worker writes it, and it is only compared with itself.
        let next = steps.load(Ordering::Relaxed).wrapping_add(1);
        steps.store(next, Ordering::Relaxed);
    }

    /// Whether `victim`, which asks to be left alone, gets on with its tasks.
    #[cold]
    fn gets_on(&mut self, victim: usize) -> bool {
        let wishes = &self.store.wishes[victim];
        if self.looks.0 != victim {
            self.looks = (victim, 0);
        }
        self.looks.1 += 1;
        // Relaxed: as in `count_step`.
        let before = wishes.steps.load(Ordering::Relaxed);
        (0..LOOK).for_each(|_| hint::spin_loop());
        // Relaxed: as in `count_step`.
        let steps = wishes.steps.load(Ordering::Relaxed).wrapping_sub(before);
        // Relaxed: a wish.
        if steps >= enough_steps(wishes.leave_me.load(Ordering::Relaxed), self.looks.1) {
            return true;
        }
        self.looks.1 = 0;
        // Relaxed: a wish.
        wishes.leave_me.store(0, Ordering::Relaxed);
        false
    }

    /// Takes the oldest task of `victim`, however little it has.
    pub fn steal_from(&mut self, victim: usize) -> Option<T> {
        match self.store.deques[victim].steal() {
            Steal::Taken(task) => Some(task),
            // The caller comes again.
            Steal::Empty | Steal::Retry => None,
        }
    }

    /// Takes on from a victim that has plenty, until `most` tasks or half of what it had have been taken:
    /// coming back for them later would mean another knock. Says how many there were.
    fn take_more(&mut self, victim: usize, mut taken: usize, most: usize) -> usize {
        let deque = &self.store.deques[victim];
        let first = taken;
        // Only after a full batch: otherwise there was no more, or no room.
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

    /// Whether it is too early to knock at the deque of `victim`.
    fn wait_and_see(&mut self, victim: usize) -> bool {
        if !self.store.deques[victim].is_single() {
            if self.single.0 == victim {
                self.single.1 = 0;
            }
            return false;
        }
        // Counted on from victim to victim: with a count for each, two victims with a task each would
        // put us off in turns, for ever.
        self.single.0 = victim;
        self.single.1 += 1;
        let patience = if self.store.deques[victim].is_quiet() {
            PATIENCE
        } else {
            LESS_PATIENCE
        };
        self.single.1 <= patience
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

    fn oldest(&mut self) -> Option<T> {
        self.owner.oldest()
    }

    fn open(&mut self) {
        self.owner.open();
    }

    fn has_own(&self) -> bool {
        !self.owner.is_empty()
    }

    fn keeps_stolen(&self, victim: usize) -> bool {
        // Relaxed: uttered before the task was pushed, and read after it was stolen, so the steal makes it seen. Whoever
        // is isolated waits for its tasks with a lock held, perhaps, and takes none back.
        let one = self.store.wishes[victim].one_by_one.load(Ordering::Relaxed);
        self.greedy && !one
    }

    fn try_acquire(&mut self, hunt: &mut Hunt<'_>) -> Acquired<T> {
        let (mut hesitated, mut looked, mut spared) = (false, false, false);
        while let Some(victim) = hunt.next_victim() {
            let (word, bit) = self.store.hint(victim);
            // Relaxed: a hint.
            if word.load(Ordering::Relaxed) & bit == 0 {
                continue;
            }
            if self.wait_and_see(victim) {
                hesitated = true;
                continue;
            }
            let wishes = &self.store.wishes[victim];
            // Relaxed: a wish.
            if wishes.leave_me.load(Ordering::Relaxed) != 0 {
                if self.store.deques[victim].is_empty() {
                    continue;
                }
                // One such look a hunt: there are other things to look for.
                if std::mem::replace(&mut looked, true) || self.gets_on(victim) {
                    spared = true;
                    continue;
                }
            }
            let more = hunt.attempt();
            let mut lost = true;
            let deque = &self.store.deques[victim];
            // Relaxed: a wish; who batches all the same has looked before it was uttered.
            let one = wishes.one_by_one.load(Ordering::Relaxed);
            let most = if one || !self.greedy || deque.len() < self.store.batch_from {
                1
            } else {
                self.store.steal_batch
            };
            for _ in 0..RETRIES {
                match deque.steal_batch(&mut self.owner, most) {
                    Steal::Taken((task, moved)) => {
                        self.looks.1 = 0;
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
        if hesitated {
            Acquired::Unfinished
        } else if spared {
            Acquired::Spared
        } else {
            Acquired::Nothing
        }
    }

    fn drain_own(&mut self, mut give: impl FnMut(T)) {
        while let Some(task) = self.owner.oldest() {
            give(task);
        }
    }

    fn busy(&mut self) {
        let (word, bit) = self.store.hint(self.worker);
        // Relaxed: a hint. That it is set before the first push becomes visible only shortens the
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
        FAST_STEPS, MOST_LOOKS, PATIENCE, PerWorker, PerWorkerQueue, PerWorkerSpec, STEPS,
        enough_steps,
    };
    use crate::{
        base::rng::Rng,
        engine::{Acquired, Hunt, Queue, Strategy, Topology, Victims},
    };
    use std::{
        sync::atomic::{AtomicBool, Ordering::Relaxed},
        thread,
    };

    /// How many hunts it takes to get a task of the other of two workers.
    fn hunts(thief: &mut PerWorkerQueue<'_, usize>) -> u32 {
        let (mut victims, mut rng) = (Victims::new(&Topology::flat(2), 1), Rng::new(1));
        (1..=10 * (MOST_LOOKS + PATIENCE))
            .find(|_| {
                let mut hunt = Hunt::new(&mut victims, &mut rng, 1);
                matches!(thief.try_acquire(&mut hunt), Acquired::Task { .. })
            })
            .expect("nobody is left alone for ever")
    }

    /// Three tasks of a worker that asks to be left alone after the first `before` of them, and goes on with `steps`; says
    /// how many hunts it took to steal one.
    fn spared(
        before: usize,
        steps: impl FnOnce(&mut PerWorkerQueue<'_, usize>, &AtomicBool),
    ) -> u32 {
        let store = PerWorker::store::<usize>(&PerWorkerSpec::default(), 2).unwrap();
        let (mut owner, mut thief) = (PerWorker::handle(&store, 0), PerWorker::handle(&store, 1));
        owner.busy();
        (0..before).for_each(|task| owner.push(task).unwrap());
        owner.set_thief_patience(STEPS);
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
    fn who_makes_no_steps_is_robbed_at_once() {
        assert_eq!(spared(0, |_, _| ()), 1);
    }

    #[test]
    fn who_is_fast_is_left_alone_longer() {
        assert_eq!(enough_steps(STEPS, 1), STEPS);
        assert_eq!(enough_steps(STEPS, MOST_LOOKS + 1), FAST_STEPS);
        assert_eq!(enough_steps(FAST_STEPS, 1), FAST_STEPS);
    }

    #[test]
    fn who_makes_steps_is_left_alone_for_a_while() {
        let stepping = |owner: &mut PerWorkerQueue<'_, usize>, stolen: &AtomicBool| {
            while !stolen.load(Relaxed) {
                owner.count_step();
                // Not too fast: a look lasts for some dozens of steps.
                (0..4).for_each(|_| std::hint::spin_loop());
            }
        };
        // At most: on a busy machine the owner does not always get on.
        assert!(spared(0, stepping) <= MOST_LOOKS + 1);
        assert_eq!(spared(1, stepping), 1, "the wish came too late");
    }
}
