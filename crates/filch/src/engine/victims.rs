//! The order in which a worker visits its victims.

use super::distances::{Distances, WorkerRange};
use crate::base::rng::Rng;
use std::sync::Arc;

/// The victims of one tier: those at a range of positions in the order of the workers, without the
/// nearer ones, which are next to each other among them.
#[derive(Clone, Copy, Debug)]
struct Tier {
    all: WorkerRange,
    nearer: WorkerRange,
}

impl Tier {
    fn width(self) -> u32 {
        (self.all.end - self.all.begin) - (self.nearer.end - self.nearer.begin)
    }
}

/// The order in which a worker visits the others.
#[derive(Debug)]
struct VisitOrder {
    /// All workers, such that each tier is a range; empty when flat, since a list for each of many
    /// pools takes memory.
    order: Arc<[u32]>,
    /// Near ones first; none is empty.
    tiers: Vec<Tier>,
    /// The tier of far victims, before which near ones are visited once more; `usize::MAX` if there
    /// is none, or all are far.
    far: usize,
    /// Whether a round passes over busy victims.
    passes_over: bool,
}

impl VisitOrder {
    fn new(distances: &Distances, worker: usize) -> Self {
        let order = distances.order();
        let own = order.iter().position(|&at| at as usize == worker);
        let begin = own.unwrap_or(worker) as u32;
        let mut nearer = WorkerRange {
            begin,
            end: begin + 1,
        };
        let all = WorkerRange {
            begin: 0,
            end: distances.workers() as u32,
        };
        let groups = distances.groups_of(worker);
        let mut tiers = Vec::with_capacity(groups.len() + 1);
        for &all in groups.iter().chain([&all]) {
            let tier = Tier { all, nearer };
            if tier.width() > 0 {
                tiers.push(tier);
            }
            nearer = all;
        }
        let last_is_far = groups.last().is_some_and(|&node| node != all);
        let far = match tiers.len() {
            tiers if tiers > 1 && last_is_far => tiers - 1,
            _ => usize::MAX,
        };
        Self {
            order: order.clone(),
            tiers,
            far,
            passes_over: distances.workers() > PROBES_PER_ROUND + 1,
        }
    }

    /// Returns how many busy victims of a tier a visit of it probes.
    fn probes(&self, tier: usize) -> usize {
        let each = PROBES_PER_ROUND / self.tiers.len().max(1);
        match self.far {
            usize::MAX => each,
            far if far == tier => FAR_PROBES,
            // Near tiers are visited twice.
            _ => each.div_ceil(2),
        }
    }

    /// Returns the victim with this number in a tier.
    fn at(&self, tier: Tier, number: u32) -> usize {
        let mut position = tier.all.begin + number;
        if position >= tier.nearer.begin {
            position += tier.nearer.end - tier.nearer.begin;
        }
        let victim = self.order.get(position as usize);
        *victim.unwrap_or(&position) as usize
    }
}

/// The most busy workers that a round probes, divided equally among the tiers. Idle ones, which a
/// bit shows, are free.
///
/// With up to 17 workers on one node a round probes all. With more, probes of all would make the
/// cost of a failed search grow with the number of workers, and that of all failed searches with
/// its square (rayon's issue 394). Many searchers probe most victims all the same, and the last one
/// that falls asleep checks every queue (`bench/results/scale`).
const PROBES_PER_ROUND: usize = 16;

/// The fractional part of the golden ratio, times 2^32.
const GOLDEN_RATIO: u32 = 0x9e37_79b9;

/// The most busy workers of other nodes that a round probes. One worker that returns with a task
/// feeds its node: with as many probes as in a near tier, 13 % instead of 9 % of the steals of
/// parallel regions are far ones (256 simulated workers, four nodes).
const FAR_PROBES: usize = 1;

/// One worker's victims: a round visits each, near ones first, from a random start in each tier. If
/// some are near and others far, near ones are visited once more before the first far one: a task
/// that has appeared meanwhile is cheaper there. A round passes over the rest of a tier when it has
/// [probed](Self::count_probe) enough busy victims there. A clone shares the order.
#[derive(Clone, Debug)]
pub struct Victims {
    order: Arc<VisitOrder>,
    tier: usize,
    /// Whether the near tiers have been visited once.
    again: bool,
    /// How many workers of the current tier have been visited, and at which one the tier started.
    visited: u32,
    start: u32,
    /// How many busy workers of the current tier have been probed.
    probed: usize,
    /// The victim that the next round visits first, and that of this round until it is visited.
    revisit: Option<u32>,
    first: Option<u32>,
    random: u64,
    /// How many rounds have begun since `random` was drawn.
    rounds: u32,
}

impl Victims {
    /// Returns the victims of `worker`.
    ///
    /// ```
    /// use filch::{Rng, engine::{Distances, Hunt, Victims}};
    ///
    /// let (mut victims, mut rng) = (Victims::new(&Distances::flat(2), 0), Rng::new(1));
    /// let mut hunt = Hunt::new(&mut victims, &mut rng, 1);
    /// assert_eq!((hunt.next_victim(), hunt.next_victim()), (Some(1), None));
    /// ```
    #[must_use]
    pub fn new(distances: &Distances, worker: usize) -> Self {
        Self {
            order: Arc::new(VisitOrder::new(distances, worker)),
            tier: usize::MAX,
            again: false,
            visited: 0,
            start: 0,
            probed: 0,
            revisit: None,
            first: None,
            random: 0,
            rounds: 0,
        }
    }

    /// Begins a new round.
    pub(crate) fn start_round(&mut self, rng: &mut Rng) {
        if self.rounds == 0 {
            self.random = rng.next_u64();
        }
        self.rounds = self.rounds.wrapping_add(1);
        self.again = false;
        self.first = self.revisit.take();
        self.enter_tier(0);
    }

    /// Makes the next round of the search begin with `victim`, which has a task that this round has
    /// not taken, if a round does not probe all victims anyway. Otherwise a searcher among 256 busy
    /// workers would see a single task twice in some ten rounds.
    pub(crate) fn revisit(&mut self, victim: usize) {
        if self.order.passes_over {
            self.revisit = Some(victim as u32);
        }
    }

    /// Ends the rounds of a search: the next one begins with near victims, at random.
    pub(crate) fn end_search(&mut self) {
        (self.tier, self.rounds) = (usize::MAX, 0);
        (self.revisit, self.first) = (None, None);
    }

    /// Counts a probe of the victim that [`next`](Self::next) returned last, which is busy. When
    /// the probes of the tier are used up, the round continues with the next tier.
    ///
    /// ```
    /// use filch::{Rng, engine::{Distances, Hunt, Victims}};
    ///
    /// let (mut victims, mut rng) = (Victims::new(&Distances::flat(100), 0), Rng::new(1));
    /// let mut round = Hunt::new(&mut victims, &mut rng, 1).unvisited();
    /// let mut probed = 0;
    /// while round.next().is_some() {
    ///     round.count_probe();
    ///     probed += 1;
    /// }
    /// assert_eq!(probed, 16); // of 99 victims, if all are busy
    /// ```
    pub fn count_probe(&mut self) {
        self.probed += 1;
        if self.probed >= self.order.probes(self.tier)
            && let Some(tier) = self.order.tiers.get(self.tier)
        {
            // The round is over when `next` reports it, and not before.
            self.visited = tier.width();
        }
    }

    /// Whether a round is under way, that is, there may be victims that it has not visited.
    #[must_use]
    pub(crate) fn in_round(&self) -> bool {
        self.tier < self.order.tiers.len()
    }

    /// Whether the last victim is near, and others are far.
    #[must_use]
    pub(crate) fn is_near(&self) -> bool {
        self.order.far != usize::MAX && self.tier < self.order.far
    }

    fn enter_tier(&mut self, tier: usize) {
        (self.tier, self.visited, self.probed) = (tier, 0, 0);
        if let Some(tier) = self.order.tiers.get(tier) {
            // The second visit of a tier starts elsewhere.
            let turns = 17 * self.tier as u32 + 7 * u32::from(self.again);
            let first = self.random.rotate_left(turns) as u32;
            // Steps of the golden ratio spread the starts of the rounds evenly, so that each
            // victim is soon the first, even if a round probes one only.
            let bits = first.wrapping_add(self.rounds.wrapping_mul(GOLDEN_RATIO));
            // Multiply and shift: a choice from 32 bits without a division.
            self.start = ((u64::from(bits) * u64::from(tier.width())) >> 32) as u32;
        }
    }

    fn leave_tier(&mut self) {
        let next = self.tier + 1;
        if next == self.order.far && !std::mem::replace(&mut self.again, true) {
            self.enter_tier(0);
        } else {
            self.enter_tier(next);
        }
    }
}

impl Iterator for Victims {
    type Item = usize;

    /// Returns the next victim of the round, or `None` at its end.
    fn next(&mut self) -> Option<usize> {
        if let Some(first) = self.first.take() {
            return Some(first as usize);
        }
        loop {
            let tier = *self.order.tiers.get(self.tier)?;
            let width = tier.width();
            if self.visited < width {
                let mut number = self.start + self.visited;
                if number >= width {
                    number -= width;
                }
                self.visited += 1;
                return Some(self.order.at(tier, number));
            }
            self.leave_tier();
        }
    }
}

/// The victims that the round has not visited, those included that it will pass over.
impl ExactSizeIterator for Victims {
    fn len(&self) -> usize {
        let tiers = &self.order.tiers;
        let width = |tiers: &[Tier]| tiers.iter().map(|tier| tier.width()).sum::<u32>();
        let Some(left) = tiers.get(self.tier..).filter(|left| !left.is_empty()) else {
            return 0;
        };
        let once_more = match tiers.get(..self.order.far) {
            Some(near) if !self.again => width(near),
            _ => 0,
        };
        (width(left) + once_more - self.visited) as usize + usize::from(self.first.is_some())
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_round_visits_near_victims_twice_and_then_each_far_one_once() {
        let (workers, rounds) = if cfg!(miri) { (60, 3) } else { (100, 50) };
        let sizes = [2, 10, 50];
        let distances = Distances::nested(workers, 3, |worker, level| Some(worker / sizes[level]));
        let mut victims = Victims::new(&distances, 37);
        let mut rng = Rng::new(5);
        let others = || (0..workers).filter(|&v| v != 37);
        let near = others().filter(|&v| !distances.is_far(37, v)).count();
        for _ in 0..rounds {
            victims.start_round(&mut rng);
            let round: Vec<_> = victims.by_ref().collect();
            let mut first = round[..near].to_vec();
            assert!(first.is_sorted_by_key(|&v| distances.distance(37, v)));
            first.sort_unstable();
            assert!(
                first
                    .into_iter()
                    .eq(others().filter(|&v| !distances.is_far(37, v)))
            );
            let mut once = round[near..].to_vec();
            assert!(once.is_sorted_by_key(|&v| distances.distance(37, v)));
            once.sort_unstable();
            assert!(once.into_iter().eq(others()));
            assert!(!victims.in_round());
        }
    }

    #[test]
    fn without_near_or_without_far_victims_each_is_visited_once() {
        let alone = Distances::nested(5, 1, |worker, _| (worker > 0).then_some(1));
        let one_node = Distances::nested(5, 2, |worker, level| Some(worker * (1 - level)));
        for distances in [alone, one_node] {
            let mut victims = Victims::new(&distances, 0);
            victims.start_round(&mut Rng::new(7));
            let mut round: Vec<_> = victims.collect();
            round.sort_unstable();
            assert_eq!(round, [1, 2, 3, 4]);
        }
    }

    #[test]
    fn rounds_start_at_different_victims() {
        // Smaller samples deviate more.
        let (each, deviation) = if cfg!(miri) { (100, 40) } else { (1_000, 200) };
        let mut victims = Victims::new(&Distances::flat(9), 0);
        let mut rng = Rng::new(2);
        let mut first = [0; 9];
        for _ in 0..8 * each {
            victims.end_search();
            victims.start_round(&mut rng);
            first[victims.next().unwrap()] += 1;
        }
        assert_eq!(first[0], 0);
        let even = each - deviation..each + deviation;
        assert!(first[1..].iter().all(|n| even.contains(n)), "{first:?}");
    }

    #[test]
    fn a_flat_order_has_every_other_worker_once() {
        for worker in 0..5 {
            let mut victims = Victims::new(&Distances::flat(5), worker);
            victims.start_round(&mut Rng::new(3));
            let mut round: Vec<_> = victims.collect();
            round.sort_unstable();
            assert!(round.into_iter().eq((0..5).filter(|&v| v != worker)));
        }
    }

    #[test]
    fn a_round_probes_a_few_busy_victims_of_each_tier() {
        let sizes = [2, 16, 64];
        let distances = Distances::nested(256, 3, |worker, level| Some(worker / sizes[level]));
        let (mut victims, mut rng) = (Victims::new(&distances, 37), Rng::new(7));
        for busy in 1..=3 {
            victims.start_round(&mut rng);
            assert_eq!(victims.len(), 63 + 255);
            let (mut probed, mut visited) = ([0; 4], 0);
            while let Some(victim) = victims.next() {
                visited += 1;
                // The others are idle, and cost nothing.
                if victim % 3 < busy {
                    probed[distances.distance(37, victim)] += 1;
                    victims.count_probe();
                }
            }
            assert_eq!(probed[1..], [4, 4, 1], "{busy} of 3 are busy");
            assert!(visited < 60, "{visited}");
            assert_eq!(victims.len(), 0);
        }
    }

    #[test]
    fn a_round_begins_with_the_victim_to_revisit_where_it_does_not_probe_all() {
        for (workers, first) in [(17, None), (100, Some(60))] {
            let (mut victims, mut rng) = (Victims::new(&Distances::flat(workers), 3), Rng::new(1));
            victims.start_round(&mut rng);
            victims.revisit(60);
            assert_eq!(victims.len(), workers - 1, "this round is not affected");
            victims.start_round(&mut rng);
            assert_eq!(victims.len(), workers - 1 + usize::from(first.is_some()));
            let next = victims.next();
            assert!(first.is_none() || next == first, "{next:?}");
            assert_eq!(
                victims.by_ref().count(),
                workers - 1 - usize::from(first.is_none())
            );
            victims.start_round(&mut rng);
            assert_eq!(victims.len(), workers - 1, "only once");
            victims.revisit(60);
            victims.end_search();
            victims.start_round(&mut rng);
            assert_eq!(victims.len(), workers - 1, "the search has ended");
        }
    }

    #[test]
    fn a_round_visits_the_only_busy_victim() {
        let mut victims = Victims::new(&Distances::flat(500), 3);
        victims.start_round(&mut Rng::new(1));
        assert!(victims.any(|victim| victim == 400));
    }

    #[test]
    fn the_length_is_that_of_the_rest_of_the_round() {
        let distances = Distances::nested(20, 2, |worker, level| Some(worker / [3, 9][level]));
        let mut victims = Victims::new(&distances, 10);
        assert_eq!(victims.len(), 0, "no round has begun");
        victims.start_round(&mut Rng::new(3));
        for left in (0..=victims.clone().count()).rev() {
            assert_eq!(victims.len(), left);
            let _ = victims.next();
        }
    }

    /// Even though a round probes one far victim only.
    #[test]
    fn the_rounds_of_a_search_soon_probe_every_busy_victim() {
        for nodes in [2, 5, 8, 33] {
            let distances = Distances::nested(4 * nodes, 1, |worker, _| Some(worker / 4));
            let (mut victims, mut rng) = (Victims::new(&distances, 5), Rng::new(nodes as u64));
            let mut probed = vec![false; 4 * nodes];
            probed[5] = true;
            for _ in 0..2 * 4 * nodes {
                victims.start_round(&mut rng);
                while let Some(victim) = victims.next() {
                    probed[victim] = true;
                    victims.count_probe();
                }
            }
            assert!(
                probed.iter().all(|&probed| probed),
                "{nodes} nodes: {probed:?}"
            );
        }
    }

    #[test]
    fn after_the_end_of_a_search_near_victims_come_first() {
        let distances = Distances::nested(8, 1, |worker, _| Some(worker / 2));
        let (mut victims, mut rng) = (Victims::new(&distances, 4), Rng::new(1));
        victims.start_round(&mut rng);
        assert_eq!(victims.next(), Some(5));
        victims.end_search();
        assert!(!victims.in_round());
        victims.start_round(&mut rng);
        assert_eq!(victims.next(), Some(5));
    }

    #[test]
    fn a_single_worker_has_no_victims() {
        let mut victims = Victims::new(&Distances::flat(1), 0);
        victims.start_round(&mut Rng::new(1));
        assert_eq!(victims.next(), None);
    }
}
