//! Templates: one graph for many sets of data.

use super::{
    build::{Graph, Task},
    context::TaskContext,
    edges::Successors,
    error::GraphError,
    join_counter::JoinCounter,
    names::Names,
    node::{Release, TaskKind, TaskNode},
    plan::{GraphParts, PartsBox, Plan, Shape},
    rare_parts::{RareParts, TaskOrder},
    values::Values,
};
use crate::{base::sys::memory, semaphore::Semaphore};
use std::{borrow::Cow, cell::RefCell, error::Error, fmt, sync::Arc};

/// A closure that all instances share.
type SharedWork<'env, D> =
    Arc<dyn Fn(&Arc<D>, &TaskContext<'_, '_, '_>) -> Release + Send + Sync + 'env>;

/// Sets the work of a task of an instance.
type BuildWork<'env, D> = Box<dyn Fn(&Arc<D>, Task<'_, 'env>) + Send + Sync + 'env>;

/// The work of a task of a template.
enum TemplateWork<'env, D> {
    Shared(SharedWork<'env, D>),
    /// The task has state of its own in each instance.
    Built(BuildWork<'env, D>),
}

/// A [`Template`] under construction: like a [`Graph`], but its tasks receive the data of the
/// instance that they run for.
pub struct TemplateGraph<'env, D> {
    pub(super) graph: Graph<'env>,
    /// The closures of the tasks, in their order.
    works: RefCell<Vec<TemplateWork<'env, D>>>,
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
            graph: Graph::of_template(),
            works: RefCell::default(),
        }
    }

    pub(super) fn add<F>(&self, name: Cow<'static, str>, kind: TaskKind, work: F) -> Task<'_, 'env>
    where
        F: Fn(&Arc<D>, &TaskContext<'_, '_, '_>) -> Release + Send + Sync + 'env,
    {
        self.add_work(name, kind, TemplateWork::Shared(Arc::new(work)))
    }

    /// Adds a task whose work `build` sets in each instance.
    pub(super) fn add_built<F>(
        &self,
        name: Cow<'static, str>,
        kind: TaskKind,
        build: F,
    ) -> Task<'_, 'env>
    where
        F: Fn(&Arc<D>, Task<'_, 'env>) + Send + Sync + 'env,
    {
        self.add_work(name, kind, TemplateWork::Built(Box::new(build)))
    }

    fn add_work(
        &self,
        name: Cow<'static, str>,
        kind: TaskKind,
        work: TemplateWork<'env, D>,
    ) -> Task<'_, 'env> {
        let task = self.graph.add(name);
        self.works.borrow_mut().push(work);
        self.graph.set(task.index(), kind, |_| Release::All);
        task
    }

    /// Adds a task. Its work cannot be replaced: [`Task::work`] and [`Task::choose`] panic.
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
        self.add(name.into(), TaskKind::Plain, move |data, _| {
            work(data);
            Release::All
        })
    }

    /// Adds a task that may return an error: see [`Graph::try_task`].
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    ///
    /// let graph = TemplateGraph::new();
    /// graph.try_task("parse", |text: &String| text.parse::<u32>());
    /// let template = graph.template()?;
    /// assert!(template.instance("12".to_owned()).run().is_ok());
    /// let error = template.instance("12x".to_owned()).run().unwrap_err();
    /// assert_eq!(error.to_string(), "parse failed: invalid digit found in string");
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    pub fn try_task<T, E>(
        &self,
        name: impl Into<Cow<'static, str>>,
        work: impl Fn(&D) -> Result<T, E> + Send + Sync + 'env,
    ) -> Task<'_, 'env>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.add(name.into(), TaskKind::Plain, move |data, cx| {
            match work(data) {
                Ok(_) => Release::All,
                Err(error) => cx.run.task_failed(cx.index(), error.into()),
            }
        })
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
        self.add(name.into(), TaskKind::Condition, move |data, _| {
            Release::One(choose(data))
        })
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
        let mut plan = self.graph.plan()?;
        let rare = plan.parts.rare.take();
        let records = plan.parts.nodes.iter();
        Ok(Template {
            works: self.works.into_inner(),
            records: records
                .map(|node| (node.successors, node.strong_predecessors(), node.kind))
                .collect(),
            names: plan.parts.names.share(),
            semaphores: rare.semaphores,
            order: rare.order,
            removed: rare.removed,
            schedulable: rare.schedulable,
            values: rare.values.graph,
            shape: plan.shape.share(),
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
    works: Vec<TemplateWork<'env, D>>,
    /// For each record: its successors, its number of predecessors, and its kind.
    records: Vec<(Successors, u32, TaskKind)>,
    names: Names,
    /// The semaphores and the order of the tasks. The shape contains them in its own form, but
    /// [`Plan::edit`] needs the original ones.
    semaphores: Vec<(u32, Semaphore, u64)>,
    order: TaskOrder,
    removed: Vec<u32>,
    schedulable: Vec<u32>,
    /// The number by which values know their graph, or zero.
    values: u64,
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
            node.successors = successors;
            node.set_strong_predecessors(strong_predecessors);
            // The first record is no task.
            if let Some(number) = (index as usize).checked_sub(1)
                && let TemplateWork::Shared(work) = &self.works[number]
            {
                node.kind = kind;
                let (work, data) = (work.clone(), data.clone());
                node.set(move |cx| work(&data, cx));
            }
            nodes.push(node);
        }
        let rare = RareParts {
            semaphores: self.semaphores.clone(),
            order: self.order.clone(),
            removed: self.removed.clone(),
            schedulable: self.schedulable.clone(),
            joined: 0,
            values: Values {
                graph: self.values,
                ..Values::default()
            },
            neighbours: None,
        };
        let parts = PartsBox::new(GraphParts {
            nodes,
            names: self.names.copy(),
            rare: rare.into(),
            ..GraphParts::default()
        });
        let parts = self.build_works(parts, &data);
        let counted = if self.shape.has_joins {
            &self.records[..]
        } else {
            &[]
        };
        let join_counters = counted
            .iter()
            .map(|&(_, strong_predecessors, _)| JoinCounter::new(strong_predecessors));
        Plan::new(parts, self.shape.copy(), join_counters.collect())
    }

    /// Sets the work, and the kind, of the tasks that have state of their own.
    fn build_works(&self, parts: PartsBox, data: &Arc<D>) -> PartsBox {
        let graph = Graph::from_parts(parts);
        for (index, work) in (1..).zip(&self.works) {
            if let TemplateWork::Built(build) = work
                && let Some(task) = graph.get(index)
            {
                build(data, task);
            }
        }
        graph.into_parts()
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
        self.shape.tasks
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
        self.shape.tasks == 0
    }
}

impl<D> fmt::Debug for Template<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template")
            .field("tasks", &self.works.len())
            .finish()
    }
}
