//! When a worker lets tasks from outside gather before it takes them.
//!
//! A thread that submits tasks one after the other and a worker that takes each of them at once fight over the
//! injector: its line goes back and forth for every task, and both are slower for it. A worker that takes them by
//! the dozen pays once for all. So a worker that keeps finding only a few waits for a moment to see whether more
//! are coming. If they are, it waits again the next time. If not, it was in vain, a microsecond or two late, and is
//! not tried again for a while: a thread that submits one task, waits for it and submits the next must not
//! be kept waiting (`docs/decisions/0009-submitted-tasks.md`).

use crate::base::sync::hint;

/// Fewer than this are few: as many as a worker takes at once.
const FEW: usize = 64;

/// How long to wait, in spin-loop hints, at first and at most: one to two microseconds, and four times that.
/// The waits grow while tasks keep coming and are still few at the end of a wait: each take costs the
/// submitter a few cache misses, so the fewer takes the better.
const PAUSES: (u32, u32) = (100, 400);

/// A wait was worth it when so many came meanwhile.
const WORTH: usize = 8;

/// How often a few are taken as they are after a wait in vain: the first one, and at most. Each one in vain
/// doubles it.
const CHANCES: (u32, u32) = (4, 64);

/// What one worker knows about tasks from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchWait {
    /// Takes of a few until the next wait.
    chances: u32,
    /// How many there will be after the next one in vain.
    next: u32,
    /// The length of the next wait, in spin-loop hints.
    pauses: u32,
}

impl BatchWait {
    pub(super) fn new() -> Self {
        Self {
            chances: CHANCES.0,
            next: CHANCES.0,
            pauses: PAUSES.0,
        }
    }

    /// How many tasks to count on; `length` tells how many are queued at the moment.
    pub(super) fn wait(&mut self, length: impl Fn() -> usize) -> usize {
        let first = length();
        if first >= FEW {
            return first;
        }
        if self.chances > 0 {
            self.chances -= 1;
            return first;
        }
        for _ in 0..self.pauses {
            hint::spin_loop();
        }
        let then = length();
        if then < first + WORTH {
            self.chances = self.next;
            self.next = (2 * self.next).min(CHANCES.1);
            self.pauses = PAUSES.0;
        } else {
            self.next = CHANCES.0;
            if then < FEW {
                self.pauses = (2 * self.pauses).min(PAUSES.1);
            }
        }
        then
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{BatchWait, CHANCES, FEW, WORTH};
    use std::cell::Cell;

    /// Takes with `first` tasks queued and `more` after a wait; says how often a wait took place.
    fn waits(batch_wait: &mut BatchWait, takes: u32, first: usize, more: usize) -> u32 {
        let mut waits = 0;
        for _ in 0..takes {
            let looks = Cell::new(0);
            let seen = batch_wait.wait(|| {
                looks.set(looks.get() + 1);
                if looks.get() == 1 {
                    first
                } else {
                    first + more
                }
            });
            assert_eq!(
                seen,
                if looks.get() == 1 {
                    first
                } else {
                    first + more
                }
            );
            waits += looks.get() - 1;
        }
        waits
    }

    #[test]
    fn one_at_a_time_is_rarely_kept_waiting() {
        let mut batch_wait = BatchWait::new();
        assert_eq!(waits(&mut batch_wait, CHANCES.0, 1, 0), 0);
        // 4, 8, 16, 32 and from then on 64 in between.
        assert_eq!(waits(&mut batch_wait, 5 + 4 + 8 + 16 + 32, 1, 0), 5);
        assert_eq!(waits(&mut batch_wait, 10 * (CHANCES.1 + 1), 1, 0), 10);
    }

    #[test]
    fn a_stream_gathers_every_time() {
        let mut batch_wait = BatchWait::new();
        assert_eq!(waits(&mut batch_wait, CHANCES.0, 1, WORTH), 0);
        assert_eq!(waits(&mut batch_wait, 100, 1, WORTH), 100);
        // It dries up: once in vain.
        assert_eq!(waits(&mut batch_wait, 1 + CHANCES.0, 1, 0), 1);
        assert_eq!(waits(&mut batch_wait, 10, 1, WORTH), 10);
    }

    #[test]
    fn plenty_is_taken_at_once() {
        let mut batch_wait = BatchWait::new();
        assert_eq!(waits(&mut batch_wait, 100, FEW, 100), 0);
    }
}
