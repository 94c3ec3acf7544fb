//! Lazy chains against the same chains of iterators: every step and every end.

use crate::{
    basics::Way,
    support::{LIMIT, pool, within},
};
use filch::{
    CancelToken, Pool,
    par::{ChunkingStrategy, over},
};
use proptest::prelude::*;
use std::{
    cmp::Ordering::{Equal, Less},
    collections::{
        BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque, hash_map,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// Calls `f` for several lengths, ways to cut and kinds of pools, from outside and from inside.
fn everywhere(f: impl Fn(&Pool, Way, usize) + Send + Sync + 'static) {
    within(LIMIT * 12, move || {
        for workers in [0, 1, 3] {
            let pool = pool(workers);
            for way in Way::ALL {
                for len in [0, 1, 2, 7, 100] {
                    f(&pool, way, len);
                }
            }
            for way in [Way::Default, Way::Eager, Way::Chunks] {
                pool.install(|| f(&pool, way, 10_000));
            }
        }
    });
}

fn numbers(len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|n| n.wrapping_mul(0x9e37_79b9) >> 12)
        .collect()
}

#[test]
fn one_for_each() {
    everywhere(|pool, way, len| {
        let data = numbers(len);
        let items = || way.cut(pool.over(&data));
        let seen = AtomicUsize::new(0);
        let see = |_: &u32| {
            seen.fetch_add(1, Ordering::Relaxed);
        };
        let chain = items().copied().inspect(see).map(|n| n ^ 5).map(u64::from);
        let same = data.iter().map(|n| u64::from(n ^ 5));
        assert!(chain.to_vec().into_iter().eq(same));
        assert_eq!(seen.into_inner(), len);
        let texts: Vec<String> = data.iter().map(u32::to_string).collect();
        assert_eq!(way.cut(pool.over(&texts)).cloned().to_vec(), texts);
        let lengths = way.cut(pool.over(texts.clone())).map(|text| text.len());
        assert!(
            lengths
                .to_vec()
                .into_iter()
                .eq(texts.iter().map(String::len))
        );
        let mut data = data;
        way.cut(pool.over(&mut data))
            .map(|n| (*n, n))
            .for_each(|(old, n)| *n = old / 2 + 1);
        assert!(
            data.iter()
                .copied()
                .eq(numbers(len).iter().map(|n| n / 2 + 1))
        );
    });
}

#[test]
fn fewer_and_more() {
    everywhere(|pool, way, len| {
        let data = numbers(len);
        let items = || way.cut(pool.over(&data));
        let third = |n: &&u32| (**n).is_multiple_of(3);
        let chain = items().filter(third).map(|n| n + 1).filter(|n| n % 2 == 0);
        let same = data.iter().filter(third).map(|n| n + 1);
        assert!(chain.to_vec().into_iter().eq(same.filter(|n| n % 2 == 0)));
        let small = |n: &u32| u8::try_from(*n % 300).ok();
        assert!(
            items()
                .filter_map(small)
                .to_vec()
                .into_iter()
                .eq(data.iter().filter_map(small))
        );
        let some = |n: &u32| {
            let n = *n;
            (0..n % 4).map(move |part| n + part)
        };
        assert!(
            items()
                .flat_map(some)
                .inspect(|n| assert!(*n < u32::MAX))
                .filter(|n| n % 2 == 1)
                .to_vec()
                .into_iter()
                .eq(data.iter().flat_map(some).filter(|n| n % 2 == 1))
        );
        let nested: Vec<Vec<u32>> = data.iter().map(|n| vec![*n; *n as usize % 3]).collect();
        let flat = way.cut(pool.over(nested.clone())).flat_map(|part| part);
        assert_eq!(flat.to_vec(), nested.concat());
        assert_eq!(
            items().filter(third).count(),
            data.iter().filter(third).count()
        );
        assert_eq!(
            items().flat_map(some).count(),
            data.iter().flat_map(some).count()
        );
    });
}

#[test]
fn by_index() {
    everywhere(|pool, way, len| {
        let data = numbers(len);
        let items = || way.cut(pool.over(&data)).copied();
        let same = || data.iter().copied();
        let chain = items()
            .map(|n| n + 1)
            .enumerate()
            .filter(|(i, _)| i % 3 == 1);
        assert!(
            chain.to_vec().into_iter().eq(same()
                .map(|n| n + 1)
                .enumerate()
                .filter(|(i, _)| i % 3 == 1))
        );
        for (skip, take, step) in [
            (0, 0, 1),
            (1, 5, 2),
            (5, usize::MAX, 3),
            (200, 77, 200),
            (len, 1, usize::MAX),
        ] {
            let cut = items().skip(skip).take(take).step_by(step);
            assert!(
                cut.to_vec()
                    .into_iter()
                    .eq(same().skip(skip).take(take).step_by(step))
            );
            let cut = items()
                .step_by(step)
                .enumerate()
                .rev()
                .skip(skip)
                .take(take);
            assert!(
                cut.to_vec().into_iter().eq(same()
                    .step_by(step)
                    .enumerate()
                    .rev()
                    .skip(skip)
                    .take(take))
            );
        }
        assert!(
            items()
                .rev()
                .enumerate()
                .to_vec()
                .into_iter()
                .eq(same().rev().enumerate())
        );
        assert!(items().rev().rev().to_vec().into_iter().eq(same()));
        let owned = way.cut(pool.over(data.clone())).enumerate().rev();
        assert!(owned.to_vec().into_iter().eq(same().enumerate().rev()));
        assert!(
            items()
                .rev()
                .step_by(7)
                .to_vec()
                .into_iter()
                .eq(same().rev().step_by(7))
        );
        assert!(
            items()
                .step_by(7)
                .rev()
                .to_vec()
                .into_iter()
                .eq(same().step_by(7).rev())
        );
    });
}

#[test]
fn pairs() {
    everywhere(|pool, way, len| {
        let (left, right) = (numbers(len), numbers(len * 2 / 3 + 1));
        let items = || way.cut(pool.over(&left)).copied();
        let pairs = || left.iter().copied().zip(right.iter().map(|n| n ^ 1));
        let zipped = items().zip(over(&right).map(|n| n ^ 1));
        assert!(zipped.to_vec().into_iter().eq(pairs()));
        let zipped = way.cut(pool.over(right.clone())).map(|n| n ^ 1).zip(&left);
        assert!(
            zipped
                .map(|(b, a)| (*a, b))
                .to_vec()
                .into_iter()
                .eq(pairs())
        );
        let three = items()
            .zip(&right)
            .zip(10..u64::MAX)
            .map(|((a, b), c)| (a, *b, c));
        let expected = left
            .iter()
            .zip(&right)
            .zip(10..)
            .map(|((a, b), c)| (*a, *b, c));
        assert!(three.to_vec().into_iter().eq(expected));
        // Lengths that differ, walked from the end; the longer one on either side, and owned.
        let reversed = items().zip(over(right.clone())).rev();
        let expected = left.iter().copied().zip(right.iter().copied()).rev();
        assert!(reversed.to_vec().into_iter().eq(expected));
        let reversed = way.cut(pool.over(0..usize::MAX)).zip(left.clone()).rev();
        let expected = (0..len).zip(left.iter().copied()).rev();
        assert!(reversed.to_vec().into_iter().eq(expected));
        let index = items().enumerate().zip(way.cut(over(0..len)).enumerate());
        assert!(index.all(|((i, _), (j, n))| i == j && j == n));
    });
}

#[test]
fn one_after_the_other() {
    everywhere(|pool, way, len| {
        let (left, right) = (numbers(len), numbers(len / 2 + 3));
        let items = || way.cut(pool.over(&left)).map(|n| n + 1);
        let same = || left.iter().map(|n| n + 1).chain(right.iter().copied());
        let chain = || items().chain(over(&right).copied());
        assert!(chain().to_vec().into_iter().eq(same()));
        assert!(items().chain(right.clone()).to_vec().into_iter().eq(same()));
        assert!(chain().rev().to_vec().into_iter().eq(same().rev()));
        assert!(
            chain()
                .enumerate()
                .to_vec()
                .into_iter()
                .eq(same().enumerate())
        );
        let indices = chain().enumerate().rev().map(|(i, _)| i).to_vec();
        assert!(indices.into_iter().eq((0..left.len() + right.len()).rev()));
        let cut = chain().skip(len / 2).take(len).step_by(3);
        assert!(
            cut.to_vec()
                .into_iter()
                .eq(same().skip(len / 2).take(len).step_by(3))
        );
        assert!(
            chain()
                .filter(|n| n % 2 == 0)
                .to_vec()
                .into_iter()
                .eq(same().filter(|n| n % 2 == 0))
        );
        let long = chain()
            .chain(0..9_u32)
            .zip(chain().chain(0..5_u32))
            .map(|(a, b)| a ^ b);
        let expected = same()
            .chain(0..9_u32)
            .zip(same().chain(0..5_u32))
            .map(|(a, b)| a ^ b);
        assert!(long.to_vec().into_iter().eq(expected));
        assert_eq!(chain().count(), left.len() + right.len());
    });
}

#[test]
fn slices_of_slices() {
    everywhere(|pool, way, len| {
        let data = numbers(len);
        for size in [1, 2, 3, 50, len + 1, usize::MAX] {
            let items = || way.cut(pool.over(&data));
            let windows = items().windows(size).map(<[u32]>::to_vec);
            assert!(windows.to_vec().iter().eq(data.windows(size)));
            assert!(
                items()
                    .windows(size)
                    .rev()
                    .to_vec()
                    .into_iter()
                    .eq(data.windows(size).rev())
            );
            assert!(
                items()
                    .chunks(size)
                    .to_vec()
                    .into_iter()
                    .eq(data.chunks(size))
            );
            let some = items().chunks(size).enumerate().rev().step_by(2);
            assert!(
                some.to_vec()
                    .into_iter()
                    .eq(data.chunks(size).enumerate().rev().step_by(2))
            );
            let mut copy = data.clone();
            let rows = way
                .cut(pool.over(&mut copy))
                .chunks(size)
                .zip(way.cut(over(&data)).chunks(size));
            rows.for_each(|(row, old)| row.iter_mut().zip(old).for_each(|(n, old)| *n -= old));
            assert!(copy.iter().all(|n| *n == 0));
        }
    });
}

#[test]
fn reductions() {
    everywhere(|pool, way, len| {
        let data = numbers(len);
        let items = || {
            way.cut(pool.over(&data))
                .map(|n| n % 1_000)
                .filter(|n| n % 7 > 0)
        };
        let same = || data.iter().map(|n| n % 1_000).filter(|n| n % 7 > 0);
        assert_eq!(items().sum::<u32>(), same().sum());
        let product = items()
            .map(|n| std::num::Wrapping(u64::from(n)))
            .product::<std::num::Wrapping<u64>>();
        assert_eq!(
            product,
            same().map(|n| std::num::Wrapping(u64::from(n))).product()
        );
        assert_eq!((items().min(), items().max()), (same().min(), same().max()));
        // Of equal ones the first or the last, as of the iterators.
        let (items, same) = (
            || items().map(|n| (n % 3, n)),
            || same().map(|n| (n % 3, n)),
        );
        assert_eq!(
            items().min_by_key(|item| item.0),
            same().min_by_key(|item| item.0)
        );
        assert_eq!(
            items().max_by_key(|item| item.0),
            same().max_by_key(|item| item.0)
        );
        assert_eq!(
            items().min_by(|a, b| a.0.cmp(&b.0)),
            same().min_by(|a, b| a.0.cmp(&b.0))
        );
        assert_eq!(items().max_by(|_, _| Equal), same().max_by(|_, _| Equal));
        assert_eq!(items().min_by(|_, _| Less), same().min_by(|_, _| Less));
        let text = |(_, n): (u32, u32)| n.to_string();
        assert_eq!(
            items().map(text).reduce(|a, b| a + &b),
            same().map(text).reduce(|a, b| a + &b)
        );
        let all = items().fold(
            Vec::new,
            |mut all, item| {
                all.push(item);
                all
            },
            |a, b| [a, b].concat(),
        );
        assert!(all.into_iter().eq(same()));
        assert_eq!(items().count(), same().count());
        // Sums that may fail.
        let small = |n: (u32, u32)| (n.1 < 999).then_some(n.1);
        assert_eq!(
            items().map(small).sum::<Option<u32>>(),
            same().map(small).sum()
        );
        let (a, b) = (items().unzip(), same().unzip::<u32, u32, Vec<_>, Vec<_>>());
        assert_eq!(a, b);
        let (a, b) = (
            items().partition(|n| n.0 == 1),
            same().partition::<Vec<_>, _>(|n| n.0 == 1),
        );
        assert_eq!(a, b);
    });
}

#[test]
fn searches() {
    everywhere(|pool, way, len| {
        let items = || way.cut(pool.over(0..len)).map(|n| n * 2);
        for wanted in [0, len / 2, len.saturating_sub(1), len] {
            let there = wanted < len;
            let is = |n: &usize| *n == wanted * 2;
            let found = there.then_some(wanted * 2);
            assert_eq!(items().find_first(is), found);
            assert_eq!(items().find_any(is), found);
            assert_eq!(items().position(|n| is(&n)), there.then_some(wanted));
            assert_eq!(items().any(|n| is(&n)), there);
            assert_eq!(items().all(|n| !is(&n)), !there);
            let from = |n: usize| (n >= wanted * 2).then_some(n + 1);
            assert_eq!(items().find_map_first(from), found.map(|n| n + 1));
            assert_eq!(items().find_map_any(from).is_some(), there);
            let tenth = |n: &usize| (*n).is_multiple_of(10) && *n >= wanted;
            assert_eq!(
                items().filter(|n| n % 4 == 0).find_first(tenth),
                (0..len).map(|n| n * 2).find(|n| n % 4 == 0 && tenth(n))
            );
            let flat = items().flat_map(|n| [n, n + 1]).find_first(|n| *n > wanted);
            assert_eq!(flat, (0..len * 2).find(|n| *n > wanted));
        }
    });
}

#[test]
fn scans_and_outputs() {
    everywhere(|pool, way, len| {
        let data = numbers(len);
        let items = || way.cut(pool.over(&data)).map(|n| u64::from(*n)).rev();
        let mut total = 0;
        let totals: Vec<u64> = data
            .iter()
            .rev()
            .map(|n| {
                total += u64::from(*n);
                total
            })
            .collect();
        assert_eq!(items().inclusive_scan(|a, b| a + b), totals);
        let (before, all) = items().exclusive_scan(0, |a, b| a + b);
        assert_eq!(all, total);
        assert!(
            before
                .iter()
                .zip(&totals)
                .zip(data.iter().rev())
                .all(|((a, b), n)| a + u64::from(*n) == *b)
        );
        let mut output = vec![0; len];
        items()
            .zip(0..u64::MAX)
            .map(|(n, i)| n ^ i)
            .write_into(&mut output);
        assert!(
            output
                .into_iter()
                .eq(data.iter().rev().zip(0..).map(|(n, i)| u64::from(*n) ^ i))
        );
    });
}

#[test]
fn collections() {
    everywhere(|pool, way, len| {
        let data = numbers(len);
        let items = || way.cut(pool.over(&data)).map(|n| n % 512);
        let same = || data.iter().map(|n| n % 512);
        let pairs = || {
            way.cut(pool.over(&data))
                .enumerate()
                .map(|(i, n)| (n % 512, i))
        };
        let same_pairs = || data.iter().enumerate().map(|(i, n)| (n % 512, i));
        let odd = |n: &u32| n % 2 == 1;
        assert_eq!(
            items().collect::<VecDeque<_>>(),
            same().collect::<VecDeque<_>>()
        );
        assert_eq!(
            items().filter(odd).collect::<Box<[_]>>(),
            same().filter(odd).collect::<Box<[_]>>()
        );
        assert_eq!(items().collect::<Arc<[_]>>(), same().collect::<Arc<[_]>>());
        assert_eq!(
            items().collect::<LinkedList<_>>(),
            same().collect::<LinkedList<_>>()
        );
        assert_eq!(
            items().collect::<HashSet<_>>(),
            same().collect::<HashSet<_>>()
        );
        assert_eq!(
            items().filter(odd).collect::<BTreeSet<_>>(),
            same().filter(odd).collect::<BTreeSet<_>>()
        );
        assert_eq!(
            items().collect::<BinaryHeap<_>>().into_sorted_vec(),
            same().collect::<BinaryHeap<_>>().into_sorted_vec()
        );
        // Of equal keys the last one counts.
        assert_eq!(
            pairs().collect::<HashMap<_, _>>(),
            same_pairs().collect::<HashMap<_, _>>()
        );
        assert_eq!(
            pairs().collect::<BTreeMap<_, _>>(),
            same_pairs().collect::<BTreeMap<_, _>>()
        );
        type Fixed = std::hash::BuildHasherDefault<hash_map::DefaultHasher>;
        assert_eq!(
            pairs().collect::<HashMap<_, _, Fixed>>(),
            same_pairs().collect::<HashMap<_, _, Fixed>>()
        );
        let letters = || items().filter_map(|n| char::from_u32(n + 0x3b1));
        let same_letters: Vec<char> = same().filter_map(|n| char::from_u32(n + 0x3b1)).collect();
        let text: String = same_letters.iter().collect();
        assert_eq!(letters().collect::<String>(), text);
        assert_eq!(way.cut(pool.over(&same_letters)).collect::<String>(), text);
        assert_eq!(letters().map(String::from).collect::<String>(), text);
        let words: Vec<String> = same_letters.iter().map(|c| format!("{c}, ")).collect();
        assert_eq!(
            way.cut(pool.over(&words))
                .map(String::as_str)
                .collect::<String>(),
            words.concat()
        );
        items().map(|_| ()).collect::<()>();
    });
}

#[test]
fn scratch_values_are_reused_and_never_shared() {
    within(LIMIT * 6, || {
        for workers in [0, 1, 3] {
            let pool = pool(workers);
            for way in Way::ALL {
                let (made, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let init = || {
                    made.fetch_add(1, Ordering::Relaxed);
                    Vec::new()
                };
                let items = || way.cut(pool.over(0..3_000_usize));
                let texts = items().map_init(init, |buffer: &mut Vec<usize>, n| {
                    buffer.clear();
                    buffer.extend(0..n % 5);
                    buffer.iter().sum::<usize>()
                });
                assert_eq!(texts.filter(|n| *n > 0).sum::<usize>(), 600 * (1 + 3 + 6));
                let most = workers + 1;
                assert!(
                    (1..=most).contains(&made.swap(0, Ordering::Relaxed)),
                    "{way:?}"
                );
                items().for_each_init(init, |buffer, n| {
                    buffer.push(n);
                    sum.fetch_add(n, Ordering::Relaxed);
                });
                assert!((1..=most).contains(&made.into_inner()), "{way:?}");
                assert_eq!(sum.into_inner(), 2_999 * 1_500);
                let none = way
                    .cut(pool.over(0..0))
                    .map_init(|| panic!("no items"), |(), n: u8| n);
                assert_eq!(none.count(), 0);
                // A wait inside of a call may run other blocks of the loop: with other values.
                let nested = way.cut(pool.over(0..60_usize)).map_init(
                    || AtomicBool::new(false),
                    |busy, n| {
                        assert!(!busy.swap(true, Ordering::Relaxed));
                        let sum = over(0..n).eager().max_chunk(1).sum::<usize>();
                        busy.store(false, Ordering::Relaxed);
                        (n, sum)
                    },
                );
                assert!(nested.all(|(n, sum)| sum == n * n.saturating_sub(1) / 2));
            }
        }
    });
}

#[test]
fn deterministic_reductions_have_the_same_bits() {
    within(LIMIT * 6, || {
        for len in [0, 1, 2, 7, 100, 1_023, 1_024, 1_025, 10_000] {
            let data: Vec<f32> = (1..=len).map(|n| 1.0 / n as f32).collect();
            let mut seen: Option<(u32, Option<u32>, u32, u32)> = None;
            for workers in [0, 1, 2, 3, 4] {
                let pool = pool(workers);
                for way in Way::ALL {
                    let items = || way.cut(pool.over(&data)).copied().deterministic();
                    let sum = items().sum::<f32>().to_bits();
                    let reduced = items().reduce(|a, b| a * 0.999 - b).map(f32::to_bits);
                    let folded = items().fold(|| 0.5, |a, n| a / 3.0 + n, |a, b| a - b * 0.3);
                    let some = way
                        .cut(pool.over(&data))
                        .enumerate()
                        .filter(|(i, _)| i % 3 > 0);
                    let some = some.map(|(_, n)| n.sqrt()).deterministic().sum::<f32>();
                    let bits = (sum, reduced, folded.to_bits(), some.to_bits());
                    assert_eq!(
                        *seen.get_or_insert(bits),
                        bits,
                        "{len} items, {workers} workers, {way:?}"
                    );
                }
            }
            // About right as well.
            let exact: f64 = data.iter().map(|n| f64::from(*n)).sum();
            let (sum, ..) = seen.unwrap();
            assert!((f64::from(f32::from_bits(sum)) - exact).abs() < 1e-4);
        }
    });
}

#[test]
fn deterministic_loops_can_be_watched_and_cancelled() {
    let pool = pool(1);
    let (token, last) = (CancelToken::new(), AtomicUsize::new(0));
    let items = pool
        .over(0..5_000_u64)
        .progress(|done| last.store(done, Ordering::Relaxed));
    assert_eq!(
        items.cancel(&token).deterministic().sum::<u64>(),
        Ok(12_497_500)
    );
    assert_eq!(last.into_inner(), 5_000);
    // Between two chunks, of which each has two numbers.
    let calls = AtomicUsize::new(0);
    let items = pool.over(0..2_048).map(|n: u32| {
        calls.fetch_add(1, Ordering::Relaxed);
        if n < 8 {
            token.cancel();
        }
    });
    let error = items.max_chunk(1).cancel(&token).deterministic();
    let error = error.fold(|| (), |(), ()| (), |(), ()| ()).unwrap_err();
    assert_eq!((error.total(), error.done()), (2_048, calls.into_inner()));
}

#[test]
fn chains_can_be_cancelled() {
    for way in Way::ALL {
        let pool = pool(2);
        let token = CancelToken::new();
        let items = || {
            way.cut(pool.over(0..u64::MAX).cancel(&token))
                .map(|n| n / 2)
                .filter(|n| n % 2 == 0)
        };
        let outcome = items().flat_map(|n| [n, n]).for_each(|n| {
            if n > 5_000 {
                token.cancel();
            }
        });
        assert!(outcome.is_err());
        assert!(items().collect::<HashSet<_>>().is_err());
        assert!(items().map(Some).collect::<Option<Vec<_>>>().is_err());
        assert!(items().map(|n| (n, n)).unzip().is_err());
        assert!(items().try_for_each(|_| Err(())).is_err());
        assert!(items().deterministic().sum::<u64>().is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_chain_cut_in_any_way(
        data in prop::collection::vec(0_u32..1_000, 0..2_000),
        (skip, take, step) in (0_usize..100, 0_usize..3_000, 1_usize..9),
        (modulus, repeat) in (1_u32..5, 0_usize..4),
        chunk in 1_usize..300,
        workers in 0_usize..4,
    ) {
        let pool = pool(workers);
        let ways = || [
            pool.over(&data).chunking(ChunkingStrategy::exactly(chunk)),
            pool.over(&data).eager().min_chunk(chunk),
            pool.over(&data).eager().max_chunk(chunk),
            pool.over(&data),
        ];
        let some = |n: &u32| n.is_multiple_of(modulus);
        for items in ways() {
            let chain = items.copied().skip(skip).step_by(step).zip(&data).take(take).rev().enumerate();
            let chain = chain.map(|(i, (a, b))| a ^ b ^ i as u32).filter(some);
            let chain = chain.flat_map(|n| std::iter::repeat_n(n, repeat));
            let same = data.iter().copied().skip(skip).step_by(step).zip(&data).take(take).rev().enumerate();
            let same = same.map(|(i, (a, b))| a ^ b ^ i as u32).filter(some);
            let same: Vec<u32> = same.flat_map(|n| std::iter::repeat_n(n, repeat)).collect();
            prop_assert_eq!(chain.to_vec(), same);
        }
        for items in ways() {
            let chain = items.chain(over(&data).step_by(step)).enumerate().step_by(step).rev().skip(skip);
            let chain = chain.map(|(i, n)| (n % modulus, i)).collect::<BTreeMap<_, _>>();
            let same = data.iter().chain(data.iter().step_by(step)).collect::<Vec<_>>();
            let same = same.into_iter().enumerate().step_by(step).rev().skip(skip);
            prop_assert_eq!(chain, same.map(|(i, n)| (n % modulus, i)).collect::<BTreeMap<_, _>>());
        }
        for items in ways() {
            let windows = items.windows(step).zip(over(&data).skip(skip)).rev().step_by(2).take(take);
            let windows = windows.map(|(window, n)| window.iter().sum::<u32>() ^ n).collect::<VecDeque<_>>();
            // `Zip` of the standard library goes back over windows too.
            let same = data.windows(step).zip(data.iter().skip(skip)).rev().step_by(2).take(take);
            prop_assert!(windows.into_iter().eq(same.map(|(window, n)| window.iter().sum::<u32>() ^ n)));
        }
    }
}
