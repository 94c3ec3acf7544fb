//! One thread, no scheduler.

use super::{Graphs, Shape, Successors, Task, waits};
use crate::forks::{Seq, System};

pub(crate) struct Counted {
    tasks: Vec<Box<dyn Fn()>>,
    /// How many predecessors each still waits for.
    left: Vec<u32>,
    /// And at the beginning.
    waits: Vec<u32>,
    successors: Successors,
    sources: Vec<u32>,
    ready: Vec<u32>,
}

/// What a graph takes on one thread: counters and a stack, nothing atomic.
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

/// What the tasks take by themselves, in an order that was found before: no graph at all.
pub(crate) struct InOrder;

impl System for InOrder {
    type Pool = ();

    fn pool(_workers: usize) {}
}

impl Graphs for InOrder {
    type Graph = Vec<Box<dyn Fn()>>;

    /// The numbers of the tasks are such an order.
    fn build<F: Task>(shape: &Shape, task: impl Fn(usize) -> F) -> Self::Graph {
        let tasks = (0..shape.tasks()).map(|number| Box::new(task(number)) as _);
        tasks.collect()
    }

    fn run(_pool: &(), tasks: &mut Self::Graph) {
        tasks.iter().for_each(|task| task());
    }
}
