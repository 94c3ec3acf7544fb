//! CPU time of an idle pool.
//!
//! Each pool runs one small job, is left alone for a moment, and is then measured.

use crate::{
    cpu_time,
    harness::{Case, Config, Unit},
    pin::Placement,
    pools,
    stopwatch::Sample,
};
use filch::Executor;
use std::{sync::mpsc, thread, time::Duration};

/// The period of the figures; shorter measurements are scaled to it.
const PERIOD: Duration = Duration::from_secs(3);

/// Time for the workers to fall asleep after the job.
const SETTLE: Duration = Duration::from_millis(50);

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let watched = config.pick(Duration::from_secs(1), PERIOD);
    config
        .workers(&[1, 2, 8, 64])
        .into_iter()
        .map(|workers| {
            // Each sample takes seconds, and a warm-up is not needed.
            Case::new("idle_cpu", workers, config)
                .rounds(0, config.pick(3, 5))
                .unit(Unit::Millis)
                .system("filch", move || filch(workers, watched))
                .system("rayon", move || rayon(workers, watched))
        })
        .collect()
}

fn filch(workers: usize, watched: Duration) -> Sample {
    let executor = Executor::builder()
        .workers(workers)
        .on_start(|worker| Placement::Pinned.place_worker(worker))
        .build(
            |_| (),
            |done: mpsc::Sender<()>, _| done.send(()).expect("we wait for it"),
        )
        .expect("the settings are fine");
    let (done, wait) = mpsc::channel();
    executor.spawn(done).expect("open");
    wait.recv().expect("the task runs");
    watch(watched)
}

fn rayon(workers: usize, watched: Duration) -> Sample {
    let pool = pools::build_rayon(pools::rayon(workers, Placement::Pinned));
    pool.install(|| ());
    watch(watched)
}

/// Measures the CPU time of the process from now on, scaled to [`PERIOD`].
fn watch(watched: Duration) -> Sample {
    thread::sleep(SETTLE);
    let before = cpu_time::used();
    thread::sleep(watched);
    let used = cpu_time::used() - before;
    Sample::new(used.mul_f64(PERIOD.div_duration_f64(watched)), 1)
}
