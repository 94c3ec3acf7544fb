//! Short tests of the unsafe code, so that the sanitizers cover it with the library's own tests.
//! The guarantees of loops are tested in `tests/par/`.

use super::over;
use crate::pool::Pool;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

/// Calls `f` with a function that panics in its call number `after`, for increasing `after`, from
/// outside of the pool and on a worker, until it does not panic.
fn panic_after(f: impl Fn(&Pool, &(dyn Fn() + Sync)) + Sync) {
    let pool = Pool::builder().workers(1).build().unwrap();
    let mut after = 0;
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
        after = after * 3 / 2 + 1;
    }
}

#[expect(clippy::vec_box, reason = "items with destructors")]
fn boxes(len: usize) -> Vec<Box<usize>> {
    (0..len).map(|n| Box::new(n * 7_919 % len)).collect()
}

#[test]
fn results_and_items_are_dropped_once() {
    panic_after(|pool, count| {
        let called = |item: Box<usize>| {
            count();
            item
        };
        let all = over(boxes(1_000)).on(pool).eager().max_chunk(7).map(called);
        assert_eq!(all.to_vec().len(), 1_000);
    });
    panic_after(|pool, count| {
        let items = over(boxes(1_000)).on(pool).eager();
        let even = items.filter(|item| {
            count();
            item.is_multiple_of(2)
        });
        assert_eq!(even.to_vec().len(), 500);
        let odd = over(0..1_000_u32).on(pool).eager().filter(|n| n % 2 == 1);
        assert_eq!(odd.to_vec().len(), 500);
    });
    panic_after(|pool, count| {
        let items = over(boxes(1_000)).on(pool).eager().max_chunk(7);
        let totals = items.inclusive_scan(|a, b| {
            count();
            Box::new(**a + **b)
        });
        assert_eq!(totals.last().map(|total| **total), Some(499_500));
    });
}

#[test]
fn sorts_keep_every_item_once() {
    // Merges of more than 8,192 items are split.
    panic_after(|pool, count| {
        let mut items = boxes(9_000);
        let sort = || {
            over(&mut items).on(pool).sort_by(|a, b| {
                count();
                a.cmp(b)
            });
        };
        let panic = catch_unwind(AssertUnwindSafe(sort)).err();
        items.sort();
        assert!(items.iter().map(|item| **item).eq(0..9_000));
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    });
}
