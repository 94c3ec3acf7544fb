#![doc = include_str!("gate.md")]

use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicU64, Ordering, fence_after_rmw},
};
use std::fmt;

const OPEN: u64 = 1;
const BUSY_SHIFT: u32 = 1;
const BUSY: u64 = 1 << BUSY_SHIFT;
const BUSY_MASK: u64 = (1 << (COUNT_SHIFT - BUSY_SHIFT)) - 1;
const COUNT_SHIFT: u32 = 20;

/// What a closing, a rest or a completion found.
#[must_use = "whoever finishes the work must tell the workers"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is, or may yet come, more work.
    Running,
    /// The gate is closed, everybody rests and nothing is in flight. Said once, but for those who
    /// take part for a call after the end.
    Finished,
}

/// One reading of a [`Gate`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GateState(u64);

impl GateState {
    /// Whether tasks from outside are let in.
    #[must_use]
    pub const fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }

    /// How many workers hold private counts.
    #[must_use]
    pub const fn busy(self) -> usize {
        ((self.0 >> BUSY_SHIFT) & BUSY_MASK) as usize
    }

    /// Tasks in flight, as far as they have been flushed: exact when nobody is busy.
    #[must_use]
    pub const fn in_flight(self) -> i64 {
        self.0 as i64 >> COUNT_SHIFT
    }

    /// The same state with `entered` more tasks in flight, which the injector has counted.
    pub(super) fn with_entered(self, entered: usize) -> Self {
        Self(self.0.wrapping_add((entered as u64) << COUNT_SHIFT))
    }

    /// Closed, everybody at rest, nothing in flight.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for GateState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("open", &self.is_open())
            .field("busy", &self.busy())
            .field("in_flight", &self.in_flight())
            .finish()
    }
}

/// The gate: whether tasks are let in, and how many are inside, in one word.
///
/// ```
/// use filch::engine::{Gate, Verdict};
///
/// let gate = Gate::new();
/// assert!(gate.enter(2)); // two tasks from outside
/// assert_eq!(gate.close(), Verdict::Running);
/// assert!(!gate.enter(1)); // too late
/// gate.busy(); // a worker takes both, spawns a third, runs all three
/// assert_eq!(gate.rest(1 - 3), Verdict::Finished);
/// ```
pub struct Gate {
    word: Padded<AtomicU64>,
}

impl Gate {
    /// An open gate with nothing in flight.
    #[must_use]
    pub fn new() -> Self {
        Self {
            word: Padded::new(AtomicU64::new(OPEN)),
        }
    }

    /// Lets `tasks` tasks in from outside, if the gate is open.
    ///
    /// # Panics
    /// When `tasks` is 2^42 or more.
    #[must_use = "a refused task must go back to its owner"]
    pub fn enter(&self, tasks: usize) -> bool {
        assert!(
            (tasks as u64) < 1 << (62 - COUNT_SHIFT),
            "more tasks at once than the gate can count"
        );
        let more = (tasks as u64) << COUNT_SHIFT;
        if broken(Canary::GateSplit) {
            // The defect that this word exists to rule out: look, then act.
            let open = self.state().is_open();
            if open {
                // Relaxed, as below.
                let _ = self.word.fetch_add(more, Ordering::Relaxed);
            }
            return open;
        }
        // Relaxed, here and on failure: the word carries no data, tasks travel through their queue,
        // and one word needs no more than its own modification order for "not after close".
        self.word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                (word & OPEN != 0).then_some(word.wrapping_add(more))
            })
            .is_ok()
    }

    /// Takes back the entry of `tasks` tasks that could not be queued after all.
    pub fn withdraw(&self, tasks: usize) -> Verdict {
        self.add((tasks as u64).wrapping_neg() << COUNT_SHIFT)
    }

    /// A worker starts to count privately. False when the work was finished before: then whoever finished it is
    /// about to send everybody home.
    pub fn busy(&self) -> bool {
        // Relaxed: it only has to come before this worker's own `rest` in the order of the word.
        let before = self.word.fetch_add(BUSY, Ordering::Relaxed);
        if !broken(Canary::BusyFence) {
            // Pairs with the fence in `Worker::await_pushes`: either that load counts this worker, or what this
            // worker reads of the sleep word from now on is what was written before that fence.
            fence_after_rmw();
        }
        debug_assert!(GateState(before).busy() < BUSY_MASK as usize);
        before != 0
    }

    /// A worker flushes its private count (tasks spawned minus tasks finished) and stops counting.
    pub fn rest(&self, delta: i64) -> Verdict {
        let delta = if broken(Canary::GateFlush) { 0 } else { delta };
        self.add(((delta as u64) << COUNT_SHIFT).wrapping_sub(BUSY))
    }

    /// Shuts the gate. Says [`Verdict::Finished`] if that ends the work, at most once.
    pub fn close(&self) -> Verdict {
        // AcqRel: as in `add`, since this may be the end of the work too.
        let before = GateState(self.word.fetch_and(!OPEN, Ordering::AcqRel));
        if before.0 == OPEN {
            Verdict::Finished
        } else {
            Verdict::Running
        }
    }

    /// The present state.
    #[must_use]
    pub fn state(&self) -> GateState {
        // Acquire: whoever sees the end sees what the tasks did.
        GateState(self.word.load(Ordering::Acquire))
    }

    fn add(&self, change: u64) -> Verdict {
        // AcqRel: a chain of releases and acquires through the word, so that whoever finds the work
        // finished sees everything that the tasks of all workers did.
        let before = self.word.fetch_add(change, Ordering::AcqRel);
        if before.wrapping_add(change) == 0 {
            Verdict::Finished
        } else {
            Verdict::Running
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}
