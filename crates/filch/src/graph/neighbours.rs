//! The edges of a graph, from both ends.

/// The neighbours of each task.
pub(super) struct Neighbours {
    /// The number of edges when this was made: if edges were added since, it is outdated.
    edges: usize,
    successors: NeighbourLists,
    predecessors: NeighbourLists,
}

/// A list for each task, one after the other.
struct NeighbourLists {
    /// Where each list begins; there is one entry more than lists.
    begins: Vec<u32>,
    tasks: Vec<u32>,
}

impl NeighbourLists {
    /// Makes the lists of the second tasks of the pairs, in their order.
    fn new(tasks: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut begins = vec![0_u32; tasks + 1];
        for (from, _) in pairs.clone() {
            begins[from as usize + 1] += 1;
        }
        for task in 0..tasks {
            begins[task + 1] += begins[task];
        }
        let mut next = begins.clone();
        let mut all = vec![0; begins[tasks] as usize];
        for (from, to) in pairs {
            let at = &mut next[from as usize];
            all[*at as usize] = to;
            *at += 1;
        }
        Self { begins, tasks: all }
    }

    fn of(&self, task: u32) -> &[u32] {
        let [begin, end] = [0, 1].map(|more| self.begins[task as usize + more] as usize);
        &self.tasks[begin..end]
    }
}

impl Neighbours {
    /// `tasks` is the number of records.
    pub(super) fn new(tasks: usize, edges: &[(u32, u32)]) -> Self {
        let pairs = edges.iter().copied();
        Self {
            edges: edges.len(),
            successors: NeighbourLists::new(tasks, pairs.clone()),
            predecessors: NeighbourLists::new(tasks, pairs.map(|(from, to)| (to, from))),
        }
    }

    /// Whether this has the tasks and edges of a graph from which none were removed.
    pub(super) fn is_current(&self, tasks: usize, edges: usize) -> bool {
        self.edges == edges && self.successors.begins.len() == tasks + 1
    }

    pub(super) fn successors(&self, task: u32) -> &[u32] {
        self.successors.of(task)
    }

    pub(super) fn predecessors(&self, task: u32) -> &[u32] {
        self.predecessors.of(task)
    }
}
