//! A handoff: the giver continues when its job was taken, and sees what the substitute did.

use super::HandedJob;
use crate::{
    base::canary::Canary,
    loom_tests::{Data, caught, model},
};
use loom::thread;
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
use std::sync::Arc;

/// A giver that waits until its job was taken, and then, by polling, for the substitute.
fn handoff() {
    let data = Arc::new(Data::default());
    let (handed, given) = HandedJob::new(data.clone(), 0, 3, true);
    let substitute = thread::spawn(move || {
        let (data, taken) = handed.take();
        data.set(7);
        taken.end_job();
        assert_eq!(taken.finish(), 3);
    });
    while !given.wait_until_taken() {
        thread::yield_now();
    }
    if given.has_returned() {
        assert_eq!(data.get(), 7);
    }
    drop(given);
    substitute.join().unwrap();
}

#[test]
fn a_giver_sees_what_its_substitute_did() {
    model(None, handoff);
}

#[test]
fn canary_a_giver_is_not_notified() {
    caught(Canary::HandoffNotify, None, handoff);
}
