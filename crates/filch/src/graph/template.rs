//! Templates: one graph for many sets of data.

use super::{
    build::{Graph, Task},
    edges::Successors,
    error::GraphError,
    join_counter::JoinCounter,
    names::Names,
    node::{Release, TaskKind, TaskNode},
    plan::{GraphParts, Plan, Shape, TaskOrder},
};
use crate::{base::sys::memory, semaphore::Semaphore};
use std::{borrow::Cow, cell::RefCell, fmt, sync::Arc};

type Work<'env, D> = Arc<dyn Fn(&D) -> Release + Send + Sync + 'env>;

/// A [`Template`] under construction: like a [`Graph`], but its tasks receive the data of the
/// instance that they run for.
pub struct TemplateGraph<'env, D> {
    graph: Graph<'env>,
    /// The kinds and closures of the tasks, in their order. [`Task::work`] changes only what the
    /// graph has.
    works: RefCell<Vec<(TaskKind, Work<'env, D>)>>,
}

impl<'env, D: Send + Sync + 'env> TemplateGraph<'env, D> {
    /// Creates an empty template.
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    ///
    /// let graph = TemplateGraph::<u32>::new();
    /// graph.task("print", |number| println!("{number}"));
    /// assert_eq!(graph.template()?.len(), 1);
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self {
            graph: Graph::new(),
            works: RefCell::default(),
        }
    }

    fn add(&self, name: Cow<'static, str>, kind: TaskKind, work: Work<'env, D>) -> Task<'_, 'env> {
        let task = self.graph.add(name);
        self.works.borrow_mut().push((kind, work));
        self.graph.set(task.index(), kind, |_| Release::All);
        task
    }

    /// Adds a task. ([`Task::work`] and [`Task::choose`] have no effect on it.)
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    ///
    /// let graph = TemplateGraph::new();
    /// graph.task("count", |hits: &AtomicU32| { hits.fetch_add(1, Ordering::Relaxed); });
    /// let hits = Arc::new(AtomicU32::new(0));
    /// graph.template()?.instance(hits.clone()).run_n(3)?;
    /// assert_eq!(hits.load(Ordering::Relaxed), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn task(
        &self,
        name: impl Into<Cow<'static, str>>,
        work: impl Fn(&D) + Send + Sync + 'env,
    ) -> Task<'_, 'env> {
        let work = move |data: &D| {
            work(data);
            Release::All
        };
        self.add(name.into(), TaskKind::Plain, Arc::new(work))
    }

    /// Adds a [`condition`](Graph::condition).
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let graph = TemplateGraph::new();
    /// let start = graph.task("start", |_| ());
    /// let again = graph.condition("again?", |laps: &AtomicU32| {
    ///     usize::from(laps.fetch_sub(1, Ordering::Relaxed) == 1)
    /// });
    /// start.precede(again);
    /// again.precede([again, graph.task("end", |_| ())]);
    /// let report = graph.template()?.instance(AtomicU32::new(5)).run()?;
    /// assert_eq!(report.ran(), 1 + 5 + 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn condition(
        &self,
        name: impl Into<Cow<'static, str>>,
        choose: impl Fn(&D) -> usize + Send + Sync + 'env,
    ) -> Task<'_, 'env> {
        let choose = move |data: &D| Release::One(choose(data));
        self.add(name.into(), TaskKind::Condition, Arc::new(choose))
    }

    /// Checks the graph, and returns the template.
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    ///
    /// let graph = TemplateGraph::<()>::new();
    /// let (first, second) = (graph.task("first", |_| ()), graph.task("second", |_| ()));
    /// first.precede(second);
    /// second.precede(first);
    /// assert_eq!(graph.template().unwrap_err().cycle_tasks(), ["first", "second"]);
    /// ```
    ///
    /// # Errors
    /// As [`Graph::plan`].
    pub fn template(self) -> Result<Template<'env, D>, GraphError> {
        let (kinds, works): (Vec<TaskKind>, _) = self.works.into_inner().into_iter().unzip();
        // The first record is no task.
        for (node, kind) in self.graph.parts().nodes[1..].iter_mut().zip(kinds) {
            node.kind = kind;
        }
        let mut plan = self.graph.plan()?;
        let records = plan.parts.nodes.iter();
        Ok(Template {
            works,
            records: records
                .map(|node| (node.successors, node.strong_predecessors(), node.kind))
                .collect(),
            names: plan.parts.names.share(),
            semaphores: std::mem::take(&mut plan.parts.semaphores),
            order: std::mem::take(&mut plan.parts.order),
            shape: plan.shape.clone(),
        })
    }
}

impl<'env, D: Send + Sync + 'env> Default for TemplateGraph<'env, D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D> fmt::Debug for TemplateGraph<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemplateGraph")
            .field("tasks", &self.graph.len())
            .finish()
    }
}

/// A graph that can be run for several sets of data at the same time.
///
/// Its tasks are shared; an [instance](Self::instance) is a [`Plan`] with its own counters and
/// data. An instance can be run, launched, and used as a [module](Graph::module) of another graph:
/// then the data are its parameters.
///
/// ```
/// use filch::graph::TemplateGraph;
/// use std::sync::{Arc, Mutex};
///
/// let graph = TemplateGraph::new();
/// let double = graph.task("double", |n: &Mutex<i32>| *n.lock().unwrap() *= 2);
/// let add = graph.task("add", |n: &Mutex<i32>| *n.lock().unwrap() += 1);
/// double.precede(add);
/// let template = graph.template()?;
///
/// let (a, b) = (Arc::new(Mutex::new(3)), Arc::new(Mutex::new(5)));
/// let (mut first, mut second) = (template.instance(a.clone()), template.instance(b.clone()));
/// filch::join(|| first.run().unwrap(), || second.run().unwrap());
/// assert_eq!((*a.lock().unwrap(), *b.lock().unwrap()), (7, 11));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Template<'env, D> {
    works: Vec<Work<'env, D>>,
    /// For each record: its successors, its number of predecessors, and its kind.
    records: Vec<(Successors, u32, TaskKind)>,
    names: Names,
    /// The semaphores and the order of the tasks. The shape contains them in its own form, but
    /// [`Plan::edit`] needs the original ones.
    semaphores: Vec<(u32, Semaphore, u64)>,
    order: TaskOrder,
    shape: Shape,
}

impl<'env, D: Send + Sync + 'env> Template<'env, D> {
    /// Creates a plan that runs for `data`.
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    ///
    /// let graph = TemplateGraph::new();
    /// graph.task("check", |range: &std::ops::Range<u32>| assert!(range.start < range.end));
    /// let template = graph.template()?;
    /// for end in 1..4 {
    ///     template.instance(0..end).run()?; // the graph is checked once, the data differ
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn instance(&self, data: impl Into<Arc<D>>) -> Plan<'env> {
        let data = data.into();
        let mut nodes = Vec::with_capacity(self.records.len());
        memory::prefer_large(&nodes);
        for (index, &(successors, strong_predecessors, kind)) in (0..).zip(&self.records) {
            let mut node = TaskNode::empty(index);
            node.kind = kind;
            node.successors = successors;
            node.set_strong_predecessors(strong_predecessors);
            // The first record is no task.
            if let Some(number) = (index as usize).checked_sub(1) {
                let (work, data) = (self.works[number].clone(), data.clone());
                node.set(move |_| work(&data));
            }
            nodes.push(node);
        }
        let parts = GraphParts {
            nodes,
            names: self.names.clone(),
            semaphores: self.semaphores.clone(),
            order: self.order.clone(),
            ..GraphParts::default()
        };
        let counted = if self.shape.has_joins {
            &self.records[..]
        } else {
            &[]
        };
        let join_counters = counted
            .iter()
            .map(|&(_, strong_predecessors, _)| JoinCounter::new(strong_predecessors));
        Plan::new(parts, self.shape.clone(), join_counters.collect())
    }

    /// Returns the number of tasks of an instance.
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    ///
    /// let graph = TemplateGraph::<()>::new();
    /// graph.task("first", |_| ()).precede(graph.task("second", |_| ()));
    /// let template = graph.template()?;
    /// assert_eq!(template.len(), template.instance(()).len());
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.works.len()
    }

    /// Whether there are no tasks.
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    ///
    /// assert!(TemplateGraph::<()>::new().template()?.is_empty());
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.works.is_empty()
    }
}

impl<D> fmt::Debug for Template<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template")
            .field("tasks", &self.works.len())
            .finish()
    }
}
