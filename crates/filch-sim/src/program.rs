//! Simulated programs: task bodies and external events.

use crate::{error::CaseError, remote};
use filch::engine::Priority;
use serde::{Deserialize, Serialize};

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
    /// The joins: tasks that start after several others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joins: Vec<Join>,
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

/// A task that starts when a number of others have [arrived](Op::Arrive): a node of a task graph,
/// or the end of a parallel region.
///
/// ```
/// use filch_sim::{Case, Op, Program, Simulation};
///
/// let program = Program::new()
///     .body("end", [Op::Work(1)])
///     .body("half", [Op::Work(50), Op::arrive("both")])
///     .join("both", 2, "end")
///     .inject(0, "half", 2);
/// assert_eq!(Simulation::new(Case::new(2, program))?.run().unwrap().executed, 3);
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The name by which bodies refer to it.
    pub name: String,
    /// The number of arrivals, of all tasks together, that it waits for.
    pub count: u64,
    /// The body of the task that the last one spawns into its worker's own queue.
    pub body: String,
}

/// One operation of a task.
///
/// [`Work`](Self::Work) occupies the worker, and is charged after the other operations of the task,
/// so spawned tasks can be stolen while it works. To spawn after some work, put a
/// [`Yield`](Self::Yield) between: it ends the current task and makes a new one of the rest.
/// [Arrivals](Self::Arrive) take place when the work has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Op {
    /// Spawns a task with this body into the worker's own queue.
    SpawnLocal(String),
    /// Spawns a task with this body into the injector.
    SpawnGlobal(String),
    /// Spawns a task at a level; a Normal one into the worker's own queue.
    SpawnAt {
        /// The level.
        #[serde(with = "remote::Priority")]
        level: Priority,
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
    /// Arrives at a join.
    Arrive(String),
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
    /// Returns an [`Op::Arrive`].
    ///
    /// ```
    /// use filch_sim::Op;
    /// assert_eq!(Op::arrive("all"), Op::Arrive("all".to_owned()));
    /// ```
    #[must_use]
    pub fn arrive(join: &str) -> Self {
        Self::Arrive(join.to_owned())
    }

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
#[non_exhaustive]
pub enum Act {
    /// Tasks are injected: a single one by itself, several as one batch.
    Inject {
        /// Their body.
        body: String,
        /// Their number.
        #[serde(default = "one")]
        count: usize,
        /// Their level. Tasks that are not Normal are injected one by one.
        #[serde(default, skip_serializing_if = "is_normal", with = "remote::Priority")]
        level: Priority,
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
fn is_normal(level: &Priority) -> bool {
    *level == Priority::Normal
}

impl Program {
    /// Creates an empty program.
    ///
    /// ```
    /// use filch_sim::Program;
    /// assert_eq!(Program::new().tasks().unwrap(), 0);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a body.
    ///
    /// ```
    /// use filch_sim::{Op, Program};
    ///
    /// let program = Program::new()
    ///     .body("leaf", [Op::Work(10)])
    ///     .body("root", [Op::spawn("leaf"), Op::spawn("leaf")])
    ///     .inject(0, "root", 1);
    /// assert_eq!(program.tasks()?, 3);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn body(mut self, name: &str, ops: impl Into<Vec<Op>>) -> Self {
        self.bodies.push(Body {
            name: name.to_owned(),
            ops: ops.into(),
        });
        self
    }

    /// Adds a [join](Join) that spawns a task of `body` after `count` arrivals.
    ///
    /// ```
    /// use filch_sim::{Op, Program};
    ///
    /// let program = Program::new()
    ///     .body("part", [Op::Work(10), Op::Arrive("both".to_owned())])
    ///     .body("sum", [Op::Work(1)])
    ///     .join("both", 2, "sum")
    ///     .inject(0, "part", 2);
    /// assert_eq!(program.tasks()?, 3);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn join(mut self, name: &str, count: u64, body: &str) -> Self {
        let (name, body) = (name.to_owned(), body.to_owned());
        self.joins.push(Join { name, count, body });
        self
    }

    /// Adds an external event.
    ///
    /// ```
    /// use filch_sim::{Act, Case, Program, Simulation};
    ///
    /// let program = Program::wide(100, 10).outside(50, Act::Stop);
    /// let outcome = Simulation::new(Case::new(1, program))?.run().unwrap();
    /// assert!(outcome.abandoned > 0);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn outside(mut self, at: u64, act: Act) -> Self {
        self.outside.push(Outside { at, act });
        self
    }

    /// Adds the injection of `count` tasks.
    ///
    /// ```
    /// use filch_sim::{Op, Program};
    ///
    /// let program = Program::new().body("a", [Op::Work(5)]).inject(0, "a", 3).inject(100, "a", 4);
    /// assert_eq!(program.tasks()?, 7);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn inject(self, at: u64, body: &str, count: usize) -> Self {
        self.inject_at(at, Priority::Normal, body, count)
    }

    /// Adds the injection of `count` tasks of a level.
    ///
    /// ```
    /// use filch::engine::Priority;
    /// use filch_sim::{Case, Program, Simulation};
    ///
    /// let program = Program::wide(10, 100).inject_at(250, Priority::Critical, "leaf", 2);
    /// let outcome = Simulation::new(Case::new(1, program))?.run().unwrap();
    /// assert_eq!(outcome.metrics.total().critical, 2);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn inject_at(self, at: u64, level: Priority, body: &str, count: usize) -> Self {
        let act = Act::Inject {
            body: body.to_owned(),
            count,
            level,
            worker: None,
        };
        self.outside(at, act)
    }

    /// Adds the injection of `count` tasks with an affinity to `worker`.
    ///
    /// ```
    /// use filch_sim::{Case, Op, Program, Simulation};
    ///
    /// let program = Program::new().body("a", [Op::Work(5)]).inject_for(0, 1, "a", 3);
    /// let outcome = Simulation::new(Case::new(2, program))?.run().unwrap();
    /// assert_eq!(outcome.executed, 3);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn inject_for(self, at: u64, worker: usize, body: &str, count: usize) -> Self {
        let act = Act::Inject {
            body: body.to_owned(),
            count,
            level: Priority::Normal,
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
    ///
    /// ```
    /// use filch_sim::Program;
    ///
    /// let program = Program::tree(3, 2, 10);
    /// assert_eq!(Program::from_json(&program.to_json())?, program);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        crate::layout::to_json(self)
    }

    /// Returns the total number of tasks if nothing is refused and nothing panics; the rest after a
    /// yield is a task of its own.
    ///
    /// ```
    /// use filch_sim::Program;
    /// assert_eq!(Program::tree(2, 3, 10).tasks()?, 1 + 3 + 9);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the program is invalid.
    pub fn tasks(&self) -> Result<u64, CaseError> {
        Ok(self.compile()?.tasks)
    }
}
