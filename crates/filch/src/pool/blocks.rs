//! Memory blocks for tasks that one thread creates and another one destroys.
//!
//! Blocks come in a few sizes. Each thread has a *magazine* per size: two lists of free blocks, of
//! at most [`BUNDLE`] each. Blocks are popped from and pushed to the first list. When it is empty
//! (or full), it is swapped with the second list. Only when that one is empty (or full) as well
//! does the thread exchange a whole bundle with the *reserve*, under a lock. So a thread that only
//! creates tasks, or only destroys them, takes the lock once per [`BUNDLE`] tasks, and a thread
//! that alternates does not take it at all. When the reserve is empty, a chunk of [`BUNDLE`] blocks
//! is allocated. Chunks are never freed: their number is bounded by the largest number of blocks in
//! use at once, and nothing is allocated in the steady state. A thread that ends gives its lists to
//! the reserve.
//!
//! A checker cannot detect a use after free of a block that is handed out again. So with `--cfg
//! filch_no_recycle`, under Miri and under loom each block is allocated and freed individually, and
//! the slabs of the workers are not used.
#![expect(
    unsafe_code,
    reason = "hands out raw blocks, which are linked through themselves"
)]

use crate::base::{
    canary::{Canary, broken},
    sys::memory,
};
use std::{
    alloc::{self, Layout},
    cell::Cell,
    ptr::{self, NonNull},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The block sizes, in bytes. Multiples of the cache line, so that blocks that different cores
/// write share no line. The smallest is for closures without a waiter; the second holds a closure
/// of seven words and the header of a submitted task.
const SIZES: [usize; 4] = [64, 128, 192, 256];

/// Alignment of a block, in bytes: one cache line.
const ALIGN: usize = 64;

/// Number of blocks that are exchanged with the reserve at once. With 64 the lock costs about a
/// nanosecond per task. An idle thread retains at most twice this number, 8 KiB of the smallest
/// size.
const BUNDLE: usize = 64;

/// Whether freed blocks are handed out again.
pub(super) const RECYCLED: bool = !cfg!(any(filch_loom, filch_no_recycle, miri));

/// A free block.
struct FreeBlock {
    next: *mut FreeBlock,
    /// In the first block of a bundle in the reserve: the next bundle, and the number of blocks in
    /// this one.
    bundle: *mut FreeBlock,
    count: usize,
}

/// Free blocks of one size, linked through themselves. The list owns them exclusively. The first is
/// `head`, if `count` is not zero.
struct FreeList {
    head: Cell<*mut FreeBlock>,
    count: Cell<usize>,
}

impl FreeList {
    const fn empty() -> Self {
        Self {
            head: Cell::new(ptr::null_mut()),
            count: Cell::new(0),
        }
    }

    /// Takes a block of `size` bytes off the list.
    #[inline]
    fn pop(&self, size: usize) -> Option<NonNull<FreeBlock>> {
        let head = NonNull::new(self.head.get())?;
        // SAFETY: the block is on this list, and a list owns its blocks, which are initialised as
        // `FreeBlock`.
        let next = unsafe { head.as_ref() }.next;
        // The next caller reads the link in that block and then fills the block, which is in the
        // cache of the thread that freed it. Two lines are most of what a task needs.
        memory::fetch_to_write(next);
        if size > ALIGN {
            memory::fetch_to_write(next.wrapping_byte_add(ALIGN));
        }
        self.head.set(next);
        self.count.set(self.count.get() - 1);
        Some(head)
    }

    /// # Safety
    /// The block is of the list's size, and no thread uses it any more.
    #[inline]
    unsafe fn push(&self, block: NonNull<FreeBlock>) {
        let free = FreeBlock {
            next: self.head.get(),
            bundle: ptr::null_mut(),
            count: 0,
        };
        // SAFETY: the caller passes an unused block, and every size has room for a `FreeBlock`.
        unsafe { block.write(free) };
        self.head.set(block.as_ptr());
        self.count.set(self.count.get() + 1);
    }

    fn swap(&self, other: &Self) {
        self.head.swap(&other.head);
        self.count.swap(&other.count);
    }
}

/// The free blocks of one size that a thread owns.
struct Magazine {
    class: usize,
    first: FreeList,
    second: FreeList,
}

impl Magazine {
    const fn new(class: usize) -> Self {
        Self {
            class,
            first: FreeList::empty(),
            second: FreeList::empty(),
        }
    }

    #[inline]
    fn take(&self) -> NonNull<FreeBlock> {
        match self.first.pop(SIZES[self.class]) {
            Some(block) => block,
            None => self.take_more(),
        }
    }

    #[cold]
    fn take_more(&self) -> NonNull<FreeBlock> {
        if self.second.count.get() > 0 {
            self.first.swap(&self.second);
        } else {
            self.first.swap(&RESERVES[self.class].take_bundle());
            if self.first.count.get() == 0 {
                allocate(SIZES[self.class], &self.first);
            }
        }
        let block = self.first.pop(SIZES[self.class]);
        block.expect("it was filled above")
    }

    /// # Safety
    /// As [`FreeList::push`].
    #[inline]
    unsafe fn put(&self, block: NonNull<FreeBlock>) {
        if self.first.count.get() >= BUNDLE {
            self.give_away();
        }
        // SAFETY: the caller guarantees that the block has this size and is unused, which is what
        // `push` requires.
        unsafe { self.first.push(block) };
    }

    #[cold]
    fn give_away(&self) {
        self.first.swap(&self.second);
        RESERVES[self.class].put_bundle(&self.first);
    }
}

impl Drop for Magazine {
    fn drop(&mut self) {
        RESERVES[self.class].put_bundle(&self.first);
        RESERVES[self.class].put_bundle(&self.second);
    }
}

/// Bundles of free blocks of one size that belong to no thread at present.
struct Reserve {
    /// The first block of the first bundle.
    bundles: Mutex<Head>,
}

struct Head(*mut FreeBlock);

// SAFETY: free blocks belong to the thread that has the list, so the list may move between threads.
unsafe impl Send for Head {}

static RESERVES: [Reserve; SIZES.len()] = [const { Reserve::new() }; SIZES.len()];

impl Reserve {
    const fn new() -> Self {
        Self {
            bundles: Mutex::new(Head(ptr::null_mut())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Head> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns a bundle, or an empty list.
    fn take_bundle(&self) -> FreeList {
        let mut bundles = self.lock();
        let list = FreeList::empty();
        if let Some(first) = NonNull::new(bundles.0) {
            // SAFETY: it is a free block of the reserve, which is locked.
            let first = unsafe { first.as_ref() };
            list.head.set(bundles.0);
            list.count.set(first.count);
            bundles.0 = first.bundle;
        }
        list
    }

    /// Adds the blocks of `list` as one bundle, and empties `list`.
    fn put_bundle(&self, list: &FreeList) {
        let (head, count) = (list.head.replace(ptr::null_mut()), list.count.take());
        let Some(mut first) = NonNull::new(head) else {
            return;
        };
        let mut bundles = self.lock();
        // SAFETY: it is a free block of `list`, which the caller owns.
        let first = unsafe { first.as_mut() };
        (first.bundle, first.count) = (bundles.0, count);
        bundles.0 = head;
    }
}

/// Fills `list` with a chunk of blocks of `size` bytes.
fn allocate(size: usize, list: &FreeList) {
    let chunk = system(chunk_of(size)).as_ptr();
    for at in (0..BUNDLE).rev() {
        // SAFETY: `at` is less than `BUNDLE`, so the offset is within the chunk of `BUNDLE` blocks.
        let block = unsafe { chunk.add(at * size) };
        let block = NonNull::new(block).expect("inside an allocation").cast();
        // SAFETY: the block is new, so it is unused, and it has the size of the list.
        unsafe { list.push(block) };
    }
}

const fn chunk_of(size: usize) -> Layout {
    match Layout::from_size_align(size * BUNDLE, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("the sizes are small"),
    }
}

/// Allocates a separate block from the global allocator.
fn system(layout: Layout) -> NonNull<u8> {
    let layout = not_empty(layout);
    // SAFETY: `not_empty` returned a layout whose size is not zero.
    let block = unsafe { alloc::alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

/// The layout to request: the allocator accepts no zero size, which a closure without captures has.
const fn not_empty(layout: Layout) -> Layout {
    if layout.size() > 0 {
        return layout;
    }
    match Layout::from_size_align(1, layout.align()) {
        Ok(layout) => layout,
        Err(_) => panic!("one byte has room behind every address"),
    }
}

thread_local! {
    static MAGAZINES: [Magazine; SIZES.len()] =
        const { [Magazine::new(0), Magazine::new(1), Magazine::new(2), Magazine::new(3)] };
}

/// The index in [`SIZES`] of the smallest size that fits `layout`, if one does.
#[inline(always)]
const fn class_of(layout: Layout) -> Option<usize> {
    if layout.align() > ALIGN || !RECYCLED {
        return None;
    }
    let mut class = 0;
    while class < SIZES.len() {
        if layout.size() <= SIZES[class] {
            return Some(class);
        }
        class += 1;
    }
    None
}

/// Returns a block for `layout`, whose size may be zero.
#[inline]
pub(crate) fn alloc(layout: Layout) -> NonNull<u8> {
    let Some(class) = class_of(layout) else {
        return system(layout);
    };
    match MAGAZINES.try_with(|magazines| magazines[class].take()) {
        Ok(block) => block.cast(),
        // The thread is ending, and its magazines have been dropped.
        Err(_) => Magazine::new(class).take().cast(),
    }
}

/// Frees a block.
///
/// # Safety
/// It came from [`alloc`] with the same layout, and no thread uses it any more.
#[inline]
pub(crate) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller guarantees what `put_back` requires: the block is from `alloc`, for this
    // layout, and unused.
    unsafe { put_back(block, layout) };
    if broken(Canary::BlockUse) {
        // SAFETY: none, on purpose: a checker must report this read of a freed block.
        unsafe { block.read_volatile() };
    }
}

/// # Safety
/// As [`free`].
#[inline]
unsafe fn put_back(block: NonNull<u8>, layout: Layout) {
    let Some(class) = class_of(layout) else {
        // SAFETY: the caller guarantees the layout; without a class, `system` allocated the block
        // with the same layout.
        return unsafe { alloc::dealloc(block.as_ptr(), not_empty(layout)) };
    };
    let block = block.cast();
    let put = MAGAZINES.try_with(|magazines| {
        // SAFETY: the caller guarantees that the block is unused; `alloc` took it from the same
        // class.
        unsafe { magazines[class].put(block) };
    });
    if put.is_err() {
        // As in `alloc`: the thread is ending, and its magazines have been dropped.
        let own = Magazine::new(class);
        // SAFETY: the block is unused, and `alloc` took it from the same class.
        unsafe { own.put(block) };
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{BUNDLE, RECYCLED, SIZES, alloc, free};
    use std::{alloc::Layout, collections::HashSet, ptr::NonNull, sync::mpsc, thread};

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    /// One byte in this many is checked.
    const CHECKED: usize = if cfg!(miri) { 64 } else { 1 };

    /// A block that may go to another thread.
    struct TestBlock(NonNull<u8>, Layout);

    // SAFETY: a block has one owner, so ownership may move to another thread.
    unsafe impl Send for TestBlock {}

    impl TestBlock {
        fn new(size: usize, fill: u8) -> Self {
            let (block, layout) = (alloc(layout(size)), layout(size));
            // SAFETY: `alloc` returned a block of at least `size` bytes.
            unsafe { block.as_ptr().write_bytes(fill, size) };
            Self(block, layout)
        }

        #[track_caller]
        fn end(self, fill: u8) {
            for at in (0..self.1.size()).step_by(CHECKED) {
                // SAFETY: `at` is less than the size of the block.
                let byte = unsafe { self.0.as_ptr().add(at) };
                // SAFETY: the byte is in the block, and `new` initialised it.
                assert_eq!(unsafe { byte.read() }, fill, "the block has another owner");
            }
            // SAFETY: `self` is consumed, so the block is not used any more.
            unsafe { free(self.0, self.1) };
        }
    }

    #[test]
    fn blocks_are_distinct_and_recycled() {
        const BUNDLES: usize = if cfg!(miri) { 2 } else { 5 };
        for size in [1, SIZES[0], SIZES[0] + 1, SIZES[1], 300, 5000] {
            let blocks: Vec<TestBlock> = (0..BUNDLES * BUNDLE)
                .map(|n| TestBlock::new(size, n as u8))
                .collect();
            let addresses: HashSet<_> = blocks.iter().map(|block| block.0).collect();
            assert_eq!(addresses.len(), blocks.len());
            for (n, block) in blocks.into_iter().enumerate() {
                block.end(n as u8);
            }
            if RECYCLED && size <= 256 {
                let again = TestBlock::new(size, 1);
                assert!(addresses.contains(&again.0), "a free block is used again");
                again.end(1);
            }
        }
    }

    #[test]
    fn a_zero_sized_layout_gets_a_block() {
        for align in [1, 64, 128, 4096] {
            let layout = Layout::from_size_align(0, align).unwrap();
            let block = alloc(layout);
            assert!(block.addr().get().is_multiple_of(align));
            // SAFETY: the block is not used any more, and the layout is that of `alloc`.
            unsafe { free(block, layout) };
        }
    }

    #[test]
    fn blocks_move_between_threads_and_back() {
        const BUNDLES: usize = if cfg!(miri) { 3 } else { 50 };
        let size = SIZES[2];
        let (send, receive) = mpsc::channel::<TestBlock>();
        let ender = thread::spawn(move || {
            let mut addresses = HashSet::new();
            for (n, block) in receive.into_iter().enumerate() {
                addresses.insert(block.0.as_ptr().addr());
                block.end(n as u8);
            }
            addresses
        });
        for n in 0..BUNDLES * BUNDLE {
            send.send(TestBlock::new(size, n as u8)).unwrap();
        }
        drop(send);
        let addresses = ender.join().unwrap();
        // The ended thread has returned its blocks to the reserve, so a third thread gets them.
        let third = thread::spawn(move || {
            let blocks: Vec<TestBlock> = (0..BUNDLE).map(|_| TestBlock::new(size, 7)).collect();
            let known = blocks
                .iter()
                .filter(|block| addresses.contains(&block.0.as_ptr().addr()))
                .count();
            blocks.into_iter().for_each(|block| block.end(7));
            known
        });
        let known = third.join().unwrap();
        assert!(known == BUNDLE || !RECYCLED, "{known} of {BUNDLE} blocks");
    }
}
