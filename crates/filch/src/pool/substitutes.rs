//! The threads that substitute for workers in blocking calls, and how many of them work.
//! `blocking.rs` has the calls.
//!
//! **Roles.** A worker *begins* a blocking call and *ends* it. A substitute *joins* the pool when
//! fewer substitutes than calls are there, and *leaves* when there are more. In between it works as
//! every worker does. All of this is one word, so that a substitute joins or leaves exactly if the
//! counts at that moment allow it.
//!
//! **No call without a substitute.** The beginning of a call raises the count of calls, and then
//! notifies the event count (`pool/event_count.rs`), if a substitute is missing. A substitute that
//! waits searches for a reason to join after it has taken the notification; one that is about to
//! wait finds the notification. Notifications that merge wake one substitute: it passes the
//! notification on if, with itself, there are still too few.
//!
//! **Leaving is lazy.** The end of a call wakes no thread. A substitute reads the counts between
//! two tasks, when it has nothing queued; one that sleeps in the pool reads them when it is
//! woken for a task, and passes the wake-up on as it leaves. If another call begins before that,
//! the sleeper substitutes for it without being woken.

use super::{
    event_count::EventCount,
    handoff::{GivenJob, HandedJob},
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering},
    },
    threads::{ThreadConfig, ThreadGroup},
};
use std::{collections::VecDeque, mem, sync::PoisonError};

/// The largest number of substitutes of a pool. They share the slots of guests, of which they must
/// leave some.
const MAX_SUBSTITUTES: usize = 16;

/// The number of calls is above this bit of the word, that of substitutes below it.
const CALLS: u32 = 32;

/// The counts of blocking calls and of substitutes, and where the latter wait.
#[derive(Debug)]
pub(super) struct Demand {
    counts: AtomicU64,
    event_count: EventCount,
}

/// A snapshot of the counts.
#[derive(Clone, Copy, Debug)]
struct Counts {
    calls: u64,
    working: u64,
}

impl Counts {
    fn from_word(word: u64) -> Self {
        Self {
            calls: word >> CALLS,
            working: word & ((1 << CALLS) - 1),
        }
    }
}

impl Demand {
    pub(super) fn new() -> Self {
        Self {
            counts: AtomicU64::new(0),
            event_count: EventCount::new(),
        }
    }

    /// A blocking call begins.
    pub(super) fn begin(&self) {
        // Relaxed: the counts guard no data.
        self.counts.fetch_add(1 << CALLS, Ordering::Relaxed);
    }

    /// A blocking call ends.
    pub(super) fn end(&self) {
        // Relaxed: as in `begin`.
        self.counts.fetch_sub(1 << CALLS, Ordering::Relaxed);
    }

    /// Whether fewer substitutes work than there are calls.
    pub(super) fn has_too_few(&self) -> bool {
        // Relaxed: after `begin` on the same thread it sees that call, because it is one word.
        let counts = Counts::from_word(self.counts.load(Ordering::Relaxed));
        counts.working < counts.calls
    }

    /// Whether there is a call.
    pub(super) fn has_calls(&self) -> bool {
        // Relaxed: as in `begin`; a snapshot.
        Counts::from_word(self.counts.load(Ordering::Relaxed)).calls > 0
    }

    /// Wakes a substitute that waits.
    pub(super) fn notify(&self) {
        self.event_count.notify();
    }

    /// Counts a substitute as working if there are fewer than calls.
    pub(super) fn join(&self) -> bool {
        let join = |word| {
            let counts = Counts::from_word(word);
            (counts.working < counts.calls).then_some(word + 1)
        };
        // Relaxed: as in `begin`. That this sees the call of a notification is due to the event
        // count.
        self.counts
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, join)
            .is_ok()
    }

    /// Counts a substitute as working no more if there are more than calls.
    #[inline]
    pub(super) fn leave(&self) -> bool {
        let leave = |word| {
            let counts = Counts::from_word(word);
            (counts.working > counts.calls).then_some(word - 1)
        };
        // Relaxed: as in `begin`.
        self.counts
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave)
            .is_ok()
    }

    /// Calls `provide` in a substitute that has joined: there may be more calls.
    pub(super) fn pass_on(&self, provide: impl FnOnce()) {
        if !broken(Canary::SubstitutePassOn) {
            provide();
        }
    }

    /// Runs the loop of a substitute: waits for a notification, then calls `work` as long as
    /// `join` does. Returns at shutdown.
    pub(super) fn run_substitute(&self, join: impl Fn() -> bool, work: impl Fn()) {
        self.event_count.run_worker(join, work, || false);
    }

    /// Makes the substitutes exit, because the workers of the pool exit.
    pub(super) fn close(&self) {
        self.event_count.close();
    }
}

/// The substitutes of a pool that starts its own threads.
pub(super) struct Substitutes<J> {
    pub(super) demand: Demand,
    /// Whether a task that is handed off would be taken at once: a copy of what `started` says.
    has_free: AtomicBool,
    /// How many workers and substitutes sleep in waits, or are in blocking calls.
    asleep: AtomicUsize,
    started: Mutex<StartedSubstitutes<J>>,
    pub(super) config: ThreadConfig,
}

struct StartedSubstitutes<J> {
    /// How many threads there are, or are about to be.
    number: usize,
    /// How many of them wait for a call or a task.
    idle: usize,
    /// Tasks that were handed off, and that no substitute has taken yet.
    handed: VecDeque<HandedJob<J>>,
    /// One could not be started, so that no other is tried.
    failed: bool,
    threads: ThreadGroup<()>,
}

impl<J> Substitutes<J> {
    pub(super) fn new(config: &ThreadConfig) -> Self {
        Self {
            demand: Demand::new(),
            has_free: AtomicBool::new(true),
            asleep: AtomicUsize::new(0),
            started: Mutex::new(StartedSubstitutes {
                number: 0,
                idle: 0,
                handed: VecDeque::new(),
                failed: false,
                threads: ThreadGroup::without_threads(),
            }),
            config: config.clone(),
        }
    }

    /// Makes the substitutes exit, because the workers of the pool exit.
    pub(super) fn close(&self) {
        self.demand.close();
    }

    /// Waits until every thread has ended. The pool is closed, and its workers have ended.
    pub(super) fn join(&self) {
        loop {
            // A substitute may have started another one, before it ended.
            let threads = mem::replace(&mut self.lock().threads, ThreadGroup::without_threads());
            if !threads.has_threads() {
                return;
            }
            threads.join();
        }
    }

    /// Counts a thread that is about to be started, and returns its number, if all that there are
    /// work, and there may be more.
    pub(super) fn count_start(&self) -> Option<usize> {
        let mut started = self.lock();
        let number = started.number;
        let is_missing = started.idle <= started.handed.len();
        (is_missing && number < MAX_SUBSTITUTES && !started.failed).then(|| {
            started.number += 1;
            self.publish_free(&started);
            number
        })
    }

    /// A substitute has started, or ended its work.
    pub(super) fn become_idle(&self) {
        let mut started = self.lock();
        started.idle += 1;
        self.publish_free(&started);
    }

    /// A substitute that was idle searches for work: no task is given to it before it is idle
    /// again.
    pub(super) fn become_busy(&self) {
        let mut started = self.lock();
        started.idle -= 1;
        self.publish_free(&started);
    }

    /// [`become_idle`](Self::become_idle), unless a task has been handed off meanwhile.
    pub(super) fn try_become_idle(&self) -> bool {
        let mut started = self.lock();
        let idle = started.handed.is_empty();
        started.idle += usize::from(idle);
        self.publish_free(&started);
        idle
    }

    /// Whether a task that is handed off now would be taken at once.
    #[inline]
    pub(super) fn has_free(&self) -> bool {
        // Relaxed: a hint; `offer` decides under the lock.
        self.has_free.load(Ordering::Relaxed)
    }

    /// A worker or a substitute falls asleep in a wait, or begins a blocking call.
    pub(super) fn begin_sleep(&self) {
        // Relaxed: a number that guards no data.
        self.asleep.fetch_add(1, Ordering::Relaxed);
    }

    /// The sleep or the call is over.
    pub(super) fn end_sleep(&self) {
        // Relaxed: as in `begin_sleep`.
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether none of `workers` workers is awake, except the `awake` ones, and no substitute.
    pub(super) fn are_asleep(&self, workers: usize, awake: usize) -> bool {
        let started = self.lock();
        let others = (workers + started.number).saturating_sub(started.idle + awake);
        drop(started);
        // Relaxed: as in `begin_sleep`. The caller asks again.
        self.asleep.load(Ordering::Relaxed) >= others
    }

    /// Publishes whether a substitute is free. The caller holds the lock.
    fn publish_free(&self, started: &StartedSubstitutes<J>) {
        // Relaxed: as in `has_free`.
        self.has_free.store(started.has_free(), Ordering::Relaxed);
    }

    /// Queues a task for a substitute. Returns the number of a thread that the caller must start
    /// for it, if none is free; or the task, if no more can be started.
    pub(super) fn offer(&self, handed: HandedJob<J>) -> Result<Option<usize>, HandedJob<J>> {
        let mut started = self.lock();
        if !started.has_free() {
            return Err(handed);
        }
        let is_missing = started.idle <= started.handed.len();
        started.handed.push_back(handed);
        let number = started.number;
        started.number += usize::from(is_missing);
        self.publish_free(&started);
        Ok(is_missing.then_some(number))
    }

    /// Takes a task that was handed off, and whether there are more.
    pub(super) fn take_handed(&self) -> Option<(HandedJob<J>, bool)> {
        let mut started = self.lock();
        let handed = started.handed.pop_front()?;
        self.publish_free(&started);
        Some((handed, !started.handed.is_empty()))
    }

    /// Takes a task back that was handed off, if no substitute has taken it.
    pub(super) fn take_back(&self, given: &GivenJob) -> Option<HandedJob<J>> {
        let mut started = self.lock();
        let place = started.handed.iter().position(|it| it.is_of(given))?;
        let handed = started.handed.remove(place);
        self.publish_free(&started);
        handed
    }

    /// Stores a thread that was counted, or counts it no more if it could not be started.
    pub(super) fn store(&self, thread: Option<ThreadGroup<()>>) {
        let mut started = self.lock();
        match thread {
            Some(thread) => started.threads.add(thread),
            None => {
                started.number -= 1;
                started.failed = true;
            }
        }
        self.publish_free(&started);
    }

    fn lock(&self) -> MutexGuard<'_, StartedSubstitutes<J>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> StartedSubstitutes<J> {
    /// Whether a substitute is free, or one more may be started.
    fn has_free(&self) -> bool {
        self.idle > self.handed.len() || self.number < MAX_SUBSTITUTES && !self.failed
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
