//! The owner's side of a deque.
#![expect(
    unsafe_code,
    reason = "takes tasks out of raw slots that the protocol has won"
)]

use super::{
    Deque, RingNode,
    front::{Front, Index},
    ring::{Ring, Slots},
};
use crate::base::{
    canary::{Canary, broken},
    sync::{Ordering, fence_seq_cst},
    sys::barrier,
};
use std::{fmt, mem::MaybeUninit};

/// The owner's side of a [`Deque`]: pushes and pops at the young end.
pub struct Owner<'a, T: Send> {
    deque: &'a Deque<T>,
    /// The slots of the deque's newest ring.
    pub(super) slots: Slots<'a, T>,
    /// The number of tasks that fit without growing.
    room: usize,
    /// The `bottom` at which the front must be read again: `front_seen` plus `room`.
    full_at: Index,
    /// A front that was read earlier. The front only grows, so the deque holds at most
    /// `bottom - front_seen` tasks.
    front_seen: Index,
    calm: Calm,
}

/// A position between two tasks of a deque; see [`Owner::mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(Index);

impl Mark {
    /// Returns a mark at which there is no task and will be none.
    #[must_use]
    pub(crate) fn nowhere(self) -> Self {
        Self(self.0.opposite())
    }
}

/// The result of [`Owner::retract_quickly`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retract {
    /// The task was taken.
    Taken,
    /// The task is not the youngest, or is no longer in the deque.
    Missed,
    /// The bottom has been lowered, and the deque is not quiet (a thief has knocked, or an
    /// [alert](Deque::alert) was sent) or the task may be gone.
    Guarded,
}

/// Counts guarded pops without a steal.
struct Calm {
    /// The front at the last guarded pop, or the front that this pop has set.
    front: Index,
    /// The number of guarded pops since a thief last moved the front.
    pops: u32,
}

impl Calm {
    /// Restarts the count: a thief has knocked, and the owner opens.
    fn opened(&mut self, front: Front) {
        (self.front, self.pops) = (front.index(), 0);
    }

    /// Counts a guarded pop that has seen `front`. Returns whether the owner should stop guarding.
    fn is_due(&mut self, front: Front, one_sided: bool) -> bool {
        if self.front != front.index() {
            self.front = front.index();
            self.pops = 0;
            return false;
        }
        self.pops = self.pops.saturating_add(1);
        let due = self.pops >= CALM_AFTER && one_sided;
        if due {
            self.pops = 0;
        }
        due
    }
}

/// The number of guarded pops in a row without a steal after which the owner stops guarding.
///
/// A guarded pop costs a fence, 2 to 8 ns. The next thief's knock costs the thief a process-wide
/// barrier, 1 to 2 µs (8 to 19 µs measured on a virtual machine), and every running thread an
/// interrupt. Waiting until the fences have cost about as much as both is within a factor of two of
/// the optimum; and a worker that is woken for a task in the deque should still find it open. With
/// 256 every steal had to knock in a tree of joins that takes 100 µs, and two workers were slower
/// than one (`filch-bench join --quick`, case `nqueens`; `docs/decisions/0002-deque.md`).
pub(super) const CALM_AFTER: u32 = if cfg!(filch_loom) { 1 } else { 4096 };

impl<'a, T: Send> Owner<'a, T> {
    /// Called by `Deque::owner`, which ensures that there is one owner at a time.
    pub(super) fn new(deque: &'a Deque<T>) -> Self {
        // Relaxed: only an owner writes it, and this thread has just become the owner.
        let node = deque.owners.ring.load(Ordering::Relaxed);
        // Acquire: as in `make_room`; an older front would only make the deque appear fuller.
        let front = Front::from_raw(deque.front.load(Ordering::Acquire)).index();
        // SAFETY: `ring` always points to a live node; nodes are freed only by `Deque::drop`, which
        // cannot run while `deque` is borrowed.
        let ring = unsafe { &(*node).ring };
        Self {
            deque,
            slots: ring.slots(),
            room: ring.len().min(deque.limit),
            full_at: front.plus(ring.len().min(deque.limit)),
            front_seen: front,
            calm: Calm { front, pops: 0 },
        }
    }
}

impl<T: Send> Owner<'_, T> {
    /// Returns the index of the next push: one past the youngest task.
    #[inline(always)]
    pub(super) fn bottom(&self) -> Index {
        // Relaxed: only the owner writes it.
        Index::from_clean(self.deque.owners.bottom.load(Ordering::Relaxed))
    }

    /// Adds the youngest task, or returns it when the deque is bounded and full.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::bounded(1));
    /// let mut owner = deque.owner().unwrap();
    /// assert_eq!(owner.push("fits"), Ok(()));
    /// assert_eq!(owner.push("too many"), Err("too many"));
    /// ```
    ///
    /// # Errors
    /// The task, when there is no room.
    #[inline]
    pub fn push(&mut self, task: T) -> Result<(), T> {
        self.push_marked(task).map(drop)
    }

    /// [`push`](Self::push) that returns the position of the task, for [`retract`](Self::retract).
    ///
    /// # Errors
    /// The task, when there is no room.
    #[inline(always)]
    pub(crate) fn push_marked(&mut self, task: T) -> Result<Mark, T> {
        match self.push_quickly(task) {
            Ok(mark) => Ok(mark),
            Err(task) if self.make_room(1) => self.push_quickly(task),
            Err(task) => Err(task),
        }
    }

    /// [`push_marked`](Self::push_marked) that does not try to make room.
    #[inline(always)]
    pub(crate) fn push_quickly(&mut self, task: T) -> Result<Mark, T> {
        let index = self.bottom();
        if index == self.full_at {
            return Err(task);
        }
        let (deque, bottom) = (self.deque, index.plus(1));
        self.slots.write(index, task);
        // Release: as in `publish`.
        deque.owners.bottom.store(bottom.raw(), Ordering::Release);
        Ok(Mark(bottom))
    }

    /// Takes the youngest task.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::default());
    /// let mut owner = deque.owner().unwrap();
    /// owner.push("old").unwrap();
    /// owner.push("new").unwrap();
    /// assert_eq!(owner.pop(), Some("new"));
    /// ```
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let bottom = self.bottom();
        if bottom == self.front_seen {
            // Nothing was pushed since the deque was last seen empty, so no fence is needed.
            return None;
        }
        let index = bottom.previous();
        if self.lower(bottom) {
            return Some(self.take(index));
        }
        self.pop_guarded(index)
    }

    /// Returns a copy of the youngest task, which a thief may have taken by now: the bits are valid
    /// as bits, but what they refer to may be gone.
    #[inline(always)]
    pub(crate) fn peek_newest(&self) -> Option<MaybeUninit<T>> {
        let bottom = self.bottom();
        let some = bottom != self.front_seen;
        some.then(|| self.slots.read(bottom.previous()).bits())
    }

    /// Returns the same for the task that is older than the `younger` youngest ones.
    #[inline(always)]
    pub(crate) fn peek_newest_but(&self, younger: u8) -> Option<MaybeUninit<T>> {
        let bottom = self.bottom();
        let some = bottom.since(self.front_seen) > isize::from(younger);
        some.then(|| self.slots.read(bottom.minus(younger).previous()).bits())
    }

    /// Takes the youngest task if it is the one before `mark`, and returns whether it did. The task
    /// itself is forgotten: a caller that knows what it pushed there saves reading the slot.
    ///
    /// Returns false when there are younger tasks, or thieves took it.
    #[inline(always)]
    pub(crate) fn retract(&mut self, mark: Mark) -> bool {
        if self.bottom() != mark.0 {
            return false;
        }
        self.lower(mark.0) || self.pop_known(mark.0)
    }

    /// The first half of [`retract`](Self::retract). After [`Retract::Guarded`] the caller must
    /// call [`retract_guarded`](Self::retract_guarded) or [`undo_retract`](Self::undo_retract).
    #[inline(always)]
    pub(crate) fn retract_quickly(&mut self, mark: Mark) -> Retract {
        if self.bottom() != mark.0 {
            Retract::Missed
        } else if self.lower(mark.0) {
            Retract::Taken
        } else {
            Retract::Guarded
        }
    }

    /// Whether the task before `mark` still seems to be in the deque, after [`Retract::Guarded`].
    pub(crate) fn is_retractable(&self, mark: Mark) -> bool {
        // Relaxed: a hint.
        Front::from_raw(self.deque.front.load(Ordering::Relaxed)).is_before(mark.0)
    }

    /// Continues after [`Retract::Guarded`]. Returns whether the task was taken.
    pub(crate) fn retract_guarded(&mut self, mark: Mark) -> bool {
        self.pop_known(mark.0)
    }

    /// Takes nothing after [`Retract::Guarded`]: the task is in its place, or thieves have taken
    /// it. The caller must notify sleepers: while the bottom was lowered, a last check may have
    /// missed the task.
    pub(crate) fn undo_retract(&mut self, mark: Mark) {
        self.publish(mark.0);
    }

    /// Lowers the bottom by one. Returns true if the owner has the task there, because the deque is
    /// quiet. Otherwise the caller continues with `pop_guarded`.
    #[inline(always)]
    fn lower(&mut self, bottom: Index) -> bool {
        let deque = self.deque;
        barrier::pass();
        // Release: a thief that reads this lower bottom must still see the slots below it.
        deque
            .owners
            .bottom
            .store(bottom.previous().raw(), Ordering::Release);
        // One side of the barrier whose other side is in `knock`: if the load below reads a quiet
        // front, the knock comes later, and its thief sees the bottom that was stored above.
        barrier::pass();
        // Relaxed: ordered by the barrier, or read again behind a fence.
        let front = Front::from_raw(deque.front.load(Ordering::Relaxed));
        barrier::pass();
        front.is_quiet() && front.is_before(bottom)
    }

    /// The second half of `retract`.
    #[inline(never)]
    fn pop_known(&mut self, bottom: Index) -> bool {
        self.pop_guarded(bottom.previous())
            .map(std::mem::forget)
            .is_some()
    }

    /// The second half of `pop` when the deque is not quiet or is empty.
    #[inline(never)]
    fn pop_guarded(&mut self, index: Index) -> Option<T> {
        // Pairs with the fences in `read_open_front` and `take_claimed`: a thief that may take the
        // task at `index` has either read the old bottom before this fence, and then its claim or
        // its moved front is visible below; or it reads the new bottom and does not take the task.
        if !broken(Canary::PopFence) {
            fence_seq_cst();
        }
        // Acquire: it may become `front_seen`, as in `make_room`. The fence does the rest.
        let front = Front::from_raw(self.deque.front.load(Ordering::Acquire));
        let older = index.since(front.index());
        if older > 0 && older as usize >= front.claimed() {
            if !front.is_open() {
                // If it fails, the thief has opened first.
                let _ = self.deque.move_front(front, front.let_in());
                self.calm.opened(front);
            } else if self.calm.is_due(front, self.deque.one_sided) {
                // If it fails, a thief has changed the front meanwhile.
                let _ = self.deque.move_front(front, front.calm_down());
            }
            return Some(self.take(index));
        }
        self.pop_contended(index, front)
    }

    /// The rest of `pop`, when the task at `index` is the last one or a thief has claimed it.
    #[cold]
    fn pop_contended(&mut self, index: Index, mut front: Front) -> Option<T> {
        let bottom = index.plus(1);
        loop {
            let older = index.since(front.index());
            if older < 0 {
                // Thieves took all tasks. The front is where the bottom was.
                self.publish(bottom);
                self.saw(bottom);
                return None;
            }
            if older > 0 && older as usize >= front.claimed() {
                return Some(self.take(index));
            }
            // The last task is taken by moving the front past it, as a thief would; a claimed one
            // by voiding the claim.
            let next = if older > 0 {
                front.seal()
            } else if !front.is_open() {
                self.calm.opened(front);
                front.advance(1).let_in()
            } else if self.calm.is_due(front, self.deque.one_sided) {
                front.advance(1).calm_down()
            } else {
                front.advance(1)
            };
            if older > 0 && broken(Canary::Seal) {
                return Some(self.take(index));
            }
            if self.deque.move_front(front, next) {
                if older == 0 {
                    self.publish(bottom);
                    self.saw(bottom);
                    self.calm.front = next.index();
                }
                return Some(self.take(index));
            }
            // Acquire: as in `pop_guarded`.
            front = Front::from_raw(self.deque.front.load(Ordering::Acquire));
        }
    }

    /// Opens the deque for a thief that is expected, so that the thief need not knock.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque, Steal};
    ///
    /// let deque = Deque::new(Capacity::default());
    /// let mut owner = deque.owner().unwrap();
    /// owner.push("task").unwrap();
    /// owner.open();
    /// assert!(matches!(deque.steal(), Steal::Taken("task")));
    /// ```
    pub fn open(&mut self) {
        // Acquire: as in `Deque::read_open_front`.
        let front = Front::from_raw(self.deque.front.load(Ordering::Acquire));
        if !front.is_open() {
            // If it fails, a thief has knocked or opened.
            let _ = self.deque.move_front(front, front.guard().let_in());
            self.calm.opened(front);
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
    /// assert_eq!(owner.pop_oldest(), Some("old"));
    /// ```
    pub fn pop_oldest(&mut self) -> Option<T> {
        loop {
            // Acquire: the slots before it are no longer read, as in `make_room`.
            let front = Front::from_raw(self.deque.front.load(Ordering::Acquire));
            self.saw(front.index());
            if self.bottom() == self.front_seen {
                return None;
            }
            let copied = self.slots.read(front.index());
            // A thief that has knocked finds the deque open, as after a pop.
            let next = if front.is_quiet() {
                front.advance(1)
            } else {
                front.advance(1).let_in()
            };
            if self.deque.move_front(front, next) {
                // SAFETY: as in `take_one`. The owner knows without a barrier that the bottom is
                // past the front: no other thread lowers it.
                return Some(unsafe { copied.take() });
            }
            // A thief took a task or knocked, so the system has made progress.
        }
    }

    /// Returns the mark below the task that was pushed before `mark`, or the mark at the young end
    /// if `mark` is [nowhere](Mark::nowhere).
    pub(crate) fn below(&self, mark: Mark) -> Mark {
        let here = self.mark();
        // A deque holds at most half as many tasks as there are indices, so the nearer one is
        // meant.
        let far = mark.nowhere().0.since(self.bottom()).abs() < mark.0.since(self.bottom()).abs();
        if far { here } else { Mark(mark.0.previous()) }
    }

    /// Returns how many more tasks `push` is certain to accept, after growing up to `wanted` if
    /// possible.
    pub(crate) fn reserve(&mut self, wanted: usize) -> usize {
        let free = |owner: &Self| owner.room - owner.bottom().since(owner.front_seen) as usize;
        if free(self) < wanted {
            self.make_room(wanted);
        }
        free(self)
    }

    /// Returns a mark at the young end: later pushes are above it.
    #[must_use]
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.bottom())
    }

    /// Whether there seem to be tasks that were pushed since `mark`.
    #[must_use]
    #[inline]
    pub(crate) fn is_above(&self, mark: Mark) -> bool {
        self.bottom().since(mark.0) > 0
    }

    /// Returns the number of tasks, including those that thieves are about to take.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::default());
    /// let mut owner = deque.owner().unwrap();
    /// (0..3).for_each(|task| owner.push(task).unwrap());
    /// assert_eq!(owner.len(), 3);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.deque.len()
    }

    /// Whether the deque is empty.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::default());
    /// let mut owner = deque.owner().unwrap();
    /// owner.push(1).unwrap();
    /// assert!(!owner.is_empty());
    /// owner.pop();
    /// assert!(owner.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records that the front was read as `front`.
    fn saw(&mut self, front: Index) {
        self.front_seen = front;
        self.full_at = front.plus(self.room);
    }

    /// Makes the tasks below `bottom` visible.
    #[inline(always)]
    pub(super) fn publish(&mut self, bottom: Index) {
        // Release: pairs with the acquire in `Deque::behind`; the slots are filled.
        self.deque
            .owners
            .bottom
            .store(bottom.raw(), Ordering::Release);
    }

    #[inline(always)]
    fn take(&self, index: Index) -> T {
        // SAFETY: called from `pop` and `retract` with an index that this owner has won: it is
        // below the old bottom, at or past the front, and no thief can take it any more (see the
        // protocol). Only the owner writes slots of its own deque, so the copy is whole.
        unsafe { self.slots.read(index).take() }
    }

    /// Makes room for `more` tasks: by reading the front again, or by growing.
    #[cold]
    fn make_room(&mut self, more: usize) -> bool {
        // Acquire: pairs with the release in `move_front`. Thieves have finished reading the slots
        // before the front, so the owner may overwrite them.
        self.saw(Front::from_raw(self.deque.front.load(Ordering::Acquire)).index());
        let held = self.bottom().since(self.front_seen) as usize;
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
        // SAFETY: the node was just made from a box; it is freed only by `Deque::drop`, and `deque`
        // is borrowed for longer than this use.
        let ring = unsafe { &(*node).ring };
        let (mut index, bottom, new) = (self.front_seen, self.bottom(), ring.slots());
        while bottom.since(index) > 0 {
            new.copy(index, self.slots, index);
            index = index.plus(1);
        }
        self.slots = new;
        self.room = slots.min(self.deque.limit);
        self.saw(self.front_seen);
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
