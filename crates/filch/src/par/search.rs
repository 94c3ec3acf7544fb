//! Loops that end as soon as they have found an item.

use super::{
    drive::{Block, ItemSink},
    first_error::EarliestBlock,
    over::{Loop, Mode},
    producer::{ExactProducer, Producer},
    stage::{ItemStage, LoopStage},
};

/// Searches an item, and publishes the index at which it has found one.
struct IndexSearch<F> {
    wanted: F,
    /// Any match will do; else the first is wanted.
    any: bool,
    /// The block of the first match so far.
    found: EarliestBlock,
}

impl<F> IndexSearch<F> {
    fn new(any: bool, wanted: F) -> Self {
        Self {
            wanted,
            any,
            found: EarliestBlock::new(),
        }
    }
}

impl<P, S, R, F> ItemSink<P, S> for IndexSearch<F>
where
    P: Producer,
    S: LoopStage<P::Item>,
    R: Send,
    F: Fn(S::Out) -> Option<R> + Sync,
{
    type Acc = Option<R>;

    fn start(&self, _piece: &P) -> Option<R> {
        None
    }

    #[inline]
    fn feed(&self, found: Option<R>, block: Block<'_, P, S>) -> Option<R> {
        if found.is_some() {
            return found;
        }
        // All other blocks are before this one or after it, so its beginning says enough.
        let at = if self.any { 0 } else { block.at };
        let found = block.items().find_map(&self.wanted)?;
        // The match itself is returned through the joins.
        self.found.record(at);
        Some(found)
    }

    fn join(&self, left: Option<R>, right: Option<R>) -> Option<R> {
        left.or(right)
    }

    #[inline]
    fn should_stop_at(&self, at: usize) -> bool {
        self.found.is_before(at)
    }
}

impl<P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'_, P, S, M> {
    /// The first item for which `wanted` holds. Items after a match are skipped, those before it
    /// are not.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// assert_eq!(over(1..u64::MAX).find_first(|n| n % 1_234 == 0), Some(1_234));
    /// ```
    pub fn find_first(self, wanted: impl Fn(&S::Out) -> bool + Sync) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
    {
        self.run(&IndexSearch::new(false, |item| {
            wanted(&item).then_some(item)
        }))
    }

    /// An item for which `wanted` holds; the one that is found first in time.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// let even = over(1..u64::MAX).find_any(|n| n % 2 == 0).unwrap();
    /// assert_eq!(even % 2, 0);
    /// ```
    pub fn find_any(self, wanted: impl Fn(&S::Out) -> bool + Sync) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
    {
        self.run(&IndexSearch::new(true, |item| {
            wanted(&item).then_some(item)
        }))
    }

    /// The first result of `f` that is `Some`, in the order of the items.
    ///
    /// ```
    /// let words = ["x", "2", "3"];
    /// let number = filch::over(&words).find_map_first(|word| word.parse::<u32>().ok());
    /// assert_eq!(number, Some(2));
    /// ```
    pub fn find_map_first<R: Send>(
        self,
        f: impl Fn(S::Out) -> Option<R> + Sync,
    ) -> M::Out<Option<R>> {
        self.run(&IndexSearch::new(false, f))
    }

    /// A result of `f` that is `Some`; the one that is found first in time.
    ///
    /// ```
    /// let root = filch::over(1..1_000_u32).find_map_any(|n| (n * n == 1_764).then_some(n));
    /// assert_eq!(root, Some(42));
    /// ```
    pub fn find_map_any<R: Send>(
        self,
        f: impl Fn(S::Out) -> Option<R> + Sync,
    ) -> M::Out<Option<R>> {
        self.run(&IndexSearch::new(true, f))
    }

    /// Whether `holds` for some item.
    ///
    /// ```
    /// assert!(filch::par::over(0..u64::MAX).any(|n| n == 1_000));
    /// ```
    pub fn any(self, holds: impl Fn(S::Out) -> bool + Sync) -> M::Out<bool> {
        let search = IndexSearch::new(true, |item| holds(item).then_some(()));
        self.run_then(&search, |found| found.is_some())
    }

    /// Whether `holds` for all items.
    ///
    /// ```
    /// assert!(!filch::par::over(0..u64::MAX).all(|n| n < 1_000));
    /// ```
    pub fn all(self, holds: impl Fn(S::Out) -> bool + Sync) -> M::Out<bool> {
        let search = IndexSearch::new(true, |item| (!holds(item)).then_some(()));
        self.run_then(&search, |found| found.is_none())
    }
}

impl<P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'_, P, S, M> {
    /// The index of the first item for which `wanted` holds.
    ///
    /// ```
    /// assert_eq!(filch::par::over(b"filch").position(|byte| *byte == b'l'), Some(2));
    /// ```
    #[doc(alias = "position_first")]
    pub fn position(self, wanted: impl Fn(S::Out) -> bool + Sync) -> M::Out<Option<usize>>
    where
        P: ExactProducer,
        S: ItemStage<P::Item>,
    {
        let places = self.enumerate();
        places.find_map_first(|(place, item)| wanted(item).then_some(place))
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use crate::par::{Producer, adapt::Enumerate};

    #[test]
    fn the_last_index_of_all() {
        let last = usize::MAX - 1;
        let places = Enumerate {
            producer: last..usize::MAX,
            at: last,
        };
        let (near, far) = places.split_at(1);
        assert_eq!((near.items().count(), far.items().count()), (1, 0));
    }
}
