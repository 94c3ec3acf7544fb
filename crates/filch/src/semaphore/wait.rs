//! Waiting for a request: the common part of blocking calls and futures.

use super::{
    error::AcquireError,
    queue::{AcquireOutcome, Notify},
    request::{self, EnterResult},
    state::{Semaphore, Wants},
};
use crate::base::{
    Instant,
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
use std::{
    sync::{Arc, PoisonError},
    task::{Poll, Wake, Waker},
};

/// How far a request has come.
pub(super) enum RequestStage {
    /// It has not been attempted.
    New,
    /// It could not be granted at once.
    Waiting(WaitingRequest),
    /// It was granted or refused.
    Done,
}

impl RequestStage {
    /// Makes the first attempt to take `n` units.
    pub(super) fn begin(semaphore: &Semaphore, n: u64) -> Result<Self, AcquireError> {
        Self::from_attempt(semaphore.try_take(n), || Arc::new([(semaphore.clone(), n)]))
    }

    /// Makes the first attempt to take units of several semaphores.
    pub(super) fn begin_all<'s>(
        wanted: impl Iterator<Item = (&'s Semaphore, u64)>,
    ) -> Result<Self, AcquireError> {
        let wants = request::sum_up(wanted)?;
        Self::from_attempt(request::try_take(&wants), || wants)
    }

    /// Returns the stage after the first attempt, which has had this outcome.
    fn from_attempt(
        outcome: AcquireOutcome,
        wants: impl FnOnce() -> Wants,
    ) -> Result<Self, AcquireError> {
        match outcome {
            Ok(()) => Ok(Self::Done),
            Err(error) if error.is_full() => Ok(Self::Waiting(WaitingRequest {
                wants: wants(),
                id: None,
            })),
            Err(error) => Err(error),
        }
    }

    /// Makes the first attempt with `begin` if there was none, and checks for the outcome.
    pub(super) fn poll(
        &mut self,
        waker: &Waker,
        begin: impl FnOnce() -> Result<Self, AcquireError>,
    ) -> Poll<AcquireOutcome> {
        if let Self::New = self {
            match begin() {
                Ok(Self::Waiting(request)) => *self = Self::Waiting(request),
                begun => {
                    *self = Self::Done;
                    return Poll::Ready(begun.map(drop));
                }
            }
        }
        let Self::Waiting(request) = self else {
            panic!("a future of a semaphore was polled after it was ready")
        };
        let outcome = request.poll(waker);
        if outcome.is_ready() {
            *self = Self::Done;
        }
        outcome
    }

    /// Blocks until there is an outcome, or until the deadline.
    pub(super) fn block(self, deadline: impl FnOnce() -> Option<Instant>) -> AcquireOutcome {
        match self {
            Self::Waiting(request) => request.block(deadline()),
            _ => Ok(()),
        }
    }
}

/// One request that has to wait. Dropped before its end, it leaves the queue and gives back what it
/// was granted.
pub(super) struct WaitingRequest {
    wants: Wants,
    /// Its id in the queues; `None` before it enters them and after its outcome was collected.
    id: Option<u64>,
}

impl WaitingRequest {
    /// Enters the queue at the first call; afterwards checks for the outcome.
    fn poll(&mut self, waker: &Waker) -> Poll<AcquireOutcome> {
        // A waker's `clone` may panic in here; then nothing has changed.
        let outcome = match self.id {
            None => match request::enter(&self.wants, Notify::Waker(waker.clone())) {
                EnterResult::Decided(outcome) => outcome,
                EnterResult::Queued(id) => {
                    self.id = Some(id);
                    return Poll::Pending;
                }
            },
            Some(id) => match request::poll(&self.wants, id, waker) {
                Some(outcome) => outcome,
                None => return Poll::Pending,
            },
        };
        self.id = None;
        Poll::Ready(outcome)
    }

    /// Blocks until there is an outcome, or until the deadline.
    fn block(mut self, deadline: Option<Instant>) -> AcquireOutcome {
        let signal = Arc::new(BlockedThread::new());
        let waker = Waker::from(Arc::clone(&signal));
        loop {
            if let Poll::Ready(outcome) = self.poll(&waker) {
                return outcome;
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(AcquireError::TIMEOUT);
            }
            signal.wait(deadline);
        }
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            request::cancel(&self.wants, id);
        }
    }
}

/// A thread that blocks until its waker is called.
struct BlockedThread {
    woken: Mutex<bool>,
    notified: Condvar,
}

impl BlockedThread {
    fn new() -> Self {
        Self {
            woken: Mutex::new(false),
            notified: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until `wake` is called, or until the deadline.
    fn wait(&self, deadline: Option<Instant>) {
        if thread::wait_until(deadline, || *self.lock()) {
            *self.lock() = false;
            return;
        }
        let mut woken = self.lock();
        while !*woken {
            woken = match deadline {
                None => self
                    .notified
                    .wait(woken)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    let result = self.notified.wait_timeout(woken, left);
                    result.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *woken = false;
    }
}

impl Wake for BlockedThread {
    fn wake(self: Arc<Self>) {
        *self.lock() = true;
        self.notified.notify_one();
    }
}
