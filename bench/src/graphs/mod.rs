//! Systems that run graphs of tasks, behind one trait: the shapes are written once and run by all
//! of them.
//!
//! The main thread is one of the workers, on core 0, as in the suites of the fork-join pool.
//! Systems in which the caller takes part have one thread fewer. In the others it sleeps while
//! `workers` threads do the work.

mod filch;
mod rayon;
mod seq;
mod shape;
mod taskflowrs;

pub(crate) use filch::FilchThreads;
pub(crate) use seq::InOrder;
pub(crate) use shape::Shape;
pub(crate) use taskflowrs::Taskflowrs;

use crate::forks::System;

/// The body of a task.
pub(crate) trait Task: Fn() + Send + Sync + 'static {}

impl<F: Fn() + Send + Sync + 'static> Task for F {}

/// A system that runs graphs.
pub(crate) trait Graphs: System {
    type Graph: 'static;

    /// Builds a graph of this shape; `task` makes the body of the task with a given number.
    fn build<F: Task>(shape: &Shape, task: impl Fn(usize) -> F) -> Self::Graph;

    /// Whether a graph can be run only once.
    const ONCE: bool = false;

    /// Runs the graph, called from outside of the pool, and returns when it is done.
    fn run(pool: &Self::Pool, graph: &mut Self::Graph);
}

/// The successors of all tasks in one list, for systems that keep them by hand.
struct Successors {
    /// The index in `all` at which the successors of each task begin, followed by the end of the
    /// last ones.
    begins: Vec<u32>,
    all: Vec<u32>,
}

impl Successors {
    fn of(shape: &Shape) -> Self {
        let tasks = shape.tasks();
        let mut begins = vec![0; tasks + 1];
        for &(before, _) in shape.edges() {
            begins[before as usize + 1] += 1;
        }
        for task in 0..tasks {
            begins[task + 1] += begins[task];
        }
        let mut all = vec![0; shape.edges().len()];
        // Each entry advances as its list is filled, and ends where the next list begins.
        for &(before, after) in shape.edges() {
            let place = &mut begins[before as usize];
            all[*place as usize] = after;
            *place += 1;
        }
        begins.rotate_right(1);
        begins[0] = 0;
        Self { begins, all }
    }

    #[inline(always)]
    fn after(&self, task: u32) -> &[u32] {
        let task = task as usize;
        &self.all[self.begins[task] as usize..self.begins[task + 1] as usize]
    }
}

/// The number of predecessors of each task, and the tasks without any.
fn waits(shape: &Shape) -> (Vec<u32>, Vec<u32>) {
    let mut waits = vec![0; shape.tasks()];
    for &(_, after) in shape.edges() {
        waits[after as usize] += 1;
    }
    let sources = (0..shape.tasks() as u32).filter(|&task| waits[task as usize] == 0);
    let sources = sources.collect();
    (waits, sources)
}

#[cfg(test)]
mod tests {
    use super::{FilchThreads, Graphs, InOrder, Shape, Successors, Taskflowrs};
    use crate::forks::{Filch, Rayon, Seq};
    use std::sync::atomic::{AtomicU32, Ordering};

    fn shapes() -> Vec<Shape> {
        vec![
            Shape::independent(1),
            Shape::independent(1000),
            Shape::chain(1000),
            Shape::tree(10),
            Shape::dag(1000),
            Shape::wavefront(20),
            Shape::stages(10, 10),
        ]
    }

    /// Records the position at which each task ran, counted from one; zero means that it did not
    /// run.
    fn runs<S: Graphs>(workers: usize, shape: &Shape) {
        let clock: &'static AtomicU32 = Box::leak(Box::default());
        let ran: &'static [AtomicU32] =
            Box::leak((0..shape.tasks()).map(|_| AtomicU32::new(0)).collect());
        let pool = S::pool(workers);
        let mut graph = S::build(shape, |task| {
            move || {
                // Relaxed: the system orders each task after its predecessors.
                let now = clock.fetch_add(1, Ordering::Relaxed) + 1;
                assert_eq!(ran[task].swap(now, Ordering::Relaxed), 0, "twice");
            }
        });
        for _ in 0..if S::ONCE { 1 } else { 3 } {
            S::run(&pool, &mut graph);
            let when = |task: usize| ran[task].load(Ordering::Relaxed);
            for task in 0..shape.tasks() {
                assert_ne!(when(task), 0, "task {task} did not run");
            }
            for &(before, after) in shape.edges() {
                assert!(
                    when(before as usize) < when(after as usize),
                    "{before}, {after}"
                );
            }
            ran.iter().for_each(|ran| ran.store(0, Ordering::Relaxed));
            clock.store(0, Ordering::Relaxed);
        }
    }

    fn every_shape<S: Graphs>() {
        for workers in [1, 2, 5] {
            for shape in shapes() {
                runs::<S>(workers, &shape);
            }
        }
    }

    #[test]
    fn filch_runs_every_task_once_and_in_order() {
        every_shape::<Filch>();
        every_shape::<FilchThreads>();
    }

    #[test]
    fn taskflowrs_runs_every_task_once_and_in_order() {
        every_shape::<Taskflowrs>();
    }

    #[test]
    fn rayon_runs_every_task_once_and_in_order() {
        every_shape::<Rayon>();
    }

    #[test]
    fn loops_run_every_task_once_and_in_order() {
        every_shape::<Seq>();
        every_shape::<InOrder>();
    }

    #[test]
    fn successors_are_the_edges_in_their_order() {
        for shape in shapes() {
            let successors = Successors::of(&shape);
            for task in 0..shape.tasks() as u32 {
                let edges = shape.edges().iter();
                let after = edges.filter(|(before, _)| *before == task);
                let after: Vec<_> = after.map(|(_, after)| *after).collect();
                assert_eq!(successors.after(task), after);
            }
        }
    }
}
