//! A graph that has been checked and can be run.

use super::{
    block::SourceBlocks,
    edges::Edge,
    error::RunOutcome,
    join_counter::JoinCounter,
    names::Names,
    node::{AddedKinds, Env, TaskNode},
    ranks::TaskRanks,
    rare_parts::LazyParts,
    recorder::RunRecorder,
    shared_list::SharedList,
    timeline::Timeline,
};
use crate::{base::sys::memory, semaphore::Wants};
use std::{
    fmt, mem,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A graph that has been checked, ready to be run any number of times.
///
/// Made by [`Graph::plan`](super::Graph::plan).
pub struct Plan<'env> {
    pub(super) parts: PartsBox,
    pub(super) shape: Shape,
    /// One counter for each record; empty if no task waits for more than one other.
    pub(super) join_counters: Vec<JoinCounter>,
    /// Where workers keep the sources that they have taken from the cursor of a run; empty between
    /// runs.
    pub(super) blocks: SourceBlocks,
    /// Whether all tasks are sources and nothing else is known of them, so that the shape of the
    /// next graph may be the same.
    pub(super) has_sequence: bool,
    _env: Env<'env>,
}

/// The parts of a graph.
#[derive(Default)]
pub(super) struct GraphParts {
    /// The first record is no task.
    pub(super) nodes: Vec<TaskNode>,
    pub(super) edges: Vec<(u32, u32)>,
    pub(super) kinds: AddedKinds,
    pub(super) names: Names,
    /// Where the graphs inside tasks are stored between runs.
    pub(super) inner_plans: InnerPlans,
    pub(super) rare: LazyParts,
}

/// The parts of a graph, which are allocated with the first task. A graph inside a task is made,
/// checked and run, so its parts are moved several times; and most of those in a recursion have no
/// task.
#[derive(Default)]
pub(super) struct PartsBox(Option<Box<GraphParts>>);

impl PartsBox {
    pub(super) fn new(parts: GraphParts) -> Self {
        Self(Some(Box::new(parts)))
    }

    /// Whether there are any.
    #[inline(always)]
    pub(super) fn has_begun(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the parts, which are those that `begin` returns if there are none.
    #[inline(always)]
    pub(super) fn get_or_begin(&mut self, begin: impl FnOnce() -> Self) -> &mut GraphParts {
        self.0.get_or_insert_with(|| begin().0.unwrap_or_default())
    }
}

/// Of a graph or plan that has begun. Those of users have from the start.
impl Deref for PartsBox {
    type Target = GraphParts;

    #[inline(always)]
    fn deref(&self) -> &GraphParts {
        self.0.as_deref().expect("the graph has begun")
    }
}

impl DerefMut for PartsBox {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut GraphParts {
        self.0.as_deref_mut().expect("the graph has begun")
    }
}

impl GraphParts {
    /// Returns the number of tasks.
    #[inline]
    pub(super) fn len(&self) -> usize {
        // The first record, which is there with the first task, is none.
        self.nodes.len().saturating_sub(1) - self.rare.removed.len()
    }

    /// Whether there is room for at most this number of tasks, edges and names.
    pub(super) fn are_small(&self, len: usize) -> bool {
        self.nodes.capacity() <= len && self.edges.capacity() <= len && self.names.len() <= len
    }

    /// Removes all tasks, and keeps the memory for the next graph. Drops the closures, which is the
    /// user's code.
    pub(super) fn clear(&mut self) {
        let Self {
            nodes,
            edges,
            kinds,
            names,
            inner_plans,
            rare,
        } = self;
        // The first record is that of the next graph.
        nodes.truncate(1);
        edges.clear();
        *kinds = AddedKinds::default();
        names.clear();
        inner_plans.clear();
        rare.clear();
    }

    pub(super) fn is_removed(&self, task: u32) -> bool {
        self.rare.removed.binary_search(&task).is_ok()
    }
}

/// The graphs inside tasks that are kept: modules, and subflows that were retained, which are added
/// while the plan runs.
#[derive(Default)]
pub(super) struct InnerPlans(Mutex<Vec<(u32, PlanSlot)>>);

impl InnerPlans {
    fn lock(&self) -> MutexGuard<'_, Vec<(u32, PlanSlot)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the slot of a task.
    pub(super) fn push(&self, task: u32, slot: PlanSlot) {
        self.lock().push((task, slot));
    }

    /// Returns the slot of a task.
    pub(super) fn get(&self, task: u32) -> Option<PlanSlot> {
        let all = self.lock();
        let last = all.iter().rev().find(|(index, _)| *index == task);
        last.map(|(_, slot)| slot.clone())
    }

    /// Returns all slots, with the tasks.
    pub(super) fn all(&self) -> Vec<(u32, PlanSlot)> {
        self.lock().clone()
    }

    /// Removes and returns the slots of the tasks for which `goes` returns true.
    pub(super) fn remove(&mut self, goes: impl Fn(u32) -> bool) -> Vec<(u32, PlanSlot)> {
        let all = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        all.extract_if(.., |(task, _)| goes(*task)).collect()
    }

    fn clear(&mut self) {
        let all = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        all.clear();
    }
}

/// Where the graph of a task is stored while it does not run.
#[derive(Clone, Default)]
pub(super) struct PlanSlot(Arc<StoredPlan>);

/// The content of a [`PlanSlot`].
#[derive(Default)]
pub(super) struct StoredPlan(Mutex<Option<Box<Plan<'static>>>>);

impl StoredPlan {
    fn lock(&self) -> MutexGuard<'_, Option<Box<Plan<'static>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a plan; returns the plan that was stored before.
    pub(super) fn put(&self, plan: Box<Plan<'static>>) -> Option<Box<Plan<'static>>> {
        self.lock().replace(plan)
    }

    pub(super) fn take(&self) -> Option<Box<Plan<'static>>> {
        self.lock().take()
    }
}

/// Graphs may be nested a hundred thousand deep. So they are dropped in a loop and not by
/// recursion, which would overflow the stack.
impl Drop for StoredPlan {
    fn drop(&mut self) {
        let plan = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut plans: Vec<_> = plan.take().into_iter().collect();
        while let Some(plan) = plans.pop() {
            let inner_plans = plan.parts.inner_plans.all();
            plans.extend(inner_plans.iter().filter_map(|(_, slot)| slot.take()));
            // If a destructor of the user's panics, the list drops the plans that are left, each in
            // the same way.
            drop(plan);
        }
    }
}

impl Deref for PlanSlot {
    type Target = StoredPlan;

    #[inline(always)]
    fn deref(&self) -> &StoredPlan {
        &self.0
    }
}

/// The result of the check. The instances of a template share its lists.
#[derive(Default)]
pub(super) struct Shape {
    /// The number of tasks.
    pub(super) tasks: usize,
    /// The successors of all tasks, without the last one of each task, one task after the other.
    pub(super) successor_list: SharedList<Edge>,
    /// The tasks without predecessors.
    pub(super) sources: SharedList<u32>,
    /// Whether some task waits for more than one predecessor.
    pub(super) has_joins: bool,
    /// Set if one worker would finish the tasks sooner than several.
    pub(super) sequential_hint: Option<SequentialHint>,
    /// Whether tasks are released in other ways than by all their predecessors: there are
    /// conditions, or tasks that runtimes may schedule. Then tasks are claimed.
    pub(super) has_conditions: bool,
    /// Whether the plan has anything but closures that are called once a run.
    pub(super) is_special: bool,
    /// The tasks that runtimes may schedule, in ascending order, and the number by which their
    /// handles know the graph.
    pub(super) schedulable: SharedList<u32>,
    pub(super) graph: u64,
    /// The recorder, while runs are recorded. Such a plan is special.
    pub(super) recorder: Option<Arc<RunRecorder>>,
    pub(super) unreachable: SharedList<u32>,
    /// Set if an order of the tasks is given. Such a plan is special.
    pub(super) ranks: Option<Arc<TaskRanks>>,
    /// The semaphores of the tasks that have some, sorted by the tasks' numbers.
    pub(super) needs: SharedList<(u32, Wants)>,
}

impl Shape {
    /// Makes it that of an empty graph, and keeps the memory of its lists.
    fn clear(&mut self) {
        let Self {
            tasks,
            successor_list,
            sources,
            has_joins,
            sequential_hint,
            has_conditions,
            is_special,
            schedulable,
            graph,
            recorder,
            unreachable,
            ranks,
            needs,
        } = self;
        *tasks = 0;
        successor_list.clear();
        sources.clear();
        unreachable.clear();
        schedulable.clear();
        *graph = 0;
        needs.clear();
        (*recorder, *ranks) = (None, None);
        (*has_joins, *has_conditions, *is_special) = (false, false, false);
        *sequential_hint = None;
    }

    /// Makes the lists shared, and returns another share of them.
    pub(super) fn share(&mut self) -> Self {
        Self {
            successor_list: self.successor_list.share(),
            sources: self.sources.share(),
            unreachable: self.unreachable.share(),
            schedulable: self.schedulable.share(),
            needs: self.needs.share(),
            recorder: self.recorder.clone(),
            ranks: self.ranks.clone(),
            ..*self
        }
    }

    /// Returns another share of lists that are shared; a copy of others.
    pub(super) fn copy(&self) -> Self {
        Self {
            successor_list: self.successor_list.copy(),
            sources: self.sources.copy(),
            unreachable: self.unreachable.copy(),
            schedulable: self.schedulable.copy(),
            needs: self.needs.copy(),
            recorder: self.recorder.clone(),
            ranks: self.ranks.clone(),
            ..*self
        }
    }
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
    /// Returns a plan that has not been checked.
    pub(super) fn unchecked(parts: PartsBox) -> Self {
        Self::new(parts, Shape::default(), Vec::new())
    }

    pub(super) fn new(parts: PartsBox, shape: Shape, join_counters: Vec<JoinCounter>) -> Self {
        Self {
            parts,
            blocks: SourceBlocks::new(shape.sources.len()),
            shape,
            join_counters,
            has_sequence: false,
            _env: Env::new(),
        }
    }

    /// Frees the memory that only building needs.
    pub(super) fn shrink(&mut self) {
        memory::free(mem::take(&mut self.parts.edges));
        if let Some(rare) = self.parts.rare.get_mut() {
            rare.neighbours = None;
        }
        memory::shrink(&mut self.parts.nodes);
        self.shape.sources.shrink();
        self.shape.successor_list.shrink();
    }

    /// Whether there is room for at most this number of tasks, edges and names.
    pub(super) fn is_small(&self, len: usize) -> bool {
        (!self.parts.has_begun() || self.parts.are_small(len))
            && self.shape.successor_list.len() <= len
    }

    /// Removes all tasks, and keeps the memory for the next graph. Drops the closures, which is the
    /// user's code.
    pub(super) fn clear(&mut self) {
        if self.parts.has_begun() {
            self.parts.clear();
        }
        if !self.has_sequence {
            self.join_counters.clear();
            self.shape.clear();
        }
    }

    /// Makes the shape of a plan without tasks that of an empty graph, before a check that expects
    /// it.
    pub(super) fn forget_sequence(&mut self) {
        if mem::take(&mut self.has_sequence) {
            self.shape.clear();
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
        self.parts.len()
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
            has_sequence: self.has_sequence,
            _env: Env::new(),
        }
    }

    /// Whether strands of the plan need the checks that few need: it has semaphores, a recorder or
    /// an order of its tasks.
    #[inline(always)]
    pub(super) fn has_rare_parts(&self) -> bool {
        let Shape {
            needs,
            recorder,
            ranks,
            ..
        } = &self.shape;
        !needs.is_empty() || recorder.is_some() || ranks.is_some()
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
    /// partly counted down, and so does one in which a task has failed.
    pub(super) fn reset_after_run(&mut self, outcome: &mut RunOutcome) {
        if outcome.skipped.has_own() {
            outcome.skipped.set_names(self.parts.names.share());
        }
        if outcome.stopped || outcome.has_failed() {
            self.reset();
        } else {
            self.reset_after_success();
        }
    }

    /// The same for a run that has succeeded. It leaves such counters behind if a condition has
    /// skipped the other predecessors of a task.
    pub(super) fn reset_after_success(&mut self) {
        if self.shape.has_conditions {
            self.reset();
        }
    }

    /// Resets the counters and claims.
    fn reset(&mut self) {
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
    #[doc(alias("ObserverInterface", "TFProfObserver"))]
    pub fn record(&mut self, on: bool) {
        let special = self.parts.nodes.iter().any(|node| node.kind.is_special());
        let ordered = self.shape.ranks.is_some();
        self.shape.is_special = on || special || ordered || !self.shape.needs.is_empty();
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
            Some(recorder) => {
                let all = 1..self.parts.nodes.len() as u32;
                let tasks = all.filter(|&index| !self.parts.is_removed(index)).collect();
                recorder.timeline(tasks, name, self.edges())
            }
            None => Timeline::new(0, [], []),
        }
    }
}

impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("tasks", &self.len()).finish()
    }
}
