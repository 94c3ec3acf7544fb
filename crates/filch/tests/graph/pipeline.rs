//! Pipelines: order, bounds, waits of tokens for others, panics, cancellation.
#![cfg(not(filch_loom))]

use crate::support::{Counted, Drops, Flag, LIMIT, Panics, message, pool, quiet_panic, within};
use filch::{
    CancelToken,
    graph::{Pipeline, PipelineError, RunOptions, Stage},
};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

const WORKERS: [usize; 4] = [0, 1, 2, 4];
const LINES: [usize; 5] = [1, 2, 3, 8, 100];

/// A source of `count` tokens, each its own number.
fn numbers(
    count: u64,
) -> impl FnMut(&mut filch::graph::Flow) -> Option<u64> + Send + Clone + 'static {
    move |flow| (flow.token() < count).then(|| flow.token())
}

/// Work of varying length, so that tokens overtake each other where they may.
fn some_work(n: u64) {
    for _ in 0..(n * 7919) % 97 {
        std::hint::black_box(n);
    }
    if n.is_multiple_of(13) {
        thread::yield_now();
    }
}

/// The number of tokens inside a stage now, and the maximum.
#[derive(Default)]
struct Inside {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Inside {
    fn enter(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn serial_stages_see_tokens_in_order() {
    within(LIMIT, || {
        for workers in WORKERS {
            let pool = pool(workers);
            for lines in LINES {
                let (mut first, mut last) = (vec![], vec![]);
                let middle = AtomicUsize::new(0);
                let report = Pipeline::new(numbers(300))
                    .parallel(|n| {
                        some_work(n);
                        middle.fetch_add(1, Ordering::Relaxed);
                        n.to_string()
                    })
                    .serial(|text| {
                        first.push(text.clone());
                        text
                    })
                    .parallel(|text| {
                        some_work(text.len() as u64);
                        (text.parse::<u64>().unwrap(), [7_u128; 3])
                    })
                    .serial(|(n, sevens)| {
                        assert_eq!(sevens, [7; 3]);
                        last.push(n);
                    })
                    .run_on(&pool, lines)
                    .unwrap();
                assert_eq!(report.tokens(), 300);
                assert_eq!(middle.into_inner(), 300);
                assert!(last.iter().copied().eq(0..300), "{workers} {lines}");
                assert!(
                    first
                        .iter()
                        .map(|text| text.parse::<u64>().unwrap())
                        .eq(0..300)
                );
            }
        }
    });
}

#[test]
fn one_token_at_a_time_is_in_a_serial_stage_and_no_more_than_lines_in_flight() {
    within(LIMIT, || {
        let pool = pool(4);
        for lines in LINES {
            let (way, serial) = (Inside::default(), Inside::default());
            let mut count = 0;
            Pipeline::new(|_| {
                count += 1;
                (count <= 200).then(|| {
                    way.enter();
                    count
                })
            })
            .serial(|n| {
                serial.enter();
                some_work(n);
                serial.leave();
                n
            })
            .parallel(|n| {
                some_work(n + 1);
                way.leave();
            })
            .run_on(&pool, lines)
            .unwrap();
            assert_eq!(serial.most.into_inner(), 1);
            assert!(way.most.into_inner() <= lines);
        }
    });
}

#[test]
fn parallel_stages_overlap() {
    // Two tokens wait for each other inside the stage: on a single worker that would never end.
    within(LIMIT, || {
        let met = [Flag::default(), Flag::default()];
        Pipeline::new(numbers(2))
            .parallel(|n| {
                met[n as usize].set();
                met[1 - n as usize].wait("the other token");
            })
            .run_on(&pool(2), 2)
            .unwrap();
    });
}

#[test]
fn stages_of_every_shape_work() {
    within(LIMIT, || {
        let pool = pool(2);
        // Nothing at all, no stages, only serial ones, only parallel ones.
        for count in [0, 1, 2, 50] {
            for lines in [1, 2, 7] {
                let run = |mut pipeline: Pipeline<'_, u64>| {
                    let report = pipeline.run_on(&pool, lines).unwrap();
                    assert_eq!(report.tokens(), count);
                };
                run(Pipeline::new(numbers(count)));
                run(Pipeline::new(numbers(count)).serial(|n| n).serial(|n| n));
                run(Pipeline::new(numbers(count))
                    .parallel(|n| n)
                    .parallel(|n| n));
                let seen = Mutex::new(vec![]);
                run(Pipeline::new(numbers(count)).parallel(|n| {
                    seen.lock().unwrap().push(n);
                    n
                }));
                let mut seen = seen.into_inner().unwrap();
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..count));
            }
        }
    });
}

#[test]
fn stages_are_chosen_at_run_time() {
    within(LIMIT, || {
        let pool = pool(2);
        for depth in [0, 1, 5, 40] {
            let mut results = vec![];
            let stages = (0..depth).map(|stage| match stage % 3 {
                0 => Stage::serial(move |n: u64| n + stage),
                _ => Stage::parallel(move |n: u64| n + stage),
            });
            let mut pipeline = Pipeline::new(numbers(30))
                .stages(stages)
                .serial(|n| results.push(n));
            assert_eq!(pipeline.stage_count() as u64, depth + 2);
            pipeline.run_on(&pool, 5).unwrap();
            drop(pipeline);
            let sum: u64 = (0..depth).sum();
            assert!(results.into_iter().eq((0..30).map(|n| n + sum)));
        }
    });
}

#[test]
fn values_of_unusual_layout_pass() {
    #[repr(align(256))]
    struct Aligned(u8);
    within(LIMIT, || {
        let mut sum = 0_u64;
        Pipeline::new(|flow| (flow.token() < 20).then_some(()))
            .serial(|()| Aligned(3))
            .parallel(|aligned| {
                assert_eq!((&raw const aligned).addr() % 256, 0);
                [u64::from(aligned.0); 100]
            })
            .serial(|large| sum += large.iter().sum::<u64>())
            .run_on(&pool(2), 3)
            .unwrap();
        assert_eq!(sum, 20 * 300);
    });
}

#[test]
fn a_pipeline_can_be_run_again_and_again() {
    within(LIMIT, || {
        let pool = pool(2);
        let seen = AtomicUsize::new(0);
        let mut pipeline = Pipeline::new(numbers(10)).parallel(|_| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        for round in 1..=50 {
            assert_eq!(pipeline.run_on(&pool, 1 + round % 5).unwrap().tokens(), 10);
            assert_eq!(seen.load(Ordering::Relaxed), 10 * round);
        }
    });
}

#[test]
fn it_runs_inside_a_task_of_a_one_worker_pool() {
    within(LIMIT, || {
        let one = pool(1);
        let (send, receive) = std::sync::mpsc::channel();
        one.install(|| {
            filch::spawn(move || {
                let mut sum = 0;
                let mut outer = Pipeline::new(numbers(20)).parallel(|n| {
                    // A pipeline in a stage of a pipeline.
                    let mut inner_sum = 0;
                    let mut inner = Pipeline::new(numbers(n)).serial(|m| inner_sum += m);
                    inner.run(3).unwrap();
                    drop(inner);
                    inner_sum
                });
                outer.run(4).unwrap();
                let mut outer = outer.serial(|n| sum += n);
                outer.run(4).unwrap();
                drop(outer);
                send.send(sum).unwrap();
            });
        });
        let expected: u64 = (0..20_u64).map(|n| (0..n).sum::<u64>()).sum();
        assert_eq!(receive.recv().unwrap(), expected);
    });
}

#[test]
fn stages_may_fork_and_isolated_callers_may_run() {
    within(LIMIT, || {
        for workers in WORKERS {
            pool(workers).install(|| {
                filch::isolate(|| {
                    let mut out = vec![];
                    Pipeline::new(numbers(100))
                        .parallel(|n| {
                            let (a, b) = filch::join(|| n + 1, || n + 2);
                            a * b
                        })
                        .serial(|n| out.push(n))
                        .run(8)
                        .unwrap();
                    assert!(out.into_iter().eq((0..100).map(|n| (n + 1) * (n + 2))));
                });
            });
        }
    });
}

#[test]
fn many_threads_run_pipelines_on_one_pool() {
    // Threads that wait for their own pipeline help with those of the others, but may leave before
    // these are done.
    within(LIMIT, || {
        for workers in [0, 2] {
            let shared = pool(workers);
            thread::scope(|s| {
                for _ in 0..6 {
                    s.spawn(|| {
                        for lines in LINES {
                            let mut out = vec![];
                            Pipeline::new(numbers(100))
                                .parallel(|n| {
                                    some_work(n);
                                    n
                                })
                                .serial(|n| out.push(n))
                                .run_on(&shared, lines)
                                .unwrap();
                            assert!(out.into_iter().eq(0..100));
                        }
                    });
                }
            });
        }
    });
}

#[test]
fn many_tokens_need_no_stack() {
    within(LIMIT, || {
        for lines in [1, 16] {
            let mut sum = 0;
            Pipeline::new(numbers(100_000))
                .serial(|n| sum += n)
                .run_on(&pool(1), lines)
                .unwrap();
            assert_eq!(sum, (0..100_000_u64).sum::<u64>());
        }
    });
}

/// Runs `count` tokens of which each waits for what `waits` says, and returns the order in which
/// they came.
fn deferred(
    count: u64,
    workers: usize,
    lines: usize,
    waits: impl Fn(u64) -> Vec<u64> + Send + Sync,
) -> Result<Vec<u64>, PipelineError> {
    let mut order = vec![];
    let mut pipeline = Pipeline::new(|flow| {
        let token = flow.token();
        waits(token).into_iter().for_each(|other| flow.defer(other));
        (token < count).then_some(token)
    })
    .parallel(|n| {
        some_work(n);
        n
    })
    .serial(|n| order.push(n));
    let result = pipeline.run_on(&pool(workers), lines);
    drop(pipeline);
    result.map(|_| order)
}

#[test]
fn tokens_wait_for_earlier_and_later_ones() {
    within(LIMIT, || {
        for (workers, lines) in [(0, 1), (1, 1), (2, 2), (4, 8)] {
            // An earlier one has left already.
            let earlier = deferred(50, workers, lines, |n| (0..n).collect());
            assert!(earlier.unwrap().into_iter().eq(0..50));
            // Frames of a film: the second and third of four wait for the fourth.
            let film = deferred(8, workers, lines, |n| match n % 4 {
                1 | 2 => vec![n / 4 * 4 + 3],
                _ => vec![],
            });
            assert_eq!(film.unwrap(), [0, 3, 1, 2, 4, 7, 5, 6]);
            // Each waits for the next one, but for the last one: backwards, with one line even.
            let backwards = deferred(100, workers, lines, |n| match n {
                99 => vec![],
                _ => vec![n + 1, n + 1],
            });
            assert!(backwards.unwrap().into_iter().eq((0..100).rev()));
            // For several.
            let several = deferred(6, workers, lines, |n| match n {
                0 => vec![5, 2],
                2 => vec![4],
                _ => vec![],
            });
            assert_eq!(several.unwrap(), [1, 3, 4, 2, 5, 0]);
            // For one that waits itself and came before.
            let chain = deferred(4, workers, lines, |n| match n {
                0 => vec![3],
                1 => vec![0],
                _ => vec![],
            });
            assert_eq!(chain.unwrap(), [2, 3, 0, 1]);
        }
    });
}

#[test]
fn waits_in_a_cycle_are_an_error_that_names_it() {
    within(LIMIT, || {
        let error = deferred(10, 2, 3, |n| match n {
            2 => vec![5],
            4 => vec![2],
            5 => vec![4],
            _ => vec![],
        })
        .unwrap_err();
        assert_eq!(error.cycle(), [5, 4, 2]);
        assert_eq!((error.finished(), error.dropped()), (3, 3));
        assert_eq!(
            error.to_string(),
            "these tokens wait for each other: 5 → 4 → 2 → 5; remove one of the waits \
             (3 tokens finished, 3 dropped)"
        );
        let error = deferred(10, 1, 1, |n| if n == 3 { vec![3] } else { vec![] });
        assert_eq!(error.unwrap_err().cycle(), [3]);
    });
}

#[test]
fn a_wait_for_a_missing_token_is_an_error() {
    within(LIMIT, || {
        let waits = |n| match n {
            1 => vec![0, 12],
            3 => vec![1],
            _ => vec![],
        };
        let error = deferred(10, 2, 3, waits).unwrap_err();
        assert_eq!(error.missing_token(), Some((1, 12)));
        assert_eq!((error.finished(), error.dropped()), (8, 2));
        assert!(
            error
                .to_string()
                .contains("which the source did not produce"),
            "{error}"
        );
        assert!(deferred(13, 2, 3, waits).is_ok());
    });
}

/// Whether some of `count` tokens wait for each other in a cycle.
fn has_cycle(count: u64, waits: &[Vec<u64>]) -> bool {
    let mut open: Vec<u64> = (0..count).collect();
    loop {
        let before = open.len();
        let blocked = |n: &u64| waits[*n as usize].iter().any(|other| open.contains(other));
        open = open.iter().copied().filter(blocked).collect();
        if open.len() == before {
            return before > 0;
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

    /// Tokens leave the source after those that they wait for, or the error
    /// says why not.
    #[test]
    fn random_waits_are_respected_or_rejected(
        sparse in proptest::collection::vec((0..24_u64, 0..26_u64), 0..14),
        workers in 0..3_usize,
        lines in 1..6_usize,
    ) {
        let count = 24;
        let mut waits = vec![vec![]; count as usize];
        for (token, other) in sparse {
            waits[token as usize].push(other);
        }
        let of = |n: u64| waits.get(n as usize).cloned().unwrap_or_default();
        let unknown = waits.iter().flatten().any(|other| *other >= count);
        match deferred(count, workers, lines, of) {
            Ok(order) => {
                assert!(!unknown && !has_cycle(count, &waits));
                let place = |n: u64| order.iter().position(|other| *other == n).unwrap();
                for (token, others) in waits.iter().enumerate() {
                    assert!(others.iter().all(|other| place(*other) < place(token as u64)));
                }
                let free = order.iter().filter(|n| of(**n).is_empty());
                assert!(free.is_sorted() && order.len() == 24);
            }
            Err(error) if has_cycle(count, &waits) => {
                let circle = error.cycle();
                for (n, token) in circle.iter().enumerate() {
                    assert!(of(*token).contains(&circle[(n + 1) % circle.len()]));
                }
                assert!(!circle.is_empty());
            }
            Err(error) => {
                let (token, other) = error.missing_token().unwrap();
                assert!(other >= count && of(token).contains(&other));
                assert_eq!(error.finished() + error.dropped(), count);
            }
        }
    }
}

#[test]
fn a_panic_is_reported_with_its_stage_and_token_and_nothing_leaks() {
    within(LIMIT, || {
        for workers in WORKERS {
            let pool = pool(workers);
            for stage in 0..4_usize {
                let (drops, made) = (Drops::default(), AtomicUsize::new(0));
                let check = |at: usize, n: u64| {
                    if at == stage && n == 7 {
                        quiet_panic("bad token");
                    }
                };
                let mut pipeline = Pipeline::new(|flow| {
                    let token = flow.token();
                    check(0, token);
                    if token == 9 {
                        flow.defer(1000);
                    }
                    (token < 200).then(|| {
                        made.fetch_add(1, Ordering::SeqCst);
                        (token, drops.value())
                    })
                })
                .named("source")
                .serial(|(n, value): (u64, Counted)| {
                    check(1, n);
                    (value, n)
                })
                .parallel(|(value, n)| {
                    check(2, n);
                    (n, value)
                })
                .named("parallel")
                .serial(|(n, _value)| check(3, n));
                let error = pipeline.run_on(&pool, 5).unwrap_err();
                drop(pipeline);
                let [panic] = error.panics() else {
                    panic!("{error}")
                };
                assert_eq!((panic.stage(), panic.token()), (stage, 7));
                let name = [Some("source"), None, Some("parallel"), None][stage];
                assert_eq!(panic.name(), name);
                let made = made.load(Ordering::SeqCst);
                assert_eq!(drops.seen(), made, "every value is dropped once");
                let made_or_begun = made as u64 + u64::from(stage == 0);
                assert_eq!(error.finished() + error.dropped(), made_or_begun);
                assert!(error.dropped() >= 1);
                if stage == 3 {
                    assert_eq!(error.finished(), 7);
                }
                let payload = error.into_panics().remove(0).into_payload();
                assert_eq!(message(&*payload), "bad token");
            }
        }
    });
}

#[test]
fn after_a_panic_it_can_be_run_again() {
    within(LIMIT, || {
        let pool = pool(2);
        let bad = AtomicUsize::new(3);
        let mut out = vec![];
        let mut pipeline = Pipeline::new(numbers(50))
            .parallel(|n| {
                if n == bad.load(Ordering::SeqCst) as u64 {
                    quiet_panic("bad token");
                }
                n
            })
            .serial(|n| out.push(n));
        for _ in 0..20 {
            bad.store(3, Ordering::SeqCst);
            assert_eq!(pipeline.run_on(&pool, 4).unwrap_err().panics().len(), 1);
            bad.store(1000, Ordering::SeqCst);
            assert_eq!(pipeline.run_on(&pool, 4).unwrap().tokens(), 50);
        }
        drop(pipeline);
        assert!(out.ends_with(&(0..50).collect::<Vec<_>>()));
    });
}

#[test]
fn several_panics_are_all_reported() {
    within(LIMIT, || {
        let both = [Flag::default(), Flag::default()];
        let error = Pipeline::new(numbers(2))
            .parallel(|n| {
                both[n as usize].set();
                both[1 - n as usize].wait("the other token");
                quiet_panic("both");
            })
            .run_on(&pool(2), 2)
            .unwrap_err();
        let mut tokens: Vec<_> = error.panics().iter().map(|panic| panic.token()).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, [0, 1]);
    });
}

#[test]
fn drops_that_panic_are_contained() {
    within(LIMIT, || {
        let (told, drops) = (Panics::default(), Drops::default());
        let pool = told.pool(0);
        // In the last stage's output: it is that stage's panic.
        let error = Pipeline::new(numbers(3))
            .serial(|_| drops.bomb("output"))
            .run_on(&pool, 2)
            .unwrap_err();
        assert_eq!(
            (error.panics()[0].stage(), error.panics()[0].token()),
            (1, 0)
        );
        // In values that are deferred or in flight when another token panics.
        let mut next = 0;
        let error = Pipeline::new(|flow| {
            next += 1;
            if next == 1 {
                flow.defer(100);
            }
            Some(drops.bomb("left over"))
        })
        .serial(|mut bomb| -> () {
            bomb.bomb = None;
            quiet_panic("stage")
        })
        .run_on(&pool, 1)
        .unwrap_err();
        assert_eq!(error.dropped(), 2);
        assert_eq!(told.take(), ["left over"]);
    });
}

#[test]
fn a_cancelled_run_drops_the_tokens_in_flight() {
    within(LIMIT, || {
        for workers in WORKERS {
            let (drops, made) = (Drops::default(), AtomicUsize::new(0));
            let source = Pipeline::new(|_| {
                made.fetch_add(1, Ordering::SeqCst);
                Some(drops.value())
            });
            let token = CancelToken::new();
            let mut count = 0;
            let mut endless = source.parallel(|value| value).serial(|_| {
                count += 1;
                if count == 100 {
                    token.cancel();
                }
            });
            let options = RunOptions::new().on(&pool(workers)).cancel(&token);
            let error = endless.run_with(4, &options).unwrap_err();
            assert!(error.is_cancelled() && error.finished() >= 100, "{error}");
            drop(endless);
            assert_eq!(drops.seen(), made.load(Ordering::SeqCst));
            assert_eq!(error.finished() + error.dropped(), drops.seen() as u64);
        }
    });
}

#[test]
fn a_cancel_from_another_thread_ends_an_endless_run() {
    within(LIMIT, || {
        let pool = pool(2);
        let begun = Flag::default();
        let mut endless = Pipeline::new(|flow| {
            if flow.token() == 10 {
                begun.set();
            }
            Some(())
        });
        let token = CancelToken::new();
        let options = RunOptions::new().on(&pool).cancel(&token);
        thread::scope(|s| {
            s.spawn(|| {
                begun.wait("the tenth token");
                token.cancel();
            });
            assert!(endless.run_with(4, &options).unwrap_err().is_cancelled());
        });
        // It stops the runs that have the token, and no others.
        let mut pipeline = Pipeline::new(numbers(10));
        let error = pipeline.run_with(1, &options).unwrap_err();
        assert_eq!((error.is_cancelled(), error.finished()), (true, 0));
        assert_eq!(pipeline.run_on(&pool, 1).unwrap().tokens(), 10);
    });
}

#[test]
fn a_cancel_after_everything_is_done_cancels_nothing() {
    let (token, pool) = (CancelToken::new(), pool(1));
    let options = RunOptions::new().on(&pool).cancel(&token);
    let mut calls = 0;
    let mut last = Pipeline::new(|_| {
        calls += 1;
        if calls == 4 {
            token.cancel();
        }
        (calls < 4).then_some(calls)
    });
    assert_eq!(last.run_with(2, &options).unwrap().tokens(), 3);
    let again = RunOptions::new().on(&pool).times(3);
    let mut pipeline = Pipeline::new(numbers(10));
    assert_eq!(pipeline.run_with(1, &again).unwrap().tokens(), 30);
}

#[test]
fn the_number_of_lines_is_checked() {
    let mut pipeline = Pipeline::new(numbers(3));
    let error = pipeline.run_on(&pool(0), 0).unwrap_err();
    assert!(error.to_string().contains("at least one"), "{error}");
    let error = pipeline.run_on(&pool(0), usize::MAX).unwrap_err();
    assert!(error.to_string().contains("fewer"), "{error}");
    assert_eq!(pipeline.run_on(&pool(0), 1).unwrap().tokens(), 3);
}
