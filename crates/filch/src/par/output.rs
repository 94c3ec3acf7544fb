//! Results written into the spare capacity of a vector.
#![expect(
    unsafe_code,
    reason = "several workers write into the spare capacity of one vector"
)]

use super::producer::Producer;
use std::{marker::PhantomData, mem, ptr};

/// A part of the spare capacity of a vector.
pub(super) struct SpareSlots<'v, R> {
    /// The first place. This one and the `len - 1` after it are in the spare capacity of a vector
    /// that is borrowed for `'v`, and belong exclusively to this value: `collect` makes one of the
    /// whole capacity, `split_at` distributes it. All pointers are derived from the vector's own,
    /// so that one from an early part may be used for the parts after it.
    start: *mut R,
    len: usize,
    vector: PhantomData<&'v mut Vec<R>>,
}

// SAFETY: it is the right to write results to these places, and any thread may write them because
// `R` is `Send`.
unsafe impl<R: Send> Send for SpareSlots<'_, R> {}

impl<R> SpareSlots<'_, R> {
    #[inline]
    pub(super) fn split_at(self, index: usize) -> (Self, Self) {
        assert!(index <= self.len, "cut past the end");
        let part = |start, len| Self {
            start,
            len,
            vector: PhantomData,
        };
        // Within the capacity, or at its end.
        let middle = self.start.wrapping_add(index);
        (part(self.start, index), part(middle, self.len - index))
    }
}

/// Items, and the slots for their results.
pub(super) struct WithOutput<'v, P, R> {
    pub(super) items: P,
    pub(super) slots: SpareSlots<'v, R>,
}

impl<P: Producer, R: Send> Producer for WithOutput<'_, P, R> {
    type Item = P::Item;
    type Iter = P::Iter;

    #[inline]
    fn size(&self) -> usize {
        self.slots.len
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let (items, more_items) = self.items.split_at(index);
        let (slots, more_slots) = self.slots.split_at(index);
        let more = Self {
            items: more_items,
            slots: more_slots,
        };
        (Self { items, slots }, more)
    }

    #[inline]
    fn items(self) -> P::Iter {
        self.items.items()
    }
}

/// Adjacent results in the capacity of a vector. They are dropped with this value unless the vector
/// takes them over.
pub(super) struct Filled<'v, R> {
    /// The `len` results from here on are initialised and belong exclusively to this value: they
    /// were written by `fill`, into slots that it has consumed.
    start: *mut R,
    len: usize,
    vector: PhantomData<(&'v mut Vec<R>, R)>,
}

// SAFETY: it owns results, which may go to other threads because `R` is `Send`.
unsafe impl<R: Send> Send for Filled<'_, R> {}

impl<'v, R> Filled<'v, R> {
    /// No results yet; they will begin where `slots` do.
    #[inline]
    pub(super) fn starting_at(slots: &SpareSlots<'v, R>) -> Self {
        Self {
            start: slots.start,
            len: 0,
            vector: PhantomData,
        }
    }

    /// Writes results into `slots`, which must begin right after the existing ones.
    #[inline]
    pub(super) fn fill(&mut self, slots: SpareSlots<'v, R>, results: impl Iterator<Item = R>) {
        let SpareSlots { start, len, .. } = slots;
        assert!(ptr::eq(self.end(), start), "a block out of its order");
        for (place, result) in (0..len).zip(results) {
            // SAFETY: `place` is less than `len`, so the result is within the allocation of the
            // slots.
            let place = unsafe { start.add(place) };
            // SAFETY: the place belongs to `slots`, which are exclusively ours and have not been
            // written to.
            unsafe { place.write(result) };
            // Counted once it is written: if the next one panics, it is dropped.
            self.len += 1;
        }
    }

    #[inline]
    fn end(&self) -> *const R {
        self.start.wrapping_add(self.len)
    }

    /// Joins these results and those of the next piece. If some are missing in between, because the
    /// loop was cancelled, the next ones are dropped.
    pub(super) fn append(mut self, next: Self) -> Self {
        if ptr::eq(self.end(), next.start) {
            self.len += next.len;
            mem::forget(next);
        } else {
            // Dropped while `self` is still owned here: if a destructor panics, `self` is dropped
            // as well.
            drop(next);
        }
        self
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<R> Drop for Filled<'_, R> {
    fn drop(&mut self) {
        let results = ptr::slice_from_raw_parts_mut(self.start, self.len);
        // SAFETY: the results are initialised and belong to this value, as the field `start` says.
        unsafe { ptr::drop_in_place(results) };
    }
}

/// Items for which [`extend_wanted`] reserves capacity at a time: at most this much is wasted, and
/// the cost of the check is negligible.
const FILTER_BATCH: usize = 256;

/// The largest item, in bytes, that is written unconditionally: a mispredicted branch costs some 5
/// ns, which is more than writing it in vain.
const MAX_BRANCHLESS_ITEM_BYTES: usize = 32;

/// Appends the items that are `wanted` to `found`.
///
/// Small items without a destructor are all written, each over the last one that was not wanted.
/// This avoids an unpredictable branch.
#[inline]
pub(super) fn extend_wanted<T>(
    mut items: impl Iterator<Item = T>,
    wanted: impl Fn(&T) -> bool,
    found: &mut Vec<T>,
) {
    if mem::needs_drop::<T>() || size_of::<T>() > MAX_BRANCHLESS_ITEM_BYTES {
        return found.extend(items.filter(wanted));
    }
    let mut seen = FILTER_BATCH;
    while seen == FILTER_BATCH {
        found.reserve(FILTER_BATCH);
        let start = found.len();
        let slots = &mut found.spare_capacity_mut()[..FILTER_BATCH];
        let mut len = 0;
        seen = 0;
        for item in items.by_ref().take(FILTER_BATCH) {
            let more = usize::from(wanted(&item));
            // In bounds: `len` is at most the number of items so far.
            slots[len].write(item);
            (len, seen) = (len + more, seen + 1);
        }
        // SAFETY: the first `len` places of `slots` have been written; they begin after
        // `start` initialised items, and are within the capacity.
        unsafe { found.set_len(start + len) };
    }
}

/// Creates a vector of `len` results: `write` gets the slots for them and returns what it has
/// filled, and another value. Returns no vector if results are missing.
pub(super) fn collect<R, X>(
    len: usize,
    write: impl for<'v> FnOnce(SpareSlots<'v, R>) -> (Filled<'v, R>, X),
) -> (Option<Vec<R>>, X) {
    let mut vector = Vec::with_capacity(len);
    let start: *mut R = vector.as_mut_ptr();
    let (filled, more) = write(SpareSlots {
        start,
        len,
        vector: PhantomData,
    });
    if filled.len != len || !ptr::eq(filled.start, start) {
        return (None, more);
    }
    mem::forget(filled);
    // SAFETY: `len` results from the start of the slots on are initialised, and have no owner since
    // `filled` has been forgotten. The capacity is at least `len`.
    unsafe { vector.set_len(len) };
    (Some(vector), more)
}
