//! The slots of a deque: a ring of machine words.
#![expect(
    unsafe_code,
    reason = "moves tasks in and out of raw slots, word by word"
)]

use super::front::Index;
use crate::base::{
    sys::memory,
    word::{self, Word},
};
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
    /// The offset of the last slot, in units.
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
        let mut words = Self::try_reserve(len).expect("a queue cannot have as much memory as that");
        // A long ring is filled from end to end, so large pages save most of its page faults.
        memory::prefer_large(&words);
        words.extend((0..len * Slots::<T>::PITCH).map(|_| Word::uninit()));
        Self {
            words: words.into_boxed_slice(),
            len,
            tasks: PhantomData,
        }
    }

    /// Returns memory for the words of `len` slots, which are not written yet, or `None` if there
    /// is not as much.
    pub(super) fn try_reserve(len: usize) -> Option<Vec<Word>> {
        debug_assert!(len.is_power_of_two());
        let mut words = Vec::new();
        words
            .try_reserve_exact(len.checked_mul(Slots::<T>::PITCH)?)
            .ok()?;
        Some(words)
    }

    /// Returns the number of slots.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the size of the slots, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Copies `tasks` slots of `old`, from that of `first` on, to the slots of the same indices
    /// here: in at most three runs, word after word. `old` is not written meanwhile.
    pub(super) fn copy_from(&self, old: &Self, first: Index, tasks: usize) {
        let pitch = Slots::<T>::PITCH;
        let mut copied = if pitch == 0 { tasks } else { 0 };
        while copied < tasks {
            let index = first.plus(copied);
            let to = &self.words[self.slots().offset(index) / Slots::<T>::UNIT..];
            let from = &old.words[old.slots().offset(index) / Slots::<T>::UNIT..];
            let run = to.len().min(from.len()).min((tasks - copied) * pitch);
            copy_words(&to[..run], &from[..run]);
            copied += run / pitch;
        }
    }

    #[inline]
    pub(super) fn slots(&self) -> Slots<'_, T> {
        Slots {
            first: NonNull::from(&*self.words).cast(),
            mask: (self.len - 1) * Slots::<T>::PITCH * Slots::<T>::UNIT,
            ring: PhantomData,
        }
    }
}

/// Copies words to a slice of the same length. Compilers do not unroll loops over atomic words.
fn copy_words(to: &[Word], from: &[Word]) {
    let ((to, to_rest), (from, from_rest)) = (to.as_chunks::<8>(), from.as_chunks::<8>());
    for (to, from) in to.iter().zip(from) {
        for at in 0..8 {
            to[at].store(from[at].load());
        }
    }
    for (to, from) in to_rest.iter().zip(from_rest) {
        to.store(from.load());
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

    /// Units of an offset per word: bytes, which need no multiplication, or whole words where the
    /// size of a word is not a power of two, as under loom.
    const UNIT: usize = if size_of::<Word>().is_power_of_two() {
        size_of::<Word>()
    } else {
        1
    };

    /// The binary logarithm of the pitch in units.
    const SIZE: u32 = (Self::STRIDE.next_power_of_two() * Self::UNIT).ilog2();

    /// Returns the offset of the slot of `index`, in units.
    #[inline(always)]
    fn offset(self, index: Index) -> usize {
        if Self::SIZE <= Index::MAX_SIZE {
            index.offset(Self::SIZE, self.mask)
        } else {
            index.offset(0, self.mask >> Self::SIZE) << Self::SIZE
        }
    }

    #[inline(always)]
    fn slot(self, index: Index) -> NonNull<Word> {
        let bytes = self.offset(index) * (size_of::<Word>() / Self::UNIT);
        // SAFETY: `offset` is a multiple of `PITCH` words and at most `mask`, the last slot's, so
        // the slot is inside the ring's `words`: `len` times `PITCH`, which did not overflow in
        // `Ring::new`.
        unsafe { self.first.byte_add(bytes) }
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

    /// Returns the words of the slot that begins at `slot`.
    ///
    /// # Safety
    /// `slot` comes from [`slot`](Self::slot), and `STRIDE` is 2.
    #[inline(always)]
    unsafe fn two_words(slot: NonNull<Word>) -> &'a [Word; 2] {
        // SAFETY: as in `word`: the slot has two words, in a ring that is borrowed for 'a.
        unsafe { slot.cast().as_ref() }
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
        if Self::STRIDE == 2 {
            // SAFETY: `Frame` is two whole, aligned words, and any bytes are valid for these.
            let values = unsafe { from.cast::<[_; 2]>().read() };
            // SAFETY: `slot` comes from `Self::slot`, and `STRIDE` is 2.
            return word::store_two(unsafe { Self::two_words(slot) }, values);
        }
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
        if Self::STRIDE == 2 {
            // SAFETY: `slot` comes from `Self::slot`, and `STRIDE` is 2.
            let values = word::load_two(unsafe { Self::two_words(slot) });
            // SAFETY: `Frame` is `STRIDE`, that is two, whole and aligned words.
            unsafe { into.cast::<[_; 2]>().write(values) };
            return Copied(frame.task);
        }
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
