//! The least time that any scheduler needs for a program on a machine of the cost model.

use crate::{
    compile::{Compiled, Instruction},
    config::Costs,
    program::{Act, Program},
};
use std::collections::BinaryHeap;

/// The number of steps at which starts and rests of tasks are compared. More make the bound a
/// little tighter.
const STEPS: usize = 48;

/// What a body takes at least, in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// From the moment at which the first worker is awake to the start of its first task.
    head: u64,
    /// Its work, with its step and its spawns.
    own: u64,
    /// How long its tasks wait for their parent, or take to be stolen.
    handover: u64,
    /// From its end to that of the last task that waits for it.
    tail: u64,
}

/// Computes lower bounds for the time of a program.
///
/// All workers sleep when it arrives, and its tasks do not yield. What no scheduler of the model
/// can avoid:
///
/// - **Wakes.** A wake takes its latency, and each caller makes one call after the other. The
///   submitter and all that are awake may call, so the workers are awake at the earliest in the
///   order of [`wakes`]. Each call of a worker takes its time.
/// - **Steps, spawns and takes.** Each task has a step, each spawn its cost, and a worker's first
///   task is stolen or taken from the injector.
/// - **The critical path**, with a step for each task. The task of a join may run at the worker
///   that arrived last. A spawned one waits until its parent has ended, or is stolen.
/// - **Narrow parts**: tasks that cannot begin before some moment, and with a rest of some length
///   after them, have to fit in between.
/// - **The injector**: takes from it exclude each other, and all tasks from outside go through it.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    costs: &'a Costs,
    /// Starts and rests, ascending, and the work of the tasks that have at least those.
    heads: Vec<u64>,
    tails: Vec<u64>,
    work: Vec<Vec<u64>>,
    critical_path: u64,
    /// The time of all takes from the injector, one after the other.
    injector: u64,
}

impl<'a> Bound<'a> {
    pub(crate) fn new(program: &Program, compiled: &Compiled, costs: &'a Costs) -> Self {
        let extents = extents(program, compiled, costs);
        let used = || (0..extents.len()).filter(|&body| compiled.runs[body] > 0);
        let heads = steps(used().map(|body| extents[body].head).collect());
        let tails = steps(used().map(|body| extents[body].tail).collect());
        let mut work = vec![vec![0_u64; tails.len()]; heads.len()];
        let mut critical_path = 0;
        for body in used() {
            let extent = extents[body];
            let after = |steps: &[u64], at| steps.partition_point(|&step| step <= at) - 1;
            let (head, tail) = (after(&heads, extent.head), after(&tails, extent.tail));
            let own = extent.own.saturating_mul(compiled.runs[body]);
            work[head][tail] = work[head][tail].saturating_add(own);
            let length = extent.head + extent.handover + extent.own + extent.tail;
            critical_path = critical_path.max(length);
        }
        // Sums over all that begin at a step or later, and have at least its rest.
        for head in (0..heads.len()).rev() {
            for tail in (0..tails.len()).rev() {
                let at = |h: usize, t: usize| work.get(h).and_then(|of| of.get(t)).copied();
                let (below, right) = (at(head + 1, tail), at(head, tail + 1));
                let both = at(head + 1, tail + 1).unwrap_or(0);
                let sum = below.unwrap_or(0) + right.unwrap_or(0) - both;
                work[head][tail] = work[head][tail].saturating_add(sum);
            }
        }
        let injector = injector_time(program, compiled, costs, &extents);
        Self {
            costs,
            heads,
            tails,
            work,
            critical_path,
            injector,
        }
    }

    /// Returns the least time of `workers` workers, in ticks.
    pub(crate) fn ticks(&self, workers: usize) -> u64 {
        let costs = self.costs;
        let wakes = wakes(workers, costs);
        let take = costs.steal(0).min(costs.inject);
        // Calls of workers take their time, unless there is nothing to do yet.
        let charged = |wake: &Wake| wake.at + take + if wake.by_worker { costs.unpark } else { 0 };
        let mut charged: Vec<u64> = wakes.iter().map(charged).collect();
        charged.sort_unstable();
        charged.truncate(workers);
        let awake: Vec<u64> = wakes.iter().take(workers).map(|wake| wake.at).collect();
        let mut ticks = costs.wake + self.critical_path.max(self.injector);
        for (h, &head) in self.heads.iter().enumerate() {
            let from: Vec<u64> = match head {
                0 => charged.clone(),
                _ => awake.iter().map(|&at| at.max(costs.wake + head)).collect(),
            };
            for (&work, &tail) in self.work[h].iter().zip(&self.tails) {
                if work > 0 {
                    ticks = ticks.max(fit(work, &from) + tail);
                }
            }
        }
        ticks
    }
}

/// Returns when workers that take part `from` these times on, ascending, can have done `work`.
fn fit(work: u64, from: &[u64]) -> u64 {
    let (mut sum, mut end) = (u128::from(work), u64::MAX);
    for (&from, workers) in from.iter().zip(1_u128..) {
        if from >= end {
            break;
        }
        sum += u128::from(from);
        end = u64::try_from(sum / workers).unwrap_or(u64::MAX);
    }
    end
}

/// A worker that is awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wake {
    at: u64,
    /// Whether a worker called it, and not the submitter.
    by_worker: bool,
}

/// Returns when sleepers are awake at the earliest after the arrival of work, ascending: the
/// submitter and all that are awake make calls, one after the other. Returns more than `workers`,
/// so that a caller may prefer those that the submitter calls.
fn wakes(workers: usize, costs: &Costs) -> Vec<Wake> {
    use std::cmp::Reverse;
    // When each caller can make its next call, and whether it is a worker.
    let mut callers = BinaryHeap::from([Reverse((0_u64, false))]);
    let mut wakes = Vec::with_capacity(4 * workers);
    while wakes.len() < 4 * workers {
        let Reverse((now, by_worker)) = callers.pop().expect("the submitter is one");
        let at = now.saturating_add(costs.wake);
        wakes.push(Wake { at, by_worker });
        callers.push(Reverse((now.saturating_add(costs.unpark), by_worker)));
        callers.push(Reverse((at, true)));
    }
    wakes
}

/// Returns the extents of all bodies. A body with several tasks has the least of each figure.
fn extents(program: &Program, compiled: &Compiled, costs: &Costs) -> Vec<Extent> {
    let (bodies, joins) = (&compiled.bodies, &compiled.joins);
    let mut extents = vec![Extent::default(); bodies.len()];
    for (extent, steps) in extents.iter_mut().zip(bodies) {
        (extent.head, extent.handover) = (u64::MAX, u64::MAX);
        let own = steps.iter().map(|step| match step {
            Instruction::Work(ticks) => *ticks,
            step if step.child().is_some() => costs.spawn,
            _ => 0,
        });
        extent.own = costs.step + own.sum::<u64>();
    }
    for (outside, &body) in program.outside.iter().zip(&compiled.outside) {
        if matches!(outside.act, Act::Inject { .. }) {
            let extent = &mut extents[body as usize];
            (extent.head, extent.handover) = (0, 0);
        }
    }
    // When the last arrival at each join is over.
    let mut joined = vec![0_u64; joins.len()];
    let mut joins_of: Vec<Vec<usize>> = vec![Vec::new(); bodies.len()];
    for (join, &(_, body)) in joins.iter().enumerate() {
        joins_of[body as usize].push(join);
    }
    for &body in compiled.order.iter().rev() {
        for &join in &joins_of[body] {
            extents[body].head = extents[body].head.min(joined[join]);
            extents[body].handover = 0;
        }
        let parent = extents[body];
        if compiled.runs[body] == 0 {
            continue;
        }
        for step in &bodies[body] {
            if let Some(child) = step.child() {
                let child = &mut extents[child];
                child.head = child.head.min(parent.head);
                child.handover = child.handover.min(parent.own.min(costs.steal(0)));
            } else if let &Instruction::Arrive(join) = step {
                let end = parent.head + parent.handover + parent.own;
                joined[join as usize] = joined[join as usize].max(end);
            }
        }
    }
    // From the start of a body to the end of all that it leads to.
    let mut lengths = vec![0_u64; bodies.len()];
    for &body in &compiled.order {
        let (mut tail, mut spawned) = (0, 0);
        for step in &bodies[body] {
            if let Some(child) = step.child() {
                spawned = spawned.max(lengths[child]);
            } else if let &Instruction::Arrive(join) = step {
                tail = tail.max(lengths[joins[join as usize].1 as usize]);
            }
        }
        let extent = &mut extents[body];
        extent.tail = tail;
        let own = extent.own
            + if compiled.runs[body] > 0 {
                extent.handover
            } else {
                0
            };
        lengths[body] = spawned.max(own + tail);
    }
    extents
}

/// Returns how long the takes of all tasks from outside exclude each other, with the end of the
/// last one.
fn injector_time(program: &Program, compiled: &Compiled, costs: &Costs, extents: &[Extent]) -> u64 {
    let mut tasks = 0_u64;
    let mut shortest = u64::MAX;
    for (outside, &body) in program.outside.iter().zip(&compiled.outside) {
        if let Act::Inject { count, .. } = outside.act {
            tasks += count as u64;
            shortest = shortest.min(extents[body as usize].own);
        }
    }
    match tasks {
        0 => 0,
        _ if !costs.exclusive => costs.inject.saturating_add(shortest),
        // With one take, all others are moved with the first.
        _ => costs.inject + (tasks - 1) * costs.moved + shortest,
    }
}

/// Returns some of these values, ascending and from zero on.
fn steps(mut values: Vec<u64>) -> Vec<u64> {
    values.push(0);
    values.sort_unstable();
    values.dedup();
    let last = values.len() - 1;
    let count = values.len().min(STEPS);
    let mut steps: Vec<u64> = (0..count)
        .map(|step| values[step * last / (count - 1).max(1)])
        .collect();
    steps.dedup();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Op;

    fn ticks(program: &Program, costs: &Costs, workers: usize) -> u64 {
        Bound::new(program, &program.compile().unwrap(), costs).ticks(workers)
    }

    #[test]
    fn without_costs_it_is_the_work_or_the_span() {
        let program = Program::new()
            .body("end", [Op::Work(10)])
            .body("short", [Op::Work(100), Op::arrive("all")])
            .body("long", [Op::Work(700), Op::arrive("all")])
            .join("all", 3, "end")
            .inject(0, "short", 2)
            .inject(0, "long", 1);
        let costs = Costs::free();
        assert_eq!(
            [1, 2, 9].map(|n| ticks(&program, &costs, n)),
            [910, 710, 710]
        );
    }

    /// A task that all others wait for, and one that waits for all: half of the time one worker is
    /// enough.
    #[test]
    fn narrow_parts_are_not_shared() {
        let program = Program::new()
            .body("end", [Op::Work(100)])
            .body("part", [Op::Work(50), Op::arrive("all")])
            .body("parts", vec![Op::spawn("part"); 8])
            .body("begin", [Op::Work(100), Op::arrive("first")])
            .join("first", 1, "parts")
            .join("all", 8, "end")
            .inject(0, "begin", 1);
        let costs = Costs::free();
        assert_eq!(
            [1, 4, 8].map(|n| ticks(&program, &costs, n)),
            [600, 300, 250]
        );
    }

    #[test]
    fn wakes_double_with_each_latency() {
        let times = |costs: &Costs| {
            wakes(2, costs)
                .iter()
                .map(|wake| wake.at)
                .collect::<Vec<_>>()
        };
        let costs = Costs {
            wake: 10,
            unpark: 10,
            ..Costs::free()
        };
        assert_eq!(times(&costs), [10, 20, 20, 30, 30, 30, 30, 40]);
        let costs = Costs {
            wake: 10,
            ..Costs::free()
        };
        assert_eq!(times(&costs), [10; 8]);
        // The second worker is awake later, and the first takes time to call it.
        let program = Program::wide(4, 100);
        let costs = Costs {
            wake: 10,
            unpark: 40,
            ..Costs::free()
        };
        assert_eq!(ticks(&program, &costs, 2), (400 + 10 + 10 + 40) / 2);
    }

    #[test]
    fn tasks_from_outside_leave_the_injector_one_after_the_other() {
        let program = Program::new()
            .body("task", [Op::Work(5)])
            .inject(0, "task", 101);
        let costs = Costs {
            inject: 7,
            moved: 3,
            exclusive: true,
            ..Costs::free()
        };
        assert_eq!(ticks(&program, &costs, 1_000), 7 + 300 + 5);
    }
}
