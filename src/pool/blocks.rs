//! Memory for tasks that one thread makes and another one ends.
//!
//! Blocks of a few sizes. Each thread has a *magazine* for each size: two lists of free blocks, of at most
//! [`BUNDLE`] each. Blocks are taken from and put on the first list; when it is empty, or full, the second one takes
//! its place, and only when that is empty, or full, too does the thread exchange a whole bundle with the
//! *reserve*, under a lock. So a thread that only makes tasks, and one that only ends them, take the lock once for
//! [`BUNDLE`] tasks, and a thread that goes back and forth does not take it at all. When the reserve is
//! empty, a chunk of [`BUNDLE`] blocks is allocated; it is never freed, so there are as many as were ever in use at
//! once, and in the steady state nothing is allocated. A thread that ends gives its lists to the reserve.
//!
//! A checker sees no use after free of a block that is handed out again. So with `--cfg filch_no_recycle`, under Miri
//! and under loom each block is allocated and freed on its own, and the slabs of the workers are not used.
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

/// The sizes of blocks, in bytes: whole cache lines, so that a block that one core writes has none in common with
/// another's. The smallest is for closures that nobody waits for; the second holds one of seven words with what a
/// submitted task needs besides.
const SIZES: [usize; 4] = [64, 128, 192, 256];

/// Where a block begins: at a cache line.
const ALIGN: usize = 64;

/// Blocks that change hands at once. With 64 the lock costs about a nanosecond a task; a thread that does nothing
/// any more keeps at most twice as many, 8 KiB of the smallest size.
const BUNDLE: usize = 64;

/// Whether freed blocks are handed out again.
pub(super) const RECYCLED: bool = !cfg!(any(filch_loom, filch_no_recycle, miri));

/// A free block.
struct Free {
    next: *mut Free,
    /// Of the first block of a bundle in the reserve: the next bundle, and how many blocks this one has.
    bundle: *mut Free,
    count: usize,
}

/// Free blocks of one size, linked through themselves: nobody else uses them. The first is `head`, if `count`
/// is not zero.
struct List {
    head: Cell<*mut Free>,
    count: Cell<usize>,
}

impl List {
    const fn empty() -> Self {
        Self {
            head: Cell::new(ptr::null_mut()),
            count: Cell::new(0),
        }
    }

    /// Takes a block of `size` bytes off the list.
    #[inline]
    fn pop(&self, size: usize) -> Option<NonNull<Free>> {
        let head = NonNull::new(self.head.get())?;
        // SAFETY: a free block of ours, as the type says.
        let next = unsafe { head.as_ref() }.next;
        // The next caller reads the link in that block, and then fills the block, which the thread that freed it has
        // in its cache: two lines are most of what a task needs.
        memory::fetch_to_write(next);
        if size > ALIGN {
            memory::fetch_to_write(next.wrapping_byte_add(ALIGN));
        }
        self.head.set(next);
        self.count.set(self.count.get() - 1);
        Some(head)
    }

    /// # Safety
    /// The block is of the list's size, and nobody uses it any more.
    #[inline]
    unsafe fn push(&self, block: NonNull<Free>) {
        let free = Free {
            next: self.head.get(),
            bundle: ptr::null_mut(),
            count: 0,
        };
        // SAFETY: the block is the caller's, and every size has room for a `Free`.
        unsafe { block.write(free) };
        self.head.set(block.as_ptr());
        self.count.set(self.count.get() + 1);
    }

    fn swap(&self, other: &Self) {
        self.head.swap(&other.head);
        self.count.swap(&other.count);
    }
}

/// What a thread keeps of one size.
struct Magazine {
    class: usize,
    first: List,
    second: List,
}

impl Magazine {
    const fn new(class: usize) -> Self {
        Self {
            class,
            first: List::empty(),
            second: List::empty(),
        }
    }

    #[inline]
    fn take(&self) -> NonNull<Free> {
        match self.first.pop(SIZES[self.class]) {
            Some(block) => block,
            None => self.take_more(),
        }
    }

    #[cold]
    fn take_more(&self) -> NonNull<Free> {
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
    /// As [`List::push`].
    #[inline]
    unsafe fn put(&self, block: NonNull<Free>) {
        if self.first.count.get() >= BUNDLE {
            self.give_away();
        }
        // SAFETY: the caller's duty.
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

struct Head(*mut Free);

// SAFETY: free blocks belong to whoever has the list.
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

    /// A bundle, or an empty list.
    fn take_bundle(&self) -> List {
        let mut bundles = self.lock();
        let list = List::empty();
        if let Some(first) = NonNull::new(bundles.0) {
            // SAFETY: a free block of the reserve, which is locked.
            let first = unsafe { first.as_ref() };
            list.head.set(bundles.0);
            list.count.set(first.count);
            bundles.0 = first.bundle;
        }
        list
    }

    /// Takes over what is on `list`.
    fn put_bundle(&self, list: &List) {
        let (head, count) = (list.head.replace(ptr::null_mut()), list.count.take());
        let Some(mut first) = NonNull::new(head) else {
            return;
        };
        let mut bundles = self.lock();
        // SAFETY: a free block of the list, which is the caller's.
        let first = unsafe { first.as_mut() };
        (first.bundle, first.count) = (bundles.0, count);
        bundles.0 = head;
    }
}

/// Fills `list` with a chunk of blocks of `size` bytes.
fn allocate(size: usize, list: &List) {
    let chunk = system(chunk_of(size)).as_ptr();
    for at in (0..BUNDLE).rev() {
        // SAFETY: within the chunk.
        let block = unsafe { chunk.add(at * size) };
        let block = NonNull::new(block).expect("inside of an allocation").cast();
        // SAFETY: it is new, and of this size.
        unsafe { list.push(block) };
    }
}

const fn chunk_of(size: usize) -> Layout {
    match Layout::from_size_align(size * BUNDLE, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("the sizes are small"),
    }
}

/// A block of its own, from the allocator.
fn system(layout: Layout) -> NonNull<u8> {
    let layout = not_empty(layout);
    // SAFETY: the size is not zero.
    let block = unsafe { alloc::alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

/// What the allocator is asked for: it gives no block of no size, and a closure that captures nothing has none.
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

/// Which of [`SIZES`] it is, if there is one.
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

/// A block for `layout`, which may be of no size.
#[inline]
pub(crate) fn alloc(layout: Layout) -> NonNull<u8> {
    let Some(class) = class_of(layout) else {
        return system(layout);
    };
    match MAGAZINES.try_with(|magazines| magazines[class].take()) {
        Ok(block) => block.cast(),
        // The thread is ending, and has no magazines any more.
        Err(_) => Magazine::new(class).take().cast(),
    }
}

/// Takes a block back.
///
/// # Safety
/// It came from [`alloc`] with the same layout, and nobody uses it any more.
#[inline]
pub(crate) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's duty.
    unsafe { put_back(block, layout) };
    if broken(Canary::BlockUse) {
        // SAFETY: none, on purpose: a checker must report this read of a free block.
        unsafe { block.read_volatile() };
    }
}

/// # Safety
/// As [`free`].
#[inline]
unsafe fn put_back(block: NonNull<u8>, layout: Layout) {
    let Some(class) = class_of(layout) else {
        // SAFETY: the caller's duty; `system` got it from there for the same layout.
        return unsafe { alloc::dealloc(block.as_ptr(), not_empty(layout)) };
    };
    let block = block.cast();
    let put = MAGAZINES.try_with(|magazines| {
        // SAFETY: the caller's duty; `alloc` took it for the same class.
        unsafe { magazines[class].put(block) };
    });
    if put.is_err() {
        // As in `alloc`.
        let own = Magazine::new(class);
        // SAFETY: as above.
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

    /// A block that may go to another thread.
    struct Block(NonNull<u8>, Layout);

    // SAFETY: a block is nobody's but the owner's.
    unsafe impl Send for Block {}

    impl Block {
        fn new(size: usize, fill: u8) -> Self {
            let (block, layout) = (alloc(layout(size)), layout(size));
            // SAFETY: the block is that large.
            unsafe { block.as_ptr().write_bytes(fill, size) };
            Self(block, layout)
        }

        #[track_caller]
        fn end(self, fill: u8) {
            for at in 0..self.1.size() {
                // SAFETY: within the block.
                let byte = unsafe { self.0.as_ptr().add(at) };
                // SAFETY: written in `new`.
                assert_eq!(unsafe { byte.read() }, fill, "somebody else has this block");
            }
            // SAFETY: not used any more.
            unsafe { free(self.0, self.1) };
        }
    }

    #[test]
    fn blocks_are_apart_and_come_again() {
        for size in [1, SIZES[0], SIZES[0] + 1, SIZES[1], 300, 5000] {
            let blocks: Vec<Block> = (0..5 * BUNDLE).map(|n| Block::new(size, n as u8)).collect();
            let places: HashSet<_> = blocks.iter().map(|block| block.0).collect();
            assert_eq!(places.len(), blocks.len());
            for (n, block) in blocks.into_iter().enumerate() {
                block.end(n as u8);
            }
            if RECYCLED && size <= 256 {
                let again = Block::new(size, 1);
                assert!(places.contains(&again.0), "a free block is used again");
                again.end(1);
            }
        }
    }

    #[test]
    fn a_layout_of_no_size_gets_a_block() {
        for align in [1, 64, 128, 4096] {
            let layout = Layout::from_size_align(0, align).unwrap();
            let block = alloc(layout);
            assert!(block.addr().get().is_multiple_of(align));
            // SAFETY: not used any more.
            unsafe { free(block, layout) };
        }
    }

    #[test]
    fn blocks_wander_from_thread_to_thread_and_back() {
        let size = SIZES[2];
        let (send, receive) = mpsc::channel::<Block>();
        let ender = thread::spawn(move || {
            let mut places = HashSet::new();
            for (n, block) in receive.into_iter().enumerate() {
                places.insert(block.0.as_ptr().addr());
                block.end(n as u8);
            }
            places
        });
        for n in 0..50 * BUNDLE {
            send.send(Block::new(size, n as u8)).unwrap();
        }
        drop(send);
        let places = ender.join().unwrap();
        // The thread that ended them has given everything back, so a third one gets them.
        let third = thread::spawn(move || {
            let blocks: Vec<Block> = (0..BUNDLE).map(|_| Block::new(size, 7)).collect();
            let known = blocks
                .iter()
                .filter(|block| places.contains(&block.0.as_ptr().addr()))
                .count();
            blocks.into_iter().for_each(|block| block.end(7));
            known
        });
        let known = third.join().unwrap();
        assert!(known == BUNDLE || !RECYCLED, "{known} of {BUNDLE} blocks");
    }
}
