//! tokio's runtime, with common ways to run computations beside it.

use super::{Job, Load, Ticks, start_on_rayon};
use crate::{
    harness::{Case, Readings},
    pin::Placement,
    pools,
};
use std::sync::mpsc::Sender;
use tokio::{runtime::Runtime, task};

/// Producer between two yields: 200 µs.
const PIECES_BETWEEN_YIELDS: u64 = 10;

pub(super) fn systems(case: Case, load: Load) -> Case {
    case.system_of_many("tokio", sampler(load, Some(start_inline)))
        .system_of_many("tokio-yield", sampler(load, Some(start_polite)))
        .system_of_many("tokio-blocking", sampler(load, Some(start_blocking)))
        .system_of_many("tokio-rayon", beside_rayon(load))
        .system_of_many("tokio-idle", sampler(load, None::<fn(&Runtime, Job)>))
}

fn sampler(
    load: Load,
    start_job: Option<impl Fn(&Runtime, Job) + Copy>,
) -> impl FnMut() -> Readings {
    pools::used(
        move || pools::tokio(load.workers),
        move |runtime| load.sample(runtime, start_job, tick),
        |_| (),
    )
}

fn tick(runtime: &Runtime, ticks: Ticks, result: Sender<Vec<f64>>) {
    let sleep_until = |at| tokio::time::sleep_until(tokio::time::Instant::from_std(at));
    drop(runtime.spawn(ticks.run(sleep_until, result)));
}

/// Jobs inside of one poll of a future.
fn start_inline(runtime: &Runtime, job: Job) {
    fn start(job: Job) {
        job.run(|| ());
        if job.again() {
            drop(tokio::spawn(async { start(job) }));
        }
    }
    drop(runtime.spawn(async { start(job) }));
}

/// Jobs in a future that yields every [`PIECES_BETWEEN_YIELDS`] pieces.
fn start_polite(runtime: &Runtime, job: Job) {
    fn next(job: Job) {
        drop(tokio::spawn(async move {
            for piece in 1..=job.pieces {
                job.piece();
                if piece % PIECES_BETWEEN_YIELDS == 0 {
                    task::yield_now().await;
                }
            }
            if job.again() {
                next(job);
            }
        }));
    }
    let _inside = runtime.enter();
    next(job);
}

/// Jobs on tokio's blocking threads.
fn start_blocking(runtime: &Runtime, job: Job) {
    fn next(job: Job) {
        drop(task::spawn_blocking(move || {
            job.run(|| ());
            if job.again() {
                next(job);
            }
        }));
    }
    let _inside = runtime.enter();
    next(job);
}

/// Jobs on a rayon pool beside the runtime.
fn beside_rayon(load: Load) -> impl FnMut() -> Readings {
    let pools = move || {
        let rayon = pools::rayon(load.workers, Placement::Pinned);
        (pools::tokio(load.workers), pools::build_rayon(rayon))
    };
    pools::used(
        pools,
        move |both| {
            let start = |(_, rayon): &(_, _), job| start_on_rayon(rayon, job);
            load.sample(both, Some(start), |(runtime, _), ticks, result| {
                tick(runtime, ticks, result);
            })
        },
        |_| (),
    )
}
