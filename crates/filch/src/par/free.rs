//! The common loops as functions.

use super::{
    over::over,
    producer::{ExactProducer, IntoProducer},
};
use std::cmp::Ordering;

/// The results of `f` for the items, in order: [`Loop::map`](super::Loop::map), collected.
///
/// ```
/// assert_eq!(filch::map(&[1, 2, 3], |n| n * n), [1, 4, 9]);
/// ```
pub fn map<S: IntoProducer, R: Send>(source: S, f: impl Fn(S::Item) -> R + Sync) -> Vec<R> {
    over(source).map(f).collect()
}

/// Writes the results of `f` into `output`: [`Loop::write_into`](super::Loop::write_into).
///
/// ```
/// let mut squares = [0; 3];
/// filch::par::map_into(&[1, 2, 3], &mut squares, |n| n * n);
/// assert_eq!(squares, [1, 4, 9]);
/// ```
///
/// # Panics
/// If `output` is longer or shorter than the source, and if `f` panics.
#[track_caller]
pub fn map_into<S: IntoProducer<Producer: ExactProducer>, R: Send>(
    source: S,
    output: &mut [R],
    f: impl Fn(S::Item) -> R + Sync,
) {
    over(source).map(f).write_into(output);
}

/// Calls `f` with every item: [`Loop::for_each`](super::Loop::for_each).
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let sum = AtomicU32::new(0);
/// filch::for_each(1..5_u32, |n| { sum.fetch_add(n, Ordering::Relaxed); });
/// assert_eq!(sum.into_inner(), 10);
/// ```
pub fn for_each<S: IntoProducer>(source: S, f: impl Fn(S::Item) + Sync) {
    over(source).for_each(f);
}

/// Calls `f` with a mutable reference to every item of a slice.
///
/// ```
/// let mut values = [1, 2, 3];
/// filch::par::for_each_mut(&mut values, |value| *value += 1);
/// assert_eq!(values, [2, 3, 4]);
/// ```
pub fn for_each_mut<T: Send>(items: &mut [T], f: impl Fn(&mut T) + Sync) {
    over(items).for_each(f);
}

/// Calls `f` with the index of every item and the item:
/// [`Loop::enumerate`](super::Loop::enumerate).
///
/// ```
/// let mut values = [0; 3];
/// filch::par::for_each_index(&mut values, |place, value| *value = place * 10);
/// assert_eq!(values, [0, 10, 20]);
/// ```
pub fn for_each_index<S: IntoProducer<Producer: ExactProducer>>(
    source: S,
    f: impl Fn(usize, S::Item) + Sync,
) {
    over(source)
        .enumerate()
        .for_each(|(index, item)| f(index, item));
}

/// Reduces the results of `f` with `op`, in order: [`Loop::map`](super::Loop::map) and
/// [`Loop::reduce`](super::Loop::reduce).
///
/// ```
/// let letters = filch::map_reduce(&["to", "steal"], |word| word.len(), |a, b| a + b);
/// assert_eq!(letters, Some(7));
/// ```
pub fn map_reduce<S: IntoProducer, R: Send>(
    source: S,
    f: impl Fn(S::Item) -> R + Sync,
    op: impl Fn(R, R) -> R + Sync,
) -> Option<R> {
    over(source).map(f).reduce(op)
}

/// Reduces the items with `op`, in order: [`Loop::reduce`](super::Loop::reduce).
///
/// ```
/// assert_eq!(filch::par::reduce(1..6, |a, b| a * b), Some(120));
/// ```
pub fn reduce<S: IntoProducer<Item: Send>>(
    source: S,
    op: impl Fn(S::Item, S::Item) -> S::Item + Sync,
) -> Option<S::Item> {
    over(source).reduce(op)
}

/// The items for which `wanted` holds, in order: [`Loop::filter`](super::Loop::filter),
/// collected.
///
/// ```
/// assert_eq!(filch::par::filter(0..10, |n| n % 4 == 0), [0, 4, 8]);
/// ```
pub fn filter<S: IntoProducer<Item: Send>>(
    source: S,
    wanted: impl Fn(&S::Item) -> bool + Sync,
) -> Vec<S::Item> {
    over(source).filter(wanted).collect()
}

/// The number of items for which `wanted` holds: [`Loop::count`](super::Loop::count).
///
/// ```
/// assert_eq!(filch::par::count(&[1, 0, 1], |n| *n == 1), 2);
/// ```
pub fn count<S: IntoProducer>(source: S, wanted: impl Fn(S::Item) -> bool + Sync) -> usize {
    over(source).map(|item| usize::from(wanted(item))).sum()
}

/// The first item for which `wanted` holds: [`Loop::find_first`](super::Loop::find_first).
///
/// ```
/// assert_eq!(filch::par::find_first(10..1_000, |n| n % 7 == 0), Some(14));
/// ```
pub fn find_first<S: IntoProducer<Item: Send>>(
    source: S,
    wanted: impl Fn(&S::Item) -> bool + Sync,
) -> Option<S::Item> {
    over(source).find_first(wanted)
}

/// An item for which `wanted` holds: [`Loop::find_any`](super::Loop::find_any).
///
/// ```
/// assert!(filch::par::find_any(10..1_000, |n| n % 7 == 0).is_some_and(|n| n % 7 == 0));
/// ```
pub fn find_any<S: IntoProducer<Item: Send>>(
    source: S,
    wanted: impl Fn(&S::Item) -> bool + Sync,
) -> Option<S::Item> {
    over(source).find_any(wanted)
}

/// Whether `holds` for some item: [`Loop::any`](super::Loop::any).
///
/// ```
/// assert!(filch::par::any(&[1, 2, 3], |n| *n == 2));
/// ```
pub fn any<S: IntoProducer>(source: S, holds: impl Fn(S::Item) -> bool + Sync) -> bool {
    over(source).any(holds)
}

/// Whether `holds` for all items: [`Loop::all`](super::Loop::all).
///
/// ```
/// assert!(filch::par::all(&[1, 2, 3], |n| *n > 0));
/// ```
pub fn all<S: IntoProducer>(source: S, holds: impl Fn(S::Item) -> bool + Sync) -> bool {
    over(source).all(holds)
}

/// The minimum; of several equal items, the first.
///
/// ```
/// assert_eq!(filch::par::min(&[3, 1, 2]), Some(&1));
/// ```
pub fn min<S: IntoProducer<Item: Ord + Send>>(source: S) -> Option<S::Item> {
    over(source).min()
}

/// The maximum; of several equal items, the last.
///
/// ```
/// assert_eq!(filch::par::max(&[3, 1, 2]), Some(&3));
/// ```
pub fn max<S: IntoProducer<Item: Ord + Send>>(source: S) -> Option<S::Item> {
    over(source).max()
}

/// Fills the slice with clones of `value`.
///
/// ```
/// let mut values = vec![0; 5];
/// filch::par::fill(&mut values, 7);
/// assert_eq!(values, [7; 5]);
/// ```
pub fn fill<T: Clone + Send + Sync>(items: &mut [T], value: T) {
    over(items).fill(value);
}

/// Prefix sums including the item itself: [`Loop::inclusive_scan`](super::Loop::inclusive_scan).
///
/// ```
/// assert_eq!(filch::par::inclusive_scan(1..5, |a, b| a + b), [1, 3, 6, 10]);
/// ```
pub fn inclusive_scan<S: IntoProducer<Item: Clone + Send + Sync, Producer: ExactProducer>>(
    source: S,
    op: impl Fn(&S::Item, &S::Item) -> S::Item + Sync,
) -> Vec<S::Item> {
    over(source).inclusive_scan(op)
}

/// Prefix sums excluding the item itself, and the total:
/// [`Loop::exclusive_scan`](super::Loop::exclusive_scan).
///
/// ```
/// assert_eq!(filch::par::exclusive_scan(1..5, 0, |a, b| a + b), (vec![0, 1, 3, 6], 10));
/// ```
pub fn exclusive_scan<S: IntoProducer<Item: Clone + Send + Sync, Producer: ExactProducer>>(
    source: S,
    neutral: S::Item,
    op: impl Fn(&S::Item, &S::Item) -> S::Item + Sync,
) -> (Vec<S::Item>, S::Item) {
    over(source).exclusive_scan(neutral, op)
}

/// Sorts a slice; equal items keep their order: [`Loop::sort`](super::Loop::sort).
///
/// ```
/// let mut words = ["small", "things"];
/// filch::sort(&mut words);
/// ```
pub fn sort<T: Ord + Send>(items: &mut [T]) {
    over(items).sort();
}

/// [`sort`] in the order of `compare`.
///
/// ```
/// let mut values = [1, 3, 2];
/// filch::par::sort_by(&mut values, |a, b| b.cmp(a));
/// assert_eq!(values, [3, 2, 1]);
/// ```
pub fn sort_by<T: Send>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Sync) {
    over(items).sort_by(compare);
}

/// [`sort`] in the order of the keys, which are computed for every comparison.
///
/// ```
/// let mut words = ["ccc", "a", "bb"];
/// filch::par::sort_by_key(&mut words, |word| word.len());
/// assert_eq!(words, ["a", "bb", "ccc"]);
/// ```
pub fn sort_by_key<T: Send, Q: Ord>(items: &mut [T], key: impl Fn(&T) -> Q + Sync) {
    over(items).sort_by_key(key);
}

/// Sorts a slice; equal items end up in any order:
/// [`Loop::sort_unstable`](super::Loop::sort_unstable).
///
/// ```
/// let mut values = [3, 1, 2];
/// filch::sort_unstable(&mut values);
/// assert_eq!(values, [1, 2, 3]);
/// ```
pub fn sort_unstable<T: Ord + Send>(items: &mut [T]) {
    over(items).sort_unstable();
}

/// [`sort_unstable`] in the order of `compare`.
///
/// ```
/// let mut values = [1, 3, 2];
/// filch::par::sort_unstable_by(&mut values, |a, b| b.cmp(a));
/// assert_eq!(values, [3, 2, 1]);
/// ```
pub fn sort_unstable_by<T: Send>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Sync) {
    over(items).sort_unstable_by(compare);
}

/// [`sort_unstable`] in the order of the keys, which are computed for every comparison.
///
/// ```
/// let mut values = [-3, 1, 2_i32];
/// filch::par::sort_unstable_by_key(&mut values, |n| n.abs());
/// assert_eq!(values, [1, 2, -3]);
/// ```
pub fn sort_unstable_by_key<T: Send, Q: Ord>(items: &mut [T], key: impl Fn(&T) -> Q + Sync) {
    over(items).sort_unstable_by_key(key);
}
