//! The queue of waiting requests, and the wakers to be called.
//!
//! It is protected by a lock of its owner. It never calls, clones or drops a waker, since these run
//! user code.

use super::AcquireError;
use crate::base::unwind;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    mem,
    task::Waker,
};

/// The result of a waiting request.
pub(super) type Outcome = Result<(), AcquireError>;

/// The queued requests in the order of their tickets, and the outcomes that have not been collected
/// yet.
///
/// The holder of a ticket gives it up by collecting its outcome with
/// [`poll_ticket`](Self::poll_ticket) or by [`leave`](Self::leave).
pub(super) struct Waiters<A> {
    next: u64,
    queued: BTreeMap<u64, Waiter<A>>,
    settled: BTreeMap<u64, Outcome>,
}

struct Waiter<A> {
    ask: A,
    waker: Waker,
}

/// The state of a request that was given up.
#[must_use]
pub(super) enum Left<A> {
    /// It was in the queue.
    Queued(A, Waker),
    /// It had been served or refused.
    Settled(Outcome),
}

impl<A> Waiters<A> {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            queued: BTreeMap::new(),
            settled: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queued.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// Enqueues a request behind all others. Tickets are never reused.
    pub(super) fn push(&mut self, ask: A, waker: Waker) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.queued.insert(ticket, Waiter { ask, waker });
        ticket
    }

    /// Iterates over the queue from its head.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &A)> {
        self.queued
            .iter()
            .map(|(&ticket, waiter)| (ticket, &waiter.ask))
    }

    /// Removes `ticket` from the queue and stores `outcome` for it.
    pub(super) fn settle(&mut self, ticket: u64, outcome: Outcome, calls: &mut Calls) -> Option<A> {
        let waiter = self.queued.remove(&ticket)?;
        self.settled.insert(ticket, outcome);
        calls.add(waiter.waker);
        Some(waiter.ask)
    }

    /// Settles the requests that `judge` refuses, and returns them.
    pub(super) fn refuse(&mut self, calls: &mut Calls, judge: impl Fn(&A) -> Outcome) -> Vec<A> {
        let refused: Vec<_> = self
            .iter()
            .filter_map(|(ticket, ask)| Some((ticket, judge(ask).err()?)))
            .collect();
        refused
            .into_iter()
            .filter_map(|(ticket, error)| self.settle(ticket, Err(error), calls))
            .collect()
    }

    /// The outcome of `ticket`, if it is settled; else swaps `waker` with its present one.
    pub(super) fn poll_ticket(&mut self, ticket: u64, waker: &mut Waker) -> Option<Outcome> {
        match self.queued.get_mut(&ticket) {
            Some(waiter) => {
                mem::swap(&mut waiter.waker, waker);
                None
            }
            None => self.settled.remove(&ticket),
        }
    }

    /// Gives up `ticket`.
    pub(super) fn leave(&mut self, ticket: u64) -> Option<Left<A>> {
        match self.queued.entry(ticket) {
            Entry::Occupied(entry) => {
                let Waiter { ask, waker } = entry.remove();
                Some(Left::Queued(ask, waker))
            }
            Entry::Vacant(_) => self.settled.remove(&ticket).map(Left::Settled),
        }
    }
}

/// Wakers to be called after the lock has been released.
///
/// A waker is user code. If one panics, the others are called all the same, and the panic is
/// contained: it would otherwise propagate out of the drop of an unrelated permit.
#[must_use = "somebody sleeps until they are made"]
#[derive(Default)]
pub(super) struct Calls {
    /// Separate from the rest: usually there is one, which then needs no allocation.
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl Calls {
    pub(super) fn add(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.rest.push(waker),
        }
    }

    pub(super) fn make(self) {
        for waker in self.first.into_iter().chain(self.rest) {
            if let Err(payload) = unwind::contain(|| waker.wake()) {
                unwind::discard(payload);
            }
        }
    }
}

/// Drops a waker that is no longer needed, which is user code as well; contains a panic.
pub(super) fn release(waker: Waker) {
    if let Err(payload) = unwind::contain(|| drop(waker)) {
        unwind::discard(payload);
    }
}
