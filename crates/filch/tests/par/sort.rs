//! Sorting by several workers.

use crate::support::{LIMIT, panic_of, pool, quiet_panic, within};
use filch::{CancelToken, Pool};
use proptest::prelude::*;
use std::{
    cell::Cell,
    cmp::Ordering,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering as Atomic},
    },
};

/// Data of many shapes.
fn shapes(len: usize) -> Vec<(&'static str, Vec<u64>)> {
    let random = |n: usize| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 13;
    let of = |f: &dyn Fn(usize) -> u64| (0..len).map(f).collect::<Vec<_>>();
    vec![
        ("random", of(&random)),
        ("sorted", of(&|n| n as u64)),
        ("reversed", of(&|n| (len - n) as u64)),
        ("equal", of(&|_| 7)),
        ("few values", of(&|n| random(n) % 4)),
        ("saw", of(&|n| (n % 1_000) as u64)),
        ("organ pipe", of(&|n| n.min(len - n) as u64)),
        (
            "nearly sorted",
            of(&|n| if n % 97 == 0 { random(n) } else { n as u64 }),
        ),
        (
            "halves swapped",
            of(&|n| ((n + len / 2) % len.max(1)) as u64),
        ),
    ]
}

/// Lengths around where things change.
const LENGTHS: [usize; 6] = [0, 1, 1_999, 2_001, 8_193, 20_000];

fn everywhere(f: impl Fn(&Pool) + Send + 'static) {
    within(LIMIT * 6, move || {
        for workers in [0, 1, 4] {
            let pool = pool(workers);
            f(&pool);
            pool.install(|| f(&pool));
        }
    });
}

#[test]
fn sorts_as_the_standard_library_does() {
    everywhere(|pool| {
        for len in LENGTHS {
            for (shape, data) in shapes(len) {
                let mut expected = data.clone();
                expected.sort_unstable();
                let (mut stable, mut unstable) = (data.clone(), data);
                pool.over(&mut stable).sort();
                pool.over(&mut unstable).sort_unstable();
                assert!(
                    stable == expected && unstable == expected,
                    "{shape} of {len}"
                );
            }
        }
    });
}

#[test]
fn equal_items_keep_their_order() {
    everywhere(|pool| {
        for (shape, data) in shapes(12_000) {
            let mut pairs: Vec<(u64, usize)> = data.iter().map(|n| n % 50).zip(0..).collect();
            let mut expected = pairs.clone();
            expected.sort_by_key(|pair| pair.0);
            pool.over(&mut pairs).sort_by_key(|pair| pair.0);
            assert!(pairs == expected, "{shape}");
            expected.sort_by_key(|pair| std::cmp::Reverse(pair.0));
            pool.over(&mut pairs).sort_by(|a, b| b.0.cmp(&a.0));
            assert!(pairs == expected, "{shape}, backwards");
            pool.over(&mut pairs).sort_unstable_by_key(|pair| pair.0);
            assert!(pairs.is_sorted_by_key(|pair| pair.0));
            pool.over(&mut pairs).sort_unstable_by(|a, b| b.cmp(a));
            assert!(pairs.is_sorted_by(|a, b| a >= b));
        }
    });
}

/// An item with a destructor, whose comparison changes it.
struct Touchy {
    key: u64,
    live: Arc<AtomicUsize>,
    touched: Cell<Option<Box<u64>>>,
}

impl Touchy {
    fn all(live: &Arc<AtomicUsize>, len: usize) -> Vec<Self> {
        let keys = (0..len as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
        keys.map(|key| {
            live.fetch_add(1, Atomic::SeqCst);
            Self {
                key,
                live: live.clone(),
                touched: Cell::new(Some(Box::new(0))),
            }
        })
        .collect()
    }

    fn compare(&self, other: &Self) -> Ordering {
        for item in [self, other] {
            let times = item.touched.take().map_or(0, |times| *times);
            item.touched.set(Some(Box::new(times + 1)));
        }
        self.key.cmp(&other.key)
    }
}

impl Drop for Touchy {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Atomic::SeqCst);
    }
}

#[test]
fn comparisons_may_change_items_behind_a_cell() {
    everywhere(|pool| {
        let live = Arc::new(AtomicUsize::new(0));
        let mut items = Touchy::all(&live, 20_000);
        pool.over(&mut items).sort_by(Touchy::compare);
        assert!(items.is_sorted_by_key(|item| item.key));
        assert!(
            items
                .iter()
                .all(|item| item.touched.take().is_some_and(|times| *times > 0))
        );
        drop(items);
        assert_eq!(live.load(Atomic::SeqCst), 0);
    });
}

#[test]
fn comparisons_may_panic_at_any_time() {
    everywhere(|pool| {
        let live = Arc::new(AtomicUsize::new(0));
        let len = 12_000;
        let mut keys: Vec<u64> = Touchy::all(&live, len)
            .iter()
            .map(|item| item.key)
            .collect();
        keys.sort_unstable();
        let mut after = 1;
        let mut panicked = 0;
        while after < 200_000 {
            let mut items = Touchy::all(&live, len);
            let left = AtomicUsize::new(after);
            let compare = |a: &Touchy, b: &Touchy| {
                if left.fetch_sub(1, Atomic::SeqCst) == 1 {
                    quiet_panic("out of patience");
                }
                a.compare(b)
            };
            let sorted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pool.over(&mut items).sort_by(compare);
            }));
            panicked += usize::from(sorted.is_err());
            assert_eq!(live.load(Atomic::SeqCst), len);
            let mut left: Vec<u64> = items.iter().map(|item| item.key).collect();
            left.sort_unstable();
            assert!(left == keys, "every item is there once");
            drop(items);
            assert_eq!(live.load(Atomic::SeqCst), 0);
            after = after * 5 / 3 + 10;
        }
        assert!(panicked > 10);
    });
}

#[test]
fn senseless_orders_do_no_harm() {
    everywhere(|pool| {
        let turn = AtomicUsize::new(0);
        let mut items: Vec<Box<usize>> = (0..20_000).map(Box::new).collect();
        let random = || match turn.fetch_add(7, Atomic::SeqCst) % 3 {
            0 => Ordering::Less,
            1 => Ordering::Equal,
            _ => Ordering::Greater,
        };
        // It may panic, as the standard library's may; all items stay.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.over(&mut items).sort_by(|_, _| random());
        }));
        let mut all: Vec<usize> = items.iter().map(|n| **n).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..20_000));
    });
}

#[test]
fn a_cancelled_sort_keeps_all_items() {
    everywhere(|pool| {
        for after in [0, 10, 50_000, 120_000, 160_000] {
            let (token, calls) = (CancelToken::new(), AtomicUsize::new(0));
            let mut items: Vec<u64> = shapes(12_000).remove(0).1;
            let mut expected = items.clone();
            expected.sort_unstable();
            if after == 0 {
                token.cancel();
            }
            let outcome = pool.over(&mut items).cancel(&token).sort_by(|a, b| {
                if calls.fetch_add(1, Atomic::SeqCst) == after {
                    token.cancel();
                }
                a.cmp(b)
            });
            match outcome {
                Ok(()) => assert!(after > 0 && items == expected, "it says that it is done"),
                Err(_) => assert!(token.is_cancelled()),
            }
            items.sort_unstable();
            assert!(items == expected);
        }
    });
}

#[test]
fn a_panic_of_a_short_sort_reaches_the_caller() {
    let mut items = [3, 2, 1];
    let panic = panic_of(|| filch::par::sort_by(&mut items, |_, _| quiet_panic("at once")));
    assert_eq!(panic, "at once");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_data(data in prop::collection::vec((0_u16..300, any::<u8>()), 0..12_000), workers in 0_usize..4) {
        let pool = pool(workers);
        let (mut items, mut expected) = (data.clone(), data);
        expected.sort_by_key(|item| item.0);
        pool.over(&mut items).sort_by_key(|item| item.0);
        prop_assert!(items == expected);
        expected.sort();
        pool.over(&mut items).sort_unstable();
        prop_assert!(items == expected);
    }
}
