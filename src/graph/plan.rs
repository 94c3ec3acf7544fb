//! A graph that has been checked and can be run.

use super::{
    block::Blocks,
    build::{Graph, Parts},
    edges::Edge,
    error::RunError,
    node::{Env, Node},
    options::RunOptions,
    predecessor_count::PredecessorCount,
    semaphore::Needs,
    start,
    timeline::Recorder,
};
use crate::base::sys::memory;
use crate::pool::{Pool, on_current};
use std::{fmt, sync::Arc};

/// A graph that has been checked, ready to be run as often as you like.
///
/// Made by [`Graph::plan`].
pub struct Plan<'env> {
    pub(super) parts: Parts,
    pub(super) shape: Shape,
    /// One for each record; none if no task waits for more than one other.
    pub(super) missing: Box<[PredecessorCount]>,
    /// Where workers keep the sources that they have taken from the cursor of a run; empty between
    /// runs.
    pub(super) blocks: Blocks,
    _env: Env<'env>,
}

/// What the check has found out. The instances of a template share it.
#[derive(Clone)]
pub(super) struct Shape {
    /// The successors of all tasks but for the last one of each, one after the other.
    pub(super) successors: Arc<[Edge]>,
    /// The tasks that wait for nobody.
    pub(super) sources: Arc<[u32]>,
    /// Whether some task waits for more than one.
    pub(super) joins: bool,
    /// Whether the tasks are better left to one worker.
    pub(super) alone: Option<Alone>,
    /// Whether there are conditions.
    pub(super) conditions: bool,
    /// Whether there is more to it than closures that are called once a run.
    pub(super) special: bool,
    /// What takes runs down, while they are recorded. Such a plan is special.
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) unreachable: Arc<[u32]>,
    /// The semaphores of the tasks that have some, sorted by the tasks' numbers.
    pub(super) needs: Arc<[(u32, Needs)]>,
}

/// Only a few tasks of a plan can run at the same time, on the way from the first to the last, so that they are done
/// sooner by one worker than shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// If they take less than some hundred nanoseconds each.
    IfSmall,
    /// If they take less than some ten nanoseconds each.
    IfTiny,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunReport {
    pub(super) ran: u64,
}

impl RunReport {
    /// How many tasks ran; one that ran twice counts twice.
    #[must_use]
    pub fn ran(&self) -> u64 {
        self.ran
    }
}

/// What one of several runs came to.
pub(super) trait Plus {
    /// The same, when so many tasks have run before.
    fn plus(self, ran: u64) -> Self;
}

impl Plus for Result<RunReport, RunError> {
    #[inline]
    fn plus(mut self, before: u64) -> Self {
        match &mut self {
            Ok(report) => report.ran += before,
            Err(error) => error.ran += before,
        }
        self
    }
}

impl<'env> Plan<'env> {
    pub(super) fn new(mut parts: Parts, shape: Shape, missing: Box<[PredecessorCount]>) -> Self {
        parts.edges = Vec::new();
        memory::shrink(&mut parts.nodes);
        Self {
            parts,
            blocks: Blocks::new(shape.sources.len()),
            shape,
            missing,
            _env: Env::new(),
        }
    }

    /// Runs the graph on the pool that the caller works for, else on the global one, and returns when all
    /// of it is done. The calling thread works on it too.
    ///
    /// # Errors
    /// When tasks panic: no more tasks are released then, and the error tells all the panics once the running ones
    /// are done. The plan can be run again.
    pub fn run(&mut self) -> Result<RunReport, RunError> {
        on_current(|context| start::run(self, context))
    }

    /// [`run`](Self::run) on a certain pool.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_on(&mut self, pool: &Pool) -> Result<RunReport, RunError> {
        pool.enter_worker(|context| start::run(self, context))
    }

    /// Runs it `times` times, one after the other.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let mut runs = 0;
    /// let graph = Graph::new();
    /// graph.task("count", || runs += 1);
    /// graph.plan()?.run_n(10)?;
    /// assert_eq!(runs, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); it ends with the first run that fails.
    pub fn run_n(&mut self, times: u64) -> Result<RunReport, RunError> {
        on_current(|context| {
            let mut ran = 0;
            for _ in 0..times {
                ran = start::run(self, context).plus(ran)?.ran;
            }
            Ok(RunReport { ran })
        })
    }

    /// Runs it until `stop` says so, which is asked after every run.
    ///
    /// # Errors
    /// As [`run`](Self::run); it ends with the first run that fails.
    pub fn run_until(&mut self, mut stop: impl FnMut() -> bool) -> Result<RunReport, RunError> {
        on_current(|context| {
            let mut ran = 0;
            loop {
                ran = start::run(self, context).plus(ran)?.ran;
                if stop() {
                    return Ok(RunReport { ran });
                }
            }
        })
    }

    /// [`run`](Self::run) with everything that can be chosen about it: the pool, how often, who may stop it.
    ///
    /// ```
    /// use filch::{CancelToken, Graph, graph::RunOptions};
    ///
    /// let token = CancelToken::new();
    /// let graph = Graph::new();
    /// let first = graph.task("first", || { token.cancel(); });
    /// first.precede(graph.task("second", || unreachable!()));
    /// let mut plan = graph.plan()?;
    ///
    /// let error = plan.run_with(&RunOptions::new().cancel(&token)).unwrap_err();
    /// assert!(error.is_cancelled());
    /// assert_eq!(error.skipped(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); also when it was cancelled before all tasks had run.
    pub fn run_with(&mut self, options: &RunOptions) -> Result<RunReport, RunError> {
        options.run(self)
    }

    /// The tasks that no run can reach: those that only unreachable conditions lead to, and those that wait for one of
    /// them.
    pub fn unreachable(&self) -> impl Iterator<Item = String> {
        let unreachable = self.shape.unreachable.iter();
        unreachable.map(|&index| self.parts.names.of(index))
    }

    /// How many tasks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.nodes.len() - 1
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The graph again, to be changed.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let graph = Graph::new();
    /// let first = graph.task("first", || ()).index();
    /// let mut plan = graph.plan()?;
    /// plan.run()?;
    ///
    /// let graph = plan.edit();
    /// let more = graph.task("more", || ());
    /// graph.get(first).unwrap().precede(more);
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn edit(self) -> Graph<'env> {
        let mut parts = self.parts;
        for node in &parts.nodes {
            let next = node.leads.all(&self.shape.successors);
            parts
                .edges
                .extend(next.map(|edge| (node.index(), edge.to())));
        }
        Graph::from_parts(parts)
    }

    /// The same plan without what it borrows; the caller sees to it that it is gone before that.
    pub(super) fn forget_env(self) -> Plan<'static> {
        Plan {
            parts: self.parts,
            shape: self.shape,
            missing: self.missing,
            blocks: self.blocks,
            _env: Env::new(),
        }
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.parts.nodes
    }

    /// Makes it ready for the next run. A run that was stopped leaves tasks behind that still miss some of their
    /// predecessors only, and so does one in which a condition has led past the others.
    pub(super) fn settle(&mut self, stopped: bool) {
        if stopped || self.shape.conditions {
            self.reset();
        }
    }

    /// Puts the counters back.
    pub(super) fn reset(&mut self) {
        self.parts.nodes.iter_mut().for_each(Node::reset);
        for (missing, node) in self.missing.iter_mut().zip(&self.parts.nodes) {
            *missing = PredecessorCount::new(node.waits_for());
        }
    }
}

impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("tasks", &self.len()).finish()
    }
}
