//! The bell of the workers that are kept for futures: no job waits while one of them sleeps.

use super::{caught, long_run, model};
use filch::{base::canary::Canary, pool::model::EventCount};
use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
// Not loom's: when it reports a sleep without an end, its `Arc` must not be dropped any more.
use std::sync::Arc;

/// What the lanes of an engine are to these workers: a look that orders nothing, and a queue with a lock.
struct Lane {
    flag: AtomicUsize,
    jobs: Mutex<Vec<usize>>,
    done: Mutex<usize>,
    told: Condvar,
    event_count: EventCount,
}

impl Lane {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            flag: AtomicUsize::new(0),
            jobs: Mutex::new(Vec::new()),
            done: Mutex::new(0),
            told: Condvar::new(),
            event_count: EventCount::new(),
        })
    }

    fn has_urgent(&self) -> bool {
        self.flag.load(Ordering::Relaxed) > 0
    }

    /// Queues a job, which waits until so many others have been done, and rings.
    fn push(&self, waits_for: usize) {
        {
            let mut jobs = self.jobs.lock().unwrap();
            jobs.insert(0, waits_for);
            self.flag.store(jobs.len(), Ordering::Relaxed);
        }
        self.event_count.ring();
    }

    fn pop(&self) -> Option<usize> {
        let mut jobs = self.jobs.lock().unwrap();
        let job = jobs.pop();
        self.flag.store(jobs.len(), Ordering::Relaxed);
        job
    }

    fn until_done(&self, jobs: usize) {
        let mut done = self.done.lock().unwrap();
        while *done < jobs {
            done = self.told.wait(done).unwrap();
        }
    }

    /// A worker that is kept.
    fn attend(&self) {
        self.event_count.attend(
            || self.has_urgent(),
            || {
                while let Some(waits_for) = self.pop() {
                    self.event_count.pass_on(self.has_urgent());
                    self.until_done(waits_for);
                    *self.done.lock().unwrap() += 1;
                    self.told.notify_all();
                }
            },
        );
    }
}

/// One worker: it does what comes, however the rings fall together, and goes home.
fn one_worker() {
    let lane = Lane::new();
    let worker = thread::spawn({
        let lane = lane.clone();
        move || lane.attend()
    });
    lane.push(0);
    lane.push(0);
    lane.until_done(2);
    lane.event_count.end();
    worker.join().unwrap();
}

/// Two of them, and a job that keeps one until the other has done the next.
fn two_workers() {
    let lane = Lane::new();
    let workers = [(); 2].map(|()| {
        let lane = lane.clone();
        thread::spawn(move || lane.attend())
    });
    lane.push(1);
    lane.push(0);
    lane.until_done(2);
    lane.event_count.end();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn no_ring_is_lost() {
    model(long_run(3, 5), one_worker);
}

#[test]
fn a_worker_that_is_held_up_holds_up_nobody() {
    model(long_run(2, 3), two_workers);
}

#[test]
fn canary_bell_that_rings_while_nobody_looks() {
    caught(Canary::EventCountLook, Some(3), one_worker);
}

#[test]
fn canary_ring_that_shows_nothing() {
    caught(Canary::EventCountOrder, Some(3), one_worker);
}

#[test]
fn canary_ring_that_is_not_passed_on() {
    caught(Canary::EventCountPassOn, Some(2), two_workers);
}
