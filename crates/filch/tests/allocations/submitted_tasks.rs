//! Allocations of submitted tasks, counted: none in the steady state.

use super::{counting::allocations, support::in_a_child};
use filch::{Pool, Priority, TaskHandle};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
    mpsc,
};

/// Tasks that are counted.
const TASKS: usize = 20_000;
/// Tasks that are there at the same time.
const BURST: usize = 500;
/// What may be left: queues that grow once more, because tasks met in them that had not met before.
const FEW: usize = 20;

/// Calls `f` some times, until all caches are filled, and then counts.
#[track_caller]
fn steady(what: &str, mut f: impl FnMut()) {
    let mut counts = Vec::with_capacity(8);
    for _ in 0..8 {
        let before = allocations();
        f();
        counts.push(allocations() - before);
        if *counts.last().unwrap() == 0 {
            return;
        }
    }
    // Which threads meet where is chance, so the last rounds may each have met a queue of a new
    // length.
    assert!(
        counts.iter().min().unwrap() <= &FEW,
        "{what}: {counts:?} allocations for {TASKS} tasks each"
    );
}

fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let a = filch::submit(move || fibonacci(n - 1));
    let b = filch::submit(move || fibonacci(n - 2));
    a.join().unwrap() + b.join().unwrap()
}

#[test]
fn in_the_steady_state_a_task_allocates_nothing() {
    in_a_child(
        "submitted_tasks::in_the_steady_state_a_task_allocates_nothing",
        measure,
    );
}

fn measure() {
    let small = [1_u64; 6]; // a closure of six words
    for workers in [0, 1, 2] {
        let pool = Pool::builder().workers(workers).build().unwrap();
        steady("one by one", || {
            for n in 0..TASKS as u64 {
                let task = pool.submit(move || n + small[0]);
                assert_eq!(task.join().unwrap(), n + 1);
            }
        });
        let mut handles: Vec<TaskHandle<[u64; 4]>> = Vec::with_capacity(BURST);
        steady("in bursts", || {
            for _ in 0..TASKS / BURST {
                handles.extend((0..BURST).map(|_| pool.submit(move || [small[1]; 4])));
                handles.drain(..).for_each(|task| {
                    task.join().unwrap();
                });
            }
        });
        steady("of all priorities", || {
            for n in 0..TASKS {
                let task = pool.task(move || n).priority(Priority::ALL[n % 4]);
                assert_eq!(task.submit().unwrap().join().unwrap(), n);
            }
        });
        // A joined or cancelled task leaves its ticket in the queue while all workers are busy.
        let (go, wait) = mpsc::channel::<()>();
        let (wait, jammed) = (Arc::new(Mutex::new(wait)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..workers {
            let (wait, jammed) = (wait.clone(), jammed.clone());
            pool.spawn(move || {
                jammed.fetch_add(1, Relaxed);
                assert!(wait.lock().unwrap().recv().is_err());
            });
        }
        while jammed.load(Relaxed) < workers {
            std::thread::yield_now();
        }
        steady("joined and cancelled behind a jam", || {
            for n in 0..TASKS {
                let task = pool.task(move || n).priority(Priority::ALL[n / 2 % 4]);
                let task = task.submit().unwrap();
                match n % 2 {
                    0 => assert_eq!(task.join().unwrap(), n),
                    _ => assert!(task.cancel()),
                }
            }
        });
        drop(go);
        steady("from inside", || {
            assert_eq!(pool.submit(|| fibonacci(18)).join().unwrap(), 2584);
        });
    }
}
