//! The other kinds of tasks of templates, and what templates have in common with graphs.

use super::{
    build::Task,
    describe::Description,
    nested::Subflow,
    node::{Release, TaskKind},
    pipeline::Pipeline,
    plan::Plan,
    runtime::Runtime,
    template::TemplateGraph,
    value::{Inputs, Value},
};
use std::{borrow::Cow, ops::Range, sync::Arc};

impl<'env, D: Send + Sync + 'env> TemplateGraph<'env, D> {
    /// Adds a task that does nothing, to connect others.
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::<()>::new();
    /// let all = graph.placeholder("all");
    /// all.succeed([graph.task("a", |_| ()), graph.task("b", |_| ())]);
    /// assert_eq!(graph.template()?.instance(()).run()?.ran(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn placeholder(&self, name: impl Into<Cow<'static, str>>) -> Task<'_, 'env> {
        self.add(name.into(), TaskKind::Empty, |_, _| Release::All)
    }

    /// Adds a [`multi_condition`](super::Graph::multi_condition).
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::new();
    /// let which = graph.multi_condition("which?", |numbers: &Vec<usize>| numbers.clone());
    /// which.precede([graph.task("zero", |_| ()), graph.task("one", |_| ())]);
    /// let template = graph.template()?;
    /// assert_eq!(template.instance(vec![1]).run()?.ran(), 2);
    /// assert_eq!(template.instance(vec![0, 1]).run()?.ran(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multi_condition<I>(
        &self,
        name: impl Into<Cow<'static, str>>,
        choose: impl Fn(&D) -> I + Send + Sync + 'env,
    ) -> Task<'_, 'env>
    where
        I: IntoIterator<Item = usize>,
    {
        self.add(name.into(), TaskKind::MultiCondition, move |data, cx| {
            cx.choose(choose(data))
        })
    }

    /// Adds a [`subflow`](super::Graph::subflow). Its tasks may keep shares of the data.
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    /// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
    ///
    /// let graph = TemplateGraph::new();
    /// graph.subflow("parts", |left: &Arc<AtomicUsize>, sub| {
    ///     for _ in 0..left.load(Ordering::Relaxed) {
    ///         let left = left.clone();
    ///         sub.task("part", move || { left.fetch_sub(1, Ordering::Relaxed); });
    ///     }
    /// });
    /// let left = Arc::new(AtomicUsize::new(7));
    /// graph.template()?.instance(left.clone()).run()?;
    /// assert_eq!(left.load(Ordering::Relaxed), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subflow(
        &self,
        name: impl Into<Cow<'static, str>>,
        build: impl Fn(&Arc<D>, &Subflow<'env>) + Send + Sync + 'env,
    ) -> Task<'_, 'env> {
        let build = Arc::new(build);
        self.add_built(name.into(), TaskKind::Subflow, move |data, task| {
            let (build, data) = (build.clone(), data.clone());
            task.graph
                .set_subflow(task, move |subflow| build(&data, subflow));
        })
    }

    /// Adds a [`module`](super::Graph::module): `make` creates its plan for each instance, for
    /// example as an instance of another template.
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    ///
    /// let inner = TemplateGraph::new();
    /// inner.task("check", |text: &String| assert!(!text.is_empty()));
    /// let inner = inner.template()?;
    ///
    /// let outer = TemplateGraph::new();
    /// outer.module("both", move |texts: &(String, String)| {
    ///     let both = filch::Graph::new();
    ///     both.module("first", inner.instance(texts.0.clone()));
    ///     both.module("second", inner.instance(texts.1.clone()));
    ///     both.plan().unwrap()
    /// });
    /// let texts = ("one".to_owned(), "two".to_owned());
    /// assert_eq!(outer.template()?.instance(texts).run()?.ran(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn module(
        &self,
        name: impl Into<Cow<'static, str>>,
        make: impl Fn(&D) -> Plan<'env> + Send + Sync + 'env,
    ) -> Task<'_, 'env> {
        self.add_built(name.into(), TaskKind::Module, move |data, task| {
            task.graph.set_module(task, make(data));
        })
    }

    /// Adds a [`runtime`](super::Graph::runtime). What it spawns may keep shares of the data.
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    ///
    /// let graph = TemplateGraph::new();
    /// graph.runtime("count", |hits: &Arc<AtomicU32>, rt| {
    ///     for _ in 0..4 {
    ///         let hits = hits.clone();
    ///         rt.spawn(move |_| { hits.fetch_add(1, Ordering::Relaxed); });
    ///     }
    ///     rt.wait();
    ///     assert_eq!(hits.load(Ordering::Relaxed), 4);
    /// });
    /// graph.template()?.instance(AtomicU32::new(0)).run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runtime(
        &self,
        name: impl Into<Cow<'static, str>>,
        work: impl Fn(&Arc<D>, &Runtime<'env>) + Send + Sync + 'env,
    ) -> Task<'_, 'env> {
        let work = Arc::new(work);
        self.add_built(name.into(), TaskKind::Runtime, move |data, task| {
            let (work, data) = (work.clone(), data.clone());
            task.graph
                .set_runtime(task, move |runtime| work(&data, runtime));
        })
    }

    /// Adds a parallel loop: see [`Graph::for_each`](super::Graph::for_each).
    ///
    /// ```
    /// use filch::graph::TemplateGraph;
    /// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
    ///
    /// let graph = TemplateGraph::new();
    /// graph.for_each("add", 0..10, |sum: &Arc<AtomicUsize>, n| {
    ///     sum.fetch_add(n, Ordering::Relaxed);
    /// });
    /// let sum = Arc::new(AtomicUsize::new(0));
    /// graph.template()?.instance(sum.clone()).run()?;
    /// assert_eq!(sum.load(Ordering::Relaxed), 45);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each(
        &self,
        name: impl Into<Cow<'static, str>>,
        range: Range<usize>,
        body: impl Fn(&D, usize) + Send + Sync + 'env,
    ) -> Task<'_, 'env> {
        let body = Arc::new(body);
        self.add_built(name.into(), TaskKind::Loop, move |data, task| {
            let (body, data) = (body.clone(), data.clone());
            task.graph
                .set_for_each(task, range.clone(), move |n| body(&data, n));
        })
    }

    /// Adds a parallel reduction: see [`Graph::reduce`](super::Graph::reduce).
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::new();
    /// let sum = graph.reduce("sum", 0..4, || 0, |base: &usize, n| base + n, |a, b| a + b);
    /// let mut plan = graph.template()?.instance(10);
    /// plan.run()?;
    /// assert_eq!(plan.take(sum), Some(46));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reduce<T: Send + Sync + 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        range: Range<usize>,
        identity: impl Fn() -> T + Send + Sync + 'env,
        map: impl Fn(&D, usize) -> T + Send + Sync + 'env,
        combine: impl Fn(T, T) -> T + Send + Sync + 'env,
    ) -> Value<T> {
        let functions = Arc::new((identity, map, combine));
        let task = self.add_built(name.into(), TaskKind::Loop, move |data, task| {
            let [identity, map, combine] = [(); 3].map(|()| functions.clone());
            let data = data.clone();
            task.graph.set_reduce(
                task,
                range.clone(),
                move || identity.0(),
                move |n| map.1(&data, n),
                move |a, b| combine.2(a, b),
            );
        });
        self.graph.declare_value(task)
    }

    /// Adds a [`pipeline`](super::Graph::pipeline), which `make` creates for each instance.
    ///
    /// ```
    /// use filch::graph::{Pipeline, TemplateGraph};
    ///
    /// let graph = TemplateGraph::new();
    /// graph.pipeline("check", 2, |numbers: &std::sync::Arc<Vec<u32>>| {
    ///     let (numbers, mut at) = (numbers.clone(), 0..numbers.len());
    ///     Pipeline::new(move |_| at.next()).parallel(move |at| assert!(numbers[at] > 0))
    /// });
    /// graph.template()?.instance(vec![3, 4, 5]).run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pipeline<T: Send + 'env>(
        &self,
        name: impl Into<Cow<'static, str>>,
        lines: usize,
        make: impl Fn(&Arc<D>) -> Pipeline<'env, T> + Send + Sync + 'env,
    ) -> Task<'_, 'env> {
        self.add_built(name.into(), TaskKind::Pipeline, move |data, task| {
            task.graph.set_pipeline(task, lines, make(data));
        })
    }

    /// Adds a task that is a [`future`](super::Graph::future), which may keep a share of the data.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let graph = filch::graph::TemplateGraph::new();
    /// graph.future("wait", |time: &std::sync::Arc<Duration>| {
    ///     let time = **time;
    ///     async move { filch::time::sleep(time).await }
    /// });
    /// let template = graph.template()?;
    /// assert_eq!(template.instance(Duration::from_micros(10)).run()?.ran(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn future<F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        make: impl Fn(&Arc<D>) -> F + Send + Sync + 'env,
    ) -> Task<'_, 'env>
    where
        F: Future<Output = ()> + Send + 'env,
    {
        let make = Arc::new(make);
        self.add_built(name.into(), TaskKind::Future, move |data, task| {
            let (make, data) = (make.clone(), data.clone());
            task.graph.set_future(task, move || make(&data));
        })
    }

    /// Adds a task that produces a [`value`](super::Graph::value), one in each instance.
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::new();
    /// let length = graph.value("length", |text: &String| text.len());
    /// let mut plan = graph.template()?.instance("four".to_owned());
    /// plan.run()?;
    /// assert_eq!(plan.take(length), Some(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn value<T: Send + Sync + 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        make: impl Fn(&D) -> T + Send + Sync + 'env,
    ) -> Value<T> {
        let make = Arc::new(make);
        let task = self.add_built(name.into(), TaskKind::Plain, move |data, task| {
            let (make, data) = (make.clone(), data.clone());
            task.graph.set_value(task, move || make(&data));
        });
        self.graph.declare_value(task)
    }

    /// Adds a task that produces a value from those of other tasks: see
    /// [`Graph::map`](super::Graph::map). `make` makes the closure of each instance from its data.
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::new();
    /// let length = graph.value("length", |text: &String| text.len());
    /// let more = graph.map("more", length, |text| {
    ///     let first = text.chars().next();
    ///     move |length: &usize| (*length, first)
    /// });
    /// let mut plan = graph.template()?.instance("four".to_owned());
    /// plan.run()?;
    /// assert_eq!(plan.take(more), Some((4, Some('f'))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If a value belongs to another graph, or its task was removed.
    pub fn map<R, F, I>(
        &self,
        name: impl Into<Cow<'static, str>>,
        inputs: I,
        make: impl Fn(&Arc<D>) -> F + Send + Sync + 'env,
    ) -> Value<R>
    where
        R: Send + Sync + 'static,
        F: Send + 'env,
        I: Inputs<F, R> + Copy + Send + Sync + 'env,
    {
        let task = self.add_built(name.into(), TaskKind::Plain, move |data, task| {
            task.graph.set_map(task, inputs, make(data));
        });
        // The edges.
        let _slots = inputs.bind(&self.graph, task);
        self.graph.declare_value(task)
    }

    /// Returns the task that produces a value: see [`Graph::task_of`](super::Graph::task_of).
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::<u32>::new();
    /// let double = graph.value("double", |n| 2 * n);
    /// graph.task_of(double).succeed(graph.task("before", |_| ()));
    /// assert_eq!(graph.describe().edges, [(1, 0)]);
    /// ```
    ///
    /// # Panics
    /// If the value belongs to another graph, or its task was removed.
    pub fn task_of<T: Send + Sync + 'static>(&self, value: Value<T>) -> Task<'_, 'env> {
        self.graph.task_of(value)
    }

    /// Makes each of the tasks wait for the previous one.
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::<()>::new();
    /// graph.linearize([graph.task("first", |_| ()), graph.task("second", |_| ())]);
    /// assert_eq!(graph.describe().edges, [(0, 1)]);
    /// ```
    pub fn linearize<'g>(&'g self, tasks: impl IntoIterator<Item = Task<'g, 'env>>)
    where
        'env: 'g,
    {
        self.graph.linearize(tasks);
    }

    /// Limits `tasks` so that at most `n` of them run at the same time, in all instances together.
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::<()>::new();
    /// let tasks: Vec<_> = (0..10).map(|_| graph.task("", |_| ())).collect();
    /// graph.limit(tasks, 3);
    /// assert_eq!(graph.describe().limits[0].permits, 3);
    /// ```
    ///
    /// # Panics
    /// If `n` is zero, or a task belongs to another graph.
    pub fn limit<'g>(&'g self, tasks: impl IntoIterator<Item = Task<'g, 'env>>, n: usize)
    where
        'env: 'g,
    {
        self.graph.limit(tasks, n);
    }

    /// Makes the tasks with the longest path run first: see
    /// [`Graph::critical_path_first`](super::Graph::critical_path_first).
    ///
    /// ```
    /// use filch::{Pool, graph::TemplateGraph};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let graph = TemplateGraph::new();
    /// graph.critical_path_first();
    /// graph.task("short", |order: &Mutex<Vec<_>>| order.lock().unwrap().push("short"));
    /// let long = graph.task("long", |order: &Mutex<Vec<_>>| order.lock().unwrap().push("long"));
    /// long.precede(graph.placeholder("end"));
    /// let order = Arc::new(Mutex::new(vec![]));
    /// let single = Pool::builder().workers(0).build()?;
    /// graph.template()?.instance(order.clone()).run_on(&single)?;
    /// assert_eq!(*order.lock().unwrap(), ["long", "short"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn critical_path_first(&self) {
        self.graph.critical_path_first();
    }

    /// Removes tasks, one or many, with their edges: see [`Graph::remove`](super::Graph::remove).
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::<()>::new();
    /// let (first, second) = (graph.task("first", |_| ()), graph.task("second", |_| ()));
    /// first.precede(second);
    /// graph.remove(second);
    /// assert_eq!(graph.template()?.instance(()).run()?.ran(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If a task was removed before, or belongs to another graph.
    pub fn remove<'g>(&'g self, tasks: impl IntoIterator<Item = Task<'g, 'env>>)
    where
        'env: 'g,
    {
        self.graph.remove(tasks);
    }

    /// Returns the task with this number, which is the result of [`Task::index`].
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::<()>::new();
    /// let number = graph.task("load", |_| ()).index();
    /// assert_eq!(graph.get(number).unwrap().name(), "load");
    /// ```
    #[must_use]
    pub fn get(&self, index: u32) -> Option<Task<'_, 'env>> {
        self.graph.get(index)
    }

    /// Returns the number of tasks.
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::<()>::new();
    /// graph.task("work", |_| ());
    /// assert_eq!(graph.len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.graph.len()
    }

    /// Whether there are no tasks.
    ///
    /// ```
    /// assert!(filch::graph::TemplateGraph::<()>::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.graph.is_empty()
    }

    /// Returns the graph as plain data: see [`Graph::describe`](super::Graph::describe). Modules
    /// are made for instances, so they are empty here.
    ///
    /// ```
    /// let graph = filch::graph::TemplateGraph::<()>::new();
    /// graph.task("work", |_| ());
    /// assert_eq!(graph.describe().tasks[0].name, "work");
    /// ```
    #[must_use]
    pub fn describe(&self) -> Description {
        self.graph.describe()
    }
}
