//! Where a token and its turn meet.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicPtr, AtomicU32, Ordering},
};

/// The entrance of a serial stage for the tokens of one line.
///
/// Two things must have happened before a token may enter: the token has arrived, and so has its *turn*: the token
/// before it has left the stage. (For the source the two are that the line is free again and that the token before has
/// left.) Whoever comes second goes in with the token; whoever comes first goes on to something else. So nobody
/// waits, and there is one read-modify-write for the two of them, most of the time.
///
/// The two arrivals of the next token of the line come after this one has passed: one follows the end of this
/// token's way, the other one the turn of the token in between. So the second of the two may make the
/// entrance as good as new.
#[repr(align(64))]
pub(super) struct Station {
    /// How many of the two are here.
    arrived: AtomicU32,
    pub(super) line: u32,
    pub(super) stage: u32,
    /// The run that it is a part of.
    run: AtomicPtr<()>,
}

const NOBODY: u32 = 0;
const ONE: u32 = 1;

impl Station {
    /// An entrance; `expected` says that one of the two need not be waited for the first time.
    pub(super) fn new(line: u32, stage: u32, expected: bool) -> Self {
        Self {
            arrived: AtomicU32::new(if expected { ONE } else { NOBODY }),
            line,
            stage,
            run: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Sets where [`leads_to`](Self::leads_to) leads to.
    pub(super) fn lead_to(&self, run: *const ()) {
        // Relaxed: before the first job is queued, and that publishes it.
        self.run.store(run.cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn leads_to(&self) -> *const () {
        // Relaxed: as in `lead_to`.
        self.run.load(Ordering::Relaxed).cast_const()
    }

    /// One of the two is here. True when it is the second one, who goes in.
    #[inline(always)]
    pub(super) fn arrive(&self) -> bool {
        // Acquire: pairs with the release of the swap below; what the other one did before is visible.
        if self.arrived.load(Ordering::Acquire) == NOBODY {
            if broken(Canary::PipelineArrive) {
                // Relaxed: a deliberate defect; two who come at once both see nobody.
                self.arrived.store(ONE, Ordering::Relaxed);
                return false;
            }
            // AcqRel: as above, from either side.
            if self.arrived.swap(ONE, Ordering::AcqRel) == NOBODY {
                return false;
            }
        }
        // Relaxed: the next two come after this token has passed, which whatever hands it on publishes.
        self.arrived.store(NOBODY, Ordering::Relaxed);
        true
    }
}

/// The entrance as it is, for the model checker.
#[cfg(filch_loom)]
pub(super) mod model {
    use std::fmt;

    /// See the entrance of a serial stage.
    pub struct Station(super::Station);

    #[expect(missing_docs, reason = "a shim for tests")]
    impl Station {
        pub fn new(expected: bool) -> Self {
            Self(super::Station::new(0, 0, expected))
        }

        pub fn arrive(&self) -> bool {
            self.0.arrive()
        }
    }

    impl fmt::Debug for Station {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Station")
        }
    }
}
