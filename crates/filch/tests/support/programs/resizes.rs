//! Pools that lose workers while they run all kinds of work.

use filch::{
    Affinity, Pool, Rng, Scope, future, isolate, join,
    rehearse::{self, Rehearsal},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

/// What one task of a program does.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// An isolated scope: its tasks run where they were spawned, or where they were stolen.
    Isolated(usize),
    /// A scope with this limit.
    Limited(usize),
    Join(usize),
    Futures(usize),
    /// Submitted tasks with an affinity to this worker, which may have left.
    Affine(usize),
    Broadcast,
    OnWorker,
}

impl Work {
    fn random(rng: &mut Rng, workers: usize) -> Self {
        match rng.below(7) {
            0 => Self::Isolated(2 + rng.below(3)),
            1 => Self::Join(2 + rng.below(2)),
            2 => Self::Futures(1 + rng.below(3)),
            3 => Self::Affine(rng.below(workers)),
            4 => Self::Broadcast,
            5 => Self::Limited(1 + rng.below(2)),
            _ => Self::OnWorker,
        }
    }

    /// Does it, and returns how much there was to do.
    fn perform(self, pool: &Pool, done: &Arc<AtomicUsize>) -> usize {
        match self {
            Self::Isolated(tasks) => {
                isolate(|| filch::scope(|s| (0..tasks).for_each(|_| s.spawn(|s| nested(s, done)))));
                2 * tasks
            }
            Self::Limited(limit) => {
                filch::scope(|s| {
                    s.at_most(limit);
                    (0..3).for_each(|_| s.spawn(|s| nested(s, done)));
                });
                2 * 3
            }
            Self::Join(depth) => {
                halve(depth, done);
                1 << depth
            }
            Self::Futures(tasks) => {
                let futures: Vec<_> = (0..tasks)
                    .map(|points| {
                        let done = done.clone();
                        pool.spawn_future(async move {
                            for _ in 0..points {
                                future::yield_now().await;
                            }
                            step(&done);
                        })
                    })
                    .collect();
                futures
                    .into_iter()
                    .for_each(|future| future.join().unwrap());
                tasks
            }
            Self::Affine(worker) => {
                let tasks = [(); 2].map(|()| {
                    let done = done.clone();
                    let task = pool.task(move || step(&done));
                    task.affinity(Affinity::Worker(worker)).submit().unwrap()
                });
                tasks.map(|task| task.join().unwrap()).len()
            }
            Self::Broadcast => {
                let called = pool.broadcast(|worker| {
                    step(done);
                    worker
                });
                assert!(called.is_sorted() && called.first() == Some(&0));
                called.len()
            }
            Self::OnWorker => {
                pool.on_worker(|| step(done));
                1
            }
        }
    }
}

fn step(done: &AtomicUsize) {
    rehearse::point();
    done.fetch_add(1, SeqCst);
}

/// A task that spawns another one, into the queue of the worker that runs it.
fn nested<'s>(s: &Scope<'s>, done: &'s AtomicUsize) {
    s.spawn(|_| step(done));
    step(done);
}

fn halve(depth: usize, done: &AtomicUsize) {
    match depth {
        0 => step(done),
        _ => _ = join(|| halve(depth - 1, done), || halve(depth - 1, done)),
    }
}

/// Some tasks, and one that makes the pool smaller. Everything completes.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let workers = 2 + rng.below(3);
    let program: Vec<_> = (0..1 + rng.below(4))
        .map(|_| Work::random(&mut rng, workers))
        .collect();
    let (points, first) = (rng.below(12), 1 + rng.below(workers));
    let sizes = [first, 1 + rng.below(first)];
    let inside = rng.one_in(2);
    let about = format!("{workers} workers, {sizes:?}, inside: {inside}, {program:?}");
    let rehearsed = Rehearsal::new(workers, seed).try_run(move |pool| {
        let done = Arc::new(AtomicUsize::new(0));
        let shrink = move |pool: &Pool| {
            for size in sizes {
                (0..points).for_each(|_| rehearse::point());
                pool.resize(size).unwrap();
            }
        };
        let tasks: Vec<_> = program
            .into_iter()
            .map(|work| {
                let (pool, done) = (pool.clone(), done.clone());
                move || work.perform(&pool, &done)
            })
            .map(|task| pool.submit(task))
            .collect();
        if inside {
            let pool_of_task = pool.clone();
            pool.spawn(move || shrink(&pool_of_task));
        } else {
            shrink(pool);
        }
        let expected: usize = tasks.into_iter().map(|task| task.join().unwrap()).sum();
        (expected, done.load(SeqCst))
    });
    let rehearsed = rehearsed.map_err(|failure| format!("{failure}\n{about}"))?;
    match rehearsed.value {
        (expected, done) if expected == done => Ok(()),
        result => Err(format!(
            "seed {seed}: expected and done are {result:?}\n{about}"
        )),
    }
}
