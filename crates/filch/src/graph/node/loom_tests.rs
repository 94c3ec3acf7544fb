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

#[test]
fn a_claimed_task_runs_on_one_worker_at_a_time() {
    model(None, claims);
}
