//! Sorting.
//!
//! The slice is cut into a power of four of runs, which the standard library sorts; neighbours are then merged, two by
//! two, to and fro between the slice and a buffer of the same size. A merge is cut in two by a binary search, again and
//! again, so that everybody takes part in the last one too.

use super::{
    drive::End,
    merge::Rule,
    over::{Loop, Mode, Settings},
};
use crate::base::sync::{AtomicBool, Ordering as Atomically};
use std::cmp::Ordering;

/// Slices shorter than this, some 20 µs of sorting, are left to the standard library: nobody is woken for less.
const SMALL: usize = 2_000;

/// The least run that is sorted at a time, and the runs for each worker: enough for somebody to find one when another
/// takes longer, and few, because each merge goes through everything.
const RUN: usize = 1_000;
const RUNS: usize = 2;

/// Slices shorter than this are sorted alone where there is something else to steal: nobody is hungry, and merges cost.
const INNER: usize = 50_000;

/// How often `len` items are halved, for so many workers. Twice as often as it takes to get a power of four, so that
/// what was merged last is in the slice.
fn halvings(len: usize, workers: usize) -> u32 {
    let runs = (len / RUN).min(workers.saturating_mul(RUNS));
    let mut halvings = 0;
    while 1 << halvings < runs {
        halvings += 2;
    }
    halvings
}

impl Settings<'_> {
    fn sort<T: Send>(
        &self,
        slice: &mut [T],
        sort: impl Fn(&mut [T]) + Sync,
        less: impl Fn(&T, &T) -> bool + Sync,
    ) -> End {
        let len = slice.len();
        if self.is_cancelled() {
            return End {
                cancelled: true,
                done: 0,
                total: len,
            };
        }
        let unsorted = AtomicBool::new(false);
        if len < SMALL || size_of::<T>() == 0 {
            sort(slice);
        } else {
            self.enter_worker(|context| {
                let workers = context.pool().threads() + usize::from(context.is_guest());
                let alone = workers == 1 || len < INNER && context.has_queued();
                if !alone {
                    let over = || {
                        let over = self.is_cancelled();
                        if over {
                            // Relaxed: read when everybody is done, after the joins.
                            unsorted.store(true, Atomically::Relaxed);
                        }
                        over
                    };
                    Rule::new(&sort, &less, &over).sort(slice, halvings(len, workers));
                } else {
                    sort(slice);
                }
            });
        }
        // Whoever was told that it is cancelled has left it so. Relaxed: as above.
        let cancelled = unsorted.load(Atomically::Relaxed);
        let done = if cancelled { 0 } else { len };
        if let Some(progress) = &self.progress {
            progress(done);
        }
        End {
            cancelled,
            done,
            total: len,
        }
    }
}

impl<T: Send, M: Mode> Loop<'_, &mut [T], M> {
    /// Sorts the items; equal ones keep their order.
    ///
    /// ```
    /// use filch::loops::over;
    ///
    /// let mut words = ["things", "small", "steal"];
    /// over(&mut words).sort();
    /// assert_eq!(words, ["small", "steal", "things"]);
    /// ```
    ///
    /// The settings for chunks don't matter to sorts, progress is told at the end, and a cancelled one leaves all items
    /// where they happen to be. So does a panic of a comparison, after which nobody begins another run or merge. It takes a
    /// buffer as large as the slice, unless that is short. A run, of which there are two or more for each worker, is sorted
    /// in one go: the token is not looked at meanwhile. A short slice, of fewer than 2,000 items, is sorted by the caller,
    /// which does not enter the pool for it.
    pub fn sort(self) -> M::Out<()>
    where
        T: Ord,
    {
        self.sort_with(<[T]>::sort, T::lt)
    }

    /// [`sort`](Self::sort) in the order of `compare`.
    ///
    /// ```
    /// let mut values = [2.5_f64, -1.0, 0.0];
    /// filch::loops::over(&mut values).sort_by(|a, b| b.total_cmp(a));
    /// assert_eq!(values, [2.5, 0.0, -1.0]);
    /// ```
    pub fn sort_by(self, compare: impl Fn(&T, &T) -> Ordering + Sync) -> M::Out<()> {
        self.sort_with(
            |run| run.sort_by(&compare),
            |a, b| compare(a, b) == Ordering::Less,
        )
    }

    /// [`sort`](Self::sort) in the order of the keys, which are made for every comparison.
    ///
    /// ```
    /// let mut words = ["things", "to", "steal"];
    /// filch::loops::over(&mut words).sort_by_key(|word| word.len());
    /// assert_eq!(words, ["to", "steal", "things"]);
    /// ```
    pub fn sort_by_key<Q: Ord>(self, key: impl Fn(&T) -> Q + Sync) -> M::Out<()> {
        self.sort_with(|run| run.sort_by_key(&key), |a, b| key(a) < key(b))
    }

    /// Sorts the items; equal ones come in any order. Faster than [`sort`](Self::sort) where they are small.
    ///
    /// ```
    /// let mut values: Vec<u32> = (0..10_000).map(|n| n * 7_919 % 10_000).collect();
    /// filch::loops::over(&mut values).sort_unstable();
    /// assert!(values.is_sorted());
    /// ```
    pub fn sort_unstable(self) -> M::Out<()>
    where
        T: Ord,
    {
        self.sort_with(<[T]>::sort_unstable, T::lt)
    }

    /// [`sort_unstable`](Self::sort_unstable) in the order of `compare`.
    ///
    /// ```
    /// let mut values = [1, 3, 2];
    /// filch::loops::over(&mut values).sort_unstable_by(|a, b| b.cmp(a));
    /// assert_eq!(values, [3, 2, 1]);
    /// ```
    pub fn sort_unstable_by(self, compare: impl Fn(&T, &T) -> Ordering + Sync) -> M::Out<()> {
        self.sort_with(
            |run| run.sort_unstable_by(&compare),
            |a, b| compare(a, b) == Ordering::Less,
        )
    }

    /// [`sort_unstable`](Self::sort_unstable) in the order of the keys, which are made for every comparison.
    ///
    /// ```
    /// let mut values = [-3, 1, 2];
    /// filch::loops::over(&mut values).sort_unstable_by_key(|n: &i32| n.abs());
    /// assert_eq!(values, [1, 2, -3]);
    /// ```
    pub fn sort_unstable_by_key<Q: Ord>(self, key: impl Fn(&T) -> Q + Sync) -> M::Out<()> {
        self.sort_with(|run| run.sort_unstable_by_key(&key), |a, b| key(a) < key(b))
    }

    fn sort_with(
        self,
        sort: impl Fn(&mut [T]) + Sync,
        less: impl Fn(&T, &T) -> bool + Sync,
    ) -> M::Out<()> {
        let end = self.settings.sort(self.pieces, sort, less);
        self.settings.out::<M, _>((), end)
    }
}
