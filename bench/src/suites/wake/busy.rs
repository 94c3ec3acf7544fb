//! Latency from a spawn to the start of the task, while the spawning thread continues to compute.
//!
//! A worker that is woken on the core of that thread has to wait until the system preempts it.

use super::{Ping, SETTLE};
use crate::{
    harness::{Case, Config, Unit},
    pin::Placement,
    pools,
    stopwatch::Sample,
};
use std::{
    hint,
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
    time::{Duration, Instant},
};

/// The maximum time that the submitter computes.
const LONGEST: Duration = Duration::from_millis(20);

/// A pool that runs closures.
trait Spawner: Clone + Send + 'static {
    fn start(workers: usize, placement: Placement) -> Self;

    fn spawn(&self, task: impl FnOnce() + Send + 'static);
}

impl Spawner for filch::Pool {
    fn start(workers: usize, placement: Placement) -> Self {
        filch::Pool::builder()
            .workers(workers)
            .on_start(move |worker| placement.place_worker(worker))
            .build()
            .expect("the settings are fine")
    }

    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        filch::Pool::spawn(self, task);
    }
}

impl Spawner for Arc<rayon::ThreadPool> {
    fn start(workers: usize, placement: Placement) -> Self {
        Arc::new(pools::build_rayon(pools::rayon(workers, placement)))
    }

    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        rayon::ThreadPool::spawn(self, task);
    }
}

/// The thread that spawns the task.
#[derive(Clone, Copy, Debug)]
enum Submitter {
    /// The main thread.
    Outside,
    /// A task of the pool.
    Worker,
}

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let kinds = [
        ("busy_outside_pinned", Submitter::Outside, Placement::Pinned),
        ("busy_outside_unpinned", Submitter::Outside, Placement::Free),
        ("busy_worker_pinned", Submitter::Worker, Placement::Pinned),
        ("busy_worker_unpinned", Submitter::Worker, Placement::Free),
    ];
    let mut cases = Vec::new();
    for (name, submitter, placement) in kinds {
        for workers in config.workers(&[2, 4]) {
            cases.push(
                Case::new(name, workers, config)
                    .rounds(3, config.pick(100, 300))
                    .placement(placement)
                    .unit(Unit::Micros)
                    .system(
                        "filch",
                        sampler::<filch::Pool>(workers, submitter, placement),
                    )
                    .system(
                        "rayon",
                        sampler::<Arc<rayon::ThreadPool>>(workers, submitter, placement),
                    ),
            );
        }
    }
    cases
}

fn sampler<S: Spawner>(
    workers: usize,
    submitter: Submitter,
    placement: Placement,
) -> impl FnMut() -> Sample {
    let mut pool = None;
    move || {
        let pool = pool.get_or_insert_with(|| S::start(workers, placement));
        thread::sleep(SETTLE);
        let latency = match submitter {
            Submitter::Outside => spawn_and_compute(pool),
            Submitter::Worker => {
                let (sender, receiver) = mpsc::channel();
                let inside = pool.clone();
                pool.spawn(move || {
                    // The receiver is gone only if the main thread has panicked.
                    let _ = sender.send(spawn_and_compute(&inside));
                });
                receiver.recv().expect("the task sends its reading")
            }
        };
        Sample::new(latency, 1)
    }
}

/// Spawns a task and computes until it has started.
fn spawn_and_compute(pool: &impl Spawner) -> Duration {
    let ping = Ping::new();
    let task = ping.clone();
    let sent = Instant::now();
    pool.spawn(move || task.arrive(sent));
    while sent.elapsed() < LONGEST {
        // Acquire: pairs with the release in `arrive`.
        match ping.latency.load(Ordering::Acquire) {
            0 => hint::spin_loop(),
            latency => return Duration::from_nanos(latency - 1),
        }
    }
    LONGEST
}
