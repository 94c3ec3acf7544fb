//! The time until all workers of a sleeping pool run: a batch of as many tasks as workers, none of
//! which ends before all have begun.

use super::SETTLE;
use crate::{
    harness::{Case, Config, Unit},
    pin::Placement,
    pools,
    stopwatch::Sample,
};
use filch::Executor;
use std::{
    sync::{Arc, Barrier},
    thread,
    time::Instant,
};

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let kinds = [
        ("wake_all_pinned", Placement::Pinned),
        ("wake_all_unpinned", Placement::Free),
    ];
    let mut cases = Vec::new();
    for (name, placement) in kinds {
        for workers in config.crowd_workers() {
            cases.push(
                Case::new(name, workers, config)
                    .rounds(3, config.pick(100, 300))
                    .placement(placement)
                    .unit(Unit::Micros)
                    .system("filch", filch(workers, placement, 2))
                    .system("filch-chain", filch(workers, placement, 0))
                    .system("rayon", rayon(workers, placement)),
            );
        }
    }
    cases
}

/// Calls `spawn` with a barrier that all tasks wait for, in a pool that sleeps.
fn until_all_run(workers: usize, spawn: impl FnOnce(&Arc<Barrier>)) -> Sample {
    let barrier = Arc::new(Barrier::new(workers + 1));
    thread::sleep(SETTLE);
    let start = Instant::now();
    spawn(&barrier);
    barrier.wait();
    Sample::new(start.elapsed(), 1)
}

fn filch(workers: usize, placement: Placement, fanout: usize) -> impl FnMut() -> Sample {
    let mut executor = None;
    move || {
        let executor = executor.get_or_insert_with(|| {
            Executor::builder()
                .workers(workers)
                .wake_fanout(fanout)
                .on_start(move |worker| placement.place_worker(worker))
                .build(
                    |_| (),
                    |barrier: Arc<Barrier>, _| {
                        barrier.wait();
                    },
                )
                .expect("the settings are fine")
        });
        until_all_run(workers, |barrier| {
            let tasks = vec![barrier.clone(); workers];
            executor.spawn_batch(tasks).expect("open");
        })
    }
}

fn rayon(workers: usize, placement: Placement) -> impl FnMut() -> Sample {
    let mut pool = None;
    move || {
        let pool = pool.get_or_insert_with(|| pools::build_rayon(pools::rayon(workers, placement)));
        until_all_run(workers, |barrier| {
            for _ in 0..workers {
                let barrier = barrier.clone();
                pool.spawn(move || {
                    barrier.wait();
                });
            }
        })
    }
}
