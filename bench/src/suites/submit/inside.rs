//! Tasks that are submitted by a task, which waits for them.
//!
//! threadpool and `spawn_blocking` cannot do this: a worker that waits is blocked, and it may be
//! the only one.

use super::{empty, sampling};
use crate::{
    harness::Case,
    stopwatch::{Sample, Stopwatch},
    submits::{AsyncExecutor, Filch, Plain, RayonMpsc, Submits},
};
use std::{
    sync::{
        Arc,
        mpsc::{self, Sender, TryRecvError},
    },
    thread,
};

/// Tasks submitted before the first is joined.
const TASKS_PER_ROUND: u64 = 1000;

/// Starts a task on a pool, which a given number of times submits and joins [`TASKS_PER_ROUND`]
/// tasks, and then sends the sum of their results.
type Start<S> = fn(&<S as Submits>::Pool, u64, Sender<u64>);

pub(super) fn systems(case: Case, workers: usize, tasks: u64) -> Case {
    let times = tasks / TASKS_PER_ROUND;
    case.system("filch", sampler::<Filch<Plain>>(workers, times, filch))
        .system(
            "rayon-mpsc",
            sampler::<RayonMpsc>(workers, times, rayon_mpsc),
        )
        .system(
            "rayon-scope",
            sampler::<RayonMpsc>(workers, times, rayon_scope),
        )
        .system(
            "async-executor",
            sampler::<AsyncExecutor>(workers, times, async_executor),
        )
}

fn sampler<S: Submits>(workers: usize, times: u64, start: Start<S>) -> impl FnMut() -> Sample {
    sampling::<S>(workers, move |pool| sample::<S>(pool, times, start))
}

/// Takes a sample while the main thread sleeps.
fn sample<S: Submits>(pool: &S::Pool, times: u64, start: Start<S>) -> Sample {
    let (sender, result) = mpsc::channel();
    let mut watch = Stopwatch::default();
    let done = watch.time(|| {
        start(pool, times, sender);
        result.recv().expect("the task sends it")
    });
    let tasks = times * TASKS_PER_ROUND;
    assert_eq!(done, tasks, "not every task ran once");
    watch.sample(tasks)
}

fn report(result: Sender<u64>, sum: u64) {
    result.send(sum).expect("the main thread waits");
}

fn filch(pool: &<Filch<Plain> as Submits>::Pool, times: u64, result: Sender<u64>) {
    fn once() -> u64 {
        let tasks: Vec<_> = (0..TASKS_PER_ROUND).map(|_| filch::submit(empty)).collect();
        let results = tasks.into_iter().map(|task| task.join());
        results.map(|result| result.expect("no task panics")).sum()
    }
    // This task is detached, so a worker runs it.
    let task = move || report(result, (0..times).map(|_| once()).sum());
    pool.pool.submit(task).detach();
}

fn rayon_mpsc(pool: &rayon::ThreadPool, times: u64, result: Sender<u64>) {
    fn once() -> u64 {
        let (sender, results) = mpsc::channel();
        for _ in 0..TASKS_PER_ROUND {
            let sender = sender.clone();
            rayon::spawn(move || sender.send(empty()).expect("the submitting task waits"));
        }
        let next = |_| loop {
            match results.try_recv() {
                Ok(result) => return result,
                // rayon has no other way to run tasks while waiting for a channel.
                Err(TryRecvError::Empty) => {
                    if rayon::yield_now() != Some(rayon::Yield::Executed) {
                        thread::yield_now();
                    }
                }
                Err(TryRecvError::Disconnected) => unreachable!("we have a sender ourselves"),
            }
        };
        (0..TASKS_PER_ROUND).map(next).sum()
    }
    pool.spawn(move || report(result, (0..times).map(|_| once()).sum()));
}

/// rayon's own way: tasks that write their results to memory borrowed from the scope's owner.
fn rayon_scope(pool: &rayon::ThreadPool, times: u64, result: Sender<u64>) {
    fn once() -> u64 {
        let mut results = vec![0; TASKS_PER_ROUND as usize];
        rayon::scope(|scope| {
            for result in &mut results {
                scope.spawn(move |_| *result = empty());
            }
        });
        results.into_iter().sum()
    }
    pool.spawn(move || report(result, (0..times).map(|_| once()).sum()));
}

fn async_executor(workers: &<AsyncExecutor as Submits>::Pool, times: u64, result: Sender<u64>) {
    let executor = workers.executor.clone();
    let same = Arc::clone(&executor);
    let task = async move {
        let mut sum = 0;
        for _ in 0..times {
            let tasks: Vec<_> = (0..TASKS_PER_ROUND)
                .map(|_| same.spawn(async { empty() }))
                .collect();
            for task in tasks {
                sum += task.await;
            }
        }
        report(result, sum);
    };
    executor.spawn(task).detach();
}

#[cfg(test)]
mod tests {
    use super::{Start, async_executor, filch, rayon_mpsc, rayon_scope, sample};
    use crate::submits::{AsyncExecutor, Filch, Plain, RayonMpsc, Submits};

    #[test]
    fn every_task_runs_once() {
        fn on<S: Submits>(start: Start<S>) {
            for workers in [1, 2] {
                let pool = S::pool(workers);
                let _ = sample::<S>(&pool, 3, start);
            }
        }
        on::<Filch<Plain>>(filch);
        on::<RayonMpsc>(rayon_mpsc);
        on::<RayonMpsc>(rayon_scope);
        on::<AsyncExecutor>(async_executor);
    }
}
