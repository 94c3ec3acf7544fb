//! Programs whose scaling is of interest.

use crate::program::{Op, Program};
use filch::Rng;
use std::fmt;

/// The seed of the shapes of random workloads. Arbitrary; the same shape for every run.
const SEED: u64 = 16;

/// A microsecond, if a tick is a nanosecond.
const MICROS: u64 = 1_000;

/// A program for [scaling curves](crate::Scaling), of one or two seconds of work on one worker
/// where not stated otherwise; a tick is a nanosecond.
///
/// ```
/// use filch_sim::Workload;
///
/// let names: Vec<_> = Workload::ALL.iter().map(Workload::to_string).collect();
/// assert!(names.contains(&"wavefront".to_owned()));
/// let program = Workload::Burst.program(1_000, 1.0);
/// assert_eq!(program.tasks()?, 10_000);
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Workload {
    /// A tree of tasks in the shape of the calls of Fibonacci's function: 93,000 tasks of 10 µs.
    Fib,
    /// A random tree as in the Unbalanced Tree Search benchmark (Olivier et al., *UTS: An
    /// Unbalanced Tree Search Benchmark*, LCPC 2006), binomial: 2,000 children of the root, below
    /// them tasks of 10 µs with eight children or none.
    Uts,
    /// A chain of 20,000 tasks of 200 ns, each of which also spawns one task of 50 µs.
    Spine,
    /// 48 parallel regions one after the other, each of 2,048 tasks of 10 µs, split in halves.
    Regions,
    /// A random task graph: 50,000 tasks of 20 µs, each after one to three of the 4,096 before it.
    Graph,
    /// A grid of 256 times 256 tasks of 15 µs, each after its neighbours above and to the left.
    Wavefront,
    /// A batch of 10,000 tasks of 1 µs from outside: 10 ms of work.
    Burst,
    /// A loop over 16,384 blocks, split in halves, whose costs have a Pareto distribution: half of
    /// them take less than 40 µs, and the longest 2 ms.
    Loop,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 8] = [
        Self::Fib,
        Self::Uts,
        Self::Spine,
        Self::Regions,
        Self::Graph,
        Self::Wavefront,
        Self::Burst,
        Self::Loop,
    ];

    /// Returns the program, which begins at `start`. `scale` changes the number of tasks: 1.0 is
    /// the size that the variants document, and smaller ones are for tests.
    ///
    /// ```
    /// use filch_sim::Workload;
    /// assert!(Workload::Graph.program(0, 0.01).tasks()? < 600);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn program(self, start: u64, scale: f64) -> Program {
        let scaled = |count: f64| ((count * scale).round() as u64).max(1);
        // Sizes of trees are logarithms.
        let levels = |full: u32| (f64::from(full) + scale.log2()).round().max(2.0) as u32;
        match self {
            Self::Fib => fib(start, levels(23)),
            Self::Uts => uts(start, scaled(2_000.0)),
            Self::Spine => spine(start, scaled(20_000.0)),
            Self::Regions => regions(start, scaled(48.0), levels(11).max(6)),
            Self::Graph => graph(start, scaled(50_000.0) as usize),
            Self::Wavefront => wavefront(start, (256.0 * scale.sqrt()).round().max(2.0) as usize),
            Self::Burst => Program::new().body("task", [Op::Work(MICROS)]).inject(
                start,
                "task",
                scaled(10_000.0) as usize,
            ),
            Self::Loop => uneven(start, levels(14)),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fib => "fib",
            Self::Uts => "uts",
            Self::Spine => "spine",
            Self::Regions => "regions",
            Self::Graph => "graph",
            Self::Wavefront => "wavefront",
            Self::Burst => "burst",
            Self::Loop => "loop",
        })
    }
}

fn name(index: impl fmt::Display) -> String {
    index.to_string()
}

fn fib(start: u64, depth: u32) -> Program {
    let work = Op::Work(10 * MICROS);
    let mut program = Program::new();
    for n in 0..=depth {
        let mut ops = vec![work.clone()];
        if n >= 2 {
            ops.insert(0, Op::spawn(&name(n - 2)));
            ops.insert(1, Op::spawn(&name(n - 1)));
        }
        program = program.body(&name(n), ops);
    }
    program.inject(start, &name(depth), 1)
}

/// Eight children with a probability of 49/400, so that a tree has 50 nodes on average.
fn uts(start: u64, trees: u64) -> Program {
    const CHILDREN: usize = 8;
    /// Ends a tree that grows out of all proportion.
    const MAX_NODES: usize = 400_000;
    let mut rng = Rng::new(SEED);
    // The children of each node, in the order of their creation.
    let mut nodes: Vec<std::ops::Range<usize>> = Vec::new();
    let mut known = trees as usize;
    while nodes.len() < known {
        let grows = rng.below(400) < 49 && known < MAX_NODES;
        let end = known + if grows { CHILDREN } else { 0 };
        nodes.push(known..end);
        known = end;
    }
    let mut program = Program::new();
    // Children first, which the check of a program takes least time for.
    for (node, children) in nodes.into_iter().enumerate().rev() {
        let mut ops: Vec<Op> = children.map(|child| Op::spawn(&name(child))).collect();
        ops.push(Op::Work(10 * MICROS));
        program = program.body(&name(node), ops);
    }
    let all = (0..trees).map(|tree| Op::spawn(&name(tree)));
    let ops: Vec<Op> = all.collect();
    program.body("root", ops).inject(start, "root", 1)
}

fn spine(start: u64, length: u64) -> Program {
    let mut program = Program::new().body("leaf", [Op::Work(50 * MICROS)]);
    for n in 0..length {
        let mut ops = vec![Op::spawn("leaf"), Op::Work(MICROS / 5)];
        if n > 0 {
            ops.push(Op::arrive(&name(n - 1)));
            program = program.join(&name(n - 1), 1, &name(n - 1));
        }
        program = program.body(&name(n), ops);
    }
    program.inject(start, &name(length - 1), 1)
}

fn regions(start: u64, regions: u64, depth: u32) -> Program {
    let mut program = Program::new();
    for region in 0..regions {
        let at = |level: u32| format!("{region}.{level}");
        let mut leaf = vec![Op::Work(10 * MICROS)];
        if region > 0 {
            let next = format!("{}.{depth}", region - 1);
            leaf.push(Op::arrive(&name(region)));
            program = program.join(&name(region), 1 << depth, &next);
        }
        program = halves(program.body(&at(0), leaf), depth, at);
    }
    program.inject(start, &format!("{}.{depth}", regions - 1), 1)
}

/// Adds bodies that split a range in halves, down to the body of level 0.
fn halves(mut program: Program, depth: u32, at: impl Fn(u32) -> String) -> Program {
    for level in 1..=depth {
        let half = Op::spawn(&at(level - 1));
        program = program.body(&at(level), [half.clone(), half]);
    }
    program
}

fn graph(start: u64, tasks: usize) -> Program {
    let (sources, window) = ((tasks / 50).max(1), (tasks / 12).max(1));
    let mut rng = Rng::new(SEED);
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); tasks];
    let mut program = Program::new();
    for task in sources..tasks {
        let nearest = task.saturating_sub(window);
        let mut before: Vec<usize> = (0..=rng.below(3))
            .map(|_| nearest + rng.below(task - nearest))
            .collect();
        before.sort_unstable();
        before.dedup();
        program = program.join(&name(task), before.len() as u64, &name(task));
        before.iter().for_each(|&b| successors[b].push(task));
    }
    for task in (0..tasks).rev() {
        let mut ops = vec![Op::Work(20 * MICROS)];
        ops.extend(successors[task].iter().map(|next| Op::arrive(&name(next))));
        program = program.body(&name(task), ops);
    }
    let ops: Vec<Op> = (0..sources).map(|task| Op::spawn(&name(task))).collect();
    program.body("root", ops).inject(start, "root", 1)
}

fn wavefront(start: u64, side: usize) -> Program {
    let at = |row: usize, column: usize| format!("{row},{column}");
    let mut program = Program::new();
    for (row, column) in (0..side * side).rev().map(|i| (i / side, i % side)) {
        let mut ops = vec![Op::Work(15 * MICROS)];
        if column + 1 < side {
            ops.push(Op::arrive(&at(row, column + 1)));
        }
        if row + 1 < side {
            ops.push(Op::arrive(&at(row + 1, column)));
        }
        program = program.body(&at(row, column), ops);
        let before = u64::from(row > 0) + u64::from(column > 0);
        if before > 0 {
            program = program.join(&at(row, column), before, &at(row, column));
        }
    }
    program.inject(start, &at(0, 0), 1)
}

fn uneven(start: u64, depth: u32) -> Program {
    /// The shortest and the longest block.
    const COSTS: (f64, f64) = (20.0 * MICROS as f64, 2_000.0 * MICROS as f64);
    let mut rng = Rng::new(SEED);
    let mut program = Program::new();
    let at = |level: u32, index: u64| format!("{level}.{index}");
    for index in 0..1_u64 << depth {
        // Pareto with the exponent 1: the inverse of a uniform number in (0, 1].
        let uniform = (rng.below(1 << 20) + 1) as f64 / f64::from(1 << 20);
        let cost = (COSTS.0 / uniform).min(COSTS.1);
        program = program.body(&at(0, index), [Op::Work(cost as u64)]);
    }
    for level in 1..=depth {
        for index in 0..1_u64 << (depth - level) {
            let half = |side: u64| Op::spawn(&at(level - 1, 2 * index + side));
            program = program.body(&at(level, index), [half(0), half(1)]);
        }
    }
    program.inject(start, &at(depth, 0), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_a_valid_program() {
        for workload in Workload::ALL {
            let program = workload.program(100, 0.01);
            let tasks = program
                .tasks()
                .unwrap_or_else(|e| panic!("{workload}: {e}"));
            assert!((16..6_000).contains(&tasks), "{workload}: {tasks} tasks");
        }
    }

    #[test]
    fn work_and_span_are_those_of_the_shape() {
        let of = |program: Program| program.compile().unwrap().work_and_span();
        let cell = 15 * MICROS;
        assert_eq!(of(wavefront(0, 4)), (16 * cell, 7 * cell));
        let (leaf, chain) = (50 * MICROS, MICROS / 5);
        assert_eq!(of(spine(0, 10)), (10 * (leaf + chain), 9 * chain + leaf));
        assert_eq!(
            of(regions(0, 3, 4)),
            (3 * 16 * 10 * MICROS, 3 * 10 * MICROS)
        );
    }
}
