//! A thread that waits on its token or in a [driver](Driver), and can be woken in either.
//!
//! # Protocol
//!
//! [`ParkWord`] has three states: *idle*, *in the driver*, *notified*. Every change is one atomic
//! operation on this word.
//!
//! - **Wait in the driver**: the thread checks its condition. Then it changes *idle* to *in the
//!   driver* ([`ParkWord::enter`]), calls [`Driver::park`], and sets the word to *idle*
//!   ([`ParkWord::leave`]). If the word is *notified* instead of *idle*, the thread sets it to
//!   *idle* and checks again.
//! - **Wake**: the waker makes the condition true. Then it sets the word to *notified*
//!   ([`ParkWord::notify`]). If the word was *in the driver* it calls [`Driver::notify`], and else
//!   it unparks the thread.
//!
//! # No wake is lost
//!
//! The operation of the waker comes before or after the operation of the thread that enters the
//! driver.
//!
//! - Before: the thread finds *notified*. It does not enter, and sees the condition when it checks
//!   again.
//! - After: the waker finds *in the driver*, unless the thread has left. Then it notifies the
//!   driver, so the present or the next call of `park` returns. The thread finds *notified* when it
//!   leaves, and sees the condition when it checks again. If the thread has left before the waker's
//!   operation, it waits no longer: it checks again, and if it enters again, that is an operation
//!   after the waker's.
//!
//! A thread that waits on its token instead is unparked, because the word is not *in the driver*;
//! the token is kept for the next call of `park`. *Notified* remains in the word, which costs the
//! next wait in the driver one more check.

use super::{Driver, Thread};
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU8, Ordering},
};
use std::{
    cell::RefCell,
    fmt,
    // Not from `base::sync`: locks around plain data.
    sync::{Arc, Mutex, PoisonError},
    task::Waker,
    time::Duration,
};

const IDLE: u8 = 0;
const IN_DRIVER: u8 = 1;
const NOTIFIED: u8 = 2;

/// Where a thread waits: see the module.
#[derive(Debug)]
pub(crate) struct ParkWord(AtomicU8);

impl ParkWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// Records that the thread is about to wait in a driver. Returns false when it has been
    /// notified since it last left or failed to enter: then it checks its condition again.
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        if broken(Canary::DriverEnter) {
            // Relaxed: the canary's defect is that it does not check.
            self.0.store(IN_DRIVER, Ordering::Relaxed);
            return true;
        }
        // Acquire: pairs with the release in `notify`, for the failure; success publishes nothing.
        let entered =
            self.0
                .compare_exchange(IDLE, IN_DRIVER, Ordering::Acquire, Ordering::Acquire);
        if entered.is_err() {
            self.leave();
        }
        entered.is_ok()
    }

    /// Records that the thread waits no longer. What its wakers did before `notify` is visible from
    /// now on.
    pub(crate) fn leave(&self) {
        // Acquire: pairs with the release in `notify`; of several, with all, by their chain of
        // swaps.
        self.0.swap(IDLE, Ordering::Acquire);
    }

    /// Marks the thread as notified. Returns true when it is in a driver, which the caller must
    /// notify. If not, the caller must unpark the thread.
    #[must_use]
    pub(crate) fn notify(&self) -> bool {
        // Release: what was done before is visible to the thread; pairs with `enter` and `leave`.
        self.0.swap(NOTIFIED, Ordering::Release) == IN_DRIVER
    }
}

/// A handle to a thread, to wake it wherever it waits.
pub(crate) struct Parker {
    thread: Thread,
    word: ParkWord,
    /// The driver that the thread waits in, or waited in last. Written by the thread before it
    /// enters.
    driver: Mutex<Option<Arc<dyn Driver>>>,
}

thread_local! {
    /// The parker of this thread.
    static CURRENT: RefCell<Option<Arc<Parker>>> = const { RefCell::new(None) };
}

/// The parker of this thread.
pub(crate) fn parker() -> Arc<Parker> {
    // A thread that is ending has none, and waits in no driver.
    shared_parker().unwrap_or_else(Parker::new)
}

/// The parker of this thread that all callers on this thread share, unless the thread is ending.
fn shared_parker() -> Option<Arc<Parker>> {
    let parker = |place: &RefCell<Option<Arc<Parker>>>| {
        place.borrow_mut().get_or_insert_with(Parker::new).clone()
    };
    CURRENT.try_with(parker).ok()
}

/// Discards the parker of this thread; the next call of [`parker`] makes another one.
#[cfg(all(feature = "rehearse", not(filch_loom)))]
pub(super) fn forget_parker() {
    let before = CURRENT.try_with(RefCell::take);
    drop(before);
}

/// Waits in `driver`, unless this thread has been woken since it last did. Returns early as
/// [`Driver::park`] does. Returns false when the thread cannot wait in a driver.
#[must_use]
pub(crate) fn park_in(
    driver: &Arc<dyn Driver>,
    timeout: Option<Duration>,
    ready: &mut Vec<Waker>,
) -> bool {
    let Some(parker) = shared_parker() else {
        return false;
    };
    parker.set_driver(driver);
    super::point();
    if parker.word.enter() {
        super::point();
        driver.park(timeout, ready);
        super::point();
        parker.word.leave();
    }
    true
}

impl Parker {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            thread: super::current(),
            word: ParkWord::new(),
            driver: Mutex::new(None),
        })
    }

    fn set_driver(&self, driver: &Arc<dyn Driver>) {
        let mut place = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        if !place.as_ref().is_some_and(|last| Arc::ptr_eq(last, driver)) {
            let last = place.replace(driver.clone());
            // Its destructor is user code.
            drop(place);
            drop(last);
        }
    }

    /// Wakes the thread, now or the next time that it waits.
    pub(crate) fn unpark(&self) {
        super::point();
        if !self.word.notify() {
            self.thread.unpark();
        } else if !broken(Canary::DriverNotify) {
            let place = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
            let driver = place.clone();
            drop(place);
            if let Some(driver) = driver {
                driver.notify();
            }
        }
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker")
            .field("thread", &self.thread)
            .field("word", &self.word)
            .finish_non_exhaustive()
    }
}
