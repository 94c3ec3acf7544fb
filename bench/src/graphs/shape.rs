//! Shapes of graphs: tasks and edges.

use filch::Rng;

/// A graph whose tasks are numbers.
#[derive(Debug)]
pub(crate) struct Shape {
    tasks: usize,
    /// Edges as (predecessor, successor), in insertion order. The predecessor has the lower number.
    edges: Vec<(u32, u32)>,
}

/// The seed of the random graphs, fixed so that they are always the same.
const SEED: u64 = 5;

impl Shape {
    /// Creates a shape of `tasks` tasks; `connect` adds the edges of one task at a time.
    fn new(tasks: usize, mut connect: impl FnMut(u32, &mut Vec<(u32, u32)>)) -> Self {
        let mut edges = Vec::new();
        (0..tasks as u32).for_each(|task| connect(task, &mut edges));
        Self { tasks, edges }
    }

    pub(crate) fn independent(tasks: usize) -> Self {
        Self::new(tasks, |_, _| ())
    }

    /// A chain: each task waits for the previous one.
    pub(crate) fn chain(tasks: usize) -> Self {
        Self::new(tasks, |task, edges| {
            edges.extend(task.checked_sub(1).map(|before| (before, task)));
        })
    }

    /// Each task waits for its parent in a binary tree of 2^`depth` - 1 tasks.
    pub(crate) fn tree(depth: u32) -> Self {
        Self::new((1 << depth) - 1, |task, edges| {
            edges.extend(task.checked_sub(1).map(|above| (above / 2, task)));
        })
    }

    /// Each task waits for four others, chosen among all tasks before it.
    pub(crate) fn dag(tasks: usize) -> Self {
        const PREDECESSORS: usize = 4;
        let mut rng = Rng::for_worker(SEED, 0);
        Self::new(tasks, |task, edges| {
            let first = edges.len();
            while edges.len() - first < PREDECESSORS.min(task as usize) {
                let edge = (rng.below(task as usize) as u32, task);
                if !edges[first..].contains(&edge) {
                    edges.push(edge);
                }
            }
        })
    }

    /// A square in which each task waits for the one above and the one to the left. The edge to the
    /// right is added last: systems that continue with the last of several successors then follow
    /// the rows, which are contiguous in memory.
    pub(crate) fn wavefront(side: u32) -> Self {
        Self::new((side * side) as usize, |task, edges| {
            let (row, column) = (task / side, task % side);
            if row + 1 < side {
                edges.push((task, task + side));
            }
            if column + 1 < side {
                edges.push((task, task + 1));
            }
        })
    }

    /// Each task of a stage waits for all tasks of the previous stage.
    pub(crate) fn stages(stages: u32, width: u32) -> Self {
        Self::new((stages * width) as usize, |task, edges| {
            let stage = task / width * width;
            if stage > 0 {
                edges.extend((stage - width..stage).map(|before| (before, task)));
            }
        })
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks
    }

    pub(crate) fn edges(&self) -> &[(u32, u32)] {
        &self.edges
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn shapes_have_the_edges_that_they_should_have() {
        let size = |shape: Shape| (shape.tasks(), shape.edges().len());
        assert_eq!(size(Shape::independent(10)), (10, 0));
        assert_eq!(size(Shape::chain(10)), (10, 9));
        assert_eq!(size(Shape::tree(4)), (15, 14));
        assert_eq!(size(Shape::dag(10)), (10, 1 + 2 + 3 + 6 * 4));
        assert_eq!(size(Shape::wavefront(4)), (16, 24));
        assert_eq!(size(Shape::stages(3, 10)), (30, 200));
        assert_eq!(Shape::tree(4).edges().last(), Some(&(6, 14)));
        assert_eq!(Shape::wavefront(4).edges()[..2], [(0, 4), (0, 1)]);
    }
}
