//! What the virtual workers run: task bodies, and what happens from outside.

use super::error::CaseError;
use crate::engine::Level;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The most tasks that one program may come to: more is a slip in a `repeat`, not a test.
const MAX_TASKS: u64 = 4_000_000;

/// The most operations that one body may have once its repeats are written out.
const MAX_OPS: usize = 1_000_000;

/// A program for the simulator: task bodies, and what comes from outside and when.
///
/// ```
/// use filch::simulate::{Op, Program};
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
/// # use filch::simulate::Program;
/// let program = Program::from_json(r#"{
///     "bodies": [
///         {"name": "leaf", "ops": [{"work": 10}]},
///         {"name": "root", "ops": [{"repeat": {"times": 4, "ops": [{"spawn_local": "leaf"}]}}]}
///     ],
///     "outside": [{"at": 0, "act": {"inject": {"body": "root"}}}]
/// }"#)?;
/// assert_eq!(program.tasks()?, 5);
/// # Ok::<(), filch::simulate::CaseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What tasks do. A body may spawn any other, but never itself, not by way of others either: so
    /// every program ends.
    pub bodies: Vec<Body>,
    /// What happens from outside, in this order. Without an [`Act::Close`] or [`Act::Stop`] the gate
    /// is closed once nothing is left to do and nothing else is to come.
    #[serde(default)]
    pub outside: Vec<Outside>,
}

/// A named task body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// What other bodies call it.
    pub name: String,
    /// What it does.
    pub ops: Vec<Op>,
}

/// One operation of a task.
///
/// [`Work`](Self::Work) occupies the worker, and is paid after the other operations of the task: what
/// a task spawns can be stolen while it works. To spawn after some work, put a
/// [`Yield`](Self::Yield) between: it ends the task at hand and makes a new one of the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Spawns a task with this body into the worker's own queue.
    SpawnLocal(String),
    /// Spawns a task with this body into the injector.
    SpawnGlobal(String),
    /// Spawns a task at a level: a normal one into the worker's own queue.
    SpawnAt {
        /// Which.
        level: Level,
        /// Its body.
        body: String,
    },
    /// Spawns a task that a certain worker should run.
    SpawnFor {
        /// Which.
        worker: usize,
        /// Its body.
        body: String,
    },
    /// Queues the rest of this task as a new one, and lets older tasks run first.
    Yield,
    /// Takes as many ticks.
    #[serde(alias = "sleep")]
    Work(u64),
    /// Panics; the rest of the task is not run.
    Panic,
    /// The operations inside, several times.
    Repeat {
        /// How many times.
        times: u32,
        /// What.
        ops: Vec<Op>,
    },
}

impl Op {
    /// [`Op::SpawnLocal`] without the ceremony.
    ///
    /// ```
    /// use filch::simulate::Op;
    /// assert_eq!(Op::spawn("leaf"), Op::SpawnLocal("leaf".to_owned()));
    /// ```
    #[must_use]
    pub fn spawn(body: &str) -> Self {
        Self::SpawnLocal(body.to_owned())
    }
}

/// Something that happens from outside, at a time.
///
/// ```
/// use filch::simulate::{Act, Case, Program, Simulation};
///
/// // The only worker leaves in the middle, and comes back.
/// let program = Program::wide(10, 100)
///     .outside(250, Act::Leave(0))
///     .outside(5_000, Act::Enter(0));
/// let outcome = Simulation::new(Case::new(1, program))?.run().unwrap();
/// assert!(outcome.executed == 11 && outcome.makespan > 5_000);
/// # Ok::<(), filch::simulate::CaseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outside {
    /// When, in ticks; a scheduler may be late.
    pub at: u64,
    /// What.
    pub act: Act,
}

/// What can happen from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Tasks come in: one by itself, several as one batch.
    Inject {
        /// Their body.
        body: String,
        /// How many.
        #[serde(default = "one")]
        count: usize,
        /// Their level. If they are not normal they come one by one.
        #[serde(default, skip_serializing_if = "is_normal")]
        level: Level,
        /// The worker that should run them, if there is one; then they come one by one, and are normal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<usize>,
    },
    /// No more tasks are let in; the workers go home when everything has run.
    Close,
    /// The workers go home after the task at hand; what is queued is abandoned.
    Stop,
    /// This worker begins to take part.
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
    /// Nothing yet.
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

    /// Adds something from outside.
    #[must_use]
    pub fn outside(mut self, at: u64, act: Act) -> Self {
        self.outside.push(Outside { at, act });
        self
    }

    /// Adds `count` tasks from outside.
    #[must_use]
    pub fn inject(self, at: u64, body: &str, count: usize) -> Self {
        self.inject_at(at, Level::Normal, body, count)
    }

    /// Adds `count` tasks of a level from outside.
    ///
    /// ```
    /// use filch::engine::Level;
    /// use filch::simulate::{Case, Program, Simulation};
    ///
    /// let program = Program::wide(10, 100).inject_at(250, Level::Critical, "leaf", 2);
    /// let outcome = Simulation::new(Case::new(1, program))?.run().unwrap();
    /// assert_eq!(outcome.metrics.total().critical, 2);
    /// # Ok::<(), filch::simulate::CaseError>(())
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

    /// Adds `count` tasks from outside that `worker` should run.
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

    /// One task that spawns `tasks` others, each of `work` ticks.
    ///
    /// ```
    /// use filch::simulate::Program;
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

    /// A tree of tasks, `depth` levels below its root, each task with `fanout` children and `work`
    /// ticks of its own.
    ///
    /// ```
    /// use filch::simulate::Program;
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
    /// When it is no JSON, no program, or a program that makes no sense; the error says where.
    ///
    /// ```
    /// use filch::simulate::Program;
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

    /// The program as JSON, for people to read.
    #[must_use]
    pub fn to_json(&self) -> String {
        super::layout::to_json(self)
    }

    /// How many tasks the program comes to when nothing is refused and nothing panics; the rest
    /// after a yield is a task of its own.
    ///
    /// # Errors
    /// When the program makes no sense.
    pub fn tasks(&self) -> Result<u64, CaseError> {
        Ok(self.compile()?.tasks)
    }

    /// Checks the program, and puts numbers in the place of names.
    pub(super) fn compile(&self) -> Result<Compiled, CaseError> {
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
                "the program comes to {} tasks; at most {MAX_TASKS} can be simulated",
                compiled.tasks
            )));
        }
        Ok(compiled)
    }

    /// How many tasks a task of each body comes to, itself included.
    fn sizes(&self, bodies: &[Vec<Instruction>]) -> Result<Vec<u64>, CaseError> {
        let mut sizes: Vec<Option<u64>> = vec![None; bodies.len()];
        // Bodies whose children are all known, until there are no more: what is left spawns itself.
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

    /// Names the bodies of the circle that `body` leads into.
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

/// One operation of a body whose repeats are written out and whose names are numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    SpawnLocal(u32),
    SpawnGlobal(u32),
    SpawnAt(Level, u32),
    SpawnFor(usize, u32),
    Yield,
    Work(u64),
    Panic,
}

impl Instruction {
    /// The body of what it spawns.
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
pub(super) struct Compiled {
    pub(super) bodies: Vec<Vec<Instruction>>,
    /// For each thing from outside the number of its body, if it has one.
    pub(super) outside: Vec<u32>,
    /// How many tasks the program comes to.
    pub(super) tasks: u64,
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
