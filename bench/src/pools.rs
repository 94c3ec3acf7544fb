//! Pools of other crates, with pinned workers.

use crate::{
    forks::REST,
    pin::{self, Placement},
};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    num::NonZero,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use tokio::runtime::{Builder, Runtime};

/// Takes samples with a pool that is started, and used once, for the first of them.
pub(crate) fn used<P, R>(
    start: impl Fn() -> P,
    sample: impl Fn(&P) -> R,
    settle: impl Fn(&P),
) -> impl FnMut() -> R {
    let mut pool = None;
    move || {
        let pool = pool.get_or_insert_with(|| {
            let pool = start();
            let _ = sample(&pool);
            settle(&pool);
            pool
        });
        thread::sleep(REST);
        let sample = sample(pool);
        settle(pool);
        sample
    }
}

/// A builder of a rayon pool, for [`build_rayon`].
pub(crate) fn rayon(workers: usize, placement: Placement) -> ThreadPoolBuilder {
    ThreadPoolBuilder::new()
        .num_threads(workers)
        .start_handler(move |worker| placement.place_worker(worker))
}

/// Builds the pool and waits until its workers are pinned.
pub(crate) fn build_rayon(builder: ThreadPoolBuilder) -> ThreadPool {
    let pool = builder.build().expect("the settings are fine");
    // The start handlers may still be running when `build` returns; a broadcast runs after them.
    pool.broadcast(|_| ());
    pool
}

/// A filch pool of `threads` threads, numbered from worker `first`. The workers before it are
/// callers that take part.
pub(crate) fn filch(threads: usize, first: usize) -> filch::Pool {
    filch::Pool::builder()
        .workers(threads)
        .on_start(move |thread| Placement::Pinned.place_worker(first + thread))
        .build()
        .expect("the settings are fine")
}

/// A tokio runtime with this number of worker threads, and a timer.
pub(crate) fn tokio(workers: usize) -> Runtime {
    // Start hooks do not receive an index. The first threads are the workers; later ones run
    // blocking tasks.
    let started = AtomicUsize::new(0);
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_time()
        .on_thread_start(move || {
            // Relaxed: only distinct numbers are needed.
            Placement::Pinned.place_worker(started.fetch_add(1, Ordering::Relaxed));
        })
        .build()
        .expect("the settings are fine")
}

/// A chili pool, whose worker 0 is the caller.
pub(crate) fn chili(workers: usize) -> chili::ThreadPool {
    let config = chili::Config {
        thread_count: NonZero::new(workers),
        ..chili::Config::default()
    };
    // chili has no hooks. The last thread that it starts is not a worker but the heartbeat.
    pin::place_started(workers - 1, || chili::ThreadPool::with_config(config))
}

/// A pool of the threadpool crate.
pub(crate) fn threadpool(workers: usize, placement: Placement) -> threadpool::ThreadPool {
    let pool = threadpool::ThreadPool::new(workers);
    on_every_worker(&pool, move |worker| placement.place_worker(worker));
    pool
}

/// Calls `visit` once on each worker. threadpool has no hooks, so a barrier holds each worker in
/// its task.
pub(crate) fn on_every_worker(
    pool: &threadpool::ThreadPool,
    visit: impl Fn(usize) + Send + Sync + 'static,
) {
    let workers = pool.max_count();
    let (visit, barrier) = (Arc::new(visit), Arc::new(Barrier::new(workers)));
    for worker in 0..workers {
        let (visit, barrier) = (visit.clone(), barrier.clone());
        pool.execute(move || {
            barrier.wait();
            visit(worker);
        });
    }
    pool.join();
}
