//! Systems that fold trees, behind one trait.
//!
//! The main thread is one of the workers, on core 0, as in the suites of the fork-join pool. In
//! filch and hylic the caller takes part, so they have one thread fewer. With rayon it sleeps while
//! `workers` threads do the work.

mod hylic;
mod tree;

pub(crate) use hylic::{Hylic, presets};
pub(crate) use tree::{Node, Shape, Work, count};

use crate::{
    forks::{Rayon, Seq, System},
    pools,
    stopwatch::{Sample, Stopwatch},
};
use ::rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use filch::{Fold, fold, fold::FoldStrategy};
use std::{hint::black_box, marker::PhantomData};

/// A tree that lives until the process ends, as hylic requires, and the number of folds per sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) root: &'static Node,
    pub(crate) nodes: u64,
    pub(crate) work: Work,
    pub(crate) times: u64,
    pub(crate) expected: u64,
}

impl Task {
    /// Must be called by the measuring thread, so that the tree is in memory that this thread
    /// touched first.
    pub(crate) fn new(shape: Shape, work: Work, least_nodes: u64) -> Self {
        let root: &'static Node = Box::leak(Box::new(shape.build()));
        let nodes = count(root);
        Self {
            root,
            nodes,
            work,
            times: least_nodes.div_ceil(nodes).max(1),
            expected: in_sequence(root, Work::Empty),
        }
    }

    /// Times `fold`, which folds the tree once, after one untimed call.
    pub(crate) fn sample(self, fold: impl Fn(&'static Node) -> u64) -> Sample {
        let mut watch = Stopwatch::default();
        self.check(fold(self.root));
        let sum = watch.time(|| {
            (0..self.times).fold(0_u64, |sum, _| sum.wrapping_add(fold(black_box(self.root))))
        });
        self.check(sum.wrapping_sub(self.expected.wrapping_mul(self.times - 1)));
        watch.sample(self.nodes * self.times)
    }

    fn check(self, result: u64) {
        assert_eq!(result, self.expected, "a wrong result");
    }
}

/// A system that folds trees.
pub(crate) trait Folds: System {
    fn fold(pool: &Self::Pool, root: &'static Node, work: Work) -> u64;

    fn sample(pool: &Self::Pool, task: Task) -> Sample {
        let work = task.work;
        task.sample(|root| Self::fold(pool, root, work))
    }
}

/// filch with a strategy.
pub(crate) struct Filch<S>(PhantomData<S>);

impl<S: 'static> System for Filch<S> {
    type Pool = filch::Pool;

    fn pool(workers: usize) -> filch::Pool {
        pools::filch(workers - 1, 1)
    }
}

/// The fold as a user of filch writes it.
fn ours(work: Work) -> impl Fold<Node = &'static Node, Result = u64> {
    fold(
        |node: &'static Node| &node.children,
        move |node| work.enter(node),
        |sum: &mut u64, child| *sum = sum.wrapping_add(child),
        |sum| sum,
    )
}

impl<S: FoldStrategy> Folds for Filch<S> {
    fn fold(pool: &filch::Pool, root: &'static Node, work: Work) -> u64 {
        ours(work).with::<S>().on(pool).run(root)
    }
}

/// filch's [`Fold::sequential`].
pub(crate) struct Sequential;

impl System for Sequential {
    type Pool = ();

    fn pool(_workers: usize) {}
}

impl Folds for Sequential {
    fn fold((): &(), root: &'static Node, work: Work) -> u64 {
        ours(work).sequential(root)
    }
}

/// A recursive function.
impl Folds for Seq {
    fn fold((): &(), root: &'static Node, work: Work) -> u64 {
        in_sequence(root, work)
    }
}

fn in_sequence(node: &Node, work: Work) -> u64 {
    node.children.iter().fold(work.enter(node), |sum, child| {
        sum.wrapping_add(in_sequence(child, work))
    })
}

/// rayon by hand: the children are halved, and the halves joined.
impl Folds for Rayon {
    fn fold(pool: &::rayon::ThreadPool, root: &'static Node, work: Work) -> u64 {
        pool.install(|| joined(root, work))
    }
}

fn joined(node: &Node, work: Work) -> u64 {
    work.enter(node)
        .wrapping_add(joined_all(&node.children, work))
}

fn joined_all(nodes: &[Node], work: Work) -> u64 {
    match nodes {
        [] => 0,
        [only] => joined(only, work),
        _ => {
            let (left, right) = nodes.split_at(nodes.len() / 2);
            let (left, right) =
                ::rayon::join(|| joined_all(left, work), || joined_all(right, work));
            left.wrapping_add(right)
        }
    }
}

/// rayon by hand: a parallel iterator over the children.
pub(crate) struct ParIter;

impl System for ParIter {
    type Pool = ::rayon::ThreadPool;

    fn pool(workers: usize) -> ::rayon::ThreadPool {
        Rayon::pool(workers)
    }
}

impl Folds for ParIter {
    fn fold(pool: &::rayon::ThreadPool, root: &'static Node, work: Work) -> u64 {
        pool.install(|| iterated(root, work))
    }
}

fn iterated(node: &Node, work: Work) -> u64 {
    let here = work.enter(node);
    if node.children.is_empty() {
        return here;
    }
    let below = node.children.par_iter().map(|child| iterated(child, work));
    here.wrapping_add(below.reduce(|| 0, u64::wrapping_add))
}

#[cfg(test)]
mod tests {
    use super::{Filch, Folds, Hylic, ParIter, Sequential, Shape, Task, Work, presets};
    use crate::forks::{Rayon, Seq};
    use filch::{
        engine::Shared,
        fold::{Adaptive, FewWakes, Tasks},
    };
    use std::time::Duration;

    fn folds<S: Folds>() {
        for workers in [1, 2, 4] {
            let pool = S::pool(workers);
            for shape in [
                Shape::Full { fan: 5, levels: 3 },
                Shape::Balanced(200),
                Shape::Star(100),
                Shape::Chain(60),
                Shape::Spine(100),
            ] {
                for work in [
                    Work::Empty,
                    Work::even(Duration::from_micros(1)),
                    Work::skewed(),
                ] {
                    // A sample checks its result itself.
                    let sample = S::sample(&pool, Task::new(shape, work, 500));
                    assert!(sample.ops >= 500);
                }
            }
        }
    }

    #[test]
    fn all_systems_come_to_the_same() {
        folds::<Filch<Adaptive>>();
        folds::<Filch<FewWakes>>();
        folds::<Filch<Tasks>>();
        folds::<Filch<Tasks<Shared>>>();
        folds::<Sequential>();
        folds::<Seq>();
        folds::<Rayon>();
        folds::<ParIter>();
        folds::<Hylic<presets::Default>>();
        folds::<Hylic<presets::StreamingWide>>();
    }
}
