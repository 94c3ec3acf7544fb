//! Turns a graph into a plan: counts predecessors, sorts successors, and checks for errors.

use super::{
    build::Graph,
    edges::{Adjacency, Edge, Successors},
    error::GraphError,
    join_counter::JoinCounter,
    node::{AddedKinds, TaskKind, TaskNode},
    order,
    plan::{GraphParts, Plan, SequentialHint},
    semaphore,
};
use crate::base::sys::memory;
use std::{mem, sync::Arc};

/// A plan is narrow if it has at most this number of tasks (first), and on average at most this
/// number of tasks in a wave, which could run in parallel (second). Small tasks of such a plan are
/// done sooner by one worker than by several (`filch-bench graph`, case `stages`).
const MAX_NARROW: (usize, usize) = (16_384, 32);

/// Maximum average width of a plan whose tiny tasks are done sooner by one worker, for any number
/// of tasks (case `wavefront`).
const MAX_TINY_WIDTH: usize = 512;

/// Minimum number of tasks: fewer are done before a thief arrives.
const MIN_TASKS: usize = 16;

/// Whether one worker alone should run a plan of `tasks` tasks, of which `waves` are on the longest
/// path. Chains are excluded, since there is nothing to steal from them, and so are plans in which
/// no task waits for another.
fn sequential_hint(tasks: usize, waves: usize) -> Option<SequentialHint> {
    let worth_it = tasks > MIN_TASKS && waves > 1 && 2 * waves <= tasks;
    let at_most = |width| worth_it && tasks <= width * waves;
    if tasks <= MAX_NARROW.0 && at_most(MAX_NARROW.1) {
        Some(SequentialHint::SmallTasks)
    } else {
        at_most(MAX_TINY_WIDTH).then_some(SequentialHint::TinyTasks)
    }
}

impl<'env> Graph<'env> {
    /// Checks the graph and prepares it to be run.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let (first, second) = (graph.task("first", || ()), graph.task("second", || ()));
    /// first.precede(second);
    /// let mut plan = graph.plan()?; // checked once
    /// for _ in 0..3 {
    ///     assert_eq!(plan.run()?.ran(), 2); // run many times
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error when tasks wait for each other in a cycle, which names them; when every
    /// task has a predecessor; when a task needs more permits than a semaphore has; when a value is
    /// moved to one task and used by another; and when a task that was removed is used.
    pub fn plan(self) -> Result<Plan<'env>, GraphError> {
        let mut plan = Plan::unchecked(self.into_parts());
        let mut buffers = CheckBuffers::default();
        plan.check(&mut buffers)?;
        buffers.free();
        plan.shrink();
        Ok(plan)
    }
}

/// The memory that a check needs besides the plan.
#[derive(Default)]
pub(super) struct CheckBuffers {
    /// How many strong predecessors each task has.
    strong_predecessors: Vec<u32>,
    /// The number of weak predecessors of each task.
    weak_predecessors: Vec<u32>,
    /// The end of each task's successors in the sorted list; those of the next task begin there.
    ends: Vec<u32>,
    /// The wave of each task: one more than the latest wave of its predecessors.
    waves: Vec<u32>,
}

impl CheckBuffers {
    /// Frees the buffers, and gives long ones back to the system.
    fn free(self) {
        let Self {
            strong_predecessors,
            weak_predecessors,
            ends,
            waves,
        } = self;
        [strong_predecessors, weak_predecessors, ends, waves]
            .into_iter()
            .for_each(memory::free);
    }

    /// Returns how many numbers fit into the longest buffers.
    pub(super) fn capacity(&self) -> usize {
        self.strong_predecessors
            .capacity()
            .max(self.ends.capacity())
    }
}

impl Plan<'_> {
    /// Checks the parts and makes the shape of them, if there is nothing but tasks. Returns whether
    /// there is not.
    #[inline]
    pub(super) fn check_independent(&mut self) -> bool {
        let Self { parts, shape, .. } = self;
        if !parts.edges.is_empty() || parts.rare.is_allocated() {
            self.forget_sequence();
            return false;
        }
        shape.tasks = parts.nodes.len() - 1;
        (shape.has_conditions, shape.is_special) = parts.kinds.summary(&parts.nodes);
        if self.has_sequence && shape.sources.len() == shape.tasks {
            return true;
        }
        // All tasks are sources.
        shape.sources.refill().extend(1..=shape.tasks as u32);
        self.has_sequence = true;
        self.blocks.fit(self.shape.tasks);
        true
    }

    /// Checks the parts and makes the shape of them.
    pub(super) fn check(&mut self, buffers: &mut CheckBuffers) -> Result<(), GraphError> {
        let parts = &self.parts;
        if parts.rare.is_allocated() {
            parts.rare.values.check(&parts.names)?;
            check_removed(parts)?;
        }
        self.shape.tasks = parts.len();
        (self.shape.has_conditions, self.shape.is_special) = kinds_of(&parts.nodes);
        if !parts.rare.schedulable.is_empty() {
            self.shape.has_conditions = true;
            self.shape.is_special = true;
            self.shape.schedulable = parts.rare.schedulable.clone().into();
            self.shape.graph = parts.rare.values.graph;
        }
        if parts.edges.is_empty() && !parts.rare.order.is_given() {
            self.set_independent();
        } else {
            self.check_edges(buffers)?;
        }
        if !self.parts.rare.semaphores.is_empty() {
            self.shape.needs = semaphore::needs(&self.parts)?.into();
            self.shape.is_special = true;
        }
        self.blocks.fit(self.shape.sources.len());
        Ok(())
    }

    /// Makes the shape of a graph without edges, whose records have none.
    fn set_independent(&mut self) {
        let sources = self.shape.sources.refill();
        sources.extend(1..self.parts.nodes.len() as u32);
        leave_out_removed(&self.parts, sources);
    }

    fn check_edges(&mut self, buffers: &mut CheckBuffers) -> Result<(), GraphError> {
        let (parts, shape) = (&mut *self.parts, &mut self.shape);
        let edge_order = buffers.count_predecessors(parts, shape.has_conditions);
        let mut sources = mem::take(&mut shape.sources).recycle();
        shape.has_joins = buffers.find_sources(&mut sources);
        leave_out_removed(parts, &mut sources);
        let mut list = mem::take(&mut shape.successor_list).recycle();
        let waves = if edge_order.is_grouped
            && edge_order.is_topological
            && !shape.has_conditions
            && !parts.rare.order.is_given()
        {
            buffers.store_grouped(parts, &mut list, shape.has_joins)
        } else {
            buffers.sort_edges(parts, &mut list);
            let edges = buffers.adjacency(&list);
            let (mut sorted, mut waves) = (Vec::new(), None);
            if !edge_order.is_topological || parts.rare.order.is_given() {
                match topological_sort(parts, &edges) {
                    Ok((all, most)) => (sorted, waves) = (all, Some(most)),
                    Err(unfinished) => {
                        return Err(GraphError::cycle(find_cycle(parts, &unfinished)));
                    }
                }
            }
            if shape.has_conditions {
                let first = [&sources[..], &parts.rare.schedulable].concat();
                shape.unreachable = unreachable(parts, &edges, first).into();
            }
            shape.ranks = order::ranks(parts, &sorted, &edges).map(Arc::new);
            shape.is_special |= shape.ranks.is_some();
            let longest = buffers.store_sorted(&mut parts.nodes, &mut list, shape.has_joins);
            waves.unwrap_or(longest)
        };
        if sources.is_empty() && shape.tasks > 0 {
            return Err(GraphError::no_source());
        }
        shape.sources = sources.into();
        shape.successor_list = list.into();
        self.join_counters.clear();
        if shape.has_joins {
            let counts = buffers.strong_predecessors.iter();
            self.join_counters
                .extend(counts.map(|&count| JoinCounter::new(count)));
        }
        // Without joins, strands do not contend for counters.
        shape.sequential_hint = sequential_hint(shape.tasks, waves).filter(|_| shape.has_joins);
        Ok(())
    }
}

/// Removes the tasks that were removed from the graph, which have no predecessors.
fn leave_out_removed(parts: &GraphParts, sources: &mut Vec<u32>) {
    if !parts.rare.removed.is_empty() {
        sources.retain(|&task| !parts.is_removed(task));
    }
}

/// Checks that no edge leads to or from a task that was removed.
fn check_removed(parts: &GraphParts) -> Result<(), GraphError> {
    if parts.rare.removed.is_empty() {
        return Ok(());
    }
    let mut ends = parts.edges.iter().flat_map(|&(from, to)| [from, to]);
    match ends.find(|&task| parts.is_removed(task)) {
        Some(task) => Err(GraphError::removed_task(task)),
        None => Ok(()),
    }
}

/// Returns whether there are conditions, and whether there is anything but closures. It has no
/// branch for each task, since there may be millions.
fn kinds_of(nodes: &[TaskNode]) -> (bool, bool) {
    let kinds = nodes.iter().fold(0, |kinds, node| kinds | node.kind.bit());
    has_weak_and_special(kinds)
}

fn has_weak_and_special(kinds: u32) -> (bool, bool) {
    (kinds & TaskKind::WEAK != 0, kinds & !TaskKind::PLAIN != 0)
}

impl AddedKinds {
    /// The same as [`kinds_of`] for the tasks that were added.
    #[inline]
    fn summary(&self, nodes: &[TaskNode]) -> (bool, bool) {
        match self.known() {
            Some(kinds) => has_weak_and_special(kinds),
            None => kinds_of(nodes),
        }
    }
}

/// The order in which the edges of a graph were added.
struct EdgeOrder {
    /// Whether each task was added after its strong predecessors: then there is no cycle.
    is_topological: bool,
    /// Whether the edges are sorted by where they begin.
    is_grouped: bool,
}

/// Fills a list with zeros.
fn clear_to(list: &mut Vec<u32>, len: usize) {
    if len > list.capacity() {
        // The system hands out zeroed memory.
        *list = vec![0; len];
    } else {
        list.clear();
        list.resize(len, 0);
    }
}

impl CheckBuffers {
    /// Counts the predecessors of each task.
    fn count_predecessors(&mut self, parts: &GraphParts, conditions: bool) -> EdgeOrder {
        let tasks = parts.nodes.len();
        assert!(
            u32::try_from(parts.edges.len()).is_ok(),
            "a graph has room for 2^32 edges"
        );
        let (strong, weak) = (&mut self.strong_predecessors, &mut self.weak_predecessors);
        clear_to(strong, tasks);
        clear_to(weak, if conditions { tasks } else { 0 });
        let mut order = EdgeOrder {
            is_topological: true,
            is_grouped: true,
        };
        // As slices, whose bounds the loop keeps in registers.
        let (strong, weak) = (&mut strong[..], &mut weak[..]);
        let mut before = 0;
        for &(from, to) in &parts.edges {
            order.is_grouped &= before <= from;
            before = from;
            if conditions && parts.nodes[from as usize].kind.is_weak() {
                weak[to as usize] += 1;
            } else {
                strong[to as usize] += 1;
                order.is_topological &= from < to;
            }
        }
        order
    }

    /// Adds the tasks without predecessors of either kind to `sources`. Returns whether some task
    /// waits for more than one other.
    fn find_sources(&self, sources: &mut Vec<u32>) -> bool {
        let weak = &self.weak_predecessors;
        let mut has_joins = false;
        // The first record is no task.
        for (index, &strong) in self.strong_predecessors.iter().enumerate().skip(1) {
            if strong > 0 {
                has_joins |= strong > 1;
            } else if weak.is_empty() || weak[index] == 0 {
                sources.push(index as u32);
            }
        }
        has_joins
    }

    /// Sorts the edges by where they begin, in the order in which they were added, into `list`.
    fn sort_edges(&mut self, parts: &GraphParts, list: &mut Vec<Edge>) {
        let tasks = parts.nodes.len();
        clear_to(&mut self.ends, tasks + 1);
        let (next, strong) = (&mut self.ends[..], &self.strong_predecessors[..]);
        for &(from, _) in &parts.edges {
            next[from as usize + 1] += 1;
        }
        let mut begin = 0;
        for next in next.iter_mut() {
            begin += *next;
            *next = begin;
        }
        list.clear();
        list.resize(parts.edges.len(), Edge::default());
        let list = &mut list[..];
        for &(from, to) in &parts.edges {
            let end = &mut next[from as usize];
            list[*end as usize] = Edge::new(to, strong[to as usize] == 1);
            *end += 1;
        }
        // Each entry was the begin of a task's successors, and is their end now.
        self.ends.truncate(tasks);
    }

    /// Returns the edges that `sort_edges` has sorted into `list`.
    fn adjacency<'a>(&'a self, list: &'a [Edge]) -> Adjacency<'a> {
        Adjacency {
            ends: &self.ends,
            successors: list,
            strong_predecessors: &self.strong_predecessors,
        }
    }

    /// Stores in every record how many predecessors it has and what its successors are. `list` has
    /// the sorted edges, and keeps those that are not in records. Returns the number of tasks on
    /// the longest path, which is meaningful only if there are `joins` and all tasks come after
    /// their predecessors.
    fn store_sorted(&mut self, nodes: &mut [TaskNode], list: &mut Vec<Edge>, joins: bool) -> usize {
        clear_to(&mut self.waves, if joins { nodes.len() } else { 0 });
        let (waves, edges) = (&mut self.waves[..], &mut list[..]);
        let counted = self.ends.iter().zip(&self.strong_predecessors);
        let (mut begin, mut kept, mut most) = (0, 0, 0);
        for (index, (node, (&end, &strong))) in nodes.iter_mut().zip(counted).enumerate() {
            node.set_strong_predecessors(strong);
            node.successors = Successors::default();
            let all = begin..end as usize;
            begin = all.end;
            if all.is_empty() {
                continue;
            }
            if joins {
                let wave = waves[index] + 1;
                most = most.max(wave);
                for edge in &edges[all.clone()] {
                    let after = &mut waves[edge.to() as usize];
                    *after = wave.max(*after);
                }
            }
            let others = all.start..all.end - 1;
            node.successors = Successors {
                first: kept as u32,
                others: others.len() as u32,
                last: edges[others.end],
            };
            // To the front, in the place of edges that are in records.
            edges.copy_within(others.clone(), kept);
            kept += others.len();
        }
        list.truncate(kept);
        most as usize + 1
    }

    /// The same where the edges were added in the order of where they begin. So they need not be
    /// sorted, and `list` is empty before.
    fn store_grouped(
        &mut self,
        parts: &mut GraphParts,
        list: &mut Vec<Edge>,
        joins: bool,
    ) -> usize {
        let strong = &self.strong_predecessors[..];
        clear_to(&mut self.waves, if joins { strong.len() } else { 0 });
        let waves = &mut self.waves[..];
        let mut edges = parts.edges.iter();
        let mut most = 0;
        for (index, (node, &predecessors)) in parts.nodes.iter_mut().zip(strong).enumerate() {
            let (first, mut last) = (list.len(), Edge::default());
            let wave = waves.get(index).map_or(0, |wave| wave + 1);
            let of_task = edges.as_slice().iter();
            for &(_, to) in of_task.take_while(|(from, _)| *from as usize == index) {
                edges.next();
                if !last.is_none() {
                    list.push(last);
                }
                last = Edge::new(to, strong[to as usize] == 1);
                if joins {
                    let after = &mut waves[to as usize];
                    *after = wave.max(*after);
                }
                most = most.max(wave);
            }
            node.set_strong_predecessors(predecessors);
            node.successors = Successors {
                first: first as u32,
                others: (list.len() - first) as u32,
                last,
            };
        }
        most as usize + 1
    }
}

/// Visits the tasks as a run would if every condition chose all of its successors. Returns them in
/// that order, with the number of tasks on the longest path. If some tasks would wait forever,
/// returns how many predecessors each task still waits for.
fn topological_sort(
    parts: &GraphParts,
    edges: &Adjacency<'_>,
) -> Result<(Vec<u32>, usize), Vec<u32>> {
    let mut unfinished = edges.strong_predecessors.to_vec();
    // Tasks before position `next` have been visited.
    let mut ready = Vec::with_capacity(parts.nodes.len());
    ready.extend(
        (1..)
            .zip(&unfinished[1..])
            .filter(|(_, predecessors)| **predecessors == 0)
            .map(|(index, _)| index),
    );
    let mut next = 0;
    // Tasks before position `wave` had their last predecessor in the previous wave.
    let (mut waves, mut wave) = (0, 0);
    while let Some(&index) = ready.get(next) {
        if next == wave {
            (waves, wave) = (waves + 1, ready.len());
        }
        next += 1;
        if parts.nodes[index as usize].kind.is_weak() {
            continue;
        }
        for after in edges.after(index) {
            unfinished[after as usize] -= 1;
            if unfinished[after as usize] == 0 {
                ready.push(after);
            }
        }
    }
    if ready.len() < parts.nodes.len() - 1 {
        return Err(unfinished);
    }
    Ok((ready, waves))
}

/// Returns the names of the tasks on a cycle, in its direction. `unfinished` has the number of
/// predecessors that each task waits for: not zero for tasks on a cycle and tasks behind one.
fn find_cycle(parts: &GraphParts, unfinished: &[u32]) -> Vec<String> {
    let stuck = |index: u32| unfinished[index as usize] > 0;
    let strong = |from: u32| !parts.nodes[from as usize].kind.is_weak();
    // Each of them has such a predecessor, so following the predecessors must end in a cycle.
    let mut before = vec![0_u32; parts.nodes.len()];
    for &(from, to) in &parts.edges {
        if strong(from) && stuck(from) && stuck(to) {
            before[to as usize] = from;
        }
    }
    let first = (1..parts.nodes.len() as u32).find(|&index| stuck(index));
    let mut at = first.expect("a task waits for ever");
    let mut seen = vec![false; parts.nodes.len()];
    while !seen[at as usize] {
        seen[at as usize] = true;
        at = before[at as usize];
    }
    let mut cycle = vec![at];
    let mut back = before[at as usize];
    while back != at {
        cycle.push(back);
        back = before[back as usize];
    }
    cycle.reverse();
    // The cycle begins with the task that was added first.
    let least = (0..cycle.len()).min_by_key(|&at| cycle[at]);
    cycle.rotate_left(least.unwrap_or(0));
    cycle
        .into_iter()
        .map(|index| parts.names.of(index))
        .collect()
}

/// Returns the tasks that no run can reach: some predecessor that they wait for is unreachable, and
/// so are all conditions that may choose them.
///
/// `open` are the tasks that are released without either: sources, and tasks that runtimes may
/// schedule.
fn unreachable(parts: &GraphParts, edges: &Adjacency<'_>, mut open: Vec<u32>) -> Vec<u32> {
    let nodes = &parts.nodes;
    let mut unfinished = edges.strong_predecessors.to_vec();
    let mut reached = vec![false; nodes.len()];
    while let Some(index) = open.pop() {
        if mem::replace(&mut reached[index as usize], true) {
            continue;
        }
        let weak = nodes[index as usize].kind.is_weak();
        for after in edges.after(index) {
            if !weak {
                unfinished[after as usize] -= 1;
            }
            if weak || unfinished[after as usize] == 0 {
                open.push(after);
            }
        }
    }
    (1..nodes.len() as u32)
        .filter(|&index| !reached[index as usize] && !parts.is_removed(index))
        .collect()
}
