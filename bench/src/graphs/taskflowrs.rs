//! The crate taskflowrs.

use super::{Graphs, Shape, Task};
use crate::{forks::System, pin::Placement};
use taskflowrs::{Executor, Taskflow};

pub(crate) struct Taskflowrs;

impl System for Taskflowrs {
    /// The number of workers. The crate starts new threads for every run.
    type Pool = usize;

    fn pool(workers: usize) -> usize {
        workers
    }
}

impl Graphs for Taskflowrs {
    type Graph = Taskflow;

    /// A run consumes the closures; a second run would call nothing.
    const ONCE: bool = true;

    fn build<F: Task>(shape: &Shape, task: impl Fn(usize) -> F) -> Taskflow {
        let mut graph = Taskflow::new();
        let handles = (0..shape.tasks()).map(|number| graph.emplace(task(number)));
        let handles: Vec<_> = handles.collect();
        for &(before, after) in shape.edges() {
            handles[before as usize].precede(&handles[after as usize]);
        }
        graph
    }

    fn run(&workers: &usize, graph: &mut Taskflow) {
        // Threads inherit the affinity of their parent, and the crate has no hook to pin them.
        Placement::Free.place_main();
        Executor::new(workers).run(graph).wait();
        Placement::Joined.place_main();
    }
}
