//! How long a wait runs only its own subtree before it runs unrelated work.
//!
//! A worker that waits for a task which another worker runs can run three kinds of work: what its
//! own job has enqueued, what the worker that runs the task has enqueued (most likely parts of it),
//! and anything else. The first two bring the end of the wait nearer. An unrelated task does not,
//! and its length is unknown: a wait of 10 µs that runs a task of 100 ms ends 100 ms late (oneTBB
//! #942, Taskflow #649). On the other hand a worker that never helped would be idle for the length
//! of every long wait.
//!
//! So if the wait knows which worker runs the task (for a group of tasks: which worker has begun
//! one last) it runs related work only, and spins, until it has found none for 50 µs. If it does
//! not know, it does so for 10 µs, unless unrelated work recently took less than 50 µs on this
//! thread. After that it runs unrelated work when it has waited for as long as such work recently
//! took, at most 10 ms. As with every solution of the ski rental problem, the loss is at most about
//! that of a wait that knew the future: a wait ends late by no more than the time that it has
//! waited already, unless unrelated tasks have become much longer since the last one.
//!
//! Meanwhile it checks for related work every 100 µs, as long as other work is queued. If none is,
//! there is nothing to leave alone, and the wait sleeps as an idle worker does.

use super::latch::WaitTarget;
use crate::base::thread;
use std::{cell::Cell, hint, time::Duration};

/// Number of searches for related work, with eight pauses in between: about 10 µs.
const SEARCHES: u32 = 48;

/// As [`SEARCHES`], where the wait knows which worker runs what it waits for: about 50 µs.
const SEARCHES_AT_RUNNER: u32 = 192;

/// Number of searches per attempt to steal from that worker: each attempt reads a cache line that
/// the worker writes at every push and pop.
const STEAL_EVERY: u32 = 4;

/// Number of searches per yield to other threads.
const YIELD_EVERY: u32 = 16;

/// The maximum time for which a wait runs no unrelated work, in nanoseconds.
const MAX_DELAY_NANOS: u64 = 10_000_000;

/// Unrelated work that takes less than this, in nanoseconds, is never delayed.
const SHORT_NANOS: u64 = 50_000;

/// The longest time that a wait parks between two checks for urgent work, in nanoseconds: a push
/// does not wake a worker in this state.
const MAX_PARK_NANOS: u64 = 100_000;

thread_local! {
    /// Recent duration of unrelated work in waits of this thread, in nanoseconds: a moving average.
    static UNRELATED: Cell<u64> = const { Cell::new(4 * SHORT_NANOS) };
}

/// Pauses, but checks the event every time: a pause takes up to 50 ns, and this word belongs to the
/// waiter.
pub(super) fn pause(pauses: u32, event: &impl WaitTarget) {
    for _ in 0..pauses {
        if event.has_happened() {
            return;
        }
        hint::spin_loop();
    }
}

/// The state of one wait: see the module.
pub(super) struct WaitBackoff {
    /// Searches so far.
    searches: u32,
    /// When the first phase ended; `None` before.
    since: Option<u64>,
}

impl WaitBackoff {
    pub(super) fn new() -> Self {
        Self {
            searches: 0,
            since: None,
        }
    }

    /// Whether the wait may run unrelated work, if it does or does not know which worker runs what
    /// it waits for.
    pub(super) fn allows_unrelated(&self, knows_runner: bool) -> bool {
        let limit = match knows_runner {
            true => SEARCHES_AT_RUNNER,
            false if UNRELATED.get() < SHORT_NANOS => return true,
            false => SEARCHES,
        };
        self.searches >= limit.min(thread::spin_limit(limit))
    }

    /// Starts again, because the wait has found related work.
    pub(super) fn reset(&mut self) {
        *self = Self::new();
    }

    /// Whether this search includes an attempt to steal.
    pub(super) fn should_steal(&self) -> bool {
        self.searches.is_multiple_of(STEAL_EVERY)
    }

    /// Pauses, or yields to another thread, after a search that found nothing.
    pub(super) fn snooze(&mut self, event: &impl WaitTarget) {
        self.searches += 1;
        if self.searches.is_multiple_of(YIELD_EVERY) {
            thread::yield_now();
        }
        pause(8, event);
    }

    /// Returns how long to park before the next check for urgent work, while unrelated work is not
    /// run.
    pub(super) fn park_limit(&mut self) -> Option<Duration> {
        let unrelated = UNRELATED.get().min(MAX_DELAY_NANOS);
        // In a rehearsal time depends on what has happened, and a wait with a time limit would hide
        // lost wake-ups.
        if unrelated < SHORT_NANOS || thread::is_directed() {
            return None;
        }
        let now = thread::nanos();
        let waited = now.saturating_sub(*self.since.get_or_insert(now));
        let left = unrelated.saturating_sub(waited);
        (left > 0).then(|| Duration::from_nanos(left.min(MAX_PARK_NANOS)))
    }

    /// Records that unrelated work ran from `begin` to `end`.
    pub(super) fn record_unrelated(begin: u64, end: u64) {
        let took = end.saturating_sub(begin);
        UNRELATED.set((3 * UNRELATED.get() + took) / 4);
    }
}
