//! The systems, each used as its users would.
//!
//! How the end is detected: filch and crossbeam join their executor, rayon's pool is dropped and
//! the exit of its workers awaited (rayon counts pending tasks for that purpose anyway), rayon's
//! scope ends, and threadpool joins. The first three include the exit of their threads, some tens
//! of microseconds per run.

use super::{
    Feed, Job,
    shapes::{Shape, Task},
};
use crate::{
    crossbeam_executor,
    pin::Placement,
    pools,
    stopwatch::{Sample, Stopwatch},
    tally,
};
use filch::{Executor, engine::Strategy};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// Pause between the warm-up and the run, so that all workers sleep when it starts.
const REST: Duration = Duration::from_millis(1);

fn pin(worker: usize) {
    Placement::Pinned.place_worker(worker);
}

pub(super) fn filch<S: Shape, Q: Strategy<Spec: Default>>(job: Job) -> Sample {
    let executor = Executor::builder()
        .workers(job.workers)
        .strategy::<Q>(Default::default())
        .on_start(pin)
        .build(
            |_| 0_u64,
            |task: S::Task, cx| {
                *cx.scratch() += 1;
                S::children(task, |child| cx.spawn(child));
            },
        )
        .expect("the settings are fine");
    let empty = S::Task::new(0);
    executor.spawn(empty).expect("open");
    while executor.metrics().total().executed == 0 {
        thread::sleep(REST / 10);
    }
    thread::sleep(REST);
    let mut watch = Stopwatch::default();
    let summary = watch.time(|| {
        match job.feed {
            Feed::OneByOne => (0..job.tasks).for_each(|_| executor.spawn(empty).expect("open")),
            Feed::Batches => job
                .batches()
                .for_each(|batch| executor.spawn_batch(batch).expect("open")),
            Feed::Root(root) => executor.spawn(S::Task::new(root)).expect("open"),
        }
        executor.finish()
    });
    tally::check("filch", summary.scratch.iter().sum(), job.tasks + 1);
    watch.sample(job.tasks)
}

pub(super) fn crossbeam<S: Shape>(job: Job) -> Sample {
    let (warm, ready) = mpsc::channel();
    let executor = crossbeam_executor::Executor::new(
        job.workers,
        move |worker| {
            pin(worker);
            // The receiver may be gone when a thread starts late.
            let _ = warm.send(());
        },
        || 0_u64,
        |task: S::Task, cx: &mut crossbeam_executor::Context<S::Task, u64>| {
            cx.scratch += 1;
            S::children(task, |child| cx.spawn_local(child));
        },
    );
    (0..job.workers).for_each(|_| ready.recv().expect("every worker starts"));
    let empty = S::Task::new(0);
    executor.spawn(empty).expect("open");
    thread::sleep(REST);
    let mut watch = Stopwatch::default();
    let scratch = watch.time(|| {
        match job.feed {
            Feed::OneByOne => (0..job.tasks).for_each(|_| executor.spawn(empty).expect("open")),
            Feed::Batches => job
                .batches()
                .for_each(|batch| executor.spawn_batch(batch).expect("open")),
            Feed::Root(root) => executor.spawn(S::Task::new(root)).expect("open"),
        }
        executor.join()
    });
    tally::check("crossbeam", scratch.iter().sum(), job.tasks + 1);
    watch.sample(job.tasks)
}

pub(super) fn rayon<S: Shape>(job: Job) -> Sample {
    fn run<S: Shape>(task: S::Task) {
        tally::one();
        S::children(task, |child| rayon::spawn(move || run::<S>(child)));
    }

    let ran = Arc::new(AtomicU64::new(0));
    let (exits, exited) = mpsc::channel();
    let exit = {
        let ran = ran.clone();
        move |_| {
            tally::collect(&ran);
            exits.send(()).expect("we wait for every worker");
        }
    };
    let pool = pools::rayon(job.workers, Placement::Pinned).exit_handler(exit);
    let pool = pools::build_rayon(pool);
    thread::sleep(REST);
    let mut watch = Stopwatch::default();
    watch.time(|| {
        match job.feed {
            Feed::Root(root) => pool.spawn(move || run::<S>(S::Task::new(root))),
            _ => (0..job.tasks).for_each(|_| pool.spawn(tally::one)),
        }
        // The workers exit when the pool was dropped and every spawned task has run.
        drop(pool);
        (0..job.workers).for_each(|_| exited.recv().expect("every worker leaves"));
    });
    tally::check("rayon", ran.load(Ordering::Relaxed), job.tasks);
    watch.sample(job.tasks)
}

pub(super) fn rayon_scope<S: Shape>(job: Job) -> Sample {
    fn run<'s, S: Shape>(scope: &rayon::Scope<'s>, task: S::Task) {
        tally::one();
        S::children(task, |child| {
            scope.spawn(move |scope| run::<S>(scope, child));
        });
    }

    let pool = pools::build_rayon(pools::rayon(job.workers, Placement::Pinned));
    thread::sleep(REST);
    let mut watch = Stopwatch::default();
    watch.time(|| match job.feed {
        Feed::Root(root) => pool.scope(|scope| run::<S>(scope, S::Task::new(root))),
        _ => pool.in_place_scope(|scope| {
            (0..job.tasks).for_each(|_| scope.spawn(|_| tally::one()));
        }),
    });
    let ran = AtomicU64::new(0);
    pool.broadcast(|_| tally::collect(&ran));
    tally::check("rayon-scope", ran.into_inner(), job.tasks);
    watch.sample(job.tasks)
}

pub(super) fn threadpool<S: Shape>(job: Job) -> Sample {
    fn run<S: Shape>(pool: &Arc<threadpool::ThreadPool>, task: S::Task) {
        tally::one();
        S::children(task, |child| {
            let same = pool.clone();
            pool.execute(move || run::<S>(&same, child));
        });
    }

    let pool = Arc::new(pools::threadpool(job.workers, Placement::Pinned));
    thread::sleep(REST);
    let mut watch = Stopwatch::default();
    watch.time(|| {
        match job.feed {
            Feed::Root(root) => {
                let same = pool.clone();
                pool.execute(move || run::<S>(&same, S::Task::new(root)));
            }
            _ => (0..job.tasks).for_each(|_| pool.execute(tally::one)),
        }
        pool.join();
    });
    let ran = Arc::new(AtomicU64::new(0));
    pools::on_every_worker(&pool, {
        let ran = ran.clone();
        move |_| tally::collect(&ran)
    });
    tally::check("threadpool", ran.load(Ordering::Relaxed), job.tasks);
    watch.sample(job.tasks)
}
