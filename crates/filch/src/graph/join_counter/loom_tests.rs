//! A task runs once, after all its predecessors.

use super::JoinCounter;
use crate::{
    base::canary::Canary,
    loom_tests::{Data, caught, model},
};
use loom::thread;
use std::sync::Arc;

/// Two tasks lead to a third one, which leads back to both, once. Each may run on either worker.
struct Diamond {
    work: [Data; 2],
    last: JoinCounter,
    sum: Data,
    laps: Data,
}

impl Diamond {
    /// Runs one of the two tasks, and the task that it releases. In the second lap the worker that
    /// runs the last task runs both.
    fn task(&self, number: usize) {
        self.work[number].add(1);
        if !self.last.arrive() {
            return;
        }
        self.last.rearm(2);
        let done = self.work[0].get() + self.work[1].get();
        self.sum.add(done);
        self.laps.add(1);
        if self.laps.get() == 1 {
            self.work[0].add(1);
            assert!(!self.last.arrive(), "released too early");
            self.task(1);
        }
    }
}

fn diamond() {
    let graph = Arc::new(Diamond {
        work: [Data::default(), Data::default()],
        last: JoinCounter::new(2),
        sum: Data::default(),
        laps: Data::default(),
    });
    let other = {
        let graph = graph.clone();
        thread::spawn(move || graph.task(1))
    };
    graph.task(0);
    other.join().unwrap();
    assert_eq!((graph.laps.get(), graph.sum.get()), (2, 2 + 4));
}

#[test]
fn a_task_runs_once_after_its_predecessors() {
    model(None, diamond);
}

#[test]
fn canary_predecessors_that_publish_nothing() {
    caught(Canary::GraphArrive, None, diamond);
}

#[test]
fn canary_two_last_predecessors() {
    caught(Canary::GraphLast, None, diamond);
}

/// Two of three predecessors arrive at the same time, the third one before or after. The last one
/// finds that it is the last by a load or by a subtraction.
fn three(often: bool) {
    let (last, work) = (
        Arc::new(JoinCounter::new(3)),
        Arc::new([(); 3].map(|()| Data::default())),
    );
    let arrive = move |last: &JoinCounter, work: &[Data; 3], number: usize| {
        work[number].add(1);
        let released = if often {
            last.arrive_in_loop()
        } else {
            last.arrive()
        };
        if released {
            last.rearm(3);
            assert_eq!(
                work.iter().map(Data::get).sum::<usize>(),
                3,
                "released too early"
            );
        }
        usize::from(released)
    };
    let other = {
        let (last, work) = (last.clone(), work.clone());
        thread::spawn(move || arrive(&last, &work, 1) + arrive(&last, &work, 2))
    };
    let released = arrive(&last, &work, 0) + other.join().unwrap();
    assert_eq!(released, 1, "released once");
}

#[test]
fn the_last_of_three_is_the_last() {
    model(None, || three(false));
    model(None, || three(true));
}
