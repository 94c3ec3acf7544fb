//! How fast a run gets on, and what follows for when it looks up from its nodes.

use crate::base::{
    sync::{AtomicU32, Ordering},
    thread,
};

/// How much time passes between two looks, about, and how long what is offered stays on offer at least. That somebody
/// takes a piece costs both sides about a microsecond, so this is the least that a piece should be good for.
const INTERVAL: u64 = 10_000;

/// The same for the lightest nodes. What they work on is in the cache of the one who has been there before, so that another
/// takes two or three times as long for them (a star of 10,000 leaves: 16 µs alone, 27 µs with offers after 10 µs).
const LONG_INTERVAL: u64 = 30_000;

/// Below this time a node, in nanoseconds, nodes are of the lightest.
const LIGHT: u32 = 100;

/// The most nodes between two looks.
const MOST: u32 = 4096;

/// From this time a node on, in nanoseconds, a piece is offered for each open node: what that costs is nothing beside the nodes, and
/// nobody has to wait for a worker that is in a node for long.
const HEAVY: u32 = 8_000;

/// How much a run of lighter nodes has on offer: the first number, and up to the second if all is gone each time that it
/// looks; unless that is done already, and so little that it was not worth anybody's while.
const OFFERS: (usize, usize) = (2, 16);

/// From this time a node on, in nanoseconds, on average, single nodes are worth being given away, if many are at a time: that costs the
/// giver some 100 ns a node.
const WORTHWHILE: u32 = 250;

/// The most nodes of which pieces are given away in one bundle.
const REACH: usize = 256;

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
    since: Option<u64>,
    /// When something was offered.
    offered: Option<u64>,
    /// How many pieces should be on offer.
    offers: usize,
    /// Nanoseconds a node, or zero; the lesser of the last two that were measured, as anything may come in between.
    nanos: u32,
    measured: u32,
    /// The greatest that was measured, fading. It says how soon to look again: where one node in a hundred takes all the time,
    /// the others do not say how long this worker will be away.
    recent: u32,
    /// How many nodes are given away in one bundle.
    reach: usize,
}

impl Beat {
    /// A look is due at the first node.
    pub(super) fn new() -> Self {
        Self {
            left: 1,
            nodes: 1,
            since: None,
            offered: None,
            offers: OFFERS.0,
            nanos: 0,
            measured: u32::MAX,
            recent: 0,
            reach: 1,
        }
    }

    /// Nodes until the next look. Whoever counts does so in a place of its own, which the compiler keeps in a register:
    /// in memory, each count would wait for the one before.
    #[inline(always)]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// What is left when somebody stops counting; not zero, unless a look follows.
    #[inline(always)]
    pub(super) fn set_left(&mut self, left: u32) {
        self.left = left;
    }

    /// The run goes on elsewhere, or after a while.
    pub(super) fn restart(&mut self) {
        *self = Self::new();
    }

    /// The look: sets the next interval. Of what was on offer, so many are `left`, and some are `gone`, of which some are
    /// `done` already. Says how many there should be; none, if it is too early to offer more.
    pub(super) fn look(&mut self, pace: &Pace, left: usize, gone: usize, done: usize) -> usize {
        if done > 0 {
            self.reach = (2 * self.reach).min(REACH);
        } else if gone > 0 && left > 0 {
            // That keeps them busy, and there is more.
            self.reach = (self.reach / 2).max(1);
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
                // Perhaps it is done before that is worth anybody's while.
                self.offered = Some(now);
            }
        }
        let wanted = match self.recent {
            0 => 1,
            nanos => (INTERVAL as u32 / nanos).max(1),
        };
        // A few cheap nodes in a row say little about the next ones.
        self.nodes = wanted.min(4 * self.nodes).min(MOST);
        self.left = self.nodes;
        self.since = Some(now);
        let interval = if self.nanos < LIGHT {
            LONG_INTERVAL
        } else {
            // ClockSampler come a little sooner or later than that, and one that is a little too soon is not for nothing.
            INTERVAL - INTERVAL / 4
        };
        let early = self
            .offered
            .is_some_and(|then| now.saturating_sub(then) < interval);
        if early && self.nanos < HEAVY {
            return 0;
        }
        self.offered = Some(now);
        if left == 0 && gone > 0 && (done == 0 || self.recent >= WORTHWHILE) {
            self.offers = (2 * self.offers).min(OFFERS.1);
        } else if 2 * left >= self.offers {
            self.offers = (self.offers / 2).max(OFFERS.0);
        }
        match self.nanos {
            0 | HEAVY.. => usize::MAX,
            _ => self.offers,
        }
    }

    /// How many nodes to give away in one bundle: more than one if others are done with what they take sooner than this
    /// run looks up.
    pub(super) fn reach(&self) -> usize {
        if self.recent < WORTHWHILE {
            return 1;
        }
        self.reach
    }

    /// What is known about the nodes.
    pub(super) fn weight(&self) -> Weight {
        match self.nanos {
            0 => Weight::Unknown,
            HEAVY.. => Weight::Heavy,
            _ => Weight::Light,
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
