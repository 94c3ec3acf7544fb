//! Turns a graph into a plan: counts predecessors, sorts successors, and checks for errors.

use super::{
    build::Graph,
    edges::{Adjacency, Edge, Successors},
    error::GraphError,
    join_counter::JoinCounter,
    node::TaskNode,
    order,
    plan::{GraphParts, Plan, SequentialHint, Shape},
    semaphore,
};

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
    /// task has a predecessor; when a task needs more permits than a semaphore has; and when a
    /// value is moved to one task and used by another.
    pub fn plan(self) -> Result<Plan<'env>, GraphError> {
        plan(self.into_parts())
    }
}

/// Checks the parts and converts them into their final form.
fn plan<'env>(mut parts: GraphParts) -> Result<Plan<'env>, GraphError> {
    let (has_conditions, is_special) = kinds_of(&parts.nodes);
    parts.values.check(&parts.names)?;
    let summary = sort_edges(&parts, has_conditions);
    let (mut edges, mut sources) = (summary.edges, summary.sources);
    let tasks = parts.nodes.len() - 1;
    let (mut sorted, mut waves) = (Vec::new(), None);
    if !summary.in_order || parts.order.is_given() {
        match topological_sort(&parts, &edges) {
            Ok((all, most)) => (sorted, waves) = (all, Some(most)),
            Err(missing) => return Err(GraphError::cycle(find_cycle(&parts, &missing))),
        }
    }
    if sources.is_empty() && parts.nodes.len() > 1 {
        return Err(GraphError::no_source());
    }
    let unreachable = if has_conditions {
        unreachable(&parts, &edges, &sources)
    } else {
        Vec::new()
    };
    order::arrange(&parts, &sorted, &mut edges, &mut sources);
    let (successors, join_counters, longest) =
        edges.store_in_nodes(&mut parts.nodes, summary.has_joins);
    let needs = semaphore::needs(&parts)?;
    let shape = Shape {
        successor_list: successors.into(),
        sources: sources.into(),
        has_joins: summary.has_joins,
        // Without joins, strands do not contend for counters.
        sequential_hint: sequential_hint(tasks, waves.unwrap_or(longest))
            .filter(|_| summary.has_joins),
        has_conditions,
        recorder: None,
        is_special: is_special || !needs.is_empty(),
        unreachable: unreachable.into(),
        needs: needs.into(),
    };
    Ok(Plan::new(parts, shape, join_counters))
}

/// Returns whether there are conditions, and whether there is anything but closures. It has no
/// branch for each task, since there may be millions.
fn kinds_of(nodes: &[TaskNode]) -> (bool, bool) {
    nodes.iter().fold((false, false), |(weak, special), node| {
        (weak | node.kind.is_weak(), special | node.kind.is_special())
    })
}

/// The edges of a graph, sorted.
struct EdgeSummary {
    edges: Adjacency,
    /// The tasks without predecessors of either kind.
    sources: Vec<u32>,
    /// Whether some task waits for more than one other.
    has_joins: bool,
    /// Whether each task was added after its strong predecessors: then there is no cycle.
    in_order: bool,
}

/// Sorts the edges by where they begin, in the order in which they were added.
fn sort_edges(parts: &GraphParts, conditions: bool) -> EdgeSummary {
    let tasks = parts.nodes.len();
    assert!(
        u32::try_from(parts.edges.len()).is_ok(),
        "a graph has room for 2^32 edges"
    );
    let (mut next, mut strong_predecessors) = (vec![0_u32; tasks + 1], vec![0_u32; tasks]);
    // The number of weak predecessors of each task.
    let mut weak = vec![0_u32; if conditions { tasks } else { 0 }];
    let mut in_order = true;
    for &(from, to) in &parts.edges {
        next[from as usize + 1] += 1;
        if conditions && parts.nodes[from as usize].kind.is_weak() {
            weak[to as usize] += 1;
        } else {
            strong_predecessors[to as usize] += 1;
            in_order &= from < to;
        }
    }
    let (mut sources, mut joins) = (Vec::new(), false);
    for index in 0..tasks {
        next[index + 1] += next[index];
        joins |= strong_predecessors[index] > 1;
        if index > 0
            && strong_predecessors[index] == 0
            && weak.get(index).is_none_or(|weak| *weak == 0)
        {
            sources.push(index as u32);
        }
    }
    let mut successors = vec![0_u32; parts.edges.len()];
    for &(from, to) in &parts.edges {
        let end = &mut next[from as usize];
        successors[*end as usize] = to;
        *end += 1;
    }
    // Each entry was the begin of a task's successors, and is their end now.
    next.truncate(tasks);
    EdgeSummary {
        edges: Adjacency {
            ends: next,
            successors,
            strong_predecessors,
        },
        sources,
        has_joins: joins,
        in_order,
    }
}

impl Adjacency {
    /// Stores in every record how many predecessors it has and what its successors are. Returns the
    /// list of the successors that are not in records; the counters, if `joins`; and the number of
    /// tasks on the longest path, which is meaningful only if all tasks come after their
    /// predecessors.
    pub(super) fn store_in_nodes(
        self,
        nodes: &mut [TaskNode],
        joins: bool,
    ) -> (Vec<Edge>, Box<[JoinCounter]>, usize) {
        let Self {
            ends,
            successors,
            strong_predecessors,
        } = self;
        let mut list = Vec::with_capacity(successors.len());
        // The wave of each task: one more than the latest wave of its predecessors.
        let mut waves = vec![0_u32; if joins { ends.len() } else { 0 }];
        let (mut begin, mut most) = (0, 0);
        for (index, (node, &end)) in nodes.iter_mut().zip(&ends).enumerate() {
            let all = &successors[begin as usize..end as usize];
            begin = end;
            node.set_strong_predecessors(strong_predecessors[index]);
            node.successors = Successors::default();
            let Some((&last, others)) = all.split_last() else {
                continue;
            };
            let edge = |to: u32| Edge::new(to, strong_predecessors[to as usize] == 1);
            node.successors = Successors {
                first: list.len() as u32,
                others: others.len() as u32,
                last: edge(last),
            };
            list.extend(others.iter().map(|&to| edge(to)));
            if joins {
                let wave = waves[index] + 1;
                most = most.max(wave);
                for &to in all {
                    let after = &mut waves[to as usize];
                    *after = wave.max(*after);
                }
            }
        }
        let counted = if joins {
            strong_predecessors
        } else {
            Vec::new()
        };
        let missing = counted.into_iter().map(JoinCounter::new).collect();
        (list, missing, most as usize + 1)
    }
}

/// Visits the tasks as a run would if every condition chose all of its successors. Returns them in
/// that order, with the number of tasks on the longest path. If some tasks would wait forever,
/// returns how many predecessors each task still waits for.
fn topological_sort(parts: &GraphParts, edges: &Adjacency) -> Result<(Vec<u32>, usize), Vec<u32>> {
    let mut missing = edges.strong_predecessors.clone();
    // Tasks before position `next` have been visited.
    let mut ready = Vec::with_capacity(parts.nodes.len());
    ready.extend(
        (1..)
            .zip(&missing[1..])
            .filter(|(_, missing)| **missing == 0)
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
        for &after in edges.after(index) {
            missing[after as usize] -= 1;
            if missing[after as usize] == 0 {
                ready.push(after);
            }
        }
    }
    if ready.len() < parts.nodes.len() - 1 {
        return Err(missing);
    }
    Ok((ready, waves))
}

/// Returns the names of the tasks on a cycle, in its direction. `missing` is not zero for tasks on
/// a cycle and tasks behind one.
fn find_cycle(parts: &GraphParts, missing: &[u32]) -> Vec<String> {
    let stuck = |index: u32| missing[index as usize] > 0;
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
fn unreachable(parts: &GraphParts, edges: &Adjacency, sources: &[u32]) -> Vec<u32> {
    let nodes = &parts.nodes;
    let mut missing = edges.strong_predecessors.clone();
    let mut reached = vec![false; nodes.len()];
    let mut open = sources.to_vec();
    while let Some(index) = open.pop() {
        if std::mem::replace(&mut reached[index as usize], true) {
            continue;
        }
        let weak = nodes[index as usize].kind.is_weak();
        for &after in edges.after(index) {
            if !weak {
                missing[after as usize] -= 1;
            }
            if weak || missing[after as usize] == 0 {
                open.push(after);
            }
        }
    }
    (1..nodes.len() as u32)
        .filter(|&index| !reached[index as usize])
        .collect()
}
