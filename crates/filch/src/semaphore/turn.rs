//! Waiting for a request: the common part of blocking calls and futures.

use super::{
    error::AcquireError,
    queue::{Notify, Outcome},
    request::{self, Entry},
    state::{Semaphore, Wants},
};
use crate::base::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
use std::{
    sync::{Arc, PoisonError},
    task::{Poll, Wake, Waker},
    time::Instant,
};

/// What is left to do for a request after its first attempt.
pub(super) enum Stage {
    /// It has not been attempted.
    New,
    /// It could not be granted at once.
    Waiting(Turn),
    Over,
}

impl Stage {
    /// Makes the first attempt to take `n` units.
    pub(super) fn begin(semaphore: &Semaphore, n: u64) -> Result<Self, AcquireError> {
        Self::after(semaphore.try_take(n), || Arc::new([(semaphore.clone(), n)]))
    }

    /// Makes the first attempt to take units of several semaphores.
    pub(super) fn begin_all<'s>(
        wanted: impl Iterator<Item = (&'s Semaphore, u64)>,
    ) -> Result<Self, AcquireError> {
        let wants = request::sum_up(wanted)?;
        Self::after(request::try_take(&wants), || wants)
    }

    /// The stage after the first attempt, which has had this outcome.
    fn after(outcome: Outcome, wants: impl FnOnce() -> Wants) -> Result<Self, AcquireError> {
        match outcome {
            Ok(()) => Ok(Self::Over),
            Err(error) if error.is_full() => Ok(Self::Waiting(Turn {
                wants: wants(),
                ticket: None,
            })),
            Err(error) => Err(error),
        }
    }

    /// Makes the first attempt with `begin` if there was none, and checks for the outcome.
    pub(super) fn poll(
        &mut self,
        waker: &Waker,
        begin: impl FnOnce() -> Result<Self, AcquireError>,
    ) -> Poll<Outcome> {
        if let Self::New = self {
            match begin() {
                Ok(Self::Waiting(turn)) => *self = Self::Waiting(turn),
                begun => {
                    *self = Self::Over;
                    return Poll::Ready(begun.map(drop));
                }
            }
        }
        let Self::Waiting(turn) = self else {
            panic!("a future of a semaphore was polled after it was ready")
        };
        let outcome = turn.poll(waker);
        if outcome.is_ready() {
            *self = Self::Over;
        }
        outcome
    }

    /// Blocks until there is an outcome, or until the deadline.
    pub(super) fn block(self, deadline: impl FnOnce() -> Option<Instant>) -> Outcome {
        match self {
            Self::Waiting(turn) => turn.block(deadline()),
            _ => Ok(()),
        }
    }
}

/// One request that has to wait. Dropped before its end, it leaves the queue and gives back what it
/// was granted.
pub(super) struct Turn {
    wants: Wants,
    /// While it is in the queue, or settled with the outcome not yet collected.
    ticket: Option<u64>,
}

impl Turn {
    /// Enters the queue at the first call; afterwards checks for the outcome.
    fn poll(&mut self, waker: &Waker) -> Poll<Outcome> {
        // A waker's `clone` may panic in here; then nothing has changed.
        let outcome = match self.ticket {
            None => match request::enter(&self.wants, Notify::Waker(waker.clone())) {
                Entry::Settled(outcome) => outcome,
                Entry::Queued(ticket) => {
                    self.ticket = Some(ticket);
                    return Poll::Pending;
                }
            },
            Some(ticket) => match request::poll(&self.wants, ticket, waker) {
                Some(outcome) => outcome,
                None => return Poll::Pending,
            },
        };
        self.ticket = None;
        Poll::Ready(outcome)
    }

    /// Blocks until there is an outcome, or until the deadline.
    fn block(mut self, deadline: Option<Instant>) -> Outcome {
        let signal = Arc::new(Signal::new());
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

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            request::cancel(&self.wants, ticket);
        }
    }
}

/// Wakes a blocked thread.
struct Signal {
    woken: Mutex<bool>,
    called: Condvar,
}

impl Signal {
    fn new() -> Self {
        Self {
            woken: Mutex::new(false),
            called: Condvar::new(),
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
                    .called
                    .wait(woken)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    let result = self.called.wait_timeout(woken, left);
                    result.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *woken = false;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.lock() = true;
        self.called.notify_one();
    }
}
