//! Building a graph.

use super::{
    context::TaskContext,
    edges::MAX_TASKS,
    node::{Env, Release, TaskKind, TaskNode},
    plan::{GraphParts, PartsBox, Plan},
    spare_parts,
};
use crate::base::sys::memory;
use std::{
    borrow::Cow,
    cell::{RefCell, RefMut},
    fmt, iter,
};

/// A graph of tasks under construction.
///
/// Tasks are added with closures, which may borrow everything that outlives the graph; edges define
/// which tasks must be done before others. [`plan`](Self::plan) checks the graph once and prepares
/// it to be run any number of times.
///
/// ```
/// use filch::Graph;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let eggs = AtomicU32::new(0);
/// let graph = Graph::new();
/// let buy = graph.task("buy", || eggs.store(6, Ordering::Relaxed));
/// let boil = graph.task("boil", || assert_eq!(eggs.load(Ordering::Relaxed), 6));
/// let toast = graph.task("toast", || ());
/// let eat = graph.task("eat", || ());
/// buy.precede(boil);
/// eat.succeed([boil, toast]);
///
/// let mut breakfast = graph.plan()?;
/// breakfast.run()?;
/// breakfast.run()?; // tomorrow
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Taskflow")]
pub struct Graph<'env> {
    parts: RefCell<PartsBox>,
    /// It is that of a template, whose tasks get their work in each instance.
    is_template: bool,
    /// The closures may borrow what lives as long as this lifetime.
    _env: Env<'env>,
}

impl PartsBox {
    /// Returns the parts. A subflow begins with its first task, and gets the memory of a graph that
    /// this thread has dropped.
    #[inline(always)]
    fn begun(&mut self) -> &mut GraphParts {
        self.get_or_begin(Self::begin)
    }

    #[cold]
    #[inline(never)]
    fn begin() -> Self {
        let mut parts = spare_parts::take_memory();
        parts.get_or_begin(Self::default).begin();
        parts
    }
}

impl GraphParts {
    /// Adds the first record, which is no task, if there is none.
    fn begin(&mut self) {
        if self.nodes.is_empty() {
            self.nodes.push(TaskNode::empty(0));
        }
    }

    /// Returns the number of the next task, for which there is room then.
    ///
    /// # Panics
    /// If there are too many tasks.
    #[inline(always)]
    fn next_index(&mut self) -> u32 {
        if self.nodes.len() == self.nodes.capacity() {
            self.grow();
        }
        let index = u32::try_from(self.nodes.len()).ok();
        index
            .filter(|index| *index <= MAX_TASKS)
            .expect("a graph has room for 2^31 tasks")
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.nodes.reserve(1);
        memory::prefer_large(&self.nodes);
    }
}

impl<'env> Graph<'env> {
    /// Creates an empty graph.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// assert!(graph.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty graph with capacity for `tasks` tasks.
    ///
    /// ```
    /// let graph = filch::Graph::with_capacity(1_000);
    /// let tasks: Vec<_> = (0..1_000).map(|_| graph.task("", || ())).collect();
    /// graph.linearize(tasks); // the tasks were added without growing the graph's memory
    /// assert_eq!(graph.plan()?.run()?.ran(), 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_capacity(tasks: usize) -> Self {
        let mut parts = GraphParts {
            nodes: Vec::with_capacity(tasks + 1),
            ..GraphParts::default()
        };
        memory::prefer_large(&parts.nodes);
        parts.begin();
        Self::from_parts(PartsBox::new(parts))
    }

    pub(super) fn add(&self, name: Cow<'static, str>) -> Task<'_, 'env> {
        let mut parts = self.parts.borrow_mut();
        let parts = parts.begun();
        let index = parts.next_index();
        parts.nodes.push(TaskNode::empty(index));
        parts.names.push(index, name);
        Task { graph: self, index }
    }

    #[inline(always)]
    pub(super) fn add_with<F>(
        &self,
        name: Cow<'static, str>,
        kind: TaskKind,
        func: F,
    ) -> Task<'_, 'env>
    where
        F: FnMut(&TaskContext<'_, '_, '_>) -> Release + Send + 'env,
    {
        let mut parts = self.parts.borrow_mut();
        let parts = parts.begun();
        let index = parts.next_index();
        parts.nodes.push(TaskNode::new(index, kind, func));
        parts.kinds.add(kind);
        parts.names.push(index, name);
        Task { graph: self, index }
    }

    pub(super) fn set<F>(&self, index: u32, kind: TaskKind, func: F)
    where
        F: FnMut(&TaskContext<'_, '_, '_>) -> Release + Send + 'env,
    {
        let mut parts = self.parts();
        assert!(!parts.is_removed(index), "the task was removed or joined");
        let had = std::mem::replace(&mut parts.nodes[index as usize].kind, kind);
        parts.kinds.change();
        // The graph inside the old closure is removed as well.
        let inside = matches!(had, TaskKind::Module | TaskKind::Subflow);
        let inside = inside.then(|| parts.inner_plans.remove(|task| task == index));
        let node = &mut parts.nodes[index as usize];
        let old = (had != TaskKind::Empty).then(|| node.take());
        node.set(func);
        // The destructor of the old closure is user code, so `parts` is released first.
        drop(parts);
        drop((old, inside));
    }

    #[inline(always)]
    pub(super) fn parts(&self) -> RefMut<'_, GraphParts> {
        RefMut::map(self.parts.borrow_mut(), PartsBox::begun)
    }

    /// Returns the parts, to be replaced; there may be none yet.
    #[inline(always)]
    pub(super) fn parts_box(&self) -> RefMut<'_, PartsBox> {
        self.parts.borrow_mut()
    }

    /// Adds a task. An empty name means none.
    ///
    /// ```
    /// let mut total = 0;
    /// let prices = [3, 4, 5];
    /// let graph = filch::Graph::new();
    /// graph.task("sum up", || total = prices.iter().sum()); // may borrow, as scoped threads may
    /// graph.plan()?.run()?;
    /// assert_eq!(total, 12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "emplace")]
    #[inline]
    pub fn task(
        &self,
        name: impl Into<Cow<'static, str>>,
        mut work: impl FnMut() + Send + 'env,
    ) -> Task<'_, 'env> {
        self.add_with(name.into(), TaskKind::Plain, move |_| {
            work();
            Release::All
        })
    }

    /// Adds a task whose work is set later, by [`Task::work`] or [`Task::choose`]; until then it
    /// does nothing.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let graph = Graph::new();
    /// let later = graph.placeholder("later");
    /// graph.task("first", || ()).precede(later);
    /// later.work(|| println!("now"));
    /// # graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn placeholder(&self, name: impl Into<Cow<'static, str>>) -> Task<'_, 'env> {
        self.add(name.into())
    }

    /// Adds a task that chooses which of its successors runs next, by the number in the order in
    /// which they were added: 0 is the first one. A number that is too large chooses none. Its
    /// successors do not wait for it; the chosen one runs at once. So an edge may lead back: a loop
    /// needs a condition in it.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let mut laps = 0;
    /// let graph = Graph::new();
    /// let start = graph.task("start", || ());
    /// let lap = graph.task("lap", || ());
    /// let again = graph.condition("again?", || {
    ///     laps += 1;
    ///     if laps < 10 { 0 } else { 1 }
    /// });
    /// let end = graph.task("end", || ());
    /// start.precede(lap);
    /// lap.precede(again);
    /// again.precede([lap, end]);
    /// graph.plan()?.run()?;
    /// assert_eq!(laps, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn condition(
        &self,
        name: impl Into<Cow<'static, str>>,
        choose: impl FnMut() -> usize + Send + 'env,
    ) -> Task<'_, 'env> {
        let task = self.add(name.into());
        task.choose(choose);
        task
    }

    /// Like [`condition`](Self::condition), but chooses any number of its successors, which run in
    /// parallel. Numbers that are too large choose none. A task that is chosen twice runs once.
    ///
    /// ```
    /// use filch::Graph;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let sum = AtomicU32::new(0);
    /// let graph = Graph::new();
    /// let choose = graph.multi_condition("which?", || [0, 2, 7]);
    /// for n in [1, 10, 100] {
    ///     let sum = &sum;
    ///     choose.precede(graph.task("", move || { sum.fetch_add(n, Ordering::Relaxed); }));
    /// }
    /// graph.plan()?.run()?;
    /// assert_eq!(sum.load(Ordering::Relaxed), 101);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multi_condition<I>(
        &self,
        name: impl Into<Cow<'static, str>>,
        mut choose: impl FnMut() -> I + Send + 'env,
    ) -> Task<'_, 'env>
    where
        I: IntoIterator<Item = usize>,
    {
        let task = self.add(name.into());
        self.set(task.index, TaskKind::MultiCondition, move |cx| {
            cx.choose(choose())
        });
        task
    }

    /// Makes each of the tasks wait for the previous one.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let graph = Graph::new();
    /// let tasks: Vec<_> = (0..5).map(|_| graph.task("", || ())).collect();
    /// graph.linearize(tasks);
    /// ```
    pub fn linearize<'g>(&'g self, tasks: impl IntoIterator<Item = Task<'g, 'env>>)
    where
        'env: 'g,
    {
        let mut last: Option<Task<'g, 'env>> = None;
        for task in tasks {
            if let Some(last) = last.replace(task) {
                last.precede(task);
            }
        }
    }

    /// Returns the number of tasks.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.linearize([graph.task("first", || ()), graph.task("second", || ())]);
    /// assert_eq!(graph.len(), 2);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts().len()
    }

    /// Whether there are no tasks.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// assert!(graph.is_empty());
    /// graph.placeholder("later");
    /// assert!(!graph.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn into_parts(self) -> PartsBox {
        self.parts.into_inner()
    }

    pub(super) fn from_parts(parts: PartsBox) -> Self {
        Self {
            parts: RefCell::new(parts),
            is_template: false,
            _env: Env::new(),
        }
    }

    /// Creates the graph of a template.
    pub(super) fn of_template() -> Self {
        Self {
            is_template: true,
            ..Self::new()
        }
    }

    /// Returns the task with this number, which is the result of [`Task::index`].
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let number = graph.task("load", || ()).index();
    /// // SharedCount, where only the number is known.
    /// let load = graph.get(number).expect("it was added above");
    /// load.precede(graph.task("use", || ()));
    /// assert!(graph.get(7).is_none());
    /// ```
    #[must_use]
    pub fn get(&self, index: u32) -> Option<Task<'_, 'env>> {
        let parts = self.parts();
        let known = index > 0 && (index as usize) < parts.nodes.len() && !parts.is_removed(index);
        known.then_some(Task { graph: self, index })
    }

    /// Returns the task with a number that is known to exist.
    pub(super) fn at(&self, index: u32) -> Task<'_, 'env> {
        Task { graph: self, index }
    }
}

impl<'env> Plan<'env> {
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
        parts.nodes.iter_mut().for_each(TaskNode::forget_edges);
        Graph::from_parts(parts)
    }
}

impl Default for Graph<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("tasks", &self.len()).finish()
    }
}

/// A handle to a task of a graph under construction. It is a number, and `Copy`.
#[derive(Clone, Copy)]
pub struct Task<'g, 'env> {
    pub(super) graph: &'g Graph<'env>,
    index: u32,
}

impl<'g, 'env> Task<'g, 'env> {
    /// Returns the task's number in its graph.
    ///
    /// ```
    /// use std::collections::HashMap;
    ///
    /// let graph = filch::Graph::new();
    /// let mut numbers = HashMap::new();
    /// for name in ["parse", "check"] {
    ///     numbers.insert(name, graph.task(name, || ()).index());
    /// }
    /// let parse = graph.get(numbers["parse"]).unwrap();
    /// assert_eq!(parse.name(), "parse");
    /// ```
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the task's name, or its number if it has none.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// assert_eq!(graph.task("parse", || ()).name(), "parse");
    /// assert_eq!(graph.task("", || ()).name(), "task 2");
    /// ```
    #[must_use]
    pub fn name(self) -> String {
        self.graph.parts().names.of(self.index)
    }

    /// Makes this task run before `others`, one or many.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let compile = graph.task("compile", || ());
    /// let (test, pack) = (graph.task("test", || ()), graph.task("pack", || ()));
    /// compile.precede([test, pack]);
    /// test.precede(pack);
    /// assert_eq!(graph.describe().edges, [(0, 1), (0, 2), (1, 2)]);
    /// ```
    ///
    /// # Panics
    /// If one of them belongs to another graph.
    #[inline]
    pub fn precede(self, others: impl IntoIterator<Item = Task<'g, 'env>>) -> Self {
        for other in others {
            self.graph.edge(self, other);
        }
        self
    }

    /// Makes this task run after `others`, one or many.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let inputs: Vec<_> = (0..3).map(|n| graph.task(format!("read {n}"), || ())).collect();
    /// let merge = graph.task("merge", || ());
    /// merge.succeed(inputs); // waits for all of them
    /// assert_eq!(graph.describe().edges, [(0, 3), (1, 3), (2, 3)]);
    /// ```
    ///
    /// # Panics
    /// As [`precede`](Self::precede).
    #[inline]
    pub fn succeed(self, others: impl IntoIterator<Item = Task<'g, 'env>>) -> Self {
        for other in others {
            self.graph.edge(other, self);
        }
        self
    }

    /// Sets the work of the task, and drops its previous work.
    ///
    /// ```
    /// let mut greeting = String::new();
    /// let graph = filch::Graph::new();
    /// let task = graph.placeholder("greet"); // the shape first, the work later
    /// task.work(|| greeting.push_str("hello"));
    /// graph.plan()?.run()?;
    /// assert_eq!(greeting, "hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If it is a task of a [template](super::TemplateGraph), whose work needs the data of an
    /// instance.
    #[inline]
    #[track_caller]
    pub fn work(self, mut work: impl FnMut() + Send + 'env) -> Self {
        self.graph.check_has_works();
        self.graph.set(self.index, TaskKind::Plain, move |_| {
            work();
            Release::All
        });
        self
    }

    /// Makes the task a [`condition`](Graph::condition).
    ///
    /// ```
    /// let mut result = "";
    /// let graph = filch::Graph::new();
    /// let decide = graph.placeholder("decide");
    /// let (small, large) = (graph.task("small", || ()), graph.task("large", || result = "large"));
    /// decide.precede([small, large]);
    /// decide.choose(|| 1);
    /// graph.plan()?.run()?;
    /// assert_eq!(result, "large");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// As [`work`](Self::work).
    #[track_caller]
    pub fn choose(self, mut choose: impl FnMut() -> usize + Send + 'env) -> Self {
        self.graph.check_has_works();
        self.graph.set(self.index, TaskKind::Condition, move |_| {
            Release::One(choose())
        });
        self
    }
}

impl Graph<'_> {
    /// Checks that a task can get other work.
    #[track_caller]
    fn check_has_works(&self) {
        assert!(
            !self.is_template,
            "a task of a template has the work that it was added with; add it with \
            `TemplateGraph::task` or `TemplateGraph::condition`, whose closures take the data"
        );
    }

    #[inline]
    pub(super) fn check_own(&self, task: Task<'_, '_>) {
        let here = (&raw const *self).cast::<()>();
        assert!(
            std::ptr::eq(here, (&raw const *task.graph).cast()),
            "a task of another graph"
        );
    }

    #[inline]
    fn edge(&self, from: Task<'_, '_>, to: Task<'_, '_>) {
        let here = (&raw const *self).cast::<()>();
        assert!(
            std::ptr::eq(here, (&raw const *from.graph).cast())
                && std::ptr::eq(here, (&raw const *to.graph).cast()),
            "a task of another graph"
        );
        self.parts_box().edges.push((from.index, to.index));
    }
}

/// A single task can be passed as a list of one.
impl<'g, 'env> IntoIterator for Task<'g, 'env> {
    type Item = Self;
    type IntoIter = iter::Once<Self>;

    fn into_iter(self) -> Self::IntoIter {
        iter::once(self)
    }
}

impl fmt::Debug for Task<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Task").field(&self.name()).finish()
    }
}
