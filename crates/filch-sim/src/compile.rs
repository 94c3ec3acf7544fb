//! Checks a program, and replaces names by indices.

use crate::{
    error::CaseError,
    program::{Act, Op, Program},
};
use filch::engine::Priority;
use std::collections::HashMap;

/// The maximum number of tasks of a program. More is most likely a mistake in a `repeat`.
const MAX_TASKS: u64 = 4_000_000;

/// The maximum number of operations of a body after its repeats are expanded.
const MAX_OPS: usize = 1_000_000;

impl Program {
    /// Checks the program, and replaces names by indices.
    pub(crate) fn compile(&self) -> Result<Compiled, CaseError> {
        let mut names = HashMap::new();
        for (index, body) in self.bodies.iter().enumerate() {
            if names.insert(body.name.as_str(), index).is_some() {
                return Err(CaseError::new(format!(
                    "two bodies are called {:?}; give each a name of its own",
                    body.name
                )));
            }
        }
        let mut compiled = Compiled {
            bodies: Vec::new(),
            outside: Vec::new(),
            joins: Vec::new(),
            order: Vec::new(),
            runs: Vec::new(),
            tasks: 0,
        };
        let mut join_names = HashMap::new();
        for (index, join) in self.joins.iter().enumerate() {
            let Some(&body) = names.get(join.body.as_str()) else {
                return Err(CaseError::new(format!(
                    "join {:?}: it spawns {:?}, but there is no such body",
                    join.name, join.body
                )));
            };
            if join_names.insert(join.name.as_str(), index).is_some() {
                return Err(CaseError::new(format!(
                    "two joins are called {:?}; give each a name of its own",
                    join.name
                )));
            }
            compiled.joins.push((join.count, body as u32));
        }
        let names = Names {
            bodies: &names,
            joins: &join_names,
        };
        for body in &self.bodies {
            let mut steps = Vec::new();
            flatten(&body.ops, &names, &mut steps)
                .map_err(|what| CaseError::new(format!("body {:?}: {what}", body.name)))?;
            compiled.bodies.push(steps);
        }
        let (sizes, order) = self.sizes(&compiled)?;
        (compiled.order, compiled.runs) = (order, vec![0; self.bodies.len()]);
        for outside in &self.outside {
            if let Act::Inject { body, count, .. } = &outside.act {
                let Some(&index) = names.bodies.get(body.as_str()) else {
                    return Err(CaseError::new(format!(
                        "tasks with the body {body:?} come from outside, but there is no such body"
                    )));
                };
                let more = sizes[index].saturating_mul(*count as u64);
                compiled.tasks = compiled.tasks.saturating_add(more);
                compiled.runs[index] = compiled.runs[index].saturating_add(*count as u64);
                compiled.outside.push(index as u32);
            } else {
                compiled.outside.push(0);
            }
        }
        for &(_, body) in &compiled.joins {
            compiled.tasks = compiled.tasks.saturating_add(sizes[body as usize]);
        }
        if compiled.tasks > MAX_TASKS {
            return Err(CaseError::new(format!(
                "the program has {} tasks; at most {MAX_TASKS} can be simulated",
                compiled.tasks
            )));
        }
        self.count_runs(&mut compiled)?;
        Ok(compiled)
    }

    /// Counts the tasks of each body, given those from outside, and checks that as many tasks
    /// arrive at each join as it waits for.
    fn count_runs(&self, compiled: &mut Compiled) -> Result<(), CaseError> {
        let Compiled {
            bodies,
            joins,
            order,
            runs,
            ..
        } = compiled;
        let mut arrivals = vec![0_u64; joins.len()];
        for &(_, body) in joins.iter() {
            runs[body as usize] = runs[body as usize].saturating_add(1);
        }
        for &body in order.iter().rev() {
            let own = runs[body];
            for step in &bodies[body] {
                if let Some(child) = step.child() {
                    runs[child] = runs[child].saturating_add(own);
                } else if let &Instruction::Arrive(join) = step {
                    let arrived = &mut arrivals[join as usize];
                    *arrived = arrived.saturating_add(own);
                }
            }
        }
        let wrong = self.joins.iter().zip(arrivals).find(|(j, n)| j.count != *n);
        wrong.map_or(Ok(()), |(join, arrived)| {
            Err(CaseError::new(format!(
                "join {:?} waits for {} arrivals, but there are {arrived}",
                join.name, join.count
            )))
        })
    }

    /// Returns the size of the task tree of each body, the task itself included, and an order in
    /// which each body comes after those that it leads to.
    fn sizes(&self, compiled: &Compiled) -> Result<(Vec<u64>, Vec<usize>), CaseError> {
        let bodies = &compiled.bodies;
        let mut order = Vec::new();
        let mut sizes: Vec<Option<u64>> = vec![None; bodies.len()];
        // Sizes bodies whose children all have sizes, until there are no more. The rest are in
        // cycles.
        loop {
            let mut grown = false;
            for (body, steps) in bodies.iter().enumerate() {
                if sizes[body].is_none() {
                    sizes[body] = steps.iter().try_fold(1_u64, |sum, step| {
                        let more = match (step.child(), step) {
                            (Some(child), _) => sizes[child]?,
                            (None, Instruction::Yield) => 1,
                            // Its task is one of the join, not of this tree.
                            (None, &Instruction::Arrive(join)) => {
                                sizes[compiled.joins[join as usize].1 as usize]?;
                                0
                            }
                            (None, _) => 0,
                        };
                        Some(sum.saturating_add(more))
                    });
                    if sizes[body].is_some() {
                        order.push(body);
                        grown = true;
                    }
                }
            }
            if !grown {
                break;
            }
        }
        match sizes.iter().position(Option::is_none) {
            None => Ok((sizes.into_iter().flatten().collect(), order)),
            Some(first) => Err(self.endless(first, compiled, &sizes)),
        }
    }

    /// Returns an error that names the bodies of the cycle that `body` leads into.
    fn endless(&self, mut body: usize, compiled: &Compiled, sizes: &[Option<u64>]) -> CaseError {
        let mut path = Vec::new();
        while !path.contains(&body) {
            path.push(body);
            let next = compiled.bodies[body]
                .iter()
                .filter_map(|step| match step {
                    Instruction::Arrive(join) => Some(compiled.joins[*join as usize].1 as usize),
                    step => step.child(),
                })
                .find(|&child| sizes[child].is_none());
            body = next.expect("a body without a size has a child without one");
        }
        path.push(body);
        let start = path.iter().position(|&b| b == body).unwrap_or(0);
        let names: Vec<_> = path[start..]
            .iter()
            .map(|&b| format!("{:?}", self.bodies[b].name))
            .collect();
        CaseError::new(format!(
            "the program would never end: {}; make a body for each level",
            names.join(" spawns ")
        ))
    }
}

/// One operation of a body after repeats are expanded and names are replaced by indices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instruction {
    SpawnLocal(u32),
    SpawnGlobal(u32),
    SpawnAt(Priority, u32),
    SpawnFor(usize, u32),
    Arrive(u32),
    Yield,
    Work(u64),
    Panic,
}

impl Instruction {
    /// Returns the body of the task that it spawns, if it spawns one.
    pub(crate) fn child(self) -> Option<usize> {
        match self {
            Self::SpawnLocal(child)
            | Self::SpawnGlobal(child)
            | Self::SpawnAt(_, child)
            | Self::SpawnFor(_, child) => Some(child as usize),
            Self::Arrive(_) | Self::Yield | Self::Work(_) | Self::Panic => None,
        }
    }
}

/// A checked program.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) bodies: Vec<Vec<Instruction>>,
    /// The index of the body for each external event; zero for events without a body.
    pub(crate) outside: Vec<u32>,
    /// For each join the number of arrivals that it waits for, and the index of its body.
    pub(crate) joins: Vec<(u64, u32)>,
    /// The bodies, each after those that it leads to.
    pub(crate) order: Vec<usize>,
    /// The number of tasks of each body.
    pub(crate) runs: Vec<u64>,
    /// The total number of tasks.
    pub(crate) tasks: u64,
}

/// The indices of bodies and joins.
struct Names<'a> {
    bodies: &'a HashMap<&'a str, usize>,
    joins: &'a HashMap<&'a str, usize>,
}

fn flatten(ops: &[Op], names: &Names<'_>, into: &mut Vec<Instruction>) -> Result<(), String> {
    let find = |name: &String| {
        names
            .bodies
            .get(name.as_str())
            .map(|&index| index as u32)
            .ok_or_else(|| format!("it spawns {name:?}, but there is no such body"))
    };
    for op in ops {
        into.push(match op {
            Op::SpawnLocal(name) => Instruction::SpawnLocal(find(name)?),
            Op::SpawnGlobal(name) => Instruction::SpawnGlobal(find(name)?),
            Op::SpawnAt { level, body } => Instruction::SpawnAt(*level, find(body)?),
            Op::SpawnFor { worker, body } => Instruction::SpawnFor(*worker, find(body)?),
            Op::Arrive(name) => {
                let join = names.joins.get(name.as_str()).map(|&index| index as u32);
                let unknown = || format!("it arrives at {name:?}, but there is no such join");
                Instruction::Arrive(join.ok_or_else(unknown)?)
            }
            Op::Yield => Instruction::Yield,
            Op::Work(ticks) => Instruction::Work(*ticks),
            Op::Panic => Instruction::Panic,
            Op::Repeat { times, ops } => {
                for _ in 0..*times {
                    flatten(ops, names, into)?;
                    if ops.is_empty() {
                        break;
                    }
                }
                continue;
            }
        });
        if into.len() > MAX_OPS {
            return Err(format!(
                "it has more than {MAX_OPS} operations with its repeats written out"
            ));
        }
    }
    Ok(())
}

impl Compiled {
    /// Returns the work of all tasks and the length of the longest chain of tasks that cannot run
    /// at the same time, both in ticks. A spawned task may run as soon as its parent has started,
    /// and the task of a join when all arrivals have ended.
    pub(crate) fn work_and_span(&self) -> (u64, u64) {
        let mut begins = vec![0_u64; self.bodies.len()];
        let (mut work, mut span) = (0_u64, 0_u64);
        for &body in self.order.iter().rev() {
            let ticks = self.bodies[body].iter().map(|step| match step {
                Instruction::Work(ticks) => *ticks,
                _ => 0,
            });
            let own: u64 = ticks.sum();
            let begin = begins[body];
            work = work.saturating_add(own.saturating_mul(self.runs[body]));
            span = span.max(begin.saturating_add(own));
            for step in &self.bodies[body] {
                let (next, at) = match (step.child(), step) {
                    (Some(child), _) => (child, begin),
                    (None, &Instruction::Arrive(join)) => {
                        let next = self.joins[join as usize].1 as usize;
                        (next, begin.saturating_add(own))
                    }
                    (None, _) => continue,
                };
                begins[next] = begins[next].max(at);
            }
        }
        (work, span)
    }
}
