//! Lists of free blocks, linked through themselves.
#![expect(unsafe_code, reason = "blocks that are linked through themselves")]

use crate::base::sys::memory;
use std::{
    cell::Cell,
    ptr::{self, NonNull},
};

/// A free block.
pub(super) struct FreeBlock {
    next: *mut FreeBlock,
}

/// Free blocks of one size. The list owns them exclusively. The first is `head`, if `count` is not
/// zero.
pub(super) struct FreeList {
    head: Cell<*mut FreeBlock>,
    count: Cell<usize>,
}

// SAFETY: a list owns its blocks, which no thread uses, so both may move to another thread.
unsafe impl Send for FreeList {}

impl FreeList {
    pub(super) const fn empty() -> Self {
        Self {
            head: Cell::new(ptr::null_mut()),
            count: Cell::new(0),
        }
    }

    /// Returns the number of blocks.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count.get()
    }

    /// Takes a block of `size` bytes off the list.
    #[inline]
    pub(super) fn pop(&self, size: usize) -> Option<NonNull<FreeBlock>> {
        let head = self.unlink()?;
        // The next caller reads the link in that block and then fills the block, which is in the
        // cache of the thread that freed it. Two lines are most of what a task needs.
        let next = self.head.get();
        memory::fetch_to_write(next);
        if size > 64 {
            memory::fetch_to_write(next.wrapping_byte_add(64));
        }
        Some(head)
    }

    /// Takes the first block off the list, without prefetching the next one for its user.
    #[inline(always)]
    pub(super) fn unlink(&self) -> Option<NonNull<FreeBlock>> {
        let head = NonNull::new(self.head.get())?;
        // SAFETY: the block is on this list, and a list owns its blocks, which are initialised as
        // `FreeBlock`.
        self.head.set(unsafe { head.as_ref() }.next);
        self.count.set(self.count.get() - 1);
        Some(head)
    }

    /// # Safety
    /// The block is of the list's size, and no thread uses it any more.
    #[inline]
    pub(super) unsafe fn push(&self, block: NonNull<FreeBlock>) {
        let free = FreeBlock {
            next: self.head.get(),
        };
        // SAFETY: the caller passes an unused block, and every size has room for a `FreeBlock`.
        unsafe { block.write(free) };
        self.head.set(block.as_ptr());
        self.count.set(self.count.get() + 1);
    }

    #[inline]
    pub(super) fn swap(&self, other: &Self) {
        self.head.swap(&other.head);
        self.count.swap(&other.count);
    }

    /// Returns the blocks as another list, and empties this one.
    pub(super) fn take(&self) -> Self {
        let list = Self::empty();
        list.swap(self);
        list
    }
}
