//! Workers that are kept for futures.
//!
//! They are threads of the pool, but no workers of its engine: those are woken for any job, and these must not be busy when a
//! future is woken. Each has a place like that of a guest, which it takes when the [bell](super::bell) rings, and leaves when
//! nothing urgent is left. In a pool that has such workers every future that is spawned or woken is urgent: its job goes to the
//! lane of High tasks, where all workers look between two tasks, and then the bell rings.
//!
//! In a pool with a [driver](crate::Driver) one of them waits in the driver instead of for the bell. The other workers of such a
//! pool leave the driver alone.
//!
//! What a job queues on such a worker besides is ordinary work. The worker leaves its place after that job, and so it all
//! goes to the injector, for others.

use super::{Inner, context::WorkerContext, event_count::EventCount, guest::GUESTS, job::Job};
use crate::{
    base::{error::BuildError, thread, unwind},
    engine::{Level, sleep::MAX_WORKERS},
    threads::{Duty, SharedDriver, ThreadConfig, ThreadGroup, wake_all},
};
use std::sync::Arc;

/// The workers of a pool that are kept for futures.
#[derive(Debug)]
pub(crate) struct DedicatedWorkers {
    event_count: EventCount,
    workers: usize,
    driver: Option<SharedDriver>,
}

impl DedicatedWorkers {
    /// For so many, beside `threads` workers; none if there are to be none.
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

    /// Waits in the driver, if there is one and it is free, and wakes the futures of its events. False if not.
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
                // Another one waits in the driver while this one polls.
                self.event_count.ring();
            }
        }
        parked
    }

    /// Wakes the futures of the events that are there.
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

    /// A future has been queued where all look.
    pub(crate) fn ring(&self) {
        self.event_count.ring();
    }

    /// The workers of the pool go home, and those who are kept should too.
    pub(super) fn end(&self) {
        self.event_count.end();
    }
}

impl Inner {
    /// Those who are kept for futures, if there are any.
    #[inline(always)]
    pub(crate) fn dedicated(&self) -> Option<&DedicatedWorkers> {
        self.dedicated.as_ref()
    }

    /// Starts them. Their numbers come after those of the other workers.
    pub(super) fn keep(
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
        ThreadGroup::launch(numbers, &config, engine, &Arc::new(Attending(self.clone()))).map(Some)
    }
}

/// What they do.
struct Attending(Arc<Inner>);

impl Duty<()> for Attending {
    const WORKERS: bool = false;

    fn init(&self, _number: usize) {}

    fn run(&self, number: usize, (): ()) {
        let pool = &*self.0;
        let Some(dedicated) = pool.dedicated() else {
            return;
        };
        // Their places come after those of the guests.
        let place = GUESTS + number - pool.threads;
        let more = || dedicated.workers > 1 && pool.core.has_urgent();
        let serve = |context: &WorkerContext<'_, '_>| {
            context.serve_urgent(|| dedicated.event_count.pass_on(more()))
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
    /// Whether this worker is kept for futures.
    pub(crate) fn is_dedicated(&self) -> bool {
        self.worker() >= self.pool().threads + GUESTS
    }

    /// Queues the job of a future where those who are kept for futures see it, and wakes one of them. Where waits run only what
    /// was queued here, it is queued here.
    #[cold]
    pub(crate) fn push_for_kept(&self, dedicated: &DedicatedWorkers, job: Job) {
        self.push_at(Level::High, job);
        dedicated.ring();
    }

    /// Runs urgent jobs, until there are none, or one has queued something here, which others should run. Before each it says that
    /// it `took` one.
    fn serve_urgent(&self, took: impl Fn()) {
        // As in `relieve`, with nothing around it.
        self.with_wait_target(self, || {
            while let Some(job) = self.running().take_urgent() {
                took();
                self.nest(job);
                thread::point();
                if !self.running().queue().owner().is_empty() {
                    return;
                }
            }
        });
    }
}
