//! The steps of requests under the locks: entering the queues, being granted, refused or cancelled.
//! `semaphore.md` has the protocol.

use super::{
    error::AcquireError,
    queue::{Calls, Notify, Outcome, Queue, Waiter},
    state::{Semaphore, Wants},
    units::Take,
};
use crate::base::{
    canary::{Canary, broken},
    sync::MutexGuard,
};
use std::{sync::Arc, task::Waker};

/// The first step of a request.
#[must_use]
pub(crate) enum Entry {
    Settled(Outcome),
    /// It is queued, with this ticket.
    Queued(u64),
}

impl Semaphore {
    /// [`try_acquire_many`](Self::try_acquire_many) for callers that account for the units
    /// themselves.
    #[inline]
    pub(crate) fn try_take(&self, n: u64) -> Outcome {
        match self.units().take(n) {
            Take::Taken => Ok(()),
            Take::Closed => Err(AcquireError::CLOSED),
            Take::Wait => self.try_take_again(n),
        }
    }

    /// Repeats an attempt that seems to have to wait. A thread that holds the lock sets `WAITING`
    /// for a moment also when no request is queued; under the lock it is exact.
    #[cold]
    fn try_take_again(&self, n: u64) -> Outcome {
        self.check(n)?;
        if self.available() < n {
            return Err(AcquireError::FULL);
        }
        let _queue = self.lock();
        match self.units().take(n) {
            Take::Taken => Ok(()),
            Take::Closed => Err(AcquireError::CLOSED),
            Take::Wait => Err(AcquireError::FULL),
        }
    }

    /// Gives back `n` units that were taken.
    #[inline]
    pub(crate) fn give(&self, n: u64) {
        if self.units().give(n) {
            self.serve();
        }
    }

    /// Removes `n` taken units from the capacity for good. Queued requests that exceed the new
    /// capacity are refused.
    pub(super) fn shrink(&self, n: u64) {
        let queue = self.lock();
        self.set_capacity(self.capacity() - n);
        refuse(queue);
    }

    #[cold]
    fn serve(&self) {
        let mut calls = Calls::default();
        serve(self, &mut calls);
        calls.make();
    }
}

/// Sums up what is wanted of each semaphore.
///
/// # Errors
/// If a semaphore of which no units are wanted is closed. The others are checked when the units are
/// taken.
pub(crate) fn sum_up<'s>(
    wanted: impl IntoIterator<Item = (&'s Semaphore, u64)>,
) -> Result<Wants, AcquireError> {
    let mut wants: Vec<(Semaphore, u64)> = Vec::new();
    for (semaphore, n) in wanted {
        if n == 0 {
            semaphore.check(0)?;
            continue;
        }
        let place = wants.binary_search_by_key(&semaphore.number(), |(other, _)| other.number());
        match place {
            // Saturates: a sum above the maximum never fits.
            Ok(at) => wants[at].1 = wants[at].1.saturating_add(n),
            Err(at) => wants.insert(at, (semaphore.clone(), n)),
        }
    }
    Ok(wants.into())
}

/// Whether a request can ever be granted: no semaphore is closed, and each has the capacity.
fn check(wants: &[(Semaphore, u64)]) -> Outcome {
    for (semaphore, _) in wants {
        semaphore.check(0)?;
    }
    for (semaphore, n) in wants {
        semaphore.check(*n)?;
    }
    Ok(())
}

/// Takes all units if they are free and no queued request wants any of the same semaphores.
pub(crate) fn try_take(wants: &[(Semaphore, u64)]) -> Outcome {
    if let [(semaphore, n)] = wants {
        return semaphore.try_take(*n);
    }
    check(wants)?;
    // The usual reason to wait needs no lock.
    if wants
        .iter()
        .any(|(semaphore, n)| semaphore.available() < *n)
    {
        return Err(AcquireError::FULL);
    }
    let locked = Locked::new(wants);
    let outcome = locked.take(None);
    locked.clear_waiting();
    outcome
}

/// Takes all units, or queues the request.
pub(crate) fn enter(wants: &Wants, notify: Notify) -> Entry {
    let mut locked = Locked::new(wants);
    let outcome = locked.take(None);
    if outcome.as_ref().is_err_and(AcquireError::is_full) {
        return Entry::Queued(locked.push(wants, notify));
    }
    locked.clear_waiting();
    // Dropped after the locks are released, and with panics contained, so that the units are not
    // lost.
    drop(locked);
    notify.discard();
    Entry::Settled(outcome)
}

/// Takes the outcome of `ticket`, if there is one; else `waker` replaces its waker.
pub(super) fn poll(wants: &Wants, ticket: u64, waker: &Waker) -> Option<Outcome> {
    // Cloned and dropped without the lock, since a waker is user code.
    let mut notify = Notify::Waker(waker.clone());
    let (home, _) = &wants[0];
    let outcome = home.lock().poll(ticket, &mut notify);
    notify.discard();
    outcome
}

/// Cancels a request. Returns true if it was queued; units that it was granted and has not
/// collected go back.
pub(crate) fn cancel(wants: &Wants, ticket: u64) -> bool {
    let mut locked = Locked::new(wants);
    let notify = locked.remove(ticket);
    let outcome = locked.queues[0].take_outcome(ticket);
    drop(locked);
    if let Some(notify) = notify {
        if !broken(Canary::SemaphoreMoveUp) {
            let mut calls = Calls::default();
            serve_each(wants, &mut calls);
            calls.make();
        }
        notify.discard();
        return true;
    }
    if outcome == Some(Ok(())) && !broken(Canary::SemaphoreCancel) {
        give(wants);
    }
    false
}

/// Gives back all units.
pub(crate) fn give(wants: &[(Semaphore, u64)]) {
    if let [(semaphore, n)] = wants {
        return semaphore.give(*n);
    }
    // All before the first is served, since the head of a queue may want all of them.
    let given = wants
        .iter()
        .filter(|(semaphore, n)| semaphore.units().give(*n));
    let waited_for: Vec<_> = given.collect();
    let mut calls = Calls::default();
    for (semaphore, _) in waited_for {
        serve(semaphore, &mut calls);
    }
    calls.make();
}

/// Refuses the requests in `queue` that can never be granted.
pub(super) fn refuse(queue: MutexGuard<'_, Queue<Wants>>) {
    let hopeless: Vec<(u64, Wants)> = queue
        .iter()
        .filter(|(_, wants)| check(wants).is_err())
        .map(|(ticket, wants)| (ticket, Arc::clone(wants)))
        .collect();
    drop(queue);
    let mut calls = Calls::default();
    for (ticket, wants) in &hopeless {
        let mut locked = Locked::new(wants);
        // Again, under all of its locks.
        if let Err(error) = check(wants) {
            locked.settle(*ticket, Err(error), &mut calls);
        }
        drop(locked);
        serve_each(wants, &mut calls);
    }
    calls.make();
}

fn serve_each(wants: &[(Semaphore, u64)], calls: &mut Calls) {
    for (semaphore, _) in wants {
        serve(semaphore, calls);
    }
}

/// Grants the requests that can be granted, from the head of the queue. What that makes possible
/// for other semaphores is granted as well.
pub(super) fn serve(semaphore: &Semaphore, calls: &mut Calls) {
    let mut others = Vec::new();
    serve_heads(semaphore, &mut others, calls);
    while let Some(next) = others.pop() {
        serve_heads(&next, &mut others, calls);
    }
}

/// Grants the requests at the head of one queue. Adds to `others` the semaphores whose head may
/// have changed.
fn serve_heads(semaphore: &Semaphore, others: &mut Vec<Semaphore>, calls: &mut Calls) {
    let mut queue = semaphore.lock();
    while let Some((ticket, wants)) = queue.first() {
        if let [(_, n)] = **wants {
            if !semaphore.units().take_for_first(n, queue.len() == 1) {
                return;
            }
            if let Some(notify) = queue.remove(ticket).and_then(|waiter| waiter.notify) {
                queue.settle(ticket, notify, Ok(()), calls);
            }
            continue;
        }
        // The usual reason to wait needs no other lock. The units of other semaphores must not be
        // compared here: two threads that give units to one each could both miss the other's.
        let own = wants.iter().find(|(other, _)| other.is(semaphore));
        if own.is_none_or(|(_, n)| semaphore.available() < *n) {
            return;
        }
        // All locks are taken in the order of the semaphores' numbers, so this one is released.
        let wants = Arc::clone(wants);
        drop(queue);
        let mut locked = Locked::new(&wants);
        // If another thread has settled the request meanwhile, that thread serves its semaphores.
        if locked.take(Some(ticket)).is_err() {
            return;
        }
        locked.settle(ticket, Ok(()), calls);
        drop(locked);
        if !broken(Canary::SemaphoreServeOthers) {
            let rest = wants.iter().filter(|(other, _)| !other.is(semaphore));
            others.extend(rest.map(|(other, _)| other.clone()));
        }
        queue = semaphore.lock();
    }
}

/// The locked queues of all semaphores of a request.
struct Locked<'a> {
    wants: &'a [(Semaphore, u64)],
    queues: Vec<MutexGuard<'a, Queue<Wants>>>,
}

impl<'a> Locked<'a> {
    fn new(wants: &'a [(Semaphore, u64)]) -> Self {
        let queues = wants.iter().map(|(semaphore, _)| semaphore.lock());
        let queues = queues.collect();
        Self { wants, queues }
    }

    fn all(&self) -> impl Iterator<Item = (&'a Semaphore, u64, &Queue<Wants>)> {
        let wants = self.wants.iter().zip(&self.queues);
        wants.map(|((semaphore, n), queue)| (semaphore, *n, &**queue))
    }

    /// Takes all units, if they are free and the request with this ticket is the head of every
    /// queue; without a ticket, if every queue is empty. Leaves `WAITING` set.
    fn take(&self, ticket: Option<u64>) -> Outcome {
        check(self.wants)?;
        let mut is_ready = true;
        for (semaphore, n, queue) in self.all() {
            let is_first = queue.first().map(|(ticket, _)| ticket) == ticket;
            // In a queue that is not empty, `WAITING` is set already.
            is_ready &= is_first && semaphore.units().hold() >= n;
        }
        // The defect that this step exists to rule out: check, then queue.
        let is_blind = broken(Canary::SemaphoreHandover) && ticket.is_none();
        if !is_ready || is_blind {
            return Err(AcquireError::FULL);
        }
        for (semaphore, n, _) in self.all() {
            semaphore.units().take_held(n);
        }
        Ok(())
    }

    /// Clears `WAITING` where the queue is empty.
    fn clear_waiting(&self) {
        for (semaphore, _, _) in self.all().filter(|(_, _, queue)| queue.is_empty()) {
            semaphore.units().clear_waiting();
        }
    }

    /// Enqueues a request behind all others, after [`take`](Self::take) has set `WAITING`.
    fn push(&mut self, wants: &Wants, notify: Notify) -> u64 {
        let tickets = self.queues.iter().map(|queue| queue.next_ticket());
        let ticket = tickets.max().unwrap_or(0);
        let mut notify = Some(notify);
        for queue in &mut self.queues {
            let (wants, notify) = (Arc::clone(wants), notify.take());
            queue.push(ticket, Waiter { wants, notify });
        }
        ticket
    }

    /// Removes a request from all queues, if it is there.
    fn remove(&mut self, ticket: u64) -> Option<Notify> {
        let mut notify = None;
        for queue in &mut self.queues {
            let waiter = queue.remove(ticket);
            notify = notify.or(waiter.and_then(|waiter| waiter.notify));
        }
        self.clear_waiting();
        notify
    }

    /// Settles a request, if it is queued.
    fn settle(&mut self, ticket: u64, outcome: Outcome, calls: &mut Calls) {
        if let Some(notify) = self.remove(ticket) {
            self.queues[0].settle(ticket, notify, outcome, calls);
        }
    }
}
