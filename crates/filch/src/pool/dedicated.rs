//! Dedicated workers, which only poll futures.
//!
//! They are threads of the pool, but workers of its engine only while they serve: those are woken
//! for any job, while a dedicated worker must be free when a future is woken. Each takes a slot
//! like that of a guest when the [event count](super::event_count) is notified, and leaves it when
//! no urgent job is left. In a pool that has dedicated workers every future that is spawned or
//! woken is urgent: its job is pushed to the lane of High tasks, which all workers check between
//! two tasks, and then the event count is notified.
//!
//! In a pool with a [driver](crate::Driver) one of them waits in the driver instead of on the event
//! count. The ordinary workers of such a pool do not poll the driver.
//!
//! Other jobs that a job enqueues on a dedicated worker are ordinary work. The worker leaves its
//! slot after that job, and so they all go to the injector, for ordinary workers.

use super::{
    dedicated_workers::DedicatedWorkers,
    guest_slots::GUESTS,
    inner::{Inner, Job, WorkerContext},
};
use crate::{
    base::{error::BuildError, thread, unwind},
    engine::{Placement, Priority},
    threads::{ThreadConfig, ThreadGroup, ThreadMain},
};
use std::sync::Arc;

impl Inner {
    /// Starts the dedicated workers. Their numbers follow those of the ordinary workers.
    pub(super) fn start_dedicated(
        self: &Arc<Self>,
        config: &ThreadConfig,
    ) -> Result<Option<ThreadGroup<()>>, BuildError> {
        let Some(dedicated) = &self.dedicated else {
            return Ok(None);
        };
        let first = self.max_threads();
        let config = config.named("filch-future", first);
        let engine = Arc::as_ptr(&self.core) as usize;
        let numbers = first..first + dedicated.workers();
        ThreadGroup::launch(
            numbers,
            &config,
            engine,
            &Arc::new(DedicatedMain(self.clone())),
        )
        .map(Some)
    }
}

/// The thread body of the dedicated workers.
struct DedicatedMain(Arc<Inner>);

impl ThreadMain<()> for DedicatedMain {
    const WORKERS: bool = false;

    fn init(&self, _number: usize) {}

    fn run(&self, number: usize, (): ()) -> Option<()> {
        let pool = &*self.0;
        let dedicated = pool.dedicated()?;
        // Their slots follow those of the guests.
        let slot = GUESTS + number - pool.max_threads();
        let more = || dedicated.workers() > 1 && pool.core.has_urgent();
        let serve = |context: &WorkerContext<'_, '_>| {
            context.serve_urgent(|| dedicated.event_count.pass_on(more()));
        };
        unwind::or_abort(|| {
            dedicated.event_count.run_worker(
                || pool.core.has_urgent(),
                || pool.in_slot(slot, &mut |context| serve(context)),
                || dedicated.wait_in_driver(),
            );
        });
        Some(())
    }

    fn stop(&self) {
        if let Some(dedicated) = self.0.dedicated() {
            dedicated.close();
        }
    }
}

impl WorkerContext<'_, '_> {
    /// Whether this is a dedicated worker.
    pub(crate) fn is_dedicated(&self) -> bool {
        self.worker() >= self.pool().max_threads() + GUESTS
    }

    /// Pushes the job of a future to the lane that the dedicated workers serve, and wakes one of
    /// them. Where waits are isolated, the job is pushed to this worker's own queue.
    #[cold]
    pub(crate) fn push_for_dedicated(&self, dedicated: &DedicatedWorkers, job: Job) {
        self.push(job, Placement::Lane(Priority::High));
        dedicated.notify();
    }

    /// Runs urgent jobs, until there are none, or until one has enqueued a job here, which ordinary
    /// workers should run. Calls `on_take` before each.
    fn serve_urgent(&self, on_take: impl Fn()) {
        // As in `serve`, but outside of any task.
        self.with_wait_target(self, || {
            while let Some(job) = self.running().take_urgent() {
                on_take();
                self.run_nested(job);
                thread::point();
                if !self.running().queue().owner().is_empty() {
                    return;
                }
            }
        });
    }
}
