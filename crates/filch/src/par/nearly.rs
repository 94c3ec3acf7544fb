//! A stable sort for slices of which only a few items are out of order.
//!
//! One pass keeps the items that are in order, moving them together at the front, and takes the
//! others out. These are sorted, and merged back from the end, in blocks: after Emil Ernerfeldt's
//! drop-merge sort, made stable. With `m` items out of order it takes `n` comparisons and `m`
//! binary searches. If there are many, it stops soon, and another sort has to do it.
//!
//! # Moves
//!
//! An item is moved by copying its bytes. [`Gap`] knows where the valid copies are at any time: in
//! the slice in front of the gap and after it, and, as many as fit into the gap, in a vector. When
//! it is dropped, after a panic too, it fills the gap from the vector.
#![expect(
    unsafe_code,
    reason = "items that are taken out of a slice and put back"
)]

use std::{cmp::Ordering, mem::ManuallyDrop, ptr};

/// The pass stops when more than this fraction (1/32) of the items is out of order.
const MAX_TAKEN_DIVISOR: usize = 32;

/// This many items may be out of order anyway.
const MAX_TAKEN_AT_START: usize = 8;

/// After this many items in a row that are less than the last one that was kept, that one is taken
/// out instead of them.
const MAX_TAKEN_IN_A_ROW: usize = 8;

/// An item that has been taken out.
struct Taken<T> {
    item: ManuallyDrop<T>,
    /// The number of kept items that were in front of it.
    kept_before: usize,
}

/// A slice with a gap, and the items that belong into it.
struct Gap<'s, T> {
    items: &'s mut [T],
    /// The items of the slice from `start` to `end` are invalid: their valid copies are in `taken`,
    /// which has as many, or elsewhere in the slice. All others are valid.
    start: usize,
    end: usize,
    taken: Vec<Taken<T>>,
}

impl<T> Drop for Gap<'_, T> {
    fn drop(&mut self) {
        debug_assert_eq!(self.taken.len(), self.end - self.start);
        for (place, taken) in self.items[self.start..self.end].iter_mut().zip(&self.taken) {
            // SAFETY: the place is invalid, and the copy in the vector is valid, as `start` says;
            // it is not used after this.
            unsafe { ptr::copy_nonoverlapping(&*taken.item, place, 1) };
        }
    }
}

/// Windows in which [`looks_nearly_sorted`] compares adjacent items, and their length.
const WINDOWS: usize = 16;
const WINDOW: usize = 64;

/// The most pairs in the wrong order in these windows.
const MAX_DESCENTS: usize = 16;

/// Whether most adjacent items are in order, as far as a sample shows.
pub(super) fn looks_nearly_sorted<T>(items: &[T], less: &impl Fn(&T, &T) -> bool) -> bool {
    let distance = items.len() / WINDOWS;
    let windows = items
        .chunks(distance.max(WINDOW))
        .map(|part| &part[..part.len().min(WINDOW)]);
    let descents = windows.map(|part| {
        part.windows(2)
            .filter(|pair| less(&pair[1], &pair[0]))
            .count()
    });
    descents.sum::<usize>() <= MAX_DESCENTS
}

/// Sorts `items`, if only a few are out of order; returns whether it has. If not, some are sorted;
/// equal ones are in their order.
pub(super) fn sort_nearly_sorted<T>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) -> bool {
    let mut gap = Gap {
        items,
        start: 0,
        end: 0,
        taken: Vec::new(),
    };
    let all = gap.take_out(less);
    gap.taken.sort_by(|a, b| {
        let (a, b) = (&*a.item, &*b.item);
        match (less(a, b), less(b, a)) {
            (true, _) => Ordering::Less,
            (_, true) => Ordering::Greater,
            _ => Ordering::Equal,
        }
    });
    // Also if there were too many: put back in any other order, equal items could be exchanged.
    gap.put_back(less);
    all
}

impl<T> Gap<'_, T> {
    /// Takes the items out that are not in order. Returns false if there are too many.
    fn take_out(&mut self, less: &impl Fn(&T, &T) -> bool) -> bool {
        let mut in_a_row = 0;
        while self.end < self.items.len() {
            let (kept, next) = (self.start, self.end);
            let in_order = kept == 0 || !less(&self.items[next], &self.items[kept - 1]);
            if in_order {
                self.keep();
                in_a_row = 0;
                continue;
            }
            if self.taken.len() > MAX_TAKEN_AT_START + next / MAX_TAKEN_DIVISOR {
                return false;
            }
            if kept > 1 && in_a_row == 0 && !less(&self.items[next], &self.items[kept - 2]) {
                // Only the last one is too large.
                self.take_kept_from(kept - 1);
                self.keep();
            } else if in_a_row < MAX_TAKEN_IN_A_ROW {
                self.take_next();
                in_a_row += 1;
            } else {
                // Those of the row are in order, most likely, and some kept ones too large. The
                // first of the row may be too small by itself, so the last two decide.
                self.undo_take(in_a_row);
                let last = self.end + in_a_row;
                in_a_row = 0;
                let larger_than =
                    |item: &T| self.items[..kept].partition_point(|kept| !less(item, kept));
                let larger = larger_than(&self.items[last]).max(larger_than(&self.items[last - 1]));
                // The last kept one is larger than both, unless the comparison is inconsistent.
                let larger = larger.min(kept - 1);
                if self.taken.len() + kept - larger
                    > MAX_TAKEN_AT_START + self.end / MAX_TAKEN_DIVISOR
                {
                    return false;
                }
                self.take_kept_from(larger);
            }
        }
        true
    }

    /// Moves the item after the gap in front of it.
    fn keep(&mut self) {
        let (kept, next) = (self.start, self.end);
        if kept < next {
            let base = self.items.as_mut_ptr();
            // SAFETY: both indices are in the slice, and different. The item after the gap is
            // valid; its place is the last of the gap from here on.
            unsafe {
                ptr::copy_nonoverlapping(base.wrapping_add(next), base.wrapping_add(kept), 1);
            }
        }
        self.start += 1;
        self.end += 1;
    }

    /// Takes out the item after the gap.
    fn take_next(&mut self) {
        let kept_before = self.start;
        // SAFETY: the item is valid, and becomes the last of the gap.
        let item = unsafe { ptr::read(&self.items[self.end]) };
        self.taken.push(Taken {
            item: ManuallyDrop::new(item),
            kept_before,
        });
        self.end += 1;
    }

    /// Makes the last `count` items valid again that `take_next` has taken, with no other change
    /// since: their bytes are still there.
    fn undo_take(&mut self, count: usize) {
        self.taken.truncate(self.taken.len() - count);
        self.end -= count;
    }

    /// Takes out the items in front of the gap from `first` on. They go to their places between
    /// those that were taken before and after them.
    fn take_kept_from(&mut self, first: usize) {
        let earlier = self
            .taken
            .partition_point(|taken| taken.kept_before <= first);
        let mut later = self.taken.split_off(earlier).into_iter().peekable();
        for place in first..self.start {
            // SAFETY: the item is valid, and its place becomes a part of the gap, below.
            let item = unsafe { ptr::read(&self.items[place]) };
            self.taken.push(Taken {
                item: ManuallyDrop::new(item),
                kept_before: first,
            });
            while let Some(taken) = later.next_if(|taken| taken.kept_before == place + 1) {
                self.taken.push(Taken {
                    kept_before: first,
                    ..taken
                });
            }
        }
        debug_assert!(later.next().is_none(), "they were after one of these");
        self.start = first;
    }

    /// Merges the items that were taken out, and are sorted, with those in front of the gap.
    fn put_back(&mut self, less: &impl Fn(&T, &T) -> bool) {
        while let Some(Taken { item, kept_before }) = self.taken.last() {
            let kept = &self.items[..self.start];
            let first_equal = kept.partition_point(|other| less(other, item));
            let equal = kept[first_equal..].partition_point(|other| !less(item, other));
            // After the equal items that were in front of it.
            let place = (*kept_before).clamp(first_equal, first_equal + equal);
            let after = self.start - place;
            let base = self.items.as_mut_ptr();
            let end = base.wrapping_add(self.end - after);
            // SAFETY: the items from `place` on are valid, and move to the end of the gap, where
            // they may overlap themselves. The gap is in front of them from here on.
            unsafe { ptr::copy(base.wrapping_add(place), end, after) };
            (self.start, self.end) = (place, self.end - after);
            // SAFETY: the last place of the gap is invalid, and the copy in the vector is valid; it
            // leaves the vector below.
            unsafe { ptr::copy_nonoverlapping(&**item, base.wrapping_add(self.end - 1), 1) };
            self.end -= 1;
            self.taken.pop();
        }
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::sort_nearly_sorted;
    use crate::base::rng::Rng;
    use std::{
        cell::Cell,
        panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    };

    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 3_000 };

    /// Few keys, with their places: sorted, but for some swaps and rotations.
    fn pairs(rng: &mut Rng) -> Vec<(u64, Box<u64>)> {
        let len = rng.next_u64() % 300;
        let keys = 1 + rng.next_u64() % 100;
        let mut sorted: Vec<u64> = (0..len).map(|_| rng.next_u64() % keys).collect();
        sorted.sort_unstable();
        let changes = rng.next_u64() % 12;
        for _ in 0..changes.min(len) {
            let (a, b) = (rng.next_u64() % len, rng.next_u64() % len);
            let (a, b) = (a.min(b) as usize, a.max(b) as usize);
            match rng.next_u64() % 4 {
                0 => sorted[a..=b].rotate_left(1),
                1 => sorted[a..=b].rotate_right(1),
                2 => sorted[a..=b].reverse(),
                _ => sorted.swap(a, b),
            }
        }
        let items = sorted.into_iter().zip(0..);
        items.map(|(key, place)| (key, Box::new(place))).collect()
    }

    #[test]
    fn it_is_stable() {
        let (mut rng, mut done) = (Rng::new(1), 0);
        for _ in 0..ROUNDS {
            let mut items = pairs(&mut rng);
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            if sort_nearly_sorted(&mut items, &|a, b| a.0 < b.0) {
                done += 1;
            } else {
                // It has not exchanged equal ones.
                items.sort_by_key(|item| item.0);
            }
            assert_eq!(items, expected);
        }
        assert!(done > ROUNDS / 4, "{done} of {ROUNDS}");
    }

    #[test]
    fn a_stretch_of_large_items() {
        for (stretch, is_sorted) in [(1, true), (9, true), (10, true), (40, true), (500, false)] {
            let large = (0..stretch).map(|n| (9_000 - n % 2, n));
            let items = (0..1_500).map(|n| (n, 0)).chain(large);
            let mut items: Vec<(i32, i32)> = items.chain((1_500..3_000).map(|n| (n, 0))).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            assert_eq!(
                sort_nearly_sorted(&mut items, &|a, b| a.0 < b.0),
                is_sorted,
                "{stretch}"
            );
            items.sort_by_key(|item| item.0);
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn a_few_swaps_in_many_items() {
        let (mut rng, len) = (Rng::new(5), if cfg!(miri) { 2_000 } else { 4_000_000 });
        let mut items: Vec<u64> = (0..len).collect();
        let mut place = || (rng.next_u64() % len) as usize;
        for _ in 0..len / 4_000 {
            items.swap(place(), place());
        }
        for run in items.chunks_mut((len / 4) as usize) {
            assert!(sort_nearly_sorted(run, &|a, b| a < b));
            assert!(run.is_sorted());
        }
    }

    #[test]
    fn a_panic_loses_no_item() {
        let mut rng = Rng::new(2);
        for _ in 0..ROUNDS {
            let mut items = pairs(&mut rng);
            let left = Cell::new(rng.next_u64() % 600);
            let less = |a: &(u64, Box<u64>), b: &(u64, Box<u64>)| {
                if left.replace(left.get().saturating_sub(1)) == 1 {
                    resume_unwind(Box::new("planned"));
                }
                a.0 < b.0
            };
            let sort = || sort_nearly_sorted(&mut items, &less);
            let _ = catch_unwind(AssertUnwindSafe(sort));
            let len = items.len() as u64;
            let mut places: Vec<u64> = items.into_iter().map(|item| *item.1).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..len));
        }
    }

    #[test]
    fn no_order_at_all() {
        let mut rng = Rng::new(3);
        for _ in 0..ROUNDS / 10 {
            let mut items: Vec<String> = (0..100).map(|n| n.to_string()).collect();
            let random = Cell::new(rng.next_u64());
            let less = |_: &String, _: &String| {
                random.set(random.get().rotate_left(1));
                random.get().is_multiple_of(2)
            };
            // The sort of the standard library may panic.
            let _ = catch_unwind(AssertUnwindSafe(|| sort_nearly_sorted(&mut items, &less)));
            items.sort_by_key(|item| item.parse::<u32>().unwrap());
            assert!(items.into_iter().eq((0..100).map(|n| n.to_string())));
        }
    }
}
