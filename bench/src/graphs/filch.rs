//! filch's own graphs.

use super::{Graphs, Shape, Task};
use crate::forks::Filch;
use filch::{Graph, Plan, Pool};

impl Graphs for Filch {
    type Graph = Plan<'static>;

    fn build<F: Task>(shape: &Shape, task: impl Fn(usize) -> F) -> Plan<'static> {
        let tasks = shape.tasks();
        let graph = Graph::with_capacity(tasks);
        if shape.all_predecessors().is_empty() {
            for number in 0..tasks {
                graph.task("", task(number));
            }
        } else {
            let mut handles = Vec::with_capacity(tasks);
            for number in 0..tasks {
                let before = shape.predecessors(number).iter();
                let before = before.map(|&before| handles[before as usize]);
                let handle = graph.task("", task(number)).succeed(before);
                handles.push(handle);
            }
        }
        graph.plan().expect("the shape has no circles")
    }

    fn run(pool: &Pool, plan: &mut Plan<'static>) {
        plan.run_on(pool).expect("no task panics");
    }
}
