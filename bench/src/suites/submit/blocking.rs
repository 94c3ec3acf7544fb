//! Calls that block, marked as such: empty ones in a row, and sleeps beside one another.
//!
//! tokio's `block_in_place` hands the tasks of its worker over to another thread, and
//! `spawn_blocking` moves the call to a thread of its own. The task that makes the calls runs on a
//! worker in each system, while the main thread sleeps.

use crate::{
    harness::Case,
    pools,
    stopwatch::{Sample, Stopwatch},
};
use std::{
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};
use tokio::{runtime::Runtime, task};

/// The length of a call that sleeps.
const SLEEP: Duration = Duration::from_millis(1);

/// Starts the calls on a pool, each of which sends at its end; or all of them together.
type Start<P> = fn(&P, u64, Sender<()>);

pub(super) fn empty(case: Case, workers: usize, calls: u64) -> Case {
    case.system("filch", filch_sampler(workers, calls, empty_filch))
        .system(
            "tokio-in-place",
            tokio_sampler(workers, calls, empty_in_place),
        )
        .system("tokio-spawn", tokio_sampler(workers, calls, empty_spawned))
}

pub(super) fn sleeps(case: Case, workers: usize, calls: u64) -> Case {
    case.system("filch", filch_sampler(workers, calls, sleeps_filch))
        .system(
            "tokio-in-place",
            tokio_sampler(workers, calls, sleeps_in_place),
        )
        .system("tokio-spawn", tokio_sampler(workers, calls, sleeps_spawned))
}

fn empty_filch(pool: &filch::Pool, calls: u64, done: Sender<()>) {
    pool.spawn(move || {
        (0..calls).for_each(|_| filch::blocking(|| ()));
        report(&done);
    });
}

fn empty_in_place(runtime: &Runtime, calls: u64, done: Sender<()>) {
    runtime.spawn(async move {
        (0..calls).for_each(|_| task::block_in_place(|| ()));
        report(&done);
    });
}

fn empty_spawned(runtime: &Runtime, calls: u64, done: Sender<()>) {
    runtime.spawn(async move {
        for _ in 0..calls {
            let call = task::spawn_blocking(|| ());
            call.await.expect("it does not panic");
        }
        report(&done);
    });
}

fn sleeps_filch(pool: &filch::Pool, calls: u64, done: Sender<()>) {
    for done in (0..calls).map(|_| done.clone()) {
        pool.spawn(move || {
            filch::blocking(|| thread::sleep(SLEEP));
            report(&done);
        });
    }
}

fn sleeps_in_place(runtime: &Runtime, calls: u64, done: Sender<()>) {
    for done in (0..calls).map(|_| done.clone()) {
        runtime.spawn(async move {
            task::block_in_place(|| thread::sleep(SLEEP));
            report(&done);
        });
    }
}

fn sleeps_spawned(runtime: &Runtime, calls: u64, done: Sender<()>) {
    for done in (0..calls).map(|_| done.clone()) {
        runtime.spawn_blocking(move || {
            thread::sleep(SLEEP);
            report(&done);
        });
    }
}

/// Times until every sender that `start` has passed on is gone.
fn sample(calls: u64, start: impl FnOnce(Sender<()>)) -> Sample {
    let (sender, done) = mpsc::channel();
    let mut watch = Stopwatch::default();
    watch.time(|| {
        start(sender);
        done.into_iter().for_each(drop);
    });
    watch.sample(calls)
}

fn report(done: &Sender<()>) {
    done.send(()).expect("the main thread waits");
}

fn filch_sampler(workers: usize, calls: u64, start: Start<filch::Pool>) -> impl FnMut() -> Sample {
    pools::used(
        move || pools::filch(workers, 0),
        move |pool| sample(calls, |done| start(pool, calls, done)),
        |_| (),
    )
}

fn tokio_sampler(workers: usize, calls: u64, start: Start<Runtime>) -> impl FnMut() -> Sample {
    pools::used(
        move || pools::tokio(workers),
        move |runtime| sample(calls, |done| start(runtime, calls, done)),
        |_| (),
    )
}
