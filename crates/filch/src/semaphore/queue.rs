//! The queue of a semaphore, and how waiters are notified.
//!
//! It is protected by a lock of the semaphore. It never calls, clones or drops a waker, since these
//! run user code.

use super::error::AcquireError;
use crate::base::{id_queue::IdQueue, unwind};
use std::{collections::BTreeMap, mem, sync::Arc, task::Waker};

/// The result of a request.
pub(crate) type AcquireOutcome = Result<(), AcquireError>;

/// Tasks that wait without a thread or a future.
pub(crate) trait Continuation: Send + Sync {
    /// Continues the task that has entered with this key, which means something only to the
    /// implementation. If the outcome is `Ok`, the task has the units and gives them back.
    fn resume(self: Arc<Self>, key: u64, outcome: AcquireOutcome);
}

/// How a waiter is notified.
pub(crate) enum Notify {
    /// The outcome is stored in the queue until the waiter collects it.
    Waker(Waker),
    /// The outcome is passed to the task with this key.
    Task(Arc<dyn Continuation>, u64),
}

impl Notify {
    /// Calls the waker, or resumes the task. Contains a panic, which would otherwise propagate out
    /// of the drop of an unrelated permit.
    fn call(self, outcome: AcquireOutcome) {
        let call = || match self {
            Self::Waker(waker) => waker.wake(),
            Self::Task(tasks, key) => tasks.resume(key, outcome),
        };
        if let Err(payload) = unwind::contain(call) {
            unwind::discard(payload);
        }
    }

    /// Drops it when it is no longer needed, which is user code as well; contains a panic.
    pub(super) fn discard(self) {
        if let Err(payload) = unwind::contain(|| drop(self)) {
            unwind::discard(payload);
        }
    }
}

/// The queued requests in the order of their ids, and the outcomes that have not been collected
/// yet.
///
/// A request for several semaphores is in all of their queues, with the same id. The first of them
/// is its *home*, which has its [`Notify`] and its outcome. `W`: what a request wants.
pub(super) struct RequestQueue<W> {
    next: u64,
    waiters: IdQueue<QueuedRequest<W>>,
    outcomes: BTreeMap<u64, AcquireOutcome>,
}

/// A request in the queue of one semaphore.
pub(super) struct QueuedRequest<W> {
    pub(super) wants: W,
    /// `None` except in the queue that is the request's home.
    pub(super) notify: Option<Notify>,
}

impl<W> RequestQueue<W> {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            waiters: IdQueue::new(),
            outcomes: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Returns the smallest id for a new request. Ids are never reused.
    pub(super) fn next_id(&self) -> u64 {
        self.next
    }

    /// Enqueues a request. Its id is not smaller than the next one.
    pub(super) fn push(&mut self, id: u64, waiter: QueuedRequest<W>) {
        self.next = id + 1;
        self.waiters.push(id, waiter);
    }

    /// Returns the head of the queue.
    pub(super) fn first(&self) -> Option<(u64, &W)> {
        let (id, waiter) = self.waiters.first()?;
        Some((id, &waiter.wants))
    }

    /// Iterates over the queue from its head.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &W)> {
        let waiters = self.waiters.iter();
        waiters.map(|(id, waiter)| (id, &waiter.wants))
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<QueuedRequest<W>> {
        self.waiters.remove(id)
    }

    /// Completes a request that has been removed, and whose home this is: stores the outcome for a
    /// waiter that collects it, and adds the notification.
    pub(super) fn complete(
        &mut self,
        id: u64,
        notify: Notify,
        outcome: AcquireOutcome,
        notifications: &mut Notifications,
    ) {
        if let Notify::Waker(_) = notify {
            self.outcomes.insert(id, outcome.clone());
        }
        notifications.add(notify, outcome);
    }

    /// Takes the outcome of `id`, if there is one; else swaps `notify` with its present one.
    /// Requires the request's home.
    pub(super) fn poll(&mut self, id: u64, notify: &mut Notify) -> Option<AcquireOutcome> {
        match self.waiters.get_mut(id) {
            Some(waiter) => {
                if let Some(present) = &mut waiter.notify {
                    mem::swap(present, notify);
                }
                None
            }
            None => self.take_outcome(id),
        }
    }

    pub(super) fn take_outcome(&mut self, id: u64) -> Option<AcquireOutcome> {
        self.outcomes.remove(&id)
    }
}

/// Notifications to be sent after the locks have been released. If one panics, the others are sent
/// all the same.
#[must_use = "waiters sleep until they are sent"]
#[derive(Default)]
pub(super) struct Notifications {
    /// Separate from the others: usually there is one, which then needs no allocation.
    first: Option<(Notify, AcquireOutcome)>,
    others: Vec<(Notify, AcquireOutcome)>,
}

impl Notifications {
    fn add(&mut self, notify: Notify, outcome: AcquireOutcome) {
        match self.first {
            None => self.first = Some((notify, outcome)),
            Some(_) => self.others.push((notify, outcome)),
        }
    }

    /// Notifies all of them. The caller holds no lock.
    pub(super) fn send(self) {
        for (notify, outcome) in self.first.into_iter().chain(self.others) {
            notify.call(outcome);
        }
    }
}
