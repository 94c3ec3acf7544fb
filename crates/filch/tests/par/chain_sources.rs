//! Collections, texts and iterators as sources of loops.

use crate::{
    basics::Way,
    support::{Drops, LIMIT, panic_of, pool, quiet_panic, until, within},
};
use filch::{CancelToken, par::ChunkingStrategy, prelude::*};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

/// A deque whose items go around the end of its memory.
fn wrapped(len: usize) -> VecDeque<usize> {
    let mut deque: VecDeque<usize> = (len / 2..len).collect();
    (0..len / 2).rev().for_each(|n| deque.push_front(n));
    assert!(len < 4 || !deque.as_slices().1.is_empty());
    deque
}

#[test]
fn deques() {
    let pool = pool(2);
    for len in [0, 1, 2, 7, 100, 10_000] {
        for way in Way::ALL {
            let mut deque = wrapped(len);
            let items = || way.cut(deque.par().on(&pool));
            assert!(items().to_vec().into_iter().eq(&deque));
            assert!(
                items()
                    .enumerate()
                    .rev()
                    .step_by(3)
                    .to_vec()
                    .into_iter()
                    .eq(deque.iter().enumerate().rev().step_by(3))
            );
            assert!(
                items()
                    .skip(len / 3)
                    .zip(&deque)
                    .to_vec()
                    .into_iter()
                    .eq(deque.iter().skip(len / 3).zip(&deque))
            );
            way.cut(deque.par_mut().on(&pool))
                .enumerate()
                .for_each(|(i, n)| *n += i);
            assert!(deque.iter().copied().eq((0..len).map(|n| n * 2)));
            assert!(
                way.cut(deque.into_par().on(&pool))
                    .map(|n| n / 2)
                    .to_vec()
                    .into_iter()
                    .eq(0..len)
            );
        }
    }
}

#[test]
fn maps_and_sets() {
    let pool = pool(2);
    for len in [0_u64, 1, 2, 7, 100, 5_000] {
        for way in [Way::Default, Way::Eager, Way::Sevens] {
            let mut hashed: HashMap<u64, u64> = (0..len).map(|n| (n, n * n)).collect();
            let sum = way
                .cut(hashed.par().on(&pool))
                .map(|(k, v)| v - k)
                .sum::<u64>();
            assert_eq!(sum, (0..len).map(|n| n * n - n).sum());
            way.cut(hashed.par_mut().on(&pool))
                .for_each(|(k, v)| *v += k);
            let again = way
                .cut(hashed.into_par().on(&pool))
                .map(|(k, v)| (k, v - k * k));
            assert_eq!(
                again.collect::<HashMap<_, _>>(),
                (0..len).map(|n| (n, n)).collect()
            );
            let mut sorted: BTreeMap<u64, String> = (0..len).map(|n| (n, n.to_string())).collect();
            way.cut(sorted.par_mut().on(&pool))
                .for_each(|(k, text)| text.push_str(&k.to_string()));
            assert!(
                way.cut(sorted.par().on(&pool))
                    .to_vec()
                    .into_iter()
                    .eq(&sorted)
            );
            assert!(
                way.cut(sorted.clone().into_par().on(&pool))
                    .rev()
                    .to_vec()
                    .into_iter()
                    .eq(sorted.into_iter().rev())
            );
            let set: BTreeSet<u64> = (0..len).collect();
            assert!(way.cut(set.par().on(&pool)).to_vec().into_iter().eq(&set));
            assert!(
                way.cut(set.into_par().on(&pool))
                    .to_vec()
                    .into_iter()
                    .eq(0..len)
            );
            let set: HashSet<u64> = (0..len).collect();
            assert_eq!(
                way.cut(set.par().on(&pool))
                    .copied()
                    .collect::<HashSet<_>>(),
                set
            );
            assert_eq!(
                way.cut(set.into_par().on(&pool)).sum::<u64>(),
                (0..len).sum()
            );
            let heap: BinaryHeap<u64> = (0..len).collect();
            assert_eq!(way.cut(heap.par().on(&pool)).count() as u64, len);
            assert_eq!(way.cut(heap.into_par().on(&pool)).max(), len.checked_sub(1));
            let list: LinkedList<u64> = (0..len).collect();
            assert!(way.cut(list.par().on(&pool)).to_vec().into_iter().eq(&list));
            assert!(
                way.cut(list.into_par().on(&pool))
                    .to_vec()
                    .into_iter()
                    .eq(0..len)
            );
        }
    }
    assert_eq!(Some(3).into_par().sum::<i32>(), 3);
    assert_eq!(None::<i32>.into_par().count(), 0);
}

#[track_caller]
fn check_text(pool: &filch::Pool, text: &str, sizes: impl IntoIterator<Item = usize>) {
    let (lines, chars) = (
        text.lines().collect::<Vec<_>>(),
        text.chars().collect::<Vec<_>>(),
    );
    for size in sizes {
        let chunks = ChunkingStrategy::exactly(size);
        assert_eq!(
            text.par_lines().on(pool).chunking(chunks).to_vec(),
            lines,
            "{text:?} by {size}"
        );
        assert_eq!(
            text.par_chars().on(pool).chunking(chunks).to_vec(),
            chars,
            "{text:?} by {size}"
        );
        assert_eq!(
            text.par_chars()
                .on(pool)
                .chunking(chunks)
                .collect::<String>(),
            text
        );
        assert_eq!(
            text.par_bytes().on(pool).chunking(chunks).copied().to_vec(),
            text.as_bytes()
        );
    }
    for way in Way::ALL {
        assert_eq!(
            way.cut(text.par_lines().on(pool)).to_vec(),
            lines,
            "{text:?} {way:?}"
        );
        assert_eq!(
            way.cut(text.par_chars().on(pool)).to_vec(),
            chars,
            "{text:?} {way:?}"
        );
        assert_eq!(way.cut(text.par_lines().on(pool)).count(), lines.len());
        assert_eq!(
            way.cut(text.par_lines().on(pool))
                .find_first(|line| line.is_empty()),
            text.lines().find(|line| line.is_empty())
        );
    }
}

#[test]
fn texts_are_cut_anywhere() {
    within(LIMIT * 6, || {
        let pool = pool(2);
        let long = format!("{}\n{}", "long ".repeat(40), "é".repeat(60));
        let texts = [
            "",
            "\n",
            "\n\n",
            "\r\n",
            "\r",
            "a",
            "a\n",
            "\na",
            "a\r\nb",
            "a\rb\n\r\n\r",
            "one\ntwo\n\nfour\r\nfive",
            "größer\n漢字\r\n🦀🦀\n",
            "🦀",
            "\u{2028}no line\u{85}end\n",
            long.as_str(),
        ];
        for text in texts {
            check_text(&pool, text, 1..=text.len() + 1);
        }
        let large = "some words\r\nand more\n\n".repeat(500);
        check_text(&pool, &large, [1, 7, 64, 1_000, 100_000]);
    });
}

#[test]
fn sums_of_a_text_are_deterministic() {
    let text: String = (1..3_000)
        .map(|n| format!("{}\n", 1.0 / f64::from(n)))
        .collect();
    let parse = |line: &str| line.parse::<f64>().unwrap();
    let sums = [0, 1, 2, 3].map(|workers| {
        let pool = pool(workers);
        text.par_lines()
            .on(&pool)
            .map(parse)
            .deterministic()
            .sum::<f64>()
            .to_bits()
    });
    assert_eq!(sums, [sums[0]; 4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_text(
        parts in prop::collection::vec(prop::sample::select(vec!["a", "bc", "é", "漢", "🦀", "\n", "\r", "\r\n"]), 0..60),
        size in 1_usize..20,
    ) {
        check_text(&pool(1), &parts.concat(), [size]);
    }
}

#[test]
fn bridges_pass_on_every_item_once() {
    within(LIMIT * 12, || {
        for workers in [0, 1, 3] {
            let pool = pool(workers);
            for way in Way::ALL {
                for len in [0, 1, 2, 7, 100, 10_000] {
                    let items = || way.cut((0..len).par_bridge().on(&pool));
                    let mut all = items().map(|n: usize| n).to_vec();
                    all.sort_unstable();
                    assert!(
                        all.into_iter().eq(0..len),
                        "{len} items, {workers} workers, {way:?}"
                    );
                    assert_eq!(items().count(), len);
                    let some = items()
                        .filter(|n| n % 2 == 0)
                        .map(|n| (n, n))
                        .collect::<HashMap<_, _>>();
                    assert_eq!(some.len(), len.div_ceil(2));
                    assert_eq!(
                        pool.install(|| items().flat_map(|n| [n, n]).sum::<usize>()),
                        len * len.saturating_sub(1)
                    );
                    assert_eq!(
                        items()
                            .map(|n| if n < 5_000 { Ok(n) } else { Err(()) })
                            .collect::<Result<Vec<_>, _>>()
                            .is_ok(),
                        len <= 5_000
                    );
                }
            }
        }
    });
}

#[test]
fn endless_iterators_end() {
    within(LIMIT * 6, || {
        let pool = pool(2);
        for way in Way::ALL {
            let items = || way.cut((0_u64..).par_bridge().on(&pool));
            assert!(items().find_any(|n| *n > 3_000).is_some_and(|n| n > 3_000));
            assert!(items().any(|n| n == 3_000));
            assert_eq!(items().find_first(|n| *n == 3_000), Some(3_000));
            let only_one = |n| if n == 3_000 { Err(n) } else { Ok(()) };
            assert_eq!(items().try_for_each(only_one), Err(3_000));
            let (token, calls) = (CancelToken::new(), AtomicUsize::new(0));
            let outcome = items().cancel(&token).for_each(|n| {
                calls.fetch_add(1, Ordering::Relaxed);
                if n == 3_000 {
                    token.cancel();
                }
            });
            assert!(outcome.is_err() && calls.into_inner() > 3_000, "{way:?}");
        }
    });
}

/// A node of a tree; the loop sends the children to the channel that it iterates over.
struct TreeNode {
    depth: u32,
    channel: mpsc::Sender<TreeNode>,
}

#[test]
fn a_loop_may_feed_the_iterator() {
    within(LIMIT, || {
        for workers in 1..4 {
            let (channel, nodes) = mpsc::channel();
            let root = TreeNode {
                depth: 6,
                channel: channel.clone(),
            };
            channel.send(root).unwrap();
            drop(channel);
            let pool = pool(workers);
            let visited = nodes.into_iter().par_bridge().on(&pool).map(|node| {
                if let Some(depth) = node.depth.checked_sub(1) {
                    for _ in 0..2 {
                        let channel = node.channel.clone();
                        node.channel.send(TreeNode { depth, channel }).unwrap();
                    }
                }
                1
            });
            assert_eq!(visited.sum::<u32>(), 127);
        }
    });
}

/// An iterator that must not be asked again after its end.
struct Unfused(Option<usize>);

impl Iterator for Unfused {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let left = self.0.expect("it was asked after its end");
        self.0 = left.checked_sub(1);
        self.0.map(|_| left)
    }
}

#[test]
fn an_iterator_is_not_asked_after_its_end() {
    let pool = pool(3);
    for way in Way::ALL {
        for len in [0, 1, 2, 7, 1_023, 1_024, 1_025, 3_000] {
            let items = way.cut(Unfused(Some(len)).par_bridge().on(&pool));
            assert_eq!(items.sum::<usize>(), len * (len + 1) / 2);
        }
    }
}

#[test]
fn iterators_may_panic() {
    within(LIMIT * 6, || {
        for workers in [0, 1, 3] {
            let pool = pool(workers);
            for way in Way::ALL {
                for at in [0, 1, 100, 2_500] {
                    let (drops, made) = (Drops::default(), AtomicUsize::new(0));
                    let items = (0..5_000).map(|n| {
                        if n == at {
                            quiet_panic("the iterator");
                        }
                        made.fetch_add(1, Ordering::SeqCst);
                        drops.value()
                    });
                    let panic = panic_of(|| way.cut(items.par_bridge().on(&pool)).to_vec());
                    assert_eq!(panic, "the iterator");
                    assert_eq!(drops.seen(), made.into_inner());
                    // A closure of the loop.
                    let (drops, calls) = (Drops::default(), AtomicUsize::new(0));
                    let items: Vec<_> = (0..5_000).map(|_| drops.value()).collect();
                    let items = way.cut(items.into_iter().par_bridge().on(&pool));
                    let panic = panic_of(|| {
                        items.for_each(|_| {
                            if calls.fetch_add(1, Ordering::SeqCst) == at {
                                quiet_panic("the closure")
                            }
                        });
                    });
                    assert_eq!((panic, drops.seen()), ("the closure", 5_000));
                }
            }
        }
    });
}

#[test]
fn items_that_are_not_pulled_are_dropped() {
    let pool = pool(2);
    let drops = Drops::default();
    let items: Vec<_> = (0..5_000).map(|n| (n, drops.value())).collect();
    let found = items
        .into_iter()
        .par_bridge()
        .on(&pool)
        .find_any(|item| item.0 == 50);
    assert_eq!((found.is_some(), drops.seen()), (true, 4_999));
    drop(found);
    let items: Vec<_> = (0..10).map(|_| drops.value()).collect();
    drop(items.into_iter().par_bridge());
    assert_eq!(drops.seen(), 5_010);
}

#[test]
fn iterators_may_use_the_pool() {
    within(LIMIT * 6, || {
        for workers in [0, 1, 3] {
            let pool = pool(workers);
            for way in Way::ALL {
                let sums = (0..200_u64)
                    .map(|n| pool.over(0..100_u64).eager().max_chunk(3).sum::<u64>() + n);
                assert_eq!(
                    way.cut(sums.par_bridge().on(&pool)).sum::<u64>(),
                    200 * 4_950 + 19_900
                );
                // And a loop over a bridge inside of one.
                let nested = (0..20_usize)
                    .par_bridge()
                    .on(&pool)
                    .map(|n| way.cut((0..n).par_bridge()).count());
                assert_eq!(nested.sum::<usize>(), 190);
            }
        }
    });
}

#[test]
fn a_slow_item_does_not_hold_up_the_others() {
    let pool = pool(2);
    let threads = Mutex::new(HashSet::new());
    (0..100).par_bridge().on(&pool).eager().for_each(|n| {
        threads.lock().unwrap().insert(std::thread::current().id());
        if n == 0 {
            until("another worker takes items", || {
                threads.lock().unwrap().len() > 1
            });
        }
    });
}
