//! Sorting.
//!
//! A slice that is in order, or in reverse, is recognised first.
//!
//! A stable sort splits the slice into runs, whose number is a power of four, and which the
//! standard library sorts. Adjacent runs are then merged, two by two, back and forth between the
//! slice and a buffer of the same size. (Runs of which only a few items are out of order are sorted
//! by `nearly`.) A merge is itself split by binary search, recursively, so that all workers take
//! part in the last one too.
//!
//! An unstable sort partitions the slice in place, and leaves small parts to the standard library.
//! If most items are in order, they stay so, and `nearly` sorts one part for each worker.
//! With more than `MAX_QUICKSORT_WORKERS` it is sorted by merges too: the first partition is
//! sequential, and takes longer than a worker's share of the rest.

use super::{
    drive::LoopEnd,
    merge::MergeSort,
    nearly,
    over::{Loop, Mode},
    quick::{self, Quicksort},
    settings::LoopSettings,
    stage::Identity,
};
use crate::base::sync::{AtomicBool, Ordering as Atomically};
use std::cmp::Ordering;

/// Slices shorter than this, some 20 µs of sorting, are left to the standard library: waking a
/// worker would not pay.
const MIN_PARALLEL_LEN: usize = 2_000;

/// The shortest run, in items.
const MIN_RUN_LEN: usize = 1_000;
/// The number of runs for each worker: enough for a worker to find one when another takes longer,
/// and few, because each merge level passes over all items.
const RUNS_PER_WORKER: usize = 2;

/// Slices shorter than this are not split if the queue has other jobs to steal: no worker is idle
/// because of this sort, and merges have a cost.
const MIN_INNER_PARALLEL_LEN: usize = 50_000;

/// How often `len` items are halved for this number of workers. An even number, so that the last
/// merge ends in the slice.
fn halvings(len: usize, workers: usize) -> u32 {
    let runs = (len / MIN_RUN_LEN).min(workers.saturating_mul(RUNS_PER_WORKER));
    let mut halvings = 0;
    while 1 << halvings < runs {
        halvings += 2;
    }
    halvings
}

/// The most workers for which an unstable sort is a quicksort.
const MAX_QUICKSORT_WORKERS: usize = 8;

/// Parts of a quicksort for each worker: they are of unequal length.
const PARTS_PER_WORKER: usize = 4;

/// Whether equal items have to keep their order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Stable,
    Unstable,
}

impl LoopSettings<'_> {
    fn sort<T: Send>(
        &self,
        slice: &mut [T],
        order: Order,
        sort: impl Fn(&mut [T]) + Sync,
        less: impl Fn(&T, &T) -> bool + Sync,
    ) -> LoopEnd {
        let len = slice.len();
        if self.is_cancelled() {
            return LoopEnd {
                cancelled: true,
                done: 0,
                total: len,
            };
        }
        let unsorted = AtomicBool::new(false);
        let sort_run = |run: &mut [T]| {
            if !nearly::sort_nearly_sorted(run, &less) {
                sort(run);
            }
        };
        if len < MIN_PARALLEL_LEN || size_of::<T>() == 0 {
            sort(slice);
        } else {
            self.enter_worker(|context| {
                let workers = context.pool().live_workers() + usize::from(context.is_temporary());
                let alone = workers == 1 || len < MIN_INNER_PARALLEL_LEN && context.has_queued();
                if !alone {
                    let is_cancelled = || {
                        let cancelled = self.is_cancelled();
                        if cancelled {
                            // Relaxed: read after the joins, when all workers are done.
                            unsorted.store(true, Atomically::Relaxed);
                        }
                        cancelled
                    };
                    if quick::sort_if_ordered(slice, &less) {
                        return;
                    }
                    let by_partition = order == Order::Unstable && workers <= MAX_QUICKSORT_WORKERS;
                    if by_partition && nearly::looks_nearly_sorted(slice, &less) {
                        let leaf = len / workers;
                        let sort = Quicksort::new(&sort_run, &less, &is_cancelled, leaf + leaf / 8);
                        sort.nearly_sorted().sort(slice);
                    } else if by_partition {
                        let leaf = len / (workers * PARTS_PER_WORKER);
                        Quicksort::new(&sort, &less, &is_cancelled, leaf).sort(slice);
                    } else {
                        MergeSort::new(&sort_run, &less, &is_cancelled)
                            .sort(slice, halvings(len, workers));
                    }
                } else {
                    sort_run(slice);
                }
            });
        }
        // Set if a worker has skipped a run or a merge because of the cancellation. Relaxed: as
        // above.
        let cancelled = unsorted.load(Atomically::Relaxed);
        let done = if cancelled { 0 } else { len };
        if let Some(progress) = &self.progress {
            progress(done);
        }
        LoopEnd {
            cancelled,
            done,
            total: len,
        }
    }
}

impl<T: Send, M: Mode> Loop<'_, &mut [T], Identity, M> {
    /// Sorts the items; equal ones keep their order.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let mut words = ["things", "small", "steal"];
    /// over(&mut words).sort();
    /// assert_eq!(words, ["small", "steal", "things"]);
    /// ```
    ///
    /// Settings for chunks have no effect on sorts, and progress is reported at the end. A
    /// cancelled sort leaves all items in the slice, in any order. So does a panic of a comparison,
    /// after which no worker begins another run or merge. A run, of which there are two or more for
    /// each worker, is sorted without checking the token. A short slice, of fewer than 2,000 items,
    /// is sorted by the caller, which does not enter the pool for it.
    ///
    /// # Memory
    /// A buffer as large as the slice. None if the items are in order, or strictly in reverse. With
    /// one worker, and for a short slice, it is what [`slice::sort`] allocates.
    #[doc(alias = "par_sort")]
    pub fn sort(self) -> M::Out<()>
    where
        T: Ord,
    {
        self.sort_with(Order::Stable, <[T]>::sort, T::lt)
    }

    /// [`sort`](Self::sort) in the order of `compare`.
    ///
    /// ```
    /// let mut values = [2.5_f64, -1.0, 0.0];
    /// filch::par::over(&mut values).sort_by(|a, b| b.total_cmp(a));
    /// assert_eq!(values, [2.5, 0.0, -1.0]);
    /// ```
    #[doc(alias = "par_sort_by")]
    pub fn sort_by(self, compare: impl Fn(&T, &T) -> Ordering + Sync) -> M::Out<()> {
        self.sort_with(
            Order::Stable,
            |run| run.sort_by(&compare),
            |a, b| compare(a, b) == Ordering::Less,
        )
    }

    /// [`sort`](Self::sort) in the order of the keys, which are computed for every comparison.
    ///
    /// ```
    /// let mut words = ["things", "to", "steal"];
    /// filch::par::over(&mut words).sort_by_key(|word| word.len());
    /// assert_eq!(words, ["to", "steal", "things"]);
    /// ```
    #[doc(alias = "par_sort_by_key")]
    pub fn sort_by_key<Q: Ord>(self, key: impl Fn(&T) -> Q + Sync) -> M::Out<()> {
        self.sort_with(
            Order::Stable,
            |run| run.sort_by_key(&key),
            |a, b| key(a) < key(b),
        )
    }

    /// Sorts the items; equal ones end up in any order. Faster than [`sort`](Self::sort) for small
    /// items. Settings, cancellation and panics are as there.
    ///
    /// ```
    /// let mut values: Vec<u32> = (0..10_000).map(|n| n * 7_919 % 10_000).collect();
    /// filch::par::over(&mut values).sort_unstable();
    /// assert!(values.is_sorted());
    /// ```
    ///
    /// # Memory
    /// None: it is a quicksort in place. There are two exceptions. If most items are in order, the
    /// others, at most one in 32, are moved to a list and back, with a number for each. With more
    /// than 8 workers, among them a caller from outside, the items are merged as by `sort`, with a
    /// buffer as large as the slice: the first partition of a quicksort, by one worker, would take
    /// longer than all the rest. Items in order, or strictly in reverse, need neither.
    #[doc(alias = "par_sort_unstable")]
    pub fn sort_unstable(self) -> M::Out<()>
    where
        T: Ord,
    {
        self.sort_with(Order::Unstable, <[T]>::sort_unstable, T::lt)
    }

    /// [`sort_unstable`](Self::sort_unstable) in the order of `compare`.
    ///
    /// ```
    /// let mut values = [1, 3, 2];
    /// filch::par::over(&mut values).sort_unstable_by(|a, b| b.cmp(a));
    /// assert_eq!(values, [3, 2, 1]);
    /// ```
    #[doc(alias = "par_sort_unstable_by")]
    pub fn sort_unstable_by(self, compare: impl Fn(&T, &T) -> Ordering + Sync) -> M::Out<()> {
        self.sort_with(
            Order::Unstable,
            |run| run.sort_unstable_by(&compare),
            |a, b| compare(a, b) == Ordering::Less,
        )
    }

    /// [`sort_unstable`](Self::sort_unstable) in the order of the keys, which are computed for
    /// every comparison.
    ///
    /// ```
    /// let mut values = [-3, 1, 2];
    /// filch::par::over(&mut values).sort_unstable_by_key(|n: &i32| n.abs());
    /// assert_eq!(values, [1, 2, -3]);
    /// ```
    #[doc(alias = "par_sort_unstable_by_key")]
    pub fn sort_unstable_by_key<Q: Ord>(self, key: impl Fn(&T) -> Q + Sync) -> M::Out<()> {
        self.sort_with(
            Order::Unstable,
            |run| run.sort_unstable_by_key(&key),
            |a, b| key(a) < key(b),
        )
    }

    fn sort_with(
        self,
        order: Order,
        sort: impl Fn(&mut [T]) + Sync,
        less: impl Fn(&T, &T) -> bool + Sync,
    ) -> M::Out<()> {
        let loop_end = self.settings.sort(self.producer, order, sort, less);
        self.settings.output::<M, _>((), loop_end)
    }
}
