//! The only module that names atomics, cells, locks and threads of `std` or loom.
//!
//! Code above this module names no atomic of `std`. Built with `--cfg filch_loom` the same names
//! refer to loom's types, so the model checker runs the production code and not a copy of it.

use std::sync::atomic::AtomicU64 as StaticU64;

#[cfg(filch_loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    hint,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{
            self, AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
        },
    },
};
#[cfg(not(filch_loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{self, AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize},
};

#[cfg(not(any(filch_loom, filch_plain_words, miri, target_family = "wasm")))]
pub(crate) use atomic_maybe_uninit::AtomicMaybeUninit;

#[cfg(not(any(filch_loom, feature = "rehearse")))]
pub(crate) use std::hint;

/// In a rehearsal other actors run while one spins.
#[cfg(all(feature = "rehearse", not(filch_loom)))]
pub(crate) mod hint {
    pub(crate) use crate::base::thread::spin as spin_loop;
}

pub(crate) use atomic::Ordering;

/// A number that is only a hint, so that every reader is correct with any value of it; or one that
/// is written once, with a lock. For statics, which loom's atomics cannot be; models leave it out.
#[derive(Debug)]
pub(crate) struct Hint(StaticU64);

impl Hint {
    pub(crate) const fn new(value: u64) -> Self {
        Self(StaticU64::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: nothing is published by it.
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u64) {
        // Relaxed: as in `get`.
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A cell that is accessed through closures, like loom's, which tracks the accesses.
#[cfg(not(filch_loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(filch_loom))]
impl<T> UnsafeCell<T> {
    #[inline(always)]
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer to be read.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer to be written.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A `SeqCst` fence right after a read-modify-write of this thread, such as the release of a lock.
/// On x86 no later load is reordered before a read-modify-write, so only the compiler has to be
/// restricted.
#[inline(always)]
pub(crate) fn fence_after_rmw() {
    #[cfg(all(
        any(target_arch = "x86", target_arch = "x86_64"),
        not(any(filch_loom, filch_tsan, miri))
    ))]
    // SeqCst: the purpose of this function, as in `fence_seq_cst`.
    atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(
        any(target_arch = "x86", target_arch = "x86_64"),
        not(any(filch_loom, filch_tsan, miri))
    )))]
    fence_seq_cst();
}

/// A `SeqCst` fence; each call site names the other fence that it pairs with.
#[inline(always)]
pub(crate) fn fence_seq_cst() {
    #[cfg(filch_tsan)]
    {
        /// ThreadSanitizer ignores fences. Read-modify-writes of one word order the same accesses
        /// for it, and a few more.
        static FENCES: atomic::AtomicUsize = atomic::AtomicUsize::new(0);
        // SeqCst: in place of the fence below.
        FENCES.fetch_add(1, Ordering::SeqCst);
    }
    // SeqCst: the purpose of this function. Each call site names the fence that it pairs with.
    atomic::fence(Ordering::SeqCst);
}
