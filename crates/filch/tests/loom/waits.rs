//! The list of waits, and the check for circles.

use super::{caught, model};
use filch::{
    base::canary::Canary,
    pool::model::{Task, WaitList},
};
use loom::thread;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

fn until_done(task: &Task) {
    while !task.is_done() {
        thread::yield_now();
    }
}

/// Two tasks that wait for each other.
fn circle() {
    let list = Arc::new(WaitList::new());
    let (left, right) = (Task::default(), Task::default());
    let reports = Arc::new(AtomicUsize::new(0));
    let run = |number: u64, this: Task, other: Task| {
        let (list, reports) = (list.clone(), reports.clone());
        move || {
            this.begin(number, 1);
            if !list.wait(number, 1, &other, || until_done(&other)) {
                reports.fetch_add(1, SeqCst);
            }
            this.end();
        }
    };
    let thread = thread::spawn(run(1, left.clone(), right.clone()));
    run(2, right, left)();
    thread.join().unwrap();
    assert_eq!(reports.load(SeqCst), 1, "one of them is told");
}

/// A task waits for one on the other thread, which ends; then the other thread runs a task that waits for the first one.
fn chain() {
    let list = Arc::new(WaitList::new());
    let (first, short) = (Task::default(), Task::default());
    // Known before anybody waits.
    first.begin(1, 1);
    short.begin(2, 1);
    let thread = {
        let (list, first, short) = (list.clone(), first.clone(), short.clone());
        thread::spawn(move || {
            short.end();
            let next = Task::default();
            next.begin(2, 1);
            let ends = list.wait(2, 1, &first, || until_done(&first));
            assert!(ends, "it is no circle");
            next.end();
        })
    };
    let ends = list.wait(1, 1, &short, || until_done(&short));
    assert!(ends, "it is no circle");
    first.end();
    thread.join().unwrap();
}

#[test]
fn one_wait_of_a_circle_is_reported() {
    model(None, circle);
}

#[test]
fn a_check_before_the_listing_misses_circles() {
    caught(Canary::WaitCheckFirst, None, circle);
}

#[test]
fn a_wait_for_a_task_that_has_ended_is_no_part_of_a_circle() {
    model(None, chain);
}

#[test]
fn tasks_that_have_ended_must_not_count() {
    caught(Canary::WaitStale, None, chain);
}
