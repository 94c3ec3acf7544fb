//! Which of several ready tasks runs first.

use super::{
    build::{Graph, Task},
    edges::Adjacency,
    plan::{GraphParts, TaskOrder},
};

impl TaskOrder {
    pub(super) fn is_given(&self) -> bool {
        self.critical_path || !self.priorities.is_empty()
    }
}

impl Graph<'_> {
    /// Makes a worker prefer, among tasks that are ready at the same time, the one with the longest
    /// path to the end of the graph. The length of a path is its number of tasks, or the sum of
    /// what [`Task::weight`] has set.
    ///
    /// This costs nothing when the graph runs: the plan lists sources and successors in that order.
    /// So the order applies to each worker on its own; an idle worker steals the oldest task of
    /// another, no matter what comes after it. Loops do not count: a path ends at a condition.
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
        self.parts().order.critical_path = true;
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
            .order
            .weights
            .push((self.index(), weight));
        self
    }

    /// Sets the priority of the task; the default is 0. Among tasks that are ready at the same time
    /// a worker prefers the highest priority. It takes precedence over
    /// [`critical_path_first`](Graph::critical_path_first), and applies to each worker on its own
    /// in the same way.
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
        parts.order.priorities.push((self.index(), priority));
        drop(parts);
        self
    }
}

/// Sorts sources and successors in the order that was requested. In `sorted` each task comes after
/// its predecessors.
///
/// Sources are started from first to last. Of its successors a task continues with the last one
/// that is ready, and the newest that it has queued comes next: so successors are sorted in the
/// opposite order. Those of conditions keep their order, because they are chosen by number.
pub(super) fn arrange(
    parts: &GraphParts,
    sorted: &[u32],
    edges: &mut Adjacency,
    sources: &mut [u32],
) {
    let order = &parts.order;
    if !order.is_given() {
        return;
    }
    let mut ranks = vec![(0_i32, 0_u64); parts.nodes.len()];
    for &(index, priority) in &order.priorities {
        ranks[index as usize].0 = priority;
    }
    if order.critical_path {
        let mut weights = vec![1_u32; parts.nodes.len()];
        for &(index, weight) in &order.weights {
            weights[index as usize] = weight;
        }
        for &index in sorted.iter().rev() {
            let node = &parts.nodes[index as usize];
            let paths = edges
                .after(index)
                .iter()
                .map(|&next| ranks[next as usize].1);
            let longest = if node.kind.is_weak() {
                0
            } else {
                paths.max().unwrap_or(0)
            };
            ranks[index as usize].1 = longest + u64::from(weights[index as usize]);
        }
    }
    sources.sort_by_key(|&index| std::cmp::Reverse(ranks[index as usize]));
    for node in &parts.nodes {
        if !node.kind.is_weak() {
            let next = edges.after_mut(node.index());
            next.sort_by_key(|&index| ranks[index as usize]);
        }
    }
}
