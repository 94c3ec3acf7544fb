//! Which of several ready tasks comes first.

use super::{
    build::{Graph, Parts, Task},
    edges::Sorted,
};

/// What was said about it while the graph was built.
#[derive(Clone, Default)]
pub(super) struct Order {
    critical_path: bool,
    weights: Vec<(u32, u32)>,
    priorities: Vec<(u32, i32)>,
}

impl Order {
    pub(super) fn is_given(&self) -> bool {
        self.critical_path || !self.priorities.is_empty()
    }
}

impl Graph<'_> {
    /// Of several tasks that are ready at the same time, a worker goes on with the one that has the longest way to
    /// the end of the graph behind it. The lengths are counted in tasks, or in what [`Task::weight`] says.
    ///
    /// It costs nothing when the graph runs: the plan lists sources and successors in that order. So it is a matter of
    /// each worker; one that has nothing to do takes the oldest task of another, whatever comes after it. Loops do not count: a
    /// way ends at a condition.
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
    /// let alone = Pool::builder().workers(0).build()?;
    /// graph.plan()?.run_on(&alone)?;
    /// assert_eq!(order.into_inner()?, ["long", "end", "short"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn critical_path_first(&self) {
        self.parts().order.critical_path = true;
    }
}

impl Task<'_, '_> {
    /// How long the task takes, compared to others, which weigh 1: for
    /// [`critical_path_first`](Graph::critical_path_first).
    pub fn weight(self, weight: u32) -> Self {
        self.graph
            .parts()
            .order
            .weights
            .push((self.index(), weight));
        self
    }

    /// Among tasks that are ready at the same time a worker goes on with the highest priority; others have 0. It comes
    /// before [`critical_path_first`](Graph::critical_path_first), and is a matter of each worker in the same way.
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
    /// let alone = Pool::builder().workers(0).build()?;
    /// graph.plan()?.run_on(&alone)?;
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

/// Puts sources and successors into the order that was asked for. `sorted` has everybody behind their predecessors.
///
/// Sources are begun first to last. Of its successors a task goes on with the last one that is ready, and the newest of
/// those that it has queued comes next: so they stand in the opposite order. Those of conditions stay as they are,
/// because they are chosen by number.
pub(super) fn arrange(parts: &Parts, sorted: &[u32], edges: &mut Sorted, sources: &mut [u32]) {
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
            let ways = edges
                .after(index)
                .iter()
                .map(|&next| ranks[next as usize].1);
            let longest = if node.kind.is_weak() {
                0
            } else {
                ways.max().unwrap_or(0)
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
