//! Graphs inside tasks: subflows, which a task builds while it runs, and modules, which exist
//! before.
#![expect(unsafe_code, reason = "a subflow points to the run of its task")]

use super::{
    build::{Graph, Task},
    context::{AfterReturn, TaskContext},
    error::TaskFault,
    heap_run::{self, Inside, store},
    node::{Release, TaskKind},
    plan::{PartsBox, Plan, PlanSlot, StoredPlan},
    running_task::RunningTask,
    spare, spare_parts,
    start::forget_values,
    task_time::TaskEnding,
};
use crate::base::unwind;
use std::{borrow::Cow, cell::Cell, fmt, mem::ManuallyDrop, ops::Deref};

/// A graph that a task builds while it runs: a [`Graph`] with two options, which can be run before
/// the task's closure returns.
///
/// Made by [`Graph::subflow`].
pub struct Subflow<'env> {
    /// Dropped when the subflow is, unless it has no memory.
    graph: ManuallyDrop<Graph<'env>>,
    pub(super) task: RunningTask,
    /// Whether a join did not finish.
    pub(super) failed: Cell<bool>,
    detached: Cell<bool>,
    retained: Cell<bool>,
}

impl Subflow<'_> {
    /// Creates an empty subflow of a task.
    #[inline(always)]
    fn new(task: RunningTask) -> Self {
        Self {
            graph: ManuallyDrop::new(Graph::from_parts(PartsBox::default())),
            task,
            failed: Cell::new(false),
            detached: Cell::new(false),
            retained: Cell::new(false),
        }
    }

    /// Whether nothing was added, joined or retained.
    #[inline(always)]
    fn is_unused(&self) -> bool {
        !self.parts_box().has_begun() && !self.failed.get() && !self.retained.get()
    }

    /// Takes what has been added, as a plan that has not been checked.
    #[inline]
    pub(super) fn take_plan(&self) -> Box<Plan<'static>> {
        // It may have no task.
        drop(self.parts());
        spare_parts::take_plan(&mut self.parts_box())
    }

    /// Detaches the subflow: the successors of the task do not wait for it; only the whole run
    /// does.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// let logged = AtomicBool::new(false);
    /// let graph = filch::Graph::new();
    /// let work = graph.subflow("work", |sub| {
    ///     sub.task("log", || logged.store(true, Ordering::Relaxed));
    ///     sub.detach(); // "next" does not wait for the log
    /// });
    /// work.precede(graph.task("next", || ()));
    /// graph.plan()?.run()?;
    /// assert!(logged.load(Ordering::Relaxed)); // the run does
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detach(&self) {
        self.detached.set(true);
    }

    /// Keeps the subflow until the task runs again, for [`Plan::with_inner`], instead of dropping
    /// it when it is done.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let parts = graph.subflow("parts", |sub| {
    ///     (0..3).for_each(|n| { sub.task(format!("part {n}"), || ()); });
    ///     sub.retain();
    /// });
    /// let number = parts.index();
    /// let mut plan = graph.plan()?;
    /// plan.run()?;
    /// assert_eq!(plan.with_inner(number, |inner| inner.len()), Some(3)); // still there
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retain(&self) {
        self.retained.set(true);
    }
}

impl Drop for Subflow<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.parts_box().has_begun() {
            // SAFETY: the graph is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.graph) };
        }
    }
}

impl<'env> Deref for Subflow<'env> {
    type Target = Graph<'env>;

    fn deref(&self) -> &Graph<'env> {
        &self.graph
    }
}

impl fmt::Debug for Subflow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subflow")
            .field("tasks", &self.graph.len())
            .field("detached", &self.detached.get())
            .field("retained", &self.retained.get())
            .finish()
    }
}

impl<'env> Graph<'env> {
    /// Adds a task that builds a graph while it runs. The graph runs when `build` returns, and the
    /// task's successors wait for it, unless it is [detached](Subflow::detach). No worker is
    /// occupied by the wait. With [`Subflow::join`] it runs, or a part of it, before that.
    ///
    /// ```
    /// use filch::Graph;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let sum = AtomicU32::new(0);
    /// let graph = Graph::new();
    /// let parts = graph.subflow("parts", |sub| {
    ///     for n in 1..=4 {
    ///         sub.task("part", || { sum.fetch_add(1, Ordering::Relaxed); });
    ///     }
    /// });
    /// parts.precede(graph.task("whole", || assert_eq!(sum.load(Ordering::Relaxed), 4)));
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If the graph cannot be run, the whole run fails with that error. Panics inside are reported
    /// with both names: `parts/part`.
    pub fn subflow(
        &self,
        name: impl Into<Cow<'static, str>>,
        build: impl FnMut(&Subflow<'env>) + Send + 'env,
    ) -> Task<'_, 'env> {
        self.add_with(name.into(), TaskKind::Subflow, subflow_task(build))
    }

    /// Makes a task a [`subflow`](Self::subflow).
    pub(super) fn set_subflow(
        &self,
        task: Task<'_, 'env>,
        build: impl FnMut(&Subflow<'env>) + Send + 'env,
    ) {
        self.set(task.index(), TaskKind::Subflow, subflow_task(build));
    }

    /// Adds a task that is a whole graph: its sources run when the task's predecessors are done,
    /// and the task's successors wait for all of it. No worker is occupied by the wait.
    ///
    /// A plan can be a module once. To use the same graph several times, with different data,
    /// create it from a [`Template`](super::Template).
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let wash = Graph::new();
    /// wash.linearize([wash.task("soap", || ()), wash.task("rinse", || ())]);
    ///
    /// let day = Graph::new();
    /// let dishes = day.module("dishes", wash.plan()?);
    /// dishes.succeed(day.task("eat", || ()));
    /// assert_eq!(day.plan()?.run()?.ran(), 4); // the module counts as well
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "composed_of")]
    pub fn module(&self, name: impl Into<Cow<'static, str>>, plan: Plan<'env>) -> Task<'_, 'env> {
        let (slot, run) = module_task(plan);
        let task = self.add_with(name.into(), TaskKind::Module, run);
        self.parts().inner_plans.push(task.index(), slot);
        task
    }

    /// Makes a task a [`module`](Self::module).
    pub(super) fn set_module(&self, task: Task<'_, 'env>, plan: Plan<'env>) {
        let (slot, run) = module_task(plan);
        self.set(task.index(), TaskKind::Module, run);
        self.parts().inner_plans.push(task.index(), slot);
    }
}

/// Returns the closure of a task that builds a graph and runs it.
fn subflow_task<'env>(
    mut build: impl FnMut(&Subflow<'env>) + Send + 'env,
) -> impl FnMut(&TaskContext<'_, '_, '_>) -> Release + Send + 'env {
    // Where the subflow is stored, once it has been retained.
    let mut slot: Option<PlanSlot> = None;
    move |cx| {
        if let Some(slot) = &slot {
            drop(slot.take());
        }
        // SAFETY: the subflow is in the frame of this closure, which is the task.
        let task = unsafe { RunningTask::new(cx.run, cx.index()) };
        let flow = Subflow::new(task);
        build(&flow);
        if flow.is_unused() {
            // As in the leaves of a recursion: there is nothing to check or run.
            return Release::All;
        }
        run_subflow(cx, &flow, &mut slot)
    }
}

/// Runs the graph that a subflow has become when its closure returns.
#[inline(never)]
fn run_subflow(
    cx: &TaskContext<'_, '_, '_>,
    flow: &Subflow<'_>,
    slot: &mut Option<PlanSlot>,
) -> Release {
    let mut plan = flow.take_plan();
    if flow.failed.get() {
        cx.run.record_ending(cx.index(), TaskEnding::Cancelled);
        cx.run.mark_skipped(cx.index());
        store(None, plan, cx.context);
        return Release::Failed;
    }
    plan.parts.forget_joined_edges();
    if let Err(error) = spare::check(&mut plan) {
        cx.run.record_fault(cx.index(), TaskFault::Graph(error));
        return Release::Failed;
    }
    if flow.retained.get() && slot.is_none() {
        let new = slot.insert(PlanSlot::default());
        cx.run.inner_plans.push(cx.index(), new.clone());
    }
    let slot = slot.as_deref().filter(|_| flow.retained.get());
    let inside = match flow.detached.get() {
        true => Inside::Detached,
        false => Inside::Joined,
    };
    run_inside(cx, plan, inside, slot)
}

/// Returns the closure of a task that runs `plan`, and where the plan is stored between runs.
fn module_task<'env>(
    plan: Plan<'env>,
) -> (
    PlanSlot,
    impl FnMut(&TaskContext<'_, '_, '_>) -> Release + Send + 'env,
) {
    let slot = PlanSlot::default();
    // The plan borrows what outlives the graph, which it becomes a part of.
    slot.put(Box::new(plan.forget_env()));
    let stored = slot.clone();
    let run = move |cx: &TaskContext<'_, '_, '_>| {
        let plan = stored.take().expect("a module is not run twice at once");
        run_inside(cx, plan, Inside::Joined, Some(&stored))
    };
    (slot, run)
}

/// Runs `plan` inside the running task. Unless it is detached, the task is done when the plan is
/// done. Afterwards the plan is stored in `slot`, which the closure of the task has a share of, or
/// dropped.
pub(super) fn run_inside(
    cx: &TaskContext<'_, '_, '_>,
    plan: Box<Plan<'static>>,
    inside: Inside,
    slot: Option<&StoredPlan>,
) -> Release {
    if plan.is_empty() {
        store(slot, plan, cx.context);
        return Release::All;
    }
    forget_values(&plan, cx.context.pool());
    let inner = heap_run::prepare_inside(cx.run, cx.index(), plan, inside, slot);
    if inside != Inside::Detached {
        cx.after_return(AfterReturn::Start(inner));
        return Release::Deferred;
    }
    cx.run.add_pending(cx.context);
    heap_run::start(inner, Some(cx.context));
    Release::All
}

impl Plan<'_> {
    /// Calls `f` with the graph inside a task, by the task's number: that of a module, or a
    /// subflow that was [retained](Subflow::retain) in the last run.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let graph = Graph::new();
    /// let task = graph.subflow("sub", |sub| {
    ///     sub.task("a", || ());
    ///     sub.retain();
    /// });
    /// let number = task.index();
    /// let mut plan = graph.plan()?;
    /// assert_eq!(plan.with_inner(number, |inner| inner.len()), None);
    /// plan.run()?;
    /// assert_eq!(plan.with_inner(number, |inner| inner.len()), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_inner<R>(&self, task: u32, f: impl FnOnce(&Plan<'_>) -> R) -> Option<R> {
        let slot = self.parts.inner_plans.get(task)?;
        // Taken out, so that the lock is not held: `f` is user code. No other thread uses it,
        // because the plan does not run.
        let plan = slot.take()?;
        let result = unwind::contain(|| f(&plan));
        slot.put(plan);
        match result {
            Ok(result) => Some(result),
            Err(payload) => unwind::resume(payload),
        }
    }
}
