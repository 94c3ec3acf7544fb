//! A million empty tasks, spawned in all the ways there are.
//!
//! The clock runs from the first spawn until the last task is known to be done. Threads are started,
//! pinned, used once and back asleep before that. Every task counts itself in memory of its own
//! worker, and the sum is checked.

mod shapes;
mod systems;

use crate::harness::{Case, Config};
use filch::engine::{PerWorker, Shared};
use shapes::{Chain, Fanout, Flat, Shape, Tree};
use systems::{crossbeam, filch, rayon, rayon_scope, threadpool};

/// How the tasks get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feed {
    /// All from outside, one by one.
    OneByOne,
    /// All from outside, [`BATCH`] at a time.
    Batches,
    /// One from outside; the others come out of it.
    Root(u64),
}

/// Tasks spawned at once by [`Feed::Batches`].
const BATCH: u64 = 256;

/// What a system has to do.
#[derive(Clone, Copy, Debug)]
struct Job {
    workers: usize,
    /// How many tasks there are in all.
    tasks: u64,
    feed: Feed,
}

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let tasks = config.pick(200_000, 1_000_000);
    let mut cases = Vec::new();
    for workers in config.workers(&[1, 2]) {
        let job = |feed| Job {
            workers,
            tasks,
            feed,
        };
        cases.push(all::<Flat>("outside", job(Feed::OneByOne), config));
        cases.push(batches(job(Feed::Batches), config));
        cases.push(spawned::<Fanout>(
            "local_fanout",
            job(Feed::OneByOne),
            config,
        ));
        cases.push(spawned::<Chain>("chain", job(Feed::OneByOne), config));
        cases.push(spawned::<Tree>("tree", job(Feed::OneByOne), config));
    }
    cases.sort_by_key(|case| ORDER.iter().position(|name| *name == case.name()));
    cases
}

/// The order of the output: cases first, then numbers of workers.
const ORDER: [&str; 5] = ["outside", "outside_batch", "local_fanout", "chain", "tree"];

/// A case in which one task brings forth all the others.
fn spawned<S: Shape>(name: &'static str, job: Job, config: &Config) -> Case {
    let (root, tasks) = S::root(job.tasks);
    let job = Job {
        tasks,
        feed: Feed::Root(root),
        ..job
    };
    all::<S>(name, job, config)
}

fn all<S: Shape>(name: &'static str, job: Job, config: &Config) -> Case {
    Case::new(name, job.workers, config)
        .system("filch", move || filch::<S, PerWorker>(job))
        .system("filch-shared", move || filch::<S, Shared>(job))
        .system("rayon", move || rayon::<S>(job))
        .system("rayon-scope", move || rayon_scope::<S>(job))
        .system("threadpool", move || threadpool::<S>(job))
        .system("crossbeam", move || crossbeam::<S>(job))
}

/// Only those systems that can spawn many tasks at once.
fn batches(job: Job, config: &Config) -> Case {
    Case::new("outside_batch", job.workers, config)
        .system("filch", move || filch::<Flat, PerWorker>(job))
        .system("filch-shared", move || filch::<Flat, Shared>(job))
        .system("crossbeam", move || crossbeam::<Flat>(job))
}

impl Job {
    /// The batches of [`Feed::Batches`].
    fn batches(self) -> impl Iterator<Item = Vec<u64>> {
        let starts = (0..self.tasks).step_by(BATCH as usize);
        starts.map(move |start| vec![0; BATCH.min(self.tasks - start) as usize])
    }
}
