//! Waiting in the queue of a limit: the common part of blocking calls and futures.

use super::{AcquireError, waiters::Outcome};
use crate::base::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
use std::{
    borrow::Cow,
    mem,
    sync::{Arc, PoisonError},
    task::{Poll, Wake, Waker},
    time::Instant,
};

/// A source of units with a queue for requests that must wait.
pub(super) trait Limit: Clone + 'static {
    /// A request.
    type Ask: Default;

    /// Takes the units, or queues up for them.
    fn enter(&self, ask: &Self::Ask, waker: &Waker) -> Entry;

    /// The outcome of `ticket`, if there is one; else `waker` replaces its waker.
    fn poll_ticket(&self, ticket: u64, waker: &Waker) -> Option<Outcome>;

    /// Gives up `ticket`. Units that it was granted go back.
    fn leave(&self, ticket: u64, ask: &Self::Ask);
}

/// The first step of a request.
#[must_use]
pub(super) enum Entry {
    Settled(Outcome),
    Queued(u64),
}

/// What a permit is made of: the limit, and the granted units.
pub(super) type Granted<'a, L> = (Cow<'a, L>, <L as Limit>::Ask);

/// One request. Dropped before its end, it leaves the queue and gives back what it was granted.
pub(super) struct Turn<'a, L: Limit> {
    limit: Cow<'a, L>,
    ask: L::Ask,
    stage: Stage,
}

enum Stage {
    /// Not queued yet.
    New,
    /// Refused before it could be queued.
    Refused(AcquireError),
    /// In the queue, or settled with the outcome not yet collected.
    Waiting(u64),
    Over,
}

impl<'a, L: Limit> Turn<'a, L> {
    pub(super) fn new(limit: Cow<'a, L>, ask: L::Ask) -> Self {
        Self {
            limit,
            ask,
            stage: Stage::New,
        }
    }

    /// Creates a request that ends with `error`.
    pub(super) fn refused(limit: Cow<'a, L>, error: AcquireError) -> Self {
        Self {
            limit,
            ask: L::Ask::default(),
            stage: Stage::Refused(error),
        }
    }

    /// Enters the queue at the first call; afterwards checks for the outcome.
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<Granted<'a, L>, AcquireError>> {
        // A waker's `clone` may panic in here; then the stage is unchanged.
        let outcome = match &mut self.stage {
            Stage::New => match self.limit.enter(&self.ask, waker) {
                Entry::Settled(outcome) => outcome,
                Entry::Queued(ticket) => {
                    self.stage = Stage::Waiting(ticket);
                    return Poll::Pending;
                }
            },
            Stage::Waiting(ticket) => match self.limit.poll_ticket(*ticket, waker) {
                Some(outcome) => outcome,
                None => return Poll::Pending,
            },
            Stage::Refused(error) => Err(error.clone()),
            Stage::Over => panic!("a future of a budget was polled after it was ready"),
        };
        self.stage = Stage::Over;
        Poll::Ready(outcome.map(|()| (self.limit.clone(), mem::take(&mut self.ask))))
    }

    /// Blocks until there is an outcome, or until the deadline.
    pub(super) fn block(
        mut self,
        deadline: Option<Instant>,
    ) -> Result<Granted<'a, L>, AcquireError> {
        let signal = Arc::new(Signal::new());
        let waker = Waker::from(Arc::clone(&signal));
        loop {
            if let Poll::Ready(result) = self.poll(&waker) {
                return result;
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(AcquireError::TIMEOUT);
            }
            signal.wait(deadline);
        }
    }

    /// Converts to the same request with its own handle.
    pub(super) fn into_owned(mut self) -> Turn<'static, L> {
        Turn {
            limit: Cow::Owned(self.limit.clone().into_owned()),
            ask: mem::take(&mut self.ask),
            stage: mem::replace(&mut self.stage, Stage::Over),
        }
    }
}

impl<L: Limit> Drop for Turn<'_, L> {
    fn drop(&mut self) {
        if let Stage::Waiting(ticket) = self.stage {
            self.limit.leave(ticket, &self.ask);
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
