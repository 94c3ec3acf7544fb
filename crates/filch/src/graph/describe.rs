//! Graphs as plain data: what a drawing, a report or a test needs.

use super::{
    build::Graph,
    node::TaskKind,
    plan::{GraphParts, Plan, PlanSlot},
};
use std::collections::{HashMap, VecDeque};

/// A graph as plain data, from [`Graph::describe`] or [`Plan::describe`]. The crate `filch-draw`
/// draws it.
///
/// All graphs inside tasks are part of the same lists, so a description is as flat for a graph
/// that is nested a hundred thousand deep as for any other.
///
/// ```
/// use filch::{Graph, graph::TaskKind};
///
/// let wash = Graph::new();
/// wash.linearize([wash.task("soap", || ()), wash.task("rinse", || ())]);
/// let day = Graph::new();
/// day.task("eat", || ()).precede(day.module("dishes", wash.plan()?));
///
/// let day = day.describe();
/// let names: Vec<_> = day.tasks.iter().map(|task| &task.name[..]).collect();
/// assert_eq!(names, ["eat", "dishes", "soap", "rinse"]);
/// assert_eq!(day.tasks[1].kind, TaskKind::Module);
/// assert_eq!(day.tasks[2].inside, Some(1));
/// assert_eq!(day.edges, [(0, 1), (2, 3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The tasks of the graph, then those of the graphs inside them. A task stands before the
    /// tasks that are inside it.
    pub tasks: Vec<DescribedTask>,
    /// Positions in `tasks`: the second task is a successor of the first one.
    pub edges: Vec<(usize, usize)>,
    /// The semaphores of the tasks.
    pub limits: Vec<DescribedLimit>,
}

/// A task of a [`Description`].
///
/// ```
/// let graph = filch::Graph::new();
/// graph.task("work", || ());
/// let task = &graph.describe().tasks[0];
/// assert_eq!((&task.name[..], task.inside), ("work", None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedTask {
    /// The name of the task, or its number in its graph.
    pub name: String,
    /// What the task does.
    pub kind: TaskKind,
    /// The task whose graph this task belongs to, as a position in [`Description::tasks`]; `None`
    /// for the outermost graph.
    pub inside: Option<usize>,
}

/// A semaphore of a [`Description`].
///
/// ```
/// use filch::{Graph, Semaphore};
///
/// let (graph, tools) = (Graph::new(), Semaphore::new(2));
/// graph.task("saw", || ()).acquire([&tools]);
/// let limit = &graph.describe().limits[0];
/// assert_eq!((limit.permits, &limit.tasks[..]), (2, &[0][..]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedLimit {
    /// How many of the tasks may run at the same time, if each needs one permit.
    pub permits: u64,
    /// The tasks that need it, as positions in [`Description::tasks`], in ascending order.
    pub tasks: Vec<usize>,
}

impl Description {
    fn new(parts: &GraphParts, edges: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut describer = Describer::default();
        describer.add(parts, edges, None);
        // A queue and not a recursion, which would overflow the stack.
        while let Some((task, slot)) = describer.inner.pop_front() {
            // No other thread uses the inner plan: a graph or plan that is borrowed does not run.
            if let Some(plan) = slot.take() {
                describer.add(&plan.parts, plan.edges(), Some(task));
                slot.put(plan);
            }
        }
        let mut description = describer.description;
        for limit in &mut description.limits {
            limit.tasks.sort_unstable();
            limit.tasks.dedup();
        }
        description
    }
}

/// A description under construction.
#[derive(Default)]
struct Describer {
    description: Description,
    /// The graphs that are still to be described, with the tasks that contain them.
    inner: VecDeque<(usize, PlanSlot)>,
    /// Positions in the list of limits, by the identities of the semaphores.
    limits: HashMap<u64, usize>,
}

impl Describer {
    /// Adds a graph with these edges between its tasks' numbers.
    fn add(
        &mut self,
        parts: &GraphParts,
        edges: impl Iterator<Item = (u32, u32)>,
        inside: Option<usize>,
    ) {
        let Description {
            tasks,
            edges: all_edges,
            limits,
        } = &mut self.description;
        let first = tasks.len();
        // The first record is no task.
        let removed_before = |index: u32| parts.rare.removed.partition_point(|task| *task < index);
        let position = |index: u32| first + index as usize - 1 - removed_before(index);
        tasks.extend(
            (1..)
                .zip(&parts.nodes[1..])
                .filter(|(index, _)| !parts.is_removed(*index))
                .map(|(index, node)| DescribedTask {
                    name: parts.names.of(index),
                    kind: node.kind,
                    inside,
                }),
        );
        all_edges.extend(edges.map(|(from, to)| (position(from), position(to))));
        for (task, semaphore, _) in &parts.rare.semaphores {
            let limit = *self.limits.entry(semaphore.number()).or_insert_with(|| {
                let (permits, tasks) = (semaphore.capacity(), Vec::new());
                limits.push(DescribedLimit { permits, tasks });
                limits.len() - 1
            });
            limits[limit].tasks.push(position(*task));
        }
        let inner = parts.inner_plans.all().into_iter();
        self.inner
            .extend(inner.map(|(task, inner)| (position(task), inner)));
    }
}

impl Graph<'_> {
    /// Returns the graph as plain data. Modules, and subflows that were retained, are described
    /// with the graphs inside them.
    ///
    /// ```
    /// use filch::{Graph, graph::TaskKind};
    ///
    /// let graph = Graph::new();
    /// let work = graph.task("work", || ());
    /// let again = graph.condition("again?", || 1);
    /// work.precede(again);
    /// again.precede(work);
    /// let description = graph.describe();
    /// assert_eq!(description.tasks[1].kind, TaskKind::Condition);
    /// assert_eq!(description.edges, [(0, 1), (1, 0)]);
    /// ```
    #[doc(alias = "dump")]
    #[must_use]
    pub fn describe(&self) -> Description {
        let parts = self.parts();
        Description::new(&parts, parts.edges.iter().copied())
    }
}

impl Plan<'_> {
    /// Returns the graph as plain data, as [`Graph::describe`] does.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.linearize([graph.task("first", || ()), graph.task("second", || ())]);
    /// let description = graph.describe();
    /// assert_eq!(graph.plan()?.describe(), description);
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> Description {
        Description::new(&self.parts, self.edges())
    }
}
