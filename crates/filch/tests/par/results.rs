//! Chains that end early or with a panic: the first error in order, and every item dropped once.

use crate::{
    basics::Way,
    support::{Counted, Drops, LIMIT, panic_of, pool, quiet_panic, within},
};
use filch::{
    Pool,
    par::{FromPar, Loop, LoopStage, Mode, Producer, over},
    sync::WorkerLocal,
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

/// Calls `f` for every way to cut and every kind of pool, from outside and from inside.
fn everywhere(f: impl Fn(&Pool, Way) + Send + Sync + 'static) {
    within(LIMIT * 12, move || {
        for workers in [0, 1, 3] {
            let pool = pool(workers);
            for way in Way::ALL {
                f(&pool, way);
                pool.install(|| f(&pool, way));
            }
        }
    });
}

const ITEMS: usize = 2_000;

#[test]
fn the_first_error_in_order_is_returned() {
    everywhere(|pool, way| {
        for first in [0, 1, 700, ITEMS - 1, ITEMS] {
            let calls = AtomicUsize::new(0);
            // Every second item from there on fails.
            let check = |n: usize| {
                calls.fetch_add(1, SeqCst);
                let fails = n >= first && (n - first).is_multiple_of(2);
                if fails { Err(n) } else { Ok(n) }
            };
            let items = || way.cut(pool.over(0..ITEMS));
            let expected = (0..ITEMS).map(check).collect::<Result<Vec<_>, _>>();
            calls.store(0, SeqCst);
            assert_eq!(
                items().try_for_each(|n| check(n).map(drop)),
                expected.as_ref().map(|_| ()).map_err(|n| *n)
            );
            // Items before the error are not skipped.
            assert!(calls.load(SeqCst) > first.min(ITEMS - 1));
            assert_eq!(items().map(check).collect::<Result<Vec<_>, _>>(), expected);
            assert_eq!(
                items().map(check).collect::<Result<VecDeque<_>, _>>(),
                expected.clone().map(Into::into)
            );
            let some = items()
                .filter(|n| n % 3 < 2)
                .map(|n| check(n).map(|n| (n, n)));
            let same = (0..ITEMS)
                .filter(|n| n % 3 < 2)
                .map(|n| check(n).map(|n| (n, n)));
            assert_eq!(some.collect::<Result<HashMap<_, _>, _>>(), same.collect());
            assert_eq!(
                items().map(|n| check(n).ok()).collect::<Option<Vec<_>>>(),
                expected.clone().ok()
            );
            let texts = items().flat_map(|n| [Ok("a"), check(n).map(|_| "b")]);
            assert_eq!(
                texts.collect::<Result<String, _>>(),
                expected.map(|all| "ab".repeat(all.len()))
            );
        }
    });
}

#[test]
fn folds_and_reductions_return_the_first_error() {
    everywhere(|pool, way| {
        for first in [0, 1, 700, ITEMS - 1, ITEMS] {
            let check = |n: usize| {
                let fails = n >= first && (n - first).is_multiple_of(2);
                if fails { Err(n) } else { Ok(n) }
            };
            let items = || way.cut(pool.over(0..ITEMS));
            let expected = (0..ITEMS).try_fold(Vec::new(), |mut all, n| {
                all.push(check(n)?);
                Ok::<_, usize>(all)
            });
            let folded = items().try_fold(
                Vec::new,
                |mut all, n| {
                    all.push(check(n)?);
                    Ok(all)
                },
                |left, right| Ok([left, right].concat()),
            );
            assert_eq!(folded, expected);
            let reduced = items()
                .map(|n| check(n).map(|n| vec![n]))
                .try_reduce(|left, right| Ok([left, right].concat()));
            assert_eq!(reduced, expected.clone().map(Some));
            // Not all items have indices, and an error of the source counts as one of a step.
            let some = || (0..ITEMS).filter(|n| n % 3 < 2);
            let sum = items().filter(|n| n % 3 < 2).map(check);
            assert_eq!(
                sum.try_reduce(|a, b| Ok(a + b)),
                some().map(check).sum::<Result<usize, _>>().map(Some)
            );
        }
        let none = way.cut(pool.over(0..0)).map(Ok::<_, ()>);
        assert_eq!(none.try_reduce(|_, _| Err(())), Ok(None));
        let none = way.cut(pool.over(0..0));
        assert_eq!(
            none.try_fold(|| 7, |_, _| Err(()), |_, _| Err(())),
            Ok::<_, ()>(7)
        );
    });
}

/// A piece that cannot be joined to the items in front of it is an error of its first item: one of
/// an item in front of it is returned instead, one of an item after it is not.
#[test]
fn errors_of_joins_are_in_order() {
    everywhere(|pool, way| {
        let items = || way.cut(pool.over(0..ITEMS)).map(|n| Ok((n, n + 1)));
        let joined = |(start, middle), (next, end)| {
            assert_eq!(middle, next, "pieces that are not adjacent");
            // It fails for item 900, or for a piece with that item.
            if end > 900 {
                Err(900)
            } else {
                Ok((start, end))
            }
        };
        assert_eq!(items().try_reduce(joined), Err(900));
        let early = items()
            .map(|item| item.and_then(|(n, end)| if n == 3 { Err(3) } else { Ok((n, end)) }));
        let early = early.try_reduce(|left, right| {
            if right.0 > 3 {
                Err(right.0)
            } else {
                Ok((left.0, right.1))
            }
        });
        assert_eq!(early, Err(3));
    });
}

#[test]
fn items_behind_an_error_are_skipped() {
    for way in [Way::Default, Way::Eager, Way::Single, Way::Sevens] {
        let pool = pool(1);
        // It would take for ever.
        let failed = way
            .cut(pool.over(0..u64::MAX))
            .try_for_each(|n| if n >= 5_000 { Err(n) } else { Ok(()) });
        assert_eq!(failed, Err(5_000));
        let none = way
            .cut(pool.over(0..u64::MAX))
            .map(|n| (n < 5_000).then_some(()));
        assert_eq!(none.collect::<Option<()>>(), None);
        let sum = way.cut(pool.over(0..u64::MAX)).try_fold(
            || 0_u16,
            |sum, _| sum.checked_add(1).ok_or("too many"),
            |left, right| left.checked_add(right).ok_or("too many"),
        );
        assert_eq!(sum, Err("too many"));
        let sum = way.cut(pool.over(0..u64::MAX)).map(|_| Ok(1_u16));
        assert_eq!(sum.try_reduce(|a, b| a.checked_add(b).ok_or(())), Err(()));
    }
}

#[test]
fn results_in_results() {
    type Nested = Result<Option<Vec<usize>>, usize>;
    everywhere(|pool, way| {
        for (error, none) in [
            (500, 501),
            (501, 500),
            (3, 1_900),
            (1_900, 3),
            (0, 1),
            (1, 0),
            (ITEMS, 7),
            (7, ITEMS),
            (ITEMS, ITEMS),
        ] {
            let check = |n: usize| {
                if n >= error {
                    Err(n)
                } else {
                    Ok((n < none).then_some(n))
                }
            };
            let expected: Nested = (0..ITEMS).map(check).collect();
            for _ in 0..5 {
                assert_eq!(
                    way.cut(pool.over(0..ITEMS)).map(check).collect::<Nested>(),
                    expected
                );
            }
        }
    });
}

type Item = (usize, Counted);

const LEN: usize = 200;

/// Panics at a call.
struct Trap {
    left: AtomicUsize,
}

impl Trap {
    fn call(&self) {
        if self.left.fetch_sub(1, SeqCst) == 0 {
            quiet_panic("trapped");
        }
    }

    fn pass<T>(&self, item: T) -> T {
        self.call();
        item
    }
}

type Items<'a> = Loop<'a, filch::par::OwnedItems<Item>>;

/// Chains over two vectors, of which all items are dropped.
fn chains() -> Vec<fn(Items<'_>, Items<'_>, &Trap)> {
    vec![
        |a, b, trap| {
            let all = a.map(|item| trap.pass(item)).chain(b).to_vec();
            assert_eq!(all.len(), 2 * LEN);
        },
        |a, b, trap| drop(a.zip(b.map(|item| trap.pass(item))).to_vec()),
        |a, b, trap| {
            drop(
                a.enumerate()
                    .rev()
                    .zip(b.rev())
                    .inspect(|_| trap.call())
                    .to_vec(),
            );
        },
        |a, b, trap| {
            drop(
                a.skip(5)
                    .step_by(3)
                    .chain(b.take(100))
                    .filter(|_| trap.pass(true))
                    .to_vec(),
            );
        },
        |a, _, trap| {
            drop(
                a.filter(|item| trap.pass(item.0 % 2 == 0))
                    .collect::<VecDeque<_>>(),
            );
        },
        |a, _, trap| {
            drop(
                a.filter_map(|item| trap.pass((item.0 % 2 == 0).then_some(item)))
                    .collect::<BTreeMap<_, _>>(),
            );
        },
        |a, b, trap| {
            drop(
                a.zip(b)
                    .flat_map(|(a, b)| [trap.pass(a), b])
                    .collect::<HashMap<_, _>>(),
            );
        },
        |a, b, trap| drop(a.zip(b).inspect(|_| trap.call()).unzip()),
        |a, _, trap| drop(a.partition(|item| trap.pass(item.0 % 3 == 0))),
        |a, _, trap| {
            drop(
                a.map(|item| {
                    if item.0 == 150 {
                        Err(item)
                    } else {
                        Ok(trap.pass(item))
                    }
                })
                .collect::<Result<Vec<_>, _>>(),
            );
        },
        |a, _, trap| {
            drop(a.try_for_each(|item| {
                if item.0 == 150 {
                    Err(item)
                } else {
                    trap.pass(Ok(()))
                }
            }));
        },
        |a, b, trap| {
            drop(a.chain(b).try_fold(
                || trap.pass(Vec::new()),
                |mut all, item| {
                    all.push(trap.pass(item));
                    if all.len() == 150 { Err(all) } else { Ok(all) }
                },
                |mut left, right| {
                    left.extend(trap.pass(right));
                    if left.len() >= 150 {
                        Err(left)
                    } else {
                        Ok(left)
                    }
                },
            ));
        },
        |a, _, trap| {
            let checked = a.map(|item| {
                if item.0 == 150 {
                    Err(item)
                } else {
                    Ok(trap.pass(item))
                }
            });
            drop(checked.try_reduce(|left, right| {
                if left.0 > right.0 {
                    Err(left)
                } else {
                    Ok(trap.pass(right))
                }
            }));
        },
        |a, b, trap| {
            drop(
                a.chain(b)
                    .map_init(|| trap.pass(()), |(), item| trap.pass(item))
                    .reduce(|a, _| a),
            );
        },
        |a, _, trap| drop(a.find_map_first(|item| trap.pass((item.0 == 160).then_some(item)))),
        |a, b, trap| drop(a.chain(b).deterministic().reduce(|a, _| trap.pass(a))),
        |a, _, trap| {
            drop(a.map(|item| trap.pass(item)).deterministic().fold(
                Vec::new,
                |mut all, item| {
                    all.push(item);
                    all
                },
                |a, _| trap.pass(a),
            ));
        },
        |a, b, trap| a.zip(b).take(120).max_chunk(1).for_each(|_| trap.call()),
    ]
}

#[test]
fn every_item_is_dropped_once() {
    everywhere(|pool, way| {
        for chain in chains() {
            for at in [0, 1, 20, 150, 199, usize::MAX] {
                let drops = Drops::default();
                let items = || (0..LEN).map(|n| (n, drops.value())).collect::<Vec<Item>>();
                let trap = Trap {
                    left: AtomicUsize::new(at),
                };
                let (a, b) = (way.cut(pool.over(items())), over(items()));
                let outcome = catch_unwind(AssertUnwindSafe(|| chain(a, b, &trap)));
                assert_eq!(drops.seen(), 2 * LEN);
                assert!(outcome.is_ok() || at < usize::MAX);
            }
        }
    });
}

#[test]
fn destructors_of_filtered_items_may_panic() {
    everywhere(|pool, way| {
        let drops = Drops::default();
        let item = |n| {
            if n == 77 {
                drops.bomb("a bomb")
            } else {
                drops.value()
            }
        };
        let items: Vec<Counted> = (0..200).map(item).collect();
        assert_eq!(
            panic_of(|| way.cut(pool.over(items)).filter(|_| false).count()),
            "a bomb"
        );
        assert_eq!(drops.seen(), 200);
    });
}

#[test]
fn values_of_workers() {
    everywhere(|pool, way| {
        let counts = WorkerLocal::<usize>::new();
        way.cut(pool.over(0..ITEMS))
            .for_each(|_| *counts.borrow() += 1);
        let counts = counts.into_values();
        assert_eq!(counts.iter().sum::<usize>(), ITEMS);
        assert!(counts.len() <= pool.workers() + 1);
    });
}

#[test]
fn a_second_borrow_is_another_value() {
    let values = WorkerLocal::<Vec<u32>>::new();
    let mut first = values.borrow();
    first.push(1);
    let mut second = values.borrow();
    assert!(second.is_empty());
    second.push(2);
    drop(first);
    assert_eq!(*values.borrow(), [1]);
    drop(second);
    // An initialiser may borrow, too.
    let (a, b) = (values.borrow(), values.borrow());
    let third = values.borrow_or_init(|| [a.clone(), b.clone()].concat());
    assert_eq!(third.len(), 2);
    drop((a, b, third));
    let mut all = values.into_values();
    all.sort_by_key(Vec::len);
    assert_eq!((all.len(), all[2].len()), (3, 2));
}

#[test]
fn a_panic_drops_the_value() {
    let drops = Drops::default();
    let values = WorkerLocal::new();
    drop(values.borrow_or_init(|| drops.value()));
    assert_eq!(drops.seen(), 0);
    let panic = panic_of(|| {
        let _value = values.borrow_or_init(|| drops.value());
        std::panic::panic_any("in use");
    });
    assert_eq!((panic, drops.seen()), ("in use", 1));
    // An initialiser that panics leaves nothing behind.
    assert_eq!(
        panic_of(|| values.borrow_or_init(|| quiet_panic("no value"))),
        "no value"
    );
    drop(values.borrow_or_init(|| drops.value()));
    assert_eq!(values.into_values().len(), 1);
    assert_eq!(drops.seen(), 2);
}

#[test]
fn values_are_for_all_interfaces() {
    let pool = pool(2);
    let counts = WorkerLocal::<usize>::new();
    pool.scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|_| *counts.borrow() += 1);
        }
    });
    pool.join(|| *counts.borrow() += 1, || *counts.borrow() += 1);
    *counts.borrow() += 1;
    std::thread::scope(|scope| {
        scope.spawn(|| *counts.borrow() += 1);
    });
    assert_eq!(counts.into_values().iter().sum::<usize>(), 104);
}

/// A collection that filters before it collects.
struct Evens(Vec<u64>);

impl FromPar<u64> for Evens {
    fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
    where
        P: Producer,
        S: LoopStage<P::Item, Out = u64>,
        M: Mode,
    {
        let evens = items.filter(|n| n % 2 == 0).inspect(|_| ());
        M::convert(evens.collect(), Self)
    }
}

#[test]
fn an_error_ends_collections_of_your_own() {
    everywhere(|pool, way| {
        let numbers = way.cut(pool.over(0..u64::MAX));
        let numbers = numbers.map(|n| if n < 1_000 { Ok(n) } else { Err(n) });
        let evens = numbers.collect::<Result<Evens, u64>>();
        assert_eq!(evens.map(|evens| evens.0).unwrap_err(), 1_000);
        let few = way.cut(pool.over(0..1_000_u64)).map(Ok::<u64, u64>);
        assert_eq!(few.collect::<Result<Evens, u64>>().unwrap().0.len(), 500);
    });
}

#[test]
fn chunks_of_deterministic_loops_are_shared() {
    // Settings count items, not chunks: each half of these items is more than the minimum.
    let pool = pool(2);
    let workers = WorkerLocal::<bool>::new();
    let sum: f64 = pool
        .over(0..100_000_u32)
        .eager()
        .min_chunk(1_024)
        .map(|n| {
            *workers.borrow() = true;
            f64::from(n)
        })
        .deterministic()
        .sum();
    assert_eq!(sum, 4_999_950_000.0);
    let chunked = pool.over(0..100_000_u32).max_chunk(7).map(f64::from);
    assert_eq!(chunked.deterministic().sum::<f64>(), sum);
    assert!(!workers.into_values().is_empty());
}
