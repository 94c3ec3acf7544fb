//! CPU time of a nearly idle pool: a thousand short tasks per second.
//!
//! The figures are milliseconds of CPU time per second, of all threads of the process.

use crate::{
    cpu_time,
    harness::{Case, Config, Unit},
    pin::Placement,
    pools,
    stopwatch::Sample,
};
use std::{
    future::Future,
    thread,
    time::{Duration, Instant},
};

/// The time between two tasks.
const PERIOD: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

/// Time before the measurement, in which the workers reach a steady state.
const SETTLE: Duration = Duration::from_millis(50);

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let watched = config.pick(SECOND / 4, SECOND);
    let case = |name, workers| {
        // Each sample takes long, and a warm-up is not needed.
        Case::new(name, workers, config)
            .rounds(0, config.pick(3, 5))
            .placement(Placement::Free)
            .unit(Unit::Millis)
    };
    let mut cases = Vec::new();
    for workers in config.workers(&[2]) {
        cases.push(
            case("ticker_cpu", workers)
                .system("filch", move || {
                    let pool = free_pool(workers);
                    let ticks = tick(filch::time::sleep_until, watched);
                    pool.spawn_future(ticks).detach();
                    watch(watched)
                })
                .system("tokio", move || {
                    let runtime = free_tokio(workers);
                    let at = |at| tokio::time::sleep_until(tokio::time::Instant::from_std(at));
                    drop(runtime.spawn(tick(at, watched)));
                    watch(watched)
                }),
        );
        cases.push(
            case("outside_cpu", workers)
                .system("filch", move || {
                    let pool = free_pool(workers);
                    submit(watched, || pool.spawn(|| ()))
                })
                .system("rayon", move || {
                    let pool = pools::build_rayon(pools::rayon(workers, Placement::Free));
                    submit(watched, || pool.spawn(|| ()))
                })
                .system("tokio", move || {
                    let runtime = free_tokio(workers);
                    submit(watched, || drop(runtime.spawn(async {})))
                }),
        );
    }
    cases
}

fn free_pool(workers: usize) -> filch::Pool {
    filch::Pool::builder()
        .workers(workers)
        .build()
        .expect("the settings are fine")
}

fn free_tokio(workers: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_time()
        .build()
        .expect("the settings are fine")
}

/// Ticks for longer than the measurement takes.
async fn tick<S: Future>(sleep_until: impl Fn(Instant) -> S, watched: Duration) {
    let begin = Instant::now();
    let ticks = (watched + 2 * SETTLE).div_duration_f64(PERIOD) as u32;
    for tick in 1..=ticks {
        sleep_until(begin + PERIOD * tick).await;
    }
}

/// Measures CPU time per second while a worker runs the ticker.
fn watch(watched: Duration) -> Sample {
    thread::sleep(SETTLE);
    let before = cpu_time::used();
    thread::sleep(watched);
    share(cpu_time::used() - before, watched)
}

/// Measures CPU time per second while this thread submits tasks.
fn submit(watched: Duration, mut task: impl FnMut()) -> Sample {
    let mut submit_for = |time: Duration| {
        let begin = Instant::now();
        while begin.elapsed() < time {
            task();
            thread::sleep(PERIOD);
        }
        begin.elapsed()
    };
    submit_for(SETTLE);
    let before = cpu_time::used();
    let watched = submit_for(watched);
    share(cpu_time::used() - before, watched)
}

fn share(used: Duration, watched: Duration) -> Sample {
    Sample::new(used.mul_f64(SECOND.div_duration_f64(watched)), 1)
}
