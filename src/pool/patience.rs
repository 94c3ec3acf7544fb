//! How long a wait keeps to its own subtree before it runs unrelated work.
//!
//! A worker that waits for a task which another one runs can help with three kinds of work: what its own
//! job has queued, what the worker that runs the task has queued (most likely parts of it), and anything
//! else. The first two bring the end of the wait nearer. An unrelated task does not, and its length is
//! unknown: a wait of 10 µs that picks up a task of 100 ms ends 100 ms late (oneTBB #942, Taskflow #649).
//! On the other hand a worker that never helped would be idle for the length of every long wait.
//!
//! So a wait is patient: for the first 50 µs, if it knows which worker runs the task and can steal there,
//! it runs related work only, and spins. If it does not know, it does so for 10 µs, unless unrelated work
//! lately took less than 50 µs on this thread. After that it runs unrelated work when it has waited for
//! as long as such work lately took, at most 10 ms. As with every rule of the
//! kind that rents until the rent has paid for the house, what it loses is at most about what a wait that
//! knew the future would: a wait ends late by no more than the time that it has waited already, unless
//! unrelated tasks have become much longer since the last one.

use super::{latch::Awaited, waiting::pause};
use crate::base::thread;
use std::{cell::Cell, time::Duration};

/// How often a wait looks for related work, with eight pauses in between: about 10 µs.
const LOOKS: u32 = 48;

/// The same where it knows which worker runs what it waits for: about 50 µs.
const LOOKS_AT_RUNNER: u32 = 192;

/// ClockSampler between two attempts to steal from that worker: each reads a line that the worker writes at every
/// push and pop.
const STEAL_EVERY: u32 = 4;

/// ClockSampler between two yields to other threads.
const YIELD_EVERY: u32 = 16;

/// The longest time that a wait leaves unrelated work alone, in nanoseconds.
const LONGEST: u64 = 10_000_000;

/// Unrelated work that takes less than this, in nanoseconds, is never worth waiting for.
const WORTHWHILE: u64 = 50_000;

/// How long a wait sleeps between two looks for urgent work, in nanoseconds: a push does not wake a
/// worker in this state.
const NAP: u64 = 100_000;

thread_local! {
    /// How long unrelated work lately took in waits of this thread, in nanoseconds: a moving average.
    static UNRELATED: Cell<u64> = const { Cell::new(4 * WORTHWHILE) };
}

/// See the module.
pub(super) struct Patience {
    /// ClockSampler so far, and at most.
    looks: u32,
    limit: u32,
    /// When the first phase ended; none before.
    since: Option<u64>,
}

impl Patience {
    /// For a wait that knows which worker runs what it waits for, or not.
    pub(super) fn new(knows_runner: bool) -> Self {
        let limit = match knows_runner {
            true => LOOKS_AT_RUNNER,
            false if UNRELATED.get() < WORTHWHILE => 0,
            false => LOOKS,
        };
        Self {
            looks: 0,
            limit: limit.min(thread::patience(limit.max(1))),
            since: None,
        }
    }

    /// Whether the wait may run unrelated work.
    pub(super) fn is_over(&self) -> bool {
        self.looks >= self.limit
    }

    /// Whether this look includes an attempt to steal.
    pub(super) fn tries_steal(&self) -> bool {
        self.looks.is_multiple_of(STEAL_EVERY)
    }

    /// There was nothing to run: pauses, or lets another thread run.
    pub(super) fn pause(&mut self, event: &impl Awaited) {
        self.looks += 1;
        if self.looks.is_multiple_of(YIELD_EVERY) {
            thread::yield_now();
        }
        pause(8, event);
    }

    /// How long to sleep before the next look for urgent work, while unrelated work is left alone.
    pub(super) fn nap(&mut self) -> Option<Duration> {
        let unrelated = UNRELATED.get().min(LONGEST);
        // In a rehearsal time is what has happened, and a wait that naps would hide lost wakes.
        if unrelated < WORTHWHILE || thread::is_directed() {
            return None;
        }
        let now = thread::nanos();
        let waited = now.saturating_sub(*self.since.get_or_insert(now));
        let left = unrelated.saturating_sub(waited);
        (left > 0).then(|| Duration::from_nanos(left.min(NAP)))
    }

    /// Unrelated work ran from `begin` to `end`.
    pub(super) fn ran(begin: u64, end: u64) {
        let took = end.saturating_sub(begin);
        UNRELATED.set((3 * UNRELATED.get() + took) / 4);
    }
}
