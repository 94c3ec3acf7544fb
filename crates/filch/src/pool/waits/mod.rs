#![doc = include_str!("waits.md")]

mod check;
mod entries;
#[cfg(all(test, filch_loom))]
mod loom_tests;
mod report;

pub(crate) use entries::{Needs, Subject};
pub use report::{Cycle, Party, Wait};

use super::current_task::{self, StackPosition};
use crate::base::{
    canary::{Canary, broken},
    sync::{Mutex, MutexGuard},
    thread,
};
use check::CycleSearch;
use entries::{Entries, Key, Listed};
use std::{
    cell::{Cell, OnceCell},
    sync::{LazyLock, PoisonError},
    time::Instant,
};

/// The waits of this process for submitted tasks and spawned futures that have slept at least once.
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
            let subject = listed.subjects.first()?.party();
            let waiter = listed.waiter.clone();
            Some(Wait::new(waiter, subject, listed.since.elapsed()))
        });
        waits.collect()
    }

    /// Lists a wait, unless it is stuck.
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
            return found.map_or(Ok(key), Err);
        }
        entries.insert(key, listed);
        if broken(Canary::WaitUnchecked) {
            return Ok(key);
        }
        let Some(cycle) = search.run(&entries, key) else {
            return Ok(key);
        };
        let removed = entries.remove(key);
        drop(entries);
        drop(removed);
        Err(cycle)
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
    cycle: OnceCell<Cycle>,
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
        if self.listed.get().is_none() && !self.is_cyclic() {
            let mut subjects = Vec::new();
            let is_open = !describe(&mut subjects);
            if subjects.is_empty() {
                return true;
            }
            let listed = Listed {
                subjects,
                is_open,
                polled: self.polled,
                waiter: waiter().unwrap_or_else(Party::this_thread),
                since: Instant::now(),
            };
            match self.list.list(self.position, listed) {
                Ok(key) => self.listed.set(Some(key)),
                Err(cycle) => _ = self.cycle.set(cycle),
            }
        }
        !self.is_cyclic()
    }

    /// Whether the wait can never end.
    #[inline]
    pub(crate) fn is_cyclic(&self) -> bool {
        self.cycle.get().is_some()
    }

    /// Ends the wait. Returns the cycle if it could never have ended.
    pub(crate) fn finish(mut self) -> Option<Cycle> {
        self.cycle.take()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.listed.get() {
            thread::point();
            self.list.remove(key);
        }
    }
}
