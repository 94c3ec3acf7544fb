//! A graph that has been checked and can be run.

use super::{
    block::Blocks,
    build::{Graph, Parts},
    edges::Edge,
    error::RunError,
    node::{Env, Node},
    options::RunOptions,
    predecessor_count::PredecessorCount,
    recorder::Recorder,
    start,
};
use crate::{
    base::sys::memory,
    pool::{Pool, on_current},
    semaphore::Wants,
};
use std::{fmt, sync::Arc};

/// A graph that has been checked, ready to be run any number of times.
///
/// Made by [`Graph::plan`].
pub struct Plan<'env> {
    pub(super) parts: Parts,
    pub(super) shape: Shape,
    /// One counter for each record; empty if no task waits for more than one other.
    pub(super) missing: Box<[PredecessorCount]>,
    /// Where workers keep the sources that they have taken from the cursor of a run; empty between
    /// runs.
    pub(super) blocks: Blocks,
    _env: Env<'env>,
}

/// The result of the check. The instances of a template share it.
#[derive(Clone)]
pub(super) struct Shape {
    /// The successors of all tasks, without the last one of each task, one task after the other.
    pub(super) successors: Arc<[Edge]>,
    /// The tasks without predecessors.
    pub(super) sources: Arc<[u32]>,
    /// Whether some task waits for more than one predecessor.
    pub(super) joins: bool,
    /// Whether one worker alone would finish the tasks sooner than several.
    pub(super) alone: Option<Alone>,
    /// Whether there are conditions.
    pub(super) conditions: bool,
    /// Whether the plan has anything but closures that are called once a run.
    pub(super) special: bool,
    /// The recorder, while runs are recorded. Such a plan is special.
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) unreachable: Arc<[u32]>,
    /// The semaphores of the tasks that have some, sorted by the tasks' numbers.
    pub(super) needs: Arc<[(u32, Wants)]>,
}

/// The plan has little parallelism: few of its tasks can run at the same time, so that one worker
/// is done sooner than several that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// Applies if the tasks take less than some hundred nanoseconds each.
    IfSmall,
    /// Applies if the tasks take less than some ten nanoseconds each.
    IfTiny,
}

/// The result of a run that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunReport {
    pub(super) ran: u64,
}

impl RunReport {
    /// Returns how many tasks ran; one that ran twice counts twice.
    #[must_use]
    pub fn ran(&self) -> u64 {
        self.ran
    }
}

/// Sums up the results of several runs.
pub(super) trait Plus {
    /// Returns the same result with `ran` tasks of earlier runs added.
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

    /// Runs the graph on the pool whose worker the caller is, otherwise on the global one, and
    /// returns when all of it is done. The calling thread works on it too.
    ///
    /// # Errors
    /// Returns an error when tasks panic. Then no more tasks are released, and the error contains
    /// all the panics once the running tasks are done. The plan can be run again.
    pub fn run(&mut self) -> Result<RunReport, RunError> {
        on_current(|context| start::run(self, context))
    }

    /// Like [`run`](Self::run), on the given pool.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_on(&mut self, pool: &Pool) -> Result<RunReport, RunError> {
        pool.enter_worker(|context| start::run(self, context))
    }

    /// Runs the graph `times` times, one run after the other.
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
    /// As [`run`](Self::run); it returns after the first run that fails.
    pub fn run_n(&mut self, times: u64) -> Result<RunReport, RunError> {
        on_current(|context| {
            let mut ran = 0;
            for _ in 0..times {
                ran = start::run(self, context).plus(ran)?.ran;
            }
            Ok(RunReport { ran })
        })
    }

    /// Runs the graph until `stop` returns true; `stop` is called after every run.
    ///
    /// # Errors
    /// As [`run`](Self::run); it returns after the first run that fails.
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

    /// Like [`run`](Self::run) with options: the pool, the number of runs, a token that cancels it.
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

    /// Returns the tasks that no run can reach: those that only unreachable conditions lead to, and
    /// those that wait for one of them.
    pub fn unreachable(&self) -> impl Iterator<Item = String> {
        let unreachable = self.shape.unreachable.iter();
        unreachable.map(|&index| self.parts.names.of(index))
    }

    /// Returns the number of tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.nodes.len() - 1
    }

    /// Whether there are no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the graph, to be changed.
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
        let edges = self.edges().collect();
        let mut parts = self.parts;
        parts.edges = edges;
        Graph::from_parts(parts)
    }

    /// Returns the same plan without its lifetime. The caller ensures that the plan is dropped
    /// before what it borrows.
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

    /// Returns all edges, by the tasks' numbers.
    pub(super) fn edges(&self) -> impl Iterator<Item = (u32, u32)> {
        self.nodes().iter().flat_map(|node| {
            let next = node.leads.all(&self.shape.successors);
            next.map(|edge| (node.index(), edge.to()))
        })
    }

    /// Prepares the plan for the next run. A run that was stopped leaves counters behind that are
    /// partly counted down, and so does one in which a condition has skipped the other
    /// predecessors.
    pub(super) fn settle(&mut self, stopped: bool) {
        if stopped || self.shape.conditions {
            self.reset();
        }
    }

    /// Resets the counters and claims.
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
