//! A record of which worker folded which node, and when; for inspection of small trees.

use super::{Fold, FoldStrategy, Runner};
use crate::{base::Instant, pool::context::WorkerContext};
use std::{collections::BTreeMap, fmt, mem, time::Duration};

/// The result of a fold, and the record of its execution.
///
/// ```
/// use filch::{Fold, Pool, fold};
///
/// let pool = Pool::builder().workers(2).build().unwrap();
/// let sum = fold(|n: u32| 0..n.min(3), |n| *n, |sum, child| *sum += child, |sum| sum);
/// let explained = sum.with::<filch::fold::Adaptive>().on(&pool).explain(3);
/// assert_eq!(explained.result, sum.sequential(3));
/// println!("{}", explained.visit); // a line for each node: where and when
/// for (worker, nodes) in explained.visit.by_worker() {
///     println!("worker {worker:?} has entered {nodes} nodes");
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Explained<R> {
    /// The result.
    pub result: R,
    /// The record of the root, and of all nodes below it.
    pub visit: Visit,
}

/// The record of one node: which worker entered it, which finished it, and when.
///
/// ```
/// use filch::{Fold, fold, fold::Tasks};
///
/// let chain = fold(|n: u32| n.checked_sub(1), |_| (), |(), ()| (), |()| ());
/// let visit = chain.with::<Tasks>().explain(3).visit;
/// assert!(visit.began() <= visit.ended() && visit.finished_by().is_some());
/// assert_eq!(visit.children().len(), 1);
/// assert_eq!(visit.iter().map(|(depth, _)| depth).collect::<Vec<_>>(), [0, 1, 2, 3]);
/// assert_eq!(visit.by_worker().values().sum::<usize>(), 4);
/// ```
pub struct Visit {
    entered_by: Option<usize>,
    finished_by: Option<usize>,
    began: Duration,
    ended: Duration,
    children: Vec<Visit>,
}

impl Visit {
    /// The worker that called `init` for it; `None` for a thread that is not a worker.
    ///
    /// ```
    /// use filch::{Fold, fold, fold::Tasks};
    ///
    /// let chain = fold(|n: u32| n.checked_sub(1), |_| (), |(), ()| (), |()| ());
    /// let visit = chain.with::<Tasks>().explain(3).visit;
    /// assert!(visit.entered_by().is_some()); // the caller is a guest of the pool
    /// ```
    #[must_use]
    pub fn entered_by(&self) -> Option<usize> {
        self.entered_by
    }

    /// The worker that called `finalize` for it; `None` for a thread that is not a worker.
    ///
    /// ```
    /// use filch::{Fold, fold, fold::Tasks};
    ///
    /// let chain = fold(|n: u32| n.checked_sub(1), |_| (), |(), ()| (), |()| ());
    /// let visit = chain.with::<Tasks>().explain(3).visit;
    /// assert!(visit.finished_by().is_some());
    /// ```
    #[must_use]
    pub fn finished_by(&self) -> Option<usize> {
        self.finished_by
    }

    /// When it was entered, relative to the start of the fold.
    ///
    /// ```
    /// use filch::{Fold, fold, fold::Tasks};
    ///
    /// let chain = fold(|n: u32| n.checked_sub(1), |_| (), |(), ()| (), |()| ());
    /// let visit = chain.with::<Tasks>().explain(3).visit;
    /// assert!(visit.began() <= visit.children()[0].began());
    /// ```
    #[must_use]
    pub fn began(&self) -> Duration {
        self.began
    }

    /// When it was finished, relative to the start of the fold.
    ///
    /// ```
    /// use filch::{Fold, fold, fold::Tasks};
    ///
    /// let chain = fold(|n: u32| n.checked_sub(1), |_| (), |(), ()| (), |()| ());
    /// let visit = chain.with::<Tasks>().explain(3).visit;
    /// assert!(visit.ended() >= visit.children()[0].ended());
    /// ```
    #[must_use]
    pub fn ended(&self) -> Duration {
        self.ended
    }

    /// Its children, in order.
    ///
    /// ```
    /// use filch::{Fold, fold, fold::Tasks};
    ///
    /// let chain = fold(|n: u32| n.checked_sub(1), |_| (), |(), ()| (), |()| ());
    /// let visit = chain.with::<Tasks>().explain(3).visit;
    /// assert_eq!(visit.children().len(), 1);
    /// ```
    #[must_use]
    pub fn children(&self) -> &[Visit] {
        &self.children
    }

    /// Iterates over it and all nodes below it in preorder, with their depths.
    ///
    /// ```
    /// use filch::{Fold, fold, fold::Tasks};
    ///
    /// let chain = fold(|n: u32| n.checked_sub(1), |_| (), |(), ()| (), |()| ());
    /// let visit = chain.with::<Tasks>().explain(3).visit;
    /// assert!(visit.iter().map(|(depth, _)| depth).eq(0..=3));
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Visit)> {
        let mut open = vec![(0, self)];
        std::iter::from_fn(move || {
            let (depth, visit) = open.pop()?;
            open.extend(visit.children.iter().rev().map(|child| (depth + 1, child)));
            Some((depth, visit))
        })
    }

    /// The number of nodes that each worker has entered.
    ///
    /// ```
    /// use filch::{Fold, fold, fold::Tasks};
    ///
    /// let chain = fold(|n: u32| n.checked_sub(1), |_| (), |(), ()| (), |()| ());
    /// let visit = chain.with::<Tasks>().explain(3).visit;
    /// assert_eq!(visit.by_worker().values().sum::<usize>(), 4);
    /// ```
    #[must_use]
    pub fn by_worker(&self) -> BTreeMap<Option<usize>, usize> {
        let mut counts = BTreeMap::new();
        for (_, visit) in self.iter() {
            *counts.entry(visit.entered_by).or_default() += 1;
        }
        counts
    }
}

/// The largest indentation, in levels. It bounds the lines of a long chain, and `fmt` panics at
/// widths above `u16::MAX`.
const MAX_INDENTED_DEPTH: usize = 100;

/// A line for each node, indented by its depth, up to a hundred levels.
impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |worker: Option<usize>| match worker {
            Some(worker) => format!("worker {worker}"),
            None => "outside".to_owned(),
        };
        for (depth, visit) in self.iter() {
            write!(f, "{:1$}", "", 2 * depth.min(MAX_INDENTED_DEPTH))?;
            write!(
                f,
                "{:?} .. {:?} {}",
                visit.began,
                visit.ended,
                name(visit.entered_by)
            )?;
            if visit.finished_by != visit.entered_by {
                write!(f, ", finished by {}", name(visit.finished_by))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit")
            .field("entered_by", &self.entered_by)
            .field("finished_by", &self.finished_by)
            .field("began", &self.began)
            .field("ended", &self.ended)
            .field("children", &self.children.len())
            .finish()
    }
}

/// Drops the tree in a loop, from the outside in: a chain may be long.
impl Drop for Visit {
    fn drop(&mut self) {
        let mut below = mem::take(&mut self.children);
        while let Some(mut visit) = below.pop() {
            below.append(&mut visit.children);
        }
    }
}

/// A fold that records its execution.
struct VisitRecorder<'a, F> {
    fold: &'a F,
    start: Instant,
}

impl<F: Fold> Fold for VisitRecorder<'_, F> {
    type Node = F::Node;
    type Children = F::Children;
    type Accumulator = (F::Accumulator, Visit);
    type Result = (F::Result, Visit);

    fn children(&self, node: F::Node) -> F::Children {
        self.fold.children(node)
    }

    fn init(&self, node: &F::Node) -> Self::Accumulator {
        let began = self.start.elapsed();
        let visit = Visit {
            entered_by: current_worker(),
            finished_by: None,
            began,
            ended: began,
            children: Vec::new(),
        };
        (self.fold.init(node), visit)
    }

    fn accumulate(&self, acc: &mut Self::Accumulator, child: Self::Result) {
        self.fold.accumulate(&mut acc.0, child.0);
        acc.1.children.push(child.1);
    }

    fn finalize(&self, (acc, mut visit): Self::Accumulator) -> Self::Result {
        let result = self.fold.finalize(acc);
        visit.finished_by = current_worker();
        visit.ended = self.start.elapsed();
        (result, visit)
    }
}

fn current_worker() -> Option<usize> {
    WorkerContext::with(|context| context.map(WorkerContext::worker))
}

impl<F: Fold, S: FoldStrategy> Runner<'_, F, S> {
    /// Folds the tree below `root`, and records which worker did what and when. That takes time and
    /// memory for each node, so it is for small trees.
    ///
    /// ```
    /// use filch::{Fold, fold, fold::Adaptive};
    ///
    /// let sum = fold(|n: u32| 0..n, |n| *n, |sum, child| *sum += child, |sum| sum);
    /// let explained = sum.with::<Adaptive>().explain(5);
    /// assert_eq!(explained.result, sum.sequential(5));
    /// println!("{}", explained.visit); // a line for each node
    /// ```
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn explain(&self, root: F::Node) -> Explained<F::Result> {
        let recorder = VisitRecorder {
            fold: self.fold(),
            start: Instant::now(),
        };
        let (result, visit) = self.run_fold(&recorder, root);
        Explained { result, visit }
    }
}
