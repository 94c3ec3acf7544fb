//! The owner's side of a deque.
#![expect(
    unsafe_code,
    reason = "takes tasks out of raw slots that the protocol has won"
)]

use super::{
    Deque,
    front::{Front, Index},
    mark::Mark,
    ring::{Ring, Slots},
    rings::RingPtr,
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
    /// The slots of the deque's newest ring, which is not freed before `grow` has replaced them.
    pub(super) slots: Slots<'a, T>,
    /// The number of tasks that fit without growing.
    room: usize,
    /// The `bottom` at which a push takes its slow path: `front_seen` plus `room`, where the front
    /// must be read again, or less while pushes are [watched](Self::watch_pushes).
    full_at: Index,
    /// Whether every push takes its slow path.
    watched: bool,
    /// A front that was read earlier. The front only grows, so the deque holds at most
    /// `bottom - front_seen` tasks.
    front_seen: Index,
    calm: Calm,
    /// Whether tasks may have changed places, so that a mark may be that of another task. While it
    /// is set, the front is not quiet: so the fast path of a retract need not check it.
    reordered: bool,
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
    fn count_guarded_pop(&mut self, front: Front, may_calm_down: bool) -> bool {
        if self.front != front.index() {
            self.front = front.index();
            self.pops = 0;
            return false;
        }
        self.pops = self.pops.saturating_add(1);
        let due = self.pops >= CALM_AFTER && may_calm_down;
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
        let newest = deque.owners.ring.get();
        // Acquire: as in `make_room`; an older front would only make the deque appear fuller.
        let front = Front::from_raw(deque.front.load(Ordering::Acquire)).index();
        // SAFETY: the newest ring is freed only by its owner, after `grow` has replaced it, or by
        // `Deque::drop`, which cannot run while `deque` is borrowed.
        let ring = unsafe { newest.ring() };
        Self {
            deque,
            slots: ring.slots(),
            room: ring.len().min(deque.limit),
            full_at: front.plus(ring.len().min(deque.limit)),
            watched: false,
            front_seen: front,
            calm: Calm { front, pops: 0 },
            reordered: false,
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
    fn push_quickly(&mut self, task: T) -> Result<Mark, T> {
        match self.next_mark() {
            Some(mark) => {
                self.push_at(mark, task);
                Ok(mark)
            }
            None => Err(task),
        }
    }

    /// Returns the position of the next task, for [`push_at`](Self::push_at), unless the deque
    /// seems to be full.
    #[inline(always)]
    pub(crate) fn next_mark(&self) -> Option<Mark> {
        let index = self.bottom();
        (index != self.full_at).then(|| Mark(index.plus(1)))
    }

    /// Adds the youngest task at the position that [`next_mark`](Self::next_mark) has returned. The
    /// caller has not used the deque in between.
    #[inline(always)]
    pub(crate) fn push_at(&mut self, mark: Mark, task: T) {
        debug_assert_eq!(self.next_mark(), Some(mark), "there is room for it");
        // Read before the slot is written, after which the compiler would read it again.
        let deque = self.deque;
        self.slots.write(mark.0.previous(), task);
        // Release: as in `publish`.
        deque.owners.bottom.store(mark.raw(), Ordering::Release);
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

    /// The first half of [`retract`](Self::retract), of a task whose mark only `is_at` knows. After
    /// [`Retract::Guarded`] the caller must call [`retract_guarded`](Self::retract_guarded) or
    /// [`undo_retract`](Self::undo_retract).
    #[inline(always)]
    pub(crate) fn retract_quickly(&mut self, is_at: impl FnOnce(Mark) -> bool) -> Retract {
        let bottom = self.bottom();
        if !is_at(Mark(bottom)) {
            Retract::Missed
        } else if self.lower(bottom) {
            Retract::Taken
        } else {
            Retract::Guarded
        }
    }

    /// Whether the task still seems to be in the deque, after [`Retract::Guarded`].
    pub(crate) fn is_retractable(&self) -> bool {
        // Relaxed: a hint.
        Front::from_raw(self.deque.front.load(Ordering::Relaxed)).is_before(self.bottom().plus(1))
    }

    /// Continues after [`Retract::Guarded`]. Returns whether the task was taken.
    pub(crate) fn retract_guarded(&mut self) -> bool {
        self.pop_known(self.bottom().plus(1))
    }

    /// Takes nothing after [`Retract::Guarded`]: the task is in its place, or thieves have taken
    /// it. The caller must notify sleepers: while the bottom was lowered, a last check may have
    /// missed the task.
    pub(crate) fn undo_retract(&mut self) {
        self.publish(self.bottom().plus(1));
    }

    /// Lowers the bottom by one. Returns true if the owner has the task there, because the deque is
    /// quiet. Otherwise the caller continues with `pop_guarded`.
    #[inline(always)]
    fn lower(&mut self, bottom: Index) -> bool {
        let deque = self.deque;
        barrier::interrupt_point();
        // Release: a thief that reads this lower bottom must still see the slots below it.
        deque
            .owners
            .bottom
            .store(bottom.previous().raw(), Ordering::Release);
        // One side of the barrier whose other side is in `knock`: if the load below reads a quiet
        // front, the knock comes later, and its thief sees the bottom that was stored above.
        barrier::interrupt_point();
        // Relaxed: ordered by the barrier, or read again behind a fence.
        let front = Front::from_raw(deque.front.load(Ordering::Relaxed));
        if !front.is_quiet() {
            return false;
        }
        // Also keeps the two branches apart, which cost less than the combination of two results.
        barrier::interrupt_point();
        front.is_before(bottom)
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
            } else if self.calm.count_guarded_pop(front, self.may_calm_down()) {
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
                self.record_front(bottom);
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
            } else if self.calm.count_guarded_pop(front, self.may_calm_down()) {
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
                    self.record_front(bottom);
                    self.calm.front = next.index();
                }
                return Some(self.take(index));
            }
            // Acquire: as in `pop_guarded`.
            front = Front::from_raw(self.deque.front.load(Ordering::Acquire));
        }
    }

    /// Makes the next pop a guarded one, as [`Deque::alert`] does.
    pub(crate) fn alert(&mut self) {
        self.deque.alert();
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

    /// Whether the front may become quiet.
    fn may_calm_down(&self) -> bool {
        self.deque.one_sided && !self.reordered
    }

    /// Records that tasks have changed places, or that they have not since the deque was last
    /// empty.
    pub(crate) fn set_reordered(&mut self, reordered: bool) {
        self.reordered = reordered;
        if reordered {
            // After this the front is not quiet: only the owner makes it so.
            self.open();
        }
    }

    /// Whether tasks may have changed places: then a caller that retracts a task by its mark has to
    /// check that it is the right one. In the fast path, [`Retract::Taken`] means that they have
    /// not.
    #[inline(always)]
    pub(crate) fn is_reordered(&self) -> bool {
        self.reordered
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
        self.pop_oldest_below(self.mark())
    }

    /// [`pop_oldest`](Self::pop_oldest) of a task that was pushed before `mark`.
    pub(crate) fn pop_oldest_below(&mut self, mark: Mark) -> Option<T> {
        loop {
            // Acquire: the slots before it are no longer read, as in `make_room`.
            let front = Front::from_raw(self.deque.front.load(Ordering::Acquire));
            self.record_front(front.index());
            if self.bottom() == self.front_seen || mark.0.since(self.front_seen) <= 0 {
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

    /// Returns how many more tasks `push` is certain to accept, after growing up to `wanted` if
    /// possible.
    pub(crate) fn reserve(&mut self, wanted: usize) -> usize {
        let free = |owner: &Self| owner.room - owner.bottom().since(owner.front_seen) as usize;
        if free(self) < wanted {
            self.make_room(wanted);
        }
        // The caller may fill the room without a check.
        self.record_front(self.front_seen);
        free(self)
    }

    /// From now on every push takes its slow path, until [`unwatch_pushes`](Self::unwatch_pushes):
    /// [`next_mark`](Self::next_mark) returns `None`, and [`make_room`](Self::make_room) allows one
    /// push. The fast path does not change: the deque seems to be full.
    ///
    /// A reserved batch, and a pop that reads the front, let pushes pass; then this must be called
    /// again.
    pub(crate) fn watch_pushes(&mut self) {
        self.watched = true;
        self.full_at = self.bottom();
    }

    /// Ends [`watch_pushes`](Self::watch_pushes).
    pub(crate) fn unwatch_pushes(&mut self) {
        self.watched = false;
        self.record_front(self.front_seen);
    }

    /// Whether pushes are [watched](Self::watch_pushes).
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// Returns a mark at the young end: later pushes are above it.
    #[must_use]
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.bottom())
    }

    /// Whether there seem to be tasks that were pushed since `mark`.
    #[must_use]
    #[inline]
    pub(crate) fn has_tasks_above(&self, mark: Mark) -> bool {
        self.bottom().since(mark.0) > 0
    }

    /// Whether there seem to be tasks that were pushed before `mark`.
    #[must_use]
    pub(crate) fn has_tasks_below(&self, mark: Mark) -> bool {
        self.len().cast_signed() > self.bottom().since(mark.0)
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
    fn record_front(&mut self, front: Index) {
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
    pub(crate) fn make_room(&mut self, more: usize) -> bool {
        // Acquire: pairs with the release in `move_front`. Thieves have finished reading the slots
        // before the front, so the owner may overwrite them.
        self.record_front(Front::from_raw(self.deque.front.load(Ordering::Acquire)).index());
        let held = self.bottom().since(self.front_seen) as usize;
        let needed = held.saturating_add(more).min(self.deque.limit);
        if needed > self.room {
            self.grow(needed.next_power_of_two());
        }
        let has_room = held < self.room;
        if self.watched && has_room {
            self.full_at = self.bottom().plus(1);
        }
        has_room
    }

    fn grow(&mut self, slots: usize) {
        let replaced = self.deque.owners.ring.get();
        let newest = RingPtr::new(Ring::new(slots), replaced, self.deque.limit);
        // SAFETY: the ring is new, and is not freed before another `grow` has replaced it.
        let ring = unsafe { newest.ring() };
        // SAFETY: the replaced ring is not freed before `free_replaced` below.
        let old = unsafe { replaced.ring() };
        let held = self.bottom().since(self.front_seen);
        ring.copy_from(old, self.front_seen, held.try_into().unwrap_or(0));
        self.slots = ring.slots();
        self.room = slots.min(self.deque.limit);
        self.record_front(self.front_seen);
        if !broken(Canary::GrowPublish) {
            self.deque.owners.ring.publish(newest);
        }
        // SAFETY: this is the owner, and `slots` are those of the newest ring.
        unsafe { self.deque.owners.ring.free_replaced(&self.deque.readers) };
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
