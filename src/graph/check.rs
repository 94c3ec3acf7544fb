//! From a graph to a plan: degrees, successors, and everything that can be wrong.

use super::{
    build::Parts,
    edges::Sorted,
    error::GraphError,
    node::Node,
    order,
    plan::{Alone, Plan, Shape},
    semaphore,
};

/// A plan is narrow that has at most so many tasks, and on average at most so many in a row, of those that could run
/// together. Small tasks of such a plan are done sooner by one worker than shared with others (`filch-bench graph`, case
/// `stages`).
const NARROW: (usize, usize) = (16_384, 32);

/// The same of tiny tasks, however many there are, for plans that are not much wider (case `wavefront`).
const SLIM: usize = 512;

/// Fewer tasks are done before anybody comes to steal them.
const FEWEST: usize = 16;

/// Which tasks are better left to one worker, of so many of which so many are on the longest way. Mere chains need no
/// such thing, since they have nothing to steal, and neither do those that wait for nobody.
fn spared(tasks: usize, waves: usize) -> Option<Alone> {
    let worth_it = tasks > FEWEST && waves > 1 && 2 * waves <= tasks;
    let at_most = |width| worth_it && tasks <= width * waves;
    if tasks <= NARROW.0 && at_most(NARROW.1) {
        Some(Alone::IfSmall)
    } else {
        at_most(SLIM).then_some(Alone::IfTiny)
    }
}

/// Checks the parts and puts them into their final form.
pub(super) fn plan<'env>(mut parts: Parts) -> Result<Plan<'env>, GraphError> {
    let (conditions, special) = kinds_of(&parts.nodes);
    parts.values.check(&parts.names)?;
    let lined_up = line_up(&parts, conditions);
    let (mut edges, mut sources) = (lined_up.edges, lined_up.sources);
    let tasks = parts.nodes.len() - 1;
    let (mut sorted, mut waves) = (Vec::new(), None);
    if !lined_up.in_order || parts.order.is_given() {
        match sort(&parts, &edges) {
            Ok((all, most)) => (sorted, waves) = (all, Some(most)),
            Err(missing) => return Err(GraphError::cycle(find_cycle(&parts, &missing))),
        }
    }
    if sources.is_empty() && parts.nodes.len() > 1 {
        return Err(GraphError::no_source());
    }
    let unreachable = if conditions {
        unreachable(&parts, &edges, &sources)
    } else {
        Vec::new()
    };
    order::arrange(&parts, &sorted, &mut edges, &mut sources);
    let (successors, missing, most) = edges.fold_in(&mut parts.nodes, lined_up.joins);
    let needs = semaphore::needs(&parts)?;
    let shape = Shape {
        successors: successors.into(),
        sources: sources.into(),
        joins: lined_up.joins,
        // Without joins, strands do not get into each other's way.
        alone: spared(tasks, waves.unwrap_or(most)).filter(|_| lined_up.joins),
        conditions,
        recorder: None,
        special: special || !needs.is_empty(),
        unreachable: unreachable.into(),
        needs: needs.into(),
    };
    Ok(Plan::new(parts, shape, missing))
}

/// Whether there are conditions, and whether there is more than closures. (Without a branch for each: there may be
/// millions.)
fn kinds_of(nodes: &[Node]) -> (bool, bool) {
    nodes.iter().fold((false, false), |(weak, special), node| {
        (weak | node.kind.is_weak(), special | node.kind.is_special())
    })
}

/// The edges of a graph, put into order.
struct LinedUp {
    edges: Sorted,
    /// The tasks without predecessors of either kind.
    sources: Vec<u32>,
    /// Some task waits for more than one.
    joins: bool,
    /// Whoever waits for another was added after it: so there is no circle.
    in_order: bool,
}

/// Sorts the edges by where they begin, in the order in which they were added.
fn line_up(parts: &Parts, conditions: bool) -> LinedUp {
    let tasks = parts.nodes.len();
    assert!(
        u32::try_from(parts.edges.len()).is_ok(),
        "a graph has room for 2^32 edges"
    );
    let (mut next, mut waits_for) = (vec![0_u32; tasks + 1], vec![0_u32; tasks]);
    // Of the kind that nobody waits for.
    let mut weak = vec![0_u32; if conditions { tasks } else { 0 }];
    let mut in_order = true;
    for &(from, to) in &parts.edges {
        next[from as usize + 1] += 1;
        if conditions && parts.nodes[from as usize].kind.is_weak() {
            weak[to as usize] += 1;
        } else {
            waits_for[to as usize] += 1;
            in_order &= from < to;
        }
    }
    let (mut sources, mut joins) = (Vec::new(), false);
    for index in 0..tasks {
        next[index + 1] += next[index];
        joins |= waits_for[index] > 1;
        if index > 0 && waits_for[index] == 0 && weak.get(index).is_none_or(|weak| *weak == 0) {
            sources.push(index as u32);
        }
    }
    let mut successors = vec![0_u32; parts.edges.len()];
    for &(from, to) in &parts.edges {
        let place = &mut next[from as usize];
        successors[*place as usize] = to;
        *place += 1;
    }
    // Each begins where the one before ends, and is filled now.
    next.truncate(tasks);
    LinedUp {
        edges: Sorted {
            ends: next,
            successors,
            waits_for,
        },
        sources,
        joins,
        in_order,
    }
}

/// Goes through the tasks as a run would if every condition led everywhere, and returns them in such an order, with the
/// number of tasks on the longest way. Or how many predecessors each task still waits for if some wait for ever.
fn sort(parts: &Parts, edges: &Sorted) -> Result<(Vec<u32>, usize), Vec<u32>> {
    let mut missing = edges.waits_for.clone();
    // Those at the front have been gone through.
    let mut ready = Vec::with_capacity(parts.nodes.len());
    ready.extend(
        (1..)
            .zip(&missing[1..])
            .filter(|(_, missing)| **missing == 0)
            .map(|(index, _)| index),
    );
    let mut next = 0;
    // Those up to `wave` had their last predecessor in the wave before.
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

/// The names of the tasks on a circle, in its direction. `missing` is not zero for those on one and those behind.
fn find_cycle(parts: &Parts, missing: &[u32]) -> Vec<String> {
    let stuck = |index: u32| missing[index as usize] > 0;
    let strong = |from: u32| !parts.nodes[from as usize].kind.is_weak();
    // Each of them has a predecessor of the same kind; going back from one to the next must end in a circle.
    let mut before = vec![0_u32; parts.nodes.len()];
    for &(from, to) in &parts.edges {
        if strong(from) && stuck(from) && stuck(to) {
            before[to as usize] = from;
        }
    }
    let first = (1..parts.nodes.len() as u32).find(|&index| stuck(index));
    let mut at = first.expect("somebody waits for ever");
    let mut seen = vec![false; parts.nodes.len()];
    while !seen[at as usize] {
        seen[at as usize] = true;
        at = before[at as usize];
    }
    let mut circle = vec![at];
    let mut back = before[at as usize];
    while back != at {
        circle.push(back);
        back = before[back as usize];
    }
    circle.reverse();
    // Begin with the one that was added first.
    let least = (0..circle.len()).min_by_key(|&place| circle[place]);
    circle.rotate_left(least.unwrap_or(0));
    circle
        .into_iter()
        .map(|index| parts.names.of(index))
        .collect()
}

/// The tasks that no run can reach: neither are all that they wait for within reach, nor is a condition that may choose
/// them.
fn unreachable(parts: &Parts, edges: &Sorted, sources: &[u32]) -> Vec<u32> {
    let nodes = &parts.nodes;
    let mut missing = edges.waits_for.clone();
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
