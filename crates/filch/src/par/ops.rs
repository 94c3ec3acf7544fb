//! Operations on every item, and reductions of all items.

use super::{
    adapt::Zip,
    drive::{self, LoopPiece, Steps},
    output::{self, MapInto, WithOutput},
    over::{Loop, Mode},
    pieces::Pieces,
};
use std::{
    cmp::Ordering,
    iter::{self, Sum},
};

impl<P: Pieces, M: Mode> Loop<'_, P, M> {
    /// Calls `f` with every item.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let mut values = vec![1, 2, 3];
    /// over(&mut values).for_each(|value| *value *= 10);
    /// assert_eq!(values, [10, 20, 30]);
    /// ```
    pub fn for_each(self, f: impl Fn(P::Item) + Sync) -> M::Out<()> {
        self.run(&Steps {
            start: || (),
            feed: |(), block: LoopPiece<P>| block.items().for_each(&f),
            join: |(), ()| (),
        })
    }

    /// Calls `f` with the index of every item and the item.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let mut values = vec![7; 3];
    /// over(&mut values).for_each_index(|place, value| *value += place);
    /// assert_eq!(values, [7, 8, 9]);
    /// ```
    pub fn for_each_index(self, f: impl Fn(usize, P::Item) + Sync) -> M::Out<()> {
        self.indexed().for_each(|(place, item)| f(place, item))
    }

    /// The results of `f` for the items, in order.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// assert_eq!(over(&["a", "bc"]).map(|word| word.len()), [1, 2]);
    /// ```
    ///
    /// # Panics
    /// If `f` does, after all workers have stopped. The results so far are dropped.
    pub fn map<R: Send>(self, f: impl Fn(P::Item) -> R + Sync) -> M::Out<Vec<R>> {
        let Self {
            pieces, settings, ..
        } = self;
        let len = pieces.size();
        let (vector, end) = output::collect(len, |room| {
            let items = WithOutput {
                items: pieces,
                room,
            };
            drive::run(&settings, items, &MapInto(f))
        });
        assert!(
            vector.is_some() || end.cancelled,
            "a source had fewer items than it said"
        );
        settings.out::<M, _>(vector.unwrap_or_default(), end)
    }

    /// Writes the results of `f` for the items into `output`, in order.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let mut doubles = [0; 3];
    /// over(1..4).map_into(&mut doubles, |n| n * 2);
    /// assert_eq!(doubles, [2, 4, 6]);
    /// ```
    ///
    /// # Panics
    /// If `output` is longer or shorter than the source, and if `f` panics.
    #[track_caller]
    pub fn map_into<R: Send>(
        self,
        output: &mut [R],
        f: impl Fn(P::Item) -> R + Sync,
    ) -> M::Out<()> {
        let (items, places) = (self.pieces.size(), output.len());
        assert!(
            items == places,
            "{items} items for an output of {places}; give it as many places as there are items"
        );
        self.with(|pieces| Zip(pieces, output))
            .for_each(|(item, place)| *place = f(item))
    }

    /// The items for which `wanted` holds, in order.
    ///
    /// ```
    /// assert_eq!(filch::par::over(0..10).filter(|n| n % 3 == 0), [0, 3, 6, 9]);
    /// ```
    pub fn filter(self, wanted: impl Fn(&P::Item) -> bool + Sync) -> M::Out<Vec<P::Item>>
    where
        P::Item: Send,
    {
        self.gather(|found, block| output::extend_wanted(found, block, &wanted))
    }

    /// The results of `f` that are `Some`, in order.
    ///
    /// ```
    /// let words = ["1", "two", "3"];
    /// let numbers = filch::par::over(&words).filter_map(|word| word.parse::<u32>().ok());
    /// assert_eq!(numbers, [1, 3]);
    /// ```
    pub fn filter_map<R: Send>(self, f: impl Fn(P::Item) -> Option<R> + Sync) -> M::Out<Vec<R>> {
        self.gather(|found, block| found.extend(block.items().filter_map(&f)))
    }

    /// The number of items for which `wanted` holds.
    ///
    /// ```
    /// assert_eq!(filch::par::over(0..10).count(|n| n % 3 == 0), 4);
    /// ```
    pub fn count(self, wanted: impl Fn(P::Item) -> bool + Sync) -> M::Out<usize> {
        self.run(&Steps {
            start: || 0,
            feed: |count, block: LoopPiece<P>| {
                let more: usize = block.items().map(|item| usize::from(wanted(item))).sum();
                count + more
            },
            join: |left, right| left + right,
        })
    }

    /// Folds the items with one accumulator for each piece: `start` creates one, `step` adds an
    /// item, and `join` joins the accumulators of adjacent pieces, in order. If `start` returns a
    /// neutral value and `join` is associative, the result is that of a sequential loop.
    ///
    /// ```
    /// let text = "work is visible";
    /// let (vowels, letters) = filch::par::over(text.as_bytes()).fold(
    ///     || (0, 0),
    ///     |(vowels, letters), byte| (vowels + u32::from(b"aeiou".contains(byte)), letters + 1),
    ///     |left, right| (left.0 + right.0, left.1 + right.1),
    /// );
    /// assert_eq!((vowels, letters), (5, 15));
    /// ```
    pub fn fold<A: Send>(
        self,
        start: impl Fn() -> A + Sync,
        step: impl Fn(A, P::Item) -> A + Sync,
        join: impl Fn(A, A) -> A + Sync,
    ) -> M::Out<A> {
        self.run(&Steps {
            start,
            feed: |acc, block: LoopPiece<P>| block.items().fold(acc, &step),
            join,
        })
    }

    /// Reduces the items, two at a time, in order. `op` only has to be associative. `None` without
    /// items.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let words = vec!["to ".to_string(), "steal ".into(), "small".into()];
    /// assert_eq!(over(words).reduce(|a, b| a + &b).unwrap(), "to steal small");
    /// ```
    pub fn reduce(self, op: impl Fn(P::Item, P::Item) -> P::Item + Sync) -> M::Out<Option<P::Item>>
    where
        P::Item: Send,
    {
        self.map_reduce(|item| item, op)
    }

    /// Reduces the results of `f`, two at a time, in order. `op` only has to be associative. `None`
    /// without items.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let longest = over(&["a", "abc", "ab"]).map_reduce(|word| word.len(), usize::max);
    /// assert_eq!(longest, Some(3));
    /// ```
    pub fn map_reduce<R: Send>(
        self,
        f: impl Fn(P::Item) -> R + Sync,
        op: impl Fn(R, R) -> R + Sync,
    ) -> M::Out<Option<R>> {
        self.run(&Steps {
            start: || None,
            // It starts from the accumulator: a block that started from its own first item would
            // access the others misaligned with the cache lines.
            feed: |acc: Option<R>, block: LoopPiece<P>| {
                let mut results = block.items().map(&f);
                let first = acc.or_else(|| results.next())?;
                Some(results.fold(first, &op))
            },
            join: |left, right| combine(left, right, &op),
        })
    }

    /// The sum of the items, as of [`Iterator::sum`]. Floating-point addition is not associative,
    /// so the last digits may differ from one run to the next.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&[1.5, 2.5]).sum::<f64>(), 4.0);
    /// ```
    pub fn sum<R>(self) -> M::Out<R>
    where
        R: Sum<P::Item> + Sum<R> + Send,
    {
        self.run(&Steps {
            start: || iter::empty::<R>().sum(),
            feed: |acc, block: LoopPiece<P>| [acc, block.items().sum()].into_iter().sum(),
            join: |left: R, right: R| [left, right].into_iter().sum(),
        })
    }

    /// The minimum; of several equal items, the first.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&[3, 1, 2]).min(), Some(&1));
    /// ```
    pub fn min(self) -> M::Out<Option<P::Item>>
    where
        P::Item: Ord + Send,
    {
        self.min_by(Ord::cmp)
    }

    /// The maximum; of several equal items, the last.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&[3, 1, 2]).max(), Some(&3));
    /// ```
    pub fn max(self) -> M::Out<Option<P::Item>>
    where
        P::Item: Ord + Send,
    {
        self.max_by(Ord::cmp)
    }

    /// The minimum with respect to `compare`; of several equal items, the first.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&[2.5_f64, 0.5]).min_by(|a, b| a.total_cmp(b)), Some(&0.5));
    /// ```
    pub fn min_by(
        self,
        compare: impl Fn(&P::Item, &P::Item) -> Ordering + Sync,
    ) -> M::Out<Option<P::Item>>
    where
        P::Item: Send,
    {
        self.choose(|first, second| match compare(&first, &second) {
            Ordering::Greater => second,
            _ => first,
        })
    }

    /// The maximum with respect to `compare`; of several equal items, the last.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&[2.5_f64, 0.5]).max_by(|a, b| a.total_cmp(b)), Some(&2.5));
    /// ```
    pub fn max_by(
        self,
        compare: impl Fn(&P::Item, &P::Item) -> Ordering + Sync,
    ) -> M::Out<Option<P::Item>>
    where
        P::Item: Send,
    {
        self.choose(|first, second| match compare(&first, &second) {
            Ordering::Greater => first,
            _ => second,
        })
    }

    /// The item with the minimum key, which is computed once for each item; of several, the first.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&["ab", "c", "d"]).min_by_key(|word| word.len()), Some(&"c"));
    /// ```
    pub fn min_by_key<Q: Ord + Send>(
        self,
        key: impl Fn(&P::Item) -> Q + Sync,
    ) -> M::Out<Option<P::Item>>
    where
        P::Item: Send,
    {
        self.best(key, |first, second| first <= second)
    }

    /// The item with the maximum key, which is computed once for each item; of several, the last.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&["a", "cd", "ef"]).max_by_key(|word| word.len()), Some(&"ef"));
    /// ```
    pub fn max_by_key<Q: Ord + Send>(
        self,
        key: impl Fn(&P::Item) -> Q + Sync,
    ) -> M::Out<Option<P::Item>>
    where
        P::Item: Send,
    {
        self.best(key, |first, second| first > second)
    }

    /// [`reduce`](Self::reduce) for an `op` that returns one of its arguments. Each block starts
    /// from its own first item, because the compiler generates better code for that: starting from
    /// the accumulator, the maximum of 10,000 numbers takes half as long again.
    fn choose(self, op: impl Fn(P::Item, P::Item) -> P::Item + Sync) -> M::Out<Option<P::Item>>
    where
        P::Item: Send,
    {
        self.run(&Steps {
            start: || None,
            feed: |acc, block: LoopPiece<P>| combine(acc, chosen(block.items(), &op), &op),
            join: |left, right| combine(left, right, &op),
        })
    }

    /// The item with the best key: `stays` returns whether the first of two is better.
    fn best<Q: Send>(
        self,
        key: impl Fn(&P::Item) -> Q + Sync,
        stays: impl Fn(&Q, &Q) -> bool + Sync,
    ) -> M::Out<Option<P::Item>>
    where
        P::Item: Send,
    {
        let better = |first: (Q, P::Item), second: (Q, P::Item)| {
            if stays(&first.0, &second.0) {
                first
            } else {
                second
            }
        };
        let with_key = |item| (key(&item), item);
        self.run_then(
            &Steps {
                start: || None,
                feed: |acc: Option<(Q, P::Item)>, block: LoopPiece<P>| {
                    let found = block.items().map(with_key);
                    acc.into_iter().chain(found).reduce(better)
                },
                join: |left: Option<_>, right| left.into_iter().chain(right).reduce(better),
            },
            |best| best.map(|(_, item)| item),
        )
    }

    /// Collects results, any number for each block, in order.
    fn gather<R: Send>(self, add: impl Fn(&mut Vec<R>, LoopPiece<P>) + Sync) -> M::Out<Vec<R>> {
        self.run_then(
            &Steps {
                start: VecParts::default,
                feed: |mut parts: VecParts<R>, block| {
                    add(&mut parts.last, block);
                    parts
                },
                join: VecParts::and,
            },
            VecParts::into_vec,
        )
    }
}

/// Reduces `items`. Not inlined, since its loop gets better register allocation on its own.
#[inline(never)]
fn chosen<R>(items: impl Iterator<Item = R>, op: impl Fn(R, R) -> R) -> Option<R> {
    items.reduce(op)
}

/// Both combined with `op`, or the one that exists.
fn combine<R>(left: Option<R>, right: Option<R>, op: impl Fn(R, R) -> R) -> Option<R> {
    match (left, right) {
        (Some(left), Some(right)) => Some(op(left, right)),
        (left, right) => left.or(right),
    }
}

/// Results in several vectors, in order.
struct VecParts<R> {
    before: Vec<Vec<R>>,
    /// The vector that is appended to.
    last: Vec<R>,
}

impl<R> Default for VecParts<R> {
    fn default() -> Self {
        Self {
            before: Vec::new(),
            last: Vec::new(),
        }
    }
}

impl<R> VecParts<R> {
    fn and(mut self, next: Self) -> Self {
        self.before.push(self.last);
        self.before.extend(next.before);
        Self {
            before: self.before,
            last: next.last,
        }
    }

    fn into_vec(self) -> Vec<R> {
        let Self { before, last } = self;
        let len: usize = before.iter().map(Vec::len).sum::<usize>() + last.len();
        let mut parts = before.into_iter().chain([last]);
        let mut all = parts.next().unwrap_or_default();
        all.reserve_exact(len - all.len());
        parts.for_each(|mut part| all.append(&mut part));
        all
    }
}

impl<T: Send, M: Mode> Loop<'_, &mut [T], M> {
    /// Fills the slice with clones of `value`.
    ///
    /// ```
    /// let mut values = [0; 5];
    /// filch::par::over(&mut values).fill(7);
    /// assert_eq!(values, [7; 5]);
    /// ```
    pub fn fill(self, value: T) -> M::Out<()>
    where
        T: Clone + Sync,
    {
        self.run(&Steps {
            start: || (),
            feed: |(), block: LoopPiece<&mut [T]>| block.pieces.fill(value.clone()),
            join: |(), ()| (),
        })
    }
}
