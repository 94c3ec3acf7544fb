//! The queue of a `LocalSet`: its futures that are to be polled, and the calls that poll them.
//!
//! Several calls of `run_until` may be active for one set, concurrently or nested: its *runners*.
//! Each polls its own future, and any of them polls those of the set. A runner registers its waker
//! only when there is nothing to poll, and a push to the queue takes all registered wakers. So
//! while a future is to be polled, every runner has been woken for it, and it is polled even if one
//! of the runners is never polled again.

use crate::{
    base::{
        canary::{Canary, broken},
        sync::{Mutex, MutexGuard},
        thread, unwind,
    },
    task::wake,
};
use std::{collections::VecDeque, mem, sync::PoisonError, task::Waker};

/// The futures of a set that have been woken, and the runners that poll them.
#[derive(Default)]
pub(super) struct LocalQueue {
    woken: Mutex<WokenFutures>,
}

/// The state of a [`LocalQueue`].
#[derive(Default)]
struct WokenFutures {
    /// Keys of the set's futures, and of those of its runners, in the order of their wakes.
    keys: VecDeque<u64>,
    runners: Vec<LocalRunner>,
}

/// An active `run_until`.
struct LocalRunner {
    key: u64,
    /// Its own future is to be polled: another runner has found its key.
    due: bool,
    /// Registered when there was nothing to poll.
    waker: Option<Waker>,
}

/// What a runner does next.
enum NextPoll {
    /// Poll the future of this key.
    Found(u64),
    /// The key was that of another runner, which was marked as due and is to be woken.
    Passed(Option<Waker>),
    /// There is nothing to poll; with the waker that was replaced.
    Nothing(Option<Waker>),
    /// There is nothing to poll, and a clone of the waker is needed to register it.
    NeedsWaker,
}

impl WokenFutures {
    fn runner(&mut self, key: u64) -> Option<&mut LocalRunner> {
        self.runners.iter_mut().find(|runner| runner.key == key)
    }

    /// Takes the waker of a runner that has not been woken yet for the keys in the queue.
    fn take_waker(&mut self) -> Option<Waker> {
        if self.keys.is_empty() {
            return None; // it has been polled already
        }
        let mut runners = self.runners.iter_mut();
        runners.find_map(|runner| runner.waker.take())
    }

    /// Returns what runner `me` polls next. If nothing, registers `cloned`, a clone of `waker`.
    fn next_poll(&mut self, me: u64, waker: &Waker, cloned: &mut Option<Waker>) -> NextPoll {
        if self.runner(me).is_some_and(|me| mem::take(&mut me.due)) {
            return NextPoll::Found(me);
        }
        let skips_check = cloned.is_some() && broken(Canary::LocalWatch);
        match (!skips_check).then(|| self.keys.pop_front()).flatten() {
            Some(key) if key == me => return NextPoll::Found(key),
            Some(key) => match self.runner(key) {
                Some(other) => {
                    other.due = true;
                    return NextPoll::Passed(other.waker.take());
                }
                None => return NextPoll::Found(key),
            },
            None => {}
        }
        let slot = &mut self.runner(me).expect("it is registered").waker;
        match slot {
            Some(present) if present.will_wake(waker) => NextPoll::Nothing(None),
            _ if cloned.is_some() => NextPoll::Nothing(mem::replace(slot, cloned.take())),
            _ => NextPoll::NeedsWaker,
        }
    }
}

/// Wakers are user code: they are not called, cloned or dropped while the lock is held.
impl LocalQueue {
    fn lock(&self) -> MutexGuard<'_, WokenFutures> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, key: u64) {
        let mut waker = {
            let mut woken = self.lock();
            woken.keys.push_back(key);
            woken.take_waker()
        };
        while let Some(registered) = waker {
            wake(registered);
            waker = self.lock().take_waker();
        }
    }

    /// Returns what runner `me` polls next; if there is nothing, registers its waker.
    pub(super) fn next(&self, me: u64, waker: &Waker) -> Option<u64> {
        let mut cloned = None;
        loop {
            let found = self.lock().next_poll(me, waker, &mut cloned);
            match found {
                NextPoll::Found(key) => {
                    unwind::discard(cloned);
                    return Some(key);
                }
                NextPoll::Passed(other) => {
                    if let Some(other) = other {
                        wake(other);
                    }
                }
                NextPoll::Nothing(before) => {
                    unwind::discard(before);
                    return None;
                }
                NextPoll::NeedsWaker => {
                    cloned = Some(waker.clone());
                    thread::point();
                }
            }
        }
    }

    /// Adds a runner, which begins with its own future.
    pub(super) fn add_runner(&self, key: u64) -> RunnerGuard<'_> {
        self.lock().runners.push(LocalRunner {
            key,
            due: true,
            waker: None,
        });
        RunnerGuard(self, key)
    }
}

/// Keeps a runner registered; removes it when dropped.
pub(super) struct RunnerGuard<'a>(&'a LocalQueue, u64);

impl Drop for RunnerGuard<'_> {
    fn drop(&mut self) {
        let removed = {
            let runners = &mut self.0.lock().runners;
            let at = runners.iter().position(|runner| runner.key == self.1);
            at.map(|at| runners.swap_remove(at))
        };
        unwind::discard(removed);
    }
}
