//! Futures that belong together.

use super::{AbortHandle, FutureError, FutureHandle, spawn_future};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{Mutex, MutexGuard},
        thread, unwind,
    },
    pool::Pool,
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

/// Which members are gone, in that order.
#[derive(Default)]
struct Gone {
    keys: VecDeque<u64>,
    waker: Option<Waker>,
}

type Shared = Arc<Mutex<Gone>>;

fn lock(gone: &Mutex<Gone>) -> MutexGuard<'_, Gone> {
    gone.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next that is gone; else whoever calls this is woken by `waker` when one is. Wakers are cloned and dropped without the
/// lock: that is other people's code.
fn next_gone(gone: &Mutex<Gone>, waker: &Waker) -> Option<u64> {
    let mut fresh = None;
    loop {
        let mut gone = lock(gone);
        let blind = fresh.is_some() && broken(Canary::GroupWatch);
        let next = (!blind).then(|| gone.keys.pop_front()).flatten();
        let waits = gone.waker.as_ref().is_some_and(|w| w.will_wake(waker));
        if next.is_none() && !waits {
            if fresh.is_none() {
                drop(gone);
                fresh = Some(waker.clone());
                thread::point();
                continue;
            }
            mem::swap(&mut gone.waker, &mut fresh);
        }
        drop(gone);
        unwind::discard(fresh); // or the one from before
        return next;
    }
}

/// Calls the waker of whoever waits. What it panics with is nobody's.
fn tell(waker: Option<Waker>) {
    if let Some(waker) = waker
        && let Err(payload) = unwind::contain(|| waker.wake())
    {
        unwind::discard(payload);
    }
}

/// Notes that a member is gone, whatever became of it.
struct Note {
    gone: Shared,
    key: u64,
}

impl Drop for Note {
    fn drop(&mut self) {
        let waker = {
            let mut gone = lock(&self.gone);
            gone.keys.push_back(self.key);
            gone.waker.take()
        };
        // It may be dropped by a panic; another one would end the process.
        tell(waker);
    }
}

/// Futures that are spawned one by one and awaited as they end. Dropping the group aborts those that are left.
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
    /// In the order of their spawns, so that every run is the same.
    members: BTreeMap<u64, FutureHandle<T>>,
    next: u64,
    gone: Shared,
    /// One that is gone, but not quite done.
    current: Option<u64>,
}

impl<T: Send + 'static> FutureGroup<T> {
    /// A group without futures. They run on the pool that whoever spawns them works for, else on the global one;
    /// [`Pool::future_group`] makes one of a certain pool.
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
            gone: Shared::default(),
            current: None,
        }
    }

    /// Spawns a future. What is returned can abort it alone.
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
        let note = Note {
            gone: self.gone.clone(),
            key,
        };
        let member = async move {
            let _note = note;
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

    /// Waits for the next future to end; `None` when there are none. May be dropped while it waits: nothing is lost.
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

    /// [`join_next`](Self::join_next) for those who poll. Whoever polled last is woken.
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
                None => next_gone(&self.gone, cx.waker()),
            };
            let Some(key) = next else {
                return Poll::Pending;
            };
            self.current = Some(key);
            if let Some(handle) = self.members.get_mut(&key) {
                let Poll::Ready(result) = Pin::new(handle).poll(cx) else {
                    return Poll::Pending; // for a moment
                };
                self.current = None;
                self.members.remove(&key);
                return Poll::Ready(Some(result));
            }
            self.current = None; // it was detached
        }
    }

    /// Waits for all, and gives what came of them in the order of their ends.
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
    /// How many futures there are whose end has not been awaited.
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

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Aborts all; they can be awaited still.
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

    /// Lets all go on with nobody waiting for them.
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
        // What they have noted, and will note, is of no interest.
        let gone = mem::take(&mut self.gone);
        let members = mem::take(&mut self.members);
        let waker = lock(&gone).waker.take();
        tell(waker);
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
    /// A [group](FutureGroup) of futures on this pool. It keeps the pool alive.
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
