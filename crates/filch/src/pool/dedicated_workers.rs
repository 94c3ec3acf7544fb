//! What the dedicated workers of a pool share: the event count on which they wait, and the driver.
//! `dedicated.rs` has their threads.

use super::event_count::EventCount;
use crate::{
    base::{error::BuildError, thread},
    engine::MAX_WORKERS,
    threads::{SharedDriver, wake_all},
};

/// The dedicated workers of a pool, which only poll futures.
#[derive(Debug)]
pub(crate) struct DedicatedWorkers {
    pub(super) event_count: EventCount,
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
    pub(super) fn wait_in_driver(&self) -> bool {
        let Some(driver) = &self.driver else {
            return false;
        };
        let (mut ready, mut parked) = (Vec::new(), false);
        driver.call_if_free(|driver| {
            let park = || parked = thread::park_in(driver, None, &mut ready);
            self.event_count.wait_in(park);
        });
        if !ready.is_empty() {
            wake_all(&mut ready);
            if self.workers > 1 {
                // Another dedicated worker waits in the driver while this one polls futures.
                self.event_count.notify();
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
    pub(crate) fn notify(&self) {
        self.event_count.notify();
    }

    /// Makes the dedicated workers exit, because the workers of the pool exit.
    pub(super) fn close(&self) {
        self.event_count.close();
    }
}
