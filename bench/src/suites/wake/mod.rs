//! Latency from a spawn into a sleeping pool to the start of the task, and the CPU time of nearly
//! idle pools.
//!
//! Each sample has a pool of its own, so that idle threads of other pools do not disturb it: the
//! pool is built, used once, left alone until it sleeps, and then woken.

mod all;
mod busy;
mod cpu;

use crate::{
    crossbeam_executor,
    harness::{Case, Config},
    pin::Placement,
    pools,
    stopwatch::Sample,
};
use filch::Executor;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// Time for the pool to fall asleep.
const SETTLE: Duration = Duration::from_millis(2);

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, placement) in [
        ("wake_pinned", Placement::Pinned),
        ("wake_unpinned", Placement::Free),
    ] {
        for workers in config.workers(&[2]) {
            cases.push(
                Case::new(name, workers, config)
                    .rounds(1, config.pick(100, 300))
                    .placement(placement)
                    .system("filch", move || filch(workers, placement))
                    .system("rayon", move || rayon(workers, placement))
                    .system("threadpool", move || threadpool(workers, placement))
                    .system("crossbeam", move || crossbeam(workers, placement)),
            );
        }
    }
    cases.extend(all::cases(config));
    cases.extend(busy::cases(config));
    cases.extend(cpu::cases(config));
    cases
}

/// Receives the latency from a task.
struct Ping {
    /// Nanoseconds from the spawn to the start, plus one; zero until the task has started.
    latency: AtomicU64,
    waiter: Thread,
}

impl Ping {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            latency: AtomicU64::new(0),
            waiter: thread::current(),
        })
    }

    /// Called by the task, which was spawned at `sent`.
    fn arrive(&self, sent: Instant) {
        let latency = sent.elapsed().as_nanos() as u64 + 1;
        // Release: pairs with the acquire in `round_trip`.
        self.latency.store(latency, Ordering::Release);
        self.waiter.unpark();
    }

    /// Spawns a task and sleeps until it has started: the main thread must not occupy the core of
    /// the worker that is being woken.
    fn round_trip(&self, spawn: impl FnOnce(Instant)) -> Duration {
        spawn(Instant::now());
        loop {
            match self.latency.swap(0, Ordering::Acquire) {
                0 => thread::park(),
                latency => return Duration::from_nanos(latency - 1),
            }
        }
    }

    /// Runs one round trip as a warm-up, and one that counts.
    fn measure(&self, spawn: impl Fn(Instant)) -> Sample {
        self.round_trip(&spawn);
        thread::sleep(SETTLE);
        Sample::new(self.round_trip(&spawn), 1)
    }
}

fn filch(workers: usize, placement: Placement) -> Sample {
    let ping = Ping::new();
    let task = ping.clone();
    let executor = Executor::builder()
        .workers(workers)
        .on_start(move |worker| placement.place_worker(worker))
        .build(|_| (), move |sent: Instant, _| task.arrive(sent))
        .expect("the settings are fine");
    ping.measure(|sent| executor.spawn(sent).expect("open"))
}

fn crossbeam(workers: usize, placement: Placement) -> Sample {
    let ping = Ping::new();
    let task = ping.clone();
    let executor = crossbeam_executor::Executor::new(
        workers,
        move |worker| placement.place_worker(worker),
        || (),
        move |sent: Instant, _| task.arrive(sent),
    );
    let sample = ping.measure(|sent| executor.spawn(sent).expect("open"));
    executor.join();
    sample
}

fn rayon(workers: usize, placement: Placement) -> Sample {
    let ping = Ping::new();
    let pool = pools::build_rayon(pools::rayon(workers, placement));
    ping.measure(|sent| {
        let task = ping.clone();
        pool.spawn(move || task.arrive(sent));
    })
}

fn threadpool(workers: usize, placement: Placement) -> Sample {
    let ping = Ping::new();
    let pool = pools::threadpool(workers, placement);
    ping.measure(|sent| {
        let task = ping.clone();
        pool.execute(move || task.arrive(sent));
    })
}
