//! A clock that moves by itself, wherever a pool without threads has nothing to do.

use crate::support::{LIMIT, pool, within};
use filch::{
    Pool, block_on,
    time::{self, Clock, MissedTicks, PausedClock},
};
use std::{
    future::pending,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Waker},
    time::{Duration, Instant},
};

const HOUR: Duration = Duration::from_secs(3600);

fn virtual_pool() -> (Pool, PausedClock) {
    let clock = PausedClock::auto();
    let pool = Pool::builder().workers(0).clock(&clock).build().unwrap();
    (pool, clock)
}

#[test]
fn in_an_isolated_wait() {
    within(LIMIT, || {
        let (pool, clock) = virtual_pool();
        pool.block_on(async {
            // What was queued before may not run in there, and delays no other task.
            let before = filch::submit(|| 1);
            filch::isolate(|| block_on(time::sleep(HOUR)));
            assert_eq!(clock.elapsed(), HOUR);
            assert!(!before.is_finished());
            let inside = filch::isolate(|| {
                let sleeps = filch::spawn_future(async {
                    time::sleep(HOUR).await;
                    7
                });
                sleeps.join().unwrap()
            });
            assert_eq!((inside, clock.elapsed()), (7, 2 * HOUR));
            assert_eq!(before.await.unwrap(), 1);
        });
    });
}

#[test]
fn in_a_task_of_a_pool_that_is_stepped() {
    within(LIMIT, || {
        let (pool, clock) = virtual_pool();
        let blocks = pool.submit(|| block_on(time::sleep(HOUR)));
        assert!(pool.tick());
        assert!(blocks.is_finished());
        assert_eq!(clock.elapsed(), HOUR);
        // And where the task waits for others that sleep, alone or not.
        let waits = pool.submit(|| {
            let sleep = || filch::spawn_future(time::sleep(HOUR));
            sleep().join().unwrap();
            filch::isolate(|| sleep().join().unwrap());
        });
        pool.run_until_stalled();
        assert!(waits.is_finished());
    });
}

#[test]
fn in_steps() {
    within(LIMIT, || {
        let (pool, clock) = virtual_pool();
        let spawn = |hours: u32| {
            pool.spawn_future(async move {
                for _ in 0..hours {
                    time::sleep(HOUR).await;
                }
                Clock::current().now()
            })
        };
        let (day, half) = (spawn(24), spawn(12));
        let start = clock.now();
        pool.run_until_stalled();
        assert!(day.is_finished() && half.is_finished());
        assert_eq!(half.join().unwrap() - start, 12 * HOUR);
        assert_eq!(day.join().unwrap() - start, 24 * HOUR);
        // Step by step, while a thread outside waits for the clock.
        let mut outside = pin!(clock.sleep(HOUR / 2));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(outside.as_mut().poll(&mut cx).is_pending());
        let one = spawn(1);
        let mut steps = 0;
        while pool.tick() {
            steps += 1;
        }
        assert_eq!((steps, one.is_finished()), (2, true));
        assert!(outside.as_mut().poll(&mut cx).is_ready());
        assert_eq!(clock.pending(), 0);
    });
}

#[test]
fn on_a_thread_that_is_in_several_pools() {
    within(LIMIT, || {
        let (pool, clock) = virtual_pool();
        let other = crate::support::pool(1);
        let sleeps = pool.spawn_future(async {
            time::sleep(HOUR).await;
            3
        });
        let three = pool.install(|| other.install(|| block_on(sleeps).unwrap()));
        assert_eq!((three, clock.elapsed()), (3, HOUR));
        other.install(|| pool.install(|| block_on(time::sleep(HOUR))));
        assert_eq!(clock.elapsed(), 2 * HOUR);
    });
}

#[test]
fn one_block_on_in_the_other() {
    within(LIMIT, || {
        let (pool, clock) = virtual_pool();
        let nested = pool.submit(|| {
            block_on(async {
                time::sleep(HOUR).await;
                block_on(async {
                    time::sleep(HOUR).await;
                    let inner = filch::spawn_future(async { block_on(time::sleep(HOUR)) });
                    block_on(inner).unwrap();
                    "inside"
                })
            })
        });
        assert_eq!(nested.join().unwrap(), "inside");
        assert_eq!(clock.elapsed(), 3 * HOUR);
    });
}

#[test]
fn no_isolated_step_moves_it() {
    within(LIMIT, || {
        let (pool, clock) = virtual_pool();
        let waits = pool.spawn_future(clock.sleep(HOUR));
        pool.install(|| {
            filch::isolate(|| {
                assert!(!pool.tick());
                assert_eq!(pool.run_until_stalled(), 0);
            });
        });
        assert_eq!(clock.elapsed(), Duration::ZERO);
        waits.join().unwrap();
        assert_eq!(clock.elapsed(), HOUR);
        // Nor does a pool with threads, whose workers may be about to do something.
        let threads = Pool::builder().workers(1).clock(&clock).build().unwrap();
        let waits = threads.spawn_future(clock.sleep(HOUR));
        crate::support::until("it waits", || clock.pending() == 1);
        assert_eq!(threads.run_until_stalled(), 0);
        assert_eq!(clock.elapsed(), HOUR);
        pool.run_until_stalled(); // but this one has nothing to do
        waits.join().unwrap();
        assert_eq!(clock.elapsed(), 2 * HOUR);
    });
}

#[test]
fn odd_times() {
    within(LIMIT, || {
        let (pool, clock) = virtual_pool();
        pool.block_on(async {
            // No time at all: what is ready is in time, and what is not is late without a wait.
            let zero = Duration::ZERO;
            assert_eq!(time::timeout(zero, async { 1 }).await, Ok(1));
            assert!(time::timeout(zero, pending::<()>()).await.is_err());
            assert!(time::timeout(zero, time::sleep(zero)).await.is_ok());
            time::sleep(zero).await;
            time::sleep_until(clock.now() - Duration::from_millis(1)).await;
            assert_eq!(clock.elapsed(), zero);
            // As long as there is.
            let never = time::timeout(Duration::MAX, time::sleep(HOUR));
            assert!(never.await.is_ok());
            // Dropped in the middle it leaves nothing, and no thread is woken for it.
            let late = time::timeout(HOUR, time::sleep(100 * HOUR));
            assert!(late.await.is_err());
            assert_eq!((clock.elapsed(), clock.pending()), (2 * HOUR, 0));
        });
        let ticks = AtomicUsize::new(0);
        pool.block_on(async {
            let start = clock.now();
            let mut interval = time::interval(HOUR).missed_ticks(MissedTicks::Skip);
            interval.tick().await;
            time::sleep(HOUR * 7 / 2).await; // three ticks are missed
            assert_eq!(interval.tick().await, start + HOUR);
            assert_eq!(interval.tick().await, start + 4 * HOUR);
            ticks.fetch_add(1, SeqCst);
        });
        assert_eq!((ticks.into_inner(), clock.pending()), (1, 0));
    });
}

#[test]
fn without_a_pool() {
    within(LIMIT, || {
        let start = Instant::now();
        let made = time::sleep(Duration::from_millis(2)); // by the real clock
        assert!(!Clock::current().is_paused());
        block_on(made);
        assert!(start.elapsed() >= Duration::from_millis(2));
        // Made outside, it stays with its clock inside.
        let (pool, clock) = virtual_pool();
        let real = time::sleep(Duration::from_millis(2));
        pool.block_on(real);
        assert_eq!(clock.elapsed(), Duration::ZERO);
        drop(self::pool(1));
    });
}

/// A worker that has given up its search is woken by the clock that it moves.
#[test]
fn workers_that_sleep_at_once_move_the_clock() {
    within(LIMIT, || {
        let clock = PausedClock::auto();
        let pool = Pool::builder()
            .workers(0)
            .spin_rounds(0)
            .clock(&clock)
            .build()
            .unwrap();
        for hours in 1..20 {
            pool.block_on(async {
                let naps = (1..4).map(|n| {
                    filch::spawn_future(async move {
                        time::sleep(n * HOUR).await;
                        time::sleep(hours * HOUR).await;
                    })
                });
                for nap in naps.collect::<Vec<_>>() {
                    nap.await.unwrap();
                }
            });
        }
    });
}
