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
/// use filch::{Fold, fold, fold::FewWakes};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.with::<FewWakes>().run(10), 512);
/// ```
pub type FewWakes = Adaptive<OnArrival, 0>;

/// A task for each node except the first of its siblings, with which the worker continues. For
/// nodes that take microseconds each, and for comparisons.
///
/// `Q` is where the tasks are queued: [`PerWorker`], where the newest is run first and the oldest
/// is stolen; [`Shared`](crate::engine::Shared), one FIFO queue for all workers, so that a node is
/// begun before those that were found after it; or a [strategy](crate::engine::Strategy) of the
/// program, with its default settings. Siblings are queued with the last one first. `A` is when the
/// results of children are accumulated: [`OnArrival`] or [`AtTheEnd`].
///
/// A sleeping worker is woken at every `WAKE_EVERY`-th task that is queued; with 0 at the first one
/// of each task. It has no effect on other strategies than `PerWorker`: there one worker is woken
/// at a time, and wakes the next if there is more to do.
///
/// ```
/// use filch::{Fold, engine::{PerWorker, Shared}, fold, fold::{AtTheEnd, Tasks}};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.with::<Tasks>().run(10), 512);
/// assert_eq!(leaves.with::<Tasks<Shared>>().run(10), 512);
/// assert_eq!(leaves.with::<Tasks<PerWorker, AtTheEnd>>().run(10), 512);
/// ```
///
/// A queue of the program's own, a stack that all workers share:
///
/// ```
/// use filch::{BuildError, Fold, engine::{Acquired, Hunt, Queue, Strategy}, fold, fold::Tasks};
/// use std::sync::Mutex;
///
/// struct OneStack;
/// struct Handle<'a, T>(&'a Mutex<Vec<T>>);
///
/// impl Strategy for OneStack {
///     type Spec = ();
///     type Store<T: Send> = Mutex<Vec<T>>;
///     type Handle<'a, T: Send + 'a> = Handle<'a, T>;
///
///     fn store<T: Send>(_: &(), _workers: usize) -> Result<Mutex<Vec<T>>, BuildError> {
///         Ok(Mutex::default())
///     }
///     fn handle<T: Send>(store: &Mutex<Vec<T>>, _worker: usize) -> Handle<'_, T> {
///         Handle(store)
///     }
///     fn has_work<T: Send>(store: &Mutex<Vec<T>>) -> bool {
///         !store.lock().unwrap().is_empty()
///     }
///     fn reset<T: Send>(store: &Mutex<Vec<T>>, give: impl FnMut(T)) {
///         std::mem::take(&mut *store.lock().unwrap()).into_iter().for_each(give);
///     }
/// }
///
/// impl<T: Send> Queue<T> for Handle<'_, T> {
///     fn push(&mut self, task: T) -> Result<(), T> {
///         self.0.lock().unwrap().push(task);
///         Ok(())
///     }
///     fn pop(&mut self) -> Option<T> {
///         self.0.lock().unwrap().pop()
///     }
///     fn pop_oldest(&mut self) -> Option<T> {
///         self.pop()
///     }
///     fn try_acquire(&mut self, _hunt: &mut Hunt<'_>) -> Acquired<T> {
///         Acquired::Nothing // `pop` has checked everything already
///     }
///     fn drain_own(&mut self, _give: impl FnMut(T)) {}
/// }
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.with::<Tasks<OneStack>>().run(10), 512);
/// ```
///
/// # Panics
/// With another strategy than `PerWorker` and `Shared`, a fold panics if the strategy refuses its
/// default settings or loses a task. A panic of the strategy itself ends the process, as in an
/// [`Executor`](crate::Executor).
#[derive(Clone, Copy, Debug)]
pub struct Tasks<Q = PerWorker, A = OnArrival, const WAKE_EVERY: u32 = 1>(
    PhantomData<(fn() -> Q, A)>,
);

/// A child's result is accumulated as soon as those before it are. See [`Adaptive`].
#[derive(Clone, Copy, Debug)]
pub struct OnArrival;

/// Results are stored until all children are done, and accumulated then, by one worker. See
/// [`Adaptive`].
#[derive(Clone, Copy, Debug)]
pub struct AtTheEnd;

/// A trait that is not implemented outside of this module.
pub(super) mod sealed {
    use super::{AtTheEnd, OnArrival};

    #[diagnostic::on_unimplemented(
        message = "`{Self}` does not say when a fold accumulates results",
        note = "use `filch::fold::OnArrival` or `filch::fold::AtTheEnd`"
    )]
    pub trait Accumulation: Send + Sync + 'static {
        const AT_THE_END: bool;
    }

    impl Accumulation for OnArrival {
        const AT_THE_END: bool = false;
    }
    impl Accumulation for AtTheEnd {
        const AT_THE_END: bool = true;
    }
}
