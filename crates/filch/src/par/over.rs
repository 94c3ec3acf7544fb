//! The builder of loops.

use super::{
    adapt::{Chunks, Cloned, Indexed, Zip},
    chunking::ChunkingStrategy,
    drive::{self, ItemSink, LoopEnd},
    error::LoopCancelled,
    pace::Pacing,
    pieces::{IntoPieces, Pieces},
    settings::LoopSettings,
};
use crate::{cancel::CancelToken, pool::Pool};
use std::{fmt, marker::PhantomData};

/// A configured loop that has not been started: what to iterate over, on which pool, and how. From
/// [`over`](super::over).
///
/// Its methods are of three kinds: settings ([`on`](Self::on), [`min_chunk`](Self::min_chunk),
/// [`cancel`](Self::cancel), …), adapters of the items ([`zip`](Self::zip),
/// [`indexed`](Self::indexed), …), and operations that run the loop, which are all the others.
///
/// `M` determines what an operation returns: the result itself, or, for a loop that can be
/// cancelled, a `Result`.
///
/// ```
/// use filch::{Pool, par::over};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let words = ["to", "steal", "small", "things"];
/// let lengths = over(&words).on(&pool).min_chunk(2).map(|word| word.len());
/// assert_eq!(lengths, [2, 5, 5, 6]);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[must_use = "a loop does nothing before one of its operations is called"]
pub struct Loop<'a, P, M = Plain> {
    pub(super) pieces: P,
    pub(super) settings: LoopSettings<'a>,
    mode: PhantomData<fn() -> M>,
}

/// The return type of operations: [`Plain`] or [`Cancellable`].
pub trait Mode: sealed::ModeOutput {
    /// The return type of an operation whose result is `T`.
    type Out<T>;
}

/// Operations return their result.
#[derive(Debug)]
pub enum Plain {}

/// Operations return their result, or an error if the loop was cancelled.
#[derive(Debug)]
pub enum Cancellable {}

impl Mode for Plain {
    type Out<T> = T;
}

impl Mode for Cancellable {
    type Out<T> = Result<T, LoopCancelled>;
}

mod sealed {
    use super::LoopCancelled;

    pub trait ModeOutput {
        fn out<T>(result: T, cancelled: Option<LoopCancelled>) -> <Self as super::Mode>::Out<T>
        where
            Self: super::Mode;
    }

    impl ModeOutput for super::Plain {
        fn out<T>(result: T, _cancelled: Option<LoopCancelled>) -> T {
            result
        }
    }

    impl ModeOutput for super::Cancellable {
        fn out<T>(result: T, cancelled: Option<LoopCancelled>) -> Result<T, LoopCancelled> {
            match cancelled {
                Some(cancelled) => Err(cancelled),
                None => Ok(result),
            }
        }
    }
}

/// Creates a loop over `source`: a slice, a range of integers, a vector, or your own [`Pieces`].
///
/// It runs on the pool whose worker calls it, else on the [global pool](Pool::global); the caller
/// takes part. The closures of the loop run on the same pool, and so do loops and joins in them.
///
/// ```
/// use filch::par::over;
///
/// let squares = over(0..1_000).map(|n: i32| n * n);
/// assert_eq!(squares[30], 900);
/// assert_eq!(over(&squares).max(), Some(&998_001));
/// ```
pub fn over<'a, S: IntoPieces>(source: S) -> Loop<'a, S::Pieces> {
    Loop {
        pieces: source.into_pieces(),
        settings: LoopSettings {
            pool: None,
            pacing: Pacing::ADAPTIVE,
            cancel: None,
            progress: None,
        },
        mode: PhantomData,
    }
}

impl Pool {
    /// [`over`] on this pool.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.over(1..101_u32).sum::<u32>(), 5050);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn over<S: IntoPieces>(&self, source: S) -> Loop<'_, S::Pieces> {
        over(source).on(self)
    }
}

impl<'a, P, M> Loop<'a, P, M> {
    /// Runs it on `pool`.
    ///
    /// ```
    /// use filch::{Pool, par::over};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// assert_eq!(over(1..101_u32).on(&pool).sum::<u32>(), 5050);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn on(mut self, pool: &'a Pool) -> Self {
        self.settings.pool = Some(pool);
        self
    }

    /// Never shares fewer than `items`. Use it if an item costs next to nothing.
    ///
    /// ```
    /// let bytes = vec![1_u8; 5_000];
    /// let ones = filch::par::over(&bytes).min_chunk(1_024).count(|byte| *byte == 1);
    /// assert_eq!(ones, 5_000);
    /// ```
    pub fn min_chunk(mut self, items: usize) -> Self {
        let (_, max, eager) = self.adaptive();
        self.settings.pacing = Pacing::Adaptive {
            min: items,
            max,
            eager,
        };
        self
    }

    /// Runs at most `items` in one block, between two checks for idle workers and for cancellation.
    /// Use it if some items take very much longer than others. It takes precedence over a larger
    /// [`min_chunk`](Self::min_chunk).
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// over(0..100).max_chunk(1).for_each(|_| std::hint::black_box(()));
    /// ```
    pub fn max_chunk(mut self, items: usize) -> Self {
        let (min, _, eager) = self.adaptive();
        self.settings.pacing = Pacing::Adaptive {
            min,
            max: items,
            eager,
        };
        self
    }

    /// Shares the items with other workers from the start. By default a loop of more than a few
    /// items runs some alone first, and wakes no worker during its first 15 µs or so. Use it if the
    /// first items may take much longer than all the others.
    ///
    /// ```
    /// let sum: u32 = filch::over(0..1_000_u32).eager().sum();
    /// assert_eq!(sum, 499_500);
    /// ```
    pub fn eager(mut self) -> Self {
        let (min, max, _) = self.adaptive();
        self.settings.pacing = Pacing::Adaptive {
            min,
            max,
            eager: true,
        };
        self
    }

    /// Cuts the items into chunks beforehand, according to `strategy`, instead of adapting. It
    /// replaces the other settings for chunks. A chunk is run by one worker, which still checks
    /// about every 16 µs whether the loop is cancelled and whether a future has been woken.
    ///
    /// ```
    /// use filch::par::{ChunkingStrategy, over};
    ///
    /// let strategy = ChunkingStrategy::new(10, 1_000, 3)?;
    /// assert_eq!(over(0..5_000_u64).chunking(strategy).sum::<u64>(), 12_497_500);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn chunking(mut self, strategy: ChunkingStrategy) -> Self {
        self.settings.pacing = Pacing::Chunks(strategy);
        self
    }

    fn adaptive(&self) -> (usize, usize, bool) {
        match self.settings.pacing {
            Pacing::Adaptive { min, max, eager } => (min, max, eager),
            Pacing::Chunks(_) => (1, usize::MAX, false),
        }
    }

    /// Calls `progress` with the number of items done: at most every 10 ms while the loop runs, on
    /// any of its workers, and once at the end.
    ///
    /// ```
    /// use filch::par::over;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let bar = AtomicUsize::new(0);
    /// over(0..1_000).progress(|done| bar.store(done, Ordering::Relaxed)).for_each(|_| ());
    /// assert_eq!(bar.into_inner(), 1_000);
    /// ```
    pub fn progress(mut self, progress: impl Fn(usize) + Sync + 'a) -> Self {
        self.settings.progress = Some(Box::new(progress));
        self
    }

    /// Lets `token` end the loop early. After this the operations return a `Result`.
    ///
    /// Workers check the token between blocks of items, about every 16 µs, or after one item if
    /// that takes longer. Items that have been started are finished. The results so far are
    /// dropped.
    ///
    /// ```
    /// use filch::{CancelToken, par::over};
    ///
    /// let token = CancelToken::new();
    /// assert_eq!(over(0..3).cancel(&token).map(|n| n + 1), Ok(vec![1, 2, 3]));
    ///
    /// let error = over(0..u64::MAX)
    ///     .cancel(&token)
    ///     .for_each(|n| if n == 1_000 { token.cancel(); })
    ///     .unwrap_err();
    /// assert!(error.done() >= 1_000);
    /// ```
    pub fn cancel(self, token: &'a CancelToken) -> Loop<'a, P, Cancellable> {
        Loop {
            pieces: self.pieces,
            settings: LoopSettings {
                cancel: Some(token),
                ..self.settings
            },
            mode: PhantomData,
        }
    }

    pub(super) fn with<Q>(self, change: impl FnOnce(P) -> Q) -> Loop<'a, Q, M> {
        Loop {
            pieces: change(self.pieces),
            settings: self.settings,
            mode: PhantomData,
        }
    }
}

impl<'a, P: Pieces, M: Mode> Loop<'a, P, M> {
    /// Pairs of items with those of `other`, as many as the shorter one has.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let (a, b) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
    /// let dot: f64 = over(&a).zip(&b).map_reduce(|(a, b)| a * b, |x, y| x + y).unwrap();
    /// assert_eq!(dot, 32.0);
    /// ```
    pub fn zip<S: IntoPieces>(self, other: S) -> Loop<'a, Zip<P, S::Pieces>, M> {
        self.with(|pieces| Zip(pieces, other.into_pieces()))
    }

    /// Items with their indices, from 0 on.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let words = ["a", "b", "a"];
    /// assert_eq!(over(&words).indexed().filter_map(|(i, word)| (*word == "a").then_some(i)), [0, 2]);
    /// ```
    pub fn indexed(self) -> Loop<'a, Indexed<P>, M> {
        self.with(|pieces| Indexed { pieces, at: 0 })
    }

    /// Clones instead of references, for operations that combine two items.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let words = ["to ", "steal"].map(String::from);
    /// assert_eq!(over(&words).cloned().reduce(|a, b| a + &b).unwrap(), "to steal");
    /// ```
    pub fn cloned<'t, T: Clone + 't>(self) -> Loop<'a, Cloned<P>, M>
    where
        P: Pieces<Item = &'t T>,
    {
        self.with(Cloned)
    }

    /// Runs the loop.
    pub(super) fn run<K: ItemSink<P>>(self, sink: &K) -> M::Out<K::Acc> {
        self.run_then(sink, |acc| acc)
    }

    /// Runs the loop, and maps the accumulator.
    pub(super) fn run_then<K, R>(self, sink: &K, then: impl FnOnce(K::Acc) -> R) -> M::Out<R>
    where
        K: ItemSink<P>,
    {
        let (acc, end) = drive::run(&self.settings, self.pieces, sink);
        self.settings.out::<M, _>(then(acc), end)
    }
}

impl LoopSettings<'_> {
    /// Converts the outcome of a loop.
    pub(super) fn out<M: Mode, T>(&self, result: T, end: LoopEnd) -> M::Out<T> {
        let reason = self.cancel.and_then(CancelToken::reason);
        let cancelled = reason
            .filter(|_| end.cancelled)
            .map(|reason| LoopCancelled::new(end.done, end.total, reason));
        M::out(result, cancelled)
    }
}

impl<'a, 't, T: Sync, M: Mode> Loop<'a, &'t [T], M> {
    /// Slices of `size` items, the last one perhaps shorter, instead of single items.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// assert_eq!(over(&[1, 2, 3, 4, 5]).chunks(2).map(|chunk| chunk.len()), [2, 2, 1]);
    /// ```
    ///
    /// # Panics
    /// If `size` is zero.
    #[track_caller]
    pub fn chunks(self, size: usize) -> Loop<'a, Chunks<&'t [T]>, M> {
        self.with(|slice| Chunks::new(slice, size))
    }
}

impl<'a, 't, T: Send, M: Mode> Loop<'a, &'t mut [T], M> {
    /// Slices of `size` items, the last one perhaps shorter, instead of single items: rows of an
    /// image.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let mut picture = [0; 6];
    /// over(&mut picture).chunks(3).for_each_index(|y, row| row.fill(y));
    /// assert_eq!(picture, [0, 0, 0, 1, 1, 1]);
    /// ```
    ///
    /// # Panics
    /// If `size` is zero.
    #[track_caller]
    pub fn chunks(self, size: usize) -> Loop<'a, Chunks<&'t mut [T]>, M> {
        self.with(|slice| Chunks::new(slice, size))
    }
}

impl<P: Pieces, M> fmt::Debug for Loop<'_, P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop")
            .field("pacing", &self.settings.pacing)
            .finish_non_exhaustive()
    }
}
