//! Runs sorted and merged by several workers.
//!
//! An item is moved by copying its bytes, so that it temporarily exists in two places: in the slice
//! and in the buffer. The source of the copy is the valid one until the whole merge is done.
//! Comparisons, which may panic and may change data in a cell inside an item, access only that
//! copy, and only before it is copied. So:
//!
//! - an unfinished merge from the slice into the buffer has changed nothing;
//! - an unfinished merge from the buffer into the slice copies everything back from the buffer
//!   ([`RestoreUnfinished`]), in which nothing has changed since the previous merge, except by
//!   comparisons.
//!
//! A sort is over when it is cancelled or when any comparison has panicked. After that no worker
//! begins a run or a merge, so any merge may be left unfinished: the worker that waits for its
//! parts checks again whether the sort is over, and treats the merge as finished only if not. This
//! state is permanent, and what a part has observed, the worker that joined it observes as well.
//!
//! In every case the slice contains every item once in the end, and the buffer drops nothing.
#![expect(
    unsafe_code,
    reason = "items that stand in two places, of which one counts"
)]

use super::{checkpoint::leaf_checkpoint, drive::StopOnUnwind};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicBool, Ordering},
    },
    fork::join,
};
use std::{hint, marker::PhantomData, mem, ptr, slice};

/// Merges of at most this many items are not split: some 30 µs.
const MAX_SEQUENTIAL_MERGE: usize = 8_192;

/// How to sort items of type `T`.
pub(super) struct MergeSort<'r, T, S, L> {
    sort: &'r S,
    less: &'r L,
    is_cancelled: &'r (dyn Fn() -> bool + Sync),
    /// A comparison has panicked.
    stop: AtomicBool,
    items: PhantomData<fn(&T)>,
}

impl<'r, T, S, L> MergeSort<'r, T, S, L>
where
    T: Send,
    S: Fn(&mut [T]) + Sync,
    L: Fn(&T, &T) -> bool + Sync,
{
    /// `sort` sorts a run in place, `less` returns whether one item goes before another, and
    /// `is_cancelled` whether the result is no longer wanted: once true it must stay true.
    pub(super) fn new(
        sort: &'r S,
        less: &'r L,
        is_cancelled: &'r (dyn Fn() -> bool + Sync),
    ) -> Self {
        Self {
            sort,
            less,
            is_cancelled,
            stop: AtomicBool::new(false),
            items: PhantomData,
        }
    }

    fn is_over(&self) -> bool {
        // Relaxed: it stays true, and a worker that joins one that has seen it sees it too.
        self.stop.load(Ordering::Relaxed) || (self.is_cancelled)()
    }

    /// Calls `f`. If a comparison in it panics, requests the other workers to stop.
    fn stopping_on_unwind<R>(&self, f: impl FnOnce() -> R) -> R {
        let stop_on_unwind = StopOnUnwind(&self.stop);
        let result = f();
        mem::forget(stop_on_unwind);
        result
    }

    /// Sorts `items` in runs that are made by `halvings` halvings, an even number.
    pub(super) fn sort(&self, items: &mut [T], halvings: u32) {
        debug_assert!(halvings.is_multiple_of(2), "it would end in the buffer");
        // Its length stays zero: it does not drop what is written to it.
        let mut buffer = Vec::<T>::with_capacity(items.len());
        let space = SliceAndBuffer {
            slice: items.as_mut_ptr(),
            buffer: buffer.as_mut_ptr(),
            len: items.len(),
        };
        self.sort_halves(space, halvings);
    }

    /// Sorts the items of `space`: into the slice if `halvings` is even, else into the buffer. When
    /// the sort is over, they stay in the slice, in any order.
    fn sort_halves(&self, space: SliceAndBuffer<T>, halvings: u32) {
        leaf_checkpoint();
        if self.is_over() {
            return;
        }
        let SliceAndBuffer { slice, buffer, len } = space;
        if halvings == 0 {
            // SAFETY: they are initialised and exclusively ours, as `SliceAndBuffer` says, and the
            // space is not used again.
            let items = unsafe { slice::from_raw_parts_mut(slice, len) };
            return self.stopping_on_unwind(|| (self.sort)(items));
        }
        let middle = len / 2;
        let (left, right) = space.split_at(middle);
        let _ = join(
            || self.sort_halves(left, halvings - 1),
            || self.sort_halves(right, halvings - 1),
        );
        if self.is_over() {
            // If the sort was over for one of the halves, then it is here, and nothing has been
            // moved out of the slice.
            return;
        }
        let to_buffer = halvings % 2 == 1;
        let (from, to) = if to_buffer {
            (slice, buffer)
        } else {
            (buffer, slice)
        };
        let restore = (!to_buffer).then_some(RestoreUnfinished { from, to, len });
        // Both halves are sorted and where the last merge, or the sort, has put them: the `len`
        // items from `from` on. The other place is free to be written to.
        let runs = SortedRun { start: from, len }.split_at(middle);
        self.merge(runs.0, runs.1, MergeTarget(to));
        if !self.is_over() || broken(Canary::LoopRestore) {
            mem::forget(restore);
        }
    }

    /// Merges two sorted runs into `to`, which has room for both; of equal items those of `left`
    /// come first. When the sort is over, only some items are written.
    fn merge(&self, left: SortedRun<T>, right: SortedRun<T>, to: MergeTarget<T>) {
        if self.is_over() {
            return;
        }
        if left.len + right.len <= MAX_SEQUENTIAL_MERGE {
            leaf_checkpoint();
            return self.stopping_on_unwind(|| self.merge_here(left, right, to));
        }
        let (l, r) = self.stopping_on_unwind(|| self.cut(&left, &right));
        let (left, more_left) = left.split_at(l);
        let (right, more_right) = right.split_at(r);
        let more_to = MergeTarget(to.0.wrapping_add(l + r));
        let _ = join(
            || self.merge(left, right, to),
            || self.merge(more_left, more_right, more_to),
        );
    }

    /// Where to split two runs, so that no item after the splits goes before any item in front of
    /// them: in the middle of the longer run, and in the other one after the items that go before
    /// that middle item.
    fn cut(&self, left: &SortedRun<T>, right: &SortedRun<T>) -> (usize, usize) {
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

    fn merge_here(&self, left: SortedRun<T>, right: SortedRun<T>, MergeTarget(to): MergeTarget<T>) {
        if left.len == 0 || right.len == 0 || !(self.less)(right.first(), left.last()) {
            left.copy_to(to);
            return right.copy_to(to.wrapping_add(left.len));
        }
        if (self.less)(right.last(), left.first()) {
            right.copy_to(to);
            return left.copy_to(to.wrapping_add(right.len));
        }
        let mut rest = MergeRest::new(left, right, to);
        // From both ends at once: the two steps have no data dependency. This number of steps
        // cannot reach the end of a run, even if all of them took from the same one.
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
        let MergeRest { left, right, .. } = rest;
        for (start, end) in [left, right] {
            // One of them is empty.
            let run = SortedRun {
                start,
                len: items_between(start, end),
            };
            run.copy_to(rest.to.0);
        }
    }

    /// Moves the first of all remaining items. Requires items in both runs.
    #[inline(always)]
    fn take_first(&self, rest: &mut MergeRest<T>) {
        let (l, r) = (rest.left.0, rest.right.0);
        // SAFETY: neither run is at its end, so the items are initialised and not written to, as
        // `SortedRun` says.
        let first = unsafe { &*l };
        // SAFETY: the right run is not at its end either, so its first item is initialised and not
        // written to, as `SortedRun` says.
        let second = unsafe { &*r };
        let right_first = (self.less)(second, first);
        // Selected without a branch, which would be unpredictable.
        let next = hint::select_unpredictable(right_first, r, l);
        // SAFETY: there is as much room as there are items left, as `MergeRest` says; and it does
        // not overlap them.
        unsafe { ptr::copy_nonoverlapping(next, rest.to.0, 1) };
        rest.to.0 = rest.to.0.wrapping_add(1);
        rest.right.0 = r.wrapping_add(usize::from(right_first));
        rest.left.0 = l.wrapping_add(usize::from(!right_first));
    }

    /// Moves the last of all remaining items. Requires items in both runs.
    #[inline(always)]
    fn take_last(&self, rest: &mut MergeRest<T>) {
        let (l, r) = (rest.left.1.wrapping_sub(1), rest.right.1.wrapping_sub(1));
        // SAFETY: neither run is empty, so the item before the left end is initialised and not
        // written to, as `SortedRun` says.
        let first = unsafe { &*l };
        // SAFETY: the right run is not empty either, so its last item is initialised and not
        // written to, as `SortedRun` says.
        let second = unsafe { &*r };
        let left_last = (self.less)(second, first);
        let next = hint::select_unpredictable(left_last, l, r);
        rest.to.1 = rest.to.1.wrapping_sub(1);
        // SAFETY: there is as much room as there are items left, as `MergeRest` says; and it does
        // not overlap them.
        unsafe { ptr::copy_nonoverlapping(next, rest.to.1, 1) };
        rest.left.1 = rest.left.1.wrapping_sub(usize::from(left_last));
        rest.right.1 = rest.right.1.wrapping_sub(usize::from(!left_last));
    }
}

/// The remaining part of a merge: starts and ends.
///
/// Between the two pointers of `to` there is room for exactly the items that are left in both runs:
/// each step takes one item and one place, at the same end.
struct MergeRest<T> {
    left: (*const T, *const T),
    right: (*const T, *const T),
    to: (*mut T, *mut T),
}

impl<T> MergeRest<T> {
    fn new(left: SortedRun<T>, right: SortedRun<T>, to: *mut T) -> Self {
        let ends = |run: &SortedRun<T>| (run.start, run.start.wrapping_add(run.len));
        Self {
            left: ends(&left),
            right: ends(&right),
            to: (to, to.wrapping_add(left.len + right.len)),
        }
    }

    /// The number of items left in the shorter run.
    fn shorter(&self) -> usize {
        let left = items_between(self.left.0, self.left.1);
        left.min(items_between(self.right.0, self.right.1))
    }
}

/// The number of items between two pointers; `T` is not zero-sized.
fn items_between<T>(start: *const T, end: *const T) -> usize {
    (end.addr() - start.addr()) / size_of::<T>()
}

/// Items in a slice, and a buffer of the same size.
struct SliceAndBuffer<T> {
    /// The `len` items from here on are initialised, and exclusively owned.
    slice: *mut T,
    /// From here on there is room for `len` items, exclusively owned.
    buffer: *mut T,
    len: usize,
}

// SAFETY: the items belong to the owner of the space, which may be another thread because `T` is
// `Send`.
unsafe impl<T: Send> Send for SliceAndBuffer<T> {}

impl<T> SliceAndBuffer<T> {
    fn split_at(self, index: usize) -> (Self, Self) {
        let part = |at: usize, len| Self {
            slice: self.slice.wrapping_add(at),
            buffer: self.buffer.wrapping_add(at),
            len,
        };
        (part(0, index), part(index, self.len - index))
    }
}

/// Where items are written to: room that belongs exclusively to its owner.
struct MergeTarget<T>(*mut T);

// SAFETY: the room belongs to the owner of the place, which may write items from any thread because
// `T` is `Send`.
unsafe impl<T: Send> Send for MergeTarget<T> {}

/// Sorted items that are only read, and copied.
struct SortedRun<T> {
    /// The `len` items from here on are initialised; as long as there is a run of them, no thread
    /// writes to them, and no thread but its owner reads them. `split_at` distributes them.
    start: *const T,
    len: usize,
}

// SAFETY: only the owner of the run reads the items, which may be another thread because `T` is
// `Send`.
unsafe impl<T: Send> Send for SortedRun<T> {}

impl<T> SortedRun<T> {
    fn items(&self) -> &[T] {
        // SAFETY: initialised and not written to while the run exists, as `start` says.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }

    /// The index of the middle item, and the item. Requires that there is one.
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

    /// Copies all items. Only for `merge_here`, which has the room that begins at or before `to`.
    fn copy_to(&self, to: *mut T) {
        // SAFETY: the items are initialised; the caller has room for them at `to`, which does not
        // overlap them.
        unsafe { ptr::copy_nonoverlapping(self.start, to, self.len) };
    }
}

/// Copies everything back if a merge is not finished.
struct RestoreUnfinished<T> {
    /// Where the `len` items were when the merge began, and still are.
    from: *const T,
    to: *mut T,
    len: usize,
}

impl<T> Drop for RestoreUnfinished<T> {
    fn drop(&mut self) {
        // SAFETY: no worker uses the places any more, since `join` has waited for all parts of the
        // merge; so both are exclusively ours again. One is the slice, the other the buffer, so
        // they don't overlap.
        unsafe { ptr::copy_nonoverlapping(self.from, self.to, self.len) };
    }
}
