//! The event count of dedicated workers: no job waits while one of them sleeps.

use super::EventCount;
use crate::{
    base::canary::Canary,
    loom_tests::{caught, long_run, model},
};
use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
use std::sync::Arc;

/// The lanes of an engine as dedicated workers use them: a flag without an ordering, and a queue
/// with a lock.
struct Lane {
    flag: AtomicUsize,
    jobs: Mutex<Vec<usize>>,
    done: Mutex<usize>,
    progress: Condvar,
    event_count: EventCount,
}

impl Lane {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            flag: AtomicUsize::new(0),
            jobs: Mutex::new(Vec::new()),
            done: Mutex::new(0),
            progress: Condvar::new(),
            event_count: EventCount::new(),
        })
    }

    fn has_urgent(&self) -> bool {
        self.flag.load(Ordering::Relaxed) > 0
    }

    /// Queues a job that waits until `waits_for` others are done, and notifies.
    fn push(&self, waits_for: usize) {
        {
            let mut jobs = self.jobs.lock().unwrap();
            jobs.insert(0, waits_for);
            self.flag.store(jobs.len(), Ordering::Relaxed);
        }
        self.event_count.notify();
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
            done = self.progress.wait(done).unwrap();
        }
    }

    /// Runs a dedicated worker.
    fn attend(&self) {
        let work = || {
            while let Some(waits_for) = self.pop() {
                self.event_count.pass_on(self.has_urgent());
                self.until_done(waits_for);
                *self.done.lock().unwrap() += 1;
                self.progress.notify_all();
            }
        };
        self.event_count
            .run_worker(|| self.has_urgent(), work, || false);
    }
}

/// One worker runs all jobs, also when notifications are merged, and exits.
fn one_worker() {
    let lane = Lane::new();
    let worker = thread::spawn({
        let lane = lane.clone();
        move || lane.attend()
    });
    lane.push(0);
    lane.push(0);
    lane.until_done(2);
    lane.event_count.close();
    worker.join().unwrap();
}

/// Two workers, and a job that occupies one of them until the other has run the next job.
fn two_workers() {
    let lane = Lane::new();
    let workers = [(); 2].map(|()| {
        let lane = lane.clone();
        thread::spawn(move || lane.attend())
    });
    lane.push(1);
    lane.push(0);
    lane.until_done(2);
    lane.event_count.close();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn no_notification_is_lost() {
    model(long_run(3, 5), one_worker);
}

#[test]
fn a_worker_in_a_long_job_delays_no_other_job() {
    model(long_run(2, 3), two_workers);
}

#[test]
fn canary_sleep_without_a_check() {
    caught(Canary::EventCountRecheck, Some(3), one_worker);
}

#[test]
fn canary_notification_that_publishes_nothing() {
    caught(Canary::EventCountOrder, Some(3), one_worker);
}

#[test]
fn canary_notification_that_is_not_passed_on() {
    caught(Canary::EventCountPassOn, Some(2), two_workers);
}
