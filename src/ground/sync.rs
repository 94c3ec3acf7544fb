//! The one door to atomics, cells, locks and threads.
//!
//! Code above this module names no atomic of `std`. Built with `--cfg filch_loom` the same names
//! mean loom's, so the model checker runs the production code and not a copy of it.
#![cfg_attr(
    filch_loom,
    expect(
        unsafe_code,
        reason = "loom's stand-in for a possibly uninitialised word"
    )
)]

use std::{mem::MaybeUninit, sync::atomic::AtomicU64 as StaticU64};

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

#[cfg(not(any(filch_loom, feature = "simulate")))]
pub(crate) use std::hint;

/// In a rehearsal the others go on while one waits for them.
#[cfg(all(feature = "simulate", not(filch_loom)))]
pub(crate) mod hint {
    pub(crate) use crate::ground::thread::spin as spin_loop;
}

pub(crate) use atomic::Ordering;

/// A number that is only ever a hint, so that every reader is right with any value of it. For statics, which loom's atomics
/// cannot be; models leave it out.
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

/// A cell that is reached through closures, as loom's, which watches who uses it when.
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

/// A `SeqCst` fence; each call site tells which other fence it pairs with.
#[inline(always)]
pub(crate) fn fence_seq_cst() {
    // SeqCst: the point of it. Which other fence it pairs with is told where it is called.
    atomic::fence(Ordering::SeqCst);
}

/// One machine word of a queue slot: read and written atomically (relaxed), initialised or not.
///
/// A thief may read a slot while its owner overwrites it; the thief then loses its race for the
/// slot and throws the copy away. With plain memory that read is a data race and undefined
/// behaviour. With `AtomicUsize` it would be undefined for tasks that have padding, because padding
/// is uninitialised. This type has neither problem.
#[cfg(not(filch_loom))]
pub(crate) struct Word(atomic_maybe_uninit::AtomicMaybeUninit<usize>);

#[cfg(not(filch_loom))]
impl Word {
    pub(crate) const fn uninit() -> Self {
        Self(atomic_maybe_uninit::AtomicMaybeUninit::new(
            MaybeUninit::uninit(),
        ))
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

/// Under loom a word is loom's own atomic, so the models may only use tasks without padding.
#[cfg(filch_loom)]
pub(crate) struct Word(AtomicUsize);

#[cfg(filch_loom)]
impl Word {
    pub(crate) fn uninit() -> Self {
        Self(AtomicUsize::new(0))
    }

    pub(crate) fn load(&self) -> MaybeUninit<usize> {
        // Relaxed, as in production.
        MaybeUninit::new(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn store(&self, word: MaybeUninit<usize>) {
        // SAFETY: the models in this crate use only `usize` and `Box` as tasks, which fill their
        // words completely, so the word is initialised.
        let word = unsafe { word.assume_init() };
        // Relaxed, as in production.
        self.0.store(word, Ordering::Relaxed);
    }
}
