//! Loops that end at the first item, in order, that is an error.

use super::{
    drive::{Block, ItemSink},
    over::{Loop, Mode},
    producer::Producer,
    stage::{LoopStage, sealed::Sealed},
};
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicUsize, Ordering},
};
use std::{
    fmt, iter,
    sync::{Mutex, PoisonError},
};

/// The earliest block that has ended a loop: the items after it are not needed.
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
        // Relaxed: it requests that other workers stop, and is read again after the joins.
        self.at.fetch_min(at, Ordering::Relaxed);
    }

    /// Whether the items from `at` on are after it.
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
                    // In a `Result` of an `Option`, an error after this is not the first.
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
        // Errors of blocks after it do not count.
        self.error.block.record(at);
        self.before.end_at(at);
    }
}

/// Folds items until a step or a join fails; stores that error.
struct TryFold<N, F, J, E> {
    start: N,
    step: F,
    join: J,
    error: FirstError<E>,
}

/// The accumulator of a piece.
struct TryAcc<A> {
    /// The index of the first item, or `usize::MAX` before the first block.
    at: usize,
    /// `None` after an error.
    value: Option<A>,
}

impl<P, S, A, E, N, F, J> ItemSink<P, S> for TryFold<N, F, J, E>
where
    P: Producer,
    S: LoopStage<P::Item>,
    A: Send,
    E: Send,
    N: Fn() -> A + Sync,
    F: Fn(A, S::Out) -> Result<A, E> + Sync,
    J: Fn(A, A) -> Result<A, E> + Sync,
{
    type Acc = TryAcc<A>;

    #[inline]
    fn start(&self, _piece: &P) -> TryAcc<A> {
        TryAcc {
            at: usize::MAX,
            value: Some((self.start)()),
        }
    }

    #[inline]
    fn feed(&self, acc: TryAcc<A>, block: Block<'_, P, S>) -> TryAcc<A> {
        let Some(value) = acc.value else {
            return acc;
        };
        let (at, stage) = (block.at, block.stage);
        let value = match block.items().try_fold(value, &self.step) {
            Ok(value) => Some(value),
            Err(error) => {
                self.error.store(at, error);
                // For a collection in a `Result`: an error after this is not the first.
                stage.end_at(at);
                None
            }
        };
        TryAcc {
            at: acc.at.min(at),
            value,
        }
    }

    fn join(&self, left: TryAcc<A>, right: TryAcc<A>) -> TryAcc<A> {
        let joined = match (left.value, right.value) {
            (Some(first), Some(second)) => (self.join)(first, second),
            _ => {
                return TryAcc {
                    at: left.at,
                    value: None,
                };
            }
        };
        // Where the items of the right piece begin is where the fold could not continue.
        let joined = joined.map_err(|error| self.error.store(right.at, error));
        TryAcc {
            at: left.at,
            value: joined.ok(),
        }
    }

    #[inline]
    fn should_stop_at(&self, at: usize) -> bool {
        self.error.block.is_before(at)
    }
}

impl<P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'_, P, S, M> {
    /// Folds the items, as [`fold`](Self::fold) does, until a step fails; returns the error of the
    /// first item, in order, that has one. Items after that one are skipped, unless they have been
    /// started.
    ///
    /// `join` may fail as well: an error of it is one of the first item that it would have added.
    /// Whether it is called, and with what, depends on the workers. So that the result does not,
    /// `join` should fail only if the steps would.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let add = |a: u8, b: u8| a.checked_add(b).ok_or("more than 255");
    /// let total = |sizes: &[u8]| sizes.par().copied().try_fold(|| 0, add, add);
    /// assert_eq!(total(&[100, 150]), Ok(250));
    /// assert_eq!(total(&[100, 150, 6]), Err("more than 255"));
    /// ```
    pub fn try_fold<A: Send, E: Send>(
        self,
        start: impl Fn() -> A + Sync,
        step: impl Fn(A, S::Out) -> Result<A, E> + Sync,
        join: impl Fn(A, A) -> Result<A, E> + Sync,
    ) -> M::Out<Result<A, E>> {
        let sink = TryFold {
            start,
            step,
            join,
            error: FirstError::new(),
        };
        let folded = self.run(&sink);
        M::convert(folded, |folded| {
            match (sink.error.into_error(), folded.value) {
                (None, Some(value)) => Ok(value),
                (Some(error), _) => Err(error),
                (None, None) => unreachable!("a fold without a value has an error"),
            }
        })
    }

    /// Reduces the values of items that are `Ok`, as [`reduce`](Self::reduce) does, until an item
    /// or a result of `op` is an error; returns the first, in order. Items after that one are
    /// skipped, unless they have been started. `Ok(None)` without items.
    ///
    /// Like an error of the function `join` of [`try_fold`](Self::try_fold), one of `op` is one of
    /// the first item that `op` would have added.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let largest = |words: &[&str]| {
    ///     let numbers = words.par().map(|word| word.parse::<u32>());
    ///     numbers.try_reduce(|a, b| Ok(a.max(b)))
    /// };
    /// assert_eq!(largest(&["1", "30", "2"]), Ok(Some(30)));
    /// assert_eq!(largest(&["1", "x", "30", ""]), Err("x".parse::<u32>().unwrap_err()));
    /// ```
    #[doc(alias = "try_reduce_with")]
    pub fn try_reduce<T: Send, E: Send>(
        self,
        op: impl Fn(T, T) -> Result<T, E> + Sync,
    ) -> M::Out<Result<Option<T>, E>>
    where
        S: LoopStage<P::Item, Out = Result<T, E>>,
    {
        self.try_fold(
            || None,
            |acc: Option<T>, item| match acc {
                Some(acc) => op(acc, item?).map(Some),
                None => item.map(Some),
            },
            |left, right| match (left, right) {
                (Some(left), Some(right)) => op(left, right).map(Some),
                (left, right) => Ok(left.or(right)),
            },
        )
    }
}
