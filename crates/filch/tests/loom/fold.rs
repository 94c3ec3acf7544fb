//! The results of siblings, each in its place, and the one who brings the last.

use super::{caught, model};
use filch::{base::canary::Canary, fold::model::ResultSlots};
use loom::thread;
use std::sync::Arc;

/// Fills a place; whoever fills the last one sees all.
#[expect(unsafe_code, reason = "the duties of the production code")]
fn arrive(slots: &ResultSlots, at: usize, count: usize) -> bool {
    // SAFETY: each place is filled by one thread.
    let last = unsafe { slots.fill(at, at + 10) };
    if last {
        for at in 0..count {
            // SAFETY: all are filled.
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
    assert_eq!(last, 1, "one of them brings the last");
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
fn canary_results_that_are_not_handed_over() {
    caught(Canary::FoldArrive, None, || siblings(2));
}
