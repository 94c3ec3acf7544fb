#![expect(unsafe_code, reason = "fills and frees raw blocks")]

use super::{
    BUNDLE, CLASSES, RECYCLED, alloc,
    class::{SizeClass, class_of, whole_lines},
    free,
    list::{FreeBlock, FreeList},
    reserve::{KEPT_BYTES, Reserve, Trimmed},
};
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
    for size in [1, 64, 65, 80, 96, 128, 300, 5000] {
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
    let size = CLASSES[4].size;
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

#[test]
fn a_block_is_aligned_as_its_layout_asks() {
    for (size, align, expected) in [
        (64, 64, 64),
        (72, 8, 80),
        (80, 16, 80),
        (80, 32, 96),
        (96, 64, 128),
        (129, 8, 192),
        (256, 64, 256),
    ] {
        let layout = Layout::from_size_align(size, align).unwrap();
        assert_eq!(CLASSES[class_of(layout).unwrap()].size, expected);
        let block = alloc(layout);
        assert!(block.addr().get().is_multiple_of(align));
        // SAFETY: the block is not used any more, and the layout is that of `alloc`.
        unsafe { free(block, layout) };
    }
    let small = layout(72);
    assert_eq!(CLASSES[class_of(whole_lines(small)).unwrap()].size, 128);
    assert_eq!(whole_lines(layout(300)), layout(300));
    assert_eq!(class_of(Layout::from_size_align(64, 128).unwrap()), None);
}

/// Fills `reserve` with the blocks of this number of chunks, mixed, except the blocks that `keep`
/// selects by chunk and number, which are returned.
fn fill(
    reserve: &Reserve,
    class: SizeClass,
    chunks: usize,
    keep: impl Fn(usize, usize) -> bool,
) -> FreeList {
    let (kept, whole) = (FreeList::empty(), FreeList::empty());
    let mut free = Vec::new();
    for chunk in 0..chunks {
        let mut number = 0;
        class.allocate_chunk(|bundle| {
            while let Some(block) = bundle.unlink() {
                if keep(chunk, number) {
                    // SAFETY: the block is unused, and was allocated for this size.
                    unsafe { kept.push(block) };
                } else {
                    free.push(block);
                }
                number += 1;
            }
        });
    }
    // Neighbours in the list are not neighbours in memory.
    let mixed = (0..7).flat_map(|first| free.iter().skip(first).step_by(7));
    for block in mixed {
        // SAFETY: the block is unused, and was allocated for this size.
        unsafe { whole.push(*block) };
        if whole.len() == BUNDLE {
            reserve.put_bundle(&whole);
        }
    }
    assert!(reserve.put_bundle(&whole) && reserve.claim_trimmer());
    assert!(!reserve.claim_trimmer(), "one thread starts it");
    kept
}

/// Empties `reserve` and returns its blocks.
fn drain(reserve: &Reserve) -> Vec<NonNull<FreeBlock>> {
    let mut blocks = Vec::new();
    loop {
        let bundle = reserve.take_bundle();
        if bundle.len() == 0 {
            return blocks;
        }
        blocks.extend(std::iter::from_fn(|| bundle.unlink()));
    }
}

/// Frees the chunks of `blocks`, which are all the blocks of these chunks.
fn free_chunks(class: SizeClass, mut blocks: Vec<NonNull<FreeBlock>>) {
    blocks.sort_unstable();
    let in_one_chunk = |a: &NonNull<FreeBlock>, b: &NonNull<FreeBlock>| {
        SizeClass::chunk_address(*a) == SizeClass::chunk_address(*b)
    };
    for chunk in blocks.chunk_by(in_one_chunk) {
        assert_eq!(chunk.len(), class.blocks_per_chunk());
        // SAFETY: the blocks were taken out of their lists, and no test uses them any more.
        unsafe { class.free_chunk(chunk) };
    }
}

/// `KEPT_BYTES` are a small part of this number of chunks.
const CHUNKS: usize = 200;

#[test]
#[cfg_attr(miri, ignore = "it has many chunks")]
fn a_trim_frees_the_chunks_that_were_not_used_since_the_last() {
    for class in CLASSES {
        let reserve = Reserve::new(class);
        let in_use = fill(&reserve, class, CHUNKS, |_, _| false);
        assert_eq!(in_use.len(), 0);
        // All of them are new.
        assert_eq!(reserve.trim(), Trimmed::More { worthwhile: true });
        // Nothing but what is always kept remains.
        assert_eq!(reserve.trim(), Trimmed::Settled);
        let left = drain(&reserve);
        let (kept, chunk) = (left.len(), class.blocks_per_chunk());
        assert!(kept * class.size <= KEPT_BYTES + 2 * chunk * class.size);
        assert!(
            (kept + 2 * chunk) * class.size >= KEPT_BYTES,
            "{class:?} {kept}"
        );
        free_chunks(class, left);
    }
}

#[test]
#[cfg_attr(miri, ignore = "it has many chunks")]
fn a_trim_leaves_chunks_with_a_block_in_use() {
    let class = CLASSES[1];
    let (reserve, chunk) = (Reserve::new(class), class.blocks_per_chunk());
    // In every second chunk one block is in use.
    let in_use = fill(&reserve, class, CHUNKS, |chunk, number| {
        chunk.is_multiple_of(2) && number == chunk % 50
    });
    assert_eq!(in_use.len(), CHUNKS / 2);
    assert_eq!(reserve.trim(), Trimmed::More { worthwhile: true });
    assert_eq!(reserve.trim(), Trimmed::More { worthwhile: true });
    // Nothing else can be freed, and nothing was used.
    assert_eq!(reserve.trim(), Trimmed::Settled);
    let mut blocks = drain(&reserve);
    let left = blocks.len();
    assert!(left >= CHUNKS / 2 * (chunk - 1), "blocks were lost: {left}");
    let kept = KEPT_BYTES / class.size + 2 * chunk;
    assert!(left <= CHUNKS / 2 * (chunk - 1) + kept, "{left}");
    while let Some(block) = in_use.unlink() {
        // SAFETY: a block of a chunk that must not have been freed.
        unsafe { block.cast::<u8>().write_bytes(1, class.size) };
        blocks.push(block);
    }
    free_chunks(class, blocks);
}

#[test]
#[cfg_attr(miri, ignore = "it has many chunks")]
fn a_trim_leaves_what_was_used_since_the_last() {
    let class = CLASSES[0];
    let (reserve, blocks) = (Reserve::new(class), CHUNKS * class.blocks_per_chunk());
    let in_use = fill(&reserve, class, CHUNKS, |_, _| false);
    assert_eq!(in_use.len(), 0);
    for _ in 0..3 {
        assert_eq!(reserve.trim(), Trimmed::More { worthwhile: true });
        // A peak: all are taken and put back.
        let mut bundles = Vec::new();
        loop {
            let bundle = reserve.take_bundle();
            if bundle.len() == 0 {
                break;
            }
            bundles.push(bundle);
        }
        let start = bundles.iter().any(|bundle| reserve.put_bundle(bundle));
        assert!(!start, "it has a trimmer");
    }
    assert_eq!(reserve.trim(), Trimmed::More { worthwhile: true });
    let left = drain(&reserve);
    assert_eq!(left.len(), blocks);
    assert_eq!(reserve.trim(), Trimmed::Settled);
    free_chunks(class, left);
}
