//! Simulated programs: task bodies and external events.

use crate::{error::CaseError, remote};
use filch::engine::Level;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The maximum number of tasks of a program. More is most likely a mistake in a `repeat`.
const MAX_TASKS: u64 = 4_000_000;

/// The maximum number of operations of a body after its repeats are expanded.
const MAX_OPS: usize = 1_000_000;

/// A program for the simulator: task bodies, and external events with their times.
///
/// ```
/// use filch_sim::{Op, Program};
///
/// let program = Program::new()
///     .body("leaf", [Op::Work(10)])
///     .body("root", [Op::Repeat { times: 4, ops: vec![Op::spawn("leaf")] }])
///     .inject(0, "root", 1);
/// assert_eq!(program.tasks().unwrap(), 5);
/// ```
///
/// The same as JSON:
///
/// ```
/// # use filch_sim::Program;
/// let program = Program::from_json(r#"{
///     "bodies": [
///         {"name": "leaf", "ops": [{"work": 10}]},
///         {"name": "root", "ops": [{"repeat": {"times": 4, "ops": [{"spawn_local": "leaf"}]}}]}
///     ],
///     "outside": [{"at": 0, "act": {"inject": {"body": "root"}}}]
/// }"#)?;
/// assert_eq!(program.tasks()?, 5);
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The task bodies. A body may spawn any other, but not itself, directly or indirectly, so
    /// every program terminates.
    pub bodies: Vec<Body>,
    /// The external events, in this order. Without an [`Act::Close`] or [`Act::Stop`] the gate is
    /// closed once all tasks are done and no event is left.
    #[serde(default)]
    pub outside: Vec<Outside>,
}

/// A named task body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The name by which other bodies refer to it.
    pub name: String,
    /// Its operations.
    pub ops: Vec<Op>,
}

/// One operation of a task.
///
/// [`Work`](Self::Work) occupies the worker, and is charged after the other operations of the task,
/// so spawned tasks can be stolen while it works. To spawn after some work, put a
/// [`Yield`](Self::Yield) between: it ends the current task and makes a new one of the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Spawns a task with this body into the worker's own queue.
    SpawnLocal(String),
    /// Spawns a task with this body into the injector.
    SpawnGlobal(String),
    /// Spawns a task at a level; a Normal one into the worker's own queue.
    SpawnAt {
        /// The level.
        #[serde(with = "remote::Level")]
        level: Level,
        /// Its body.
        body: String,
    },
    /// Spawns a task with an affinity to a worker.
    SpawnFor {
        /// The worker.
        worker: usize,
        /// Its body.
        body: String,
    },
    /// Queues the rest of this task as a new one, and lets older tasks run first.
    Yield,
    /// Works for this number of ticks.
    #[serde(alias = "sleep")]
    Work(u64),
    /// Panics; the rest of the task does not run.
    Panic,
    /// Repeats operations.
    Repeat {
        /// The number of repetitions.
        times: u32,
        /// The repeated operations.
        ops: Vec<Op>,
    },
}

impl Op {
    /// Returns an [`Op::SpawnLocal`].
    ///
    /// ```
    /// use filch_sim::Op;
    /// assert_eq!(Op::spawn("leaf"), Op::SpawnLocal("leaf".to_owned()));
    /// ```
    #[must_use]
    pub fn spawn(body: &str) -> Self {
        Self::SpawnLocal(body.to_owned())
    }
}

/// An external event at a time.
///
/// ```
/// use filch_sim::{Act, Case, Program, Simulation};
///
/// // The only worker leaves during the run, and enters again.
/// let program = Program::wide(10, 100)
///     .outside(250, Act::Leave(0))
///     .outside(5_000, Act::Enter(0));
/// let outcome = Simulation::new(Case::new(1, program))?.run().unwrap();
/// assert!(outcome.executed == 11 && outcome.makespan > 5_000);
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outside {
    /// The time in ticks; a scheduler may delay it.
    pub at: u64,
    /// The event.
    pub act: Act,
}

/// The kinds of external events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Tasks are injected: a single one by itself, several as one batch.
    Inject {
        /// Their body.
        body: String,
        /// Their number.
        #[serde(default = "one")]
        count: usize,
        /// Their level. Tasks that are not Normal are injected one by one.
        #[serde(default, skip_serializing_if = "is_normal", with = "remote::Level")]
        level: Level,
        /// The worker to which they have an affinity, if any. Such tasks are Normal, and are
        /// injected one by one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<usize>,
    },
    /// Closes the gate: no more tasks are admitted, and the workers exit when all tasks have run.
    Close,
    /// Stops: the workers exit after their current task, and queued tasks are abandoned.
    Stop,
    /// This worker enters.
    Enter(usize),
    /// This worker leaves as soon as it is between two steps, asleep or not.
    Leave(usize),
}

fn one() -> usize {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_normal(level: &Level) -> bool {
    *level == Level::Normal
}

impl Program {
    /// Creates an empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a body.
    #[must_use]
    pub fn body(mut self, name: &str, ops: impl Into<Vec<Op>>) -> Self {
        self.bodies.push(Body {
            name: name.to_owned(),
            ops: ops.into(),
        });
        self
    }

    /// Adds an external event.
    #[must_use]
    pub fn outside(mut self, at: u64, act: Act) -> Self {
        self.outside.push(Outside { at, act });
        self
    }

    /// Adds the injection of `count` tasks.
    #[must_use]
    pub fn inject(self, at: u64, body: &str, count: usize) -> Self {
        self.inject_at(at, Level::Normal, body, count)
    }

    /// Adds the injection of `count` tasks of a level.
    ///
    /// ```
    /// use filch::engine::Level;
    /// use filch_sim::{Case, Program, Simulation};
    ///
    /// let program = Program::wide(10, 100).inject_at(250, Level::Critical, "leaf", 2);
    /// let outcome = Simulation::new(Case::new(1, program))?.run().unwrap();
    /// assert_eq!(outcome.metrics.total().critical, 2);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn inject_at(self, at: u64, level: Level, body: &str, count: usize) -> Self {
        let act = Act::Inject {
            body: body.to_owned(),
            count,
            level,
            worker: None,
        };
        self.outside(at, act)
    }

    /// Adds the injection of `count` tasks with an affinity to `worker`.
    #[must_use]
    pub fn inject_for(self, at: u64, worker: usize, body: &str, count: usize) -> Self {
        let act = Act::Inject {
            body: body.to_owned(),
            count,
            level: Level::Normal,
            worker: Some(worker),
        };
        self.outside(at, act)
    }

    /// Creates a program of one task that spawns `tasks` others, each of `work` ticks.
    ///
    /// ```
    /// use filch_sim::Program;
    /// assert_eq!(Program::wide(100, 5).tasks().unwrap(), 101);
    /// ```
    #[must_use]
    pub fn wide(tasks: u32, work: u64) -> Self {
        let ops = vec![Op::spawn("leaf")];
        Self::new()
            .body("leaf", [Op::Work(work)])
            .body("root", [Op::Repeat { times: tasks, ops }])
            .inject(0, "root", 1)
    }

    /// Creates a program of a tree of tasks, `depth` levels below its root, each task with `fanout`
    /// children and `work` ticks of its own.
    ///
    /// ```
    /// use filch_sim::Program;
    /// assert_eq!(Program::tree(3, 2, 10).tasks().unwrap(), 1 + 2 + 4 + 8);
    /// ```
    #[must_use]
    pub fn tree(depth: u32, fanout: u32, work: u64) -> Self {
        let mut program = Self::new().body("level 0", [Op::Work(work)]);
        for level in 1..=depth {
            let ops = vec![Op::spawn(&format!("level {}", level - 1))];
            let children = Op::Repeat { times: fanout, ops };
            program = program.body(&format!("level {level}"), [children, Op::Work(work)]);
        }
        program.inject(0, &format!("level {depth}"), 1)
    }

    /// Reads a program from JSON.
    ///
    /// # Errors
    /// Fails if the text is not JSON, not a program, or an invalid program; the error says where.
    ///
    /// ```
    /// use filch_sim::Program;
    ///
    /// let error = Program::from_json(r#"{"bodies": [{"name": "a", "ops": ["fly"]}]}"#).unwrap_err();
    /// assert!(error.to_string().contains("unknown variant `fly`"));
    /// ```
    pub fn from_json(text: &str) -> Result<Self, CaseError> {
        let program: Self =
            serde_json::from_str(text).map_err(|e| CaseError::json("program", &e))?;
        program.compile()?;
        Ok(program)
    }

    /// Returns the program as readable JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        crate::layout::to_json(self)
    }

    /// Returns the total number of tasks if nothing is refused and nothing panics; the rest after a
    /// yield is a task of its own.
    ///
    /// # Errors
    /// Fails if the program is invalid.
    pub fn tasks(&self) -> Result<u64, CaseError> {
        Ok(self.compile()?.tasks)
    }

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
            tasks: 0,
        };
        for body in &self.bodies {
            let mut steps = Vec::new();
            flatten(&body.ops, &names, &mut steps)
                .map_err(|what| CaseError::new(format!("body {:?}: {what}", body.name)))?;
            compiled.bodies.push(steps);
        }
        let sizes = self.sizes(&compiled.bodies)?;
        for outside in &self.outside {
            if let Act::Inject { body, count, .. } = &outside.act {
                let Some(&index) = names.get(body.as_str()) else {
                    return Err(CaseError::new(format!(
                        "tasks with the body {body:?} come from outside, but there is no such body"
                    )));
                };
                let more = sizes[index].saturating_mul(*count as u64);
                compiled.tasks = compiled.tasks.saturating_add(more);
                compiled.outside.push(index as u32);
            } else {
                compiled.outside.push(0);
            }
        }
        if compiled.tasks > MAX_TASKS {
            return Err(CaseError::new(format!(
                "the program has {} tasks; at most {MAX_TASKS} can be simulated",
                compiled.tasks
            )));
        }
        Ok(compiled)
    }

    /// Returns the size of the task tree of each body, the task itself included.
    fn sizes(&self, bodies: &[Vec<Instruction>]) -> Result<Vec<u64>, CaseError> {
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
                            (None, _) => 0,
                        };
                        Some(sum.saturating_add(more))
                    });
                    grown |= sizes[body].is_some();
                }
            }
            if !grown {
                break;
            }
        }
        match sizes.iter().position(Option::is_none) {
            None => Ok(sizes.into_iter().flatten().collect()),
            Some(first) => Err(self.endless(first, bodies, &sizes)),
        }
    }

    /// Returns an error that names the bodies of the cycle that `body` leads into.
    fn endless(
        &self,
        mut body: usize,
        bodies: &[Vec<Instruction>],
        sizes: &[Option<u64>],
    ) -> CaseError {
        let mut path = Vec::new();
        while !path.contains(&body) {
            path.push(body);
            let next = bodies[body]
                .iter()
                .filter_map(|step| step.child())
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
    SpawnAt(Level, u32),
    SpawnFor(usize, u32),
    Yield,
    Work(u64),
    Panic,
}

impl Instruction {
    /// Returns the body of the task that it spawns, if it spawns one.
    fn child(self) -> Option<usize> {
        match self {
            Self::SpawnLocal(child)
            | Self::SpawnGlobal(child)
            | Self::SpawnAt(_, child)
            | Self::SpawnFor(_, child) => Some(child as usize),
            Self::Yield | Self::Work(_) | Self::Panic => None,
        }
    }
}

/// A checked program.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) bodies: Vec<Vec<Instruction>>,
    /// The index of the body for each external event; zero for events without a body.
    pub(crate) outside: Vec<u32>,
    /// The total number of tasks.
    pub(crate) tasks: u64,
}

fn flatten(
    ops: &[Op],
    names: &HashMap<&str, usize>,
    into: &mut Vec<Instruction>,
) -> Result<(), String> {
    let find = |name: &String| {
        names
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
