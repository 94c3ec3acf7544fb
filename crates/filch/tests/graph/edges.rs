//! Plans do not depend on the order in which edges of different tasks are added.

use crate::graphs::pools;
use filch::{Graph, Plan};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const TASKS: usize = 24;

/// Returns a plan with these edges, whose tasks note when they have run.
fn plan<'env>(
    edges: &[(usize, usize)],
    time: &'env AtomicUsize,
    ran: &'env [AtomicUsize],
) -> Plan<'env> {
    let graph = Graph::new();
    let tasks: Vec<_> = ran
        .iter()
        .map(|ran| graph.task("", || ran.store(time.fetch_add(1, SeqCst), SeqCst)))
        .collect();
    for &(from, to) in edges {
        tasks[from].precede(tasks[to]);
    }
    drop(tasks);
    graph.plan().unwrap()
}

fn edges() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let edge = (0..TASKS, 0..TASKS).prop_filter("no cycle", |(from, to)| from < to);
    prop::collection::vec(edge, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    /// Edges that are grouped by where they begin are not sorted; others are.
    #[test]
    fn grouped_edges_and_others_make_the_same_plan(edges in edges()) {
        let mut grouped = edges.clone();
        grouped.sort_by_key(|(from, _)| *from);
        // Of one task, the order of the successors stays.
        let mut reversed = grouped.clone();
        reversed.sort_by_key(|(from, _)| TASKS - from);
        let pools = pools();
        for added in [&edges, &grouped, &reversed] {
            let (time, ran) = (AtomicUsize::new(1), [const { AtomicUsize::new(0) }; TASKS]);
            let mut plan = plan(added, &time, &ran);
            prop_assert_eq!(&plan.describe().edges, &grouped);
            for pool in &pools {
                plan.run_on(pool).unwrap();
                let when = |task: usize| ran[task].load(SeqCst);
                prop_assert!(edges.iter().all(|&(from, to)| when(from) < when(to)));
            }
            drop(plan);
            prop_assert_eq!(time.load(SeqCst), 1 + pools.len() * TASKS);
        }
    }
}

#[test]
fn a_task_may_precede_one_that_was_added_before() {
    let order = std::sync::Mutex::new(Vec::new());
    let graph = Graph::new();
    let tasks: Vec<_> = (0..5)
        .map(|number| {
            graph.task("", {
                let order = &order;
                move || order.lock().unwrap().push(number)
            })
        })
        .collect();
    // Grouped by where they begin, but against the order of the tasks.
    tasks[1].precede(tasks[0]);
    tasks[3].precede([tasks[1], tasks[2]]);
    tasks[4].precede(tasks[3]);
    drop(tasks);
    graph
        .plan()
        .unwrap()
        .run_on(&crate::support::pool(0))
        .unwrap();
    let order = order.into_inner().unwrap();
    let at = |task| order.iter().position(|ran| *ran == task);
    assert_eq!(order.len(), 5);
    assert!(at(4) < at(3) && at(3) < at(1) && at(1) < at(0) && at(3) < at(2));
}
