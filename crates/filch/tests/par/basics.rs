//! Loops against the same in sequence: every operation, on every kind of pool, cut in every way.

use crate::support::{Drops, LIMIT, pool, until, within};
use filch::{
    CancelReason, CancelToken, Pool,
    par::{self, ChunkingStrategy, ExactProducer, Loop, Producer, over},
};
use proptest::prelude::*;
use std::{
    cell::Cell,
    collections::HashSet,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

/// How a loop is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Default,
    Eager,
    /// Every item is a block.
    Single,
    AtLeast,
    Chunks,
    Sevens,
}

impl Way {
    pub(crate) const ALL: [Self; 6] = [
        Self::Default,
        Self::Eager,
        Self::Single,
        Self::AtLeast,
        Self::Chunks,
        Self::Sevens,
    ];

    pub(crate) fn cut<P, S, M>(self, items: Loop<'_, P, S, M>) -> Loop<'_, P, S, M> {
        match self {
            Self::Default => items,
            Self::Eager => items.eager(),
            Self::Single => items.eager().max_chunk(1),
            Self::AtLeast => items.eager().min_chunk(10),
            Self::Chunks => items.chunking(ChunkingStrategy::default()),
            Self::Sevens => items.chunking(ChunkingStrategy::exactly(7)),
        }
    }
}

/// An affine map modulo a prime: putting two together is associative and not commutative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Affine(u64, u64);

const PRIME: u64 = 1_000_003;

impl Affine {
    const NEUTRAL: Self = Self(1, 0);

    fn of(n: usize) -> Self {
        let n = n as u64;
        Self((n * 7 + 3) % PRIME, (n * 11 + 5) % PRIME)
    }

    /// First this, then the other.
    fn then(&self, other: &Self) -> Self {
        Self(
            self.0 * other.0 % PRIME,
            (self.1 * other.0 + other.1) % PRIME,
        )
    }
}

/// Calls `f` for hostile lengths, every way to cut and every kind of pool, from outside and from
/// inside.
fn everywhere(f: impl Fn(&Pool, Way, usize) + Send + Sync + 'static) {
    within(LIMIT * 6, move || {
        for workers in [0, 1, 3] {
            let pool = pool(workers);
            let mut lengths = vec![0, 1, 2, 3, 7, 8, 65, 1_500];
            lengths.extend([workers + 1, 16 * (workers + 1), 16 * (workers + 1) + 1]);
            for length in lengths {
                for way in Way::ALL {
                    f(&pool, way, length);
                    pool.install(|| f(&pool, way, length));
                }
            }
        }
    });
}

fn numbers(len: usize) -> Vec<u64> {
    (0..len as u64)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)
        .collect()
}

#[test]
fn maps_and_filters_keep_the_order() {
    everywhere(|pool, way, len| {
        let data = numbers(len);
        let squares: Vec<u64> = data.iter().map(|n| n * n).collect();
        assert_eq!(way.cut(pool.over(&data)).map(|n| n * n).to_vec(), squares);
        assert_eq!(
            way.cut(pool.over(data.clone())).map(|n| n * n).to_vec(),
            squares
        );
        let mut output = vec![0; len];
        way.cut(pool.over(&data))
            .map(|n| n * n)
            .write_into(&mut output);
        assert_eq!(output, squares);
        let wanted = |n: &u64| n.is_multiple_of(3);
        let found: Vec<u64> = data.iter().copied().filter(wanted).collect();
        assert_eq!(
            way.cut(pool.over(data.clone())).filter(wanted).to_vec(),
            found
        );
        assert_eq!(
            way.cut(pool.over(&data)).filter(|n| wanted(n)).count(),
            found.len()
        );
        let texts: Vec<String> = found.iter().map(u64::to_string).collect();
        let some = |n: &u64| wanted(n).then(|| n.to_string());
        assert_eq!(way.cut(pool.over(&data)).filter_map(some).to_vec(), texts);
    });
}

#[test]
fn reductions_keep_the_order() {
    everywhere(|pool, way, len| {
        let maps: Vec<Affine> = (0..len).map(Affine::of).collect();
        let all = maps.iter().copied().reduce(|a, b| a.then(&b));
        let then = |a: Affine, b: Affine| a.then(&b);
        assert_eq!(way.cut(pool.over(&maps)).cloned().reduce(then), all);
        assert_eq!(way.cut(pool.over(0..len)).map(Affine::of).reduce(then), all);
        let folded = way.cut(pool.over(&maps)).fold(
            || Affine::NEUTRAL,
            |acc, next| acc.then(next),
            |left, right| left.then(&right),
        );
        assert_eq!(folded, all.unwrap_or(Affine::NEUTRAL));
        let sum: u64 = (0..len as u64).sum();
        assert_eq!(way.cut(pool.over(0..len as u64)).sum::<u64>(), sum);
    });
}

#[test]
fn scans_are_those_of_a_sequence() {
    everywhere(|pool, way, len| {
        let maps: Vec<Affine> = (0..len).map(Affine::of).collect();
        let mut total = Affine::NEUTRAL;
        let mut exclusive = Vec::new();
        for map in &maps {
            exclusive.push(total);
            total = total.then(map);
        }
        let inclusive: Vec<_> = exclusive
            .iter()
            .skip(1)
            .chain([&total])
            .copied()
            .take(len)
            .collect();
        let scan = way
            .cut(pool.over(&maps))
            .cloned()
            .inclusive_scan(Affine::then);
        assert_eq!(scan, inclusive);
        let scan = way.cut(pool.over(&maps)).cloned();
        let scan = scan.exclusive_scan(Affine::NEUTRAL, Affine::then);
        assert_eq!(scan, (exclusive, total));
    });
}

#[test]
fn the_best_are_the_first_or_the_last_as_in_a_sequence() {
    everywhere(|pool, way, len| {
        let data: Vec<(u64, usize)> = numbers(len).iter().map(|n| n % 5).zip(0..).collect();
        let key = |item: &&(u64, usize)| item.0;
        let by = |a: &&(u64, usize), b: &&(u64, usize)| a.0.cmp(&b.0);
        let items = || way.cut(pool.over(&data));
        assert_eq!(items().min(), data.iter().min());
        assert_eq!(items().max(), data.iter().max());
        assert_eq!(items().min_by_key(key), data.iter().min_by_key(key));
        assert_eq!(items().max_by_key(key), data.iter().max_by_key(key));
        assert_eq!(items().min_by(by), data.iter().min_by(by));
        assert_eq!(items().max_by(by), data.iter().max_by(by));
    });
}

#[test]
fn searches_find_what_there_is() {
    everywhere(|pool, way, len| {
        for first in [0, len / 2, len.saturating_sub(1), len] {
            let wanted = |n: usize| n >= first && (n - first).is_multiple_of(10);
            let items = || way.cut(pool.over(0..len));
            let there = first < len;
            let found = there.then_some(first);
            assert_eq!(items().find_first(|n| wanted(*n)), found);
            assert_eq!(items().position(wanted), found);
            assert_eq!(items().any(wanted), there);
            assert_eq!(items().all(|n| !wanted(n)), !there);
            let any = items().find_any(|n| wanted(*n));
            assert_eq!(any.is_some(), there);
            assert!(any.is_none_or(wanted));
        }
    });
}

#[test]
fn items_are_changed_in_their_places() {
    everywhere(|pool, way, len| {
        let mut data = vec![1; len];
        way.cut(pool.over(&mut data)).for_each(|n| *n += 1);
        way.cut(pool.over(&mut data))
            .enumerate()
            .for_each(|(place, n)| *n += place);
        let mut other = numbers(len);
        way.cut(pool.over(&mut data))
            .zip(&mut other)
            .for_each(|(a, b)| *b = *a as u64);
        assert!(
            other
                .iter()
                .enumerate()
                .all(|(place, n)| *n == 2 + place as u64)
        );
        way.cut(pool.over(&mut data))
            .chunks(3)
            .enumerate()
            .for_each(|(place, chunk)| chunk.fill(place));
        assert!(data.iter().enumerate().all(|(place, n)| *n == place / 3));
        way.cut(pool.over(&mut data)).fill(9);
        assert!(data.iter().all(|n| *n == 9));
        let lengths = way.cut(pool.over(&data)).chunks(4).map(<[usize]>::len);
        let expected: Vec<usize> = data.chunks(4).map(<[usize]>::len).collect();
        assert_eq!(lengths.to_vec(), expected);
    });
}

#[test]
fn free_functions_work_on_the_global_pool() {
    let data = numbers(5_000);
    assert_eq!(filch::map(&data, |n| n + 1).len(), 5_000);
    let mut copy = vec![0; 5_000];
    par::map_into(&data, &mut copy, |n| *n);
    par::for_each_mut(&mut copy, |n| *n += 1);
    assert_eq!(par::reduce(0..10, |a, b| a + b), Some(45));
    filch::sort(&mut copy);
    assert!(copy.is_sorted());
    par::sort_by(&mut copy, |a, b| b.cmp(a));
    assert_eq!(par::max(&copy), Some(&copy[0]));
    assert_eq!(par::min(&copy), copy.last());
}

#[test]
fn few_items_are_shared_from_the_start() {
    // The caller and the worker each have one; neither ends before the other has begun.
    within(LIMIT, || {
        let (pool, both) = (pool(1), Barrier::new(2));
        pool.over(0..2).for_each(|_| {
            both.wait();
        });
        pool.over(0..1_000)
            .chunking(ChunkingStrategy::exactly(500))
            .for_each(|n| {
                if n % 500 == 0 {
                    both.wait();
                }
            });
    });
}

#[test]
fn eager_loops_are_shared_before_their_first_item() {
    within(LIMIT, || {
        let (pool, last) = (pool(1), AtomicBool::new(false));
        pool.over(0..100_000).eager().for_each(|n| match n {
            0 => until("the other half is taken", || last.load(Ordering::SeqCst)),
            99_999 => last.store(true, Ordering::SeqCst),
            _ => {}
        });
    });
}

#[test]
fn long_loops_are_shared_without_a_request() {
    // The worker of the first half sometimes waits for one in the second half.
    within(LIMIT, || {
        let (pool, helped) = (pool(1), AtomicBool::new(false));
        pool.over(0..1_000).for_each(|n| {
            if n == 900 {
                helped.store(true, Ordering::SeqCst);
            } else if n == 400 {
                until("a worker has reached 900", || helped.load(Ordering::SeqCst));
            } else {
                std::thread::sleep(Duration::from_micros(20));
            }
        });
    });
}

#[test]
fn short_loops_wake_no_worker() {
    let pool = pool(1);
    until("the worker sleeps", || pool.metrics().total().parks > 0);
    let before = pool.metrics().total();
    let data = numbers(100);
    let mut quick = 0;
    for _ in 0..100 {
        let start = std::time::Instant::now();
        let sum: u64 = pool.over(&data).sum();
        assert!(sum > 0);
        quick += u32::from(start.elapsed() < Duration::from_micros(10));
    }
    let wakes = pool.metrics().total().wakes - before.wakes;
    assert!(
        wakes <= 100 - u64::from(quick),
        "{wakes} wakes, {quick} quick loops of 100"
    );
}

#[test]
fn loops_inside_of_loops() {
    for workers in [0, 1, 3] {
        let pool = pool(workers);
        let sums = pool.over(0..50_u64).map(|i| {
            over(0..100_u64)
                .map(|j| {
                    over(0..3_u64)
                        .map(|k| i * j + k)
                        .reduce(|a, b| a + b)
                        .unwrap()
                })
                .sum::<u64>()
        });
        assert!(
            sums.to_vec()
                .iter()
                .zip(0..)
                .all(|(sum, i)| *sum == i * 3 * 4_950 + 300)
        );
    }
}

#[test]
fn loops_of_one_pool_inside_of_another() {
    let (outer, inner) = (pool(2), pool(1));
    let sums = outer
        .over(0..100_u64)
        .eager()
        .map(|i| inner.over(0..10_u64).map(|j| i + j).to_vec().len());
    assert_eq!(sums.to_vec(), [10; 100]);
}

#[test]
fn many_callers_at_once() {
    // More than there are places for guests.
    within(LIMIT * 3, || {
        let pool = pool(2);
        std::thread::scope(|scope| {
            for seed in 0..40_usize {
                let pool = &pool;
                scope.spawn(move || {
                    let data: Vec<usize> = (seed..seed + 3_000).collect();
                    for way in Way::ALL {
                        let doubled = way.cut(pool.over(&data)).map(|n| n * 2).to_vec();
                        assert!(doubled.iter().zip(&data).all(|(a, b)| *a == b * 2));
                    }
                });
            }
        });
    });
}

#[test]
fn futures_come_in_between() {
    // The only worker is in a loop that goes on until a future that it has woken has been polled.
    let futures_come_in = |way: Way| {
        let pool = pool(1);
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let (woken, polled) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (place, by, done) = (waker.clone(), woken.clone(), polled.clone());
        let waits = std::future::poll_fn(move |cx| {
            *place.lock().unwrap() = Some(cx.waker().clone());
            if by.load(Ordering::SeqCst) {
                done.store(true, Ordering::SeqCst);
                return Poll::Ready(());
            }
            Poll::Pending
        });
        pool.spawn_future(waits).detach();
        until("it waits", || waker.lock().unwrap().is_some());
        let looped = pool.submit(move || {
            way.cut(over(0..u64::MAX)).any(|n| {
                if n == 1_000 {
                    woken.store(true, Ordering::SeqCst);
                    let waker = waker.lock().unwrap().take();
                    waker.expect("it has been polled once").wake();
                }
                polled.load(Ordering::SeqCst)
            })
        });
        assert!(looped.join().unwrap());
    };
    // A chunk may be a third of all there is.
    for way in Way::ALL {
        within(LIMIT, move || futures_come_in(way));
    }
}

#[test]
fn no_worker_waits_for_the_end_of_a_chunk() {
    // Far more than can be visited: two chunks, or half of the items at least.
    let far = usize::MAX / 2 + 1;
    let ways: [fn(Loop<'_, _, _>) -> Loop<'_, _, _>; 2] = [
        |items| items.chunking(ChunkingStrategy::new(1, usize::MAX, 1).unwrap()),
        |items| items.eager().min_chunk(usize::MAX / 4),
    ];
    for way in ways {
        within(LIMIT, move || {
            // A worker searches far behind the first item when that is found.
            let (pool, behind) = (pool(2), AtomicBool::new(false));
            let first = way(pool.over(0..usize::MAX)).find_first(|n| {
                behind.fetch_or(*n >= far, Ordering::SeqCst);
                if *n == 0 {
                    until("the other half is taken", || behind.load(Ordering::SeqCst));
                }
                *n == 0
            });
            assert_eq!(first, Some(0));
            // No chunk ends before the loop is cancelled.
            let (token, calls) = (CancelToken::new(), AtomicUsize::new(0));
            let items = way(pool.over(0..usize::MAX));
            let outcome = items.cancel(&token).for_each(|_| {
                if calls.fetch_add(1, Ordering::SeqCst) == 10_000 {
                    token.cancel();
                }
            });
            assert_eq!(outcome.unwrap_err().reason(), CancelReason::Requested);
        });
    }
}

#[test]
fn ranges_of_all_integers() {
    assert_eq!(over(-3..3_i8).map(|n| n).to_vec(), [-3, -2, -1, 0, 1, 2]);
    assert_eq!(over(i8::MIN..i8::MAX).count(), 255);
    assert_eq!(
        over(0..u8::MAX).max_chunk(1).map(u64::from).to_vec().len(),
        255
    );
}

#[test]
fn ranges_with_their_ends() {
    for way in Way::ALL {
        assert_eq!(way.cut(over(1..=1_000_u64)).sum::<u64>(), 500_500);
        assert_eq!(
            way.cut(over(-2..=2_i8)).map(|n| n).to_vec(),
            [-2, -1, 0, 1, 2]
        );
    }
    #[expect(clippy::reversed_empty_ranges, reason = "an empty range")]
    let empty = 5..=3_u32;
    assert!(over(empty).map(|n| n).to_vec().is_empty());
    let panic = crate::support::panic_of(|| over(0..=u8::MAX).map(|n| n).to_vec());
    assert!(panic.contains("take a wider type"), "{panic}");
}

#[test]
fn filters_of_all_kinds_of_items() {
    #[derive(Clone, Debug, PartialEq)]
    struct Large([usize; 5]);
    // Around the number that is made room for at a time.
    for len in [0, 1, 255, 256, 257, 1_000, 20_000] {
        for way in Way::ALL {
            let wanted = |n: usize| n % 7 != 3 && n % 256 != 255;
            let places: Vec<usize> = (0..len).filter(|n| wanted(*n)).collect();
            assert_eq!(
                way.cut(over(0..len)).filter(|n| wanted(*n)).to_vec(),
                places
            );
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let few: Vec<u8> = bytes.iter().copied().filter(|n| n % 3 == 0).collect();
            assert_eq!(
                way.cut(over(&bytes))
                    .cloned()
                    .filter(|n| n % 3 == 0)
                    .to_vec(),
                few
            );
            let units = vec![(); len];
            assert_eq!(
                way.cut(over(units.clone())).filter(|()| true).to_vec(),
                units
            );
            assert!(way.cut(over(units)).filter(|()| false).to_vec().is_empty());
            let large = |n: usize| Large([n; 5]);
            let found = way.cut(over((0..len).map(large).collect::<Vec<_>>()));
            let found = found.filter(|item| wanted(item.0[0])).to_vec();
            assert!(
                found
                    .iter()
                    .zip(&places)
                    .all(|(item, n)| *item == large(*n))
            );
            let texts = (0..len).map(|n| n.to_string()).collect::<Vec<_>>();
            let found = way
                .cut(over(texts))
                .filter(|text| wanted(text.parse().unwrap()))
                .to_vec();
            assert!(
                found
                    .iter()
                    .zip(&places)
                    .all(|(text, n)| *text == n.to_string())
            );
            assert_eq!(found.len(), places.len());
        }
    }
}

/// How a source lies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// Has fewer or more items than it says.
    Number,
    /// Says the same after every cut, of both parts.
    AsBefore,
    /// Says more every time that it is asked.
    More,
    /// Says less every time that it is asked.
    Less,
    /// Says that there is nothing left.
    Nothing,
    /// Both parts of a cut are the whole.
    Whole,
}

impl Lie {
    const ALL: [Self; 6] = [
        Self::Number,
        Self::AsBefore,
        Self::More,
        Self::Less,
        Self::Nothing,
        Self::Whole,
    ];
}

/// Says one number of items and has another.
#[derive(Clone, Debug)]
struct Liar {
    lie: Lie,
    says: usize,
    has: usize,
    asked: Cell<usize>,
}

impl Liar {
    fn part(&self, says: usize, has: usize) -> Self {
        let asked = self.asked.clone();
        let whole = self.lie == Lie::Whole;
        Self {
            lie: self.lie,
            says: match self.lie {
                Lie::Number => says,
                Lie::Nothing => 0,
                _ => self.says,
            },
            has: if whole { self.has } else { has },
            asked,
        }
    }
}

impl Producer for Liar {
    type Item = usize;
    type Iter = std::ops::Range<usize>;

    fn size(&self) -> usize {
        let times = self.asked.get();
        self.asked.set(times + 1);
        match self.lie {
            Lie::More => self.says + 10 * times,
            Lie::Less => self.says.saturating_sub(10 * times),
            _ => self.says,
        }
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let more = self.says.saturating_sub(index);
        let near = self.part(index, self.has.min(index + 3));
        (near, self.part(more, self.has))
    }

    fn items(self) -> Self::Iter {
        0..self.has
    }
}

impl ExactProducer for Liar {}

/// The same with items that have destructors.
struct Shares(Liar, Arc<()>);

impl Producer for Shares {
    type Item = Arc<()>;
    type Iter = std::iter::RepeatN<Arc<()>>;

    fn size(&self) -> usize {
        self.0.size()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let (near, far) = self.0.split_at(index);
        (Self(near, self.1.clone()), Self(far, self.1))
    }

    fn items(self) -> Self::Iter {
        std::iter::repeat_n(self.1, self.0.has)
    }
}

impl ExactProducer for Shares {}

/// Calls `f`, whose panics don't matter.
fn or_panic<R>(f: impl FnOnce() -> R) -> Option<R> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).ok()
}

/// Every operation. Wrong results or panics, nothing worse; values of our own are dropped once.
fn do_everything_with(pool: &Pool, way: Way, source: &Liar) {
    let liar = || way.cut(pool.over(source.clone()));
    let drops = Drops::default();
    let made = AtomicUsize::new(0);
    let value = |n: usize| {
        made.fetch_add(1, Ordering::SeqCst);
        (n, drops.value())
    };
    let all_dropped = || assert_eq!(drops.seen(), made.load(Ordering::SeqCst));
    let _ = or_panic(|| liar().map(value).to_vec());
    all_dropped();
    let _ = or_panic(|| liar().write_into(&mut [0; 300]));
    let _ = or_panic(|| {
        liar()
            .filter_map(|n| (n % 2 == 0).then(|| value(n)))
            .to_vec()
    });
    all_dropped();
    let _ = or_panic(|| liar().fold(|| 0, |a, b| a ^ b, |a, b| a ^ b));
    let _ = or_panic(|| liar().map(value).reduce(|a, _| a));
    all_dropped();
    let op = |a: &usize, b: &usize| a.wrapping_mul(31).wrapping_add(*b);
    let _ = or_panic(|| liar().inclusive_scan(op));
    let _ = or_panic(|| liar().exclusive_scan(0, op));
    let units = vec![(); 1 << 20];
    let _ = or_panic(|| liar().zip(units.clone()).map(|_| ()).to_vec());
    let _ = or_panic(|| liar().filter(|n| n % 2 == 0).to_vec());
    let _ = or_panic(|| liar().for_each(|_| ()));
    let _ = or_panic(|| liar().enumerate().for_each(|_| ()));
    let _ = or_panic(|| liar().filter(|n| n % 2 == 0).count());
    let _ = or_panic(|| liar().sum::<usize>());
    let _ = or_panic(|| (liar().min(), liar().max()));
    let _ = or_panic(|| (liar().min_by_key(|n| n % 7), liar().max_by_key(|n| n % 7)));
    let _ = or_panic(|| (liar().find_first(|n| *n == 17), liar().find_any(|_| false)));
    let _ = or_panic(|| (liar().position(|n| n == 170), liar().any(|n| n == 17)));
    let _ = or_panic(|| (liar().all(|_| true), liar().enumerate().max()));
    let token = CancelToken::new();
    let _ = or_panic(|| {
        liar()
            .cancel(&token)
            .progress(|_| ())
            .inclusive_scan(|a, b| {
                token.cancel();
                a ^ b
            })
    });
    let share = Arc::new(());
    let shares = || way.cut(pool.over(Shares(source.clone(), share.clone())));
    let _ = or_panic(|| shares().map(|share| share).to_vec());
    let _ = or_panic(|| shares().filter(|_| true).to_vec());
    let _ = or_panic(|| shares().reduce(|_, b| b));
    let _ = or_panic(|| shares().inclusive_scan(|_, b| b.clone()));
    let _ = or_panic(|| shares().exclusive_scan(share.clone(), |_, b| b.clone()));
    assert_eq!(Arc::strong_count(&share), 1);
}

#[test]
fn sources_that_lie_do_no_harm() {
    within(LIMIT * 6, || {
        for workers in [0, 2] {
            let pool = pool(workers);
            for lie in Lie::ALL {
                for (says, has) in [(300, 0), (300, 700), (3, 1), (300, 299), (0, 7)] {
                    for way in Way::ALL {
                        let asked = Cell::new(0);
                        let liar = Liar {
                            lie,
                            says,
                            has,
                            asked,
                        };
                        do_everything_with(&pool, way, &liar);
                    }
                }
            }
        }
    });
}

#[test]
fn cuts_past_the_end_of_a_vector_panic() {
    use filch::par::IntoProducer;
    let vector: Vec<String> = ["a", "b", "c"].map(String::from).into();
    let mut pieces = vector.into_producer();
    assert_eq!(pieces.next().as_deref(), Some("a"));
    let panic = crate::support::panic_of(|| pieces.split_at(usize::MAX));
    assert!(panic.contains("past the end"), "{panic}");
    let (left, right) = vec![1, 2, 3].into_producer().split_at(3);
    assert_eq!((left.len(), right.len()), (3, 0));
}

#[test]
fn ranges_longer_than_memory_end_early() {
    assert_eq!(over(0..u64::MAX).find_first(|n| *n == 12_345), Some(12_345));
    assert_eq!(
        over(i64::MIN..i64::MAX).position(|n| n == i64::MIN + 54_321),
        Some(54_321)
    );
    assert!(over(0..usize::MAX).any(|n| n == 1 << 14));
    let range = i64::MIN..i64::MAX;
    assert_eq!(range.size(), usize::MAX);
    let (near, far) = range.split_at(usize::MAX / 2 + 1);
    assert_eq!((near, far), (i64::MIN..0, 0..i64::MAX));
    #[expect(clippy::reversed_empty_ranges, reason = "an empty range")]
    let empty = 5..3_u32;
    assert!(over(empty).map(|n| n).to_vec().is_empty());
}

#[test]
fn ranges_at_the_ends_of_their_types() {
    for way in Way::ALL {
        let last = way.cut(over(u64::MAX - 100..u64::MAX)).map(|n| n).to_vec();
        assert!(last.into_iter().eq(u64::MAX - 100..u64::MAX));
        let first = way.cut(over(i64::MIN..i64::MIN + 100)).map(|n| n).to_vec();
        assert!(first.into_iter().eq(i64::MIN..i64::MIN + 100));
        let last = way.cut(over(usize::MAX - 100..usize::MAX)).enumerate();
        assert_eq!(last.max(), Some((99, usize::MAX - 1)));
        let last = way
            .cut(over(u128::MAX - 100..u128::MAX))
            .map(|n| n)
            .to_vec();
        assert!(last.into_iter().eq(u128::MAX - 100..u128::MAX));
        let around = way
            .cut(over(i128::MIN..=i128::MIN + 100))
            .map(|n| n)
            .to_vec();
        assert!(around.into_iter().eq(i128::MIN..=i128::MIN + 100));
        let around = way
            .cut(over(i128::MAX - 100..i128::MAX))
            .map(|n| n)
            .to_vec();
        assert!(around.into_iter().eq(i128::MAX - 100..i128::MAX));
        let wide = u128::from(u64::MAX);
        assert_eq!(way.cut(over(wide - 1..=wide + 1)).sum::<u128>(), 3 * wide);
        assert!(
            way.cut(over(u64::MAX..u64::MAX))
                .map(|n| n)
                .to_vec()
                .is_empty()
        );
        assert_eq!(way.cut(over(i8::MIN..=i8::MAX - 1)).count(), 255);
    }
    for range in [0..u128::MAX, 1..1 << 65] {
        let panic = std::panic::catch_unwind(|| over(range).any(|_| true)).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("loop over parts of it"), "{text}");
    }
    let panic = crate::support::panic_of(|| over(i128::MAX..=i128::MAX).map(|n| n).to_vec());
    assert!(panic.contains("take a wider type"), "{panic}");
    // A range that was used up has nothing left, though its ends say otherwise.
    let mut used = 1..=3;
    assert_eq!(used.by_ref().count(), 3);
    assert!(over(used).map(|n: i32| n).to_vec().is_empty());
}

#[test]
fn pairs_are_as_many_as_the_shorter_one_has() {
    for way in Way::ALL {
        for (left, right) in [(0, 0), (0, 50), (50, 0), (1, 500), (500, 1), (499, 500)] {
            let pairs = |(a, b): (usize, u64)| (a, b);
            let expected: Vec<_> = (0..left).zip(0..right as u64).collect();
            let zipped = way.cut(over(0..left)).zip(0..right as u64);
            assert_eq!(zipped.map(pairs).to_vec(), expected);
            // Whatever has no partner is dropped, once.
            let drops = Drops::default();
            let values = |len| (0..len).map(|_| drops.value()).collect::<Vec<_>>();
            way.cut(over(values(left)))
                .zip(values(right))
                .for_each(drop);
            assert_eq!(drops.seen(), left + right);
            let three = way
                .cut(over(0..left))
                .zip(0..right)
                .zip(0..10_usize)
                .enumerate();
            let expected = left.min(right).min(10);
            assert!(three.all(|(place, ((a, b), c))| [a, b, c] == [place; 3]));
            let three = way.cut(over(0..left)).enumerate().zip(0..right).zip(0..10);
            assert_eq!(three.count(), expected);
        }
        let long = way.cut(over(0..usize::MAX)).zip(i64::MIN..i64::MAX);
        let found = long.find_first(|(n, m)| *n as i64 == m.wrapping_sub(i64::MIN) && *n == 300);
        assert_eq!(found, Some((300, i64::MIN + 300)));
        let few = way.cut(over(0..usize::MAX)).enumerate().zip(&[7, 8, 9]);
        assert_eq!(few.map(|((i, n), m)| i + n + m).to_vec(), [7, 10, 13]);
    }
}

#[test]
fn items_without_a_size() {
    let units = vec![(); 10_000];
    assert_eq!(over(&units).eager().map(|()| ()).to_vec(), units);
    assert_eq!(
        over(units.clone()).eager().filter(|()| true).to_vec(),
        units
    );
    assert_eq!(over(units.clone()).eager().count(), 10_000);
    let mut sorted = units.clone();
    filch::sort(&mut sorted);
    // More than 32 bits count.
    let many = vec![(); 5 << 31];
    assert_eq!(
        over(&many).chunks(1 << 31).map(<[()]>::len).to_vec(),
        [1 << 31; 5]
    );
    assert!(over(&many).enumerate().find_any(|_| true).is_some());
    let few = over(&many)
        .chunking(ChunkingStrategy::new(1, 1 << 33, 1).unwrap())
        .any(|()| true);
    assert!(few);
}

#[test]
fn chunks_are_checked_and_cover_everything() {
    for (min, max, per_worker, word) in [
        (0, 5, 3, "1 or more"),
        (5, 4, 3, "5 or more"),
        (1, 1, 0, "3 is usual"),
    ] {
        let error = ChunkingStrategy::new(min, max, per_worker).unwrap_err();
        assert!(
            error.is_config() && error.to_string().contains(word),
            "{error}"
        );
    }
    let strategy = ChunkingStrategy::new(2, 10, 3).unwrap();
    assert_eq!(
        (strategy.min(), strategy.max(), strategy.per_worker()),
        (2, 10, 3)
    );
    for (items, workers) in [(0, 0), (1, 1), (100, 4), (usize::MAX, usize::MAX), (23, 2)] {
        let size = strategy.chunk_size(items, workers);
        assert!((2..=10).contains(&size));
    }
    let covered: Vec<usize> = strategy.chunks(23, 2).flatten().collect();
    assert_eq!(covered, (0..23).collect::<Vec<_>>());
    assert_eq!(ChunkingStrategy::exactly(0).chunk_size(9, 9), 1);
    assert_eq!(ChunkingStrategy::default().chunk_size(12, 2), 2);
}

#[test]
fn chunks_are_not_cut() {
    // Whatever runs at once runs on one worker: neighbours in a chunk never see another thread.
    let threads = Mutex::new(vec![HashSet::new(); 10]);
    let chunks = ChunkingStrategy::exactly(100);
    pool(2).over(0..1_000_usize).chunking(chunks).for_each(|n| {
        threads.lock().unwrap()[n / 100].insert(std::thread::current().id());
    });
    assert!(
        threads
            .into_inner()
            .unwrap()
            .iter()
            .all(|chunk| chunk.len() == 1)
    );
}

#[test]
fn an_output_of_another_length_is_refused() {
    let error = std::panic::catch_unwind(|| over(0..3).write_into(&mut [0; 2])).unwrap_err();
    let text = error.downcast_ref::<String>().unwrap();
    assert!(text.contains("3 items for an output of 2"), "{text}");
}

#[test]
fn a_cancelled_loop_says_how_far_it_got() {
    let pool = pool(1);
    let token = CancelToken::new();
    assert_eq!(pool.over(0..100).cancel(&token).sum::<i32>(), Ok(4_950));
    let calls = AtomicUsize::new(0);
    let outcome = pool.over(0..u64::MAX).cancel(&token).for_each(|n| {
        calls.fetch_add(1, Ordering::Relaxed);
        if n == 5_000 {
            token.cancel();
        }
    });
    let error = outcome.unwrap_err();
    assert_eq!(error.done(), calls.into_inner());
    assert_eq!(
        (error.total() as u64, error.reason()),
        (u64::MAX, CancelReason::Requested)
    );
    // From the start.
    for way in Way::ALL {
        let items = || way.cut(pool.over(0..1_000).cancel(&token));
        assert_eq!(items().map(|n| n).to_vec().unwrap_err().done(), 0);
        assert_eq!(items().find_first(|n| *n == 0).unwrap_err().done(), 0);
        assert!(items().inclusive_scan(|a, b| a + b).is_err());
        assert!(items().exclusive_scan(0, |a, b| a + b).is_err());
    }
    // Nothing left to cancel.
    assert_eq!(
        pool.over(0..0).cancel(&token).map(|n: i32| n).to_vec(),
        Ok(vec![])
    );
}

#[test]
fn a_deadline_ends_a_loop() {
    let token = CancelToken::new();
    token.cancel_after(Duration::from_millis(5)).unwrap();
    let error = pool(2)
        .over(0..u64::MAX)
        .cancel(&token)
        .find_any(|n| *n == u64::MAX);
    assert_eq!(error.unwrap_err().reason(), CancelReason::Deadline);
}

#[test]
fn progress_is_reported_rarely_and_at_the_end() {
    let told = Mutex::new(Vec::new());
    let pool = pool(1);
    pool.over(0..30_000)
        .progress(|done| told.lock().unwrap().push(done))
        .for_each(|_| {
            std::hint::black_box((0..100).sum::<u64>());
        });
    let told = told.into_inner().unwrap();
    assert_eq!(told.last(), Some(&30_000));
    assert!(told.iter().all(|done| *done <= 30_000));
    let told = Mutex::new(Vec::new());
    pool.over(0..50)
        .max_chunk(1)
        .progress(|done| told.lock().unwrap().push(done))
        .for_each(|_| {
            std::thread::sleep(Duration::from_millis(1));
        });
    let told = told.into_inner().unwrap();
    assert!((2..50).contains(&told.len()), "{told:?}");
}

#[test]
fn a_source_of_ones_own() {
    struct Countdown(std::ops::Range<u32>);
    impl Producer for Countdown {
        type Item = u32;
        type Iter = std::iter::Rev<std::ops::Range<u32>>;
        fn size(&self) -> usize {
            self.0.len()
        }
        fn split_at(self, index: usize) -> (Self, Self) {
            let middle = self.0.end - index as u32;
            (Self(middle..self.0.end), Self(self.0.start..middle))
        }
        fn items(self) -> Self::Iter {
            self.0.rev()
        }
    }
    let expected: Vec<u32> = (0..5_000).rev().collect();
    for way in Way::ALL {
        assert_eq!(
            way.cut(over(Countdown(0..5_000))).map(|n| n).to_vec(),
            expected
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_data_cut_in_any_way(
        data in prop::collection::vec(0_u64..1_000, 0..3_000),
        min in 1_usize..500,
        more in 0_usize..500,
        per_worker in 1_usize..9,
        workers in 0_usize..4,
    ) {
        let pool = pool(workers);
        let strategy = ChunkingStrategy::new(min, min + more, per_worker).unwrap();
        let ways = [
            pool.over(&data).chunking(strategy),
            pool.over(&data).eager().min_chunk(min),
            pool.over(&data).eager().max_chunk(min),
            pool.over(&data).min_chunk(min).max_chunk(more),
        ];
        let maps: Vec<Affine> = data.iter().map(|n| Affine::of(*n as usize)).collect();
        let all = maps.iter().copied().reduce(|a, b| a.then(&b));
        for way in ways {
            let reduced = way.map(|n| Affine::of(*n as usize)).reduce(|a, b| a.then(&b));
            prop_assert_eq!(reduced, all);
        }
        let scanned = pool.over(maps.clone()).eager().max_chunk(min).inclusive_scan(Affine::then);
        prop_assert_eq!(scanned.last().copied(), all);
        let found = pool.over(&data).eager().max_chunk(min).position(|n| *n == 7);
        prop_assert_eq!(found, data.iter().position(|n| *n == 7));
        let odd: Vec<u64> = data.iter().copied().filter(|n| n % 2 == 1).collect();
        prop_assert_eq!(pool.over(data).eager().max_chunk(min).filter(|n| n % 2 == 1).to_vec(), odd);
    }
}

/// Workers that are in the middle of their pieces when a scan is cancelled leave gaps, and no panic
/// of ours.
#[test]
fn a_scan_that_is_cancelled_in_the_middle_says_so() {
    within(LIMIT, || {
        let pool = pool(3);
        for round in 0..20 {
            let (token, calls) = (CancelToken::new(), AtomicUsize::new(0));
            let cancelled = pool
                .over(0..3_000_u64)
                .eager()
                .max_chunk(1)
                .cancel(&token)
                .inclusive_scan(|a, b| {
                    std::thread::yield_now();
                    if calls.fetch_add(1, Ordering::Relaxed) == 100 + 10 * round {
                        token.cancel();
                    }
                    a + b
                });
            assert!(cancelled.is_err(), "it was not at its end");
        }
    });
}

/// What a piece begins with is the user's code too.
#[test]
fn a_panic_before_a_stolen_piece_stops_the_loop() {
    within(LIMIT, || {
        let pool = pool(2);
        let starts = AtomicUsize::new(0);
        let start = || {
            if starts.fetch_add(1, Ordering::Relaxed) > 0 {
                crate::support::quiet_panic("the second");
            }
        };
        let panic = crate::support::panic_of(|| {
            let all = pool.over(0..u64::MAX).eager();
            all.fold(start, |(), _| (), |(), ()| ());
        });
        assert!(panic.contains("the second"), "{panic}");
    });
}

/// An item that is cloned only together with another one, on two threads.
struct Pair<'a>(&'a Barrier);

impl Clone for Pair<'_> {
    fn clone(&self) -> Self {
        self.0.wait();
        Self(self.0)
    }
}

/// A scan whose second half was stolen combines the totals of the halves between its two loops.
#[test]
fn closures_of_a_loop_run_on_its_pool() {
    within(LIMIT, || {
        let pool = pool(1);
        let check = |what| assert!(Pool::current().is_some(), "{what} outside of the pool");
        pool.over(0..9).progress(|_| check("progress")).fold(
            || check("start"),
            |(), _| check("step"),
            |(), ()| check("join"),
        );
        let both = Barrier::new(2);
        let halves = || pool.over(vec![Pair(&both), Pair(&both)]).eager();
        let totals = halves().inclusive_scan(|_, _| {
            check("op");
            Pair(&both)
        });
        assert_eq!(totals.len(), 2);
    });
}
