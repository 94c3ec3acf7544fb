//! Loops that end at the first item, in order, that is an error.

use super::stage::{LoopStage, sealed::Sealed};
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicUsize, Ordering},
};
use std::{
    fmt, iter,
    sync::{Mutex, PoisonError},
};

/// The earliest block that has ended a loop: the items behind it are not needed.
pub(super) struct EarliestBlock {
    /// The index at which it begins, or `usize::MAX`.
    at: AtomicUsize,
}

impl EarliestBlock {
    pub(super) fn new() -> Self {
        Self {
            at: AtomicUsize::new(usize::MAX),
        }
    }

    /// Records that the block at `at` has ended the loop.
    #[inline]
    pub(super) fn record(&self, at: usize) {
        // Relaxed: it tells other workers to stop, and is read again after the joins.
        self.at.fetch_min(at, Ordering::Relaxed);
    }

    /// Whether the items from `at` on are behind it.
    #[inline]
    pub(super) fn is_before(&self, at: usize) -> bool {
        // Relaxed: as in `record`.
        let found = self.at.load(Ordering::Relaxed);
        found <= at || broken(Canary::LoopFirst) && found < usize::MAX
    }
}

/// The error of the first item that has one.
pub(super) struct FirstError<E> {
    /// The last block whose errors count.
    block: EarliestBlock,
    /// The error and its index. Not accessed unless an item fails.
    error: Mutex<Option<(usize, E)>>,
}

impl<E> FirstError<E> {
    pub(super) fn new() -> Self {
        Self {
            block: EarliestBlock::new(),
            error: Mutex::new(None),
        }
    }

    /// Stores the first error of the block at `at`, unless there is one of an earlier block.
    #[cold]
    fn store(&self, at: usize, error: E) {
        self.block.record(at);
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(before, _)| at < *before) {
            // The old one is dropped without the lock: that is user code.
            let later = first.replace((at, error));
            drop(first);
            drop(later);
        }
    }

    pub(super) fn into_error(self) -> Option<E> {
        let error = self.error.into_inner();
        let error = error.unwrap_or_else(PoisonError::into_inner);
        let last = self.block.at.into_inner();
        error.and_then(|(at, error)| (at <= last).then_some(error))
    }
}

impl<E> fmt::Debug for FirstError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstError").finish_non_exhaustive()
    }
}

/// Passes on what is `Ok` until the first error, which it stores: for `collect` into a `Result`.
pub(super) struct WhileOk<'e, S, E> {
    pub(super) before: S,
    pub(super) error: &'e FirstError<E>,
}

impl<S, E> Sealed for WhileOk<'_, S, E> {}

impl<T, V, E: Send, S: LoopStage<T, Out = Result<V, E>>> LoopStage<T> for WhileOk<'_, S, E> {
    type Out = V;

    #[inline]
    fn apply<I: Iterator<Item = T>>(&self, at: usize, items: I) -> impl Iterator<Item = V> {
        let mut items = self.before.apply(at, items);
        let mut failed = false;
        iter::from_fn(move || {
            if failed {
                return None;
            }
            match items.next()? {
                Ok(value) => Some(value),
                Err(error) => {
                    failed = true;
                    self.error.store(at, error);
                    // In a `Result` of an `Option`, an error behind this is not the first.
                    self.before.end_at(at);
                    None
                }
            }
        })
    }

    #[inline]
    fn should_stop_at(&self, at: usize) -> bool {
        self.error.block.is_before(at) || self.before.should_stop_at(at)
    }

    #[inline]
    fn end_at(&self, at: usize) {
        // Errors of blocks behind it do not count.
        self.error.block.record(at);
        self.before.end_at(at);
    }
}
