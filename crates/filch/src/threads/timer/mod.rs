//! The one timer of the process.
//!
//! Every deadline and every sleep of the process is an entry in one [wheel](TimerWheel), behind one
//! lock, and one thread, `filch-timer`, sleeps until the first of them is due. There is no polling,
//! and no cost while there is no entry.
//!
//! # The thread
//!
//! It starts with the first entry and stays. An idle thread costs a few pages of stack. A thread
//! that ended when idle would have to be started again for later deadlines, and that start could
//! fail. Whether it can be started is decided once, and reported by [`Timer::at`] as a
//! [`TimerError`]; the next entry tries again.
//!
//! The thread is never joined, so it never prevents the process from ending. It does not survive a
//! `fork`, as no thread does. The first deadline that is set in the child starts another one, which
//! also serves the entries that the child inherited. So does a deadline that needs no entry, since
//! an inherited one comes before: [`Timer::ensure_thread`]. (As with any lock, a fork at the very
//! moment in which another thread is inside the timer leaves the lock taken in the child.)
//!
//! # What wakes it
//!
//! It records how long it intends to sleep, and an entry wakes it only if it is due earlier.
//! Removing an entry never wakes it: at the recorded time it checks the queue, finds nothing due,
//! and sleeps again. So timeouts that are set and removed in turn, far in the future, cost no
//! wake-up each.
//!
//! # Callbacks and wakers
//!
//! They run on the thread of the timer, one after the other: in the order of their times, those of
//! the same time in the order of their creation, never early, and outside of the lock. (Of the
//! wakers of futures, several are removed under one lock, and called after it, also by workers: see
//! [`poll`].) So they must be short. A panic is contained; it has been reported by the panic hook.
//! A callback that blocks delays the others only until another thread takes over: see [`serve`].
//!
//! # Programs with one thread
//!
//! Where the system starts no threads, the program's [host](crate::host) calls
//! [`Timer::serve_here`] when the first entry is due, and a wait that blocks calls it too: see
//! [`hosted`].

mod alarm;
mod hosted;
mod next;
mod poll;
mod queue;
mod serve;
mod service;
#[cfg(all(test, not(filch_loom)))]
mod tests;
mod wheel;

pub(crate) use alarm::{Alarm, Alarms, HasAlarms, renew};
pub(crate) use queue::TimerKey;

use crate::base::{Instant, host::IS_HOSTED, sys::process, unwind};
use next::Next;
use service::{NextCheck, Service};
use std::{
    error::Error,
    fmt,
    io,
    // Not from `base::sync`: a lock around plain data, whose users are not model-checked.
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    task::Waker,
};
use wheel::TimerWheel;

/// A queue of deadlines and the thread that serves it. The process has one, [`Timer::global`].
pub(crate) struct Timer {
    state: Mutex<TimerState>,
    /// The time of the first entry, for workers that poll it without the lock.
    next: Next,
    /// Notified when there is an entry that is due earlier than the thread will check.
    earlier: Condvar,
    /// The same for the thread that monitors it.
    watched: Condvar,
}

struct TimerState {
    /// With times in nanoseconds, as [`Next`] counts them.
    queue: TimerWheel<Alarm>,
    /// The number of the process in which the thread runs, or `None` before it was started.
    process: Option<u64>,
    /// When the thread will check the queue.
    next_check: NextCheck,
    service: Service,
}

impl TimerState {
    /// Whether the thread runs in this process.
    #[inline]
    fn has_thread(&self) -> bool {
        self.process == Some(process::number())
    }
}

impl HasAlarms for TimerState {
    fn alarm_mut(&mut self, key: TimerKey) -> Option<&mut Alarm> {
        self.queue.get_mut(key)
    }
}

static GLOBAL: Timer = Timer::new();

impl Timer {
    const fn new() -> Self {
        Self {
            state: Mutex::new(TimerState {
                queue: TimerWheel::new(),
                process: None,
                next_check: NextCheck::Awake,
                service: Service::new(),
            }),
            next: Next::new(),
            earlier: Condvar::new(),
            watched: Condvar::new(),
        }
    }

    /// The timer of the process.
    pub(crate) fn global() -> &'static Self {
        &GLOBAL
    }

    /// Calls `callback` on the thread of the timer at `at`, or at once when that has passed.
    ///
    /// # Errors
    /// When the thread is not running and cannot be started. The callback has been dropped then.
    pub(crate) fn at(
        &'static self,
        at: Instant,
        callback: impl FnOnce() + Send + 'static,
    ) -> Result<TimerHandle, TimerError> {
        let key = self.insert_with(at, Alarm::Call(Box::new(callback)), Self::start)?;
        Ok(TimerHandle {
            timer: self,
            key: Some(key),
        })
    }

    /// Wakes `waker` at `at`, or at once when that has passed, on the thread of the timer or of a
    /// worker that polls it. The caller [removes](Self::remove) the entry when it is not needed any
    /// more.
    ///
    /// # Errors
    /// As of [`at`](Self::at).
    pub(crate) fn wake_at(
        &'static self,
        at: Instant,
        waker: Waker,
    ) -> Result<TimerKey, TimerError> {
        self.insert_with(at, Alarm::Wake(waker), Self::start)
    }

    /// Makes the entry wake `waker` and no other. Returns false when the entry is gone, because it
    /// is due.
    pub(crate) fn renew(&self, key: TimerKey, waker: &Waker) -> bool {
        renew(&self.state, key, waker)
    }

    /// Removes an entry, unless it is due already.
    pub(crate) fn remove(&self, key: TimerKey) -> Option<Alarm> {
        let mut state = self.lock();
        let alarm = state.queue.remove(key);
        self.next.set(state.queue.next_at());
        alarm
    }

    /// Whether the entry at `at` that the caller has inserted has left the queue. Takes no lock,
    /// and returns false if that is not certain.
    pub(crate) fn is_gone(&self, at: Instant) -> bool {
        self.next.is_gone(self.next.nanos_of(at))
    }

    fn insert_with(
        &'static self,
        at: Instant,
        alarm: Alarm,
        start: impl FnOnce(&'static Self) -> io::Result<()>,
    ) -> Result<TimerKey, TimerError> {
        let nanos = self.next.nanos_of(at);
        let mut state = self.lock();
        // If this fails, the alarm is dropped after the guard, as every parameter is.
        self.start_if_none(&mut state, start)?;
        let key = state.queue.insert(nanos, alarm);
        self.next.set(state.queue.next_at());
        // A later entry need not wake the thread once more.
        let wake = state.next_check.shorten(at);
        let watch = state.service.watch.shorten(at);
        drop(state);
        if wake {
            self.wake_server(at);
        }
        if watch {
            self.watched.notify_one();
        }
        Ok(key)
    }

    /// Starts the thread if there is none in this process. For callers that rely on an existing
    /// entry: it may have been inherited by a `fork`, and the thread was not.
    ///
    /// # Errors
    /// When the thread is not running and cannot be started.
    pub(crate) fn ensure_thread(&'static self) -> Result<(), TimerError> {
        self.start_if_none(&mut self.lock(), Self::start)
    }

    fn start_if_none(
        &'static self,
        state: &mut TimerState,
        start: impl FnOnce(&'static Self) -> io::Result<()>,
    ) -> Result<(), TimerError> {
        if !state.has_thread() {
            let started = process::observe_forks().and_then(|()| start(self));
            started.map_err(|source| TimerError { source })?;
            state.process = Some(process::number());
            if IS_HOSTED {
                // The host calls when it is asked to.
                state.next_check = NextCheck::Forever;
            }
            // The threads of the parent process, if this is a child, do not exist here.
            state.service = Service::first(&state.service);
        }
        Ok(())
    }

    /// Makes the server check the queue at `at`, which is earlier than it intended.
    fn wake_server(&self, at: Instant) {
        if IS_HOSTED {
            Self::request_host_call(at);
        } else {
            self.earlier.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, TimerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Timer")
            .field("queue", &state.queue)
            .field("next_check", &state.next_check)
            .finish_non_exhaustive()
    }
}

/// One entry of the timer. Dropping it removes the entry.
#[derive(Debug)]
#[must_use = "dropping the handle removes the entry"]
pub(crate) struct TimerHandle {
    timer: &'static Timer,
    /// `None` when the handle does not own the entry any more.
    key: Option<TimerKey>,
}

impl TimerHandle {
    /// Removes the entry and drops its callback. Returns true when it was still pending: then the
    /// callback has not run and never will. Otherwise it has run, or is running now. That is not
    /// waited for, so the callback itself may call this.
    #[cfg(all(test, not(filch_loom)))]
    pub(crate) fn cancel(mut self) -> bool {
        self.take_out()
    }

    /// Leaves the entry in the timer.
    #[cfg(all(test, not(filch_loom)))]
    pub(crate) fn detach(mut self) {
        self.key = None;
    }

    fn take_out(&mut self) -> bool {
        let Some(key) = self.key.take() else {
            return false;
        };
        let callback = self.timer.remove(key);
        let pending = callback.is_some();
        // The lock has been released: dropping what the callback owns may run user code.
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
        let source = &self.source;
        if IS_HOSTED {
            return write!(f, "there is no timer: {source}");
        }
        write!(
            f,
            "could not start the thread of the timer: {source}; end other threads and try again"
        )
    }
}

impl Error for TimerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
