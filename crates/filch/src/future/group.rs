//! Groups of futures that are awaited as they end.

use super::{
    CancelHandle, FutureError, FutureHandle, LocalHandle,
    group_members::{GroupMembers, MemberHandle},
    spawn_future,
};
use crate::pool::Pool;
use std::{
    fmt,
    task::{Context, Poll},
};

/// A group of futures that are spawned one by one and awaited as they end. Dropping the group
/// cancels the remaining ones.
///
/// ```
/// use filch::future::FutureGroup;
///
/// let mut group = FutureGroup::new();
/// for n in 0..10 {
///     group.spawn(async move { n * n });
/// }
/// let sum = filch::block_on(async {
///     let mut sum = 0;
///     while let Some(square) = group.join_next().await {
///         sum += square.unwrap();
///     }
///     sum
/// });
/// assert_eq!(sum, 285);
/// ```
#[doc(alias("JoinSet", "FuturesUnordered", "select"))]
pub type FutureGroup<T> = HandleGroup<FutureHandle<T>>;

/// The groups of futures: [`FutureGroup`] of a pool, [`LocalGroup`](super::LocalGroup) of a
/// [`LocalSet`](super::LocalSet). They differ in how futures are spawned.
///
/// ```
/// use filch::future::{FutureGroup, GroupHandle, HandleGroup, LocalGroup, LocalSet};
///
/// async fn succeeded<H: GroupHandle>(group: &mut HandleGroup<H>) -> usize {
///     group.join_all().await.iter().filter(|result| result.is_ok()).count()
/// }
/// let (set, mut local, mut group) = (LocalSet::new(), LocalGroup::new(), FutureGroup::new());
/// local.spawn_local_on(&set, async { 1 });
/// group.spawn(async { 2 });
/// assert_eq!(set.block_on(succeeded(&mut local)), 1);
/// assert_eq!(filch::block_on(succeeded(&mut group)), 1);
/// ```
pub struct HandleGroup<H: GroupHandle> {
    /// The pool of a [`FutureGroup`], if it has a certain one.
    pool: Option<Pool>,
    pub(super) members: GroupMembers<H>,
}

/// The handle of a future that can be in a [`HandleGroup`]: [`FutureHandle`] or [`LocalHandle`].
///
/// ```
/// use filch::future::{FutureGroup, GroupHandle, HandleGroup};
///
/// fn is_done<H: GroupHandle>(group: &HandleGroup<H>) -> bool {
///     group.is_empty()
/// }
/// assert!(is_done(&FutureGroup::<u8>::new()));
/// ```
pub trait GroupHandle: MemberHandle {}

impl<T> GroupHandle for FutureHandle<T> {}
impl<T> GroupHandle for LocalHandle<T> {}

impl<T: Send + 'static> FutureGroup<T> {
    /// Spawns a future. The returned handle cancels only this one.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// let stuck = group.spawn(std::future::pending::<()>());
    /// stuck.cancel();
    /// assert!(filch::block_on(group.join_next()).unwrap().unwrap_err().is_cancelled());
    /// ```
    pub fn spawn<F>(&mut self, future: F) -> CancelHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        let recorder = self.members.recorder();
        let (key, member) = (recorder.key(), recorder.record(future));
        let handle = match &self.pool {
            Some(pool) => pool.spawn_future(member),
            None => spawn_future(member),
        };
        let cancel = handle.cancel_handle();
        self.members.insert(key, handle);
        cancel
    }
}

impl<H: GroupHandle> HandleGroup<H> {
    /// Creates an empty group. The futures of a [`FutureGroup`] run on the [current
    /// pool](crate::Pool#the-current-pool) of the spawning thread; [`Pool::future_group`] creates a
    /// group of a certain pool.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// group.spawn(async { "anywhere" });
    /// assert_eq!(filch::block_on(group.join_next()).unwrap().unwrap(), "anywhere");
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::on_pool(None)
    }

    fn on_pool(pool: Option<Pool>) -> Self {
        Self {
            pool,
            members: GroupMembers::new(),
        }
    }

    /// Waits for the next future to end; returns `None` when there are none. Cancel safe: no result
    /// is lost when this is dropped while it waits.
    ///
    /// ```
    /// use filch::{future::FutureGroup, time};
    /// use std::time::Duration;
    ///
    /// let mut group = FutureGroup::new();
    /// for ms in [20, 1] {
    ///     group.spawn(async move {
    ///         time::sleep(Duration::from_millis(ms)).await;
    ///         ms
    ///     });
    /// }
    /// assert_eq!(filch::block_on(group.join_next()).unwrap().unwrap(), 1);
    /// // The other one is cancelled with the group.
    /// ```
    pub async fn join_next(&mut self) -> Option<Result<H::Value, FutureError>> {
        self.members.join_next().await
    }

    /// The poll function of [`join_next`](Self::join_next). Only the waker of the last call is
    /// woken.
    ///
    /// ```
    /// use filch::future::FutureGroup;
    /// use std::{future::poll_fn, task::Poll};
    ///
    /// let mut group = FutureGroup::<u8>::new();
    /// let none = filch::block_on(poll_fn(|cx| group.poll_join_next(cx)));
    /// assert!(none.is_none());
    /// ```
    pub fn poll_join_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<H::Value, FutureError>>> {
        self.members.poll_join_next(cx)
    }

    /// [`join_next`](Self::join_next) without a wait: returns the result of a future that has
    /// ended, if there is one.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// assert!(group.try_join_next().is_none());
    /// group.spawn(async { 7 });
    /// let seven = loop {
    ///     if let Some(result) = group.try_join_next() {
    ///         break result.unwrap();
    ///     }
    ///     std::thread::yield_now();
    /// };
    /// assert_eq!(seven, 7);
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<H::Value, FutureError>> {
        self.members.try_join_next()
    }

    /// Waits for all futures; returns their results in the order of their ends.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// group.spawn(async { 1 });
    /// assert_eq!(filch::block_on(group.join_all()).pop().unwrap().unwrap(), 1);
    /// ```
    pub async fn join_all(&mut self) -> Vec<Result<H::Value, FutureError>> {
        self.members.join_all().await
    }

    /// Cancels all futures, waits until they have ended, and drops their results.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// group.spawn(std::future::pending::<()>());
    /// filch::block_on(group.shutdown());
    /// assert!(group.is_empty());
    /// ```
    pub async fn shutdown(&mut self) {
        self.members.shutdown().await;
    }

    /// Returns the number of futures whose end has not been awaited.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// assert!(group.is_empty());
    /// group.spawn(async {});
    /// assert_eq!(group.len(), 1); // also when it is done
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the end of every future has been awaited.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// group.spawn(async { 1 });
    /// while !group.is_empty() {
    ///     assert_eq!(filch::block_on(group.join_next()).unwrap().unwrap(), 1);
    /// }
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels all futures; they can still be awaited. Those of a [`LocalSet`](super::LocalSet)
    /// that are not being polled are dropped at once.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// group.spawn(std::future::pending::<()>());
    /// group.cancel_all();
    /// assert!(filch::block_on(group.join_all())[0].is_err());
    /// ```
    #[doc(alias = "abort_all")]
    pub fn cancel_all(&self) {
        self.members.cancel_all();
    }

    /// Detaches all futures: they continue, and their outcomes are dropped.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// let (send, receive) = std::sync::mpsc::channel();
    /// group.spawn(async move { send.send("done").unwrap() });
    /// group.detach_all();
    /// drop(group); // cancels nothing
    /// assert_eq!(receive.recv(), Ok("done"));
    /// ```
    pub fn detach_all(&mut self) {
        self.members.detach_all();
    }
}

impl<T> MemberHandle for FutureHandle<T> {
    type Value = T;

    fn try_take(&mut self) -> Option<Self::Output> {
        self.take_outcome()
    }

    fn cancel(&self) {
        Self::cancel(self);
    }
}

/// Spawns all of them.
///
/// ```
/// use filch::future::FutureGroup;
///
/// let mut group: FutureGroup<u32> = (1..=3).map(|n| async move { n * n }).collect();
/// let squares = filch::block_on(group.join_all());
/// assert_eq!(squares.into_iter().map(Result::unwrap).sum::<u32>(), 14);
/// ```
impl<F> FromIterator<F> for FutureGroup<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        let mut group = Self::new();
        for future in futures {
            group.spawn(future);
        }
        group
    }
}

impl<H: GroupHandle> Default for HandleGroup<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: GroupHandle> Drop for HandleGroup<H> {
    fn drop(&mut self) {
        self.cancel_all();
    }
}

impl<H: GroupHandle> fmt::Debug for HandleGroup<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandleGroup")
            .field("len", &self.len())
            .finish()
    }
}

impl Pool {
    /// Creates a [group](FutureGroup) of futures on this pool. It keeps the pool alive.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let mut group = pool.future_group();
    /// group.spawn(async { 7 });
    /// assert_eq!(pool.block_on(group.join_next()).unwrap().unwrap(), 7);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn future_group<T: Send + 'static>(&self) -> FutureGroup<T> {
        FutureGroup::on_pool(Some(self.clone()))
    }
}
