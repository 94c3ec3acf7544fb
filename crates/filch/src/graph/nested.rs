//! Graphs inside tasks: subflows, which a task builds while it runs, and modules, which exist
//! before.

use super::{
    build::{Graph, Task},
    context::TaskContext,
    error::{GraphError, RunOutcome, TaskFault},
    node::{Release, TaskKind},
    plan::{Plan, PlanSlot},
    start::run_inside,
};
use crate::base::unwind;
use std::{borrow::Cow, cell::Cell, fmt, ops::Deref};

/// A graph that a task builds while it runs: a [`Graph`] with two options.
///
/// Made by [`Graph::subflow`].
pub struct Subflow<'env> {
    graph: Graph<'env>,
    detached: Cell<bool>,
    retained: Cell<bool>,
}

impl Subflow<'_> {
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
    /// occupied by the wait.
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
        mut build: impl FnMut(&Subflow<'env>) + Send + 'env,
    ) -> Task<'_, 'env> {
        let name = name.into();
        let task = self.add(name.clone());
        let name = task.name();
        let slot = PlanSlot::default();
        self.parts().inner_plans.push((task.index(), slot.clone()));
        self.set(task.index(), TaskKind::Subflow, move |cx| {
            let old = slot.take();
            drop(old);
            let flow = Subflow {
                graph: Graph::new(),
                detached: Cell::new(false),
                retained: Cell::new(false),
            };
            build(&flow);
            let joined = !flow.detached.get();
            let slot = flow.retained.get().then(|| slot.clone());
            match flow.graph.plan() {
                Ok(plan) => run_inside(cx, plan, joined, name.clone(), slot),
                Err(error) => fail(cx, &name, error),
            }
        });
        task
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
    pub fn module(&self, name: impl Into<Cow<'static, str>>, plan: Plan<'env>) -> Task<'_, 'env> {
        let task = self.add(name.into());
        let name = task.name();
        let slot = PlanSlot::default();
        // The plan borrows what outlives this graph, which it becomes a part of.
        slot.put(plan.forget_env());
        self.parts().inner_plans.push((task.index(), slot.clone()));
        self.set(task.index(), TaskKind::Module, move |cx| {
            let plan = slot.take().expect("a module is not run twice at once");
            run_inside(cx, plan, true, name.clone(), Some(slot.clone()))
        });
        task
    }
}

/// Fails the run, because the graph that a subflow has built is invalid.
fn fail(cx: &TaskContext<'_, '_, '_>, name: &str, error: GraphError) -> Release {
    let outcome = RunOutcome {
        faults: vec![(name.to_owned(), TaskFault::Graph(error))],
        ..RunOutcome::default()
    };
    cx.run.record_invalid_graph(outcome);
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
        let inner_plans = &self.parts.inner_plans;
        let (_, slot) = inner_plans.iter().rev().find(|(index, _)| *index == task)?;
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
