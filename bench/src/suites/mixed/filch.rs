//! One filch pool for futures and jobs.

use super::{Job, Load, Ticks};
use crate::{
    forks::Filch,
    graphs::{Graphs, Shape},
    harness::{Case, Readings},
    pools,
};
use filch::{Plan, Pool};
use std::sync::mpsc::Sender;

/// The width of a stage of a graph, in tasks.
const WIDTH: u32 = 5;

/// Futures per worker that submit jobs.
const FUTURES: usize = 4;

pub(super) fn systems(case: Case, load: Load) -> Case {
    case.system_of_many("filch", closures(load, |job| job.run(filch::checkpoint)))
        .system_of_many("filch-join", closures(load, |job| halve(job, job.pieces)))
        .system_of_many("filch-loop", closures(load, go_through))
        .system_of_many("filch-graph", sampler(load, Some(start_graph)))
        .system_of_many("filch-futures", sampler(load, Some(start_futures)))
        .system_of_many("filch-plain", closures(load, |job| job.run(|| ())))
        .system_of_many("filch-idle", sampler(load, None::<fn(&Pool, Job)>))
}

fn sampler(load: Load, start_job: Option<impl Fn(&Pool, Job) + Copy>) -> impl FnMut() -> Readings {
    pools::used(
        move || pools::filch(load.workers, 0),
        move |pool| load.sample(pool, start_job, tick),
        |_| (),
    )
}

fn tick(pool: &Pool, ticks: Ticks, result: Sender<Vec<f64>>) {
    pool.spawn_future(ticks.run(filch::time::sleep_until, result))
        .detach();
}

/// Jobs that are closures.
fn closures(load: Load, work: fn(&Job)) -> impl FnMut() -> Readings {
    fn start(job: Job, work: fn(&Job)) {
        work(&job);
        if job.again() {
            filch::spawn(move || start(job, work));
        }
    }
    let start = move |pool: &Pool, job| pool.spawn(move || start(job, work));
    sampler(load, Some(start))
}

/// Jobs that futures submit and await, one after the other. There are more futures than workers, so
/// that jobs are queued all the time.
fn start_futures(pool: &Pool, job: Job) {
    for n in 0..FUTURES {
        let job = job.clone();
        let submitter = async move {
            loop {
                let next = job.clone();
                let done = filch::submit(move || next.run(filch::checkpoint));
                done.await.expect("no job panics");
                // The first future counts as the job.
                if if n == 0 { !job.again() } else { job.is_over() } {
                    return;
                }
            }
        };
        pool.spawn_future(submitter).detach();
    }
}

/// Runs `pieces` pieces by joins, down to one.
fn halve(job: &Job, pieces: u64) {
    if pieces <= 1 {
        return job.piece();
    }
    let half = pieces / 2;
    filch::join(|| halve(job, half), || halve(job, pieces - half));
}

/// Runs the pieces of a job by a parallel loop.
fn go_through(job: &Job) {
    filch::par::over(0..job.pieces).for_each(|_| job.piece());
}

/// Jobs that are graphs: stages of [`WIDTH`] tasks of one piece each.
fn start_graph(pool: &Pool, job: Job) {
    fn start(mut plan: Plan<'static>, job: Job) {
        plan.run().expect("no task panics");
        if job.again() {
            filch::spawn(move || start(plan, job));
        }
    }
    let stages = (job.pieces as u32).div_ceil(WIDTH);
    let plan = Filch::build(&Shape::stages(stages, WIDTH), |_| {
        let job = job.clone();
        move || job.piece()
    });
    pool.spawn(move || start(plan, job));
}
