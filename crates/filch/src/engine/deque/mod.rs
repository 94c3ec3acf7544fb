#![doc = include_str!("deque.md")]
#![expect(unsafe_code, reason = "the deque's ownership protocol over raw slots")]

mod capacity;
mod front;
#[cfg(all(test, filch_loom))]
mod loom_tests;
mod mark;
mod owner;
mod ring;
mod rings;
#[cfg(all(test, not(filch_loom)))]
mod tests;

pub use capacity::Capacity;
pub(crate) use mark::Mark;
pub use owner::Owner;
pub(crate) use owner::Retract;

use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence_seq_cst, hint},
    sys::barrier,
    thread,
};
use front::{Front, Index, MAX_CLAIM};
use ring::{Ring, Slots};
use rings::{NewestRing, RingPtr};
use std::{fmt, marker::PhantomData};

/// The most tasks that one [`Deque::steal_batch`] takes.
pub(super) const MAX_BATCH: usize = MAX_CLAIM;

/// The number of pauses in which a thief that has knocked waits for the owner to open, before the
/// thief executes a heavy barrier. At 10 to 50 ns a pause, they take about as long as a barrier on
/// bare metal. Owners of small tasks pop more often than that.
const KNOCK_SPINS: u32 = if cfg!(filch_loom) { 1 } else { 32 };

/// The result of a steal.
///
/// ```
/// use filch::engine::{Capacity, Deque, Steal};
///
/// let deque = Deque::new(Capacity::default());
/// assert_eq!(deque.steal(), Steal::Empty);
/// deque.owner().unwrap().push(1).unwrap();
/// assert_eq!(deque.steal(), Steal::Taken(1));
/// ```
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steal<T> {
    /// The oldest task, or for a batch the oldest task and how many others were moved.
    Taken(T),
    /// The deque was empty.
    Empty,
    /// Another thief, or the owner, was faster. There may be more tasks: retry.
    Retry,
}

/// The owner's end of the deque, which thieves only read.
struct OwnersLine<T> {
    /// One past the youngest task.
    bottom: AtomicU64,
    ring: NewestRing<T>,
    /// Whether an [`Owner`] exists.
    owned: AtomicBool,
}

/// A work-stealing deque: one [`Owner`], any number of thieves.
///
/// ```
/// use filch::engine::{Capacity, Deque, Steal};
///
/// let deque = Deque::new(Capacity::default());
/// let mut owner = deque.owner().expect("it has no owner yet");
/// for task in 1..=3 {
///     owner.push(task).unwrap();
/// }
/// assert_eq!(owner.pop(), Some(3)); // the owner takes the newest
/// assert_eq!(deque.steal(), Steal::Taken(1)); // a thief takes the oldest
/// ```
pub struct Deque<T> {
    /// The thieves' word, a [`Front`]. Without a conflict the owner only reads it.
    front: Padded<AtomicU64>,
    owners: Padded<OwnersLine<T>>,
    /// The number of thieves that may be reading a ring which the owner frees when it is replaced.
    readers: Padded<AtomicUsize>,
    limit: usize,
    /// Whether thieves can make the owner execute a fence.
    one_sided: bool,
    tasks: PhantomData<T>,
}

// SAFETY: tasks move between threads through the slots (`T: Send`); no reference to a task in the
// deque is ever handed out, so `T: Sync` is not needed. `ring` points to memory that is reached
// only through the protocol of this module.
unsafe impl<T: Send> Send for Deque<T> {}
// SAFETY: the premises of `Send` above hold for shared references too; the owner's side needs an
// `Owner`, of which `owned` admits one at a time.
unsafe impl<T: Send> Sync for Deque<T> {}

impl<T: Send> Deque<T> {
    /// Creates an empty deque.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque: Deque<u32> = Deque::new(Capacity::default());
    /// assert!(deque.is_empty());
    /// ```
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        Self::starting_at(capacity, Index::from_raw(0))
    }

    /// Whether there is memory for this number of deques at present.
    pub(super) fn has_memory_for(deques: usize, capacity: Capacity) -> bool {
        let len = capacity.initial.next_power_of_two();
        let rings: Option<Vec<_>> = (0..deques).map(|_| Ring::<T>::try_reserve(len)).collect();
        rings.is_some()
    }

    fn starting_at(capacity: Capacity, index: Index) -> Self {
        let ring = Ring::new(capacity.initial.next_power_of_two());
        Self::with_ring(ring, capacity.limit, index)
    }

    fn with_ring(ring: Ring<T>, limit: usize, index: Index) -> Self {
        let ring = RingPtr::new(ring, RingPtr::null(), limit);
        // Where the barrier is only a pair of fences, every pop needs its own fence.
        let one_sided = barrier::prepare() == barrier::BarrierKind::Process;
        let front = if one_sided {
            Front::quiet(index)
        } else {
            Front::open(index)
        };
        Self {
            front: Padded::new(AtomicU64::new(front.raw())),
            owners: Padded::new(OwnersLine {
                bottom: AtomicU64::new(index.raw()),
                ring: NewestRing::new(ring),
                owned: AtomicBool::new(false),
            }),
            readers: Padded::new(AtomicUsize::new(0)),
            limit,
            one_sided,
            tasks: PhantomData,
        }
    }

    /// Returns the owner's side, or `None` while another [`Owner`] exists.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque: Deque<u32> = Deque::new(Capacity::default());
    /// let owner = deque.owner();
    /// assert!(owner.is_some() && deque.owner().is_none());
    /// drop(owner);
    /// assert!(deque.owner().is_some());
    /// ```
    #[must_use]
    pub fn owner(&self) -> Option<Owner<'_, T>> {
        // Acquire: pairs with the release in `Owner::drop`. What the previous owner wrote to the
        // owner's words is visible to the next one. Relaxed on failure: nothing is concluded from
        // it.
        self.owners
            .owned
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(Owner::new(self))
    }

    /// Returns the number of tasks at some recent moment; exact only while no other thread uses the
    /// deque.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::default());
    /// let mut owner = deque.owner().unwrap();
    /// owner.push('a').unwrap();
    /// owner.push('b').unwrap();
    /// assert_eq!(deque.len(), 2);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        // Acquire, on both loads: a caller that sees a task here may act on it.
        let front = Front::from_raw(self.front.load(Ordering::Acquire)).index();
        let bottom = Index::from_raw(self.owners.bottom.load(Ordering::Acquire));
        usize::try_from(bottom.since(front)).unwrap_or(0)
    }

    /// Whether there was no task at some recent moment.
    ///
    /// After a full barrier this is reliable in one direction: a task whose `push` came before the
    /// barrier, and that no thread has taken, is seen.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::default());
    /// assert!(deque.is_empty());
    /// deque.owner().unwrap().push(1).unwrap();
    /// assert!(!deque.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there was a single task at some recent moment, which may be gone soon.
    #[must_use]
    pub(crate) fn is_single(&self) -> bool {
        // Relaxed: a hint.
        let front = Front::from_raw(self.front.load(Ordering::Relaxed));
        self.len_from(front) == 1
    }

    /// Whether no thief has knocked recently.
    pub(crate) fn is_quiet(&self) -> bool {
        // Relaxed: a hint.
        Front::from_raw(self.front.load(Ordering::Relaxed)).is_quiet()
    }

    /// Takes the oldest task.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque, Steal};
    ///
    /// let deque = Deque::new(Capacity::default());
    /// let mut owner = deque.owner().unwrap();
    /// owner.push("old").unwrap();
    /// owner.push("new").unwrap();
    /// let stolen = loop {
    ///     match deque.steal() {
    ///         Steal::Taken(task) => break Some(task),
    ///         Steal::Empty => break None,
    ///         Steal::Retry => {} // another thread was faster
    ///     }
    /// };
    /// assert_eq!(stolen, Some("old"));
    /// ```
    #[inline]
    pub fn steal(&self) -> Steal<T> {
        match self.read_open_front() {
            Steal::Taken((front, _)) => self.take_one(front),
            Steal::Empty => Steal::Empty,
            Steal::Retry => Steal::Retry,
        }
    }

    /// Takes up to half of the tasks, at most `most`: returns the oldest with the number of the
    /// others, which go to `into` in their order.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque, Steal};
    ///
    /// let (rich, poor) = (Deque::new(Capacity::default()), Deque::new(Capacity::default()));
    /// let mut owner = rich.owner().unwrap();
    /// for task in 0..10 {
    ///     owner.push(task).unwrap();
    /// }
    /// let mut thief = poor.owner().unwrap();
    /// assert_eq!(rich.steal_batch(&mut thief, 64), Steal::Taken((0, 4)));
    /// assert_eq!(thief.pop(), Some(4));
    /// ```
    pub fn steal_batch(&self, into: &mut Owner<'_, T>, most: usize) -> Steal<(T, usize)> {
        let (front, len) = match self.read_open_front() {
            Steal::Taken(seen) => seen,
            Steal::Empty => return Steal::Empty,
            Steal::Retry => return Steal::Retry,
        };
        let wanted = len.div_ceil(2).min(most).min(MAX_CLAIM);
        if wanted <= 1 || front.sealed() {
            return batch_of_one(self.take_one(front));
        }
        let room = into.reserve(wanted - 1);
        match self.claim(front, wanted.min(room + 1)) {
            Some((claim, n)) => self.take_claimed(claim, n, into),
            None => Steal::Retry,
        }
    }

    /// Returns the front, open, and the number of tasks behind it.
    #[inline]
    fn read_open_front(&self) -> Steal<(Front, usize)> {
        // Acquire: pairs with the release of the thread that moved the front here, so that the
        // bottom read below is not older than the one which that thread saw.
        let mut front = Front::from_raw(self.front.load(Ordering::Acquire));
        if !front.is_open() {
            match self.knock(front) {
                Steal::Taken(open) => front = open,
                Steal::Empty => return Steal::Empty,
                Steal::Retry => return Steal::Retry,
            }
        }
        // Pairs with the fence in `Owner::pop_guarded`: either this thief sees the bottom that the
        // pop lowered, or the pop sees a front at least as new as this thief's.
        fence_seq_cst();
        match self.len_from(front) {
            0 => Steal::Empty,
            len => Steal::Taken((front, len)),
        }
    }

    /// Returns the number of tasks from `front` on.
    #[inline]
    fn len_from(&self, front: Front) -> usize {
        // Acquire: pairs with the release in `Owner::publish`: the slots below it are filled.
        let bottom = Index::from_raw(self.owners.bottom.load(Ordering::Acquire));
        usize::try_from(bottom.since(front.index())).unwrap_or(0)
    }

    /// Makes the owner guard its pops, and makes the pops that it did not guard visible to this
    /// thief.
    #[cold]
    fn knock(&self, mut front: Front) -> Steal<Front> {
        if self.len_from(front) == 0 {
            // The deque is empty, so the owner need not be disturbed. There is another check before
            // a worker sleeps.
            return Steal::Empty;
        }
        if front.is_quiet() {
            if !self.move_front(front, front.guard()) {
                return Steal::Retry;
            }
            front = front.guard();
        }
        for spin in 1..=thread::spin_limit(KNOCK_SPINS) {
            // Under the model checker a spin hint would make later loads return the newest value,
            // which would hide stale reads.
            if !cfg!(filch_loom) {
                hint::spin_loop();
            }
            // Acquire: as in `read_open_front`; it also pairs with the release of an owner that
            // opens.
            front = Front::from_raw(self.front.load(Ordering::Acquire));
            if front.is_open() {
                return Steal::Taken(front);
            }
            if front.is_quiet() {
                return Steal::Retry;
            }
            // Not at every iteration: the owner writes this cache line at every push and pop.
            if spin.is_multiple_of(8) && self.len_from(front) == 0 {
                return Steal::Empty;
            }
        }
        // After this barrier, every pop that has not seen `guard` is visible to this thread; see
        // `Owner::pop`.
        if !broken(Canary::KnockBarrier) {
            barrier::heavy();
        }
        if self.move_front(front, front.let_in()) {
            return Steal::Taken(front.let_in());
        }
        // Acquire: as in the loop above.
        front = Front::from_raw(self.front.load(Ordering::Acquire));
        if front.is_open() {
            Steal::Taken(front)
        } else {
            Steal::Retry
        }
    }

    /// Makes the owner take the guarded path at its next pop, and takes nothing. A later thief
    /// completes the knock.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::default());
    /// let mut owner = deque.owner().unwrap();
    /// owner.push(1).unwrap();
    /// deque.alert();
    /// assert_eq!(owner.pop(), Some(1)); // with a fence
    /// ```
    pub fn alert(&self) {
        // Acquire: as in `read_open_front`.
        let front = Front::from_raw(self.front.load(Ordering::Acquire));
        if front.is_quiet() {
            // If it fails, a thief has knocked or the owner has popped its last task: in both cases
            // the next pop is a guarded one, or there is no task to pop.
            let _ = self.move_front(front, front.guard());
        }
    }

    fn take_one(&self, front: Front) -> Steal<T> {
        let copied = self.read_slots(|slots| slots.read(front.index()));
        if !self.move_front(front, front.advance(1)) {
            return Steal::Retry;
        }
        // SAFETY: moving the front past `index` is what takes the task at `index`. The swap
        // succeeded, so the front was still there when the slot was copied: the owner takes the
        // task at the front's index only by moving the front too, and reuses the slot only after
        // that.
        Steal::Taken(unsafe { copied.take() })
    }

    /// Reserves `n` tasks for thieves, or joins an existing claim.
    fn claim(&self, front: Front, n: usize) -> Option<(Front, usize)> {
        if n <= 1 {
            return Some((front, 1));
        }
        if front.claimed() > 0 {
            return Some((front, n.min(front.claimed())));
        }
        let claim = front.claim(n);
        self.move_front(front, claim).then_some((claim, n))
    }

    /// Takes `n` of the claimed tasks, fewer when the owner has already popped some of them.
    fn take_claimed(&self, claim: Front, n: usize, into: &mut Owner<'_, T>) -> Steal<(T, usize)> {
        // Pairs with the fence in `Owner::pop_guarded`: a pop that did not see the claim had
        // lowered the bottom before, and the load below sees that; every later pop sees the claim.
        if !broken(Canary::ClaimFence) {
            fence_seq_cst();
        }
        let n = n.min(self.len_from(claim));
        if n == 0 {
            return Steal::Empty;
        }
        let oldest = claim.index();
        let bottom = into.bottom();
        let first = self.read_slots(|slots| {
            for offset in 1..n {
                into.slots
                    .copy(bottom.plus(offset - 1), slots, oldest.plus(offset));
            }
            slots.read(oldest)
        });
        if !self.move_front(claim, claim.advance(n)) {
            return Steal::Retry;
        }
        let moved = n - 1 - usize::from(broken(Canary::LoseTask) && n > 1);
        into.publish(bottom.plus(moved));
        // SAFETY: as in `take_one`, for all `n` indices: the owner takes a task below the claim's
        // end only after it has sealed the claim, and then the front would not have been `claim`
        // any more. The `n - 1` others were copied to slots of `into` that were free, and `publish`
        // makes them its tasks.
        Steal::Taken((unsafe { first.take() }, moved))
    }

    /// Calls `read` with the slots that thieves copy tasks from.
    #[inline]
    fn read_slots<R>(&self, read: impl FnOnce(Slots<'_, T>) -> R) -> R {
        self.owners.ring.read_slots(&self.readers, read)
    }

    #[inline]
    fn move_front(&self, from: Front, to: Front) -> bool {
        // Release: this thread's reads of the slots come before the owner's reuse of them, which
        // follows an acquire of the front in `Owner::make_room`; and when the owner opens, all its
        // pops come before. Acquire (with it) continues the release chain of earlier thieves.
        // Relaxed on failure: nothing is concluded from it.
        self.front
            .compare_exchange(from.raw(), to.raw(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// Converts the steal of a task to that of a batch: the task, and the number of further ones.
fn batch_of_one<T>(stolen: Steal<T>) -> Steal<(T, usize)> {
    match stolen {
        Steal::Taken(task) => Steal::Taken((task, 0)),
        Steal::Empty => Steal::Empty,
        Steal::Retry => Steal::Retry,
    }
}

impl<T> Drop for Deque<T> {
    fn drop(&mut self) {
        struct FreeRings<T>(RingPtr<T>);
        impl<T> Drop for FreeRings<T> {
            fn drop(&mut self) {
                // SAFETY: no thread can read the rings any more, since the deque is being dropped.
                unsafe { self.0.free_all() };
            }
        }

        let newest = self.owners.ring.get();
        let rings = FreeRings(newest);
        // Relaxed: `&mut self`, so there is no other thread, and the transfer of the deque to this
        // thread has synchronised with the threads that used it.
        let mut index = Front::from_raw(self.front.load(Ordering::Relaxed)).index();
        let bottom = Index::from_raw(self.owners.bottom.load(Ordering::Relaxed));
        // SAFETY: the ring is live until `rings` is dropped, at the end of this function.
        let ring = unsafe { newest.ring() };
        while bottom.since(index) > 0 {
            // SAFETY: tasks from front to bottom are in their slots, and no other thread can take
            // them. A panic in a task's drop leaks the rest, which is safe.
            drop(unsafe { ring.slots().read(index).take() });
            index = index.plus(1);
        }
        drop(rings);
    }
}

impl<T> fmt::Debug for Deque<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deque")
            .field(
                "front",
                &Front::from_raw(self.front.load(Ordering::Relaxed)),
            )
            .field(
                "bottom",
                &Index::from_raw(self.owners.bottom.load(Ordering::Relaxed)),
            )
            .finish_non_exhaustive()
    }
}
