//! A claimed task does not run twice at the same time.
#![expect(unsafe_code, reason = "a record that two threads of a model share")]

use super::TaskNode;
use crate::loom_tests::{Data, model};
use loom::thread;
use std::sync::Arc;

/// A record, shared as the production code shares it.
struct SharedNode(TaskNode);

// SAFETY: the models do not access the storage of the closure.
unsafe impl Sync for SharedNode {}

/// Two workers want to run a task at the same time: each runs it while the other does not, or not
/// at all.
fn claims() {
    let (node, data) = (
        Arc::new(SharedNode(TaskNode::empty(1))),
        Arc::new(Data::default()),
    );
    let run = |SharedNode(node): &SharedNode, data: &Data| {
        if node.claim() {
            data.add(1);
            node.unclaim();
        }
    };
    let other = {
        let (node, data) = (node.clone(), data.clone());
        thread::spawn(move || run(&node, &data))
    };
    run(&node, &data);
    other.join().unwrap();
    assert!((1..=2).contains(&data.get()));
}

/// Two workers schedule a task and run it if they may: what one run did is visible to the next one.
fn schedules() {
    let (node, data) = (
        Arc::new(SharedNode(TaskNode::empty(1))),
        Arc::new(Data::default()),
    );
    let run = |SharedNode(node): &SharedNode, data: &Data| {
        if node.schedule() {
            assert!(
                node.claim(),
                "only the thread that has scheduled it runs it"
            );
            data.add(1);
            node.unclaim();
        }
    };
    let other = {
        let (node, data) = (node.clone(), data.clone());
        thread::spawn(move || run(&node, &data))
    };
    run(&node, &data);
    other.join().unwrap();
    assert!((1..=2).contains(&data.get()));
}

#[test]
fn a_scheduled_task_is_not_scheduled_again_before_it_has_run() {
    model(None, schedules);
}

#[test]
fn a_claimed_task_runs_on_one_worker_at_a_time() {
    model(None, claims);
}
