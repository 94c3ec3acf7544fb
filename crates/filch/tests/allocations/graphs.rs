//! Allocations of graphs inside tasks and of dependent tasks, counted.

use super::{counting::allocations, support::in_a_child};
use filch::{Graph, Pool, Semaphore, graph::Subflow};
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// How many allocations a whole run may make.
const FEW: usize = 8;

/// Calls `f` until all caches are filled, and returns the smallest number of allocations.
fn steady(mut f: impl FnMut()) -> usize {
    let count = |_| {
        let before = allocations();
        f();
        allocations() - before
    };
    (0..4).map(count).min().unwrap()
}

fn fibonacci<'env>(flow: &Subflow<'env>, n: u32, calls: &'env AtomicUsize) {
    calls.fetch_add(1, Relaxed);
    if n >= 2 {
        flow.subflow("", move |flow| fibonacci(flow, n - 1, calls));
        flow.subflow("", move |flow| fibonacci(flow, n - 2, calls));
    }
}

fn diamond<'env>(flow: &Subflow<'env>, tasks: &'env AtomicUsize) {
    let [a, b, c, d] = [(); 4].map(|()| flow.task("", || _ = tasks.fetch_add(1, Relaxed)));
    a.precede([b, c]);
    d.succeed([b, c]);
}

#[test]
fn in_the_steady_state_an_inner_graph_allocates_nothing() {
    in_a_child(
        "graphs::in_the_steady_state_an_inner_graph_allocates_nothing",
        measure,
    );
}

/// On a pool without threads the order is the same in each run.
fn measure() {
    let pool = Pool::builder().workers(0).build().unwrap();
    let count = AtomicUsize::new(0);

    let graph = Graph::new();
    graph.subflow("", |flow| fibonacci(flow, 12, &count));
    let mut plan = graph.plan().unwrap();
    let allocations = steady(|| _ = plan.run_on(&pool).unwrap());
    assert_eq!(count.swap(0, Relaxed), 4 * 465);
    assert!(allocations <= FEW, "{allocations} for 465 nested subflows");

    let graph = Graph::new();
    for _ in 0..100 {
        graph.subflow("", |flow| diamond(flow, &count));
    }
    let mut plan = graph.plan().unwrap();
    let allocations = steady(|| _ = plan.run_on(&pool).unwrap());
    assert_eq!(count.swap(0, Relaxed), 4 * 400);
    assert!(
        allocations <= FEW,
        "{allocations} for 100 subflows with edges"
    );

    let graph = Graph::new();
    for _ in 0..100 {
        let inside = Graph::new();
        inside.task("", || _ = count.fetch_add(1, Relaxed));
        graph.module("", inside.plan().unwrap());
    }
    let mut plan = graph.plan().unwrap();
    let allocations = steady(|| _ = plan.run_on(&pool).unwrap());
    assert_eq!(count.swap(0, Relaxed), 4 * 100);
    assert!(allocations <= FEW, "{allocations} for 100 modules");

    // The first task holds the units until the last source has run, so all others wait for them.
    let (one, two) = (Semaphore::new(1), Semaphore::new(1));
    for several in [false, true] {
        let held = Mutex::new(None);
        let graph = Graph::new();
        graph.task("", || {
            *held.lock().unwrap() = Some(one.try_acquire().unwrap());
        });
        for _ in 0..100 {
            let task = graph.task("", || _ = count.fetch_add(1, Relaxed));
            task.acquire([&one].into_iter().chain(several.then_some(&two)));
        }
        graph.task("", || drop(held.lock().unwrap().take()));
        let mut plan = graph.plan().unwrap();
        let allocations = steady(|| _ = plan.run_on(&pool).unwrap());
        assert_eq!(count.swap(0, Relaxed), 4 * 100);
        assert!(
            allocations <= 2 * FEW,
            "{allocations} for 100 tasks that wait for a semaphore; several: {several}"
        );
    }

    let allocations = steady(|| {
        let mut last = [pool.submit(|| ()), pool.submit(|| ())];
        for _ in 0..100 {
            let next = pool.submit_after((&last[0], &last[1]), || ());
            last.rotate_left(1);
            last[1] = next;
        }
        pool.run_until_stalled();
        for task in last {
            task.join().unwrap();
        }
    });
    assert!(allocations <= FEW, "{allocations} for 100 dependent tasks");
}
