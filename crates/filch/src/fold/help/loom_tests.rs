//! Requests for help: what was queued before a request is seen by a help job.

use super::HelpRequest;
use crate::{
    base::{
        canary::Canary,
        sync::{AtomicUsize, Ordering},
    },
    loom_tests::{caught, model},
};
use loom::thread;
use std::sync::Arc;

/// A help job that is queued already runs while a worker queues one more node.
fn help_against_push() {
    let shared = Arc::new((HelpRequest::default(), AtomicUsize::new(0)));
    assert!(shared.0.make(), "the first request queues a help job");
    let helper = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.0.take();
            // Relaxed: ordered by the request, which is what this model checks.
            shared.1.load(Ordering::Relaxed)
        })
    };
    // Relaxed: as above.
    shared.1.store(1, Ordering::Relaxed);
    let queues_another = shared.0.make();
    let seen = helper.join().unwrap();
    assert!(queues_another || seen == 1, "a node is hidden from helpers");
}

#[test]
fn a_help_job_sees_what_was_queued_before_the_request() {
    model(None, help_against_push);
}

#[test]
fn canary_a_request_that_is_taken_without_order() {
    caught(Canary::FoldHelp, None, help_against_push);
}
