//! The members of a group of futures, and the order of their ends.

use super::FutureError;
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{Mutex, MutexGuard},
        thread, unwind,
    },
    task::wake,
};
use std::{
    collections::{BTreeMap, VecDeque},
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
pub(super) struct EndRecorder {
    ended: SharedEnded,
    key: u64,
}

impl EndRecorder {
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// Returns the future that records its end.
    pub(super) async fn record<F: Future>(self, future: F) -> F::Output {
        let _recorder = self;
        future.await
    }
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

/// The handle of a member of a group. Public in a private module, so that other crates have no
/// implementation.
pub trait MemberHandle: Future<Output = Result<Self::Value, FutureError>> + Unpin {
    /// The output of the future.
    type Value;

    /// Returns the outcome if the future is done; at most once.
    fn try_take(&mut self) -> Option<Self::Output>;

    /// Ends the future.
    fn cancel(&self);
}

/// The result of one member.
type Joined<H> = Result<<H as MemberHandle>::Value, FutureError>;

/// The futures of a group whose ends have not been awaited.
pub(super) struct GroupMembers<H> {
    /// In the order of their spawns, so that runs are deterministic.
    handles: BTreeMap<u64, H>,
    next: u64,
    ended: SharedEnded,
    /// A future that has been dropped, but whose cell is not done yet.
    current: Option<u64>,
}

impl<H: MemberHandle> GroupMembers<H> {
    pub(super) fn new() -> Self {
        Self {
            handles: BTreeMap::new(),
            next: 0,
            ended: SharedEnded::default(),
            current: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns the recorder of a future that is about to be spawned.
    pub(super) fn recorder(&mut self) -> EndRecorder {
        let key = self.next;
        self.next += 1;
        EndRecorder {
            ended: self.ended.clone(),
            key,
        }
    }

    /// Adds the handle of the future with the recorder of this key.
    pub(super) fn insert(&mut self, key: u64, handle: H) {
        self.handles.insert(key, handle);
    }

    pub(super) fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Joined<H>>> {
        loop {
            let next = match self.current {
                Some(key) => Some(key),
                None if self.handles.is_empty() => return Poll::Ready(None),
                None => next_ended(&self.ended, cx.waker()),
            };
            let Some(key) = next else {
                return Poll::Pending;
            };
            self.current = Some(key);
            if let Some(handle) = self.handles.get_mut(&key) {
                let Poll::Ready(result) = Pin::new(handle).poll(cx) else {
                    return Poll::Pending; // it is about to be done
                };
                self.current = None;
                self.handles.remove(&key);
                return Poll::Ready(Some(result));
            }
            self.current = None; // it was detached
        }
    }

    pub(super) async fn join_next(&mut self) -> Option<Joined<H>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    pub(super) fn try_join_next(&mut self) -> Option<Joined<H>> {
        loop {
            let key = match self.current.take() {
                Some(key) => key,
                None => lock(&self.ended).keys.pop_front()?,
            };
            if let Some(handle) = self.handles.get_mut(&key) {
                let Some(result) = handle.try_take() else {
                    self.current = Some(key); // it is about to be done
                    return None;
                };
                self.handles.remove(&key);
                return Some(result);
            }
        }
    }

    pub(super) async fn join_all(&mut self) -> Vec<Joined<H>> {
        let mut results = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            results.push(result);
        }
        results
    }

    pub(super) async fn shutdown(&mut self) {
        self.cancel_all();
        while let Some(result) = self.join_next().await {
            unwind::discard(result);
        }
    }

    pub(super) fn cancel_all(&self) {
        self.handles.values().for_each(H::cancel);
    }

    pub(super) fn detach_all(&mut self) {
        self.current = None;
        // Their records in the old list are not needed any more.
        let ended = mem::take(&mut self.ended);
        let handles = mem::take(&mut self.handles);
        let waker = lock(&ended).waker.take();
        waker.into_iter().for_each(wake);
        drop(handles);
    }
}
