//! Fork-join systems behind one trait: the workloads are written once and run on all of them.
//!
//! The main thread is one of the workers, on core 0. Systems in which the caller takes part have
//! one thread fewer. With rayon it sleeps while `workers` threads do the work.

mod joins;
mod spawns;

pub(crate) use joins::Joins;
pub(crate) use spawns::Spawns;

use crate::{pin::Placement, pools, stopwatch::Sample};
use std::{thread, time::Duration};

/// Pause before each sample, so that all workers sleep when it starts and the previous system no
/// longer runs.
pub(crate) const REST: Duration = Duration::from_millis(1);

/// A system with workers.
pub(crate) trait System: 'static {
    type Pool: 'static;

    /// Starts a pool of `workers` workers, pinned, with the caller on core 0.
    fn pool(workers: usize) -> Self::Pool;
}

/// Takes samples with a pool that is started for the first of them.
pub(crate) fn sampler<S: System>(
    workers: usize,
    mut sample: impl FnMut(&S::Pool) -> Sample,
) -> impl FnMut() -> Sample {
    let mut pool = None;
    move || {
        let pool = pool.get_or_insert_with(|| S::pool(workers));
        thread::sleep(REST);
        sample(pool)
    }
}

pub(crate) struct Filch;

impl System for Filch {
    type Pool = filch::Pool;

    fn pool(workers: usize) -> filch::Pool {
        pools::filch(workers - 1, 1)
    }
}

pub(crate) struct Rayon;

impl System for Rayon {
    type Pool = rayon::ThreadPool;

    fn pool(workers: usize) -> rayon::ThreadPool {
        pools::build_rayon(pools::rayon(workers, Placement::Joined))
    }
}

pub(crate) struct Chili;

impl System for Chili {
    type Pool = chili::ThreadPool;

    fn pool(workers: usize) -> chili::ThreadPool {
        pools::chili(workers)
    }
}

/// Plain calls on the main thread, for any number of workers.
pub(crate) struct Seq;

impl System for Seq {
    type Pool = ();

    fn pool(_workers: usize) {}
}
