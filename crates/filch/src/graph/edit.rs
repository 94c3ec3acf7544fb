//! Changes of a graph that take something away, and walks along its edges.

use super::{
    build::{Graph, Task},
    neighbours::Neighbours,
    plan::GraphParts,
};

impl GraphParts {
    /// Returns the edges in a form in which neighbours are found.
    fn neighbours(&mut self) -> &Neighbours {
        let (tasks, edges) = (self.nodes.len(), self.edges.len());
        let neighbours = &mut self.rare.make().neighbours;
        let current = neighbours.take();
        let current = current.filter(|neighbours| neighbours.is_current(tasks, edges));
        neighbours.insert(current.unwrap_or_else(|| Neighbours::new(tasks, &self.edges)))
    }

    /// Keeps the edges for which `keep` returns true.
    fn retain_edges(&mut self, mut keep: impl FnMut(u32, u32) -> bool) {
        self.edges.retain(|&(from, to)| keep(from, to));
        if let Some(rare) = self.rare.get_mut() {
            rare.neighbours = None;
        }
    }
}

impl<'env> Graph<'env> {
    /// Removes tasks, one or many, with their edges. Tasks that were before and behind one of them
    /// do not wait for each other then, unless they do for another reason. The numbers of the other
    /// tasks stay, and those of the removed tasks are not used again.
    ///
    /// It reads all edges of the graph once, so it is better to remove many tasks by one call.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let load = graph.task("load", || ());
    /// let check = graph.task("check", || ());
    /// let store = graph.task("store", || ());
    /// graph.linearize([load, check, store]);
    /// graph.remove(check);
    /// load.precede(store);
    /// assert_eq!(graph.len(), 2);
    /// assert_eq!(store.index(), 3);
    /// assert_eq!(graph.plan()?.run()?.ran(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Handles of a removed task must not be used any more: [`plan`](Self::plan) returns an error
    /// if an edge was added to one, and if another task uses the [value](Self::value) of one.
    ///
    /// # Panics
    /// If a task was removed before, or belongs to another graph.
    pub fn remove<'g>(&'g self, tasks: impl IntoIterator<Item = Task<'g, 'env>>)
    where
        'env: 'g,
    {
        let mut numbers = Vec::new();
        for task in tasks {
            self.check_own(task);
            numbers.push(task.index());
        }
        numbers.sort_unstable();
        let mut parts = self.parts();
        let is_gone = |task: &u32| parts.is_removed(*task);
        let twice = numbers.windows(2).any(|two| two[0] == two[1]);
        assert!(
            !twice && !numbers.iter().any(is_gone),
            "a task was removed before"
        );
        let old = parts.remove(&numbers);
        // The destructors are user code, so `parts` is released first.
        drop(parts);
        drop(old);
    }
}

impl GraphParts {
    /// Removes tasks, which are sorted. Returns what has to be dropped.
    fn remove(&mut self, tasks: &[u32]) -> impl Sized + use<> {
        let goes = |task: u32| tasks.binary_search(&task).is_ok();
        self.retain_edges(|from, to| !goes(from) && !goes(to));
        self.names.remove(goes);
        let rare = self.rare.make();
        rare.schedulable.retain(|task| !goes(*task));
        rare.order.weights.retain(|(task, _)| !goes(*task));
        rare.order.priorities.retain(|(task, _)| !goes(*task));
        let semaphores = rare.semaphores.extract_if(.., |(task, ..)| goes(*task));
        let semaphores: Vec<_> = semaphores.collect();
        let inner = self.inner_plans.remove(goes);
        let values = rare.values.remove(goes);
        let nodes: Vec<_> = tasks
            .iter()
            .map(|&task| self.nodes[task as usize].make_empty())
            .collect();
        rare.removed.extend_from_slice(tasks);
        rare.removed.sort_unstable();
        (semaphores, inner, values, nodes)
    }
}

impl GraphParts {
    /// Removes all tasks, which have run, and keeps their names and values. Returns what has to be
    /// dropped.
    pub(super) fn leave_behind(&mut self) -> impl Sized + use<> {
        let last = self.nodes.len() as u32 - 1;
        let first = self.rare.joined as usize + 1;
        let nodes = self.nodes[first..].iter_mut();
        let nodes: Vec<_> = nodes.map(|node| node.make_empty()).collect();
        self.edges.clear();
        let rare = self.rare.make();
        rare.neighbours = None;
        rare.order.weights.clear();
        rare.order.priorities.clear();
        rare.values.uses.clear();
        rare.schedulable.clear();
        rare.removed = (1..=last).collect();
        rare.joined = last;
        let semaphores = std::mem::take(&mut rare.semaphores);
        (semaphores, self.inner_plans.remove(|_| true), nodes)
    }

    /// Removes the edges from tasks that have run in a join: nothing waits for them any more.
    #[inline]
    pub(super) fn forget_joined_edges(&mut self) {
        let joined = self.rare.joined;
        if joined > 0 {
            self.retain_edges(|from, _| from > joined);
        }
    }
}

impl<'g, 'env> Task<'g, 'env> {
    /// Removes the edges from this task to `others`, one or many. The successors of a condition are
    /// chosen by number: those behind a removed one get lower numbers.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let (first, second) = (graph.task("first", || ()), graph.task("second", || ()));
    /// first.precede(second);
    /// first.remove_successors(second);
    /// assert!(graph.describe().edges.is_empty()); // in any order
    /// ```
    ///
    /// An edge that a [value](Graph::value) takes can be removed too. Then something else has to
    /// make sure that the value is there.
    ///
    /// # Panics
    /// If one of them belongs to another graph.
    pub fn remove_successors(self, others: impl IntoIterator<Item = Task<'g, 'env>>) -> Self {
        let numbers = self.numbers(others);
        let goes = |from, to: &u32| from == self.index() && numbers.binary_search(to).is_ok();
        let mut parts = self.graph.parts();
        parts.retain_edges(|from, to| !goes(from, &to));
        drop(parts);
        self
    }

    /// Removes the edges from `others`, one or many, to this task.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let inputs: Vec<_> = (0..3).map(|n| graph.task(format!("read {n}"), || ())).collect();
    /// let merge = graph.task("merge", || ());
    /// merge.succeed(inputs.iter().copied());
    /// merge.remove_predecessors(inputs[1]);
    /// assert_eq!(graph.describe().edges, [(0, 3), (2, 3)]);
    /// ```
    ///
    /// # Panics
    /// As [`remove_successors`](Self::remove_successors).
    pub fn remove_predecessors(self, others: impl IntoIterator<Item = Task<'g, 'env>>) -> Self {
        let numbers = self.numbers(others);
        let goes = |from: &u32, to| to == self.index() && numbers.binary_search(from).is_ok();
        let mut parts = self.graph.parts();
        parts.retain_edges(|from, to| !goes(&from, to));
        drop(parts);
        self
    }

    /// Returns the numbers of the tasks, sorted.
    fn numbers(self, tasks: impl IntoIterator<Item = Task<'g, 'env>>) -> Vec<u32> {
        let tasks = tasks.into_iter();
        let mut numbers: Vec<u32> = tasks
            .map(|task| {
                self.graph.check_own(task);
                task.index()
            })
            .collect();
        numbers.sort_unstable();
        numbers
    }

    /// Returns the tasks behind this one, in the order in which their edges were added: one that
    /// was added twice comes twice. The numbers of the choices of a condition are their positions.
    ///
    /// The first call after a change of the graph reads all edges once; further ones only those of
    /// the task.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let compile = graph.task("compile", || ());
    /// compile.precede([graph.task("test", || ()), graph.task("pack", || ())]);
    /// let behind: Vec<_> = compile.successors().map(|task| task.name()).collect();
    /// assert_eq!(behind, ["test", "pack"]);
    /// ```
    pub fn successors(self) -> impl Iterator<Item = Task<'g, 'env>> {
        let mut parts = self.graph.parts();
        let numbers = parts.neighbours().successors(self.index()).to_vec();
        numbers.into_iter().map(move |index| self.graph.at(index))
    }

    /// Returns the tasks before this one, in the order in which their edges were added; see
    /// [`successors`](Self::successors).
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let (read, ask) = (graph.task("read", || ()), graph.task("ask", || ()));
    /// let answer = graph.task("answer", || ());
    /// answer.succeed([read, ask]);
    /// assert_eq!(answer.predecessors().count(), 2);
    /// assert_eq!(read.predecessors().count(), 0); // it is a source
    /// ```
    pub fn predecessors(self) -> impl Iterator<Item = Task<'g, 'env>> {
        let mut parts = self.graph.parts();
        let numbers = parts.neighbours().predecessors(self.index()).to_vec();
        numbers.into_iter().map(move |index| self.graph.at(index))
    }
}
