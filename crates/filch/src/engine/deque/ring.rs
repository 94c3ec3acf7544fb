//! The slots of a deque: a ring of machine words.
#![expect(
    unsafe_code,
    reason = "moves tasks in and out of raw slots, word by word"
)]

use super::front::Index;
use crate::base::word::Word;
use std::{marker::PhantomData, mem::MaybeUninit, ptr::NonNull};

/// A task padded to whole, aligned words.
#[repr(C)]
struct Frame<T> {
    _whole_words: [usize; 0],
    task: MaybeUninit<T>,
}

/// A copy of a slot, which may be torn. It may be used only once the index it was read at has been
/// won.
pub(super) struct Copied<T>(MaybeUninit<T>);

impl<T> Copied<T> {
    /// Returns the copied bits, which may be torn.
    #[inline(always)]
    pub(super) fn bits(self) -> MaybeUninit<T> {
        self.0
    }

    /// Returns the task.
    ///
    /// # Safety
    /// The caller must own the slot's index: no other thread may take the task that was at that
    /// index, and the slot held it, unchanged, while it was copied.
    #[inline(always)]
    pub(super) unsafe fn take(self) -> T {
        // SAFETY: the caller guarantees that the words were copied from a slot that `Slots::write`
        // had filled with this task, and that no other thread makes a `T` of them.
        unsafe { self.0.assume_init() }
    }
}

/// A power of two of slots for tasks of type `T`.
///
/// The ring itself never drops a task: the deque determines which thread owns which index. All
/// access is by relaxed atomic words, so an outdated read is stale or torn but never a data race.
pub(super) struct Ring<T> {
    /// `len` times `PITCH` words.
    words: Box<[Word]>,
    len: usize,
    tasks: PhantomData<fn(T) -> T>,
}

/// The slots of a [`Ring`], two words that fit into registers.
pub(super) struct Slots<'a, T> {
    first: NonNull<Word>,
    /// The offset of the last slot, in words.
    mask: usize,
    ring: PhantomData<&'a Ring<T>>,
}

impl<T> Clone for Slots<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slots<'_, T> {}

// SAFETY: `first` represents a shared reference to the words of a ring, which are `Sync`. Only the
// deque moves their contents between threads, and it requires `T: Send`.
unsafe impl<T> Send for Slots<'_, T> {}
// SAFETY: as for `Send` above, `Slots` represents a shared reference to `Sync` words, and all its
// methods access them atomically.
unsafe impl<T> Sync for Slots<'_, T> {}

impl<T> Ring<T> {
    pub(super) fn new(len: usize) -> Self {
        debug_assert!(len.is_power_of_two());
        let words = len
            .checked_mul(Slots::<T>::PITCH)
            .expect("a queue cannot have as much memory as that");
        Self {
            words: (0..words).map(|_| Word::uninit()).collect(),
            len,
            tasks: PhantomData,
        }
    }

    /// Returns the number of slots.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn slots(&self) -> Slots<'_, T> {
        Slots {
            first: NonNull::from(&*self.words).cast(),
            mask: (self.len - 1) * Slots::<T>::PITCH,
            ring: PhantomData,
        }
    }
}

impl<'a, T> Slots<'a, T> {
    /// Words per task; zero for zero-sized tasks.
    const STRIDE: usize = size_of::<Frame<T>>() / size_of::<usize>();

    /// Words from a slot to the next: a power of two, or zero.
    const PITCH: usize = if Self::STRIDE == 0 {
        0
    } else {
        Self::STRIDE.next_power_of_two()
    };

    /// The binary logarithm of the pitch.
    const SIZE: u32 = Self::STRIDE.next_power_of_two().ilog2();

    #[inline(always)]
    fn slot(self, index: Index) -> NonNull<Word> {
        let offset = if Self::SIZE <= Index::MAX_SIZE {
            index.offset(Self::SIZE, self.mask)
        } else {
            index.offset(0, self.mask >> Self::SIZE) << Self::SIZE
        };
        // SAFETY: `offset` is a multiple of `PITCH` and at most `mask`, the last slot's, so the
        // slot is inside the ring's `words`: `len` times `PITCH`, which did not overflow in
        // `Ring::new`.
        unsafe { self.first.add(offset) }
    }

    /// Returns a word of the slot that begins at `slot`.
    ///
    /// # Safety
    /// `slot` comes from [`slot`](Self::slot), and `offset` is below `STRIDE`.
    #[inline(always)]
    unsafe fn word(slot: NonNull<Word>, offset: usize) -> &'a Word {
        // SAFETY: the caller guarantees that `slot` begins a slot and that `offset` is below
        // `STRIDE`, so the result is inside the same slot.
        let word = unsafe { slot.add(offset) };
        // SAFETY: the word is in a ring that is borrowed for 'a, and words are only accessed by
        // shared references.
        unsafe { word.as_ref() }
    }

    /// Writes `task` into the slot of `index`.
    #[inline(always)]
    pub(super) fn write(self, index: Index, task: T) {
        let frame = Frame {
            _whole_words: [],
            task: MaybeUninit::new(task),
        };
        let from = (&raw const frame).cast::<MaybeUninit<usize>>();
        let slot = self.slot(index);
        for offset in 0..Self::STRIDE {
            // SAFETY: `Frame` is `STRIDE` whole, aligned words, and `offset` is below that.
            let place = unsafe { from.add(offset) };
            // SAFETY: `place` is inside `frame`, which is alive; any bytes are a valid
            // `MaybeUninit<usize>`.
            let word = unsafe { place.read() };
            // SAFETY: `slot` comes from `Self::slot`, and the loop keeps `offset` below `STRIDE`.
            unsafe { Self::word(slot, offset) }.store(word);
        }
    }

    /// Copies the slot of `index`.
    #[inline(always)]
    pub(super) fn read(self, index: Index) -> Copied<T> {
        let mut frame = Frame {
            _whole_words: [],
            task: MaybeUninit::uninit(),
        };
        let into = (&raw mut frame).cast::<MaybeUninit<usize>>();
        let slot = self.slot(index);
        for offset in 0..Self::STRIDE {
            // SAFETY: `slot` comes from `Self::slot`, and the loop keeps `offset` below `STRIDE`.
            let word = unsafe { Self::word(slot, offset) }.load();
            // SAFETY: `Frame` is `STRIDE` whole, aligned words, and `offset` is below that.
            let place = unsafe { into.add(offset) };
            // SAFETY: `place` is inside `frame`, which is alive and accessed only through `into`.
            unsafe { place.write(word) };
        }
        Copied(frame.task)
    }

    /// Copies the slot of `at` in `from` to the slot of `index` here.
    #[inline(always)]
    pub(super) fn copy(self, index: Index, from: Slots<'_, T>, at: Index) {
        let (here, there) = (self.slot(index), from.slot(at));
        for offset in 0..Self::STRIDE {
            // SAFETY: `there` comes from `from.slot`, and the loop keeps `offset` below `STRIDE`.
            let word = unsafe { Slots::<T>::word(there, offset) }.load();
            // SAFETY: `here` comes from `self.slot`, and the loop keeps `offset` below `STRIDE`.
            unsafe { Self::word(here, offset) }.store(word);
        }
    }
}
