//! The steps of requests under the locks: entering the queues, being granted, refused or cancelled.
//! `semaphore.md` has the protocol.

use super::{
    error::AcquireError,
    queue::{AcquireOutcome, Notifications, Notify, QueuedRequest, RequestQueue},
    state::{Semaphore, Wants},
    units::TakeResult,
};
use crate::base::{
    canary::{Canary, broken},
    few_list::FewList,
    sync::MutexGuard,
};
use std::{sync::Arc, task::Waker};

/// Requests for this number of semaphores need no allocation.
const FEW: usize = 4;

/// The result of entering the queues.
#[must_use]
pub(crate) enum EnterResult {
    /// It was granted or refused at once.
    Decided(AcquireOutcome),
    /// It is queued, with this id.
    Queued(u64),
}

impl Semaphore {
    /// [`try_acquire_many`](Self::try_acquire_many) for callers that account for the units
    /// themselves.
    #[inline]
    pub(crate) fn try_take(&self, n: u64) -> AcquireOutcome {
        match self.units().take(n) {
            TakeResult::Taken => Ok(()),
            TakeResult::Closed => Err(AcquireError::CLOSED),
            TakeResult::Wait => self.try_take_again(n),
        }
    }

    /// Takes `n` units if that needs no lock.
    #[inline]
    #[must_use = "what was taken must be given back"]
    pub(crate) fn take_without_lock(&self, n: u64) -> bool {
        self.units().take(n) == TakeResult::Taken
    }

    /// Repeats an attempt that seems to have to wait. A thread that holds the lock sets `WAITING`
    /// for a moment also when no request is queued; under the lock it is exact.
    #[cold]
    fn try_take_again(&self, n: u64) -> AcquireOutcome {
        self.check(n)?;
        if self.available() < n {
            return Err(AcquireError::FULL);
        }
        let _queue = self.lock();
        match self.units().take(n) {
            TakeResult::Taken => Ok(()),
            TakeResult::Closed => Err(AcquireError::CLOSED),
            TakeResult::Wait => Err(AcquireError::FULL),
        }
    }

    /// Gives back `n` units that were taken.
    #[inline]
    pub(crate) fn give(&self, n: u64) {
        if self.units().give(n) {
            self.serve_and_notify();
        }
    }

    /// Removes `n` taken units from the capacity for good. Queued requests that exceed the new
    /// capacity are refused.
    pub(super) fn shrink(&self, n: u64) {
        let queue = self.lock();
        self.set_capacity(self.capacity() - n);
        refuse_impossible(queue);
    }

    #[cold]
    fn serve_and_notify(&self) {
        let mut notifications = Notifications::default();
        serve(self, &mut notifications);
        notifications.send();
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
fn check(wants: &[(Semaphore, u64)]) -> AcquireOutcome {
    for (semaphore, _) in wants {
        semaphore.check(0)?;
    }
    for (semaphore, n) in wants {
        semaphore.check(*n)?;
    }
    Ok(())
}

/// Takes all units if they are free and no queued request wants any of the same semaphores.
pub(crate) fn try_take(wants: &[(Semaphore, u64)]) -> AcquireOutcome {
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
    let locked = LockedQueues::new(wants);
    let outcome = locked.take(None);
    locked.clear_waiting();
    outcome
}

/// Takes all units, or queues the request.
pub(crate) fn enter(wants: &Wants, notify: Notify) -> EnterResult {
    let mut locked = LockedQueues::new(wants);
    let outcome = locked.take(None);
    if outcome.as_ref().is_err_and(AcquireError::is_full) {
        return EnterResult::Queued(locked.push(wants, notify));
    }
    locked.clear_waiting();
    // Dropped after the locks are released, and with panics contained, so that the units are not
    // lost.
    drop(locked);
    notify.discard();
    EnterResult::Decided(outcome)
}

/// Takes the outcome of `id`, if there is one; else `waker` replaces its waker.
pub(super) fn poll(wants: &Wants, id: u64, waker: &Waker) -> Option<AcquireOutcome> {
    // Cloned and dropped without the lock, since a waker is user code.
    let mut notify = Notify::Waker(waker.clone());
    let (home, _) = &wants[0];
    let outcome = home.lock().poll(id, &mut notify);
    notify.discard();
    outcome
}

/// Cancels a request. Returns true if it was queued; units that it was granted and has not
/// collected go back.
pub(crate) fn cancel(wants: &Wants, id: u64) -> bool {
    let mut locked = LockedQueues::new(wants);
    let notify = locked.remove(id);
    let outcome = locked
        .all_mut()
        .next()
        .and_then(|home| home.take_outcome(id));
    drop(locked);
    if let Some(notify) = notify {
        if !broken(Canary::SemaphoreMoveUp) {
            let mut notifications = Notifications::default();
            serve_each(wants, &mut notifications);
            notifications.send();
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
    if put_back(wants) {
        serve_all(wants);
    }
}

/// Gives back all units. Returns whether requests are queued: then the caller calls
/// [`serve_all`].
#[inline]
#[must_use = "a waiter may need them"]
pub(crate) fn put_back(wants: &[(Semaphore, u64)]) -> bool {
    if let [(semaphore, n)] = wants {
        return semaphore.units().give(*n);
    }
    // All before the first is served, since the head of a queue may want all of them.
    let given = wants
        .iter()
        .map(|(semaphore, n)| semaphore.units().give(*n));
    given.fold(false, |waited_for, waits| waited_for | waits)
}

/// Grants the requests that can be granted, of all these semaphores.
#[cold]
pub(crate) fn serve_all(wants: &[(Semaphore, u64)]) {
    let mut notifications = Notifications::default();
    serve_each(wants, &mut notifications);
    notifications.send();
}

/// Refuses the requests in `queue` that can never be granted.
pub(super) fn refuse_impossible(queue: MutexGuard<'_, RequestQueue<Wants>>) {
    let impossible: Vec<(u64, Wants)> = queue
        .iter()
        .filter(|(_, wants)| check(wants).is_err())
        .map(|(id, wants)| (id, Arc::clone(wants)))
        .collect();
    drop(queue);
    let mut notifications = Notifications::default();
    for (id, wants) in &impossible {
        let mut locked = LockedQueues::new(wants);
        // Again, under all of its locks.
        if let Err(error) = check(wants) {
            locked.complete(*id, Err(error), &mut notifications);
        }
        drop(locked);
        serve_each(wants, &mut notifications);
    }
    notifications.send();
}

fn serve_each(wants: &[(Semaphore, u64)], notifications: &mut Notifications) {
    for (semaphore, _) in wants {
        serve(semaphore, notifications);
    }
}

/// Grants the requests that can be granted, from the head of the queue. What that makes possible
/// for other semaphores is granted as well.
pub(super) fn serve(semaphore: &Semaphore, notifications: &mut Notifications) {
    let mut others = FewList::default();
    serve_heads(semaphore, &mut others, notifications);
    while let Some(next) = others.pop() {
        serve_heads(&next, &mut others, notifications);
    }
}

/// Grants the requests at the head of one queue. Adds to `others` the semaphores whose head may
/// have changed.
fn serve_heads(
    semaphore: &Semaphore,
    others: &mut FewList<Semaphore, FEW>,
    notifications: &mut Notifications,
) {
    let mut queue = semaphore.lock();
    while let Some((id, wants)) = queue.first() {
        if let [(_, n)] = **wants {
            if !semaphore.units().take_for_first(n, queue.len() == 1) {
                return;
            }
            if let Some(notify) = queue.remove(id).and_then(|waiter| waiter.notify) {
                queue.complete(id, notify, Ok(()), notifications);
            }
            continue;
        }
        // The usual reason to wait needs no other lock. The units of other semaphores must not be
        // compared here: two threads that give units to one each could both miss the other's.
        let own = wants.iter().find(|(other, _)| other.ptr_eq(semaphore));
        if own.is_none_or(|(_, n)| semaphore.available() < *n) {
            return;
        }
        // All locks are taken in the order of the semaphores' numbers, so this one is released.
        let wants = Arc::clone(wants);
        drop(queue);
        let mut locked = LockedQueues::new(&wants);
        // If another thread has completed the request meanwhile, that thread serves its semaphores.
        if locked.take(Some(id)).is_err() {
            return;
        }
        locked.complete(id, Ok(()), notifications);
        drop(locked);
        if !broken(Canary::SemaphoreServeOthers) {
            let rest = wants.iter().filter(|(other, _)| !other.ptr_eq(semaphore));
            rest.for_each(|(other, _)| others.push(other.clone()));
        }
        queue = semaphore.lock();
    }
}

/// The locked queues of all semaphores of a request. The first is the home of the request.
struct LockedQueues<'a> {
    wants: &'a [(Semaphore, u64)],
    queues: FewList<MutexGuard<'a, RequestQueue<Wants>>, FEW>,
}

impl<'a> LockedQueues<'a> {
    fn new(wants: &'a [(Semaphore, u64)]) -> Self {
        Self {
            wants,
            queues: wants
                .iter()
                .map(|(semaphore, _)| semaphore.lock())
                .collect(),
        }
    }

    fn all(&self) -> impl Iterator<Item = (&'a Semaphore, u64, &RequestQueue<Wants>)> {
        let wants = self.wants.iter().zip(self.queues.iter());
        wants.map(|((semaphore, n), queue)| (semaphore, *n, &**queue))
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut RequestQueue<Wants>> {
        self.queues.iter_mut().map(|queue| &mut **queue)
    }

    /// Takes all units, if they are free and the request with this id is the head of every queue;
    /// without an id, if every queue is empty. Leaves `WAITING` set.
    fn take(&self, id: Option<u64>) -> AcquireOutcome {
        check(self.wants)?;
        let mut is_ready = true;
        for (semaphore, n, queue) in self.all() {
            let is_first = queue.first().map(|(id, _)| id) == id;
            // In a queue that is not empty, `WAITING` is set already.
            is_ready &= is_first && semaphore.units().set_waiting() >= n;
        }
        // The defect that this step exists to rule out: check, then queue.
        let is_blind = broken(Canary::SemaphoreHandover) && id.is_none();
        if !is_ready || is_blind {
            return Err(AcquireError::FULL);
        }
        for (semaphore, n, _) in self.all() {
            semaphore.units().take_while_waiting(n);
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
        let ids = self.all().map(|(_, _, queue)| queue.next_id());
        let id = ids.max().unwrap_or(0);
        let mut notify = Some(notify);
        for queue in self.all_mut() {
            let (wants, notify) = (Arc::clone(wants), notify.take());
            queue.push(id, QueuedRequest { wants, notify });
        }
        id
    }

    /// Removes a request from all queues, if it is there.
    fn remove(&mut self, id: u64) -> Option<Notify> {
        let mut notify = None;
        for queue in self.all_mut() {
            let waiter = queue.remove(id);
            notify = notify.or(waiter.and_then(|waiter| waiter.notify));
        }
        self.clear_waiting();
        notify
    }

    /// Completes a request, if it is queued.
    fn complete(&mut self, id: u64, outcome: AcquireOutcome, notifications: &mut Notifications) {
        if let Some(notify) = self.remove(id)
            && let Some(home) = self.all_mut().next()
        {
            home.complete(id, notify, outcome, notifications);
        }
    }
}
