//! The entrance of a serial stage, where a token and its turn meet.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicPtr, AtomicU32, Ordering},
};

/// The entrance of a serial stage for the tokens of one line.
///
/// Two events must have happened before a token may enter: the token has arrived, and so has its
/// *turn*: the previous token has left the stage. (For the source the two are that the line is free
/// again and that the previous token has left.) The strand of the second event enters with the
/// token; the strand of the first one ends or does other work. So no strand blocks, and most of the
/// time there is one read-modify-write for the two events.
///
/// The two events of the line's next token come after this token has passed: one follows the end of
/// this token's way, the other one the turn of the token in between. So the second of the two may
/// reset the entrance.
#[repr(align(64))]
pub(super) struct Entrance {
    /// How many of the two events have happened.
    arrived: AtomicU32,
    pub(super) line: u32,
    pub(super) stage: u32,
    /// The run that the entrance is a part of.
    run: AtomicPtr<()>,
}

const NONE_ARRIVED: u32 = 0;
const ONE_ARRIVED: u32 = 1;

impl Entrance {
    /// Creates an entrance. `expected`: one of the two events counts as happened for the first
    /// token.
    pub(super) fn new(line: u32, stage: u32, expected: bool) -> Self {
        Self {
            arrived: AtomicU32::new(if expected { ONE_ARRIVED } else { NONE_ARRIVED }),
            line,
            stage,
            run: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Sets the pointer that [`run_pointer`](Self::run_pointer) returns.
    pub(super) fn set_run(&self, run: *const ()) {
        // Relaxed: it is written before the first job is queued, which publishes it.
        self.run.store(run.cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn run_pointer(&self) -> *const () {
        // Relaxed: as in `set_run`.
        self.run.load(Ordering::Relaxed).cast_const()
    }

    /// Records one of the two events. Returns true for the second one: its strand enters.
    #[inline(always)]
    pub(super) fn arrive(&self) -> bool {
        // Acquire: pairs with the release of the swap below; what the strand of the other event did
        // before is visible.
        if self.arrived.load(Ordering::Acquire) == NONE_ARRIVED {
            if broken(Canary::PipelineArrive) {
                // Relaxed: a deliberate defect; two concurrent events both see none.
                self.arrived.store(ONE_ARRIVED, Ordering::Relaxed);
                return false;
            }
            // AcqRel: pairs with the load and the swap of the strand of the other event.
            if self.arrived.swap(ONE_ARRIVED, Ordering::AcqRel) == NONE_ARRIVED {
                return false;
            }
        }
        // Relaxed: the next two events come after this token has passed, and what hands the token
        // on publishes the store.
        self.arrived.store(NONE_ARRIVED, Ordering::Relaxed);
        true
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
