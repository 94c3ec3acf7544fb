//! Threads that wait in a driver: no wake is lost when a thread enters or leaves the driver, and
//! the driver is handed over.

use super::DriverLock;
use crate::{
    base::{canary::Canary, thread::ParkWord},
    loom_tests::{caught, model},
};
use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
use std::sync::Arc;

/// A token, as the notification of a driver is one, and that of a thread.
struct Token {
    is_set: Mutex<bool>,
    set: Condvar,
}

impl Token {
    fn new() -> Self {
        Self {
            is_set: Mutex::new(false),
            set: Condvar::new(),
        }
    }

    fn set(&self) {
        *self.is_set.lock().unwrap() = true;
        self.set.notify_one();
    }

    fn take(&self) {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.set.wait(is_set).unwrap();
        }
        *is_set = false;
    }
}

/// A thread with its parker.
struct Sleeper {
    word: ParkWord,
    token: Token,
    /// The number of events for this thread. Orders nothing.
    events: AtomicUsize,
}

struct DriverModel {
    sleepers: [Sleeper; 2],
    driver: Token,
    lock: DriverLock,
}

impl DriverModel {
    fn new() -> Arc<Self> {
        let sleeper = || Sleeper {
            word: ParkWord::new(),
            token: Token::new(),
            events: AtomicUsize::new(0),
        };
        Arc::new(Self {
            sleepers: [sleeper(), sleeper()],
            driver: Token::new(),
            lock: DriverLock::new(),
        })
    }

    fn has_events(&self, sleeper: usize, events: usize) -> bool {
        self.sleepers[sleeper].events.load(Ordering::Relaxed) >= events
    }

    /// Parks as `Parkers::park` and `SharedDriver::park` do, until there are `events`.
    fn park(&self, sleeper: usize, events: usize) {
        let word = &self.sleepers[sleeper].word;
        while !self.has_events(sleeper, events) {
            if self.lock.hold_or_wait(sleeper) {
                if word.enter() {
                    self.driver.take();
                    word.leave();
                }
                self.lock.release();
            } else {
                self.sleepers[sleeper].token.take();
                self.lock.withdraw(sleeper);
            }
        }
    }

    /// Unparks as `Parker::unpark` does.
    fn unpark(&self, sleeper: usize) {
        if self.sleepers[sleeper].word.notify() {
            self.driver.set();
        } else {
            self.sleepers[sleeper].token.set();
        }
    }

    /// Adds an event for `sleeper` and unparks it.
    fn notify(&self, sleeper: usize) {
        let events = &self.sleepers[sleeper].events;
        events.fetch_add(1, Ordering::Relaxed);
        self.unpark(sleeper);
    }
}

/// One thread waits twice in the driver, and is notified twice.
fn one_sleeper() {
    let stage = DriverModel::new();
    let sleeper = stage.clone();
    let waits = thread::spawn(move || {
        sleeper.park(0, 1);
        sleeper.park(0, 2);
    });
    stage.notify(0);
    stage.notify(0);
    waits.join().unwrap();
}

#[test]
fn no_wake_is_lost_in_the_driver() {
    model(None, one_sleeper);
}

#[test]
fn canary_entering_without_a_check() {
    caught(Canary::DriverEnter, None, one_sleeper);
}

/// Two threads wait, one of them in the driver; each is notified once.
#[test]
fn no_wake_is_lost_beside_the_driver() {
    model(Some(3), || {
        let stage = DriverModel::new();
        let sleeper = stage.clone();
        let waits = thread::spawn(move || sleeper.park(0, 1));
        let notifier = stage.clone();
        let notifies = thread::spawn(move || {
            notifier.notify(1);
            notifier.notify(0);
        });
        stage.park(1, 1);
        waits.join().unwrap();
        notifies.join().unwrap();
    });
}

/// One thread holds the driver and leaves it for good. The other thread, which may wait for the
/// driver, then enters it, and finds an event there.
fn hand_over() {
    let stage = DriverModel::new();
    let guest = stage.clone();
    let leaves = thread::spawn(move || {
        if guest.lock.hold_or_wait(0) {
            guest.lock.release();
        } else {
            guest.lock.withdraw(0);
        }
        if let Some(worker) = guest.lock.hand_over() {
            guest.unpark(worker);
        }
    });
    // An event: only a thread in the driver finds it.
    stage.driver.set();
    let mut found = false;
    while !found {
        if stage.lock.hold_or_wait(1) {
            if stage.sleepers[1].word.enter() {
                stage.driver.take();
                stage.sleepers[1].word.leave();
                found = true;
            }
            stage.lock.release();
        } else {
            stage.sleepers[1].token.take();
            stage.lock.withdraw(1);
        }
    }
    leaves.join().unwrap();
}

#[test]
fn the_driver_is_handed_over() {
    model(None, hand_over);
}

#[test]
fn canary_driver_that_is_not_handed_over() {
    caught(Canary::DriverHandOver, None, hand_over);
}
