//! How far workers are from each other.

use crate::topology::WorkerPlaces;
use std::sync::Arc;

/// No node.
const NO_NODE: u32 = u32::MAX;

/// How far workers are from each other: near victims are visited first, and near sleepers woken
/// first.
///
/// Workers are in nested groups, such as those that share a core, a cache, and the memory of a
/// NUMA node. The *distance* of two workers is the number of levels, from the innermost on, on
/// which they are in different groups. The outermost groups are called *nodes* here, and workers
/// that are in different ones are *far* from each other. Without groups, which is the default, all
/// workers are equally near.
///
/// ```
/// use filch::{Rng, engine::{Distances, Hunt, Victims}};
///
/// // Two nodes of two workers.
/// let distances = Distances::nested(4, 1, |worker, _| Some(worker / 2));
/// let (mut victims, mut rng) = (Victims::new(&distances, 0), Rng::new(1));
/// let mut hunt = Hunt::new(&mut victims, &mut rng, 3);
/// assert_eq!(hunt.next_victim(), Some(1)); // its neighbour first
/// ```
#[derive(Clone, Debug, Default)]
pub struct Distances {
    workers: usize,
    levels: usize,
    /// The workers, those of a group next to each other on every level; empty when flat.
    order: Arc<[u32]>,
    /// For each worker and level, innermost first, where its group is in `order`.
    groups: Vec<WorkerRange>,
    /// For each worker its node, or `NO_NODE`; empty when flat.
    nodes: Vec<u32>,
    /// Where each node is in `order`.
    members: Vec<WorkerRange>,
    /// The numbers that the system gives to the NUMA nodes with workers; empty if not known.
    numbers: Vec<usize>,
}

/// Positions in an order of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkerRange {
    pub(super) begin: u32,
    pub(super) end: u32,
}

impl Distances {
    /// Creates the distances of workers that are equally far from each other.
    ///
    /// ```
    /// use filch::engine::Distances;
    ///
    /// let distances = Distances::flat(8);
    /// assert_eq!((distances.workers(), distances.distance(0, 7)), (8, 0));
    /// ```
    #[must_use]
    pub fn flat(workers: usize) -> Self {
        Self {
            workers,
            ..Self::default()
        }
    }

    /// Creates the distances of workers in nested groups. `group(worker, level)` is the number of
    /// the worker's group on a level; level 0 is the innermost. `None` is a group of its own.
    /// Workers in different groups of one level are in different groups of all inner levels as
    /// well, whatever their numbers are there.
    ///
    /// ```
    /// use filch::engine::{Distances, Settings};
    ///
    /// // Four workers on each of two sockets, each two of them on one core.
    /// let sizes = [2, 4];
    /// let settings = Settings {
    ///     distances: Distances::nested(8, 2, |worker, level| Some(worker / sizes[level])),
    ///     ..Settings::new(8)
    /// };
    /// let distance = |a, b| settings.distances.distance(a, b);
    /// assert_eq!((distance(0, 1), distance(0, 3), distance(0, 5)), (0, 1, 2));
    /// ```
    #[must_use]
    pub fn nested(
        workers: usize,
        levels: usize,
        group: impl Fn(usize, usize) -> Option<usize>,
    ) -> Self {
        if levels == 0 {
            return Self::flat(workers);
        }
        // Outermost first, so that a prefix of a key is a group. Groups come before single workers.
        let key = |worker: usize, level| match group(worker, level) {
            Some(group) => (false, group),
            None => (true, worker),
        };
        let keys: Vec<Vec<(bool, usize)>> = (0..workers)
            .map(|worker| (0..levels).rev().map(|level| key(worker, level)).collect())
            .collect();
        let mut order: Vec<u32> = (0..workers as u32).collect();
        order.sort_by_key(|&worker| &keys[worker as usize]);
        let mut groups = vec![WorkerRange { begin: 0, end: 0 }; workers * levels];
        let (mut nodes, mut members) = (vec![NO_NODE; workers], Vec::new());
        for level in 0..levels {
            let prefix = |worker: u32| &keys[worker as usize][..levels - level];
            let mut end = 0;
            for group in order.chunk_by(|&a, &b| prefix(a) == prefix(b)) {
                let begin = end;
                end += group.len() as u32;
                let is_node = level + 1 == levels && !prefix(group[0])[0].0;
                for &worker in group {
                    groups[worker as usize * levels + level] = WorkerRange { begin, end };
                    if is_node {
                        nodes[worker as usize] = members.len() as u32;
                    }
                }
                if is_node {
                    members.push(WorkerRange { begin, end });
                }
            }
        }
        Self {
            workers,
            levels,
            order: order.into(),
            groups,
            nodes,
            members,
            numbers: Vec::new(),
        }
    }

    /// Creates the distances of workers at these places. Workers beyond them are far from all
    /// others. Levels on which all places agree or all differ are left out; so the nodes are those
    /// of the machine if the places are on several, else groups that share an L3 cache, and workers
    /// that all share the same are equally near.
    ///
    /// ```
    /// use filch::{engine::Distances, topology::{PinOrder, Pinning, Topology}};
    ///
    /// let places = Topology::flat(2).place(4, &Pinning::Core, PinOrder::Compact)?;
    /// let distances = Distances::of_places(&places, 5);
    /// assert_eq!((distances.distance(0, 2), distances.distance(0, 1)), (0, 1)); // two on a core
    /// assert_eq!(distances.distance(0, 4), 1);
    ///
    /// let places = Topology::flat(2).place(2, &Pinning::Core, PinOrder::Compact)?;
    /// assert_eq!(Distances::of_places(&places, 5).distance(0, 4), 0); // flat
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn of_places(places: &WorkerPlaces, workers: usize) -> Self {
        let placed = places.workers().min(workers);
        let group = |worker: usize, level: usize| places.groups(worker)[level];
        let agree = |level| {
            let first = (placed > 0).then(|| group(0, level)).flatten();
            first.is_some() && (1..placed).all(|worker| group(worker, level) == first)
        };
        let differ = |level| {
            let mut known: Vec<usize> = (0..placed).filter_map(|w| group(w, level)).collect();
            known.sort_unstable();
            known.windows(2).all(|pair| pair[0] != pair[1])
        };
        let all = 0..WorkerPlaces::LEVELS;
        let end = all.clone().find(|&level| agree(level));
        let end = end.unwrap_or(WorkerPlaces::LEVELS);
        let numbers = places.nodes();
        // That of the nodes stays, so that each has its part of the injector.
        let last = end - usize::from(numbers.len() > 1 && end > 0);
        let begin = (0..last).find(|&level| !differ(level)).unwrap_or(last);
        let distances = Self::nested(workers, end - begin, |worker, level| {
            (worker < placed).then(|| group(worker, begin + level))?
        });
        Self {
            numbers,
            ..distances
        }
    }

    /// Returns the number of workers that these distances are for.
    ///
    /// ```
    /// use filch::engine::Distances;
    /// assert_eq!(Distances::flat(3).workers(), 3);
    /// ```
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the distance from `a` to `b`; zero when flat.
    ///
    /// ```
    /// use filch::engine::Distances;
    ///
    /// let pairs = Distances::nested(4, 1, |worker, _| Some(worker / 2));
    /// assert_eq!((pairs.distance(0, 1), pairs.distance(1, 2)), (0, 1));
    /// ```
    ///
    /// # Panics
    /// When there is no such worker, and the distances are not flat.
    #[must_use]
    pub fn distance(&self, a: usize, b: usize) -> usize {
        let levels = { self.groups_of(a).iter() }.zip(self.groups_of(b));
        { levels }.take_while(|(a, b)| a != b).count()
    }

    /// Returns the number of nodes: outermost groups of workers. None when flat.
    ///
    /// ```
    /// use filch::engine::Distances;
    ///
    /// assert_eq!(Distances::nested(8, 1, |worker, _| Some(worker / 2)).nodes(), 4);
    /// assert_eq!(Distances::flat(8).nodes(), 0);
    /// ```
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.members.len()
    }

    /// Returns the node of a worker, if it has one. Nodes are counted from zero, in the order of
    /// their numbers in [`nested`](Self::nested).
    ///
    /// ```
    /// use filch::engine::Distances;
    ///
    /// let distances = Distances::nested(3, 1, |worker, _| [Some(8), Some(0), None][worker]);
    /// assert_eq!([0, 1, 2].map(|worker| distances.node(worker)), [Some(1), Some(0), None]);
    /// ```
    #[must_use]
    pub fn node(&self, worker: usize) -> Option<usize> {
        let node = *self.nodes.get(worker)?;
        (node != NO_NODE).then_some(node as usize)
    }

    /// Returns the NUMA node with the number that the system gives it: its place among several, or
    /// `None` if it is the only one. Node 0 is the only one where the nodes are not known.
    ///
    /// # Errors
    /// The numbers of all nodes, if there is no such node.
    pub(super) fn find_node(&self, number: usize) -> Result<Option<usize>, &[usize]> {
        let numbers = match &*self.numbers {
            [] => &[0],
            numbers => numbers,
        };
        let found = numbers.iter().position(|&other| other == number);
        let node = found.ok_or(numbers)?;
        Ok((self.numbers.len() > 1).then_some(node))
    }

    /// Returns the workers of a node.
    pub(super) fn members(&self, node: usize) -> impl Iterator<Item = usize> + Clone {
        let WorkerRange { begin, end } = self.members[node];
        (begin..end).map(|position| self.order[position as usize] as usize)
    }

    /// Whether two workers are in different nodes.
    #[inline]
    pub(super) fn is_far(&self, a: usize, b: usize) -> bool {
        self.levels > 0 && self.groups_of(a).last() != self.groups_of(b).last()
    }

    /// Returns the workers, those of a group next to each other; empty when flat.
    pub(super) fn order(&self) -> &Arc<[u32]> {
        &self.order
    }

    /// Returns where the groups of a worker are in the order, innermost first; none when flat.
    pub(super) fn groups_of(&self, worker: usize) -> &[WorkerRange] {
        let begin = worker * self.levels;
        self.groups.get(begin..begin + self.levels).unwrap_or(&[])
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn groups_of_inner_levels_are_inside_of_outer_ones() {
        // Numbers of cores that repeat on each node.
        let distances = Distances::nested(8, 2, |worker, level| {
            Some(if level == 0 { worker % 2 } else { worker / 4 })
        });
        let from = |a| (0..8).map(|b| distances.distance(a, b)).collect::<Vec<_>>();
        assert_eq!(from(0), [0, 1, 0, 1, 2, 2, 2, 2]);
        assert_eq!(from(7), [2, 2, 2, 2, 1, 0, 1, 0]);
        assert!(distances.is_far(3, 4) && !distances.is_far(0, 3));
        assert!(distances.members(1).eq([4, 6, 5, 7]));
    }

    #[test]
    fn workers_without_a_group_are_far_from_all() {
        let distances = Distances::nested(4, 2, |worker, level| match (worker, level) {
            (0 | 1, 1) => Some(3),
            (2, 1) => Some(1),
            _ => None,
        });
        assert_eq!(distances.distance(0, 1), 1, "only the node is known");
        assert_eq!((distances.distance(0, 3), distances.distance(3, 3)), (2, 0));
        assert_eq!(distances.nodes(), 2);
        assert_eq!(
            [0, 1, 2, 3].map(|worker| distances.node(worker)),
            [Some(1), Some(1), Some(0), None]
        );
    }
}
