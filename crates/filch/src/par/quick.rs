//! Parallel quicksort, and the detection of slices that are in order already.
//!
//! Items are only swapped, so the slice contains every item once at any time, also when a
//! comparison panics or the sort is cancelled, and no buffer is needed. Items are `Send` but not
//! necessarily `Sync`: each comparison is made by the worker that has both items to itself. For
//! this reason a partition is sequential, and only the two sides are sorted in parallel.

use super::{checkpoint::leaf_checkpoint, drive::StopOnUnwind};
use crate::{
    base::sync::{AtomicBool, Ordering},
    fork::join,
};
use std::mem;

/// Slices of at most this many items are checked and reversed by one worker: a few µs for numbers.
const LEAF: usize = 8_192;

/// A slice whose first items are not in order is not checked any further.
const MIN_ORDERED_PREFIX: usize = 64;

/// Items of which the median is the pivot.
const SAMPLES: usize = 25;

/// A side with less than this fraction (1/8) of the items is a sign of many equal items, or of a
/// bad pivot.
const UNBALANCED_DIVISOR: usize = 8;

/// The largest item, in bytes, that is swapped unconditionally: a mispredicted branch costs more.
const MAX_BRANCHLESS_ITEM_BYTES: usize = 32;

/// Bad pivots after which the rest is left to the standard library, which has a guaranteed bound.
const MAX_BAD_PIVOTS: u32 = 4;

/// Reverses `items` if they are strictly descending. Returns whether they are in ascending order
/// now.
pub(super) fn sort_if_ordered<T: Send>(
    items: &mut [T],
    less: &(impl Fn(&T, &T) -> bool + Sync),
) -> bool {
    let prefix = &items[..items.len().min(MIN_ORDERED_PREFIX)];
    let unordered = AtomicBool::new(false);
    if prefix.is_sorted_by(|a, b| !less(b, a)) {
        is_ordered(items, &|a, b| !less(b, a), &unordered)
    } else if prefix.is_sorted_by(|a, b| less(b, a)) {
        // Equal items must keep their order, so none may be equal.
        let descending = is_ordered(items, &|a, b| less(b, a), &unordered);
        if descending {
            reverse(items);
        }
        descending
    } else {
        false
    }
}

/// Whether each two adjacent items are `ordered`. The items are not changed; they are borrowed
/// mutably since no two workers may compare the same item at the same time.
fn is_ordered<T: Send>(
    items: &mut [T],
    ordered: &(impl Fn(&T, &T) -> bool + Sync),
    unordered: &AtomicBool,
) -> bool {
    // Relaxed: the flag only saves work.
    if unordered.load(Ordering::Relaxed) {
        return false;
    }
    leaf_checkpoint();
    let middle = items.len() / 2;
    let is_sorted = if items.len() <= LEAF {
        items.is_sorted_by(ordered)
    } else {
        let (left, right) = items.split_at_mut(middle);
        let (left, right) = join(
            || is_ordered(left, ordered, unordered),
            || is_ordered(right, ordered, unordered),
        );
        left && right && ordered(&items[middle - 1], &items[middle])
    };
    if !is_sorted {
        // Relaxed: as above.
        unordered.store(true, Ordering::Relaxed);
    }
    is_sorted
}

fn reverse<T: Send>(items: &mut [T]) {
    let middle = items.len() / 2;
    let (left, rest) = items.split_at_mut(middle);
    let right_start = rest.len() - middle;
    swap_reversed(left, &mut rest[right_start..]);
}

/// Swaps the first item of `left` with the last one of `right`, and so on. They are equally long.
fn swap_reversed<T: Send>(left: &mut [T], right: &mut [T]) {
    if left.len() <= LEAF {
        leaf_checkpoint();
        let pairs = left.iter_mut().zip(right.iter_mut().rev());
        return pairs.for_each(|(a, b)| mem::swap(a, b));
    }
    let middle = left.len() / 2;
    let (left, more_left) = left.split_at_mut(middle);
    let (more_right, right) = right.split_at_mut(more_left.len());
    let _ = join(
        || swap_reversed(left, right),
        || swap_reversed(more_left, more_right),
    );
}

/// How to sort items.
pub(super) struct Quicksort<'r, S, L> {
    sort: &'r S,
    less: &'r L,
    is_cancelled: &'r (dyn Fn() -> bool + Sync),
    leaf: usize,
    /// Most items are in order, and are to stay so when they are partitioned.
    nearly_sorted: bool,
    /// A comparison has panicked.
    stop: AtomicBool,
}

impl<'r, S, L> Quicksort<'r, S, L> {
    /// `sort` sorts a slice on one worker, of at most `leaf` items; `less` returns whether one item
    /// goes before another, and `is_cancelled` whether the result is no longer wanted.
    pub(super) fn new(
        sort: &'r S,
        less: &'r L,
        is_cancelled: &'r (dyn Fn() -> bool + Sync),
        leaf: usize,
    ) -> Self {
        Self {
            sort,
            less,
            is_cancelled,
            leaf,
            nearly_sorted: false,
            stop: AtomicBool::new(false),
        }
    }

    /// The same for items most of which are in order. `sort` should take advantage of that.
    pub(super) fn nearly_sorted(mut self) -> Self {
        self.nearly_sorted = true;
        self
    }

    pub(super) fn sort<T: Send>(&self, items: &mut [T])
    where
        S: Fn(&mut [T]) + Sync,
        L: Fn(&T, &T) -> bool + Sync,
    {
        self.sort_within(items, MAX_BAD_PIVOTS);
    }

    fn sort_within<T: Send>(&self, items: &mut [T], mut bad_pivots_left: u32)
    where
        S: Fn(&mut [T]) + Sync,
        L: Fn(&T, &T) -> bool + Sync,
    {
        leaf_checkpoint();
        // Relaxed: the flag only saves work.
        if self.stop.load(Ordering::Relaxed) || (self.is_cancelled)() {
            return;
        }
        let len = items.len();
        let stop_on_unwind = StopOnUnwind(&self.stop);
        let sides = if len <= self.leaf.max(2 * SAMPLES) || bad_pivots_left == 0 {
            (self.sort)(items);
            None
        } else if self.nearly_sorted {
            Some(self.partition_in_order(items))
        } else {
            Some(self.partition(items))
        };
        mem::forget(stop_on_unwind);
        let Some((left, right)) = sides else {
            return;
        };
        if left.len().max(right.len()) > len - len / UNBALANCED_DIVISOR {
            bad_pivots_left -= 1;
        }
        let _ = join(
            || self.sort_within(left, bad_pivots_left),
            || self.sort_within(right, bad_pivots_left),
        );
    }

    /// Moves the items that go before a pivot to the front, and returns them and those after the
    /// pivot. Items that are equal to the pivot are after it or, if there are many, between
    /// the two sides.
    fn partition<'i, T>(&self, items: &'i mut [T]) -> (&'i mut [T], &'i mut [T])
    where
        S: Fn(&mut [T]) + Sync,
        L: Fn(&T, &T) -> bool + Sync,
    {
        let len = items.len();
        for sample in 0..SAMPLES {
            items.swap(sample, sample * (len / SAMPLES));
        }
        (self.sort)(&mut items[..SAMPLES]);
        items.swap(0, SAMPLES / 2);
        let [pivot, rest @ ..] = &mut *items else {
            unreachable!("there are more items than samples");
        };
        let before = partition_by(rest, |item| (self.less)(item, pivot));
        let mut equal = 0;
        if before < len / UNBALANCED_DIVISOR {
            // Perhaps most items are equal to the pivot.
            equal = partition_by(&mut rest[before..], |item| !(self.less)(pivot, item));
        }
        items.swap(0, before);
        let (left, rest) = items.split_at_mut(before);
        (left, &mut rest[1 + equal..])
    }

    /// As [`partition`](Self::partition), but swaps only the items that are on the wrong side. The
    /// pivot is the one in the middle.
    fn partition_in_order<'i, T>(&self, items: &'i mut [T]) -> (&'i mut [T], &'i mut [T])
    where
        L: Fn(&T, &T) -> bool + Sync,
    {
        items.swap(0, items.len() / 2);
        let [pivot, rest @ ..] = &mut *items else {
            unreachable!("there are more items than samples");
        };
        let before = partition_by_swaps(rest, |item| (self.less)(item, pivot));
        items.swap(0, before);
        let (left, rest) = items.split_at_mut(before);
        (left, &mut rest[1..])
    }
}

/// As [`partition_by`], but moves no item that is on its side already.
fn partition_by_swaps<T>(items: &mut [T], first: impl Fn(&T) -> bool) -> usize {
    let mut count = 0;
    let mut unknown = items;
    loop {
        let prefix = unknown.iter().take_while(|item| first(item)).count();
        count += prefix;
        unknown = &mut unknown[prefix..];
        let suffix = unknown.iter().rev().take_while(|item| !first(item)).count();
        let end = unknown.len() - suffix;
        let [wrong_left, .., wrong_right] = &mut unknown[..end] else {
            // All items are known: the first of those left would be on the other side.
            return count;
        };
        mem::swap(wrong_left, wrong_right);
        count += 1;
        unknown = &mut unknown[1..end - 1];
    }
}

/// Moves the items for which `first` holds to the front; returns their number.
fn partition_by<T>(items: &mut [T], first: impl Fn(&T) -> bool) -> usize {
    let mut count = 0;
    for at in 0..items.len() {
        let is_first = first(&items[at]);
        // The items from `count` to `at` are not first. So it does no harm to swap two of them, and
        // saves a branch.
        if is_first || size_of::<T>() <= MAX_BRANCHLESS_ITEM_BYTES {
            items.swap(count, at);
        }
        count += usize::from(is_first);
    }
    count
}
