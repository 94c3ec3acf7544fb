//! What a rehearsal promises.

use crate::support::{Flag, pool, quiet_panic};
use filch::{
    CancelToken, Pool, Semaphore,
    rehearse::{self, Rehearsal, Rehearsed},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// A program with some of everything. Returns the order in which its parts ran.
fn program(pool: &Pool) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = {
        let order = order.clone();
        move |what| order.lock().unwrap().push(what)
    };
    let spawned = note.clone();
    pool.spawn(move || spawned(0));
    let tasks: Vec<_> = (1..5)
        .map(|n| {
            let note = note.clone();
            pool.submit(move || {
                rehearse::point();
                note(n);
                n
            })
        })
        .collect();
    pool.scope(|scope| {
        for n in 10..14 {
            let note = note.clone();
            scope.spawn(move |_| {
                filch::join(|| note(n), || note(n + 10));
            });
        }
    });
    let (shared, outside) = (pool.clone(), note.clone());
    let other = rehearse::spawn_outside(move || {
        shared.install(|| outside(30));
        shared.join(|| outside(31), || outside(32));
    });
    let sum: usize = tasks.into_iter().map(|task| task.join().unwrap()).sum();
    note(100 + sum);
    other.join();
    std::mem::take(&mut order.lock().unwrap())
}

fn rehearse(workers: usize, seed: u64) -> Rehearsed<Vec<usize>> {
    let rehearsed = Rehearsal::new(workers, seed).try_run(program);
    rehearsed.unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn the_same_seed_takes_the_same_way() {
    for workers in 0..4 {
        for seed in 0..40 {
            let (first, second) = (rehearse(workers, seed), rehearse(workers, seed));
            assert_eq!(first, second, "{workers} workers, seed {seed}");
        }
    }
}

#[test]
fn other_seeds_take_other_ways() {
    for workers in 1..4 {
        let mut orders: Vec<_> = (0..40).map(|seed| rehearse(workers, seed).value).collect();
        for order in &orders {
            // The spawned one has no handle.
            assert!(order.len() >= 16 && order.contains(&110), "{order:?}");
        }
        orders.sort();
        orders.dedup();
        assert!(orders.len() > 20, "{workers} workers: {}", orders.len());
    }
}

#[test]
fn a_deadlock_is_reported_with_the_seed() {
    let failure = Rehearsal::new(2, 11).try_run(|pool| {
        let token = CancelToken::new();
        pool.submit(move || token.wait()).join().unwrap();
    });
    let failure = failure.unwrap_err();
    assert!(failure.is_deadlock(), "{failure}");
    let text = failure.to_string();
    assert!(text.contains("2 workers and seed 11"), "{text}");
    assert!(text.contains("waits for something"), "{text}");
    assert_eq!((failure.workers(), failure.seed()), (2, 11));
}

#[test]
fn a_program_that_goes_on_and_on_is_reported() {
    let rehearsal = Rehearsal::new(1, 3).max_points(10_000);
    let failure = rehearsal.try_run(|_| {
        loop {
            rehearse::point();
        }
    });
    assert!(failure.unwrap_err().is_livelock());
}

#[test]
fn a_panic_is_reported() {
    let failure = Rehearsal::new(2, 4).try_run(|pool| pool.join(|| quiet_panic("no"), || ()));
    let failure = failure.unwrap_err();
    assert!(failure.is_panic(), "{failure}");
    assert!(failure.to_string().contains("no"), "{failure}");
}

#[test]
#[should_panic(expected = "seed 4")]
fn a_run_panics_with_the_seed() {
    Rehearsal::new(1, 4).run(|_| quiet_panic("no"));
}

#[test]
fn threads_from_outside_wait_for_workers_and_for_each_other() {
    for seed in 0..100 {
        Rehearsal::new(2, seed).run(|pool| {
            let semaphore = Semaphore::new(1);
            let token = CancelToken::new();
            let inside = Arc::new(AtomicUsize::new(0));
            let others: Vec<_> = (0..3)
                .map(|_| {
                    let (pool, semaphore) = (pool.clone(), semaphore.clone());
                    let (token, inside) = (token.clone(), inside.clone());
                    rehearse::spawn_outside(move || {
                        token.wait();
                        let permit = semaphore.acquire().unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        let one = pool.submit(|| 1).join().unwrap();
                        rehearse::point();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                        one
                    })
                })
                .collect();
            pool.spawn(move || _ = token.cancel());
            assert_eq!(others.into_iter().map(|other| other.join()).sum::<i32>(), 3);
            assert_eq!(pool.broadcast(|worker| worker), [0, 1]);
        });
    }
}

#[test]
fn the_pool_is_drained_at_the_end() {
    for seed in 0..50 {
        for workers in [0, 1, 3] {
            let ran = Arc::new(AtomicUsize::new(0));
            let count = ran.clone();
            Rehearsal::new(workers, seed).run(move |pool| {
                for _ in 0..10 {
                    let count = count.clone();
                    pool.spawn(move || {
                        count.fetch_add(1, Ordering::SeqCst);
                        filch::spawn(move || _ = count.fetch_add(1, Ordering::SeqCst));
                    });
                }
            });
            assert_eq!(ran.load(Ordering::SeqCst), 20);
        }
    }
}

#[test]
fn a_late_task_is_seen_by_other_threads() {
    // A task that is stopped at its point while all other threads continue, in some order.
    let overtaken = (0..100).any(|seed| {
        Rehearsal::new(2, seed).run(|pool| {
            let done = Flag::default();
            let other = done.clone();
            let first = pool.submit(move || {
                rehearse::point();
                other.is_set()
            });
            let second = pool.submit(move || done.set());
            second.join().unwrap();
            first.join().unwrap()
        })
    });
    assert!(overtaken);
}

#[test]
fn points_are_nothing_elsewhere() {
    rehearse::point();
    let pool = pool(2);
    assert_eq!(
        pool.join(
            || {
                rehearse::point();
                1
            },
            || 2
        ),
        (1, 2)
    );
}

#[test]
fn threads_that_are_not_directed_are_reported() {
    let stray = |f: fn()| {
        let failure = Rehearsal::new(1, 1).try_run(move |_| f()).unwrap_err();
        failure.to_string()
    };
    let join = || assert_eq!(filch::join(|| 1, || 2), (1, 2));
    assert!(stray(join).contains("outside 0 uses the global pool"));
    // The global pool has threads now, and they are still not directed.
    join();
    assert!(stray(join).contains("outside 0 uses the global pool"));
    let build = || drop(pool(1));
    assert!(stray(build).contains("outside 0 uses threads that it has started"));
    let alone = || drop(pool(0));
    assert!(Rehearsal::new(1, 1).try_run(move |_| alone()).is_ok());
}
