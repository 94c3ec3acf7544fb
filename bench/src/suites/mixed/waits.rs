//! Joins that wait for a short half, beside unrelated tasks that are five times as long.
//!
//! A reading is the time of a join. Its second half is stolen and takes 100 µs, while the first one
//! is done after 10 µs. If the waiting worker runs one of the unrelated tasks, which are spawned
//! from outside, the join ends late by the length of that task.

use super::SETTLE;
use crate::{
    busy::Busy,
    harness::{Case, Config, Readings, Unit},
    pin::Placement,
    pools,
};
use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

const FIRST_HALF: Duration = Duration::from_micros(10);
const SECOND_HALF: Duration = Duration::from_micros(100);
const UNRELATED: Duration = Duration::from_micros(500);

/// The time between two unrelated tasks.
const PERIOD: Duration = Duration::from_millis(1);

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let window = config.pick(Duration::from_millis(200), Duration::from_millis(500));
    let case = |workers| {
        Case::new("waits", workers, config)
            .rounds(0, config.pick(3, 11))
            .unit(Unit::Micros)
            .system_of_many("filch", sampler::<filch::Pool>(workers, window))
            .system_of_many("rayon", sampler::<Arc<rayon::ThreadPool>>(workers, window))
    };
    config.workers(&[2]).into_iter().map(case).collect()
}

/// A pool with joins and detached tasks.
trait Joins: Clone + Send + 'static {
    fn start(workers: usize) -> Self;
    fn spawn(&self, task: impl FnOnce() + Send + 'static);
    fn join(a: impl FnOnce() + Send, b: impl FnOnce() + Send);
}

impl Joins for filch::Pool {
    fn start(workers: usize) -> Self {
        pools::filch(workers, 0)
    }

    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        filch::Pool::spawn(self, task);
    }

    fn join(a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
        filch::join(a, b);
    }
}

impl Joins for Arc<rayon::ThreadPool> {
    fn start(workers: usize) -> Self {
        Arc::new(pools::build_rayon(pools::rayon(workers, Placement::Pinned)))
    }

    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        rayon::ThreadPool::spawn(self, task);
    }

    fn join(a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
        rayon::join(a, b);
    }
}

fn sampler<P: Joins>(workers: usize, window: Duration) -> impl FnMut() -> Readings {
    let mut pool = None;
    move || {
        let pool = pool.get_or_insert_with(|| P::start(workers));
        let (sender, readings) = mpsc::channel();
        pool.spawn(move || {
            // The receiver is gone only if the main thread has panicked.
            let _ = sender.send(time_joins::<P>(SETTLE + window));
        });
        let (begin, unrelated) = (Instant::now(), Busy::of(UNRELATED));
        while begin.elapsed() < SETTLE + window {
            thread::sleep(PERIOD);
            pool.spawn(move || unrelated.run());
        }
        Readings {
            nanos: readings.recv().expect("the task sends its readings"),
            ..Readings::default()
        }
    }
}

/// Joins repeatedly and returns the time of each join in nanoseconds, except those of the warm-up.
fn time_joins<P: Joins>(window: Duration) -> Vec<f64> {
    let (first, second) = (Busy::of(FIRST_HALF), Busy::of(SECOND_HALF));
    let (begin, mut nanos) = (Instant::now(), Vec::new());
    loop {
        let start = Instant::now();
        if start - begin >= window {
            return nanos;
        }
        P::join(|| first.run(), || second.run());
        if start - begin >= SETTLE {
            nanos.push(start.elapsed().as_secs_f64() * 1e9);
        }
    }
}
