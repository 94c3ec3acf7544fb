//! Groups of futures that are awaited as they end.

use super::{AbortHandle, FutureError, FutureHandle, spawn_future};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{Mutex, MutexGuard},
        thread, unwind,
    },
    pool::Pool,
    task::wake,
};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    future::poll_fn,
    mem,
    pin::Pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
};

/// The keys of the futures that have ended, in that order.
#[derive(Default)]
struct EndedFutures {
    keys: VecDeque<u64>,
    waker: Option<Waker>,
}

type SharedEnded = Arc<Mutex<EndedFutures>>;

fn lock(ended: &Mutex<EndedFutures>) -> MutexGuard<'_, EndedFutures> {
    ended.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the next key of a future that has ended; if there is none, registers `waker`, which is
/// woken when there is. Wakers are user code, so they are cloned and dropped without the lock.
fn next_ended(ended: &Mutex<EndedFutures>, waker: &Waker) -> Option<u64> {
    let mut cloned = None;
    loop {
        let mut ended = lock(ended);
        let skips_check = cloned.is_some() && broken(Canary::GroupWatch);
        let next = (!skips_check).then(|| ended.keys.pop_front()).flatten();
        let waits = ended.waker.as_ref().is_some_and(|w| w.will_wake(waker));
        if next.is_none() && !waits {
            if cloned.is_none() {
                drop(ended);
                cloned = Some(waker.clone());
                thread::point();
                continue;
            }
            mem::swap(&mut ended.waker, &mut cloned);
        }
        drop(ended);
        unwind::discard(cloned); // unused, or the waker that was replaced
        return next;
    }
}

/// Records the end of a future, whatever its outcome, when it is dropped.
struct EndRecorder {
    ended: SharedEnded,
    key: u64,
}

impl Drop for EndRecorder {
    fn drop(&mut self) {
        let waker = {
            let mut ended = lock(&self.ended);
            ended.keys.push_back(self.key);
            ended.waker.take()
        };
        // It may be dropped by a panic, so a second panic would abort the process.
        waker.into_iter().for_each(wake);
    }
}

/// A group of futures that are spawned one by one and awaited as they end. Dropping the group
/// aborts the remaining ones.
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
pub struct FutureGroup<T> {
    pool: Option<Pool>,
    /// In the order of their spawns, so that runs are deterministic.
    members: BTreeMap<u64, FutureHandle<T>>,
    next: u64,
    ended: SharedEnded,
    /// A future that has been dropped, but whose cell is not done yet.
    current: Option<u64>,
}

impl<T: Send + 'static> FutureGroup<T> {
    /// Creates an empty group. Its futures run on the pool that the spawning thread works for, else
    /// on the global one; [`Pool::future_group`] creates a group of a certain pool.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// group.spawn(async { "anywhere" });
    /// assert_eq!(filch::block_on(group.join_next()).unwrap().unwrap(), "anywhere");
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::on(None)
    }

    fn on(pool: Option<Pool>) -> Self {
        Self {
            pool,
            members: BTreeMap::new(),
            next: 0,
            ended: SharedEnded::default(),
            current: None,
        }
    }

    /// Spawns a future. The returned handle aborts only this one.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// let stuck = group.spawn(std::future::pending::<()>());
    /// stuck.abort();
    /// assert!(filch::block_on(group.join_next()).unwrap().unwrap_err().is_cancelled());
    /// ```
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        let key = self.next;
        self.next += 1;
        let recorder = EndRecorder {
            ended: self.ended.clone(),
            key,
        };
        let member = async move {
            let _recorder = recorder;
            future.await
        };
        let handle = match &self.pool {
            Some(pool) => pool.spawn_future(member),
            None => spawn_future(member),
        };
        let abort = handle.abort_handle();
        self.members.insert(key, handle);
        abort
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
    /// // The other one is aborted with the group.
    /// ```
    pub async fn join_next(&mut self) -> Option<Result<T, FutureError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
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
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, FutureError>>> {
        loop {
            let next = match self.current {
                Some(key) => Some(key),
                None if self.members.is_empty() => return Poll::Ready(None),
                None => next_ended(&self.ended, cx.waker()),
            };
            let Some(key) = next else {
                return Poll::Pending;
            };
            self.current = Some(key);
            if let Some(handle) = self.members.get_mut(&key) {
                let Poll::Ready(result) = Pin::new(handle).poll(cx) else {
                    return Poll::Pending; // it is about to be done
                };
                self.current = None;
                self.members.remove(&key);
                return Poll::Ready(Some(result));
            }
            self.current = None; // it was detached
        }
    }

    /// Waits for all futures; returns their results in the order of their ends.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// group.spawn(async { 1 });
    /// assert_eq!(filch::block_on(group.join_all()).pop().unwrap().unwrap(), 1);
    /// ```
    pub async fn join_all(&mut self) -> Vec<Result<T, FutureError>> {
        let mut results = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            results.push(result);
        }
        results
    }
}

impl<T> FutureGroup<T> {
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
        self.members.is_empty()
    }

    /// Aborts all futures; they can still be awaited.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// group.spawn(std::future::pending::<()>());
    /// group.abort_all();
    /// assert!(filch::block_on(group.join_all())[0].is_err());
    /// ```
    pub fn abort_all(&self) {
        self.members.values().for_each(FutureHandle::abort);
    }

    /// Detaches all futures: they continue, and their outcomes are dropped.
    ///
    /// ```
    /// let mut group = filch::future::FutureGroup::new();
    /// let (send, receive) = std::sync::mpsc::channel();
    /// group.spawn(async move { send.send("done").unwrap() });
    /// group.detach_all();
    /// drop(group); // aborts nothing
    /// assert_eq!(receive.recv(), Ok("done"));
    /// ```
    pub fn detach_all(&mut self) {
        self.current = None;
        // Their records in the old list are not needed any more.
        let ended = mem::take(&mut self.ended);
        let members = mem::take(&mut self.members);
        let waker = lock(&ended).waker.take();
        waker.into_iter().for_each(wake);
        drop(members);
    }
}

impl<T: Send + 'static> Default for FutureGroup<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for FutureGroup<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl<T> fmt::Debug for FutureGroup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureGroup")
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
        FutureGroup::on(Some(self.clone()))
    }
}
