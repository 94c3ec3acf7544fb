//! The gate: no task enters after the close, every task is counted, and the end is reported once.

use super::{Gate, Verdict};
use crate::{
    base::canary::Canary,
    loom_tests::{caught, model},
};
use loom::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

fn finished(verdict: Verdict) -> usize {
    usize::from(verdict == Verdict::Finished)
}

/// A spawn from outside against a close: either the task is accepted and counted, or it is refused.
fn enter_against_close() {
    let gate = Arc::new(Gate::new());
    let spawner = {
        let gate = gate.clone();
        thread::spawn(move || gate.enter(1))
    };
    let ends = finished(gate.close());
    let accepted = spawner.join().unwrap();
    assert_eq!(gate.state().in_flight(), i64::from(accepted));
    // If the close has reported the end, no task may have been accepted.
    assert!(ends == 0 || !accepted, "a task was accepted after the end");
}

#[test]
fn no_task_enters_after_the_close() {
    model(None, enter_against_close);
}

#[test]
fn canary_check_then_enter() {
    caught(Canary::GateSplit, None, enter_against_close);
}

/// The last completion against the close: one of them reports the end.
fn complete_against_close() {
    let gate = Arc::new(Gate::new());
    assert!(gate.enter(1));
    let worker = {
        let gate = gate.clone();
        thread::spawn(move || {
            gate.begin_busy();
            finished(gate.end_busy(-1))
        })
    };
    let ends = finished(gate.close()) + worker.join().unwrap();
    assert_eq!(ends, 1, "the end was reported {ends} times");
    assert_eq!(gate.state().0, 0, "closed, none busy, none in flight");
}

#[test]
fn the_end_is_reported_once() {
    model(None, complete_against_close);
}

#[test]
fn canary_rest_without_the_count() {
    caught(Canary::GateFlush, None, complete_against_close);
}

/// A spawner, a closer, and a worker that takes the task and runs it.
#[test]
fn spawn_completion_and_close_together() {
    model(None, || {
        let gate = Arc::new(Gate::new());
        let queued = Arc::new(AtomicUsize::new(0));
        let ends = Arc::new(AtomicUsize::new(0));
        let spawner = {
            let (gate, queued) = (gate.clone(), queued.clone());
            thread::spawn(move || {
                let accepted = gate.enter(1);
                if accepted {
                    queued.store(1, Ordering::Release);
                }
                accepted
            })
        };
        let worker = {
            let (gate, queued, ends) = (gate.clone(), queued.clone(), ends.clone());
            thread::spawn(move || {
                let took = queued.swap(0, Ordering::AcqRel);
                if took == 1 {
                    gate.begin_busy();
                    ends.fetch_add(finished(gate.end_busy(-1)), Ordering::Relaxed);
                }
                took
            })
        };
        ends.fetch_add(finished(gate.close()), Ordering::Relaxed);
        let accepted = usize::from(spawner.join().unwrap());
        let ran = worker.join().unwrap();
        let left = accepted - ran;
        assert_eq!(gate.state().in_flight(), left as i64);
        assert_eq!(
            ends.load(Ordering::Relaxed),
            usize::from(left == 0),
            "the end is reported once if, and only if, no task is left"
        );
    });
}

/// A worker has not flushed the count of its spawns when a thief flushes the completion of one.
#[test]
fn a_private_count_never_causes_a_false_end() {
    model(None, || {
        let gate = Arc::new(Gate::new());
        assert!(gate.enter(1));
        gate.begin_busy(); // the first worker runs the task, which spawns one
        let done = Arc::new(AtomicUsize::new(0));
        let thief = {
            let (gate, done) = (gate.clone(), done.clone());
            thread::spawn(move || {
                gate.begin_busy();
                done.fetch_add(1, Ordering::Relaxed); // runs the stolen child
                let end = finished(gate.end_busy(-1));
                if end == 1 {
                    assert_eq!(done.load(Ordering::Relaxed), 2, "the end came too early");
                }
                end
            })
        };
        let closer = {
            let gate = gate.clone();
            thread::spawn(move || finished(gate.close()))
        };
        done.fetch_add(1, Ordering::Relaxed); // the first task is done
        let end = finished(gate.end_busy(1 - 1));
        if end == 1 {
            assert_eq!(done.load(Ordering::Relaxed), 2, "the end came too early");
        }
        assert_eq!(end + thief.join().unwrap() + closer.join().unwrap(), 1);
    });
}
