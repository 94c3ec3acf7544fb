//! tokio's `spawn_blocking`, with as many blocking threads as workers and no others.

use super::{Pending, Submits};
use crate::pin::Placement;
use std::{
    collections::VecDeque,
    sync::{Arc, Barrier},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};

/// Longer than any benchmark: a thread that exited would be replaced by one that is not pinned.
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct Tokio;

impl Submits for Tokio {
    type Pool = Runtime;
    type Pending<'p> = Handles<'p>;

    fn pool(workers: usize) -> Runtime {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(workers)
            .thread_keep_alive(FOREVER)
            .build()
            .expect("the settings are fine");
        // A barrier holds each thread in its task until all threads have started.
        let barrier = Arc::new(Barrier::new(workers));
        let visits = (0..workers).map(|worker| {
            let barrier = barrier.clone();
            runtime.spawn_blocking(move || {
                barrier.wait();
                Placement::Pinned.place_worker(worker);
            })
        });
        for visit in visits.collect::<Vec<_>>() {
            runtime.block_on(visit).expect("no thread panics");
        }
        runtime
    }

    fn pending(runtime: &Runtime) -> Handles<'_> {
        Handles {
            runtime,
            handles: VecDeque::new(),
        }
    }

    #[inline(always)]
    fn detach(runtime: &Runtime, task: impl FnOnce() + Send + 'static) {
        drop(runtime.spawn_blocking(task));
    }
}

pub(crate) struct Handles<'p> {
    runtime: &'p Runtime,
    handles: VecDeque<JoinHandle<u64>>,
}

impl Pending for Handles<'_> {
    #[inline(always)]
    fn submit(&mut self, task: impl FnOnce() -> u64 + Send + 'static) {
        self.handles.push_back(self.runtime.spawn_blocking(task));
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        let handle = self.handles.pop_front().expect("a task is pending");
        // Through a `Handle`, since several threads wait, and only one can drive the runtime
        // itself.
        let result = self.runtime.handle().block_on(handle);
        result.expect("no task panics")
    }

    #[inline(always)]
    fn finish(self) -> u64 {
        self.runtime.handle().block_on(async {
            let mut sum = 0;
            for handle in self.handles {
                sum += handle.await.expect("no task panics");
            }
            sum
        })
    }
}
