//! Operations on every item, and reductions of all items.

use super::{
    drive::{Block, FnSink},
    over::{Loop, Mode},
    producer::{ExactProducer, Producer},
    stage::{Identity, ItemStage, LoopStage},
};
use std::{
    cmp::Ordering,
    iter::{self, Product, Sum},
};

impl<P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'_, P, S, M> {
    /// Calls `f` with every item.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let mut values = vec![1, 2, 3];
    /// over(&mut values).for_each(|value| *value *= 10);
    /// assert_eq!(values, [10, 20, 30]);
    /// ```
    pub fn for_each(self, f: impl Fn(S::Out) + Sync) -> M::Out<()> {
        self.run(&FnSink {
            start: || (),
            feed: |(), block: Block<'_, P, S>| block.items().for_each(&f),
            join: |(), ()| (),
        })
    }

    /// Calls `f` with every item and a scratch value, which `init` creates and each worker reuses;
    /// see [`map_init`](Self::map_init).
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// over(0..1_000).for_each_init(Vec::new, |buffer, n| {
    ///     buffer.clear();
    ///     buffer.extend(0..n % 10);
    /// });
    /// ```
    #[doc(alias = "for_each_with")]
    pub fn for_each_init<W: Send>(
        self,
        init: impl Fn() -> W + Sync,
        f: impl Fn(&mut W, S::Out) + Sync,
    ) -> M::Out<()> {
        self.map_init(init, f).for_each(|()| ())
    }

    /// The number of items.
    ///
    /// ```
    /// assert_eq!(filch::over(0..10).filter(|n| n % 3 == 0).count(), 4);
    /// ```
    pub fn count(self) -> M::Out<usize> {
        self.run(&FnSink {
            start: || 0,
            feed: |count: usize, block: Block<'_, P, S>| count + block.items().count(),
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
        step: impl Fn(A, S::Out) -> A + Sync,
        join: impl Fn(A, A) -> A + Sync,
    ) -> M::Out<A> {
        self.run(&FnSink {
            start,
            feed: |acc, block: Block<'_, P, S>| block.items().fold(acc, &step),
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
    #[doc(alias = "reduce_with")]
    pub fn reduce(self, op: impl Fn(S::Out, S::Out) -> S::Out + Sync) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
    {
        self.run(&FnSink {
            start: || None,
            // It starts from the accumulator: a block that started from its own first item would
            // access the others misaligned with the cache lines.
            feed: |acc: Option<S::Out>, block: Block<'_, P, S>| {
                let mut items = block.items();
                let first = acc.or_else(|| items.next())?;
                Some(items.fold(first, &op))
            },
            join: |left, right| combine(left, right, &op),
        })
    }

    /// The sum of the items, as of [`Iterator::sum`]. Floating-point addition is not associative,
    /// so the last digits may differ from one run to the next;
    /// [`deterministic`](Self::deterministic) prevents that.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&[1.5, 2.5]).sum::<f64>(), 4.0);
    /// ```
    pub fn sum<R>(self) -> M::Out<R>
    where
        R: Sum<S::Out> + Sum<R> + Send,
    {
        self.run(&FnSink {
            start: || iter::empty::<R>().sum(),
            feed: |acc, block: Block<'_, P, S>| [acc, block.items().sum()].into_iter().sum(),
            join: |left: R, right: R| [left, right].into_iter().sum(),
        })
    }

    /// The product of the items, as of [`Iterator::product`].
    ///
    /// ```
    /// assert_eq!(filch::over(1..=10).product::<u64>(), 3_628_800);
    /// ```
    pub fn product<R>(self) -> M::Out<R>
    where
        R: Product<S::Out> + Product<R> + Send,
    {
        self.run(&FnSink {
            start: || iter::empty::<R>().product(),
            feed: |acc, block: Block<'_, P, S>| {
                [acc, block.items().product()].into_iter().product()
            },
            join: |left: R, right: R| [left, right].into_iter().product(),
        })
    }

    /// The minimum; of several equal items, the first.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&[3, 1, 2]).min(), Some(&1));
    /// ```
    pub fn min(self) -> M::Out<Option<S::Out>>
    where
        S::Out: Ord + Send,
    {
        self.min_by(Ord::cmp)
    }

    /// The maximum; of several equal items, the last.
    ///
    /// ```
    /// assert_eq!(filch::par::over(&[3, 1, 2]).max(), Some(&3));
    /// ```
    pub fn max(self) -> M::Out<Option<S::Out>>
    where
        S::Out: Ord + Send,
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
        compare: impl Fn(&S::Out, &S::Out) -> Ordering + Sync,
    ) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
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
        compare: impl Fn(&S::Out, &S::Out) -> Ordering + Sync,
    ) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
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
        key: impl Fn(&S::Out) -> Q + Sync,
    ) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
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
        key: impl Fn(&S::Out) -> Q + Sync,
    ) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
    {
        self.best(key, |first, second| first > second)
    }

    /// [`reduce`](Self::reduce) for an `op` that returns one of its arguments. Each block starts
    /// from its own first item, because the compiler generates better code for that: starting from
    /// the accumulator, the maximum of 10,000 numbers takes half as long again.
    fn choose(self, op: impl Fn(S::Out, S::Out) -> S::Out + Sync) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
    {
        self.run(&FnSink {
            start: || None,
            feed: |acc, block: Block<'_, P, S>| combine(acc, chosen(block.items(), &op), &op),
            join: |left, right| combine(left, right, &op),
        })
    }

    /// The item with the best key: `stays` returns whether the first of two is better.
    fn best<Q: Send>(
        self,
        key: impl Fn(&S::Out) -> Q + Sync,
        stays: impl Fn(&Q, &Q) -> bool + Sync,
    ) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
    {
        let better = |first: (Q, S::Out), second: (Q, S::Out)| {
            if stays(&first.0, &second.0) {
                first
            } else {
                second
            }
        };
        let with_key = |item| (key(&item), item);
        self.run_then(
            &FnSink {
                start: || None,
                feed: |acc: Option<(Q, S::Out)>, block: Block<'_, P, S>| {
                    let found = block.items().map(with_key);
                    acc.into_iter().chain(found).reduce(better)
                },
                join: |left: Option<_>, right| left.into_iter().chain(right).reduce(better),
            },
            |best| best.map(|(_, item)| item),
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

impl<P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'_, P, S, M> {
    /// Writes the items into `output`, in order.
    ///
    /// ```
    /// let mut doubles = [0; 3];
    /// filch::over(1..4).map(|n| n * 2).write_into(&mut doubles);
    /// assert_eq!(doubles, [2, 4, 6]);
    /// ```
    ///
    /// # Panics
    /// If `output` is longer or shorter than the source.
    #[doc(alias = "collect_into_vec")]
    #[track_caller]
    pub fn write_into(self, output: &mut [S::Out]) -> M::Out<()>
    where
        P: ExactProducer,
        S: ItemStage<P::Item, Out: Send>,
    {
        let (items, places) = (self.producer.size(), output.len());
        assert!(
            items == places,
            "{items} items for an output of {places}; give it as many places as there are items"
        );
        self.zip(output).for_each(|(item, place)| *place = item)
    }
}

impl<T: Send, M: Mode> Loop<'_, &mut [T], Identity, M> {
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
        self.run(&FnSink {
            start: || (),
            feed: |(), block: Block<'_, &mut [T], Identity>| block.producer.fill(value.clone()),
            join: |(), ()| (),
        })
    }
}
