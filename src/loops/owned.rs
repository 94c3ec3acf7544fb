//! A vector whose items are given away piece by piece.
#![expect(
    unsafe_code,
    reason = "several workers take items out of one allocation"
)]

use super::pieces::{Pieces, Source};
use std::{fmt, iter::FusedIterator, mem::ManuallyDrop, ptr, sync::Arc};

/// The memory of a vector. Its items belong to the pieces.
struct Memory<T> {
    /// The vector as it was. Its items are never reached through it once pieces have been made, and its length is set
    /// to zero before it is dropped, so that only the memory goes with it.
    vector: ManuallyDrop<Vec<T>>,
    /// Where the items start.
    start: *mut T,
}

// SAFETY: through a `Memory` only the address is read; items are reached by the pieces, each its own, and go to other
// threads with them, which is fine because `T` is `Send`.
unsafe impl<T: Send> Send for Memory<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Memory<T> {}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: zero is no more than the capacity, and no items need to be initialised. Those that were are the
        // pieces'.
        unsafe { self.vector.set_len(0) };
        // SAFETY: dropped here and never used again.
        unsafe { ManuallyDrop::drop(&mut self.vector) };
    }
}

/// A part of a vector's items, which belong to it; also its own iterator. Dropped items are those not yet taken.
pub struct Owned<T> {
    memory: Arc<Memory<T>>,
    /// The items from `at` to `end` are initialised and belong to this piece alone: `new` gives the first piece all of
    /// them, `split_at` deals them out, and whoever takes one moves `at` past it first. `at` is at most `end`.
    at: usize,
    end: usize,
}

impl<T> Owned<T> {
    pub(super) fn new(vector: Vec<T>) -> Self {
        let mut vector = ManuallyDrop::new(vector);
        let (start, end) = (vector.as_mut_ptr(), vector.len());
        let memory = Arc::new(Memory { vector, start });
        Self { memory, at: 0, end }
    }
}

impl<T: Send> Source for Vec<T> {
    type Item = T;
    type Pieces = Owned<T>;

    fn into_pieces(self) -> Owned<T> {
        Owned::new(self)
    }
}

impl<T: Send> Pieces for Owned<T> {
    type Item = T;
    type Iter = Self;

    #[inline]
    fn size(&self) -> usize {
        self.end - self.at
    }

    fn split_at(mut self, index: usize) -> (Self, Self) {
        // Not `at + index <= end`: anybody may call this, with an index that makes the sum wrap.
        assert!(index <= self.end - self.at, "cut behind the end");
        let middle = self.at + index;
        let end = std::mem::replace(&mut self.end, middle);
        let memory = self.memory.clone();
        let more = Self {
            memory,
            at: middle,
            end,
        };
        (self, more)
    }

    #[inline]
    fn items(self) -> Self {
        self
    }
}

impl<T> Iterator for Owned<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.at == self.end {
            return None;
        }
        // SAFETY: below `end`, which is within the vector.
        let item = unsafe { self.memory.start.add(self.at) };
        self.at += 1;
        // SAFETY: it was initialised and ours, and is no longer counted among those from `at` to `end`.
        Some(unsafe { item.read() })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.end - self.at;
        (len, Some(len))
    }
}

impl<T> ExactSizeIterator for Owned<T> {}

impl<T> FusedIterator for Owned<T> {}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let (at, end) = (std::mem::replace(&mut self.at, self.end), self.end);
        // SAFETY: within the vector.
        let first = unsafe { self.memory.start.add(at) };
        let items = ptr::slice_from_raw_parts_mut(first, end - at);
        // SAFETY: they are initialised and ours, and not counted any more.
        unsafe { ptr::drop_in_place(items) };
    }
}

impl<T> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned")
            .field("items", &(self.end - self.at))
            .finish_non_exhaustive()
    }
}
