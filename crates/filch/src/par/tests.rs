//! Short tests of the unsafe code, so that the sanitizers cover it with the library's own tests.
//! The guarantees of loops are tested in `tests/par/`.

use super::over;
use crate::pool::Pool;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

/// The number of items of a loop.
const LEN: usize = if cfg!(miri) { 60 } else { 1_000 };

/// The number of items to sort. Merges of more than 8,192 items are split; fewer than 2,000 items
/// are sorted by one worker.
const SORTED_LEN: usize = if cfg!(miri) { 2_000 } else { 9_000 };

/// The smallest distance between the calls that panic in a loop, and in a sort.
const STEP: usize = if cfg!(miri) { 20 } else { 1 };
const SORT_STEP: usize = if cfg!(miri) { 12_000 } else { 1 };

/// Calls `f` with a function that panics in its call number `after`, for increasing `after`, from
/// outside of the pool and on a worker, until it does not panic.
fn panic_after(step: usize, f: impl Fn(&Pool, &(dyn Fn() + Sync)) + Sync) {
    let pool = Pool::builder().workers(1).build().unwrap();
    let mut after = step - 1;
    loop {
        let once = || {
            let left = AtomicUsize::new(after);
            let count = || {
                if left.fetch_sub(1, SeqCst) == 0 {
                    resume_unwind(Box::new("planned"));
                }
            };
            catch_unwind(AssertUnwindSafe(|| f(&pool, &count))).is_ok()
        };
        if once() & pool.install(once) {
            return;
        }
        after = after * 3 / 2 + step;
    }
}

#[expect(clippy::vec_box, reason = "items with destructors")]
fn boxes(len: usize) -> Vec<Box<usize>> {
    (0..len).map(|n| Box::new(n * 7_919 % len)).collect()
}

#[test]
fn results_and_items_are_dropped_once() {
    panic_after(STEP, |pool, count| {
        let called = |item: Box<usize>| {
            count();
            item
        };
        let all = over(boxes(LEN)).on(pool).eager().max_chunk(7).map(called);
        assert_eq!(all.to_vec().len(), LEN);
    });
    panic_after(STEP, |pool, count| {
        let items = over(boxes(LEN)).on(pool).eager();
        let even = items.filter(|item| {
            count();
            item.is_multiple_of(2)
        });
        assert_eq!(even.to_vec().len(), LEN / 2);
        let odd = over(0..LEN).on(pool).eager().filter(|n| n % 2 == 1);
        assert_eq!(odd.to_vec().len(), LEN / 2);
    });
    panic_after(STEP, |pool, count| {
        let items = over(boxes(LEN)).on(pool).eager().max_chunk(7);
        let totals = items.inclusive_scan(|a, b| {
            count();
            Box::new(**a + **b)
        });
        assert_eq!(
            totals.last().map(|total| **total),
            Some(LEN * (LEN - 1) / 2)
        );
    });
}

#[test]
fn sorts_keep_every_item_once() {
    panic_after(SORT_STEP, |pool, count| {
        let mut items = boxes(SORTED_LEN);
        let sort = || {
            over(&mut items).on(pool).sort_by(|a, b| {
                count();
                a.cmp(b)
            });
        };
        let panic = catch_unwind(AssertUnwindSafe(sort)).err();
        items.sort();
        assert!(items.iter().map(|item| **item).eq(0..SORTED_LEN));
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    });
}
