//! The order in which a worker visits its victims.

use crate::base::rng::Rng;
use std::sync::Arc;

/// How far workers are from each other: near victims are visited first.
///
/// The engine only needs the *tier* of a pair; flat by default. The structure of real machines
/// (nodes, shared caches) is passed in this way too.
///
/// ```
/// use filch::{Rng, engine::{Hunt, Topology, Victims}};
///
/// // Two nodes of two workers.
/// let topology = Topology::tiers(4, |a, b| usize::from(a / 2 != b / 2));
/// let (mut victims, mut rng) = (Victims::new(&topology, 0), Rng::new(1));
/// let mut hunt = Hunt::new(&mut victims, &mut rng, 3);
/// assert_eq!(hunt.next_victim(), Some(1)); // its neighbour first
/// ```
#[derive(Clone, Debug, Default)]
pub struct Topology {
    workers: usize,
    /// `tier[a * workers + b]`; empty when flat.
    tier: Vec<u16>,
}

impl Topology {
    /// Creates a topology in which all workers are equally far from each other.
    ///
    /// ```
    /// use filch::engine::Topology;
    ///
    /// let topology = Topology::flat(8);
    /// assert_eq!((topology.workers(), topology.distance(0, 7)), (8, 0));
    /// ```
    #[must_use]
    pub const fn flat(workers: usize) -> Self {
        Self {
            workers,
            tier: Vec::new(),
        }
    }

    /// Creates a topology in which `distance(a, b)` is the distance of worker `b`'s queue from
    /// worker `a`.
    ///
    /// ```
    /// use filch::engine::{Settings, Topology};
    ///
    /// // Four workers on each of two sockets.
    /// let settings = Settings {
    ///     topology: Topology::tiers(8, |a, b| usize::from(a / 4 != b / 4)),
    ///     ..Settings::new(8)
    /// };
    /// assert_eq!(settings.topology.distance(0, 5), 1);
    /// ```
    #[must_use]
    pub fn tiers(workers: usize, distance: impl Fn(usize, usize) -> usize) -> Self {
        let tier = (0..workers * workers)
            .map(|i| u16::try_from(distance(i / workers, i % workers)).unwrap_or(u16::MAX))
            .collect();
        Self { workers, tier }
    }

    /// Returns the number of workers that this topology is for.
    ///
    /// ```
    /// use filch::engine::Topology;
    /// assert_eq!(Topology::flat(3).workers(), 3);
    /// ```
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the distance from `a` to `b`; zero when flat.
    ///
    /// ```
    /// use filch::engine::Topology;
    ///
    /// let line = Topology::tiers(5, |a, b| a.abs_diff(b));
    /// assert_eq!((line.distance(0, 4), line.distance(2, 3)), (4, 1));
    /// ```
    #[must_use]
    pub fn distance(&self, a: usize, b: usize) -> usize {
        self.tier
            .get(a * self.workers + b)
            .map_or(0, |&tier| usize::from(tier))
    }
}

/// The order in which a worker visits the others.
#[derive(Debug)]
struct VisitOrder {
    /// All other workers, by tier.
    others: Vec<u32>,
    /// The end of each tier in `others`.
    ends: Vec<u32>,
}

/// One worker's victims: a round visits each once, near ones first, from a random start in each
/// tier. A clone shares the order.
#[derive(Clone, Debug)]
pub struct Victims {
    order: Arc<VisitOrder>,
    tier: usize,
    /// How many workers of the current tier have been visited, and at which one the tier started.
    visited: u32,
    start: u32,
    random: u64,
}

impl Victims {
    /// Returns the victims of `worker`.
    ///
    /// ```
    /// use filch::{Rng, engine::{Hunt, Topology, Victims}};
    ///
    /// let (mut victims, mut rng) = (Victims::new(&Topology::flat(2), 0), Rng::new(1));
    /// let mut hunt = Hunt::new(&mut victims, &mut rng, 1);
    /// assert_eq!((hunt.next_victim(), hunt.next_victim()), (Some(1), None));
    /// ```
    #[must_use]
    pub fn new(topology: &Topology, worker: usize) -> Self {
        let mut others: Vec<(usize, usize)> = (0..topology.workers())
            .filter(|&other| other != worker)
            .map(|other| (topology.distance(worker, other), other))
            .collect();
        others.sort_unstable();
        let ends = (1..=others.len())
            .filter(|&i| i == others.len() || others[i].0 != others[i - 1].0)
            .map(|i| i as u32)
            .collect();
        let others = others.into_iter().map(|(_, other)| other as u32).collect();
        Self {
            order: Arc::new(VisitOrder { others, ends }),
            tier: usize::MAX,
            visited: 0,
            start: 0,
            random: 0,
        }
    }

    /// Begins a new round.
    pub(crate) fn start_round(&mut self, rng: &mut Rng) {
        self.random = rng.next_u64();
        self.tier = 0;
        self.enter_tier();
    }

    /// Whether a round is under way, that is, there may be victims that it has not visited.
    #[must_use]
    pub(crate) fn in_round(&self) -> bool {
        self.tier < self.order.ends.len()
    }

    fn bounds(&self) -> Option<(u32, u32)> {
        let ends = &self.order.ends;
        let end = *ends.get(self.tier)?;
        let begin = self.tier.checked_sub(1).map_or(0, |t| ends[t]);
        Some((begin, end))
    }

    fn enter_tier(&mut self) {
        self.visited = 0;
        if let Some((begin, end)) = self.bounds() {
            // Multiply and shift: a uniform choice from 32 bits without a division.
            let bits = self.random.rotate_left(17 * self.tier as u32) & 0xffff_ffff;
            self.start = ((bits * u64::from(end - begin)) >> 32) as u32;
        }
    }
}

impl Iterator for Victims {
    type Item = usize;

    /// Returns the next victim of the round, or `None` at its end.
    fn next(&mut self) -> Option<usize> {
        loop {
            let (begin, end) = self.bounds()?;
            let width = end - begin;
            if self.visited < width {
                let mut offset = self.start + self.visited;
                if offset >= width {
                    offset -= width;
                }
                self.visited += 1;
                return Some(self.order.others[(begin + offset) as usize] as usize);
            }
            self.tier += 1;
            self.enter_tier();
        }
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_round_visits_each_victim_once_and_near_ones_first() {
        let (workers, rounds) = if cfg!(miri) { (40, 3) } else { (100, 50) };
        let topology = Topology::tiers(workers, |a, b| a.abs_diff(b) / 10);
        let mut victims = Victims::new(&topology, 37);
        let mut rng = Rng::new(5);
        for _ in 0..rounds {
            victims.start_round(&mut rng);
            let round: Vec<_> = victims.by_ref().collect();
            assert!(round.is_sorted_by_key(|&v| topology.distance(37, v)));
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq((0..workers).filter(|&v| v != 37)));
            assert!(!victims.in_round());
        }
    }

    #[test]
    fn rounds_start_at_different_victims() {
        // Smaller samples deviate more.
        let (each, deviation) = if cfg!(miri) { (100, 40) } else { (1_000, 200) };
        let mut victims = Victims::new(&Topology::flat(9), 0);
        let mut rng = Rng::new(2);
        let mut first = [0; 9];
        for _ in 0..8 * each {
            victims.start_round(&mut rng);
            first[victims.next().unwrap()] += 1;
        }
        assert_eq!(first[0], 0);
        let even = each - deviation..each + deviation;
        assert!(first[1..].iter().all(|n| even.contains(n)), "{first:?}");
    }

    #[test]
    fn a_single_worker_has_no_victims() {
        let mut victims = Victims::new(&Topology::flat(1), 0);
        victims.start_round(&mut Rng::new(1));
        assert_eq!(victims.next(), None);
    }
}
