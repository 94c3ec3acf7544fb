//! One semaphore for tasks of graphs, threads and futures at the same time.

use super::{Out, Polled, queued};
use crate::support::{LIMIT, block_on, until, within};
use filch::{
    CancelToken, Graph, Pool, Rng, Semaphore,
    graph::{RunHandle, RunOptions},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Launches a run of one task that needs `n` units.
fn launch(
    pool: &Pool,
    semaphore: &Semaphore,
    n: u64,
    task: impl FnMut() + Send + 'static,
) -> RunHandle {
    let graph = Graph::new();
    graph.task("waits", task).acquire_all([(semaphore, n)]);
    pool.launch(graph.plan().unwrap())
}

#[test]
fn tasks_of_graphs_threads_and_futures_are_served_in_order() {
    within(LIMIT, || {
        const ROUNDS: usize = 4;
        let pool = Pool::builder().workers(1).build().unwrap();
        let semaphore = Semaphore::new(2);
        let (order, out) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Out::new(2)));
        // Each needs both units, so they run one after the other.
        let pass = |number: usize| {
            let (order, out) = (order.clone(), out.clone());
            move || out.hold(2, || order.lock().unwrap().push(number))
        };
        let held = semaphore.acquire_many(2).unwrap();
        let (mut runs, mut futures) = (Vec::new(), Vec::new());
        thread::scope(|s| {
            for number in (0..3 * ROUNDS).step_by(3) {
                runs.push(launch(&pool, &semaphore, 2, pass(number)));
                queued(&semaphore, number + 1);
                let (permit, pass_thread) = (|| semaphore.acquire_many(2), pass(number + 1));
                s.spawn(move || {
                    let _permit = permit().unwrap();
                    pass_thread();
                });
                queued(&semaphore, number + 2);
                let (request, pass_future) = (semaphore.clone(), pass(number + 2));
                futures.push(pool.spawn_future(async move {
                    let _permit = request.acquire_many_async(2).await.unwrap();
                    pass_future();
                }));
                queued(&semaphore, number + 3);
            }
            // The only worker is free.
            assert_eq!(pool.submit(|| 7).join().unwrap(), 7);
            assert!(semaphore.try_acquire().is_err());
            drop(held);
            for run in runs {
                run.join().unwrap();
            }
            for future in futures {
                block_on(future).unwrap();
            }
        });
        assert_eq!(*order.lock().unwrap(), (0..3 * ROUNDS).collect::<Vec<_>>());
        assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
    });
}

#[test]
fn never_more_units_than_there_are() {
    within(LIMIT, || {
        const TASKS: usize = if cfg!(debug_assertions) { 200 } else { 2_000 };
        let pool = Pool::builder().workers(2).build().unwrap();
        let all = [3, 2].map(Semaphore::new);
        let out = [3, 2].map(|most| Arc::new(Out::new(most)));
        let passed = Arc::new(AtomicUsize::new(0));
        let pass = |[n, m]: [u64; 2]| {
            let ([first, second], passed) = (out.clone(), passed.clone());
            move || {
                first.hold(n, || second.hold(m, thread::yield_now));
                passed.fetch_add(1, Ordering::SeqCst);
            }
        };
        let units = |rng: &mut Rng| match rng.below(3) {
            0 => [rng.below(3) as u64 + 1, 0],
            1 => [0, rng.below(2) as u64 + 1],
            _ => [rng.below(3) as u64 + 1, rng.below(2) as u64 + 1],
        };
        let [a, b] = &all;
        let mut rng = Rng::new(1);
        let graph = Graph::new();
        for _ in 0..TASKS {
            let [n, m] = units(&mut rng);
            let task = graph.task("", pass([n, m]));
            task.acquire_all([(b, m), (a, n)]);
        }
        let run = pool.launch(graph.plan().unwrap());
        let futures: Vec<_> = (0..TASKS)
            .map(|_| {
                let [n, m] = units(&mut rng);
                let request = Semaphore::acquire_all_async([(a, n), (b, m)]).into_owned();
                let pass = pass([n, m]);
                pool.spawn_future(async move {
                    let _permits = request.await.unwrap();
                    pass();
                })
            })
            .collect();
        thread::scope(|s| {
            for seed in 2..4 {
                let (pass, units) = (&pass, &units);
                s.spawn(move || {
                    let mut rng = Rng::new(seed);
                    for _ in 0..TASKS {
                        let [n, m] = units(&mut rng);
                        let _permits = Semaphore::acquire_all([(a, n), (b, m)]).unwrap();
                        pass([n, m])();
                    }
                });
            }
        });
        run.join().unwrap();
        for future in futures {
            block_on(future).unwrap();
        }
        assert_eq!(passed.load(Ordering::SeqCst), 4 * TASKS);
        assert_eq!(all.each_ref().map(Semaphore::available), [3, 2]);
        assert_eq!(all.each_ref().map(Semaphore::waiting), [0, 0]);
    });
}

#[test]
fn a_cancelled_run_leaves_the_queue() {
    within(LIMIT, || {
        let pool = Pool::builder().workers(1).build().unwrap();
        let semaphore = Semaphore::new(2);
        let held = semaphore.acquire().unwrap();
        let cancel = CancelToken::new();
        let graph = Graph::new();
        graph.task("head", || ()).acquire_all([(&semaphore, 2)]);
        let run = pool.launch_with(graph.plan().unwrap(), &RunOptions::new().cancel(&cancel));
        queued(&semaphore, 1);
        let mut behind = Polled::waiting(semaphore.acquire_async());
        cancel.cancel();
        assert!(run.join().unwrap_err().is_cancelled());
        assert_eq!(behind.wakes.calls(), 1);
        assert!(behind.poll().unwrap().is_ok());
        drop(held);
        assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
    });
}

#[test]
fn a_run_that_is_refused_units_fails() {
    within(LIMIT, || {
        let pool = Pool::builder().workers(1).build().unwrap();
        let semaphore = Semaphore::new(2);
        let mut held = semaphore.acquire_many(2).unwrap();
        // Refused while it waits.
        let run = launch(&pool, &semaphore, 2, || panic!("it must not run"));
        queued(&semaphore, 1);
        held.split(1).unwrap().forget();
        let error = run.join().unwrap_err();
        assert!(!error.is_cancelled() && error.panics().is_empty());
        let text = error.to_string();
        assert!(text.contains("waits cannot run: 2 units"), "{text}");
        let run = launch(&pool, &semaphore, 1, || panic!("it must not run"));
        queued(&semaphore, 1);
        semaphore.close();
        let text = run.join().unwrap_err().to_string();
        assert!(text.contains("the semaphore is closed"), "{text}");
        // Refused at once.
        let run = launch(&pool, &semaphore, 1, || panic!("it must not run"));
        let text = run.join().unwrap_err().to_string();
        assert!(text.contains("the semaphore is closed"), "{text}");
        drop(held);
        until("all are back", || semaphore.available() == 1);
    });
}
