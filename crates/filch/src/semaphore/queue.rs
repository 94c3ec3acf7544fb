//! The queue of a semaphore, and how waiters are notified.
//!
//! It is protected by a lock of the semaphore. It never calls, clones or drops a waker, since these
//! run user code.

use super::error::AcquireError;
use crate::base::unwind;
use std::{collections::BTreeMap, mem, sync::Arc, task::Waker};

/// The result of a request.
pub(crate) type Outcome = Result<(), AcquireError>;

/// A task that waits without a thread or a future.
pub(crate) trait Continuation: Send + Sync {
    /// Continues the task. If the outcome is `Ok`, the task has the units and gives them back.
    fn resume(self: Arc<Self>, outcome: Outcome);
}

/// How a waiter is notified.
pub(crate) enum Notify {
    /// The outcome is stored in the queue until the waiter collects it.
    Waker(Waker),
    /// The outcome is passed to the task.
    Task(Arc<dyn Continuation>),
}

impl Notify {
    /// Calls it with a panic of a waker contained: it would otherwise propagate out of the drop of
    /// an unrelated permit.
    fn call(self, outcome: Outcome) {
        let call = || match self {
            Self::Waker(waker) => waker.wake(),
            Self::Task(task) => task.resume(outcome),
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

/// The queued requests in the order of their tickets, and the outcomes that have not been collected
/// yet.
///
/// A request for several semaphores is in all of their queues, with the same ticket. The first of
/// them is its *home*, which has its [`Notify`] and its outcome. `W`: what a request wants.
pub(super) struct Queue<W> {
    next: u64,
    waiters: BTreeMap<u64, Waiter<W>>,
    settled: BTreeMap<u64, Outcome>,
}

pub(super) struct Waiter<W> {
    pub(super) wants: W,
    /// `None` except in the queue that is the request's home.
    pub(super) notify: Option<Notify>,
}

impl<W> Queue<W> {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            waiters: BTreeMap::new(),
            settled: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The smallest ticket for a new request. Tickets are never reused.
    pub(super) fn next_ticket(&self) -> u64 {
        self.next
    }

    /// Enqueues a request. Its ticket is not smaller than the next one.
    pub(super) fn push(&mut self, ticket: u64, waiter: Waiter<W>) {
        self.next = ticket + 1;
        self.waiters.insert(ticket, waiter);
    }

    /// The head of the queue.
    pub(super) fn first(&self) -> Option<(u64, &W)> {
        self.iter().next()
    }

    /// Iterates over the queue from its head.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &W)> {
        let waiters = self.waiters.iter();
        waiters.map(|(&ticket, waiter)| (ticket, &waiter.wants))
    }

    pub(super) fn remove(&mut self, ticket: u64) -> Option<Waiter<W>> {
        self.waiters.remove(&ticket)
    }

    /// Settles a request that has been removed, and whose home this is.
    pub(super) fn settle(
        &mut self,
        ticket: u64,
        notify: Notify,
        outcome: Outcome,
        calls: &mut Calls,
    ) {
        if let Notify::Waker(_) = notify {
            self.settled.insert(ticket, outcome.clone());
        }
        calls.add(notify, outcome);
    }

    /// Takes the outcome of `ticket`, if it is settled; else swaps `notify` with its present one.
    /// Requires the request's home.
    pub(super) fn poll(&mut self, ticket: u64, notify: &mut Notify) -> Option<Outcome> {
        match self.waiters.get_mut(&ticket) {
            Some(waiter) => {
                if let Some(present) = &mut waiter.notify {
                    mem::swap(present, notify);
                }
                None
            }
            None => self.take_outcome(ticket),
        }
    }

    pub(super) fn take_outcome(&mut self, ticket: u64) -> Option<Outcome> {
        self.settled.remove(&ticket)
    }
}

/// Notifications to be made after the locks have been released. If one panics, the others are made
/// all the same.
#[must_use = "waiters sleep until they are made"]
#[derive(Default)]
pub(super) struct Calls {
    /// Separate from the rest: usually there is one, which then needs no allocation.
    first: Option<(Notify, Outcome)>,
    rest: Vec<(Notify, Outcome)>,
}

impl Calls {
    fn add(&mut self, notify: Notify, outcome: Outcome) {
        match self.first {
            None => self.first = Some((notify, outcome)),
            Some(_) => self.rest.push((notify, outcome)),
        }
    }

    pub(super) fn make(self) {
        for (notify, outcome) in self.first.into_iter().chain(self.rest) {
            notify.call(outcome);
        }
    }
}
