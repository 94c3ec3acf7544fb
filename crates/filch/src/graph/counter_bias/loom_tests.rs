//! Workers that join a run of a graph lose no count.

use super::CounterBias;
use crate::{
    base::canary::Canary,
    graph::join_counter::JoinCounter,
    loom_tests::{Data, caught, model},
};
use loom::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use std::sync::Arc;

/// Three tasks lead to a fourth one. The owner of the run runs two of them, and another worker the
/// third, at any time.
struct JoinedRun {
    bias: CounterBias,
    last: JoinCounter,
    work: [Data; 2],
    released: AtomicUsize,
}

impl JoinedRun {
    fn owner(&self, number: usize) {
        self.work[number].add(1);
        let last = if self.bias.begin() {
            let last = self.last.arrive_biased();
            self.bias.end();
            last
        } else {
            self.last.arrive()
        };
        self.released(last);
    }

    fn other(&self, number: usize) {
        self.bias.revoke();
        self.work[number].add(1);
        self.released(self.last.arrive());
    }

    fn released(&self, last: bool) {
        if last {
            let sum: usize = self.work.iter().map(Data::get).sum();
            assert_eq!(sum, 3, "released too early");
            self.released.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn joined() {
    let run = Arc::new(JoinedRun {
        bias: CounterBias::new(true),
        last: JoinCounter::new(3),
        work: Default::default(),
        released: AtomicUsize::new(0),
    });
    let other = {
        let run = run.clone();
        thread::spawn(move || run.other(1))
    };
    run.owner(0);
    run.owner(0);
    other.join().unwrap();
    assert_eq!(run.released.load(Ordering::Relaxed), 1, "released once");
}

#[test]
fn workers_that_join_a_run_lose_no_count() {
    model(Some(2), joined);
}

#[test]
fn canary_owner_that_counts_without_a_check() {
    caught(Canary::GraphBias, Some(2), joined);
}
