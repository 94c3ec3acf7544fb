//! The budget of a poll: what never has to wait lets others run, and sees its timeout.

use crate::support::{Flag, LIMIT, pool, within};
use filch::{
    CancelToken, Graph, Pool, Semaphore,
    future::{LocalSet, consume_budget, cooperative, poll_cooperative, spawn_local, yield_now},
    time::{self, PausedClock, timeout},
};
use std::{
    future::{Future, pending, poll_fn, ready},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

type Endless = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A limit that passes without a wait for anything.
const SHORT: Duration = Duration::from_millis(1);

/// Futures that never end, each with a leaf future that is ready whenever it is polled.
fn endless(pool: &Pool) -> Vec<(&'static str, Endless)> {
    let (pool, another) = (pool.clone(), pool.clone());
    let (semaphore, both) = (Semaphore::new(1), [Semaphore::new(1), Semaphore::new(1)]);
    let token = CancelToken::new();
    token.cancel();
    vec![
        (
            "sleep",
            Box::pin(async {
                loop {
                    time::sleep(Duration::ZERO).await;
                }
            }),
        ),
        (
            "interval",
            Box::pin(async {
                let long_ago = Instant::now();
                let mut interval = time::interval_at(long_ago, Duration::from_nanos(1));
                loop {
                    interval.tick().await;
                }
            }),
        ),
        (
            "timeout",
            Box::pin(async {
                loop {
                    assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err());
                }
            }),
        ),
        (
            "semaphore",
            Box::pin(async move {
                loop {
                    drop(semaphore.acquire_async().await.unwrap());
                }
            }),
        ),
        (
            "semaphores",
            Box::pin(async move {
                let [a, b] = &both;
                loop {
                    drop(
                        Semaphore::acquire_all_async([(a, 1), (b, 1)])
                            .await
                            .unwrap(),
                    );
                }
            }),
        ),
        (
            "cancelled",
            Box::pin(async move {
                loop {
                    token.cancelled().await;
                }
            }),
        ),
        (
            "future",
            Box::pin(async move {
                loop {
                    let handle = pool.spawn_future(async {});
                    while !handle.is_finished() {
                        yield_now().await;
                    }
                    handle.await.unwrap();
                }
            }),
        ),
        (
            "task",
            Box::pin(async move {
                loop {
                    another.submit(|| ()).await.unwrap();
                }
            }),
        ),
        (
            "consume_budget",
            Box::pin(async {
                loop {
                    ready(()).await;
                    consume_budget().await;
                }
            }),
        ),
        (
            "cooperative",
            Box::pin(async {
                loop {
                    cooperative(ready(())).await;
                }
            }),
        ),
        (
            "poll_cooperative",
            Box::pin(async {
                loop {
                    poll_fn(|cx| poll_cooperative(cx, |_| Poll::Ready(()))).await;
                }
            }),
        ),
    ]
}

#[test]
fn a_timeout_ends_what_is_always_ready() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            for (name, future) in endless(&pool) {
                assert!(pool.block_on(timeout(SHORT, future)).is_err(), "{name}");
            }
            for (name, future) in endless(&pool) {
                let handle = pool.spawn_future(timeout(SHORT, future));
                assert!(handle.join().unwrap().is_err(), "{name}");
            }
        }
    });
}

#[test]
fn so_it_does_without_a_pool_in_a_local_set_and_in_a_graph() {
    within(LIMIT, || {
        let pool = pool(1);
        for (name, future) in endless(&pool) {
            assert!(filch::block_on(timeout(SHORT, future)).is_err(), "{name}");
        }
        let set = LocalSet::new();
        for (name, future) in endless(&pool) {
            assert!(set.block_on(timeout(SHORT, future)).is_err(), "{name}");
        }
        for (name, future) in endless(&pool) {
            let local = set.spawn_local(timeout(SHORT, future));
            assert!(set.block_on(local).unwrap().is_err(), "{name}");
        }
        let graph = Graph::new();
        for (name, future) in endless(&pool) {
            let mut future = Some(future);
            graph.future(name, move || {
                let limited = timeout(SHORT, future.take().expect("one run"));
                async move { assert!(limited.await.is_err()) }
            });
        }
        graph.plan().unwrap().run_on(&pool).unwrap();
    });
}

#[test]
fn what_is_always_ready_leaves_its_worker_to_others() {
    within(LIMIT, || {
        let pool = pool(1);
        for (name, future) in endless(&pool) {
            let seen = Flag::default();
            let busy = pool.spawn_future(future);
            let other = seen.clone();
            // Queued behind it, on the only worker.
            pool.spawn_future(async move { other.set() })
                .join()
                .unwrap();
            assert!(seen.is_set(), "{name}");
            busy.cancel();
            assert!(busy.join().unwrap_err().is_cancelled(), "{name}");
        }
        let set = LocalSet::new();
        set.block_on(async {
            for (name, future) in endless(&pool) {
                let busy = spawn_local(future);
                assert_eq!(spawn_local(async { 7 }).await.unwrap(), 7, "{name}");
                busy.cancel();
            }
        });
    });
}

#[test]
fn a_timeout_inside_of_another_is_seen_first() {
    within(LIMIT, || {
        let busy = async {
            loop {
                consume_budget().await;
            }
        };
        let inner = timeout(SHORT, busy);
        let outer = timeout(Duration::from_secs(3600), inner);
        let ended: Result<Result<(), _>, _> = filch::block_on(outer);
        assert!(ended.expect("not after an hour").is_err());
    });
}

/// Only polls by our executors have a budget: other code polls as often as it likes.
#[test]
fn without_an_executor_there_is_no_limit() {
    let clock = PausedClock::new();
    let mut cx = Context::from_waker(Waker::noop());
    let poll_often = |cx: &mut Context<'_>| {
        for _ in 0..10_000 {
            assert!(pin!(clock.sleep(Duration::ZERO)).poll(cx).is_ready());
        }
    };
    poll_often(&mut cx);
    filch::block_on(async { while timeout(Duration::ZERO, pending::<()>()).await.is_ok() {} });
    poll_often(&mut cx); // the budget of `block_on` ended with it
    pool(1).install(|| poll_often(&mut Context::from_waker(Waker::noop())));
}

/// A poll that is nested in another has a budget of its own, and leaves that of the other alone.
#[test]
fn nested_polls_have_budgets_of_their_own() {
    within(LIMIT, || {
        let pool = pool(1);
        let rounds = pool.spawn_future(async {
            let mut rounds = 0;
            let busy = poll_fn(|cx| {
                // More than one budget within one poll, without a limit to the nested one.
                for _ in 0..100 {
                    filch::block_on(async {
                        for _ in 0..100 {
                            consume_budget().await;
                        }
                    });
                }
                while poll_cooperative(cx, |_| Poll::Ready(())).is_ready() {
                    rounds += 1;
                }
                Poll::Ready(())
            });
            busy.await;
            rounds
        });
        assert_eq!(rounds.join().unwrap(), 128);
    });
}

#[test]
fn jobs_that_run_nested_in_a_poll_have_no_limit() {
    within(LIMIT, || {
        let pool = pool(1);
        let future = async {
            for _ in 0..127 {
                consume_budget().await;
            }
            // The last unit: from here on leaf futures of this poll are pending.
            consume_budget().await;
            let semaphore = Semaphore::new(1);
            filch::scope(|s| {
                s.spawn(|_| drop(crate::support::block_on(semaphore.acquire_async())));
            });
        };
        pool.spawn_future(future).join().unwrap();
    });
}
