//! One machine word of a queue slot: read and written atomically (relaxed), initialised or not.
//!
//! A thief may read a slot while its owner overwrites it; the thief then loses its race for the
//! slot and discards the copy. With plain memory that read is a data race and undefined behaviour.
//! With `AtomicUsize` it is undefined for tasks with padding, because padding is uninitialised, and
//! it strips pointers of their provenance. [`Word`] has none of these problems. It has three forms:
//!
//! - `assembly`, in normal builds: an ordinary load or store, as inline assembly.
//! - `locked`, for WebAssembly and Miri, which have no inline assembly: a spin lock around each
//!   word.
//! - `pointer`, with `--cfg filch_plain_words` and under loom: an `AtomicPtr`, for tasks without
//!   padding.
//!
//! The lock of a `locked` word orders its accesses, which the other forms do not. It therefore
//! hides a missing release or acquire from Miri. So Miri is run with `filch_plain_words`: jobs of a
//! pool have no padding.
#![cfg_attr(
    any(
        filch_loom,
        filch_plain_words,
        miri,
        target_family = "wasm",
        target_arch = "x86_64"
    ),
    expect(unsafe_code, reason = "moves words that may be uninitialised")
)]

#[cfg(not(any(filch_loom, filch_plain_words, miri, target_family = "wasm")))]
pub(crate) use assembly::Word;
#[cfg(all(
    any(miri, target_family = "wasm"),
    not(any(filch_loom, filch_plain_words))
))]
pub(crate) use locked::Word;
#[cfg(any(filch_loom, filch_plain_words))]
pub(crate) use pointer::Word;

pub(crate) use twos::{load_two, store_two};

/// Two words that follow one another, as those of a job. With one address for both, since the
/// compiler would compute a second one.
#[cfg(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(any(filch_loom, filch_plain_words, miri))
))]
mod twos {
    use super::Word;
    use std::{arch::asm, mem::MaybeUninit};

    #[inline(always)]
    pub(crate) fn store_two(words: &[Word; 2], values: [MaybeUninit<usize>; 2]) {
        // SAFETY: the words are borrowed, aligned and atomic, so they may be stored to, and a store
        // of an aligned word is atomic.
        unsafe {
            asm!(
                "mov qword ptr [{words}], {first}",
                "mov qword ptr [{words} + 8], {second}",
                words = in(reg) words.as_ptr(),
                first = in(reg) values[0],
                second = in(reg) values[1],
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    pub(crate) fn load_two(words: &[Word; 2]) -> [MaybeUninit<usize>; 2] {
        let (first, second);
        // SAFETY: the words are borrowed, aligned and atomic, so they may be loaded, and a load of
        // an aligned word is atomic.
        unsafe {
            asm!(
                "mov {first}, qword ptr [{words}]",
                "mov {second}, qword ptr [{words} + 8]",
                words = in(reg) words.as_ptr(),
                // Not late: it is written before the address is read for the last time.
                first = out(reg) first,
                second = lateout(reg) second,
                options(nostack, preserves_flags),
            );
        }
        [first, second]
    }
}

#[cfg(not(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(any(filch_loom, filch_plain_words, miri))
)))]
mod twos {
    use super::Word;
    use std::mem::MaybeUninit;

    #[inline(always)]
    pub(crate) fn store_two(words: &[Word; 2], values: [MaybeUninit<usize>; 2]) {
        words[0].store(values[0]);
        words[1].store(values[1]);
    }

    #[inline(always)]
    pub(crate) fn load_two(words: &[Word; 2]) -> [MaybeUninit<usize>; 2] {
        [words[0].load(), words[1].load()]
    }
}

#[cfg(not(any(filch_loom, filch_plain_words, miri, target_family = "wasm")))]
mod assembly {
    use crate::base::sync::{AtomicMaybeUninit, Ordering};
    use std::mem::MaybeUninit;

    pub(crate) struct Word(AtomicMaybeUninit<usize>);

    impl Word {
        pub(crate) fn uninit() -> Self {
            Self(AtomicMaybeUninit::new(MaybeUninit::uninit()))
        }

        #[inline(always)]
        pub(crate) fn load(&self) -> MaybeUninit<usize> {
            // Relaxed: the deque's indices publish the slots.
            self.0.load(Ordering::Relaxed)
        }

        #[inline(always)]
        pub(crate) fn store(&self, word: MaybeUninit<usize>) {
            // Relaxed: as in `load`.
            self.0.store(word, Ordering::Relaxed);
        }
    }
}

#[cfg(all(
    any(miri, target_family = "wasm"),
    not(any(filch_loom, filch_plain_words))
))]
mod locked {
    use crate::base::sync::{AtomicBool, Ordering, UnsafeCell, hint};
    use std::mem::MaybeUninit;

    pub(crate) struct Word {
        is_locked: AtomicBool,
        /// Accessed only by the thread that has set `is_locked`, until it clears it.
        value: UnsafeCell<MaybeUninit<usize>>,
    }

    // SAFETY: `value` is accessed under the lock alone.
    unsafe impl Sync for Word {}

    impl Word {
        pub(crate) fn uninit() -> Self {
            Self {
                is_locked: AtomicBool::new(false),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            }
        }

        pub(crate) fn load(&self) -> MaybeUninit<usize> {
            self.access(|value| {
                // SAFETY: `access` holds the lock of `value` while it calls this.
                unsafe { value.read() }
            })
        }

        pub(crate) fn store(&self, word: MaybeUninit<usize>) {
            self.access(|value| {
                // SAFETY: `access` holds the lock of `value` while it calls this.
                unsafe { value.write(word) };
            });
        }

        /// Calls `f`, which must not unwind, under the lock.
        fn access<R>(&self, f: impl FnOnce(*mut MaybeUninit<usize>) -> R) -> R {
            // Acquire: pairs with the release below, of the previous access.
            while self.is_locked.swap(true, Ordering::Acquire) {
                hint::spin_loop();
            }
            let result = self.value.with_mut(f);
            // Release: pairs with the acquire above, of the next access.
            self.is_locked.store(false, Ordering::Release);
            result
        }
    }
}

#[cfg(any(filch_loom, filch_plain_words))]
mod pointer {
    use crate::base::sync::{AtomicPtr, Ordering};
    use std::{mem::MaybeUninit, ptr};

    /// A pointer, so that words that are part of one keep its provenance.
    pub(crate) struct Word(AtomicPtr<()>);

    impl Word {
        pub(crate) fn uninit() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }

        pub(crate) fn load(&self) -> MaybeUninit<usize> {
            // Relaxed, as in production.
            let word = MaybeUninit::new(self.0.load(Ordering::Relaxed));
            // SAFETY: both types are one word of the same size, and `MaybeUninit` allows any
            // content.
            unsafe { std::mem::transmute::<MaybeUninit<*mut ()>, MaybeUninit<usize>>(word) }
        }

        pub(crate) fn store(&self, word: MaybeUninit<usize>) {
            // SAFETY: both types are one word of the same size, and `MaybeUninit` allows any
            // content.
            let word =
                unsafe { std::mem::transmute::<MaybeUninit<usize>, MaybeUninit<*mut ()>>(word) };
            // SAFETY: these builds use only tasks that fill their words completely, so the word is
            // initialised; and an initialised word is a valid pointer value, though perhaps not one
            // that may be dereferenced.
            let word = unsafe { word.assume_init() };
            // Relaxed, as in production.
            self.0.store(word, Ordering::Relaxed);
        }
    }
}
