//! What a review of the task graphs has found, each with the least graph that shows it.

mod support;

use filch::{
    Graph, Pool,
    graph::{Semaphore, SharedPlan, TemplateGraph},
};
use std::{
    future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    thread,
};
use support::{Drops, Flag, LIMIT, Told, pool, quiet_panic, until, within};

/// With none, one, two and four workers.
fn pools() -> [Pool; 4] {
    [pool(0), pool(1), pool(2), pool(4)]
}

mod runs {
    use super::*;

    #[test]
    fn a_task_that_was_not_released_waits_for_all_again() {
        for pool in pools() {
            let (chosen, both) = (AtomicUsize::new(9), AtomicUsize::new(0));
            let graph = Graph::new();
            let choose = graph.condition("choose", || chosen.load(Ordering::SeqCst));
            let (left, right) = (graph.task("left", || ()), graph.task("right", || ()));
            choose.precede(right);
            let join = graph.task("both", || {
                both.fetch_add(1, Ordering::SeqCst);
            });
            join.succeed([left, right]);
            let mut plan = graph.plan().unwrap();
            for _ in 0..3 {
                plan.run_on(&pool).unwrap();
                assert_eq!(both.load(Ordering::SeqCst), 0, "right did not run");
            }
            chosen.store(0, Ordering::SeqCst);
            plan.run_on(&pool).unwrap();
            assert_eq!(both.load(Ordering::SeqCst), 1);
        }
    }

    #[test]
    fn nested_subflows_need_no_stack() {
        fn nest<'env>(sub: &Graph<'env>, depth: usize, leaves: &'env AtomicUsize) {
            if depth == 0 {
                sub.task("leaf", || {
                    leaves.fetch_add(1, Ordering::SeqCst);
                });
            } else {
                sub.subflow("nest", move |sub| nest(sub, depth - 1, leaves));
            }
        }
        within(LIMIT, || {
            for pool in [pool(0), pool(1), pool(2)] {
                let leaves = AtomicUsize::new(0);
                let graph = Graph::new();
                nest(&graph, 30_000, &leaves);
                assert_eq!(graph.plan().unwrap().run_on(&pool).unwrap().ran(), 30_001);
                assert_eq!(leaves.load(Ordering::SeqCst), 1);
            }
        });
    }
}
