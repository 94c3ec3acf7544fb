//! The list of waits, and the check for cycles.

use super::{
    EventId, EventKind, Listed, Needs, OnCycle, Party, StackPosition, Subject, WaitList,
    WaitSubjects, Waiting, verdict::CycleVerdict,
};
use crate::{
    base::{
        Instant,
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

/// Lists a wait that holds `held_up` up.
fn listed(subjects: WaitSubjects, on_cycle: OnCycle, held_up: Vec<EventId>) -> Listed {
    Listed {
        subjects,
        is_open: false,
        polled: None,
        held_up,
        on_cycle,
        waiter: Party::task(0, None),
        since: Instant::now(),
    }
}

/// A task waits for a group of jobs, one of which, on the other thread, waits for the task. The
/// wait for the group cannot return, so that of the job does, whichever is listed last.
fn cycle_through_a_group() {
    let list = Arc::new(WaitList::new());
    let (owner, job) = (Task::default(), Task::default());
    let group = EventId::release_of(1, EventKind::Scope);
    owner.begin(1, 1);
    let thread = {
        let (list, owner, job) = (list.clone(), owner.clone(), job.clone());
        thread::spawn(move || {
            let verdict = CycleVerdict::new();
            let subjects = WaitSubjects::Several(vec![Box::new(owner.clone())]);
            let on_cycle = OnCycle::Return(verdict.clone());
            let key = list.list(position(2, 1), listed(subjects, on_cycle, vec![group]));
            if let Ok(key) = key {
                while !verdict.is_found() {
                    assert!(!owner.is_done(), "it waits for this thread");
                    thread::yield_now();
                }
                assert!(verdict.take().is_some(), "it comes with the cycle");
                list.remove(key);
            }
            job.end();
        })
    };
    let subjects = WaitSubjects::Event(group);
    let key = list.list(position(1, 1), listed(subjects, OnCycle::Stay, Vec::new()));
    while !job.is_done() {
        thread::yield_now();
    }
    key.map(|key| list.remove(key)).expect("it cannot return");
    owner.end();
    thread.join().unwrap();
}

/// A thread that holds a lock waits for a task of the other thread, which ends. Then that thread
/// runs a task that waits for the lock.
fn chain_through_a_lock() {
    let list = Arc::new(WaitList::new());
    let (short, holder) = (Task::default(), Task::default());
    let lock = EventId::release_of(1, EventKind::Lock);
    short.begin(2, 1);
    let thread = {
        let (list, short, holder) = (list.clone(), short.clone(), holder.clone());
        thread::spawn(move || {
            short.end();
            if !holder.is_done() {
                let wait = listed(WaitSubjects::Event(lock), OnCycle::Panic, Vec::new());
                let key = list.list(position(2, 1), wait).expect("it is not a cycle");
                while !holder.is_done() {
                    thread::yield_now();
                }
                list.remove(key);
            }
        })
    };
    let subjects = WaitSubjects::Several(vec![Box::new(short.clone())]);
    let wait = listed(subjects, OnCycle::Stay, vec![lock]);
    let key = list.list(position(1, 1), wait).expect("it is not a cycle");
    while !short.is_done() {
        thread::yield_now();
    }
    list.remove(key);
    // The release of the lock.
    holder.end();
    thread.join().unwrap();
}

#[test]
fn a_cycle_through_a_group_is_reported_to_the_wait_that_can_return() {
    model(None, cycle_through_a_group);
}

#[test]
fn canary_no_other_wait_gets_the_report() {
    caught(Canary::WaitVerdict, None, cycle_through_a_group);
}

#[test]
fn a_lock_whose_holder_goes_on_is_not_part_of_a_cycle() {
    model(None, chain_through_a_lock);
}

#[test]
fn canary_the_holder_seems_to_wait() {
    caught(Canary::WaitStale, None, chain_through_a_lock);
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
