//! filch's own graphs.

use super::{Graphs, Shape, Task};
use crate::{
    forks::{Filch, System},
    pools,
};
use filch::{Graph, Plan, Pool};

impl Graphs for Filch {
    type Graph = Plan<'static>;

    fn build<F: Task>(shape: &Shape, task: impl Fn(usize) -> F) -> Plan<'static> {
        let tasks = shape.tasks();
        let graph = Graph::with_capacity(tasks);
        if shape.edges().is_empty() {
            for number in 0..tasks {
                graph.task("", task(number));
            }
        } else {
            let handles = (0..tasks).map(|number| graph.task("", task(number)));
            let handles: Vec<_> = handles.collect();
            for &(before, after) in shape.edges() {
                handles[before as usize].precede(handles[after as usize]);
            }
        }
        graph.plan().expect("the shape has no circles")
    }

    fn run(pool: &Pool, plan: &mut Plan<'static>) {
        plan.run_on(pool).expect("no task panics");
    }
}

/// The same with one thread per worker, on the same cores as in other systems. The calling thread
/// takes part in addition.
pub(crate) struct FilchThreads;

impl System for FilchThreads {
    type Pool = Pool;

    fn pool(workers: usize) -> Pool {
        pools::filch(workers, 0)
    }
}

impl Graphs for FilchThreads {
    type Graph = Plan<'static>;

    fn build<F: Task>(shape: &Shape, task: impl Fn(usize) -> F) -> Plan<'static> {
        Filch::build(shape, task)
    }

    fn run(pool: &Pool, plan: &mut Plan<'static>) {
        Filch::run(pool, plan);
    }
}
