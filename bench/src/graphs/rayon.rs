//! A graph by hand: atomic counters, and a scope into which a task is spawned when its counter
//! reaches zero.

use super::{Graphs, Shape, Successors, Task, waits};
use crate::forks::Rayon;
use rayon::{Scope, ThreadPool};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct ByHand {
    tasks: Vec<Box<dyn Fn() + Send + Sync>>,
    /// Predecessors that each task still waits for.
    left: Vec<AtomicU32>,
    /// The initial values of `left`.
    waits: Vec<u32>,
    successors: Successors,
    sources: Vec<u32>,
}

impl ByHand {
    /// Runs a task, then the last of its successors that became ready; the others are spawned.
    fn run<'s>(&'s self, scope: &Scope<'s>, mut task: u32) {
        loop {
            (self.tasks[task as usize])();
            // Relaxed: the counter is not read again before the next run.
            self.left[task as usize].store(self.waits[task as usize], Ordering::Relaxed);
            let mut next = None;
            for &after in self.successors.after(task) {
                // AcqRel: the last decrement pairs with those of the other predecessors, so the
                // effects of all predecessors are visible to the task.
                if self.left[after as usize].fetch_sub(1, Ordering::AcqRel) == 1
                    && let Some(other) = next.replace(after)
                {
                    scope.spawn(move |scope| self.run(scope, other));
                }
            }
            match next {
                Some(next) => task = next,
                None => return,
            }
        }
    }
}

impl Graphs for Rayon {
    type Graph = ByHand;

    fn build<F: Task>(shape: &Shape, task: impl Fn(usize) -> F) -> ByHand {
        let tasks = (0..shape.tasks()).map(|number| Box::new(task(number)) as _);
        let (waits, sources) = waits(shape);
        ByHand {
            tasks: tasks.collect(),
            left: waits.iter().map(|&waits| AtomicU32::new(waits)).collect(),
            waits,
            successors: Successors::of(shape),
            sources,
        }
    }

    fn run(pool: &ThreadPool, graph: &mut ByHand) {
        let graph = &*graph;
        pool.scope(|scope| {
            for &source in &graph.sources {
                scope.spawn(move |scope| graph.run(scope, source));
            }
        });
    }
}
