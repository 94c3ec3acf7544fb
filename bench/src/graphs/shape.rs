//! What waits for what.

use filch::Rng;

/// A graph without its tasks: the predecessors of each, which always come before it.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Where the predecessors of a task begin; and where the last ones end.
    begins: Vec<u32>,
    predecessors: Vec<u32>,
}

/// Where the random graphs start, so that they are always the same.
const SEED: u64 = 5;

impl Shape {
    /// `tasks` tasks; `predecessors` adds those of one to a list.
    fn new(tasks: usize, mut predecessors: impl FnMut(u32, &mut Vec<u32>)) -> Self {
        let mut shape = Self {
            begins: Vec::with_capacity(tasks + 1),
            predecessors: Vec::new(),
        };
        for task in 0..tasks as u32 {
            shape.begins.push(shape.predecessors.len() as u32);
            predecessors(task, &mut shape.predecessors);
        }
        shape.begins.push(shape.predecessors.len() as u32);
        shape
    }

    pub(crate) fn independent(tasks: usize) -> Self {
        Self::new(tasks, |_, _| ())
    }

    /// Each waits for the one before.
    pub(crate) fn chain(tasks: usize) -> Self {
        Self::new(tasks, |task, before| before.extend(task.checked_sub(1)))
    }

    /// Each waits for its parent in a binary tree of 2^`depth` - 1 tasks.
    pub(crate) fn tree(depth: u32) -> Self {
        Self::new((1 << depth) - 1, |task, before| {
            before.extend(task.checked_sub(1).map(|above| above / 2));
        })
    }

    /// Each waits for four others, taken from all that come before it.
    pub(crate) fn dag(tasks: usize) -> Self {
        const PREDECESSORS: usize = 4;
        let mut rng = Rng::for_worker(SEED, 0);
        Self::new(tasks, |task, before| {
            let first = before.len();
            while before.len() - first < PREDECESSORS.min(task as usize) {
                let one = rng.below(task as usize) as u32;
                if !before[first..].contains(&one) {
                    before.push(one);
                }
            }
        })
    }

    /// Each waits for those above it and to the left of it, in a square.
    pub(crate) fn wavefront(side: u32) -> Self {
        Self::new((side * side) as usize, |task, before| {
            let (row, column) = (task / side, task % side);
            if row > 0 {
                before.push(task - side);
            }
            if column > 0 {
                before.push(task - 1);
            }
        })
    }

    /// Each of a stage waits for all of the stage before.
    pub(crate) fn stages(stages: u32, width: u32) -> Self {
        Self::new((stages * width) as usize, |task, before| {
            let stage = task / width * width;
            if stage > 0 {
                before.extend(stage - width..stage);
            }
        })
    }

    pub(crate) fn tasks(&self) -> usize {
        self.begins.len() - 1
    }

    #[inline(always)]
    pub(crate) fn predecessors(&self, task: usize) -> &[u32] {
        &self.predecessors[self.begins[task] as usize..self.begins[task + 1] as usize]
    }

    /// Those of all tasks, one after the other.
    pub(crate) fn all_predecessors(&self) -> &[u32] {
        &self.predecessors
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn shapes_have_the_edges_that_they_should_have() {
        let edges = |shape: Shape| (shape.tasks(), shape.all_predecessors().len());
        assert_eq!(edges(Shape::independent(10)), (10, 0));
        assert_eq!(edges(Shape::chain(10)), (10, 9));
        assert_eq!(edges(Shape::tree(4)), (15, 14));
        assert_eq!(edges(Shape::dag(10)), (10, 1 + 2 + 3 + 6 * 4));
        assert_eq!(edges(Shape::wavefront(4)), (16, 24));
        assert_eq!(edges(Shape::stages(3, 10)), (30, 200));
        assert_eq!(Shape::tree(4).predecessors(14), [6]);
        assert_eq!(Shape::wavefront(4).predecessors(5), [1, 4]);
    }
}
