//! Lazy steps: what is done with the items, one by one, before the operation that runs the loop.

use super::{
    adapt::{Chain, Chunks, Enumerate, IndexedSource, Rev, StepBy, Windows, Zip},
    over::{Loop, Mode},
    producer::{ExactProducer, Producer},
    stage::{
        ChainStage, Cloned, EnumerateStage, Filter, FilterMap, FlatMap, Identity, Inspect,
        ItemStage, LoopStage, Map, MapInit, ZipStage,
    },
};
use crate::sync::WorkerLocal;

impl<'a, P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'a, P, S, M> {
    /// The results of `f` for the items.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let lengths: Vec<usize> = over(&["a", "bc"]).map(|word| word.len()).collect();
    /// assert_eq!(lengths, [1, 2]);
    /// ```
    pub fn map<R, F>(self, f: F) -> Loop<'a, P, Map<S, F>, M>
    where
        F: Fn(S::Out) -> R + Sync,
    {
        self.with_stage(|before| Map { before, f })
    }

    /// The results of `f`, which gets a scratch value as well: `init` creates one, and each worker
    /// reuses its own for all blocks that it runs. There are about as many as workers.
    ///
    /// ```
    /// use filch::prelude::*;
    /// use std::fmt::Write;
    ///
    /// let digits: usize = (0..1_000)
    ///     .into_par()
    ///     .map_init(String::new, |text, n: u32| {
    ///         text.clear();
    ///         write!(text, "{n}").unwrap();
    ///         text.len()
    ///     })
    ///     .sum();
    /// assert_eq!(digits, 2890);
    /// ```
    #[doc(alias = "map_with")]
    pub fn map_init<W, R, N, F>(self, init: N, f: F) -> Loop<'a, P, MapInit<S, W, N, F>, M>
    where
        W: Send,
        N: Fn() -> W + Sync,
        F: Fn(&mut W, S::Out) -> R + Sync,
    {
        self.with_stage(|before| MapInit {
            before,
            scratch: WorkerLocal::new(),
            init,
            f,
        })
    }

    /// The items for which `wanted` holds.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// assert_eq!(over(0..10).filter(|n| n % 3 == 0).to_vec(), [0, 3, 6, 9]);
    /// ```
    pub fn filter<F>(self, wanted: F) -> Loop<'a, P, Filter<S, F>, M>
    where
        F: Fn(&S::Out) -> bool + Sync,
    {
        self.with_stage(|before| Filter { before, wanted })
    }

    /// The results of `f` that are `Some`.
    ///
    /// ```
    /// let words = ["1", "two", "3"];
    /// let sum: u32 = filch::over(&words).filter_map(|word| word.parse::<u32>().ok()).sum();
    /// assert_eq!(sum, 4);
    /// ```
    pub fn filter_map<R, F>(self, f: F) -> Loop<'a, P, FilterMap<S, F>, M>
    where
        F: Fn(S::Out) -> Option<R> + Sync,
    {
        self.with_stage(|before| FilterMap { before, f })
    }

    /// The items of the results of `f`. The iterator of one result runs on one worker.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let words = over(&["to steal", "small things"]).flat_map(|line| line.split(' '));
    /// assert_eq!(words.to_vec(), ["to", "steal", "small", "things"]);
    /// ```
    #[doc(alias = "flat_map_iter")]
    pub fn flat_map<R, F>(self, f: F) -> Loop<'a, P, FlatMap<S, F>, M>
    where
        R: IntoIterator,
        F: Fn(S::Out) -> R + Sync,
    {
        self.with_stage(|before| FlatMap { before, f })
    }

    /// Calls `f` with each item that passes.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let sum: u32 = over(0..4_u32).inspect(|n| println!("adding {n}")).sum();
    /// assert_eq!(sum, 6);
    /// ```
    pub fn inspect<F>(self, f: F) -> Loop<'a, P, Inspect<S, F>, M>
    where
        F: Fn(&S::Out) + Sync,
    {
        self.with_stage(|before| Inspect { before, f })
    }

    /// Clones instead of references.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let words = ["to ", "steal"].map(String::from);
    /// assert_eq!(over(&words).cloned().reduce(|a, b| a + &b).unwrap(), "to steal");
    /// ```
    pub fn cloned<'t, T: Clone + 't>(self) -> Loop<'a, P, Cloned<S>, M>
    where
        S: LoopStage<P::Item, Out = &'t T>,
    {
        self.with_stage(|before| Cloned { before })
    }

    /// Copies instead of references.
    ///
    /// ```
    /// assert_eq!(filch::over(&[3, 1, 2]).copied().max(), Some(3));
    /// ```
    pub fn copied<'t, T: Copy + 't>(self) -> Loop<'a, P, Cloned<S>, M>
    where
        S: LoopStage<P::Item, Out = &'t T>,
    {
        self.cloned()
    }
}

/// Steps for loops whose items have indices. The bounds are those of the methods, not of the
/// `impl`: so the compiler says which one does not hold.
impl<'a, P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'a, P, S, M> {
    /// Items with their indices, from 0 on.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let words = ["a", "b", "a"];
    /// let places = over(&words).enumerate().filter(|(_, word)| **word == "a").map(|(i, _)| i);
    /// assert_eq!(places.to_vec(), [0, 2]);
    /// ```
    ///
    /// After a `filter`, a `filter_map` or a `flat_map` the index of an item depends on all items
    /// before it, so this does not compile:
    ///
    /// ```compile_fail,E0277
    /// filch::over(0..10).filter(|n| n % 3 == 0).enumerate().to_vec();
    /// ```
    ///
    /// Enumerate first, for the indices in the source, or collect the items, for those after the
    /// filter.
    pub fn enumerate(self) -> Loop<'a, Enumerate<P>, EnumerateStage<S>, M>
    where
        P: ExactProducer,
        S: ItemStage<P::Item>,
    {
        self.with_producer(|producer| Enumerate { producer, at: 0 })
            .with_stage(EnumerateStage)
    }

    /// Pairs of items with those of `other`, as many as the shorter one has.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let (a, b) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
    /// let dot: f64 = over(&a).zip(&b).map(|(a, b)| a * b).sum();
    /// assert_eq!(dot, 32.0);
    /// ```
    #[expect(
        clippy::type_complexity,
        reason = "the steps are in the type, as of iterators"
    )]
    pub fn zip<O>(self, other: O) -> Loop<'a, Zip<P, O::Producer>, ZipStage<S, O::Stage>, M>
    where
        P: ExactProducer,
        S: ItemStage<P::Item>,
        O: IndexedSource,
    {
        let (producer, stage) = other.into_source();
        self.with_producer(|first| Zip(first, producer))
            .with_stage(|first| ZipStage(first, stage))
    }

    /// The items, then those of `other`.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// assert_eq!(over(0..2).chain(5..8).map(|n| n * 10).to_vec(), [0, 10, 50, 60, 70]);
    /// ```
    #[expect(
        clippy::type_complexity,
        reason = "the steps are in the type, as of iterators"
    )]
    pub fn chain<O>(self, other: O) -> Loop<'a, Chain<P, O::Producer>, ChainStage<S, O::Stage>, M>
    where
        P: ExactProducer,
        S: ItemStage<P::Item>,
        O: IndexedSource<Item = S::Out>,
    {
        let (producer, stage) = other.into_source();
        self.with_producer(|first| Chain::new(first, producer))
            .with_stage(|first| ChainStage(first, stage))
    }

    /// The items from the last to the first.
    ///
    /// ```
    /// assert_eq!(filch::over(0..4).rev().to_vec(), [3, 2, 1, 0]);
    /// ```
    pub fn rev(self) -> Loop<'a, Rev<P>, S, M>
    where
        P: ExactProducer<Iter: DoubleEndedIterator>,
        S: ItemStage<P::Item>,
    {
        // It makes no difference whether items are reversed before the stage or after it. What
        // has no partner in a zip is cut off: it would have to be skipped, item by item, to find
        // the last pair.
        self.with_producer(|producer| {
            let size = producer.size();
            Rev(producer.split_at(size).0)
        })
    }

    /// Every `step`-th item, beginning with the first.
    ///
    /// ```
    /// assert_eq!(filch::over(0..10).step_by(4).to_vec(), [0, 4, 8]);
    /// ```
    ///
    /// # Panics
    /// If `step` is zero.
    #[track_caller]
    pub fn step_by(self, step: usize) -> Loop<'a, StepBy<P>, S, M>
    where
        P: ExactProducer,
        S: ItemStage<P::Item>,
    {
        assert!(step > 0, "a step of 0 items; take at least 1");
        self.with_producer(|producer| StepBy { producer, step })
    }

    /// The first `count` items, or all if there are fewer.
    ///
    /// ```
    /// assert_eq!(filch::over(0..1_000_000).take(2).to_vec(), [0, 1]);
    /// ```
    pub fn take(self, count: usize) -> Self
    where
        P: ExactProducer,
        S: ItemStage<P::Item>,
    {
        self.with_producer(|producer| {
            let count = count.min(producer.size());
            producer.split_at(count).0
        })
    }

    /// The items without the first `count`.
    ///
    /// ```
    /// assert_eq!(filch::over(0..5).skip(3).to_vec(), [3, 4]);
    /// ```
    pub fn skip(self, count: usize) -> Self
    where
        P: ExactProducer,
        S: ItemStage<P::Item>,
    {
        self.with_producer(|producer| {
            let count = count.min(producer.size());
            producer.split_at(count).1
        })
    }
}

impl<'a, 't, T: Sync, M: Mode> Loop<'a, &'t [T], Identity, M> {
    /// Slices of `size` items, the last one perhaps shorter, instead of single items.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let lengths = over(&[1, 2, 3, 4, 5]).chunks(2).map(|chunk| chunk.len());
    /// assert_eq!(lengths.to_vec(), [2, 2, 1]);
    /// ```
    ///
    /// # Panics
    /// If `size` is zero.
    #[doc(alias = "par_chunks")]
    #[track_caller]
    pub fn chunks(self, size: usize) -> Loop<'a, Chunks<&'t [T]>, Identity, M> {
        self.with_producer(|slice| Chunks::new(slice, size))
    }

    /// All slices of `size` adjacent items. None if there are fewer.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let steps = over(&[1, 4, 9, 16]).windows(2).map(|pair| pair[1] - pair[0]);
    /// assert_eq!(steps.to_vec(), [3, 5, 7]);
    /// ```
    ///
    /// # Panics
    /// If `size` is zero.
    #[doc(alias = "par_windows")]
    #[track_caller]
    pub fn windows(self, size: usize) -> Loop<'a, Windows<'t, T>, Identity, M> {
        self.with_producer(|slice| Windows::new(slice, size))
    }
}

impl<'a, 't, T: Send, M: Mode> Loop<'a, &'t mut [T], Identity, M> {
    /// Slices of `size` items, the last one perhaps shorter, instead of single items: rows of an
    /// image.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let mut picture = [0; 6];
    /// over(&mut picture).chunks(3).enumerate().for_each(|(y, row)| row.fill(y));
    /// assert_eq!(picture, [0, 0, 0, 1, 1, 1]);
    /// ```
    ///
    /// # Panics
    /// If `size` is zero.
    #[doc(alias = "par_chunks_mut")]
    #[track_caller]
    pub fn chunks(self, size: usize) -> Loop<'a, Chunks<&'t mut [T]>, Identity, M> {
        self.with_producer(|slice| Chunks::new(slice, size))
    }
}
