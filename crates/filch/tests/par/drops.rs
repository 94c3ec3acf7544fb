//! Loops whose closures panic, over items and results with destructors: nothing is lost, nothing dropped twice.

use crate::support::{Counted, Drops, LIMIT, panic_of, pool, quiet_panic, within};
use filch::{CancelToken, Pool, par::ChunkingStrategy};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Calls `f` on pools of several sizes, several times.
fn everywhere(f: impl Fn(&Pool) + Send + 'static) {
    within(LIMIT * 3, move || {
        for workers in [0, 1, 3] {
            let pool = pool(workers);
            for _ in 0..5 {
                f(&pool);
                pool.install(|| f(&pool));
            }
        }
    });
}

const ITEMS: usize = 3_000;

#[test]
fn a_panic_reaches_the_caller() {
    everywhere(|pool| {
        for at in [0, 1, ITEMS / 2, ITEMS - 1] {
            let panics = |n: usize| {
                if n == at {
                    quiet_panic("this one")
                }
            };
            let items = || pool.over(0..ITEMS).eager();
            assert_eq!(panic_of(|| items().for_each(panics)), "this one");
            assert_eq!(
                panic_of(|| items().max_chunk(1).map(panics).to_vec()),
                "this one"
            );
            let chunks = ChunkingStrategy::exactly(10);
            assert_eq!(
                panic_of(|| items().chunking(chunks).map(panics).to_vec()),
                "this one"
            );
            assert_eq!(
                panic_of(|| items().any(|n| {
                    panics(n);
                    false
                })),
                "this one"
            );
            assert_eq!(
                panic_of(|| items()
                    .progress(|_| ())
                    .filter(|n| {
                        panics(*n);
                        true
                    })
                    .count()),
                "this one"
            );
            let scan = |a: &usize, b: &usize| {
                panics(*b + usize::from(*b == 0 && at == 0));
                a + b
            };
            if at > 0 {
                assert_eq!(panic_of(|| items().inclusive_scan(scan)), "this one");
            }
        }
        // The pool is as good as before.
        assert_eq!(pool.over(0..ITEMS).count(), ITEMS);
    });
}

#[test]
fn others_stop_after_a_panic() {
    let pool = pool(1);
    let calls = AtomicUsize::new(0);
    let panic = panic_of(|| {
        pool.over(0..u64::MAX).eager().for_each(|n| {
            calls.fetch_add(1, Ordering::Relaxed);
            if n == 1_000 {
                quiet_panic("enough");
            }
        });
    });
    assert_eq!(panic, "enough");
}

#[test]
fn results_of_a_map_that_panics_are_dropped() {
    everywhere(|pool| {
        let (drops, made) = (Drops::default(), AtomicUsize::new(0));
        let make = |n: usize| {
            if n == 1_777 {
                quiet_panic("no more");
            }
            made.fetch_add(1, Ordering::SeqCst);
            drops.value()
        };
        assert_eq!(
            panic_of(|| pool.over(0..ITEMS).eager().map(make).to_vec()),
            "no more"
        );
        assert_eq!(drops.seen(), made.swap(0, Ordering::SeqCst));
        let drops = Drops::default();
        let results = pool.over(0..ITEMS).eager().map(|_| drops.value()).to_vec();
        assert_eq!((results.len(), drops.seen()), (ITEMS, 0));
        drop(results);
        assert_eq!(drops.seen(), ITEMS);
    });
}

#[test]
fn results_of_a_cancelled_map_are_dropped() {
    everywhere(|pool| {
        let (drops, made) = (Drops::default(), AtomicUsize::new(0));
        let token = CancelToken::new();
        let outcome = pool
            .over(0..ITEMS)
            .eager()
            .max_chunk(10)
            .cancel(&token)
            .map(|n| {
                if n == 1_000 {
                    token.cancel();
                }
                made.fetch_add(1, Ordering::SeqCst);
                drops.value()
            })
            .to_vec();
        assert!(outcome.is_err());
        let made = made.into_inner();
        assert_eq!((drops.seen(), outcome.err().unwrap().done()), (made, made));
    });
}

#[test]
fn items_of_a_vector_are_dropped_once() {
    everywhere(|pool| {
        let vector = |drops: &Drops| (0..ITEMS).map(|n| (n, drops.value())).collect::<Vec<_>>();
        let drops = Drops::default();
        let kept = pool
            .over(vector(&drops))
            .eager()
            .filter(|item| item.0 % 2 == 0)
            .to_vec();
        assert_eq!(drops.seen(), ITEMS / 2);
        assert!(kept.iter().map(|item| item.0).eq((0..ITEMS).step_by(2)));
        drop(kept);
        assert_eq!(drops.seen(), ITEMS);

        let drops = Drops::default();
        let panic = panic_of(|| {
            pool.over(vector(&drops)).eager().for_each(|item| {
                if item.0 == 1_234 {
                    quiet_panic("dropped all the same");
                }
            });
        });
        assert_eq!((panic, drops.seen()), ("dropped all the same", ITEMS));

        let drops = Drops::default();
        let found = pool.over(vector(&drops)).find_first(|item| item.0 == 700);
        assert_eq!(
            (found.as_ref().map(|item| item.0), drops.seen()),
            (Some(700), ITEMS - 1)
        );
        drop(found);
        assert_eq!(drops.seen(), ITEMS);

        // A loop that never runs.
        let drops = Drops::default();
        drop(pool.over(vector(&drops)));
        assert_eq!(drops.seen(), ITEMS);

        // Changed on the way, without a word of memory in common.
        let drops = Drops::default();
        let items: Vec<Box<usize>> = pool
            .over(vector(&drops))
            .eager()
            .map(|item| Box::new(item.0))
            .collect();
        assert_eq!(drops.seen(), ITEMS);
        assert!(items.iter().map(|n| **n).eq(0..ITEMS));
    });
}

#[test]
fn destructors_may_panic() {
    everywhere(|pool| {
        let drops = Drops::default();
        let items: Vec<Counted> = (0..ITEMS)
            .map(|n| {
                if n == 500 {
                    drops.bomb("a bomb")
                } else {
                    drops.value()
                }
            })
            .collect();
        assert_eq!(
            panic_of(|| pool.over(items).eager().for_each(drop)),
            "a bomb"
        );
        assert_eq!(drops.seen(), ITEMS);
        // One that has no partner, and is dropped at the end: what has been made of the others is dropped too.
        let (left, made) = (Drops::default(), Drops::default());
        let mut items: Vec<Counted> = (0..ITEMS).map(|_| left.value()).collect();
        items.push(left.bomb("left over"));
        let pairs = pool.over(items).zip(0..100);
        assert_eq!(
            panic_of(|| pairs.map(|_| made.value()).to_vec()),
            "left over"
        );
        assert_eq!((left.seen(), made.seen()), (ITEMS + 1, 100));
    });
}

#[test]
fn what_is_overwritten_is_dropped() {
    everywhere(|pool| {
        let drops = Drops::default();
        let mut output: Vec<Counted> = (0..ITEMS).map(|_| drops.value()).collect();
        pool.over(0..ITEMS)
            .eager()
            .map(|_| drops.value())
            .write_into(&mut output);
        assert_eq!(drops.seen(), ITEMS);
        let mut texts = vec![String::from("before"); ITEMS];
        pool.over(&mut texts).eager().fill("after".into());
        assert!(texts.iter().all(|text| text == "after"));
    });
}

#[test]
fn reductions_and_scans_own_what_they_make() {
    everywhere(|pool| {
        let count = Arc::new(());
        let shares = vec![count.clone(); ITEMS];
        let scan = pool
            .over(&shares)
            .cloned()
            .eager()
            .inclusive_scan(|_, b| b.clone());
        assert_eq!(Arc::strong_count(&count), 1 + 2 * ITEMS);
        drop(scan);
        let scan = pool
            .over(shares)
            .eager()
            .exclusive_scan(count.clone(), |a, _| a.clone());
        assert_eq!(Arc::strong_count(&count), 2 + ITEMS);
        drop(scan);
        assert_eq!(Arc::strong_count(&count), 1);
        let shares = vec![count.clone(); ITEMS];
        drop(pool.over(shares).eager().reduce(|a, _| a));
        assert_eq!(Arc::strong_count(&count), 1);
    });
}

#[test]
fn items_without_a_size_are_dropped_once() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Unit;
    impl Drop for Unit {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    everywhere(|pool| {
        let units = || (0..ITEMS).map(|_| Unit).collect::<Vec<_>>();
        let dropped = || DROPPED.swap(0, Ordering::SeqCst);
        let made = pool.over(0..ITEMS).eager().map(|_| Unit).to_vec();
        assert_eq!((made.len(), dropped()), (ITEMS, 0));
        drop(made);
        assert_eq!(dropped(), ITEMS);
        let kept = pool.over(units()).eager().filter(|_| true).to_vec();
        assert_eq!((kept.len(), dropped()), (ITEMS, 0));
        drop(kept);
        assert_eq!(dropped(), ITEMS);
        let made = AtomicUsize::new(0);
        let panic = panic_of(|| {
            pool.over(0..ITEMS)
                .eager()
                .map(|n| {
                    if n == 1_500 {
                        quiet_panic("no more units");
                    }
                    made.fetch_add(1, Ordering::SeqCst);
                    Unit
                })
                .to_vec()
        });
        assert_eq!((panic, dropped()), ("no more units", made.into_inner()));
        let token = CancelToken::new();
        let made = AtomicUsize::new(0);
        let outcome = pool.over(0..ITEMS).eager().max_chunk(10).cancel(&token);
        let outcome = outcome
            .map(|n| {
                if n == 1_000 {
                    token.cancel();
                }
                made.fetch_add(1, Ordering::SeqCst);
                Unit
            })
            .to_vec();
        assert!(outcome.is_err());
        assert_eq!(dropped(), made.into_inner());
    });
}

#[test]
fn a_filter_that_panics_drops_once() {
    everywhere(|pool| {
        let drops = Drops::default();
        let items: Vec<(usize, Counted)> = (0..ITEMS).map(|n| (n, drops.value())).collect();
        let panic = panic_of(|| {
            pool.over(items)
                .eager()
                .filter(|item| {
                    if item.0 == 1_234 {
                        quiet_panic("not this one");
                    }
                    item.0 % 2 == 0
                })
                .to_vec()
        });
        assert_eq!((panic, drops.seen()), ("not this one", ITEMS));
        // Without destructors they are written in another way.
        let panic = panic_of(|| {
            pool.over(0..ITEMS)
                .eager()
                .filter(|n| {
                    if *n == 1_234 {
                        quiet_panic("nor this");
                    }
                    true
                })
                .to_vec()
        });
        assert_eq!(panic, "nor this");
    });
}

#[test]
fn no_deep_recursion() {
    // Blocks of one item, a million of them, on a small stack.
    let thread = std::thread::Builder::new().stack_size(256 * 1024);
    let sum = thread
        .spawn(|| {
            let pool = Pool::builder()
                .workers(2)
                .stack_size(256 * 1024)
                .build()
                .unwrap();
            let items = || pool.over(0..200_000_u64).eager();
            let chunks = ChunkingStrategy::exactly(1);
            (
                items().max_chunk(1).sum::<u64>(),
                items().chunking(chunks).sum::<u64>(),
            )
        })
        .unwrap();
    let expected: u64 = (0..200_000).sum();
    assert_eq!(sum.join().unwrap(), (expected, expected));
}
