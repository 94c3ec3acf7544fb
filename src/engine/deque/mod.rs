#![doc = include_str!("deque.md")]
#![expect(unsafe_code, reason = "the deque's ownership protocol over raw slots")]

mod capacity;
mod front;
mod owner;
mod ring;
#[cfg(all(test, not(filch_loom)))]
mod tests;

pub use capacity::Capacity;
pub use owner::{Mark, Owner, Retract};

use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence_seq_cst, hint},
    sys::barrier,
    thread,
};
use front::{Front, Index, MAX_CLAIM};
use ring::Ring;
use std::{fmt, marker::PhantomData, ptr};

/// The most tasks that one [`Deque::steal_batch`] takes.
pub const MAX_BATCH: usize = MAX_CLAIM;

/// How often a thief that has knocked looks whether the owner opens, before it pays for a barrier: with 10 to 50 ns a pause that
/// is about as long as a barrier takes on a machine of its own. Owners of small tasks pop more often than that.
const AT_THE_DOOR: u32 = if cfg!(filch_loom) { 1 } else { 32 };

/// What a thief got.
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
    /// The oldest task, or what a batch steal says of it.
    Taken(T),
    /// There was nothing to take.
    Empty,
    /// Another thief, or the owner, was faster. There may be more: try again.
    Retry,
}

/// What the thieves see of the owner's end; they only read it.
struct OwnersLine<T> {
    /// One past the youngest task.
    bottom: AtomicU64,
    /// The newest ring. Rings are freed only with the deque, so a pointer read here stays good.
    ring: AtomicPtr<RingNode<T>>,
    /// Whether an [`Owner`] exists.
    owned: AtomicBool,
}

struct RingNode<T> {
    ring: Ring<T>,
    /// The ring that this one replaced: thieves may still read it. Together all replaced rings are
    /// smaller than the present one.
    replaced: *mut RingNode<T>,
}

/// A work-stealing deque: one [`Owner`], any number of thieves.
///
/// ```
/// use filch::engine::{Capacity, Deque, Steal};
///
/// let deque = Deque::new(Capacity::default());
/// let mut owner = deque.owner().expect("nobody owns it yet");
/// for task in 1..=3 {
///     owner.push(task).unwrap();
/// }
/// assert_eq!(owner.pop(), Some(3)); // the owner takes the newest
/// assert_eq!(deque.steal(), Steal::Taken(1)); // a thief takes the oldest
/// ```
pub struct Deque<T> {
    /// The thieves' word, a [`Front`]. The owner only reads it while there is no conflict.
    front: Padded<AtomicU64>,
    owners: Padded<OwnersLine<T>>,
    limit: usize,
    /// Whether thieves can make the owner pass a fence.
    one_sided: bool,
    tasks: PhantomData<T>,
}

// SAFETY: tasks move between threads through the slots (`T: Send`); no reference to a task in the
// deque is ever handed out, so `T: Sync` is not needed. `ring` points to memory that is reached only
// through the protocol of this module.
unsafe impl<T: Send> Send for Deque<T> {}
// SAFETY: as above; the owner's side needs an `Owner`, of which `owned` admits one at a time.
unsafe impl<T: Send> Sync for Deque<T> {}

impl<T: Send> Deque<T> {
    /// An empty deque.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        Self::starting_at(capacity, Index::from_raw(0))
    }

    fn starting_at(capacity: Capacity, index: Index) -> Self {
        let node = Box::new(RingNode {
            ring: Ring::new(capacity.initial.next_power_of_two()),
            replaced: ptr::null_mut(),
        });
        // Where the barrier is only a pair of fences there is no way to let a pop go without one.
        let one_sided = barrier::prepare() == barrier::Kind::Process;
        let front = if one_sided {
            Front::quiet(index)
        } else {
            Front::open(index)
        };
        Self {
            front: Padded::new(AtomicU64::new(front.raw())),
            owners: Padded::new(OwnersLine {
                bottom: AtomicU64::new(index.raw()),
                ring: AtomicPtr::new(Box::into_raw(node)),
                owned: AtomicBool::new(false),
            }),
            limit: capacity.limit,
            one_sided,
            tasks: PhantomData,
        }
    }

    /// The owner's side, or `None` while another [`Owner`] exists.
    #[must_use]
    pub fn owner(&self) -> Option<Owner<'_, T>> {
        // Acquire pairs with the release in `Owner::drop`: what the previous owner wrote to the
        // owner's words is visible to the next one.
        self.owners
            .owned
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(Owner::new(self))
    }

    /// How many tasks there seem to be; exact only while nobody else uses the deque.
    #[must_use]
    pub fn len(&self) -> usize {
        // Acquire on both: a caller that sees work here may go on to act on it.
        let front = Front::from_raw(self.front.load(Ordering::Acquire)).index();
        let bottom = Index::from_raw(self.owners.bottom.load(Ordering::Acquire));
        usize::try_from(bottom.since(front)).unwrap_or(0)
    }

    /// Whether there seems to be no task.
    ///
    /// After a full barrier this is reliable in one direction: a task whose `push` came before the
    /// barrier and that nobody has taken is seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there seems to be a single task, which may be gone in a moment.
    #[must_use]
    pub fn is_single(&self) -> bool {
        // Relaxed: a hint.
        let front = Front::from_raw(self.front.load(Ordering::Relaxed));
        self.behind(front) == 1
    }

    /// Whether no thief seems to be about.
    pub(crate) fn is_quiet(&self) -> bool {
        // Relaxed: a hint.
        Front::from_raw(self.front.load(Ordering::Relaxed)).is_quiet()
    }

    /// Takes the oldest task.
    #[inline]
    pub fn steal(&self) -> Steal<T> {
        match self.look() {
            Steal::Taken((front, _)) => self.take_one(front),
            Steal::Empty => Steal::Empty,
            Steal::Retry => Steal::Retry,
        }
    }

    /// Takes up to half of the tasks, at most `most`: the oldest is returned with the number of the
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
        let (front, len) = match self.look() {
            Steal::Taken(seen) => seen,
            Steal::Empty => return Steal::Empty,
            Steal::Retry => return Steal::Retry,
        };
        let wanted = len.div_ceil(2).min(most).min(MAX_CLAIM);
        if wanted <= 1 || front.sealed() {
            return one(self.take_one(front));
        }
        let room = into.reserve(wanted - 1);
        match self.claim(front, wanted.min(room + 1)) {
            Some((claim, n)) => self.take_claimed(claim, n, into),
            None => Steal::Retry,
        }
    }

    /// The front, open, and how many tasks are behind it.
    #[inline]
    fn look(&self) -> Steal<(Front, usize)> {
        // Acquire: pairs with the release of whoever moved the front here, so that the bottom read
        // below is not older than what that thief saw.
        let mut front = Front::from_raw(self.front.load(Ordering::Acquire));
        if !front.is_open() {
            match self.knock(front) {
                Steal::Taken(open) => front = open,
                Steal::Empty => return Steal::Empty,
                Steal::Retry => return Steal::Retry,
            }
        }
        // Pairs with the fence in `Owner::pop_guarded`: either we see the bottom that the pop
        // lowered, or the pop sees a front at least as new as ours.
        fence_seq_cst();
        match self.behind(front) {
            0 => Steal::Empty,
            len => Steal::Taken((front, len)),
        }
    }

    /// How many tasks there are from `front` on.
    #[inline]
    fn behind(&self, front: Front) -> usize {
        // Acquire: pairs with the release in `Owner::publish`: the slots below it are filled.
        let bottom = Index::from_raw(self.owners.bottom.load(Ordering::Acquire));
        usize::try_from(bottom.since(front.index())).unwrap_or(0)
    }

    /// Makes the owner guard its pops, and makes sure that we see those that it did not guard.
    #[cold]
    fn knock(&self, mut front: Front) -> Steal<Front> {
        if self.behind(front) == 0 {
            // Nothing here: no reason to disturb anybody. Before sleeping there is another look.
            return Steal::Empty;
        }
        if front.is_quiet() {
            if !self.move_front(front, front.guard()) {
                return Steal::Retry;
            }
            front = front.guard();
        }
        for look in 1..=thread::patience(AT_THE_DOOR) {
            // In a model that would be the end of what is out of date.
            if !cfg!(filch_loom) {
                hint::spin_loop();
            }
            // Acquire: as in `look`; and it pairs with the release of an owner that opens.
            front = Front::from_raw(self.front.load(Ordering::Acquire));
            if front.is_open() {
                return Steal::Taken(front);
            }
            if front.is_quiet() {
                return Steal::Retry;
            }
            // Seldom: it is the line that the owner writes at every push and pop.
            if look.is_multiple_of(8) && self.behind(front) == 0 {
                return Steal::Empty;
            }
        }
        // A pop that has not seen `guard` is visible to us after this; see `Owner::pop`.
        if !broken(Canary::KnockBarrier) {
            barrier::heavy();
        }
        if self.move_front(front, front.let_in()) {
            return Steal::Taken(front.let_in());
        }
        // Acquire: as above.
        front = Front::from_raw(self.front.load(Ordering::Acquire));
        if front.is_open() {
            Steal::Taken(front)
        } else {
            Steal::Retry
        }
    }

    /// Makes the owner take the guarded path at its next pop, and takes nothing. A thief that comes
    /// later completes the knock.
    pub fn alert(&self) {
        // Acquire: as in `look`.
        let front = Front::from_raw(self.front.load(Ordering::Acquire));
        if front.is_quiet() {
            // If it fails, a thief has knocked or the owner has popped its last task: either way the
            // next pop is a guarded one, or there is nothing to pop.
            let _ = self.move_front(front, front.guard());
        }
    }

    /// Knocks and goes away, for models.
    #[cfg(filch_loom)]
    pub fn knock_only(&self) {
        // Relaxed: `knock` checks by compare-and-swap.
        let front = Front::from_raw(self.front.load(Ordering::Relaxed));
        if !front.is_open() {
            let _ = self.knock(front);
        }
    }

    fn take_one(&self, front: Front) -> Steal<T> {
        let copied = self.ring().slots().read(front.index());
        if !self.move_front(front, front.advance(1)) {
            return Steal::Retry;
        }
        // SAFETY: moving the front past `index` is what taking the task at `index` means. It
        // succeeded, so the front was still there when we copied: the owner takes the task at the
        // front's index only by moving the front too, and reuses the slot only after that.
        Steal::Taken(unsafe { copied.take() })
    }

    /// Reserves `n` tasks for thieves, or joins in the claim that is there.
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
        // Pairs with the fence in `Owner::pop_guarded`: a pop that did not see the claim had lowered the
        // bottom before, and we see that below; every later pop sees the claim.
        if !broken(Canary::ClaimFence) {
            fence_seq_cst();
        }
        let n = n.min(self.behind(claim));
        if n == 0 {
            return Steal::Empty;
        }
        let oldest = claim.index();
        let (slots, bottom) = (self.ring().slots(), into.bottom());
        let first = slots.read(oldest);
        for offset in 1..n {
            into.slots
                .copy(bottom.plus(offset - 1), slots, oldest.plus(offset));
        }
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

    #[inline]
    fn move_front(&self, from: Front, to: Front) -> bool {
        // Release: our reads of the slots come before the owner's reuse of them, which follows an
        // acquire of the front in `Owner::make_room`; and when the owner opens, all its pops come before. Acquire (with it) keeps the release chain of
        // earlier thieves whole. Relaxed on failure: nothing is concluded from it.
        self.front
            .compare_exchange(from.raw(), to.raw(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    fn ring(&self) -> &Ring<T> {
        // Acquire: pairs with the release in `Owner::grow`; the copied slots are visible.
        let node = self.owners.ring.load(Ordering::Acquire);
        // SAFETY: `ring` always points to a live node, freed only by `Deque::drop`.
        unsafe { &(*node).ring }
    }

    /// Drops every task that is left and says how many there were.
    pub fn clear(&mut self) -> usize {
        let owner = self.owner().expect("`&mut`: nobody owns it");
        let mut leftovers = Leftovers { owner, dropped: 0 };
        while leftovers.drop_one() {}
        leftovers.dropped
    }
}

fn one<T>(stolen: Steal<T>) -> Steal<(T, usize)> {
    match stolen {
        Steal::Taken(task) => Steal::Taken((task, 0)),
        Steal::Empty => Steal::Empty,
        Steal::Retry => Steal::Retry,
    }
}

/// Drops what is in a deque, also when one of the drops panics.
struct Leftovers<'a, T: Send> {
    owner: Owner<'a, T>,
    dropped: usize,
}

impl<T: Send> Leftovers<'_, T> {
    fn drop_one(&mut self) -> bool {
        let task = self.owner.oldest();
        let found = task.is_some();
        self.dropped += usize::from(found);
        drop(task);
        found
    }
}

impl<T: Send> Drop for Leftovers<'_, T> {
    fn drop(&mut self) {
        while self.drop_one() {}
    }
}

impl<T> Drop for Deque<T> {
    fn drop(&mut self) {
        struct FreeRings<T>(*mut RingNode<T>);
        impl<T> Drop for FreeRings<T> {
            fn drop(&mut self) {
                let mut node = self.0;
                while !node.is_null() {
                    // SAFETY: every node came from `Box::into_raw`, is reached only through the
                    // list that starts in `ring`, and nobody can read it any more: the deque is
                    // being dropped.
                    let owned = unsafe { Box::from_raw(node) };
                    node = owned.replaced;
                }
            }
        }

        // Relaxed: `&mut self`, so there is no other thread, and whatever handed us the deque has
        // synchronised with those that used it.
        let node = self.owners.ring.load(Ordering::Relaxed);
        let rings = FreeRings(node);
        let mut index = Front::from_raw(self.front.load(Ordering::Relaxed)).index();
        let bottom = Index::from_raw(self.owners.bottom.load(Ordering::Relaxed));
        // SAFETY: `node` is live until `rings` is dropped, at the end of this function.
        let ring = unsafe { &(*node).ring };
        while bottom.since(index) > 0 {
            // SAFETY: tasks from front to bottom are in their slots and belong to nobody else. A
            // panic in a task's drop leaks the rest, which is safe.
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
