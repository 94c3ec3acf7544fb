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

/// Whether the work is finished after a close, the end of a busy period or a withdrawal.
#[must_use = "the thread that finishes the work must wake the workers so that they exit"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is more work, or more may arrive.
    Running,
    /// The gate is closed, all workers rest and no task is in flight. Returned once, except to
    /// threads that take part for a call after the end.
    Finished,
}

/// A snapshot of the gate: whether tasks are admitted, and how much work is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GateState(u64);

impl GateState {
    /// Whether tasks from outside are admitted.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert!(core.gate_state().is_open());
    /// core.close();
    /// assert!(!core.gate_state().is_open());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub const fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }

    /// Returns the number of workers that hold private counts.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(1, Placement::Injector).unwrap();
    /// let _ = core.enter(0).step(|_, running| {
    ///     assert_eq!(running.core().gate_state().busy_workers(), 1);
    /// });
    /// assert_eq!(core.gate_state().busy_workers(), 0); // it has left
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub const fn busy_workers(self) -> usize {
        ((self.0 >> BUSY_SHIFT) & BUSY_MASK) as usize
    }

    /// Returns the number of tasks in flight that have been flushed: exact when no worker is busy.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject_batch(vec![1, 2]).unwrap();
    /// assert_eq!(core.gate_state().in_flight(), 2);
    /// let _ = core.enter(0).step(|_, _| ());
    /// assert_eq!(core.gate_state().in_flight(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub const fn in_flight(self) -> i64 {
        self.0 as i64 >> COUNT_SHIFT
    }

    /// Returns the state with `entered` more tasks in flight, which the injector has counted.
    pub(super) fn with_entered(self, entered: usize) -> Self {
        Self(self.0.wrapping_add((entered as u64) << COUNT_SHIFT))
    }
}

impl fmt::Debug for GateState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateState")
            .field("open", &self.is_open())
            .field("busy", &self.busy_workers())
            .field("in_flight", &self.in_flight())
            .finish()
    }
}

/// The gate: whether tasks are admitted, and how many are in flight, in one word.
pub(super) struct Gate {
    word: Padded<AtomicU64>,
}

impl Gate {
    /// Creates an open gate with no task in flight.
    #[must_use]
    pub(super) fn new() -> Self {
        Self {
            word: Padded::new(AtomicU64::new(OPEN)),
        }
    }

    /// Admits `tasks` tasks from outside, if the gate is open.
    ///
    /// # Panics
    /// When `tasks` is 2^42 or more.
    #[must_use = "a refused task must go back to its owner"]
    pub(super) fn enter(&self, tasks: usize) -> bool {
        assert!(
            (tasks as u64) < 1 << (62 - COUNT_SHIFT),
            "more tasks at once than the gate can count"
        );
        let more = (tasks as u64) << COUNT_SHIFT;
        if broken(Canary::GateSplit) {
            // The defect that this word prevents: the check and the count are two steps.
            let open = self.state().is_open();
            if open {
                // Relaxed: the word carries no data, as below.
                let _ = self.word.fetch_add(more, Ordering::Relaxed);
            }
            return open;
        }
        // Relaxed, here and on failure: the word carries no data, and tasks are published by their
        // queue. For "not after close" the modification order of this one word is enough.
        self.word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                (word & OPEN != 0).then_some(word.wrapping_add(more))
            })
            .is_ok()
    }

    /// Takes back the admission of `tasks` tasks that could not be queued.
    pub(super) fn withdraw(&self, tasks: usize) -> Verdict {
        self.apply((tasks as u64).wrapping_neg() << COUNT_SHIFT)
    }

    /// Starts the private count of a worker. Returns false if the work was finished before: then
    /// the thread that finished it is about to make all workers exit.
    pub(super) fn begin_busy(&self) -> bool {
        // Relaxed: it only has to come before this worker's own `rest` in the order of the word.
        let before = self.word.fetch_add(BUSY, Ordering::Relaxed);
        if !broken(Canary::BusyFence) {
            // Pairs with the fence in `Worker::make_pushes_visible`: either the load there counts
            // this worker, or this worker's later loads of the sleep word see what was written
            // before that fence.
            fence_after_rmw();
        }
        debug_assert!(GateState(before).busy_workers() < BUSY_MASK as usize);
        before != 0
    }

    /// Adds a worker's private count (tasks spawned minus tasks finished) to the word and ends the
    /// private count.
    pub(super) fn end_busy(&self, delta: i64) -> Verdict {
        let delta = if broken(Canary::GateFlush) { 0 } else { delta };
        self.apply(((delta as u64) << COUNT_SHIFT).wrapping_sub(BUSY))
    }

    /// Closes the gate. Returns [`Verdict::Finished`] if that ends the work, at most once.
    pub(super) fn close(&self) -> Verdict {
        // AcqRel: as in `add`, since this may end the work as well.
        let before = GateState(self.word.fetch_and(!OPEN, Ordering::AcqRel));
        if before.0 == OPEN {
            Verdict::Finished
        } else {
            Verdict::Running
        }
    }

    /// Returns the current state.
    #[must_use]
    pub(super) fn state(&self) -> GateState {
        // Acquire: a thread that sees the end of the work sees what the tasks did.
        GateState(self.word.load(Ordering::Acquire))
    }

    /// Adds `change` to the word, and returns whether that has ended the work.
    fn apply(&self, change: u64) -> Verdict {
        // AcqRel: a chain of releases and acquires through the word, so that the thread that finds
        // the work finished sees everything that the tasks of all workers did.
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

#[cfg(all(test, filch_loom))]
mod loom_tests;

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{Gate, Verdict};

    #[test]
    fn the_work_is_finished_when_a_closed_gate_counts_no_task() {
        let gate = Gate::new();
        assert!(gate.enter(2), "two tasks from outside");
        assert_eq!(gate.close(), Verdict::Running);
        assert!(!gate.enter(1), "too late");
        assert!(
            gate.begin_busy(),
            "a worker takes both, spawns a third, runs all three"
        );
        assert_eq!(gate.end_busy(1 - 3), Verdict::Finished);
    }
}
