//! How fast a run gets on, and what follows for when it looks up from its nodes.

use crate::ground::sync::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How much time passes between two looks, about. A look takes some 50 ns if there is nothing to do, and somebody who has
/// taken what was offered finds more after this time.
const INTERVAL: Duration = Duration::from_micros(2);

/// The most nodes between two looks.
const MOST: u32 = 1024;

/// From this time a node on, a piece is offered for each open node: what that costs is nothing beside the nodes, and
/// nobody has to wait for a worker that is in a node for long.
const HEAVY: u32 = 8_000;

/// From this time a node on, in nanoseconds, more than a few nodes may be what somebody else waits for.
const MIDDLING: u32 = 250;

/// Nanoseconds a node, as the runs of one fold find; zero when nobody knows yet.
pub(super) struct Pace(AtomicU32);

impl Pace {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn get(&self) -> u32 {
        // Relaxed: a guess.
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, nanos: u32) {
        // Relaxed: as in `get`.
        self.0.store(nanos, Ordering::Relaxed);
    }
}

/// Counts the nodes of one run until the next look.
pub(super) struct Beat {
    left: u32,
    /// Nodes of this interval.
    nodes: u32,
    since: Option<Instant>,
    /// Nanoseconds a node, or zero.
    nanos: u32,
}

impl Beat {
    /// A look is due at the first node.
    pub(super) fn new() -> Self {
        Self {
            left: 1,
            nodes: 1,
            since: None,
            nanos: 0,
        }
    }

    /// One more node. True when a look is due.
    #[inline(always)]
    pub(super) fn is_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// The run goes on elsewhere, or after a while.
    pub(super) fn restart(&mut self) {
        *self = Self::new();
    }

    /// The look: sets the next interval.
    pub(super) fn look(&mut self, pace: &Pace) {
        let now = Instant::now();
        if let Some(since) = self.since {
            let nanos = (now - since).as_nanos() / u128::from(self.nodes);
            self.nanos = u32::try_from(nanos).unwrap_or(u32::MAX).max(1);
            let before = pace.get();
            if before.abs_diff(self.nanos) > before / 4 {
                pace.set(self.nanos);
            }
        } else {
            self.nanos = pace.get();
        }
        let wanted = match self.nanos {
            0 => 1,
            nanos => (INTERVAL.as_nanos() as u32 / nanos).max(1),
        };
        // A few cheap nodes in a row say little about the next ones.
        self.nodes = wanted.min(4 * self.nodes).min(MOST);
        self.left = self.nodes;
        self.since = Some(now);
    }

    /// What is known about the nodes.
    pub(super) fn weight(&self) -> Weight {
        match self.nanos {
            0 => Weight::Unknown,
            HEAVY.. => Weight::Heavy,
            _ => Weight::Light,
        }
    }

    /// How many pieces the run should have on offer.
    pub(super) fn offers(&self) -> usize {
        match self.nanos {
            0 | HEAVY.. => usize::MAX,
            MIDDLING.. => 4,
            _ => 2,
        }
    }
}

/// How much work there is in a node, so far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Unknown,
    Light,
    Heavy,
}
