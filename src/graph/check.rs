//! From a graph to a plan: degrees, successors, and everything that can be wrong.

use super::{
    build::Parts,
    error::GraphError,
    node::{Kind, Node},
    order,
    plan::{Plan, Shape},
    semaphore,
};

/// Checks the parts and puts them into their final form.
pub(super) fn plan<'env>(mut parts: Parts) -> Result<Plan<'env>, GraphError> {
    let (conditions, special) = kinds_of(&parts.kinds);
    parts.values.check(&parts.names)?;
    let (mut successors, predecessors) = line_up(&mut parts);
    let mut sources: Vec<u32> = (1..)
        .zip(&predecessors[1..])
        .filter(|(_, known)| **known == 0)
        .map(|(index, _)| index)
        .collect();
    let sorted = match sort(&parts, &successors) {
        Ok(sorted) => sorted,
        Err(missing) => return Err(GraphError::cycle(find_cycle(&parts, &missing))),
    };
    if sources.is_empty() && parts.nodes.len() > 1 {
        return Err(GraphError::no_source());
    }
    let unreachable = if conditions {
        unreachable(&parts, &successors, &sources)
    } else {
        Vec::new()
    };
    order::arrange(&parts, &sorted, &mut successors, &mut sources);
    let needs = semaphore::needs(&parts)?;
    let shape = Shape {
        successors: successors.into(),
        sources: sources.into(),
        conditions,
        recorder: None,
        special: special || !needs.is_empty(),
        unreachable: unreachable.into(),
        needs: needs.into(),
    };
    Ok(Plan::new(parts, shape))
}

/// Whether there are conditions, and whether there is more than closures. (Without a branch for each: there may be
/// millions.)
fn kinds_of(kinds: &[Kind]) -> (bool, bool) {
    let conditions = kinds.iter().fold(false, |any, kind| any | kind.is_weak());
    let special = kinds
        .iter()
        .fold(false, |any, kind| any | kind.is_special());
    (conditions, special)
}

/// Sorts the edges by where they begin, in the order in which they were added. Tells every task where its
/// successors are and how many it waits for. Returns the successors, and how many predecessors of either kind
/// each task has.
fn line_up(parts: &mut Parts) -> (Vec<u32>, Vec<u32>) {
    let tasks = parts.nodes.len();
    assert!(
        u32::try_from(parts.edges.len()).is_ok(),
        "a graph has room for 2^32 edges"
    );
    let (mut next, mut waits_for) = (vec![0_u32; tasks + 1], vec![0_u32; tasks]);
    let mut predecessors = vec![0_u32; tasks];
    for &(from, to) in &parts.edges {
        next[from as usize + 1] += 1;
        predecessors[to as usize] += 1;
        waits_for[to as usize] += u32::from(!parts.kinds[from as usize].is_weak());
    }
    for index in 0..tasks {
        let (first, successors) = (next[index], next[index + 1]);
        let node = &mut parts.nodes[index];
        (node.first, node.successors) = (first, successors);
        node.set_waits_for(waits_for[index]);
        next[index + 1] += first;
    }
    let mut successors = vec![0_u32; parts.edges.len()];
    for &(from, to) in &parts.edges {
        let place = &mut next[from as usize];
        successors[*place as usize] = to;
        *place += 1;
    }
    (successors, predecessors)
}

/// Goes through the tasks as a run would if every condition led everywhere, and returns them in such an order. Or how
/// many predecessors each task still waits for if some wait for ever.
fn sort(parts: &Parts, successors: &[u32]) -> Result<Vec<u32>, Vec<u32>> {
    let mut missing: Vec<u32> = parts.nodes.iter().map(Node::waits_for).collect();
    // Those at the front have been gone through.
    let mut ready = Vec::with_capacity(parts.nodes.len());
    ready.extend(
        (1..)
            .zip(&missing[1..])
            .filter(|(_, missing)| **missing == 0)
            .map(|(index, _)| index),
    );
    let mut next = 0;
    while let Some(&index) = ready.get(next) {
        next += 1;
        if parts.kinds[index as usize].is_weak() {
            continue;
        }
        let node = &parts.nodes[index as usize];
        for &after in &successors[node.first as usize..][..node.successors as usize] {
            missing[after as usize] -= 1;
            if missing[after as usize] == 0 {
                ready.push(after);
            }
        }
    }
    if ready.len() < parts.nodes.len() - 1 {
        return Err(missing);
    }
    Ok(ready)
}

/// The names of the tasks on a circle, in its direction. `missing` is not zero for those on one and those behind.
fn find_cycle(parts: &Parts, missing: &[u32]) -> Vec<String> {
    let stuck = |index: u32| missing[index as usize] > 0;
    let strong = |from: u32| !parts.kinds[from as usize].is_weak();
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
fn unreachable(parts: &Parts, successors: &[u32], sources: &[u32]) -> Vec<u32> {
    let nodes = &parts.nodes;
    let mut missing: Vec<u32> = nodes.iter().map(Node::waits_for).collect();
    let mut reached = vec![false; nodes.len()];
    let mut open = sources.to_vec();
    while let Some(index) = open.pop() {
        if std::mem::replace(&mut reached[index as usize], true) {
            continue;
        }
        let node = &nodes[index as usize];
        let weak = parts.kinds[index as usize].is_weak();
        for &after in &successors[node.first as usize..][..node.successors as usize] {
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
