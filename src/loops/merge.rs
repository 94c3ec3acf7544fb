//! Runs sorted and merged by several workers.
//!
//! An item is moved by copying its bytes, so that it stands in two places for a while: in the slice and in the buffer. It
//! counts where it was copied from, until the whole merge is done; and comparisons, which may panic and may change what
//! is behind a cell in an item, look at that copy only, and only before it is copied. So:
//!
//! - a merge from the slice into the buffer that is not finished has changed nothing;
//! - a merge from the buffer into the slice that is not finished copies everything back from the buffer ([`Restore`]), where
//!   nothing has been changed since the merge before, but by comparisons.
//!
//! A sort is over when it is cancelled or a comparison has panicked, wherever that was. From then on nobody begins a run or
//! a merge, so any merge may be left unfinished: whoever waits for its parts looks once more whether it is over, and counts
//! it as finished only if not. Once over it stays so, and what one of the parts has seen, the one who waited for it sees.
//!
//! Whatever happens, the slice has every item once in the end, and the buffer forgets what it has.
#![expect(
    unsafe_code,
    reason = "items that stand in two places, of which one counts"
)]

use super::{checkpoint::leaf_checkpoint, drive::Alarm};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicBool, Ordering},
    },
    fork::join,
};
use std::{hint, marker::PhantomData, mem, ptr, slice};

/// The least items that are merged by one worker: some 30 µs.
const MERGE: usize = 8_192;

/// How to sort items of type `T`.
pub(super) struct Rule<'r, T, S, L> {
    sort: &'r S,
    less: &'r L,
    over: &'r (dyn Fn() -> bool + Sync),
    /// A comparison has panicked.
    stop: AtomicBool,
    items: PhantomData<fn(&T)>,
}

impl<'r, T, S, L> Rule<'r, T, S, L>
where
    T: Send,
    S: Fn(&mut [T]) + Sync,
    L: Fn(&T, &T) -> bool + Sync,
{
    /// `sort` sorts a run in its place, `less` says whether one item goes before another, and `over` whether it is not
    /// wanted any more: once it is true it stays so.
    pub(super) fn new(sort: &'r S, less: &'r L, over: &'r (dyn Fn() -> bool + Sync)) -> Self {
        Self {
            sort,
            less,
            over,
            stop: AtomicBool::new(false),
            items: PhantomData,
        }
    }

    fn is_over(&self) -> bool {
        // Relaxed: it stays true; whoever joins one who has seen it sees it too.
        self.stop.load(Ordering::Relaxed) || (self.over)()
    }

    /// Calls what may panic because a comparison does: if so, the others need not go on.
    fn alarmed<R>(&self, f: impl FnOnce() -> R) -> R {
        let alarm = Alarm(&self.stop);
        let result = f();
        mem::forget(alarm);
        result
    }

    /// Sorts `items` in runs that are halved so often, an even number of times.
    pub(super) fn sort(&self, items: &mut [T], halvings: u32) {
        debug_assert!(halvings.is_multiple_of(2), "it would end in the buffer");
        // Its length stays zero: it forgets what is written to it.
        let mut buffer = Vec::<T>::with_capacity(items.len());
        let space = Space {
            slice: items.as_mut_ptr(),
            buffer: buffer.as_mut_ptr(),
            len: items.len(),
        };
        self.halve(space, halvings);
    }

    /// Sorts the items of `space`: into the slice if they are halved an even number of times, else into the buffer. When it
    /// is over, they stay in the slice, in any order.
    fn halve(&self, space: Space<T>, halvings: u32) {
        leaf_checkpoint();
        if self.is_over() {
            return;
        }
        let Space { slice, buffer, len } = space;
        if halvings == 0 {
            // SAFETY: they are initialised and ours, as `Space` says, and the space is not used again.
            let items = unsafe { slice::from_raw_parts_mut(slice, len) };
            return self.alarmed(|| (self.sort)(items));
        }
        let middle = len / 2;
        let (left, right) = space.split_at(middle);
        let _ = join(
            || self.halve(left, halvings - 1),
            || self.halve(right, halvings - 1),
        );
        if self.is_over() {
            // If it was over for one of the halves, then it is here, and nothing has been taken from the slice.
            return;
        }
        let to_buffer = halvings % 2 == 1;
        let (from, to) = if to_buffer {
            (slice, buffer)
        } else {
            (buffer, slice)
        };
        let restore = (!to_buffer).then_some(Restore { from, to, len });
        // Both halves are sorted and where the last merge, or the sort, has put them: the `len` items from `from` on. The
        // other place is free to be written to.
        let runs = Run { start: from, len }.split_at(middle);
        self.merge(runs.0, runs.1, Place(to));
        if !self.is_over() || broken(Canary::LoopRestore) {
            mem::forget(restore);
        }
    }

    /// Merges two sorted runs into `to`, where there is room for both; of equal items those of `left` come first. When it
    /// is over, not all of them.
    fn merge(&self, left: Run<T>, right: Run<T>, to: Place<T>) {
        if self.is_over() {
            return;
        }
        if left.len + right.len <= MERGE {
            leaf_checkpoint();
            return self.alarmed(|| self.merge_here(left, right, to));
        }
        let (l, r) = self.alarmed(|| self.cut(&left, &right));
        let (left, more_left) = left.split_at(l);
        let (right, more_right) = right.split_at(r);
        let more_to = Place(to.0.wrapping_add(l + r));
        let _ = join(
            || self.merge(left, right, to),
            || self.merge(more_left, more_right, more_to),
        );
    }

    /// Where to cut two runs, so that nothing behind the cuts goes before anything that is not: in the middle of the longer
    /// one, and behind what goes before that item in the other.
    fn cut(&self, left: &Run<T>, right: &Run<T>) -> (usize, usize) {
        if left.len >= right.len {
            let (l, pivot) = left.middle();
            let before = |item: &T| (self.less)(item, pivot);
            (l, right.items().partition_point(before))
        } else {
            let (r, pivot) = right.middle();
            let before = |item: &T| !(self.less)(pivot, item);
            (left.items().partition_point(before), r)
        }
    }

    fn merge_here(&self, left: Run<T>, right: Run<T>, Place(to): Place<T>) {
        if left.len == 0 || right.len == 0 || !(self.less)(right.first(), left.last()) {
            left.copy_to(to);
            return right.copy_to(to.wrapping_add(left.len));
        }
        if (self.less)(right.last(), left.first()) {
            right.copy_to(to);
            return left.copy_to(to.wrapping_add(right.len));
        }
        let mut rest = Ends::new(left, right, to);
        // From both ends at once: the two steps do not wait for each other. So many steps cannot reach the end of a run,
        // even if all of them took from the same one.
        loop {
            let steps = rest.shorter() / 2;
            if steps == 0 {
                break;
            }
            for _ in 0..steps {
                self.take_first(&mut rest);
                self.take_last(&mut rest);
            }
        }
        while rest.shorter() > 0 {
            self.take_first(&mut rest);
        }
        let Ends { left, right, .. } = rest;
        for (start, end) in [left, right] {
            // One of them is empty.
            let run = Run {
                start,
                len: items_between(start, end),
            };
            run.copy_to(rest.to.0);
        }
    }

    /// Moves on with the first of all items that are left. There must be some in both runs.
    #[inline(always)]
    fn take_first(&self, rest: &mut Ends<T>) {
        let (l, r) = (rest.left.0, rest.right.0);
        // SAFETY: neither run is at its end, so the items are initialised and not written to, as `Run` says.
        let first = unsafe { &*l };
        // SAFETY: as above.
        let second = unsafe { &*r };
        let right_first = (self.less)(second, first);
        // Chosen without a jump, which nobody could foresee.
        let next = hint::select_unpredictable(right_first, r, l);
        // SAFETY: there is as much room as there are items left, as `Ends` says; and it is apart from them.
        unsafe { ptr::copy_nonoverlapping(next, rest.to.0, 1) };
        rest.to.0 = rest.to.0.wrapping_add(1);
        rest.right.0 = r.wrapping_add(usize::from(right_first));
        rest.left.0 = l.wrapping_add(usize::from(!right_first));
    }

    /// Moves on with the last of all items that are left. There must be some in both runs.
    #[inline(always)]
    fn take_last(&self, rest: &mut Ends<T>) {
        let (l, r) = (rest.left.1.wrapping_sub(1), rest.right.1.wrapping_sub(1));
        // SAFETY: as in `take_first`.
        let first = unsafe { &*l };
        // SAFETY: as above.
        let second = unsafe { &*r };
        let left_last = (self.less)(second, first);
        let next = hint::select_unpredictable(left_last, l, r);
        rest.to.1 = rest.to.1.wrapping_sub(1);
        // SAFETY: as in `take_first`.
        unsafe { ptr::copy_nonoverlapping(next, rest.to.1, 1) };
        rest.left.1 = rest.left.1.wrapping_sub(usize::from(left_last));
        rest.right.1 = rest.right.1.wrapping_sub(usize::from(!left_last));
    }
}

/// What is left of a merge: starts and ends.
///
/// From the first to the second of `to` there is room for exactly the items that are left in both runs: each step takes one
/// of them and one place, at the same end.
struct Ends<T> {
    left: (*const T, *const T),
    right: (*const T, *const T),
    to: (*mut T, *mut T),
}

impl<T> Ends<T> {
    fn new(left: Run<T>, right: Run<T>, to: *mut T) -> Self {
        let ends = |run: &Run<T>| (run.start, run.start.wrapping_add(run.len));
        Self {
            left: ends(&left),
            right: ends(&right),
            to: (to, to.wrapping_add(left.len + right.len)),
        }
    }

    /// How many items are left in the run that has fewer.
    fn shorter(&self) -> usize {
        let left = items_between(self.left.0, self.left.1);
        left.min(items_between(self.right.0, self.right.1))
    }
}

/// How many items of a size stand between two places.
fn items_between<T>(start: *const T, end: *const T) -> usize {
    (end.addr() - start.addr()) / size_of::<T>()
}

/// Items in a slice, and a buffer of the same size.
struct Space<T> {
    /// The `len` items from here on are initialised, and nobody else uses them.
    slice: *mut T,
    /// From here on there is room for `len` items, which nobody else uses.
    buffer: *mut T,
    len: usize,
}

// SAFETY: the items belong to whoever has the space, which may be another thread because `T` is `Send`.
unsafe impl<T: Send> Send for Space<T> {}

impl<T> Space<T> {
    fn split_at(self, index: usize) -> (Self, Self) {
        let part = |at: usize, len| Self {
            slice: self.slice.wrapping_add(at),
            buffer: self.buffer.wrapping_add(at),
            len,
        };
        (part(0, index), part(index, self.len - index))
    }
}

/// Where items are written to: the room that its owner has been given for them, and nobody else uses.
struct Place<T>(*mut T);

// SAFETY: as for `Space`.
unsafe impl<T: Send> Send for Place<T> {}

/// Sorted items that are only looked at, and copied.
struct Run<T> {
    /// The `len` items from here on are initialised; as long as there is a run of them, nobody writes to them, and nobody
    /// but its owner looks at them. `split_at` deals them out.
    start: *const T,
    len: usize,
}

// SAFETY: as for `Space`.
unsafe impl<T: Send> Send for Run<T> {}

impl<T> Run<T> {
    fn items(&self) -> &[T] {
        // SAFETY: initialised and not written to, as `start` says.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }

    /// The item in the middle, and where it is. There must be one.
    fn middle(&self) -> (usize, &T) {
        let middle = self.len / 2;
        (middle, &self.items()[middle])
    }

    fn first(&self) -> &T {
        &self.items()[0]
    }

    fn last(&self) -> &T {
        &self.items()[self.len - 1]
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let part = |at: usize, len| Self {
            start: self.start.wrapping_add(at),
            len,
        };
        (part(0, index), part(index, self.len - index))
    }

    /// Copies all of them. Only for `merge_here`, which has the room that begins at or before `to`.
    fn copy_to(&self, to: *mut T) {
        // SAFETY: the items are initialised; the caller has room for them at `to`, apart from where they are.
        unsafe { ptr::copy_nonoverlapping(self.start, to, self.len) };
    }
}

/// Copies everything back if a merge is not finished.
struct Restore<T> {
    /// Where the `len` items were when the merge began, and still are.
    from: *const T,
    to: *mut T,
    len: usize,
}

impl<T> Drop for Restore<T> {
    fn drop(&mut self) {
        // SAFETY: nobody is at the merge any more, since `join` has waited for all of it; so both places are ours again. One
        // is the slice, the other the buffer.
        unsafe { ptr::copy_nonoverlapping(self.from, self.to, self.len) };
    }
}
