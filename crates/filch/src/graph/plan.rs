//! A graph that has been checked and can be run.

use super::{
    block::SourceBlocks,
    edges::Edge,
    join_counter::JoinCounter,
    names::Names,
    node::{Env, TaskNode},
    recorder::RunRecorder,
    timeline::Timeline,
    values::Values,
};
use crate::{
    base::sys::memory,
    semaphore::{Semaphore, Wants},
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A graph that has been checked, ready to be run any number of times.
///
/// Made by [`Graph::plan`](super::Graph::plan).
pub struct Plan<'env> {
    pub(super) parts: GraphParts,
    pub(super) shape: Shape,
    /// One counter for each record; empty if no task waits for more than one other.
    pub(super) join_counters: Box<[JoinCounter]>,
    /// Where workers keep the sources that they have taken from the cursor of a run; empty between
    /// runs.
    pub(super) blocks: SourceBlocks,
    _env: Env<'env>,
}

/// The parts of a graph.
#[derive(Default)]
pub(super) struct GraphParts {
    /// The first record is no task.
    pub(super) nodes: Vec<TaskNode>,
    pub(super) edges: Vec<(u32, u32)>,
    pub(super) names: Names,
    /// Where the graphs inside tasks are stored between runs.
    pub(super) inner_plans: Vec<(u32, PlanSlot)>,
    /// The units that tasks need.
    pub(super) semaphores: Vec<(u32, Semaphore, u64)>,
    pub(super) order: TaskOrder,
    pub(super) values: Values,
}

/// The order that was requested while the graph was built.
#[derive(Clone, Default)]
pub(super) struct TaskOrder {
    pub(super) critical_path: bool,
    pub(super) weights: Vec<(u32, u32)>,
    pub(super) priorities: Vec<(u32, i32)>,
}

/// Where the graph of a task is stored while it does not run.
#[derive(Clone, Default)]
pub(super) struct PlanSlot(Arc<StoredPlan>);

/// The content of a [`PlanSlot`].
#[derive(Default)]
struct StoredPlan(Mutex<Option<Plan<'static>>>);

/// Graphs may be nested a hundred thousand deep. So they are dropped in a loop and not by
/// recursion, which would overflow the stack.
impl Drop for StoredPlan {
    fn drop(&mut self) {
        let plan = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut plans: Vec<_> = plan.take().into_iter().collect();
        while let Some(plan) = plans.pop() {
            let inner_plans = &plan.parts.inner_plans;
            plans.extend(inner_plans.iter().filter_map(|(_, slot)| slot.take()));
            // If a destructor of the user's panics, the list drops the plans that are left, each in
            // the same way.
            drop(plan);
        }
    }
}

impl PlanSlot {
    fn lock(&self) -> MutexGuard<'_, Option<Plan<'static>>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a plan; returns the plan that was stored before.
    pub(super) fn put(&self, plan: Plan<'static>) -> Option<Plan<'static>> {
        self.lock().replace(plan)
    }

    pub(super) fn take(&self) -> Option<Plan<'static>> {
        self.lock().take()
    }
}

/// The result of the check. The instances of a template share it.
#[derive(Clone)]
pub(super) struct Shape {
    /// The successors of all tasks, without the last one of each task, one task after the other.
    pub(super) successor_list: Arc<[Edge]>,
    /// The tasks without predecessors.
    pub(super) sources: Arc<[u32]>,
    /// Whether some task waits for more than one predecessor.
    pub(super) has_joins: bool,
    /// Set if one worker would finish the tasks sooner than several.
    pub(super) sequential_hint: Option<SequentialHint>,
    /// Whether there are conditions.
    pub(super) has_conditions: bool,
    /// Whether the plan has anything but closures that are called once a run.
    pub(super) is_special: bool,
    /// The recorder, while runs are recorded. Such a plan is special.
    pub(super) recorder: Option<Arc<RunRecorder>>,
    pub(super) unreachable: Arc<[u32]>,
    /// The semaphores of the tasks that have some, sorted by the tasks' numbers.
    pub(super) needs: Arc<[(u32, Wants)]>,
}

/// The plan has little parallelism: few of its tasks can run at the same time, so that one worker
/// is done sooner than several that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequentialHint {
    /// Applies if the tasks take less than some hundred nanoseconds each.
    SmallTasks,
    /// Applies if the tasks take less than some ten nanoseconds each.
    TinyTasks,
}

impl<'env> Plan<'env> {
    pub(super) fn new(
        mut parts: GraphParts,
        shape: Shape,
        join_counters: Box<[JoinCounter]>,
    ) -> Self {
        parts.edges = Vec::new();
        memory::shrink(&mut parts.nodes);
        Self {
            parts,
            blocks: SourceBlocks::new(shape.sources.len()),
            shape,
            join_counters,
            _env: Env::new(),
        }
    }

    /// Returns the tasks that no run can reach: those that only unreachable conditions lead to, and
    /// those that wait for one of them.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.task("start", || ());
    /// let (again, body) = (graph.condition("again?", || 0), graph.task("body", || ()));
    /// again.precede(body);
    /// body.precede(again); // nothing leads into this loop
    /// let plan = graph.plan()?;
    /// assert_eq!(plan.unreachable().collect::<Vec<_>>(), ["again?", "body"]);
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    pub fn unreachable(&self) -> impl Iterator<Item = String> {
        let unreachable = self.shape.unreachable.iter();
        unreachable.map(|&index| self.parts.names.of(index))
    }

    /// Returns the number of tasks.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.linearize((0..5).map(|_| graph.placeholder("")));
    /// assert_eq!(graph.plan()?.len(), 5);
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.nodes.len() - 1
    }

    /// Whether there are no tasks.
    ///
    /// ```
    /// let mut plan = filch::Graph::new().plan()?;
    /// assert!(plan.is_empty());
    /// assert_eq!(plan.run()?.ran(), 0); // which is not an error
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the same plan without its lifetime. The caller ensures that the plan is dropped
    /// before what it borrows.
    pub(super) fn forget_env(self) -> Plan<'static> {
        Plan {
            parts: self.parts,
            shape: self.shape,
            join_counters: self.join_counters,
            blocks: self.blocks,
            _env: Env::new(),
        }
    }

    pub(super) fn nodes(&self) -> &[TaskNode] {
        &self.parts.nodes
    }

    /// Returns all edges, by the tasks' numbers.
    pub(super) fn edges(&self) -> impl Iterator<Item = (u32, u32)> {
        self.nodes().iter().flat_map(|node| {
            let next = node.successors.all(&self.shape.successor_list);
            next.map(|edge| (node.index(), edge.to()))
        })
    }

    /// Prepares the plan for the next run. A run that was stopped leaves counters behind that are
    /// partly counted down, and so does one in which a condition has skipped the other
    /// predecessors.
    pub(super) fn reset_after_run(&mut self, stopped: bool) {
        if stopped || self.shape.has_conditions {
            self.reset();
        }
    }

    /// Resets the counters and claims.
    pub(super) fn reset(&mut self) {
        self.parts.nodes.iter_mut().for_each(TaskNode::reset);
        for (counter, node) in self.join_counters.iter_mut().zip(&self.parts.nodes) {
            *counter = JoinCounter::new(node.strong_predecessors());
        }
    }
}

impl Plan<'_> {
    /// Starts or stops recording runs. Recording costs some 100 ns a task, and memory until the
    /// [`timeline`](Self::timeline) is taken; while it is off it costs nothing.
    ///
    /// Graphs inside tasks are recorded as their task.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.task("work", || ());
    /// let mut plan = graph.plan()?;
    /// plan.record(true);
    /// plan.run()?;
    /// assert_eq!(plan.timeline().tasks().len(), 1);
    /// plan.record(false);
    /// plan.run()?;
    /// assert!(plan.timeline().tasks().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record(&mut self, on: bool) {
        let special = self.parts.nodes.iter().any(|node| node.kind.is_special());
        self.shape.is_special = on || special || !self.shape.needs.is_empty();
        self.shape.recorder = on.then(|| RunRecorder::new().into());
    }

    /// Returns what was recorded since the last call; nothing if the plan does not
    /// [`record`](Self::record).
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.linearize([graph.task("load", || ()), graph.task("use", || ())]);
    /// let mut plan = graph.plan()?;
    /// plan.record(true);
    /// plan.run_n(2)?;
    /// let timeline = plan.timeline();
    /// assert_eq!(timeline.tasks().len(), 4); // of both runs
    /// println!("{timeline}");
    /// assert!(plan.timeline().tasks().is_empty()); // nothing new since
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn timeline(&mut self) -> Timeline {
        let name = |index| self.parts.names.of(index);
        match &self.shape.recorder {
            Some(recorder) => recorder.timeline(name, self.edges()),
            None => Timeline::new(0, [], []),
        }
    }
}

impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("tasks", &self.len()).finish()
    }
}
