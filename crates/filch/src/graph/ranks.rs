//! Which of several ready tasks is more important.

/// The order in which the tasks of a plan run if they are ready: those of higher ranks first.
pub(super) struct TaskRanks {
    /// The ranks, by the tasks' numbers.
    ranks: Vec<u32>,
    /// The tasks, by rank, each with the first rank of the tasks that are equal to it.
    tasks: Vec<(u32, u32)>,
}

impl TaskRanks {
    /// `sorted` are all records, the least important first; `equal` says which are equal.
    pub(super) fn new(sorted: &[u32], equal: impl Fn(u32, u32) -> bool) -> Self {
        let mut ranks = vec![0; sorted.len()];
        let mut tasks = Vec::with_capacity(sorted.len());
        for equals in sorted.chunk_by(|a, b| equal(*a, *b)) {
            let first = tasks.len() as u32;
            for &task in equals {
                ranks[task as usize] = tasks.len() as u32;
                tasks.push((task, first));
            }
        }
        Self { ranks, tasks }
    }

    /// Returns the rank of a task. Tasks of higher ranks run first.
    pub(super) fn rank(&self, task: u32) -> u32 {
        self.ranks[task as usize]
    }

    /// Returns the task of a rank.
    pub(super) fn task(&self, rank: u32) -> u32 {
        self.tasks[rank as usize].0
    }

    /// Whether a task of the first rank is more important than one of the second.
    pub(super) fn is_above(&self, rank: u32, other: u32) -> bool {
        self.tasks[rank as usize].1 > self.tasks[other as usize].1
    }
}
