//! The results of siblings: the worker that fills the last slot gets all of them.
#![expect(unsafe_code, reason = "what the workers of a family do")]

use super::ResultSlots;
use crate::{
    base::canary::Canary,
    loom_tests::{caught, model},
};
use loom::thread;
use std::sync::Arc;

/// Fills a slot. The worker that fills the last one takes all results.
fn arrive(slots: &ResultSlots<usize>, at: usize, count: usize) -> bool {
    // SAFETY: each slot is filled by one thread.
    let last = unsafe { slots.fill(at, at + 10) };
    if last {
        for at in 0..count {
            // SAFETY: `fill` has returned true, so this thread has filled the last slot.
            assert_eq!(unsafe { slots.take(at) }, Some(at + 10));
        }
    }
    last
}

fn siblings(count: usize) {
    let slots = Arc::new(ResultSlots::new(count));
    let others: Vec<_> = (1..count)
        .map(|at| {
            let slots = slots.clone();
            thread::spawn(move || arrive(&slots, at, count))
        })
        .collect();
    let here = arrive(&slots, 0, count);
    let there = others.into_iter().map(|other| other.join().unwrap());
    let last = there.filter(|&last| last).count() + usize::from(here);
    assert_eq!(last, 1, "one thread fills the last slot");
}

#[test]
fn the_last_of_two_has_both() {
    model(None, || siblings(2));
}

#[test]
fn the_last_of_three_has_all() {
    model(Some(3), || siblings(3));
}

#[test]
fn canary_results_that_are_not_published() {
    caught(Canary::FoldArrive, None, || siblings(2));
}
