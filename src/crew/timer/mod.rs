//! The one timer of the process.
//!
//! Every deadline of the process is an entry in one [`Queue`], behind one lock, and one thread, `filch-timer`,
//! sleeps until the first of them is due: no polling, and nothing at all while there is no entry.
//!
//! # The thread
//!
//! It starts with the first entry and stays. An idle one costs a few pages of stack; one that came and went
//! would make every later deadline start a thread again, and able to fail. Whether it can be started is
//! decided once, and told by [`Timer::at`] as a [`TimerError`]; the next entry tries again.
//!
//! Nobody joins it, so it never keeps a process from its end. It does not survive a `fork`, as no thread does;
//! the first deadline that is set in the child starts another one, which also serves the entries that the child
//! inherited; also a deadline that needs no entry, since an inherited one comes before: [`Timer::ensure_thread`].
//! (As with any lock, a fork in the very moment in which another thread is inside of the timer leaves the lock
//! taken in the child.)
//!
//! # What wakes it
//!
//! It writes down how long it means to sleep, and an entry wakes it only if it comes earlier. Taking an entry
//! out never wakes it: at the time that it has written down it looks, finds nothing due, and sleeps on. So
//! timeouts that are set and taken back in turn, far in the future, cost no wake each.
//!
//! # Callbacks
//!
//! They run on the thread of the timer, one after the other: in the order of their times, those of the same
//! time in the order of their creation, never early, and outside of the lock. So they must be short. A panic is
//! contained; it has been reported by the panic hook.

mod queue;
#[cfg(all(test, not(filch_loom)))]
mod tests;

use crate::ground::unwind;
use queue::{Queue, Ticket};
use std::{
    error::Error,
    fmt,
    io,
    process,
    // Not through the door to loom's: a lock around plain data, whose users model checks leave out.
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

type Callback = Box<dyn FnOnce() + Send>;

/// A queue of deadlines and the thread that serves it. The process has one, [`Timer::global`].
pub(crate) struct Timer {
    state: Mutex<State>,
    /// There is an entry that comes earlier than the thread means to look.
    earlier: Condvar,
}

struct State {
    queue: Queue<Instant, Callback>,
    /// The process in which the thread runs, or `None` before it was started.
    process: Option<u32>,
    rest: Rest,
}

/// When the thread will look at the queue.
#[derive(Clone, Copy, Debug)]
enum Rest {
    /// Before it sleeps the next time.
    Awake,
    /// At this time at the latest.
    Until(Instant),
    /// When it is woken.
    Forever,
}

static GLOBAL: Timer = Timer::new();

impl Timer {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                queue: Queue::new(),
                process: None,
                rest: Rest::Awake,
            }),
            earlier: Condvar::new(),
        }
    }

    /// The timer of the process.
    pub(crate) fn global() -> &'static Self {
        &GLOBAL
    }

    /// Calls `callback` on the thread of the timer at `at`, or at once when that has passed.
    ///
    /// # Errors
    /// When the thread is not there and cannot be started. The callback has been dropped then.
    pub(crate) fn at(
        &'static self,
        at: Instant,
        callback: impl FnOnce() + Send + 'static,
    ) -> Result<TimerHandle, TimerError> {
        self.at_with(at, Box::new(callback), start)
    }

    fn at_with(
        &'static self,
        at: Instant,
        callback: Callback,
        start: impl FnOnce(&'static Self) -> io::Result<()>,
    ) -> Result<TimerHandle, TimerError> {
        let mut state = self.lock();
        // If this fails, the callback is dropped after the guard, as every parameter is.
        self.start_if_none(&mut state, start)?;
        let wake = match state.rest {
            Rest::Awake => false,
            Rest::Until(time) => at < time,
            Rest::Forever => true,
        };
        let ticket = state.queue.insert(at, callback);
        if wake {
            // The next one that comes later than this need not wake it once more.
            state.rest = Rest::Until(at);
        }
        drop(state);
        if wake {
            self.earlier.notify_one();
        }
        Ok(TimerHandle {
            timer: self,
            ticket: Some(ticket),
        })
    }

    /// Starts the thread if there is none in this process. For those who rely on an entry that is there already: it
    /// may have been inherited by a `fork`, and the thread was not.
    ///
    /// # Errors
    /// When the thread is not there and cannot be started.
    pub(crate) fn ensure_thread(&'static self) -> Result<(), TimerError> {
        self.start_if_none(&mut self.lock(), start)
    }

    fn start_if_none(
        &'static self,
        state: &mut State,
        start: impl FnOnce(&'static Self) -> io::Result<()>,
    ) -> Result<(), TimerError> {
        let here = process::id();
        if state.process != Some(here) {
            start(self).map_err(|source| TimerError { source })?;
            state.process = Some(here);
        }
        Ok(())
    }

    /// What the thread does, for ever.
    fn serve(&self) -> ! {
        let mut state = self.lock();
        loop {
            state.rest = Rest::Awake;
            let now = Instant::now();
            // Those that became due since are found in the next round.
            while let Some(callback) = state.queue.pop_due(now) {
                drop(state);
                if let Err(payload) = unwind::contain(callback) {
                    unwind::discard(payload);
                }
                state = self.lock();
            }
            state = match state.queue.next_at() {
                None => {
                    state.rest = Rest::Forever;
                    self.earlier
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                }
                Some(at) => match at.checked_duration_since(Instant::now()) {
                    None => state,
                    Some(time) => {
                        state.rest = Rest::Until(at);
                        let woken = self.earlier.wait_timeout(state, time);
                        woken.unwrap_or_else(PoisonError::into_inner).0
                    }
                },
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread of `timer`.
fn start(timer: &'static Timer) -> io::Result<()> {
    let thread = thread::Builder::new().name("filch-timer".into());
    // Nobody joins it: see the module. The size of its stack is the usual one, since callbacks of users run there.
    thread.spawn(|| timer.serve()).map(drop)
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Timer")
            .field("queue", &state.queue)
            .field("rest", &state.rest)
            .finish_non_exhaustive()
    }
}

/// One entry of the timer. Dropping it takes the entry out; [`detach`](Self::detach) leaves it.
#[derive(Debug)]
#[must_use = "dropping the handle cancels the entry; call `detach` to leave it"]
pub(crate) struct TimerHandle {
    timer: &'static Timer,
    /// `None` when the entry is no longer ours.
    ticket: Option<Ticket>,
}

impl TimerHandle {
    /// Takes the entry out and drops its callback. True when it was still pending: then the callback has not
    /// run and never will. Otherwise it has run, or is running now; that is not waited for, so the callback
    /// itself may call this.
    #[allow(
        dead_code,
        reason = "for the sleeps and timeouts of futures; tokens drop theirs"
    )]
    pub(crate) fn cancel(mut self) -> bool {
        self.take_out()
    }

    /// Leaves the entry to itself.
    #[allow(dead_code, reason = "for the sleeps and timeouts of futures")]
    pub(crate) fn detach(mut self) {
        self.ticket = None;
    }

    fn take_out(&mut self) -> bool {
        let Some(ticket) = self.ticket.take() else {
            return false;
        };
        let callback = self.timer.lock().queue.remove(ticket);
        let pending = callback.is_some();
        // The lock is free again: what the callback owns may be anybody's.
        unwind::discard(callback);
        pending
    }
}

impl Drop for TimerHandle {
    fn drop(&mut self) {
        self.take_out();
    }
}

/// The timer of the process has no thread, and the system refused to start one.
///
/// The next deadline tries again.
///
/// ```
/// use filch::{CancelToken, TimerError};
/// use std::time::Duration;
///
/// fn a_minute() -> Result<CancelToken, TimerError> {
///     let token = CancelToken::new();
///     token.cancel_after(Duration::from_secs(60))?;
///     Ok(token)
/// }
/// assert!(!a_minute()?.is_cancelled());
/// # Ok::<(), TimerError>(())
/// ```
#[derive(Debug)]
pub struct TimerError {
    source: io::Error,
}

impl fmt::Display for TimerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "could not start the thread of the timer: {}; end other threads and try again",
            self.source
        )
    }
}

impl Error for TimerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
