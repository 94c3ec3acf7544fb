//! The compile-time choices: when work is split off, where it is queued, when results are
//! accumulated, and when workers are woken.

use crate::engine::PerWorker;
use std::marker::PhantomData;

/// The default: folds sequentially, and splits off siblings on demand.
///
/// A worker traverses its part of the tree as [`Fold::sequential`](super::Fold::sequential) does.
/// Every ten microseconds or so, or at each node if nodes take that long, it checks whether its
/// offered siblings were stolen, and if so offers the outermost siblings that it has not reached
/// yet. When it reaches siblings that were not stolen, it takes them back. So the cost of
/// parallelism is paid only when other workers are idle. If nodes take longer than that, all
/// available siblings are always on offer, so that no worker idles while another one is in a long
/// node.
///
/// `A` is when the results of children are accumulated: [`OnArrival`] or [`AtTheEnd`]. A sleeping
/// worker is woken at every `WAKE_EVERY`-th offer; with 0 at the first offer of each part that a
/// worker traverses.
///
/// ```
/// use filch::{Fold, fold, fold::{Adaptive, AtTheEnd}};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.run(10), 512);
/// assert_eq!(leaves.with::<Adaptive>().run(10), 512); // the same
/// assert_eq!(leaves.with::<Adaptive<AtTheEnd, 4>>().run(10), 512);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Adaptive<A = OnArrival, const WAKE_EVERY: u32 = 1>(PhantomData<A>);

/// [`Adaptive`] that wakes at most one worker for each part that a worker traverses: for many small
/// folds beside other work, where sleeping workers should not be woken.
///
/// ```
/// use filch::{Fold, fold, fold::Quiet};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.with::<Quiet>().run(10), 512);
/// ```
pub type Quiet = Adaptive<OnArrival, 0>;

/// A task for each node except the first of its siblings, with which the worker continues. For
/// nodes that take microseconds each, and for comparisons.
///
/// `Q` is where the tasks are queued: [`PerWorker`], where the newest is run first and the oldest
/// is stolen, or [`Shared`](crate::engine::Shared), one FIFO queue for all workers, so that a node
/// is begun before those that were found after it. `A` is when the results of children are
/// accumulated: [`OnArrival`] or [`AtTheEnd`].
///
/// A sleeping worker is woken at every `WAKE_EVERY`-th task that is queued; with 0 at the first one
/// of each task. It has no effect on a shared queue: there one worker is woken at a time, and wakes
/// the next if there is more to do.
///
/// ```
/// use filch::{Fold, engine::{PerWorker, Shared}, fold, fold::{AtTheEnd, Tasks}};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.with::<Tasks>().run(10), 512);
/// assert_eq!(leaves.with::<Tasks<Shared>>().run(10), 512);
/// assert_eq!(leaves.with::<Tasks<PerWorker, AtTheEnd>>().run(10), 512);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tasks<Q = PerWorker, A = OnArrival, const WAKE_EVERY: u32 = 1>(PhantomData<(Q, A)>);

/// A child's result is accumulated as soon as those before it are. See [`Adaptive`].
#[derive(Clone, Copy, Debug)]
pub struct OnArrival;

/// Results are stored until all children are done, and accumulated then, by one worker. See
/// [`Adaptive`].
#[derive(Clone, Copy, Debug)]
pub struct AtTheEnd;

/// Traits that are not implemented outside of this module.
pub(super) mod sealed {
    use super::{AtTheEnd, OnArrival, PerWorker};
    use crate::engine::Shared;

    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a queue for the tasks of a fold",
        note = "use `filch::engine::PerWorker` or `filch::engine::Shared`"
    )]
    pub trait TaskQueue: Send + Sync + 'static {
        const SHARED: bool;
    }

    #[diagnostic::on_unimplemented(
        message = "`{Self}` does not say when a fold accumulates results",
        note = "use `filch::fold::OnArrival` or `filch::fold::AtTheEnd`"
    )]
    pub trait Accumulation: Send + Sync + 'static {
        const AT_THE_END: bool;
    }

    impl TaskQueue for PerWorker {
        const SHARED: bool = false;
    }
    impl TaskQueue for Shared {
        const SHARED: bool = true;
    }
    impl Accumulation for OnArrival {
        const AT_THE_END: bool = false;
    }
    impl Accumulation for AtTheEnd {
        const AT_THE_END: bool = true;
    }
}
