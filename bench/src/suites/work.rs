//! Workloads that every fork-join system runs.

use crate::{
    forks::{Chili, Filch, Joins, Rayon, Seq, sampler},
    harness::{Case, Config},
    pin::Placement,
    stopwatch::{Sample, Stopwatch},
};
use std::{cell::OnceCell, rc::Rc};

/// A computation by joins.
pub(super) trait Work: Sync + 'static {
    /// Computes the result, called from outside of the pool.
    fn run<J: Joins>(&self, pool: &J::Pool) -> u64;

    /// Computes the result with joins that carry the worker, for the system `filch-with`; `None` if
    /// the work has no such form. A form of its own, because the others pass what they carry by a
    /// mutable reference, which would be another one than a program passes.
    fn run_with(&self, _pool: &filch::Pool) -> Option<u64> {
        None
    }

    /// The expected result of [`run`](Self::run).
    fn expected(&self) -> u64;

    /// The number of operations.
    fn ops(&self) -> u64;
}

/// Runs the work once with joins that carry the worker, and checks its result.
fn sample_with<W: Work>(pool: &filch::Pool, work: &W) -> Sample {
    let mut watch = Stopwatch::default();
    let result = watch.time(|| work.run_with(pool));
    let expected = Some(work.expected());
    assert_eq!(result, expected, "filch-with gave a wrong result");
    watch.sample(work.ops())
}

/// Runs the work once and checks its result.
fn sample<J: Joins, W: Work>(pool: &J::Pool, work: &W, name: &str) -> Sample {
    let mut watch = Stopwatch::default();
    let result = watch.time(|| work.run::<J>(pool));
    assert_eq!(result, work.expected(), "{name} gave a wrong result");
    watch.sample(work.ops())
}

/// A case in which the main thread is a worker.
pub(super) fn fork_case(name: &'static str, workers: usize, config: &Config) -> Case {
    Case::new(name, workers, config).placement(Placement::Joined)
}

/// One case per number of workers, in which all systems do the same work. The work is made on first
/// use.
pub(super) fn join_cases<W, M>(name: &'static str, config: &Config, make: M) -> Vec<Case>
where
    W: Work,
    M: Fn() -> W + Copy + 'static,
{
    join_cases_for(name, config, config.fork_workers(), make)
}

/// Adds the system `filch-with`, of [`Work::run_with`].
pub(super) fn carrying<W, M>(cases: Vec<Case>, make: M) -> Vec<Case>
where
    W: Work,
    M: Fn() -> W + Copy + 'static,
{
    let add = |case: Case| {
        let (workers, work) = (case.workers(), OnceCell::new());
        let sample = sampler::<Filch>(workers, move |pool| {
            sample_with(pool, work.get_or_init(make))
        });
        case.system("filch-with", sample)
    };
    cases.into_iter().map(add).collect()
}

/// [`join_cases`] that include more pinned workers than cores.
pub(super) fn crowd_cases<W, M>(name: &'static str, config: &Config, make: M) -> Vec<Case>
where
    W: Work,
    M: Fn() -> W + Copy + 'static,
{
    join_cases_for(name, config, config.crowd_workers(), make)
}

fn join_cases_for<W, M>(
    name: &'static str,
    config: &Config,
    workers: Vec<usize>,
    make: M,
) -> Vec<Case>
where
    W: Work,
    M: Fn() -> W + Copy + 'static,
{
    let case = |workers| {
        let work = Rc::new(OnceCell::new());
        fork_case(name, workers, config)
            .system("filch", by::<Filch, W, M>("filch", workers, &work, make))
            .system("rayon", by::<Rayon, W, M>("rayon", workers, &work, make))
            .system("chili", by::<Chili, W, M>("chili", workers, &work, make))
            .system("seq", by::<Seq, W, M>("seq", workers, &work, make))
    };
    workers.into_iter().map(case).collect()
}

fn by<J, W, M>(
    system: &'static str,
    workers: usize,
    work: &Rc<OnceCell<W>>,
    make: M,
) -> impl FnMut() -> Sample + use<J, W, M>
where
    J: Joins,
    W: Work,
    M: Fn() -> W + 'static,
{
    let work = work.clone();
    sampler::<J>(workers, move |pool| {
        sample::<J, W>(pool, work.get_or_init(&make), system)
    })
}

/// Runs a small piece of work on all systems and checks the results.
#[cfg(test)]
pub(super) fn check(work: impl Work) {
    use crate::forks::System;

    fn on<J: Joins>(system: &str, work: &impl Work) {
        for workers in [1, 2, 5] {
            let _ = sample::<J, _>(&J::pool(workers), work, system);
        }
    }
    on::<Seq>("seq", &work);
    on::<Filch>("filch", &work);
    on::<Rayon>("rayon", &work);
    on::<Chili>("chili", &work);
    for workers in [1, 2, 5] {
        let pool = Filch::pool(workers);
        if work.run_with(&pool).is_some() {
            let _ = sample_with(&pool, &work);
        }
    }
}
