#![doc = include_str!("waits.md")]

mod check;
mod entries;
mod event;
mod listings;
#[cfg(all(test, filch_loom))]
mod loom_tests;
mod report;
mod verdict;

pub(crate) use entries::{Needs, OnCycle, Subject};
pub(crate) use event::{EventId, EventKind};
pub(crate) use listings::Listings;
pub use report::{Cycle, Party, Wait};

use super::{
    active_jobs,
    current_task::{self, StackPosition},
    isolation,
};
use crate::base::{
    Instant,
    canary::{Canary, broken},
    sync::{Mutex, MutexGuard},
    thread,
};
use check::CycleSearch;
use entries::{Entries, Key, Listed, WaitSubjects};
use std::{
    cell::{Cell, OnceCell},
    mem,
    sync::{Arc, LazyLock, PoisonError},
};
use verdict::CycleVerdict;

/// The waits of this process that have slept at least once: for submitted tasks, spawned futures,
/// runs of graphs, scopes, halves of joins and the locks of [`sync`](crate::sync).
///
/// ```
/// use std::{sync::mpsc, thread};
///
/// let pool = filch::Pool::builder().workers(1).build()?;
/// let ((end, wait), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
/// let slow = move || {
///     begin.send(()).unwrap();
///     wait.recv().unwrap();
/// };
/// let slow = pool.task(slow).name("slow").submit().unwrap();
/// begun.recv()?; // else the thread that joins it would run it
/// let joiner = thread::spawn(move || slow.join().unwrap());
/// let listed = loop {
///     let found = filch::waits().into_iter().find(|wait| wait.subject().name() == Some("slow"));
///     match found {
///         Some(wait) => break wait,
///         None => thread::yield_now(),
///     }
/// };
/// assert!(listed.to_string().contains("waits for task `slow`"));
/// end.send(()).unwrap();
/// joiner.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn waits() -> Vec<Wait> {
    WaitList::global().snapshot()
}

/// The cycles among the [`waits`] of this process: waits that can never end.
///
/// A wait that can return an error returns one instead, so most cycles dissolve as soon as they are
/// found: see [`TaskError::is_deadlock`](crate::TaskError::is_deadlock). What this returns are the
/// cycles in which no wait can: they consist of waits for scopes, halves of joins, runs of borrowed
/// graphs and locks. It is for a watchdog, which logs them.
///
/// ```
/// use std::{thread, time::Duration};
///
/// thread::spawn(|| loop {
///     for cycle in filch::deadlocks() {
///         eprintln!("deadlock: {cycle}");
///     }
///     thread::sleep(Duration::from_secs(10));
/// });
/// assert!(filch::deadlocks().is_empty()); // nothing waits here
/// ```
#[must_use]
pub fn deadlocks() -> Vec<Cycle> {
    // Dropped after the lock is released, as in `WaitList::list`.
    let mut search = CycleSearch::default();
    search.run_for_all(&WaitList::global().lock())
}

/// The waits in progress.
pub(crate) struct WaitList {
    entries: Mutex<Entries>,
}

impl WaitList {
    pub(crate) fn new() -> Self {
        let entries = Mutex::new(Entries::default());
        Self { entries }
    }

    /// The list of this process.
    pub(crate) fn global() -> &'static Self {
        static GLOBAL: LazyLock<WaitList> = LazyLock::new(WaitList::new);
        &GLOBAL
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Vec<Wait> {
        let entries = self.lock();
        let waits = entries.by_position.values().filter_map(|listed| {
            let subject = listed.subjects.get(0)?.party();
            let waiter = listed.waiter.clone();
            Some(Wait::new(waiter, subject, listed.since.elapsed()))
        });
        waits.collect()
    }

    /// Lists a wait. If it is stuck, one wait of the cycle ends with a report: this one if it can,
    /// which is not listed then, else another one. A wait that closes several cycles ends one of
    /// each.
    fn list(&self, position: StackPosition, listed: Listed) -> Result<Key, Cycle> {
        thread::point();
        // Declared before the lock is taken, so dropped after it is released: dropping the last
        // reference to a subject may run user code.
        let mut search = CycleSearch::default();
        let mut entries = self.lock();
        entries.last += 1;
        let key = (position, entries.last);
        if broken(Canary::WaitCheckFirst) {
            // The canary's defect: another wait can be listed between the check and this one.
            let found = search.run(&entries, key);
            drop(entries);
            thread::point();
            self.lock().insert(key, listed);
            return found.map_or(Ok(key), |found| Err(found.cycle));
        }
        let (is_for_group, on_cycle) = (listed.is_for_group(), listed.on_cycle.clone());
        entries.insert(key, listed);
        if broken(Canary::WaitUnchecked) || is_for_group && entries.free == 0 {
            return Ok(key);
        }
        let (mut verdicts, mut removed, mut cycle) = (Vec::new(), None, None);
        while let Some(found) = search.run(&entries, key) {
            let other = match on_cycle {
                OnCycle::Return(_) => None,
                _ if broken(Canary::WaitVerdict) => None,
                _ => entries.give_verdict(&found.waits),
            };
            if let Some((other, verdict)) = other {
                let cycle = search.cycle_of(&entries, other).unwrap_or(found.cycle);
                verdicts.push((verdict, cycle, mem::take(&mut search)));
                continue;
            }
            if !matches!(on_cycle, OnCycle::Stay) {
                removed = entries.remove(key);
                cycle = Some(found.cycle);
            }
            break;
        }
        drop(entries);
        drop(removed);
        for (verdict, cycle, _) in verdicts {
            verdict.deliver(cycle);
        }
        cycle.map_or(Ok(key), Err)
    }

    /// Removes an event from those that the waits of this thread hold up: it is about to happen,
    /// although they are in progress.
    #[cold]
    pub(crate) fn release_early(&self, event: EventId) {
        self.lock().release_early(StackPosition::current(), event);
    }

    fn remove(&self, key: Key) {
        let removed = self.lock().remove(key);
        // Dropped without the lock.
        drop(removed);
    }
}

/// A wait that is about to begin, and may be listed.
pub(crate) struct Waiting<'l> {
    list: &'l WaitList,
    position: StackPosition,
    polled: Option<usize>,
    listed: Cell<Option<Key>>,
    /// The cycle that was found when it was listed.
    cycle: OnceCell<Cycle>,
    /// Where another wait reports a cycle, if this one can return an error.
    verdict: OnceCell<Arc<CycleVerdict>>,
}

impl<'l> Waiting<'l> {
    /// A wait of this thread. The thread must not run anything else between this and the wait.
    pub(crate) fn new(list: &'l WaitList) -> Self {
        Self::at(list, StackPosition::current())
    }

    fn at(list: &'l WaitList, position: StackPosition) -> Self {
        Self {
            list,
            position,
            polled: current_task::polled(),
            listed: Cell::new(None),
            cycle: OnceCell::new(),
            verdict: OnceCell::new(),
        }
    }

    /// Lists the wait, if it is not listed, because it is about to sleep. Returns false when it can
    /// never end.
    ///
    /// `describe` adds the events each of which would end it, the most important one first, and
    /// returns whether nothing else would end it. The waiter is `waiter`, or this thread.
    pub(crate) fn list(
        &self,
        describe: impl FnOnce(&mut Vec<Box<dyn Subject>>) -> bool,
        waiter: impl FnOnce() -> Option<Party>,
    ) -> bool {
        if self.is_new() {
            let mut subjects = Vec::new();
            let is_open = !describe(&mut subjects);
            if subjects.is_empty() {
                return true;
            }
            let on_cycle = OnCycle::Return(self.verdict.get_or_init(CycleVerdict::new).clone());
            self.add(WaitSubjects::Several(subjects), is_open, on_cycle, waiter());
        }
        !self.is_cyclic()
    }

    /// Lists a wait for `event` that cannot return an error, as [`list`](Self::list) does. With
    /// [`OnCycle::Panic`] it may return false: then it can never end.
    pub(crate) fn list_event(&self, event: EventId, on_cycle: OnCycle) -> bool {
        if self.is_new() {
            self.add(WaitSubjects::Event(event), false, on_cycle, None);
        }
        !self.is_cyclic()
    }

    /// Lists a wait for `subject` that ends in any case, because its own thread runs what it is
    /// for.
    pub(crate) fn list_call(&self, subject: Box<dyn Subject>) {
        if self.is_new() {
            let subjects = WaitSubjects::Several(vec![subject]);
            self.add(subjects, false, OnCycle::Stay, None);
        }
    }

    fn is_new(&self) -> bool {
        self.listed.get().is_none() && !self.is_cyclic()
    }

    fn add(&self, subjects: WaitSubjects, is_open: bool, on_cycle: OnCycle, waiter: Option<Party>) {
        let mut held_up = Vec::new();
        if !broken(Canary::WaitHoldsUp) {
            active_jobs::for_each(|event| held_up.push(event));
            isolation::for_each_lock(|event| held_up.push(event));
        }
        let listed = Listed {
            subjects,
            is_open,
            polled: self.polled,
            held_up,
            on_cycle,
            waiter: waiter.unwrap_or_else(Party::this_thread),
            since: Instant::now(),
        };
        match self.list.list(self.position, listed) {
            Ok(key) => {
                self.listed.set(Some(key));
                Listings::begin();
            }
            Err(cycle) => _ = self.cycle.set(cycle),
        }
    }

    /// Whether the wait can never end.
    #[inline]
    pub(crate) fn is_cyclic(&self) -> bool {
        let verdict = self.verdict.get();
        self.cycle.get().is_some() || verdict.is_some_and(|verdict| verdict.is_found())
    }

    /// Ends the wait. Returns the cycle if it could never have ended.
    pub(crate) fn finish(mut self) -> Option<Cycle> {
        let verdict = self.verdict.get().filter(|verdict| verdict.is_found());
        let delivered = verdict.and_then(|verdict| verdict.take());
        self.cycle.take().or(delivered)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.listed.get() {
            thread::point();
            self.list.remove(key);
            Listings::end();
        }
    }
}
