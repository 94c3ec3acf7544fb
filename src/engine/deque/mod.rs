#![doc = include_str!("deque.md")]
#![expect(unsafe_code, reason = "the deque's ownership protocol over raw slots")]

mod front;
mod ring;
#[cfg(all(test, not(filch_loom)))]
mod tests;

use crate::ground::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence_seq_cst},
    sys::barrier,
};
use front::{Front, Index, MAX_CLAIM};
use ring::Ring;
use std::{fmt, marker::PhantomData, ptr};

/// How many tasks a deque holds.
///
/// ```
/// use filch::engine::{Capacity, Deque};
///
/// let small = Deque::new(Capacity::bounded(2));
/// let mut owner = small.owner().unwrap();
/// assert_eq!(owner.push('a'), Ok(()));
/// assert_eq!(owner.push('b'), Ok(()));
/// assert_eq!(owner.push('c'), Err('c'));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    initial: usize,
    limit: usize,
}

impl Capacity {
    /// The most tasks any deque can hold.
    pub const MAX: usize = if usize::BITS >= 64 { 1 << 40 } else { 1 << 28 };

    /// Room for `tasks` tasks and no more, rounded up to at least one.
    #[must_use]
    pub const fn bounded(tasks: usize) -> Self {
        let limit = match tasks {
            0 => 1,
            more if more > Self::MAX => Self::MAX,
            more => more,
        };
        Self {
            initial: limit,
            limit,
        }
    }

    /// Starts with room for `initial` tasks and doubles whenever that is not enough.
    #[must_use]
    pub const fn growable(initial: usize) -> Self {
        Self {
            initial: Self::bounded(initial).initial,
            limit: Self::MAX,
        }
    }

    /// The most tasks that fit, or `None` when the deque grows.
    #[must_use]
    pub const fn limit(self) -> Option<usize> {
        if self.limit == Self::MAX {
            None
        } else {
            Some(self.limit)
        }
    }
}

impl Default for Capacity {
    /// Growable from 256 tasks, seed 001's capacity: 2 KiB of words for one-word tasks.
    fn default() -> Self {
        Self::growable(256)
    }
}

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
        // Relaxed: only an owner writes these three, and we have just become the owner; an older
        // front only makes the deque look fuller.
        let bottom = Index::from_raw(self.owners.bottom.load(Ordering::Relaxed));
        let front = Front::from_raw(self.front.load(Ordering::Relaxed)).index();
        let node = self.owners.ring.load(Ordering::Relaxed);
        Some(Owner {
            deque: self,
            // SAFETY: `ring` always points to a live node; nodes are freed only by `Deque::drop`,
            // which cannot run while `self` is borrowed.
            ring: unsafe { &(*node).ring },
            // SAFETY: as above.
            room: unsafe { &(*node).ring }.slots().min(self.limit),
            bottom,
            front_seen: front,
            calm: Calm { front, pops: 0 },
        })
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
        // A pop that has not seen `guard` is visible to us after this; see `Owner::pop`.
        if !broken(Canary::KnockBarrier) {
            barrier::heavy();
        }
        if self.move_front(front, front.let_in()) {
            return Steal::Taken(front.let_in());
        }
        Steal::Retry
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
        let copied = self.ring().read(front.index());
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
        let ring = self.ring();
        let first = ring.read(oldest);
        for offset in 1..n {
            into.ring
                .copy(into.bottom.plus(offset - 1), ring, oldest.plus(offset));
        }
        if !self.move_front(claim, claim.advance(n)) {
            return Steal::Retry;
        }
        let moved = n - 1 - usize::from(broken(Canary::LoseTask) && n > 1);
        into.publish(into.bottom.plus(moved));
        // SAFETY: as in `take_one`, for all `n` indices: the owner takes a task below the claim's
        // end only after it has sealed the claim, and then the front would not have been `claim`
        // any more. The `n - 1` others were copied to slots of `into` that were free, and `publish`
        // makes them its tasks.
        Steal::Taken((unsafe { first.take() }, moved))
    }

    #[inline]
    fn move_front(&self, from: Front, to: Front) -> bool {
        // Release: our reads of the slots come before the owner's reuse of them, which follows an
        // acquire of the front in `Owner::make_room`. Acquire (with it) keeps the release chain of
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
            drop(unsafe { ring.read(index).take() });
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

/// The owner's side of a [`Deque`]: pushes and pops at the young end.
pub struct Owner<'a, T: Send> {
    deque: &'a Deque<T>,
    /// The deque's newest ring.
    ring: &'a Ring<T>,
    /// How many tasks fit without growing.
    room: usize,
    /// What `deque.owners.bottom` holds, except inside `pop`.
    bottom: Index,
    /// A front that was read some time ago. The front only grows, so the deque holds at most
    /// `bottom - front_seen` tasks.
    front_seen: Index,
    calm: Calm,
}

/// How long no thief has come.
struct Calm {
    /// The front at the last guarded pop.
    front: Index,
    /// Guarded pops since it last moved.
    pops: u32,
}

/// After so many guarded pops in a row without a steal the owner stops guarding.
///
/// A guarded pop costs a fence, 2 to 8 ns; the next thief's knock costs a process-wide barrier, about
/// 2 µs. Whatever the thieves do, waiting until the fences have cost as much as the barrier would is
/// at most twice as dear as knowing it in advance.
const CALM_AFTER: u32 = if cfg!(filch_loom) { 1 } else { 256 };

impl<T: Send> Owner<'_, T> {
    /// Adds the youngest task, or gives it back when the deque is bounded and full.
    ///
    /// # Errors
    /// The task, when there is no room.
    #[inline]
    pub fn push(&mut self, task: T) -> Result<(), T> {
        if self.bottom.since(self.front_seen) as usize >= self.room && !self.make_room(1) {
            return Err(task);
        }
        self.ring.write(self.bottom, task);
        self.publish(self.bottom.plus(1));
        Ok(())
    }

    /// Takes the youngest task.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.bottom == self.front_seen {
            // Nothing was pushed since the deque was last seen empty: no fence needed.
            return None;
        }
        let index = self.bottom.previous();
        barrier::pass();
        // Release: a thief that reads this lower bottom must still see the slots below it.
        self.deque
            .owners
            .bottom
            .store(index.raw(), Ordering::Release);
        // One side of the barrier whose other side is in `knock`: if we read a quiet front below, the
        // knock comes later, and the thief behind it sees the bottom that we have stored.
        barrier::pass();
        // Relaxed: ordered by the barrier, or read again behind a fence.
        let front = Front::from_raw(self.deque.front.load(Ordering::Relaxed));
        barrier::pass();
        if front.is_quiet() && index.since(front.index()) >= 0 {
            self.bottom = index;
            return Some(self.take(index));
        }
        self.pop_guarded(index)
    }

    /// The rest of `pop` when thieves may be about, or there is nothing.
    #[inline(never)]
    fn pop_guarded(&mut self, index: Index) -> Option<T> {
        // Pairs with the fences in `look` and `take_claimed`: a thief that may take the task at
        // `index` has either read the old bottom before this fence, and then its claim or its moved
        // front is visible below; or it reads the new one and leaves the task alone.
        if !broken(Canary::PopFence) {
            fence_seq_cst();
        }
        // Relaxed: the fence orders it; the slot was written by this thread.
        let front = Front::from_raw(self.deque.front.load(Ordering::Relaxed));
        let older = index.since(front.index());
        if older > 0 && older as usize >= front.claimed() {
            self.bottom = index;
            self.calm_down(front);
            return Some(self.take(index));
        }
        self.pop_contended(index, front)
    }

    /// Stops guarding when no thief has come for a while.
    fn calm_down(&mut self, front: Front) {
        if self.calm.front != front.index() {
            self.calm = Calm {
                front: front.index(),
                pops: 0,
            };
            return;
        }
        self.calm.pops += 1;
        if self.calm.pops >= CALM_AFTER && self.deque.one_sided && front.is_open() {
            self.calm.pops = 0;
            // If it fails a thief is about after all.
            let _ = self.deque.move_front(front, front.calm_down());
        }
    }

    /// The rest of `pop`, when the task at `index` is the last one or a thief has claimed it.
    #[cold]
    fn pop_contended(&mut self, index: Index, mut front: Front) -> Option<T> {
        loop {
            let older = index.since(front.index());
            if older < 0 {
                // Thieves took everything. The front is where the bottom was.
                self.publish(self.bottom);
                self.front_seen = self.bottom;
                return None;
            }
            if older > 0 && older as usize >= front.claimed() {
                self.bottom = index;
                return Some(self.take(index));
            }
            // The last task is taken by moving the front past it, as a thief would; a claimed one
            // by voiding the claim.
            let next = if older == 0 {
                front.advance(1)
            } else {
                front.seal()
            };
            if older > 0 && broken(Canary::Seal) {
                self.bottom = index;
                return Some(self.take(index));
            }
            if self.deque.move_front(front, next) {
                if older == 0 {
                    self.publish(self.bottom);
                    self.front_seen = self.bottom;
                } else {
                    self.bottom = index;
                }
                return Some(self.take(index));
            }
            // Relaxed: the compare-and-swap above decides.
            front = Front::from_raw(self.deque.front.load(Ordering::Relaxed));
        }
    }

    /// Takes the oldest task.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::default());
    /// let mut owner = deque.owner().unwrap();
    /// owner.push("old").unwrap();
    /// owner.push("new").unwrap();
    /// assert_eq!(owner.oldest(), Some("old"));
    /// ```
    pub fn oldest(&mut self) -> Option<T> {
        loop {
            // Acquire: the slots before it are no longer read, as in `make_room`.
            let front = Front::from_raw(self.deque.front.load(Ordering::Acquire));
            self.front_seen = front.index();
            if self.bottom == self.front_seen {
                return None;
            }
            let copied = self.ring.read(front.index());
            if self.deque.move_front(front, front.advance(1)) {
                // SAFETY: as in `take_one`. That the bottom is past the front the owner knows without
                // a barrier: nobody else lowers it.
                return Some(unsafe { copied.take() });
            }
            // A thief took one or knocked, so the system moved on.
        }
    }

    /// How many more tasks `push` will take for sure, growing up to `wanted` if it can.
    pub fn reserve(&mut self, wanted: usize) -> usize {
        let free = |owner: &Self| owner.room - owner.bottom.since(owner.front_seen) as usize;
        if free(self) < wanted {
            self.make_room(wanted);
        }
        free(self)
    }

    /// How many tasks there are, counting those that thieves are about to take.
    #[must_use]
    pub fn len(&self) -> usize {
        self.deque.len()
    }

    /// Whether the deque is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the tasks below `bottom` visible.
    #[inline(always)]
    fn publish(&mut self, bottom: Index) {
        self.bottom = bottom;
        // Release: pairs with the acquire in `look` and `take_claimed`; the slots are filled.
        self.deque
            .owners
            .bottom
            .store(bottom.raw(), Ordering::Release);
    }

    #[inline(always)]
    fn take(&self, index: Index) -> T {
        // SAFETY: called from `pop` with an index that this owner has won: it is below the old
        // bottom, at or past the front, and no thief can take it any more (see the protocol). Only
        // the owner writes slots of its own deque, so the copy is whole.
        unsafe { self.ring.read(index).take() }
    }

    /// Finds room for `more` tasks: by looking at the front again, or by growing.
    #[cold]
    fn make_room(&mut self, more: usize) -> bool {
        // Acquire: pairs with the release in `move_front`. Thieves have finished reading the slots
        // before the front, so we may overwrite them.
        self.front_seen = Front::from_raw(self.deque.front.load(Ordering::Acquire)).index();
        let held = self.bottom.since(self.front_seen) as usize;
        let needed = held.saturating_add(more).min(self.deque.limit);
        if needed > self.room {
            self.grow(needed.next_power_of_two());
        }
        held < self.room
    }

    fn grow(&mut self, slots: usize) {
        // Relaxed: only the owner writes `ring`.
        let replaced = self.deque.owners.ring.load(Ordering::Relaxed);
        let node = Box::into_raw(Box::new(RingNode {
            ring: Ring::new(slots),
            replaced,
        }));
        // SAFETY: just made from a box; freed only by `Deque::drop`, which `deque` outlives.
        let ring = unsafe { &(*node).ring };
        let mut index = self.front_seen;
        while self.bottom.since(index) > 0 {
            ring.copy(index, self.ring, index);
            index = index.plus(1);
        }
        self.ring = ring;
        self.room = slots.min(self.deque.limit);
        // Release: pairs with the acquire in `Deque::ring`; the copies are visible. A thief that
        // still reads the old ring finds the same tasks there: it is never written again.
        if !broken(Canary::GrowPublish) {
            self.deque.owners.ring.store(node, Ordering::Release);
        }
    }
}

impl<T: Send> Drop for Owner<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `Deque::owner`.
        self.deque.owners.owned.store(false, Ordering::Release);
    }
}

impl<T: Send> fmt::Debug for Owner<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("deque", self.deque)
            .finish_non_exhaustive()
    }
}
