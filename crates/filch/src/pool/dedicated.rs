//! Dedicated workers, which only poll futures.
//!
//! They are threads of the pool, but not workers of its engine: those are woken for any job, while
//! a dedicated worker must be free when a future is woken. Each takes a slot like that of a guest
//! when the [event count](super::event_count) is notified, and leaves it when no urgent job is
//! left. In a pool that has dedicated workers every future that is spawned or woken is urgent: its
//! job is pushed to the lane of High tasks, which all workers check between two tasks, and then the
//! event count is notified.
//!
//! In a pool with a [driver](crate::Driver) one of them waits in the driver instead of on the event
//! count. The ordinary workers of such a pool do not poll the driver.
//!
//! Other jobs that a job enqueues on a dedicated worker are ordinary work. The worker leaves its
//! slot after that job, and so they all go to the injector, for ordinary workers.

use super::{Inner, context::WorkerContext, event_count::EventCount, guest::GUESTS, job::Job};
use crate::{
    base::{error::BuildError, thread, unwind},
    engine::{Level, Placement, sleep::MAX_WORKERS},
    threads::{Duty, SharedDriver, ThreadConfig, ThreadGroup, wake_all},
};
use std::sync::Arc;

/// The dedicated workers of a pool, which only poll futures.
#[derive(Debug)]
pub(crate) struct DedicatedWorkers {
    event_count: EventCount,
    workers: usize,
    driver: Option<SharedDriver>,
}

impl DedicatedWorkers {
    /// For `workers` dedicated workers, beside `threads` ordinary ones. Returns `None` if `workers`
    /// is zero.
    pub(super) fn new(
        workers: usize,
        threads: usize,
        driver: &mut Option<SharedDriver>,
    ) -> Result<Option<Self>, BuildError> {
        if workers > MAX_WORKERS {
            return Err(BuildError::config(format!(
                "{workers} workers for futures are too many; ask for fewer than {MAX_WORKERS}"
            )));
        }
        if workers > 0 && threads == 0 {
            return Err(BuildError::config(
                "a pool without workers leaves all work to its callers; \
                 ask for a worker, or for none that is dedicated to futures",
            ));
        }
        let event_count = EventCount::new();
        Ok((workers > 0).then(|| Self {
            event_count,
            workers,
            driver: driver.take(),
        }))
    }

    /// Waits in the driver, if there is one and it is free, and wakes the futures of its events.
    /// Returns whether it did.
    fn wait_in_driver(&self) -> bool {
        let Some(driver) = &self.driver else {
            return false;
        };
        let (mut ready, mut parked) = (Vec::new(), false);
        driver.if_free(|driver| {
            let park = || parked = thread::park_in(driver, None, &mut ready);
            self.event_count.wait_in(park);
        });
        if !ready.is_empty() {
            wake_all(&mut ready);
            if self.workers > 1 {
                // Another dedicated worker waits in the driver while this one polls futures.
                self.event_count.ring();
            }
        }
        parked
    }

    /// Wakes the futures of the events that have occurred.
    pub(super) fn poll_driver(&self) {
        let mut ready = Vec::new();
        if let Some(driver) = &self.driver {
            driver.poll(&mut ready);
        }
        wake_all(&mut ready);
    }

    pub(super) fn has_driver(&self) -> bool {
        self.driver.is_some()
    }

    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    /// Notifies the dedicated workers that the job of a future has been pushed to the lane of High
    /// tasks.
    pub(crate) fn ring(&self) {
        self.event_count.ring();
    }

    /// Makes the dedicated workers exit, because the workers of the pool exit.
    pub(super) fn end(&self) {
        self.event_count.end();
    }
}

impl Inner {
    /// The dedicated workers, if there are any.
    #[inline(always)]
    pub(crate) fn dedicated(&self) -> Option<&DedicatedWorkers> {
        self.dedicated.as_ref()
    }

    /// Starts the dedicated workers. Their numbers follow those of the ordinary workers.
    pub(super) fn start_dedicated(
        self: &Arc<Self>,
        config: &ThreadConfig,
    ) -> Result<Option<ThreadGroup<()>>, BuildError> {
        let Some(dedicated) = &self.dedicated else {
            return Ok(None);
        };
        let first = self.threads;
        let mut config = config.clone();
        config.name.get_or_insert_with(|| {
            Arc::new(move |number| format!("filch-future-{}", number - first))
        });
        let engine = Arc::as_ptr(&self.core) as usize;
        let numbers = first..first + dedicated.workers;
        ThreadGroup::launch(
            numbers,
            &config,
            engine,
            &Arc::new(DedicatedDuty(self.clone())),
        )
        .map(Some)
    }
}

/// The thread body of the dedicated workers.
struct DedicatedDuty(Arc<Inner>);

impl Duty<()> for DedicatedDuty {
    const WORKERS: bool = false;

    fn init(&self, _number: usize) {}

    fn run(&self, number: usize, (): ()) {
        let pool = &*self.0;
        let Some(dedicated) = pool.dedicated() else {
            return;
        };
        // Their slots follow those of the guests.
        let place = GUESTS + number - pool.threads;
        let more = || dedicated.workers > 1 && pool.core.has_urgent();
        let serve = |context: &WorkerContext<'_, '_>| {
            context.serve_urgent(|| dedicated.event_count.pass_on(more()));
        };
        unwind::or_abort(|| {
            dedicated.event_count.attend(
                || pool.core.has_urgent(),
                || pool.at_place(place, serve),
                || dedicated.wait_in_driver(),
            );
        });
    }

    fn stop(&self) {
        if let Some(dedicated) = self.0.dedicated() {
            dedicated.end();
        }
    }
}

impl WorkerContext<'_, '_> {
    /// Whether this is a dedicated worker.
    pub(crate) fn is_dedicated(&self) -> bool {
        self.worker() >= self.pool().threads + GUESTS
    }

    /// Pushes the job of a future to the lane that the dedicated workers serve, and wakes one of
    /// them. Where waits are isolated, the job is pushed to this worker's own queue.
    #[cold]
    pub(crate) fn push_for_dedicated(&self, dedicated: &DedicatedWorkers, job: Job) {
        self.push(job, Placement::Lane(Level::High));
        dedicated.ring();
    }

    /// Runs urgent jobs, until there are none, or until one has enqueued a job here, which ordinary
    /// workers should run. Calls `on_take` before each.
    fn serve_urgent(&self, on_take: impl Fn()) {
        // As in `serve`, but outside of any task.
        self.with_wait_target(self, || {
            while let Some(job) = self.running().take_urgent() {
                on_take();
                self.nest(job);
                thread::point();
                if !self.running().queue().owner().is_empty() {
                    return;
                }
            }
        });
    }
}
