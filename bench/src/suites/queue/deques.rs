//! The deques, behind one trait, so that all run the same loops.

use filch::engine::{Capacity, Deque, Owner, PerWorkerSpec, Steal};

/// The capacity of deques that do not grow: more than any case holds at a time.
const ROOM: usize = 4096;

/// A stolen task, and the number of further tasks moved to the thief's own deque.
pub(super) type Stolen = Steal<(u64, usize)>;

/// A kind of deque.
pub(super) trait Deques: 'static {
    /// The state that owner and thieves share, where they borrow it.
    type Store: Sync;
    type Owner<'a>;
    type Thief<'a>: Send;

    fn store() -> Self::Store;
    fn open(store: &Self::Store) -> (Self::Owner<'_>, Self::Thief<'_>);
    fn push(owner: &mut Self::Owner<'_>, task: u64);
    fn pop(owner: &mut Self::Owner<'_>) -> Option<u64>;
    /// Steals one task. `spare` is an empty deque, for kinds that need one as the destination.
    fn steal(thief: &Self::Thief<'_>, spare: &mut Self::Owner<'_>) -> Stolen;
    /// Steals a batch of the kind's default size.
    fn steal_batch(thief: &Self::Thief<'_>, into: &mut Self::Owner<'_>) -> Stolen;
}

/// filch's deque, growing from its default capacity.
pub(super) struct Filch;

impl Deques for Filch {
    type Store = Deque<u64>;
    type Owner<'a> = Owner<'a, u64>;
    type Thief<'a> = &'a Deque<u64>;

    fn store() -> Self::Store {
        Deque::new(Capacity::default())
    }

    fn open(store: &Self::Store) -> (Self::Owner<'_>, Self::Thief<'_>) {
        let owner = store.owner().expect("a new deque has no owner");
        (owner, store)
    }

    #[inline(always)]
    fn push(owner: &mut Self::Owner<'_>, task: u64) {
        owner.push(task).expect("it grows");
    }

    #[inline(always)]
    fn pop(owner: &mut Self::Owner<'_>) -> Option<u64> {
        owner.pop()
    }

    #[inline(always)]
    fn steal(thief: &Self::Thief<'_>, _spare: &mut Self::Owner<'_>) -> Stolen {
        match thief.steal() {
            Steal::Taken(task) => Steal::Taken((task, 0)),
            Steal::Empty => Steal::Empty,
            Steal::Retry => Steal::Retry,
        }
    }

    #[inline(always)]
    fn steal_batch(thief: &Self::Thief<'_>, into: &mut Self::Owner<'_>) -> Stolen {
        thief.steal_batch(into, PerWorkerSpec::default().steal_batch)
    }
}

/// crossbeam's deque, which grows.
pub(super) struct Crossbeam;

impl Deques for Crossbeam {
    type Store = ();
    type Owner<'a> = crossbeam_deque::Worker<u64>;
    type Thief<'a> = crossbeam_deque::Stealer<u64>;

    fn store() {}

    fn open(_store: &()) -> (Self::Owner<'_>, Self::Thief<'_>) {
        let owner = crossbeam_deque::Worker::new_lifo();
        let thief = owner.stealer();
        (owner, thief)
    }

    #[inline(always)]
    fn push(owner: &mut Self::Owner<'_>, task: u64) {
        owner.push(task);
    }

    #[inline(always)]
    fn pop(owner: &mut Self::Owner<'_>) -> Option<u64> {
        owner.pop()
    }

    #[inline(always)]
    fn steal(thief: &Self::Thief<'_>, _spare: &mut Self::Owner<'_>) -> Stolen {
        match thief.steal() {
            crossbeam_deque::Steal::Success(task) => Steal::Taken((task, 0)),
            crossbeam_deque::Steal::Empty => Steal::Empty,
            crossbeam_deque::Steal::Retry => Steal::Retry,
        }
    }

    #[inline(always)]
    fn steal_batch(thief: &Self::Thief<'_>, into: &mut Self::Owner<'_>) -> Stolen {
        // crossbeam does not return the number of moved tasks; the length gives it.
        let before = into.len();
        match thief.steal_batch_and_pop(into) {
            crossbeam_deque::Steal::Success(task) => Steal::Taken((task, into.len() - before)),
            crossbeam_deque::Steal::Empty => Steal::Empty,
            crossbeam_deque::Steal::Retry => Steal::Retry,
        }
    }
}

/// st3's deque, which does not grow.
pub(super) struct St3;

impl Deques for St3 {
    type Store = ();
    type Owner<'a> = st3::lifo::Worker<u64>;
    type Thief<'a> = st3::lifo::Stealer<u64>;

    fn store() {}

    fn open(_store: &()) -> (Self::Owner<'_>, Self::Thief<'_>) {
        let owner = st3::lifo::Worker::new(ROOM);
        let thief = owner.stealer();
        (owner, thief)
    }

    #[inline(always)]
    fn push(owner: &mut Self::Owner<'_>, task: u64) {
        owner.push(task).expect("there is room");
    }

    #[inline(always)]
    fn pop(owner: &mut Self::Owner<'_>) -> Option<u64> {
        owner.pop()
    }

    #[inline(always)]
    fn steal(thief: &Self::Thief<'_>, spare: &mut Self::Owner<'_>) -> Stolen {
        stolen(thief.steal_and_pop(spare, |_| 1))
    }

    #[inline(always)]
    fn steal_batch(thief: &Self::Thief<'_>, into: &mut Self::Owner<'_>) -> Stolen {
        stolen(thief.steal_and_pop(into, |n| n.div_ceil(2)))
    }
}

#[inline(always)]
fn stolen(result: Result<(u64, usize), st3::StealError>) -> Stolen {
    match result {
        Ok(taken) => Steal::Taken(taken),
        Err(st3::StealError::Empty) => Steal::Empty,
        Err(st3::StealError::Busy) => Steal::Retry,
    }
}

/// A vector without thieves: the base cost of pushing and popping.
pub(super) struct Plain;

impl Deques for Plain {
    type Store = ();
    type Owner<'a> = Vec<u64>;
    type Thief<'a> = ();

    fn store() {}

    fn open(_store: &()) -> (Self::Owner<'_>, Self::Thief<'_>) {
        (Vec::with_capacity(ROOM), ())
    }

    #[inline(always)]
    fn push(owner: &mut Self::Owner<'_>, task: u64) {
        owner.push(task);
    }

    #[inline(always)]
    fn pop(owner: &mut Self::Owner<'_>) -> Option<u64> {
        owner.pop()
    }

    fn steal(_thief: &(), _spare: &mut Self::Owner<'_>) -> Stolen {
        Steal::Empty
    }

    fn steal_batch(_thief: &(), _into: &mut Self::Owner<'_>) -> Stolen {
        Steal::Empty
    }
}
