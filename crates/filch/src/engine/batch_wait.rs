//! When a worker waits for tasks from outside to accumulate before it takes them.
//!
//! If a thread submits tasks one after the other, and a worker takes each of them at once, both
//! contend for the injector: its cache line moves back and forth for every task, and both are
//! slower. A worker that takes dozens at a time pays once for all. So a worker that repeatedly
//! finds only a few tasks waits briefly for more. If more arrive, it waits again the next time. If
//! not, the wait has cost a microsecond or two, and is not tried again for a while: a thread that
//! submits one task, waits for it and submits the next must not be delayed
//! (`docs/decisions/0009-submitted-tasks.md`).

use crate::base::sync::hint;

/// From this number of queued tasks on a worker does not wait: as many as it takes at once.
const ENOUGH_QUEUED: usize = 64;

/// The shortest and the longest wait, in spin-loop hints: one to two microseconds, and four times
/// that. The waits grow while tasks keep arriving and are still few at the end of a wait: each take
/// costs the submitter a few cache misses, so fewer takes are better.
const WAIT_SPINS: (u32, u32) = (100, 400);

/// The number of tasks that must arrive during a wait for it to be worth while.
const MIN_ARRIVALS: usize = 8;

/// The number of takes without a wait after a failed wait: at first, and at most. Each failed wait
/// doubles it.
const SKIPPED_WAITS: (u32, u32) = (4, 64);

/// What one worker has learned about the arrival of tasks from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchWait {
    /// The number of takes of few tasks until the next wait.
    skips: u32,
    /// The value of `skips` after the next failed wait.
    next: u32,
    /// The length of the next wait, in spin-loop hints.
    spins: u32,
}

impl BatchWait {
    pub(super) fn new() -> Self {
        Self {
            skips: SKIPPED_WAITS.0,
            next: SKIPPED_WAITS.0,
            spins: WAIT_SPINS.0,
        }
    }

    /// Returns the number of tasks to expect, after a wait if that is due; `length` returns how
    /// many are queued at the moment.
    pub(super) fn wait(&mut self, length: impl Fn() -> usize) -> usize {
        let first = length();
        if first >= ENOUGH_QUEUED {
            return first;
        }
        if self.skips > 0 {
            self.skips -= 1;
            return first;
        }
        for _ in 0..self.spins {
            hint::spin_loop();
        }
        let then = length();
        if then < first + MIN_ARRIVALS {
            self.skips = self.next;
            self.next = (2 * self.next).min(SKIPPED_WAITS.1);
            self.spins = WAIT_SPINS.0;
        } else {
            self.next = SKIPPED_WAITS.0;
            if then < ENOUGH_QUEUED {
                self.spins = (2 * self.spins).min(WAIT_SPINS.1);
            }
        }
        then
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{BatchWait, ENOUGH_QUEUED, MIN_ARRIVALS, SKIPPED_WAITS};
    use std::cell::Cell;

    /// Makes `takes` takes with `first` tasks queued and `more` after a wait. Returns the number of
    /// waits.
    fn waits(batch_wait: &mut BatchWait, takes: u32, first: usize, more: usize) -> u32 {
        let mut waits = 0;
        for _ in 0..takes {
            let calls = Cell::new(0);
            let seen = batch_wait.wait(|| {
                calls.set(calls.get() + 1);
                if calls.get() == 1 {
                    first
                } else {
                    first + more
                }
            });
            assert_eq!(
                seen,
                if calls.get() == 1 {
                    first
                } else {
                    first + more
                }
            );
            waits += calls.get() - 1;
        }
        waits
    }

    #[test]
    fn single_tasks_are_rarely_delayed() {
        let mut batch_wait = BatchWait::new();
        assert_eq!(waits(&mut batch_wait, SKIPPED_WAITS.0, 1, 0), 0);
        // 4, 8, 16, 32 and from then on 64 takes in between.
        assert_eq!(waits(&mut batch_wait, 5 + 4 + 8 + 16 + 32, 1, 0), 5);
        assert_eq!(waits(&mut batch_wait, 10 * (SKIPPED_WAITS.1 + 1), 1, 0), 10);
    }

    #[test]
    fn a_stream_is_batched_every_time() {
        let mut batch_wait = BatchWait::new();
        assert_eq!(waits(&mut batch_wait, SKIPPED_WAITS.0, 1, MIN_ARRIVALS), 0);
        assert_eq!(waits(&mut batch_wait, 100, 1, MIN_ARRIVALS), 100);
        // The stream ends: one wait fails.
        assert_eq!(waits(&mut batch_wait, 1 + SKIPPED_WAITS.0, 1, 0), 1);
        assert_eq!(waits(&mut batch_wait, 10, 1, MIN_ARRIVALS), 10);
    }

    #[test]
    fn plenty_is_taken_at_once() {
        let mut batch_wait = BatchWait::new();
        assert_eq!(waits(&mut batch_wait, 100, ENOUGH_QUEUED, 100), 0);
    }
}
