//! Which of several ready tasks runs first.

use super::{
    build::{Graph, Task},
    edges::Adjacency,
    plan::GraphParts,
    ranks::TaskRanks,
    rare_parts::TaskOrder,
};
use std::cmp::Reverse;

impl TaskOrder {
    pub(super) fn is_given(&self) -> bool {
        self.critical_path || !self.priorities.is_empty()
    }
}

impl Graph<'_> {
    /// Makes the tasks with the longest path to the end of the graph run first: a worker that takes
    /// a task takes, of all ready tasks of the run, the one with the longest path. The length of a
    /// path is its number of tasks, or the sum of what [`Task::weight`] has set. Loops do not
    /// count: a path ends at a condition. Of equal tasks a worker continues with one that it has
    /// released, and otherwise takes the one that was added first.
    ///
    /// The ready tasks of such a run are in one queue that all workers share, which costs some time
    /// for each task. A graph inside a task has an order, and a queue, of its own. Tasks that have
    /// waited for a [semaphore](Task::acquire) run when they get their units.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    /// use std::sync::Mutex;
    ///
    /// let order = Mutex::new(vec![]);
    /// let graph = Graph::new();
    /// graph.critical_path_first();
    /// graph.task("short", || order.lock().unwrap().push("short"));
    /// let long = graph.task("long", || order.lock().unwrap().push("long"));
    /// long.precede(graph.task("end", || order.lock().unwrap().push("end")));
    ///
    /// let single = Pool::builder().workers(0).build()?;
    /// graph.plan()?.run_on(&single)?;
    /// assert_eq!(order.into_inner()?, ["long", "end", "short"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn critical_path_first(&self) {
        self.parts().rare.make().order.critical_path = true;
    }
}

impl Task<'_, '_> {
    /// Sets how long the task takes, relative to others, which weigh 1: for
    /// [`critical_path_first`](Graph::critical_path_first).
    ///
    /// ```
    /// use filch::{Graph, Pool};
    /// use std::sync::Mutex;
    ///
    /// let order = Mutex::new(vec![]);
    /// let graph = Graph::new();
    /// graph.critical_path_first();
    /// graph.task("quick", || order.lock().unwrap().push("quick"));
    /// graph.task("slow", || order.lock().unwrap().push("slow")).weight(100);
    ///
    /// let single = Pool::builder().workers(0).build()?;
    /// graph.plan()?.run_on(&single)?;
    /// assert_eq!(order.into_inner()?, ["slow", "quick"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn weight(self, weight: u32) -> Self {
        self.graph
            .parts()
            .rare
            .make()
            .order
            .weights
            .push((self.index(), weight));
        self
    }

    /// Sets the priority of the task; the default is 0. A worker that takes a task takes, of all
    /// ready tasks of the run, the one with the highest priority. It takes precedence over
    /// [`critical_path_first`](Graph::critical_path_first), which says what this costs. Running
    /// tasks are not interrupted.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    /// use std::sync::Mutex;
    ///
    /// let order = Mutex::new(vec![]);
    /// let graph = Graph::new();
    /// for n in [1, 3, 2] {
    ///     let order = &order;
    ///     graph.task("", move || order.lock().unwrap().push(n)).priority(n);
    /// }
    /// let single = Pool::builder().workers(0).build()?;
    /// graph.plan()?.run_on(&single)?;
    /// assert_eq!(order.into_inner()?, [3, 2, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn priority(self, priority: i32) -> Self {
        let mut parts = self.graph.parts();
        parts
            .rare
            .make()
            .order
            .priorities
            .push((self.index(), priority));
        drop(parts);
        self
    }
}

/// Returns the order of the tasks that was requested, if there is one. In `sorted` each task comes
/// after its predecessors.
pub(super) fn ranks(
    parts: &GraphParts,
    sorted: &[u32],
    edges: &Adjacency<'_>,
) -> Option<TaskRanks> {
    let order = &parts.rare.order;
    if !order.is_given() {
        return None;
    }
    let mut keys = vec![(0_i32, 0_u64); parts.nodes.len()];
    for &(index, priority) in &order.priorities {
        keys[index as usize].0 = priority;
    }
    if order.critical_path {
        let mut weights = vec![1_u32; parts.nodes.len()];
        for &(index, weight) in &order.weights {
            weights[index as usize] = weight;
        }
        for &index in sorted.iter().rev() {
            let node = &parts.nodes[index as usize];
            let paths = edges.after(index).map(|next| keys[next as usize].1);
            let longest = if node.kind.is_weak() {
                0
            } else {
                paths.max().unwrap_or(0)
            };
            keys[index as usize].1 = longest + u64::from(weights[index as usize]);
        }
    }
    let mut tasks: Vec<u32> = (0..parts.nodes.len() as u32).collect();
    // Of equal tasks the one that was added first comes first.
    tasks.sort_by_key(|&task| (keys[task as usize], Reverse(task)));
    let equal = |a: u32, b: u32| keys[a as usize] == keys[b as usize];
    Some(TaskRanks::new(&tasks, equal))
}
