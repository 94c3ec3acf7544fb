//! Loops that end as soon as they have found an item.

use super::{
    drive::{ItemSink, LoopPiece},
    over::{Loop, Mode},
    pieces::Pieces,
};
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicUsize, Ordering},
};

/// Searches an item, and publishes the index at which it has found one.
struct IndexSearch<F> {
    wanted: F,
    /// Any match will do; else the first is wanted.
    any: bool,
    /// The index of the first match so far.
    found: AtomicUsize,
}

impl<F> IndexSearch<F> {
    fn new(any: bool, wanted: F) -> Self {
        Self {
            wanted,
            any,
            found: AtomicUsize::new(usize::MAX),
        }
    }
}

impl<P, R, F> ItemSink<P> for IndexSearch<F>
where
    P: Pieces,
    R: Send,
    F: Fn(P::Item) -> Option<R> + Sync,
{
    type Acc = Option<R>;

    fn start(&self, _piece: &P) -> Option<R> {
        None
    }

    #[inline]
    fn feed(&self, found: Option<R>, block: LoopPiece<P>) -> Option<R> {
        if found.is_some() {
            return found;
        }
        let mut place = block.at;
        let found = block.items().find_map(|item| {
            let found = (self.wanted)(item);
            place += usize::from(found.is_none());
            found
        })?;
        let place = if self.any { 0 } else { place };
        // Relaxed: it only tells other workers to stop; the match itself is returned through the
        // joins.
        self.found.fetch_min(place, Ordering::Relaxed);
        Some(found)
    }

    fn join(&self, left: Option<R>, right: Option<R>) -> Option<R> {
        left.or(right)
    }

    #[inline]
    fn is_enough(&self, at: usize) -> bool {
        // Relaxed: as in `feed`.
        let found = self.found.load(Ordering::Relaxed);
        found <= at || broken(Canary::LoopFirst) && found < usize::MAX
    }
}

impl<P: Pieces, M: Mode> Loop<'_, P, M> {
    /// The first item for which `wanted` holds. Items behind a match are skipped, those before it
    /// are not.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// assert_eq!(over(1..u64::MAX).find_first(|n| n % 1_234 == 0), Some(1_234));
    /// ```
    pub fn find_first(self, wanted: impl Fn(&P::Item) -> bool + Sync) -> M::Out<Option<P::Item>>
    where
        P::Item: Send,
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
    pub fn find_any(self, wanted: impl Fn(&P::Item) -> bool + Sync) -> M::Out<Option<P::Item>>
    where
        P::Item: Send,
    {
        self.run(&IndexSearch::new(true, |item| {
            wanted(&item).then_some(item)
        }))
    }

    /// The index of the first item for which `wanted` holds.
    ///
    /// ```
    /// assert_eq!(filch::par::over(b"filch").position(|byte| *byte == b'l'), Some(2));
    /// ```
    pub fn position(self, wanted: impl Fn(P::Item) -> bool + Sync) -> M::Out<Option<usize>> {
        self.indexed()
            .run(&IndexSearch::new(false, |(place, item)| {
                wanted(item).then_some(place)
            }))
    }

    /// Whether `holds` for some item.
    ///
    /// ```
    /// assert!(filch::par::over(0..u64::MAX).any(|n| n == 1_000));
    /// ```
    pub fn any(self, holds: impl Fn(P::Item) -> bool + Sync) -> M::Out<bool> {
        let search = IndexSearch::new(true, |item| holds(item).then_some(()));
        self.run_then(&search, |found| found.is_some())
    }

    /// Whether `holds` for all items.
    ///
    /// ```
    /// assert!(!filch::par::over(0..u64::MAX).all(|n| n < 1_000));
    /// ```
    pub fn all(self, holds: impl Fn(P::Item) -> bool + Sync) -> M::Out<bool> {
        let search = IndexSearch::new(true, |item| (!holds(item)).then_some(()));
        self.run_then(&search, |found| found.is_none())
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{IndexSearch, ItemSink, LoopPiece, Pieces};

    /// Searches an item that is the last of the largest possible loop. A real loop would take
    /// years.
    fn search_last<P: Pieces, R: Send>(
        pieces: P,
        wanted: impl Fn(P::Item) -> Option<R> + Sync,
    ) -> (Option<R>, usize) {
        let (at, len) = (usize::MAX - 1, 1);
        let search = IndexSearch::new(false, wanted);
        let found = search.feed(None, LoopPiece { pieces, at, len });
        (found, search.found.into_inner())
    }

    #[test]
    fn the_last_place_of_all() {
        use crate::par::adapt::Indexed;
        let last = usize::MAX - 1;
        let range = || last..usize::MAX;
        let places = || Indexed {
            pieces: range(),
            at: last,
        };
        assert_eq!(search_last(range(), Some), (Some(last), last));
        assert_eq!(search_last(places(), Some), (Some((last, last)), last));
        let nothing = search_last(places(), |_| None::<()>);
        assert_eq!(nothing, (None, usize::MAX));
        let (near, far) = places().split_at(1);
        assert_eq!((near.items().count(), far.items().count()), (1, 0));
    }
}
