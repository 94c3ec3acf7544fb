//! A vector whose items are moved out piece by piece.
#![expect(
    unsafe_code,
    reason = "several workers take items out of one allocation"
)]

use super::producer::{ExactProducer, IntoProducer, Producer};
use std::{fmt, iter::FusedIterator, mem::ManuallyDrop, ptr, sync::Arc};

/// The memory of a vector. Its items belong to the pieces.
struct Memory<T> {
    /// The original vector. Its items are never accessed through it once pieces have been made, and
    /// its length is set to zero before it is dropped, so that only the memory is freed.
    vector: ManuallyDrop<Vec<T>>,
    /// The address of the first item.
    start: *mut T,
}

// SAFETY: only the address is read through a `Memory`; each item is accessed by the one piece that
// owns it, and moves to other threads with it, which is sound because `T` is `Send`.
unsafe impl<T: Send> Send for Memory<T> {}
// SAFETY: through a shared `Memory` only the address is read, as said for `Send`.
unsafe impl<T: Send> Sync for Memory<T> {}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: zero is at most the capacity, and requires no initialised items. Those that were
        // initialised belong to the pieces.
        unsafe { self.vector.set_len(0) };
        // SAFETY: it is dropped only here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.vector) };
    }
}

/// A part of a vector's items, which it owns; also its own iterator. Its drop drops the remaining
/// items.
pub struct OwnedItems<T> {
    memory: Arc<Memory<T>>,
    /// The items from `at` to `end` are initialised and belong exclusively to this piece: `new`
    /// gives the first piece all of them, `split_at` distributes them, and `at` is moved past an
    /// item before it is moved out. `at` is at most `end`.
    at: usize,
    end: usize,
}

impl<T> OwnedItems<T> {
    pub(super) fn new(vector: Vec<T>) -> Self {
        let mut vector = ManuallyDrop::new(vector);
        let (start, end) = (vector.as_mut_ptr(), vector.len());
        let memory = Arc::new(Memory { vector, start });
        Self { memory, at: 0, end }
    }
}

impl<T: Send> IntoProducer for Vec<T> {
    type Item = T;
    type Producer = OwnedItems<T>;

    fn into_producer(self) -> OwnedItems<T> {
        OwnedItems::new(self)
    }
}

impl<T: Send, const N: usize> IntoProducer for [T; N] {
    type Item = T;
    type Producer = OwnedItems<T>;

    fn into_producer(self) -> OwnedItems<T> {
        OwnedItems::new(self.into())
    }
}

impl<T: Send> Producer for OwnedItems<T> {
    type Item = T;
    type Iter = Self;

    #[inline]
    fn size(&self) -> usize {
        self.end - self.at
    }

    fn split_at(mut self, index: usize) -> (Self, Self) {
        // Not `at + index <= end`: the function is public, and an index may make the sum wrap.
        assert!(index <= self.end - self.at, "cut past the end");
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

impl<T: Send> ExactProducer for OwnedItems<T> {}

impl<T> Iterator for OwnedItems<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.at == self.end {
            return None;
        }
        // SAFETY: `at` is below `end`, which is within the vector.
        let item = unsafe { self.memory.start.add(self.at) };
        self.at += 1;
        // SAFETY: it was initialised and ours, and is no longer among the items from `at` to `end`.
        Some(unsafe { item.read() })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.end - self.at;
        (len, Some(len))
    }
}

impl<T> DoubleEndedIterator for OwnedItems<T> {
    #[inline]
    fn next_back(&mut self) -> Option<T> {
        if self.at == self.end {
            return None;
        }
        self.end -= 1;
        // SAFETY: `end` was above `at`, and within the vector, so the item before it is as well.
        let item = unsafe { self.memory.start.add(self.end) };
        // SAFETY: it was initialised and ours, and is no longer among the items from `at` to `end`.
        Some(unsafe { item.read() })
    }
}

impl<T> ExactSizeIterator for OwnedItems<T> {}

impl<T> FusedIterator for OwnedItems<T> {}

impl<T> Drop for OwnedItems<T> {
    fn drop(&mut self) {
        let (at, end) = (std::mem::replace(&mut self.at, self.end), self.end);
        // SAFETY: `at` is at most `end`, so the result is within the vector or at its end.
        let first = unsafe { self.memory.start.add(at) };
        let items = ptr::slice_from_raw_parts_mut(first, end - at);
        // SAFETY: they are initialised and ours, and no longer among the items from `at` to `end`.
        unsafe { ptr::drop_in_place(items) };
    }
}

impl<T> fmt::Debug for OwnedItems<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedItems")
            .field("items", &(self.end - self.at))
            .finish_non_exhaustive()
    }
}
