//! Folds over graphs with shared nodes, and records of which worker folded which node.

use crate::support::{Drops, LIMIT, panic_of, pool, quiet_panic, within};
use filch::{
    Fold,
    engine::Shared,
    fold,
    fold::{Adaptive, FoldStrategy, Tasks},
};
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A graph without cycles: edges lead to greater numbers only.
fn edges(list: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let count = list.len();
    let below = |(from, to): (usize, &Vec<usize>)| {
        let rest = count - from - 1;
        let wrap = |to: &usize| from + 1 + to % rest;
        if rest == 0 {
            vec![]
        } else {
            to.iter().map(wrap).collect()
        }
    };
    list.iter().enumerate().map(below).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn as_a_tree_would_be(list in prop::collection::vec(prop::collection::vec(0_usize..100, 0..4), 1..40), workers in 0_usize..4) {
        let edges = &edges(&list);
        let calls = AtomicUsize::new(0);
        let paths = fold(
            |i: usize| edges[i].iter().copied(),
            |i| { calls.fetch_add(1, Ordering::Relaxed); *i as u64 + 1 },
            // Not commutative, and it does not overflow.
            |hash: &mut u64, child: u64| *hash = hash.wrapping_mul(31).wrapping_add(child),
            |hash| hash,
        );
        let result = paths.memo(|i| *i).on(&pool(workers)).run(0).unwrap();
        let mut reached = BTreeSet::from([0]);
        for (from, to) in edges.iter().enumerate() {
            if reached.contains(&from) {
                reached.extend(to);
            }
        }
        prop_assert_eq!(calls.load(Ordering::Relaxed), reached.len());
        // Sequentially, from the end.
        let mut by_hand = vec![0_u64; edges.len()];
        for i in (0..edges.len()).rev() {
            let add = |hash: u64, &child: &usize| hash.wrapping_mul(31).wrapping_add(by_hand[child]);
            by_hand[i] = edges[i].iter().fold(i as u64 + 1, add);
        }
        prop_assert_eq!(result, by_hand[0]);
    }
}

#[test]
fn a_ladder_is_folded_once_a_rung() {
    // Two to the fifty-thousandth paths.
    within(LIMIT, || {
        let pool = pool(3);
        let rungs = 50_000_u32;
        let count = fold(
            |i: u32| {
                if i < rungs {
                    vec![i + 1, i + 1]
                } else {
                    vec![]
                }
            },
            |_| 1_u64,
            |sum, child: u64| *sum = sum.wrapping_add(child),
            |sum| sum,
        );
        assert_eq!(count.memo(|i| *i).on(&pool).run(0), Ok(u64::MAX));
    });
}

#[test]
fn cycles_are_refused() {
    let edges = &[vec![1, 2], vec![3], vec![1], vec![4, 5], vec![1], vec![]];
    let count = fold(
        |i: usize| edges[i].iter().copied(),
        |_| quiet_panic("nothing is folded"),
        |(), ()| (),
        |()| (),
    );
    let error = count.memo(|i| *i).run(0).unwrap_err();
    assert_eq!(error.keys(), [1, 3, 4]);
    let text = error.to_string();
    assert!(text.ends_with("1 -> 3 -> 4 -> 1"), "{text}");
    let alone = fold(|n: u8| [n], |_| (), |(), ()| (), |()| ());
    assert_eq!(alone.memo(|n| *n).run(7).unwrap_err().keys(), [7]);
}

#[test]
fn panics_in_graphs_reach_the_caller() {
    let pool = pool(2);
    let drops = Drops::default();
    let made = AtomicUsize::new(0);
    for bad in 0..20_u32 {
        let folded = fold(
            |i: u32| (i + 1..20).step_by(3),
            |i| {
                if *i == bad {
                    quiet_panic("init");
                }
                made.fetch_add(1, Ordering::SeqCst);
                std::sync::Arc::new(drops.value())
            },
            |_, _| (),
            |acc| acc,
        );
        let run = || folded.memo(|i| *i).on(&pool).run(0).map(drop);
        assert_eq!(panic_of(run), "init");
    }
    assert_eq!(drops.seen(), made.load(Ordering::SeqCst));
}

fn explained<S: FoldStrategy>() {
    let pool = pool(2);
    let tree = fold(
        |n: u32| 0..n,
        |n| *n,
        |text: &mut u32, child: u32| *text = *text * 3 + child,
        |text| text,
    );
    let small = tree.with::<S>().on(&pool).explain(6);
    assert_eq!(small.result, tree.sequential(6));
    assert_eq!(small.visit.iter().count(), 64);
    assert_eq!(small.visit.children().len(), 6);
    assert_eq!(small.visit.by_worker().values().sum::<usize>(), 64);
    assert_eq!(small.visit.to_string().lines().count(), 64);
    for (_, visit) in small.visit.iter() {
        assert!(visit.began() <= visit.ended());
        assert!(visit.entered_by().is_some() && visit.finished_by().is_some());
        for child in visit.children() {
            assert!(visit.began() <= child.began() && child.ended() <= visit.ended());
        }
    }
    // A record of a long chain is read and dropped without recursion.
    let chain = fold(|n: u32| n.checked_sub(1), |_| (), |(), ()| (), |()| ());
    let long = chain.with::<S>().on(&pool).explain(100_000);
    assert_eq!(
        long.visit.iter().map(|(depth, _)| depth).max(),
        Some(100_000)
    );
    // It can be printed too, with a limited indentation.
    assert_eq!(long.visit.to_string().lines().count(), 100_001);
}

#[test]
fn every_strategy_can_be_explained() {
    explained::<Adaptive>();
    explained::<Tasks>();
    explained::<Tasks<Shared>>();
}

#[test]
fn nodes_that_wait_for_each_other_are_entered_by_two_workers() {
    // Each of two children waits for the other to be entered, so two workers have entered them.
    let pool = pool(2);
    let entered = AtomicUsize::new(0);
    let both = fold(
        |n: u32| 1..if n == 0 { 3 } else { 0 },
        |n| {
            if *n > 0 {
                entered.fetch_add(1, Ordering::SeqCst);
                crate::support::until("both are entered", || entered.load(Ordering::SeqCst) == 2);
            }
        },
        |(), ()| (),
        |()| (),
    );
    let explained = both.with::<Tasks>().on(&pool).explain(0);
    let [first, second] = explained.visit.children() else {
        panic!("two children");
    };
    assert_ne!(first.entered_by(), second.entered_by());
}
