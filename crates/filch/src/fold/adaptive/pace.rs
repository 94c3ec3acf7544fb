//! Measurement of the time a node takes, and the resulting intervals between checks.

use crate::base::{
    sync::{AtomicU32, Ordering},
    thread,
};
use std::cell::Cell;

/// The approximate time between two checks, in nanoseconds, and the least time for which an offer
/// stays. A steal costs both sides about a microsecond, so this is the least work that a piece
/// should contain.
const CHECK_INTERVAL_NS: u64 = 10_000;

/// The same for the lightest nodes. Their data is in the cache of the worker that was there before,
/// so that another worker takes two or three times as long for them (a star of 10,000 leaves: 16 µs
/// alone, 27 µs with offers after 10 µs).
const LIGHT_CHECK_INTERVAL_NS: u64 = 30_000;

/// Nodes below this time, in nanoseconds, are the lightest.
const LIGHT_NODE_NS: u32 = 100;

/// The largest number of nodes between two checks.
const MAX_NODES_BETWEEN_CHECKS: u32 = 4096;

/// From this time a node on, in nanoseconds, a piece is offered for each open node: the cost of
/// that is negligible beside the nodes, and no worker has to wait for one that is in a long node.
const HEAVY_NODE_NS: u32 = 8_000;

/// The number of offers of a run with lighter nodes: the first number, and up to the second if all
/// are taken at each check; unless they are finished already and were too small to be worth
/// stealing.
const MIN_MAX_OFFERS: (usize, usize) = (2, 16);

/// From this average time a node on, in nanoseconds, single nodes are worth offering, if in
/// bundles: that costs the splitter some 100 ns a node.
const MIN_BUNDLED_NODE_NS: u32 = 250;

/// The largest number of nodes in one bundle.
const MAX_BUNDLE_NODES: usize = 256;

/// The number of types of folds that a thread remembers.
const REMEMBERED_FOLDS: usize = 8;

thread_local! {
    /// The types of folds whose last one that this thread began had the lightest nodes, by the
    /// address of their code; zero for none. Only a guess: one address may stand for two types
    /// whose code is the same, and the nodes of the next tree may be heavier.
    static LIGHT_FOLDS: Cell<[usize; REMEMBERED_FOLDS]> = const { Cell::new([0; REMEMBERED_FOLDS]) };
}

/// The place in [`LIGHT_FOLDS`]. The code of functions is aligned.
fn remembered_at(code: usize) -> usize {
    code / 16 % REMEMBERED_FOLDS
}

/// Nanoseconds a node, as measured by the runs of one fold; zero while unknown.
pub(in crate::fold) struct NodePace(AtomicU32);

impl NodePace {
    /// The pace at the beginning of a fold by this code: unknown, unless the last one was light.
    ///
    /// While it is unknown, children are offered at once, because a node may take milliseconds.
    /// That costs a microsecond or more, and small trees of light nodes take less.
    pub(super) fn recall(code: usize) -> Self {
        let is_light = LIGHT_FOLDS.get()[remembered_at(code)] == code;
        match is_light {
            true => Self(AtomicU32::new(LIGHT_NODE_NS - 1)),
            false => Self::unknown(),
        }
    }

    pub(in crate::fold) fn unknown() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Remembers the pace for the next fold by this code on this thread.
    pub(super) fn remember(&self, code: usize) {
        let mut folds = LIGHT_FOLDS.get();
        let entry = &mut folds[remembered_at(code)];
        let is_light = match self.get() {
            // Too small to be measured.
            0 => return,
            nanos => nanos < LIGHT_NODE_NS,
        };
        if is_light != (*entry == code) {
            *entry = if is_light { code } else { 0 };
            LIGHT_FOLDS.set(folds);
        }
    }

    fn get(&self) -> u32 {
        // Relaxed: an estimate.
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, nanos: u32) {
        // Relaxed: as in `get`.
        self.0.store(nanos, Ordering::Relaxed);
    }
}

/// Counts the nodes of one run until the next check.
pub(in crate::fold) struct CheckTimer {
    left: u32,
    /// Nodes of this interval.
    nodes: u32,
    since: Option<u64>,
    /// When the last offer was made.
    offered: Option<u64>,
    /// The number of pieces that should be on offer.
    offers: usize,
    /// Nanoseconds a node, or zero while unknown: the smaller of the last two measurements, as each
    /// may contain interruptions.
    nanos: u32,
    measured: u32,
    /// The largest measurement, decaying. It determines the time to the next check: where one node
    /// in a hundred takes all the time, the others don't predict how long this worker will be busy.
    recent: u32,
    /// The number of nodes in one bundle.
    bundle_nodes: usize,
}

impl CheckTimer {
    /// A check is due at the first node.
    pub(in crate::fold) fn new() -> Self {
        Self {
            left: 1,
            nodes: 1,
            since: None,
            offered: None,
            offers: MIN_MAX_OFFERS.0,
            nanos: 0,
            measured: u32::MAX,
            recent: 0,
            bundle_nodes: 1,
        }
    }

    /// Nodes until the next check. A caller counts in a local variable, which the compiler keeps in
    /// a register: in memory, each decrement would wait for the one before.
    #[inline(always)]
    pub(in crate::fold) fn left(&self) -> u32 {
        self.left
    }

    /// Stores the number when a caller stops counting; not zero, unless a check follows.
    #[inline(always)]
    pub(super) fn set_left(&mut self, left: u32) {
        self.left = left;
    }

    /// Restarts the measurement: the run moves to another worker, or continues after a pause.
    pub(in crate::fold) fn restart(&mut self) {
        *self = Self::new();
    }

    /// Performs the check and sets the next interval. Of the pieces on offer, `left` are not taken,
    /// and `taken` are taken, of which `done` are finished. Returns the number that should be on
    /// offer; zero if it is too early to offer more.
    pub(in crate::fold) fn check(
        &mut self,
        pace: &NodePace,
        left: usize,
        taken: usize,
        done: usize,
    ) -> usize {
        if done > 0 {
            self.bundle_nodes = (2 * self.bundle_nodes).min(MAX_BUNDLE_NODES);
        } else if taken > 0 && left > 0 {
            // The taken pieces keep the thieves busy, and more are on offer.
            self.bundle_nodes = (self.bundle_nodes / 2).max(1);
        }
        let now = thread::nanos();
        if let Some(since) = self.since {
            let nanos = now.saturating_sub(since) / u64::from(self.nodes);
            let nanos = u32::try_from(nanos).unwrap_or(u32::MAX).max(1);
            self.nanos = nanos.min(self.measured);
            self.measured = nanos;
            self.recent = nanos.max(self.recent / 2);
            let before = pace.get();
            if before.abs_diff(self.nanos) > before / 4 {
                pace.set(self.nanos);
            }
        } else {
            self.nanos = pace.get();
            self.recent = self.nanos;
            if self.weight() == Weight::Light {
                // The run may end before offering pays.
                self.offered = Some(now);
            }
        }
        let wanted = match self.recent {
            0 => 1,
            nanos => (CHECK_INTERVAL_NS as u32 / nanos).max(1),
        };
        // A few cheap nodes in a row predict little about the next ones, and a remembered pace
        // predicts little about this tree.
        let most = if self.since.is_some() {
            4 * self.nodes
        } else {
            1
        };
        self.nodes = wanted.min(most).min(MAX_NODES_BETWEEN_CHECKS);
        self.left = self.nodes;
        self.since = Some(now);
        let interval = if self.nanos < LIGHT_NODE_NS {
            LIGHT_CHECK_INTERVAL_NS
        } else {
            // Checks happen a little sooner or later than that, and one that is a little too soon
            // should still count.
            CHECK_INTERVAL_NS - CHECK_INTERVAL_NS / 4
        };
        let early = self
            .offered
            .is_some_and(|then| now.saturating_sub(then) < interval);
        if early && self.nanos < HEAVY_NODE_NS {
            return 0;
        }
        self.offered = Some(now);
        if left == 0 && taken > 0 && (done == 0 || self.recent >= MIN_BUNDLED_NODE_NS) {
            self.offers = (2 * self.offers).min(MIN_MAX_OFFERS.1);
        } else if 2 * left >= self.offers {
            self.offers = (self.offers / 2).max(MIN_MAX_OFFERS.0);
        }
        match self.nanos {
            0 | HEAVY_NODE_NS.. => usize::MAX,
            _ => self.offers,
        }
    }

    /// The number of nodes to offer in one bundle: more than one if thieves finish single pieces
    /// before this run's next check.
    pub(super) fn bundle_nodes(&self) -> usize {
        if self.recent < MIN_BUNDLED_NODE_NS {
            return 1;
        }
        self.bundle_nodes
    }

    /// The measured weight of the nodes.
    pub(super) fn weight(&self) -> Weight {
        match self.nanos {
            0 => Weight::Unknown,
            HEAVY_NODE_NS.. => Weight::Heavy,
            _ => Weight::Light,
        }
    }
}

/// The work in a node, as measured so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Unknown,
    Light,
    Heavy,
}

#[cfg(all(test, not(filch_loom)))]
mod tests;
