//! The slots of a deque: a ring of machine words.
#![expect(
    unsafe_code,
    reason = "moves tasks in and out of raw slots, word by word"
)]

use super::front::Index;
use crate::ground::sync::Word;
use std::{marker::PhantomData, mem::MaybeUninit};

/// A task padded to whole, aligned words.
#[repr(C)]
struct Frame<T> {
    _whole_words: [usize; 0],
    task: MaybeUninit<T>,
}

/// A copy of a slot, which may turn out to be torn: worth something only once the index it was
/// read at has been won.
pub(super) struct Copied<T>(MaybeUninit<T>);

impl<T> Copied<T> {
    /// The task.
    ///
    /// # Safety
    /// The caller must own the slot's index: no other thread may take the task that was at that
    /// index, and the slot held it, unchanged, while it was copied.
    #[inline(always)]
    pub(super) unsafe fn take(self) -> T {
        // SAFETY: by the caller's duty the words were copied from a slot that `Ring::write` had
        // filled with this task, and nobody else makes a `T` of them.
        unsafe { self.0.assume_init() }
    }
}

/// A power of two of slots for tasks of type `T`.
///
/// The ring itself never drops a task: who owns which index is the deque's business. All access is
/// by relaxed atomic words, so an outdated read is stale or torn but never a data race.
pub(super) struct Ring<T> {
    words: Box<[Word]>,
    mask: usize,
    tasks: PhantomData<fn(T) -> T>,
}

impl<T> Ring<T> {
    /// Words of a slot; none for zero-sized tasks.
    const STRIDE: usize = size_of::<Frame<T>>() / size_of::<usize>();

    pub(super) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        let words = slots
            .checked_mul(Self::STRIDE)
            .expect("a queue cannot have as much memory as that");
        Self {
            words: (0..words).map(|_| Word::uninit()).collect(),
            mask: slots - 1,
            tasks: PhantomData,
        }
    }

    pub(super) fn slots(&self) -> usize {
        self.mask + 1
    }

    #[inline(always)]
    fn word(&self, index: Index, offset: usize) -> &Word {
        let at = index.slot(self.mask) * Self::STRIDE + offset;
        debug_assert!(at < self.words.len());
        // SAFETY: `slot` is at most `mask` and `offset` is below `STRIDE`, so `at` is below
        // `(mask + 1) * STRIDE`, the length of `words`, which did not overflow in `new`.
        unsafe { self.words.get_unchecked(at) }
    }

    /// Puts `task` into the slot of `index`.
    #[inline(always)]
    pub(super) fn write(&self, index: Index, task: T) {
        let frame = Frame {
            _whole_words: [],
            task: MaybeUninit::new(task),
        };
        let from = (&raw const frame).cast::<MaybeUninit<usize>>();
        for offset in 0..Self::STRIDE {
            // SAFETY: `Frame` is `STRIDE` whole, aligned words, and `offset` is below that.
            let place = unsafe { from.add(offset) };
            // SAFETY: `place` is inside `frame`, which lives; any bytes are a valid
            // `MaybeUninit<usize>`.
            let word = unsafe { place.read() };
            self.word(index, offset).store(word);
        }
    }

    /// Copies the slot of `index`.
    #[inline(always)]
    pub(super) fn read(&self, index: Index) -> Copied<T> {
        let mut frame = Frame {
            _whole_words: [],
            task: MaybeUninit::uninit(),
        };
        let into = (&raw mut frame).cast::<MaybeUninit<usize>>();
        for offset in 0..Self::STRIDE {
            let word = self.word(index, offset).load();
            // SAFETY: `Frame` is `STRIDE` whole, aligned words, and `offset` is below that.
            let place = unsafe { into.add(offset) };
            // SAFETY: `place` is inside `frame`, which lives and is only reached through `into`.
            unsafe { place.write(word) };
        }
        Copied(frame.task)
    }

    /// Copies the slot of `at` in `from` to the slot of `index` here.
    #[inline(always)]
    pub(super) fn copy(&self, index: Index, from: &Self, at: Index) {
        for offset in 0..Self::STRIDE {
            self.word(index, offset).store(from.word(at, offset).load());
        }
    }
}
