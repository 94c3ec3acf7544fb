//! Threads that wait in a driver: no wake is lost, whether a thread is about to enter it or has left it, and the driver
//! is handed over.

use super::{caught, model};
use filch::{base::canary::Canary, base::model::ParkWord, threads::model::DriverLock};
use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
// Not loom's: when it reports a sleep without an end, its `Arc` must not be dropped any more.
use std::sync::Arc;

/// A token: what a driver's notification is, and a thread's.
struct Token {
    is_there: Mutex<bool>,
    comes: Condvar,
}

impl Token {
    fn new() -> Self {
        Self {
            is_there: Mutex::new(false),
            comes: Condvar::new(),
        }
    }

    fn give(&self) {
        *self.is_there.lock().unwrap() = true;
        self.comes.notify_one();
    }

    fn take(&self) {
        let mut is_there = self.is_there.lock().unwrap();
        while !*is_there {
            is_there = self.comes.wait(is_there).unwrap();
        }
        *is_there = false;
    }
}

/// A thread as a parker knows it.
struct Sleeper {
    word: ParkWord,
    token: Token,
    /// What it waits for; nothing is ordered by it.
    told: AtomicUsize,
}

struct Stage {
    sleepers: [Sleeper; 2],
    driver: Token,
    lock: DriverLock,
}

impl Stage {
    fn new() -> Arc<Self> {
        let sleeper = || Sleeper {
            word: ParkWord::new(),
            token: Token::new(),
            told: AtomicUsize::new(0),
        };
        Arc::new(Self {
            sleepers: [sleeper(), sleeper()],
            driver: Token::new(),
            lock: DriverLock::new(),
        })
    }

    fn is_told(&self, sleeper: usize, times: usize) -> bool {
        self.sleepers[sleeper].told.load(Ordering::Relaxed) >= times
    }

    /// As `Parkers::park` and `SharedDriver::park` do.
    fn park(&self, sleeper: usize, times: usize) {
        let word = &self.sleepers[sleeper].word;
        while !self.is_told(sleeper, times) {
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

    /// As `Parker::unpark` does.
    fn unpark(&self, sleeper: usize) {
        if self.sleepers[sleeper].word.notify() {
            self.driver.give();
        } else {
            self.sleepers[sleeper].token.give();
        }
    }

    fn tell(&self, sleeper: usize) {
        self.sleepers[sleeper].told.fetch_add(1, Ordering::Relaxed);
        self.unpark(sleeper);
    }
}

/// One thread waits twice in the driver, and is told twice.
fn one_sleeper() {
    let stage = Stage::new();
    let sleeper = stage.clone();
    let waits = thread::spawn(move || {
        sleeper.park(0, 1);
        sleeper.park(0, 2);
    });
    stage.tell(0);
    stage.tell(0);
    waits.join().unwrap();
}

#[test]
fn no_wake_is_lost_in_the_driver() {
    model(None, one_sleeper);
}

#[test]
fn entering_without_a_look_is_noticed() {
    caught(Canary::DriverEnter, None, one_sleeper);
}

/// Two threads wait, one of them in the driver; each is told once.
#[test]
fn no_wake_is_lost_beside_the_driver() {
    model(Some(3), || {
        let stage = Stage::new();
        let sleeper = stage.clone();
        let waits = thread::spawn(move || sleeper.park(0, 1));
        let teller = stage.clone();
        let tells = thread::spawn(move || {
            teller.tell(1);
            teller.tell(0);
        });
        stage.park(1, 1);
        waits.join().unwrap();
        tells.join().unwrap();
    });
}

/// One thread holds the driver and leaves it for good. Then the other, which may wait for the driver, is in it, and hears of
/// an event there.
fn handing_over() {
    let stage = Stage::new();
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
    stage.driver.give();
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
    model(None, handing_over);
}

#[test]
fn a_driver_that_is_not_handed_over_is_noticed() {
    caught(Canary::DriverHandOver, None, handing_over);
}
