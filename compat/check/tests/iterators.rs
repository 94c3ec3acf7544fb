//! rayon's iterators, and crates that use them, run on filch's workers with the same results as in
//! sequence.

use rayon::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Mutex,
};

#[test]
fn they_run_on_workers_of_filch() {
    assert!(filch::Pool::current().is_none());
    (0..10_000).into_par_iter().for_each(|_| {
        let worker = filch::current_worker().expect("a worker of filch");
        assert_eq!(rayon::current_thread_index(), Some(worker));
        assert!(worker < rayon::current_num_threads());
    });
}

#[test]
fn map_filter_reduce_collect() {
    for n in [0_u64, 1, 2, 3, 100, 10_000] {
        let squares: Vec<u64> = (0..n).into_par_iter().map(|x| x * x).collect();
        assert_eq!(squares, (0..n).map(|x| x * x).collect::<Vec<_>>());
        let even: Vec<&u64> = squares.par_iter().filter(|x| *x % 2 == 0).collect();
        assert_eq!(
            even,
            squares.iter().filter(|x| *x % 2 == 0).collect::<Vec<_>>()
        );
        assert_eq!(squares.par_iter().sum::<u64>(), squares.iter().sum::<u64>());
        assert_eq!(squares.par_iter().max(), squares.iter().max());
    }
}

#[test]
fn the_order_is_kept_where_it_matters() {
    let words: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
    let joined = words.par_iter().cloned().reduce(String::new, |a, b| a + &b);
    assert_eq!(joined, words.concat());
    let first = words.par_iter().find_first(|word| word.len() == 3);
    assert_eq!(first.unwrap(), "100");
    assert_eq!(
        words.par_iter().position_last(|word| word.len() == 2),
        Some(99)
    );
}

#[test]
fn sorts() {
    let mut numbers: Vec<(u32, usize)> = (0..50_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 22, n as usize))
        .collect();
    let mut expected = numbers.clone();
    expected.sort_by_key(|pair| pair.0);
    let mut unstable = numbers.clone();
    unstable.par_sort_unstable();
    numbers.par_sort_by_key(|pair| pair.0);
    assert_eq!(numbers, expected, "stable");
    assert!(unstable.is_sorted());
}

#[test]
fn a_bridge_from_a_sequential_iterator() {
    let seen: BTreeSet<u32> = (0..5_000).par_bridge().map(|n| n * 2).collect();
    assert!(seen.into_iter().eq((0..5_000).map(|n| n * 2)));
    // A sequential iterator that uses the pool itself.
    let sums = (0..50_u64).map(|n| (0..n).into_par_iter().sum::<u64>());
    assert_eq!(sums.par_bridge().max(), Some(48 * 49 / 2));
}

#[test]
fn nested_loops_and_pools() {
    let pools: Vec<_> = (1..=3)
        .map(|n| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(n)
                .build()
                .unwrap()
        })
        .collect();
    let total: usize = (0..100_usize)
        .into_par_iter()
        .map(|n| {
            let pool = &pools[n % 3];
            pool.install(|| {
                assert_eq!(rayon::current_num_threads(), n % 3 + 1);
                (0..n).into_par_iter().map(|_| 1).sum::<usize>()
            })
        })
        .sum();
    assert_eq!(total, 99 * 100 / 2);
}

#[test]
fn an_iterator_that_panics_drops_what_it_has() {
    struct Counted<'a>(&'a Mutex<i64>);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() -= 1;
        }
    }
    let alive = Mutex::new(0);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        (0..1_000)
            .into_par_iter()
            .map(|n| {
                assert!(n != 777, "the one");
                *alive.lock().unwrap() += 1;
                Counted(&alive)
            })
            .collect::<Vec<_>>()
    }));
    assert_eq!(
        *result.err().unwrap().downcast::<&str>().unwrap(),
        "the one"
    );
    assert_eq!(alive.into_inner().unwrap(), 0);
}

#[test]
fn one_scratch_for_each_thread() {
    // A common use of the index: an array with a slot for each thread.
    let places: Vec<Mutex<u64>> = (0..rayon::current_num_threads())
        .map(|_| Mutex::new(0))
        .collect();
    (0..20_000_u64).into_par_iter().for_each(|n| {
        let index = rayon::current_thread_index().unwrap();
        let mut place = places[index]
            .try_lock()
            .expect("no other thread has this index");
        *place += n;
    });
    let sum: u64 = places.iter().map(|place| *place.lock().unwrap()).sum();
    assert_eq!(sum, 19_999 * 20_000 / 2);
}

#[test]
fn hashbrown() {
    let map: hashbrown::HashMap<u32, u32> =
        (0..10_000).into_par_iter().map(|n| (n, n * n)).collect();
    assert_eq!(map.len(), 10_000);
    assert!(map.par_iter().all(|(key, value)| key * key == *value));
    let keys: HashSet<u32> = map.into_par_iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), 10_000);
}

#[test]
fn indexmap() {
    let map: indexmap::IndexMap<String, usize> = (0..10_000)
        .into_par_iter()
        .map(|n| (n.to_string(), n))
        .collect();
    assert!(
        map.par_values()
            .copied()
            .map(Some)
            .reduce(|| None, Option::max)
            == Some(9_999)
    );
    let mut map = map;
    map.par_sort_by(|_, a, _, b| b.cmp(a));
    assert!(map.values().copied().eq((0..10_000).rev()));
}

#[test]
fn jwalk() {
    // jwalk has its own pool, and reads directories ahead through `par_bridge`.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/filch/src");
    let sizes = |entries: &mut dyn Iterator<Item = std::path::PathBuf>| -> BTreeMap<_, _> {
        entries
            .filter_map(|path| Some((path.clone(), path.metadata().ok()?.len())))
            .collect()
    };
    let mut walk = jwalk::WalkDir::new(root)
        .sort(true)
        .into_iter()
        .map(|entry| entry.unwrap().path());
    let found = sizes(&mut walk);
    let mut expected = vec![std::path::PathBuf::from(root)];
    let mut next = 0;
    while next < expected.len() {
        if expected[next].is_dir() {
            let inside = std::fs::read_dir(&expected[next]).unwrap();
            expected.extend(inside.map(|entry| entry.unwrap().path()));
        }
        next += 1;
    }
    assert_eq!(found, sizes(&mut expected.into_iter()));
    assert!(found.len() > 100);
}
