//! What to loop over, and how.

use super::{
    adapt::{Chunks, Cloned, Indexed, Zip},
    chunking::ChunkingStrategy,
    drive::{self, End, Sink},
    error::LoopCancelled,
    pace::Pacing,
    pieces::{Pieces, Source},
};
use crate::{
    cancel::CancelToken,
    pool::{self, Pool, context::WorkerContext},
};
use std::{fmt, marker::PhantomData};

/// A loop that has been set up and not begun: what to go through, where, and how. From [`over`](super::over).
///
/// Its methods come in three kinds: those that say how ([`on`](Self::on), [`min_chunk`](Self::min_chunk),
/// [`cancel`](Self::cancel), …), those that change the items ([`zip`](Self::zip), [`indexed`](Self::indexed), …), and
/// those that run it, which are all the others.
///
/// `M` says what these give: the result itself, or, of a loop that can be cancelled, `Ok` of it unless it was.
///
/// ```
/// use filch::{Pool, loops::over};
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
    pub(super) settings: Settings<'a>,
    mode: PhantomData<fn() -> M>,
}

/// How a loop is to be run.
pub(super) struct Settings<'a> {
    pub(super) pool: Option<&'a Pool>,
    pub(super) pacing: Pacing,
    pub(super) cancel: Option<&'a CancelToken>,
    pub(super) progress: Option<Progress<'a>>,
}

type Progress<'a> = Box<dyn Fn(usize) + Sync + 'a>;

impl Settings<'_> {
    /// Calls `f` where the loop should run.
    pub(super) fn enter_worker<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        match self.pool {
            Some(pool) => pool.enter_worker(f),
            None => pool::on_current(f),
        }
    }

    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(CancelToken::is_cancelled)
    }

    /// Whether anybody wants to know how many items are done.
    #[inline]
    pub(super) fn counts(&self) -> bool {
        self.cancel.is_some() || self.progress.is_some()
    }
}

/// What a loop gives; [`Plain`] or [`Cancellable`].
pub trait Mode: sealed::Mode {
    /// What comes of a loop whose result is `T`.
    type Out<T>;
}

/// The loop gives its result.
#[derive(Debug)]
pub enum Plain {}

/// The loop gives its result, or says that it was cancelled before.
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

    pub trait Mode {
        fn out<T>(result: T, cancelled: Option<LoopCancelled>) -> <Self as super::Mode>::Out<T>
        where
            Self: super::Mode;
    }

    impl Mode for super::Plain {
        fn out<T>(result: T, _cancelled: Option<LoopCancelled>) -> T {
            result
        }
    }

    impl Mode for super::Cancellable {
        fn out<T>(result: T, cancelled: Option<LoopCancelled>) -> Result<T, LoopCancelled> {
            match cancelled {
                Some(cancelled) => Err(cancelled),
                None => Ok(result),
            }
        }
    }
}

/// A loop over `source`: a slice, a range of integers, a vector, or your own [`Pieces`].
///
/// It runs on the pool that the caller works for, else on the [global one](Pool::global); the caller takes part. The
/// closures of the loop run on the same pool, and so do loops and joins in them.
///
/// ```
/// use filch::loops::over;
///
/// let squares = over(0..1_000).map(|n: i32| n * n);
/// assert_eq!(squares[30], 900);
/// assert_eq!(over(&squares).max(), Some(&998_001));
/// ```
pub fn over<'a, S: Source>(source: S) -> Loop<'a, S::Pieces> {
    Loop {
        pieces: source.into_pieces(),
        settings: Settings {
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
    pub fn over<S: Source>(&self, source: S) -> Loop<'_, S::Pieces> {
        over(source).on(self)
    }
}

impl<'a, P, M> Loop<'a, P, M> {
    /// Runs it on `pool`.
    ///
    /// ```
    /// use filch::{Pool, loops::over};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// assert_eq!(over(1..101_u32).on(&pool).sum::<u32>(), 5050);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn on(mut self, pool: &'a Pool) -> Self {
        self.settings.pool = Some(pool);
        self
    }

    /// Never cuts off fewer than `items` for others: when an item is next to nothing.
    ///
    /// ```
    /// let bytes = vec![1_u8; 5_000];
    /// let ones = filch::loops::over(&bytes).min_chunk(1_024).count(|byte| *byte == 1);
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

    /// Does at most `items` in one go, between two looks at whether somebody is hungry or the loop is cancelled: when
    /// some items take very much longer than others. If it is less than the [least](Self::min_chunk), it counts.
    ///
    /// ```
    /// use filch::loops::over;
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

    /// Shares the items with other workers from the very start. Else a loop of more than a few items tries some alone
    /// first, and wakes nobody before it has been busy for some 15 µs: take this when the first items may take much
    /// longer than all the others.
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

    /// Cuts the items into chunks beforehand, as `strategy` says, instead of adapting to what it finds. Takes the place
    /// of the other settings for chunks. A chunk is done by one worker, who still looks up every 16 µs or so, whether the
    /// loop is over and whether a future has been woken.
    ///
    /// ```
    /// use filch::loops::{ChunkingStrategy, over};
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

    /// Calls `progress` with the number of items done: every 10 ms or less often while the loop runs, on any of its
    /// workers, and once at the end.
    ///
    /// ```
    /// use filch::loops::over;
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

    /// Lets `token` end the loop early. From then on its operations give a `Result`.
    ///
    /// Workers look at the token between blocks of items, every 20 µs or so, or after one item if that takes longer.
    /// Items that have been begun are finished. Results that there are so far are dropped.
    ///
    /// ```
    /// use filch::{CancelToken, loops::over};
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
            settings: Settings {
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
    /// Items in pairs with those of `other`, as many as the shorter one has.
    ///
    /// ```
    /// use filch::loops::over;
    ///
    /// let (a, b) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
    /// let dot: f64 = over(&a).zip(&b).map_reduce(|(a, b)| a * b, |x, y| x + y).unwrap();
    /// assert_eq!(dot, 32.0);
    /// ```
    pub fn zip<S: Source>(self, other: S) -> Loop<'a, Zip<P, S::Pieces>, M> {
        self.with(|pieces| Zip(pieces, other.into_pieces()))
    }

    /// Items with their places, from 0 on.
    ///
    /// ```
    /// use filch::loops::over;
    ///
    /// let words = ["a", "b", "a"];
    /// assert_eq!(over(&words).indexed().filter_map(|(i, word)| (*word == "a").then_some(i)), [0, 2]);
    /// ```
    pub fn indexed(self) -> Loop<'a, Indexed<P>, M> {
        self.with(|pieces| Indexed { pieces, at: 0 })
    }

    /// Clones instead of references, for operations that put two items together.
    ///
    /// ```
    /// use filch::loops::over;
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
    pub(super) fn run<K: Sink<P>>(self, sink: &K) -> M::Out<K::Acc> {
        self.run_then(sink, |acc| acc)
    }

    /// Runs the loop, and makes something else of what it has gathered.
    pub(super) fn run_then<K, R>(self, sink: &K, then: impl FnOnce(K::Acc) -> R) -> M::Out<R>
    where
        K: Sink<P>,
    {
        let (acc, end) = drive::run(&self.settings, self.pieces, sink);
        self.settings.out::<M, _>(then(acc), end)
    }
}

impl Settings<'_> {
    /// The outcome of a loop.
    pub(super) fn out<M: Mode, T>(&self, result: T, end: End) -> M::Out<T> {
        let reason = self.cancel.and_then(CancelToken::reason);
        let cancelled = reason
            .filter(|_| end.cancelled)
            .map(|reason| LoopCancelled::new(end.done, end.total, reason));
        M::out(result, cancelled)
    }
}

impl<'a, 't, T: Sync, M: Mode> Loop<'a, &'t [T], M> {
    /// Slices of `size` items, the last one perhaps shorter, instead of single ones.
    ///
    /// ```
    /// use filch::loops::over;
    ///
    /// assert_eq!(over(&[1, 2, 3, 4, 5]).chunks(2).map(|chunk| chunk.len()), [2, 2, 1]);
    /// ```
    ///
    /// # Panics
    /// When `size` is zero.
    #[track_caller]
    pub fn chunks(self, size: usize) -> Loop<'a, Chunks<&'t [T]>, M> {
        self.with(|slice| Chunks::new(slice, size))
    }
}

impl<'a, 't, T: Send, M: Mode> Loop<'a, &'t mut [T], M> {
    /// Slices of `size` items, the last one perhaps shorter, instead of single ones: rows of a picture.
    ///
    /// ```
    /// use filch::loops::over;
    ///
    /// let mut picture = [0; 6];
    /// over(&mut picture).chunks(3).for_each_index(|y, row| row.fill(y));
    /// assert_eq!(picture, [0, 0, 0, 1, 1, 1]);
    /// ```
    ///
    /// # Panics
    /// When `size` is zero.
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
