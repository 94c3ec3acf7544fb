//! The list of waits, and the check for cycles.

use super::{Needs, Party, StackPosition, Subject, WaitList, Waiting};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicBool, AtomicU64, Ordering},
    },
    loom_tests::{caught, model},
    pool::current_task::DEPTH_BITS,
};
use loom::thread;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

/// A task that reports its state as a submitted task does, with the same orderings.
#[derive(Clone, Default)]
struct Task(Arc<ModelTaskState>);

#[derive(Default)]
struct ModelTaskState {
    position: AtomicU64,
    is_done: AtomicBool,
}

/// The position of a task or a wait at this depth of the stack of this thread.
fn position(thread: u64, depth: u64) -> StackPosition {
    StackPosition::from_bits(thread << DEPTH_BITS | depth)
}

impl Task {
    fn begin(&self, thread: u64, depth: u64) {
        // Relaxed: as in `TaskMeta::start_here`.
        let at = position(thread, depth).bits();
        self.0.position.store(at, Ordering::Relaxed);
    }

    fn end(&self) {
        // Release: as in `TaskState::finish`.
        self.0.is_done.store(true, Ordering::Release);
    }

    fn is_done(&self) -> bool {
        // Acquire: as in `TaskState::load`.
        self.0.is_done.load(Ordering::Acquire)
    }
}

impl Subject for Task {
    fn needs(&self) -> Needs {
        let is_running = !self.is_done() || broken(Canary::WaitStale);
        // Relaxed: as in `TaskMeta::position`.
        match self.0.position.load(Ordering::Relaxed) {
            0 => Needs::Unknown,
            at if is_running => Needs::Return(StackPosition::from_bits(at)),
            _ => Needs::Unknown,
        }
    }

    fn party(&self) -> Party {
        Party::task(0, None)
    }
}

/// Waits on this thread, at depth 1, until `subject` is done. Returns false when the wait can never
/// end.
fn wait(list: &WaitList, thread: u64, subject: &Task) -> bool {
    let waiting = Waiting::at(list, position(thread, 1));
    let describe = |list: &mut Vec<Box<dyn Subject>>| {
        list.push(Box::new(subject.clone()));
        true
    };
    let listed = waiting.list(describe, || None);
    if listed {
        while !subject.is_done() {
            thread::yield_now();
        }
    }
    listed
}

/// Two tasks that wait for each other.
fn cycle() {
    let list = Arc::new(WaitList::new());
    let (left, right) = (Task::default(), Task::default());
    let reports = Arc::new(AtomicUsize::new(0));
    let run = |number: u64, this: Task, other: Task| {
        let (list, reports) = (list.clone(), reports.clone());
        move || {
            this.begin(number, 1);
            if !wait(&list, number, &other) {
                reports.fetch_add(1, SeqCst);
            }
            this.end();
        }
    };
    let thread = thread::spawn(run(1, left.clone(), right.clone()));
    run(2, right, left)();
    thread.join().unwrap();
    assert_eq!(reports.load(SeqCst), 1, "one of the waits is reported");
}

/// A task waits for one on the other thread, which ends. Then the other thread runs a task that
/// waits for the first one.
fn chain() {
    let list = Arc::new(WaitList::new());
    let (first, short) = (Task::default(), Task::default());
    // Before the first wait.
    first.begin(1, 1);
    short.begin(2, 1);
    let thread = {
        let (list, first, short) = (list.clone(), first.clone(), short.clone());
        thread::spawn(move || {
            short.end();
            let next = Task::default();
            next.begin(2, 1);
            assert!(wait(&list, 2, &first), "it is not a cycle");
            next.end();
        })
    };
    assert!(wait(&list, 1, &short), "it is not a cycle");
    first.end();
    thread.join().unwrap();
}

#[test]
fn one_wait_of_a_cycle_is_reported() {
    model(None, cycle);
}

#[test]
fn canary_check_before_the_listing() {
    caught(Canary::WaitCheckFirst, None, cycle);
}

#[test]
fn a_wait_for_a_task_that_has_ended_is_not_part_of_a_cycle() {
    model(None, chain);
}

#[test]
fn canary_tasks_that_have_ended_count() {
    caught(Canary::WaitStale, None, chain);
}
