//! A million empty tasks, spawned from outside and by tasks.
//!
//! The clock runs from the first spawn until the last task is known to be done. Threads are
//! started, pinned, used once and asleep again before that. Every task increments a counter of its
//! worker, and the sum is checked.

mod shapes;
mod systems;

use crate::harness::{Case, Config};
use filch::engine::{PerWorker, Shared};
use shapes::{Chain, Fanout, Flat, Shape, Task, Tree};
use systems::{crossbeam, filch, rayon, rayon_scope, threadpool};

/// How the tasks are spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feed {
    /// All from outside, one by one.
    OneByOne,
    /// All from outside, [`BATCH`] at a time.
    Batches,
    /// One from outside, which spawns the others directly or indirectly.
    Root(u64),
}

/// Tasks per batch of [`Feed::Batches`].
const BATCH: u64 = 256;

/// The workload of one sample.
#[derive(Clone, Copy, Debug)]
struct Job {
    workers: usize,
    /// The total number of tasks.
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
        cases.push(spawned::<Fanout<[u64; 2]>>(
            "local_fanout_16b",
            job(Feed::OneByOne),
            config,
        ));
        cases.push(large(job(Feed::OneByOne), config));
        cases.push(spawned::<Chain>("chain", job(Feed::OneByOne), config));
        cases.push(spawned::<Tree>("tree", job(Feed::OneByOne), config));
    }
    cases.sort_by_key(|case| ORDER.iter().position(|name| *name == case.name()));
    cases
}

/// The order of the output: cases first, then numbers of workers.
const ORDER: [&str; 7] = [
    "outside",
    "outside_batch",
    "local_fanout",
    "local_fanout_16b",
    "local_fanout_10m",
    "chain",
    "tree",
];

/// A case in which one task spawns all others, directly or indirectly.
fn spawned<S: Shape>(name: &'static str, job: Job, config: &Config) -> Case {
    let (root, tasks) = S::root(job.tasks);
    let job = Job {
        tasks,
        feed: Feed::Root(root),
        ..job
    };
    all::<S>(name, job, config)
}

/// Ten times as many tasks in one queue, in the systems that have such queues: the others take
/// minutes.
fn large(job: Job, config: &Config) -> Case {
    let (root, tasks) = Fanout::<u64>::root(job.tasks * 10);
    let job = Job {
        tasks,
        feed: Feed::Root(root),
        ..job
    };
    Case::new("local_fanout_10m", job.workers, config)
        .rounds(1, config.pick(3, 7))
        .system("filch", move || filch::<Fanout, PerWorker>(job))
        .system("rayon", move || rayon::<Fanout>(job))
        .system("rayon-scope", move || rayon_scope::<Fanout>(job))
        .system("crossbeam", move || crossbeam::<Fanout>(job))
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

/// Only the systems that can spawn a batch of tasks at once.
fn batches(job: Job, config: &Config) -> Case {
    Case::new("outside_batch", job.workers, config)
        .system("filch", move || filch::<Flat, PerWorker>(job))
        .system("filch-shared", move || filch::<Flat, Shared>(job))
        .system("crossbeam", move || crossbeam::<Flat>(job))
}

impl Job {
    /// The batches of [`Feed::Batches`].
    fn batches<T: Task>(self) -> impl Iterator<Item = Vec<T>> {
        let starts = (0..self.tasks).step_by(BATCH as usize);
        starts.map(move |start| vec![T::new(0); BATCH.min(self.tasks - start) as usize])
    }
}
