//! Delivery of the events of the pool's driver to its futures.
//!
//! A worker that has found events between two tasks wakes their futures in a context of its own
//! ([`WorkerContext::wake_ready`]), so their jobs go to its own queue. Within a task the futures
//! are woken as from outside ([`WorkerContext::as_outside`]), since the task may be long.

use super::{Inner, context::WorkerContext};
use crate::{
    base::{Instant, thread},
    threads::{ClockSampler, wake_all},
};
use std::{
    cell::{Cell, RefCell},
    task::Waker,
    time::Duration,
};

/// Interval, in nanoseconds, after which a task polls the driver at its next checkpoint. The same
/// as between tasks (`threads/maintenance.rs`).
const POLL_INTERVAL_NANOS: u64 = 100_000;

/// The maximum number of checkpoints between two readings of the clock.
const MAX_CHECKPOINTS_BETWEEN_SAMPLES: u32 = 63;

/// How long a dedicated worker that blocks in a future waits between two polls of the driver.
const DRIVER_POLL_INTERVAL: Duration = Duration::from_millis(1);

thread_local! {
    /// When to read the clock, and when this thread polled last.
    static DRIVER_POLLS: Cell<(ClockSampler, u64)> =
        const { Cell::new((ClockSampler::new(MAX_CHECKPOINTS_BETWEEN_SAMPLES), 0)) };

    /// The wakers of the events that were found within a task; empty between two polls.
    static READY: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

impl Inner {
    #[inline(always)]
    pub(crate) fn has_driver(&self) -> bool {
        self.has_driver
    }
}

impl WorkerContext<'_, '_> {
    /// Whether the worker is waking the futures of events: their jobs run next.
    #[inline(always)]
    pub(crate) fn is_waking_events(&self) -> bool {
        self.wakes.get()
    }

    /// Wakes the futures of events, on this worker, which runs no task. `first`: whether their jobs
    /// come before what is queued here.
    pub(super) fn wake_ready(&self, ready: &mut Vec<Waker>, first: bool) {
        if self.pool().core().is_stopped() || self.has_queued() && !first {
            // A stopped worker enqueues nothing here any more. Events that are found while jobs of
            // earlier ones are queued here would be served before those: the worker takes its
            // newest job first.
            return self.as_outside(|| wake_all(ready));
        }
        self.wakes.set(true);
        // The worker takes the newest job first, which should be that of the first event.
        ready.reverse();
        wake_all(ready);
        self.wakes.set(false);
        if self.running().queue().owner().len() > 1 {
            self.running().notify();
        }
    }

    /// Parks until `until` returns true, in the driver if that is free, and no longer than `limit`.
    pub(super) fn park(&self, limit: Option<Duration>, until: impl Fn() -> bool) {
        if let Some(dedicated) = self.pool().dedicated()
            && dedicated.has_driver()
            && self.is_dedicated()
        {
            // This may be the worker that should wait in the driver.
            let begin = Instant::now();
            while !until() {
                let left = match limit {
                    Some(limit) => limit.saturating_sub(begin.elapsed()),
                    None => DRIVER_POLL_INTERVAL,
                };
                if left.is_zero() {
                    break;
                }
                let limit = left.min(DRIVER_POLL_INTERVAL);
                let parkers = &self.pool().parkers;
                parkers.park(self.worker(), Some(limit), &mut Vec::new(), &until);
                self.as_outside(|| dedicated.poll_driver());
            }
            return;
        }
        let mut ready = Vec::new();
        let begin = limit.map(|_| Instant::now());
        let mut left = limit;
        loop {
            self.pool()
                .parkers
                .park(self.worker(), left, &mut ready, &until);
            if ready.is_empty() {
                break;
            }
            self.as_outside(|| wake_all(&mut ready));
            // Events may keep coming: the limit is for all of them together.
            if let (Some(limit), Some(begin)) = (limit, begin) {
                left = Some(limit.saturating_sub(begin.elapsed()));
            }
            if until() || left == Some(Duration::ZERO) {
                break;
            }
        }
        // The task continues, for an unknown time.
        self.pool().parkers.hand_over();
    }

    /// Polls the driver within a task that has nothing to run, or has run for some time.
    pub(super) fn poll_driver(&self) {
        let mut ready = READY.try_with(RefCell::take).unwrap_or_default();
        self.pool().parkers.poll(&mut ready);
        if !ready.is_empty() {
            self.as_outside(|| wake_all(&mut ready));
        }
        let _ = READY.try_with(|place| place.replace(ready));
    }

    /// Polls the drivers of all pools whose tasks this thread runs.
    pub(crate) fn poll_drivers(&self) {
        self.poll_driver();
        self.enclosing().for_each(WorkerContext::poll_driver);
    }

    /// Polls the driver, if this thread has not done so for [`POLL_INTERVAL_NANOS`]. Does not poll
    /// it while waits are isolated: the driver wakes unrelated futures, and the caller may hold a
    /// lock that they want.
    pub(super) fn poll_driver_if_due(&self) {
        let due = DRIVER_POLLS.with(|polls| {
            let (mut sampler, polled) = polls.get();
            let is_due = sampler.tick();
            polls.set((sampler, polled));
            is_due
        });
        if due {
            self.sample_driver_clock();
        }
    }

    #[inline(never)]
    fn sample_driver_clock(&self) {
        let now = thread::nanos();
        let (mut sampler, polled) = DRIVER_POLLS.get();
        sampler.record(now);
        let due = now.saturating_sub(polled) >= POLL_INTERVAL_NANOS;
        DRIVER_POLLS.set((sampler, if due { now } else { polled }));
        if due && !self.has_restricted_waits() {
            self.poll_driver();
            self.pool().parkers.hand_over();
        }
    }
}
