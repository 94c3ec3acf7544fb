//! The builder of loops.

use super::{
    chunking::ChunkingStrategy,
    drive::{self, ItemSink, LoopEnd},
    error::LoopCancelled,
    pace::Pacing,
    producer::{IntoProducer, Producer},
    settings::LoopSettings,
    stage::{Identity, LoopStage},
};
use crate::{
    cancel::CancelToken,
    pool::{Pool, job_limit::JobLimit},
};
use std::{fmt, marker::PhantomData};

/// A loop that has not been started: its source, the lazy steps after it, on which pool, and how.
/// From [`over`](super::over), or from `data.par()` with the [prelude](crate::prelude).
///
/// Its methods are of three kinds: settings ([`on`](Self::on), [`min_chunk`](Self::min_chunk),
/// [`cancel`](Self::cancel), …); lazy steps ([`map`](Self::map), [`filter`](Self::filter),
/// [`zip`](Self::zip), …), which return a loop; and operations that run the loop, which are all the
/// others. The loop passes over the items once, however many steps there are.
///
/// `P` is the source, `S` the steps. `M` determines what an operation returns: the result itself,
/// or, for a loop that can be cancelled, a `Result`.
///
/// ```
/// use filch::{Pool, par::over};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let words = ["to", "steal", "small", "things"];
/// let letters: usize = over(&words).on(&pool).min_chunk(2).map(|word| word.len()).sum();
/// assert_eq!(letters, 18);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[doc(alias("ParallelIterator", "IndexedParallelIterator"))]
#[must_use = "a loop does nothing before its end: call `for_each`, `collect`, `sum` or another"]
pub struct Loop<'a, P, S = Identity, M = Plain> {
    pub(super) producer: P,
    pub(super) stage: S,
    pub(super) settings: LoopSettings<'a>,
    mode: PhantomData<fn() -> M>,
}

/// The return type of operations: [`Plain`] or [`Cancellable`].
pub trait Mode: sealed::ModeOutput {
    /// The return type of an operation whose result is `T`.
    type Out<T>;

    /// Converts the result of an operation.
    ///
    /// ```
    /// use filch::par::{Mode, Plain};
    ///
    /// assert_eq!(Plain::convert("42", str::len), 2);
    /// ```
    fn convert<T, R>(out: Self::Out<T>, f: impl FnOnce(T) -> R) -> Self::Out<R>;
}

/// Operations return their result.
#[derive(Debug)]
pub enum Plain {}

/// Operations return their result, or an error if the loop was cancelled.
#[derive(Debug)]
pub enum Cancellable {}

impl Mode for Plain {
    type Out<T> = T;

    fn convert<T, R>(out: T, f: impl FnOnce(T) -> R) -> R {
        f(out)
    }
}

impl Mode for Cancellable {
    type Out<T> = Result<T, LoopCancelled>;

    fn convert<T, R>(out: Self::Out<T>, f: impl FnOnce(T) -> R) -> Self::Out<R> {
        out.map(f)
    }
}

mod sealed {
    use super::LoopCancelled;

    pub trait ModeOutput {
        fn output<T>(result: T, cancelled: Option<LoopCancelled>) -> <Self as super::Mode>::Out<T>
        where
            Self: super::Mode;
    }

    impl ModeOutput for super::Plain {
        fn output<T>(result: T, _cancelled: Option<LoopCancelled>) -> T {
            result
        }
    }

    impl ModeOutput for super::Cancellable {
        fn output<T>(result: T, cancelled: Option<LoopCancelled>) -> Result<T, LoopCancelled> {
            match cancelled {
                Some(cancelled) => Err(cancelled),
                None => Ok(result),
            }
        }
    }
}

/// Creates a loop over `source`: a slice, a range of integers, a vector, or your own [`Producer`].
///
/// It runs on the [current pool](crate::Pool#the-current-pool); the caller takes part. The closures
/// of the loop run on the same pool, and so do loops and joins in them.
///
/// ```
/// use filch::par::over;
///
/// let squares: Vec<i32> = over(0..1_000).map(|n| n * n).collect();
/// assert_eq!(squares[30], 900);
/// assert_eq!(over(&squares).max(), Some(&998_001));
/// ```
pub fn over<'a, S: IntoProducer>(source: S) -> Loop<'a, S::Producer> {
    Loop {
        producer: source.into_producer(),
        stage: Identity,
        settings: LoopSettings {
            pool: None,
            pacing: Pacing::ADAPTIVE,
            at_most: None,
            cancel: None,
            progress: None,
            chunks: None,
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
    pub fn over<S: IntoProducer>(&self, source: S) -> Loop<'_, S::Producer> {
        over(source).on(self)
    }
}

impl<'a, P, S, M> Loop<'a, P, S, M> {
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
    /// let ones = filch::par::over(&bytes).min_chunk(1_024).filter(|byte| **byte == 1).count();
    /// assert_eq!(ones, 5_000);
    /// ```
    #[doc(alias = "with_min_len")]
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
    #[doc(alias = "with_max_len")]
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

    /// Returns the settings of an adaptive loop: `min`, `max` and `eager`.
    fn adaptive(&self) -> (usize, usize, bool) {
        match self.settings.pacing {
            Pacing::Adaptive { min, max, eager } => (min, max, eager),
            Pacing::Chunks(_) => (1, usize::MAX, false),
        }
    }

    /// Lets at most `workers` run items at the same time. The others are free for other work. Sorts
    /// use all workers nevertheless.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    ///
    /// let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    /// filch::over(0..1_000).at_most(2).for_each(|_| {
    ///     most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
    ///     running.fetch_sub(1, SeqCst);
    /// });
    /// assert!(most.into_inner() <= 2);
    /// ```
    ///
    /// # Panics
    /// If `workers` is zero.
    pub fn at_most(mut self, workers: usize) -> Self {
        JobLimit::check(workers, "workers of a loop");
        self.settings.at_most = Some(workers);
        self
    }

    /// Calls `progress` with the number of items done: at most every 10 ms while the loop runs, on
    /// any of its workers, and once at the end. They are items of the source, before `filter` and
    /// the like; bytes in loops over lines or characters.
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
    /// assert_eq!(over(0..3).cancel(&token).map(|n| n + 1).sum::<i32>(), Ok(6));
    ///
    /// let error = over(0..u64::MAX)
    ///     .cancel(&token)
    ///     .for_each(|n| if n == 1_000 { token.cancel(); })
    ///     .unwrap_err();
    /// assert!(error.done() >= 1_000);
    /// ```
    pub fn cancel(self, token: &'a CancelToken) -> Loop<'a, P, S, Cancellable> {
        Loop {
            producer: self.producer,
            stage: self.stage,
            settings: LoopSettings {
                cancel: Some(token),
                ..self.settings
            },
            mode: PhantomData,
        }
    }

    /// Replaces the source.
    pub(super) fn with_producer<Q>(self, change: impl FnOnce(P) -> Q) -> Loop<'a, Q, S, M> {
        Loop {
            producer: change(self.producer),
            stage: self.stage,
            settings: self.settings,
            mode: PhantomData,
        }
    }

    /// Replaces the stage.
    pub(super) fn with_stage<R>(self, change: impl FnOnce(S) -> R) -> Loop<'a, P, R, M> {
        Loop {
            producer: self.producer,
            stage: change(self.stage),
            settings: self.settings,
            mode: PhantomData,
        }
    }
}

impl<P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'_, P, S, M> {
    /// Runs the loop.
    pub(super) fn run<K: ItemSink<P, S>>(self, sink: &K) -> M::Out<K::Acc> {
        self.run_then(sink, |acc| acc)
    }

    /// Runs the loop, and converts the accumulator.
    pub(super) fn run_then<K, R>(self, sink: &K, then: impl FnOnce(K::Acc) -> R) -> M::Out<R>
    where
        K: ItemSink<P, S>,
    {
        let (acc, loop_end) = drive::run(&self.settings, self.producer, &self.stage, sink);
        self.settings.output::<M, _>(then(acc), loop_end)
    }
}

impl LoopSettings<'_> {
    /// Converts the outcome of a loop.
    pub(super) fn output<M: Mode, T>(&self, result: T, loop_end: LoopEnd) -> M::Out<T> {
        let reason = self.cancel.and_then(CancelToken::reason);
        let cancelled = reason
            .filter(|_| loop_end.cancelled)
            .map(|reason| LoopCancelled::new(loop_end.done, loop_end.total, reason));
        M::output(result, cancelled)
    }
}

impl<P, S, M> fmt::Debug for Loop<'_, P, S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop")
            .field("pacing", &self.settings.pacing)
            .finish_non_exhaustive()
    }
}
