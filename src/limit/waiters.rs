//! The queue of those who wait, and the calls that wake them.
//!
//! It lies under a lock of its owner, and never calls a waker, clones or drops one: these run the user's code.

use super::AcquireError;
use crate::base::unwind;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    mem,
    task::Waker,
};

/// What a waiter gets.
pub(super) type Outcome = Result<(), AcquireError>;

/// Those who wait, in the order of their tickets, and what those got who have not looked yet.
///
/// Whoever holds a ticket gives it up by seeing its outcome in [`look`](Self::look) or by
/// [`leave`](Self::leave).
pub(super) struct Waiters<A> {
    next: u64,
    queued: BTreeMap<u64, Waiter<A>>,
    settled: BTreeMap<u64, Outcome>,
}

struct Waiter<A> {
    ask: A,
    waker: Waker,
}

/// What somebody left behind.
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

    /// Queues up behind all others. The ticket is never used again.
    pub(super) fn push(&mut self, ask: A, waker: Waker) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.queued.insert(ticket, Waiter { ask, waker });
        ticket
    }

    /// The queue from its head.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &A)> {
        self.queued
            .iter()
            .map(|(&ticket, waiter)| (ticket, &waiter.ask))
    }

    /// Takes `ticket` out of the queue and keeps `outcome` for it.
    pub(super) fn settle(&mut self, ticket: u64, outcome: Outcome, calls: &mut Calls) -> Option<A> {
        let waiter = self.queued.remove(&ticket)?;
        self.settled.insert(ticket, outcome);
        calls.add(waiter.waker);
        Some(waiter.ask)
    }

    /// Settles all whose request `judge` refuses, and says what they asked for.
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

    /// What became of `ticket`. While it waits, `waker` and its former one change places.
    pub(super) fn look(&mut self, ticket: u64, waker: &mut Waker) -> Option<Outcome> {
        match self.queued.get_mut(&ticket) {
            Some(waiter) => {
                mem::swap(&mut waiter.waker, waker);
                None
            }
            None => self.settled.remove(&ticket),
        }
    }

    /// `ticket` is given up.
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

/// Wakers to be called when the lock has been let go.
///
/// A waker is the user's code. When one panics, the others are called all the same, and the panic ends
/// here: it would otherwise come out of the drop of somebody else's permit.
#[must_use = "somebody sleeps until they are made"]
#[derive(Default)]
pub(super) struct Calls {
    /// Apart from the rest, since one is the rule and needs no allocation.
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

/// Drops a waker that is not needed any more, which is the user's code too.
pub(super) fn release(waker: Waker) {
    if let Err(payload) = unwind::contain(|| drop(waker)) {
        unwind::discard(payload);
    }
}
