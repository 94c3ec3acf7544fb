//! Graphs on one thread without a scheduler.

use super::{Graphs, Shape, Successors, Task, waits};
use crate::forks::{Seq, System};

pub(crate) struct Counted {
    tasks: Vec<Box<dyn Fn()>>,
    /// Predecessors that each task still waits for.
    left: Vec<u32>,
    /// The initial values of `left`.
    waits: Vec<u32>,
    successors: Successors,
    sources: Vec<u32>,
    ready: Vec<u32>,
}

/// The cost of a graph on one thread: plain counters and a stack, no atomics.
impl Graphs for Seq {
    type Graph = Counted;

    fn build<F: Task>(shape: &Shape, task: impl Fn(usize) -> F) -> Counted {
        let tasks = (0..shape.tasks()).map(|number| Box::new(task(number)) as _);
        let (waits, sources) = waits(shape);
        Counted {
            tasks: tasks.collect(),
            left: waits.clone(),
            waits,
            successors: Successors::of(shape),
            sources,
            ready: Vec::new(),
        }
    }

    fn run(_pool: &(), graph: &mut Counted) {
        for &source in &graph.sources {
            graph.ready.push(source);
            while let Some(task) = graph.ready.pop() {
                (graph.tasks[task as usize])();
                graph.left[task as usize] = graph.waits[task as usize];
                for &after in graph.successors.after(task) {
                    let left = &mut graph.left[after as usize];
                    *left -= 1;
                    if *left == 0 {
                        graph.ready.push(after);
                    }
                }
            }
        }
    }
}

/// The cost of the tasks alone, called in a precomputed order without a graph.
pub(crate) struct InOrder;

impl System for InOrder {
    type Pool = ();

    fn pool(_workers: usize) {}
}

impl Graphs for InOrder {
    type Graph = Vec<Box<dyn Fn()>>;

    /// The tasks are numbered in such an order.
    fn build<F: Task>(shape: &Shape, task: impl Fn(usize) -> F) -> Self::Graph {
        let tasks = (0..shape.tasks()).map(|number| Box::new(task(number)) as _);
        tasks.collect()
    }

    fn run(_pool: &(), tasks: &mut Self::Graph) {
        tasks.iter().for_each(|task| task());
    }
}
