#![doc = include_str!("sleep.md")]

use super::{
    lanes::Flags,
    sleep_state::{ATTENTION, CAREFUL, MAX_WORKERS, STOPPED, SleepState},
    worker_cores::WorkerCores,
};
use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicU8, AtomicU32, AtomicU64, Ordering, hint},
};
use std::fmt;

/// The result of [`SleeperList::announce`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// The worker is listed, and others still search or stand by.
    Listed,
    /// The worker is listed and was the last searcher: it must check every queue once more.
    LastSearcher,
    /// No worker searches, so this one must search before it may sleep.
    MustSearch,
    /// The worker did not fall asleep: a waker has woken it meanwhile and counts on its search.
    Woken,
    /// The engine has stopped, and the worker must exit.
    Stopped,
}

/// Why a worker is awake again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awake {
    /// A waker woke it and counted it as searching.
    Woken,
    /// It woke without a waker, because its timeout expired.
    ByItself,
}

/// The states of a worker's entry in the list of sleepers.
mod entry {
    /// Not in the list.
    pub(super) const OUT: u8 = 0;
    /// In the list and asleep, or about to be.
    pub(super) const ASLEEP: u8 = 1;
    /// Removed from the list by a waker, which wakes the worker.
    pub(super) const WOKEN: u8 = 2;
    /// In the list, but awake. A waker that removes the entry discards it.
    pub(super) const STALE: u8 = 3;
    /// In the list, but woken: a waker has called this particular worker.
    pub(super) const CALLED: u8 = 4;
}

#[derive(Default)]
struct SleeperEntry {
    state: AtomicU8,
    /// The next sleeper in the list, plus one. Meaningful only while this entry is in the list.
    next: AtomicU32,
}

/// The cache line that every step of every worker reads. It is written when a search begins or
/// ends, and when a lane or a worker's affine tasks become non-empty or empty.
struct SleepLine {
    word: AtomicU64,
    flags: Flags,
}

/// Which workers search and which sleep.
pub(super) struct SleeperList {
    line: Padded<SleepLine>,
    entries: Box<[Padded<SleeperEntry>]>,
    cores: WorkerCores,
}

impl SleeperList {
    /// Creates the state for at most `workers` workers, all awake and none searching. `one_sided`
    /// is whether a pusher needs no fence before it loads the word, because the sleeper runs the
    /// heavy barrier.
    ///
    /// # Panics
    /// When `workers` is more than [`MAX_WORKERS`].
    #[must_use]
    pub(super) fn new(workers: usize, one_sided: bool) -> Self {
        assert!(
            workers <= MAX_WORKERS,
            "more workers than the sleep word counts"
        );
        Self {
            line: Padded::new(SleepLine {
                word: AtomicU64::new(if one_sided { 0 } else { CAREFUL }),
                flags: Flags::new(),
            }),
            entries: (0..workers).map(|_| Padded::default()).collect(),
            cores: WorkerCores::new(workers),
        }
    }

    /// Returns the cores of the workers.
    pub(super) fn cores(&self) -> &WorkerCores {
        &self.cores
    }

    /// Returns the current state. A pusher needs a light barrier between its push and this load.
    #[inline(always)]
    #[must_use]
    pub(super) fn state(&self) -> SleepState {
        // Relaxed: the barriers of `sleep.md` order it.
        SleepState(self.line.word.load(Ordering::Relaxed))
    }

    /// Returns the flags of the lanes and mailboxes, which are stored here to share the cache line.
    #[inline(always)]
    pub(super) fn flags(&self) -> &Flags {
        &self.line.flags
    }

    /// Sets the attention bit. Returns whether it was clear.
    pub(super) fn raise_attention(&self) -> bool {
        // AcqRel: a worker that clears the bit after this sees the push that came before it.
        let before = self.line.word.fetch_or(ATTENTION, Ordering::AcqRel);
        !SleepState(before).attention()
    }

    /// Clears the attention bit. The caller must then check again for work that needs attention.
    pub(super) fn lower_attention(&self) {
        // AcqRel: as in `raise_attention`.
        self.line.word.fetch_and(!ATTENTION, Ordering::AcqRel);
    }

    /// Becomes a searcher unless `limit` workers are searching already.
    #[must_use]
    pub(super) fn start_search(&self, limit: usize) -> bool {
        self.update(|state| (state.searching() < limit).then(|| (state.one_more_searching(), ())))
            .is_some()
    }

    /// Ends the search of a worker that has found work or leaves. Returns whether it was the last
    /// searcher: then it should wake another worker, since there may be more tasks.
    #[must_use]
    pub(super) fn end_search(&self) -> bool {
        // The release of `update` passes on to the next searcher what this one has seen.
        let last = self.update(|state| {
            debug_assert!(state.searching() > 0);
            let next = state.one_less_searching();
            Some((next, next.searching() == 0))
        });
        last == Some(true)
    }

    /// Turns a searcher into the standby worker: it no longer counts as searching, and pushes wake
    /// no other worker until it [ends its standby](Self::end_standby), or until a worker falls
    /// asleep on a core that no other awake worker uses. Returns false if another worker stands by
    /// already: then the caller continues to search.
    #[must_use]
    pub(super) fn stand_by(&self) -> bool {
        self.update(|state| {
            debug_assert!(state.searching() > 0);
            (!state.has_standby()).then(|| (state.one_less_searching().with_standby(), ()))
        })
        .is_some()
    }

    /// Ends the standby. Returns whether the worker counts as searching again, which it does unless
    /// `limit` workers are searching already.
    #[must_use]
    pub(super) fn end_standby(&self, limit: usize) -> bool {
        let counted = self.update(|state| {
            let state = state.without_standby();
            Some(if state.searching() < limit {
                (state.one_more_searching(), true)
            } else {
                (state, false)
            })
        });
        counted == Some(true)
    }

    /// Announces that `worker` is about to sleep, which ends its search if it is `searching`.
    /// `alone` is whether, as far as is known, no other worker is awake on its core: then a push
    /// must be able to wake it, even if another worker stands by.
    pub(super) fn announce(&self, worker: usize, searching: bool, alone: bool) -> Announced {
        let entry = &self.entries[worker];
        // An entry that is still in the list from an earlier sleep is reused. Relaxed: only this
        // worker makes an entry stale. If a waker discards the entry at the same time, the
        // modification order of the entry decides which of the two is first.
        let listed = entry
            .state
            .compare_exchange(
                entry::STALE,
                entry::ASLEEP,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok();
        if !listed {
            // Relaxed: the release of `update` publishes the entry with the list. A `wake_worker`
            // that reads it sooner needs nothing that came before.
            entry.state.store(entry::ASLEEP, Ordering::Relaxed);
        }
        let announced = self.update(|state| {
            if state.is_stopped() {
                return None;
            }
            if !searching && state.searching() == 0 {
                return Some((state, Announced::MustSearch));
            }
            let mut next = state;
            if searching {
                next = next.one_less_searching();
            }
            if alone {
                next = next.without_standby();
            }
            if !listed {
                let link = state.head().map_or(0, |w| w as u32 + 1);
                // Relaxed: published by the release of `update`.
                entry.next.store(link, Ordering::Relaxed);
                next = next.with_head(Some(worker));
            }
            let last = searching && next.searching() == 0 && !next.has_standby();
            Some((
                next,
                if last {
                    Announced::LastSearcher
                } else {
                    Announced::Listed
                },
            ))
        });
        match announced {
            Some(Announced::MustSearch) if self.undo_announce(worker, listed) => Announced::Woken,
            Some(announced) => announced,
            None => {
                if self.undo_announce(worker, listed) {
                    // The engine has stopped, so no push counts on this search.
                    let _ = self.end_search();
                }
                Announced::Stopped
            }
        }
    }

    /// Reverts the entry of an announcement that did not take place. Returns true if a waker was
    /// faster: it has counted the worker as searching.
    fn undo_announce(&self, worker: usize, listed: bool) -> bool {
        let entry = &self.entries[worker];
        if listed {
            return self.end_sleep(worker) == Awake::Woken;
        }
        // The entry was never in the list, but the worker may have been called. Acquire: pairs with
        // the release in `mark_called`.
        entry.state.swap(entry::OUT, Ordering::Acquire) == entry::CALLED
            && !broken(Canary::CallBack)
    }

    /// Returns what woke `worker`, and takes its entry out of the sleepers. The worker itself calls
    /// this once it no longer sleeps.
    pub(super) fn end_sleep(&self, worker: usize) -> Awake {
        let entry = &self.entries[worker];
        // Acquire: pairs with the releases in `mark_woken` and `mark_called`.
        match entry.state.compare_exchange(
            entry::ASLEEP,
            entry::STALE,
            Ordering::Acquire,
            Ordering::Acquire,
        ) {
            Ok(_) => Awake::ByItself,
            Err(state) => {
                // A called worker is still in the list, unless a waker has just removed it.
                // Relaxed: the exchange above has acquired. If this one fails, that waker published
                // nothing.
                let listed = state == entry::CALLED
                    && entry
                        .state
                        .compare_exchange(
                            entry::CALLED,
                            entry::STALE,
                            Ordering::Relaxed,
                            Ordering::Relaxed,
                        )
                        .is_ok();
                if !listed {
                    debug_assert!(
                        matches!(state, entry::WOKEN | entry::CALLED),
                        "woke without having slept"
                    );
                    // Relaxed: the entry is out of the list, so only this worker uses it.
                    entry.state.store(entry::OUT, Ordering::Relaxed);
                }
                Awake::Woken
            }
        }
    }

    /// Whether `worker` has been woken and has not processed that yet.
    #[must_use]
    pub(super) fn is_woken(&self, worker: usize) -> bool {
        // Acquire: pairs with the releases in `mark_woken` and `mark_called`.
        let state = self.entries[worker].state.load(Ordering::Acquire);
        matches!(state, entry::WOKEN | entry::CALLED)
    }

    /// Whether a worker sleeps for which no wake is under way. The head of the list does not show
    /// this, because the list has stale entries.
    ///
    /// For a worker that has ended its search: it sees every sleeper that was listed before, since
    /// ending the search acquired the word.
    pub(super) fn has_sleeper(&self) -> bool {
        // Relaxed: the caller has acquired the word.
        let is_asleep =
            |entry: &Padded<SleeperEntry>| entry.state.load(Ordering::Relaxed) == entry::ASLEEP;
        self.entries.iter().any(is_asleep)
    }

    /// Whether the first entry of the list is stale, and no worker searches or stands by.
    ///
    /// If it is not, its worker sleeps, or has been woken. Should that worker wake by itself later,
    /// it sees what the caller did before.
    pub(super) fn has_stale_head(&self) -> bool {
        let state = self.state();
        let Some(head) = state.head().filter(|_| state.wants_wake()) else {
            return false;
        };
        // A write of the same value, which reads the latest one. AcqRel: pairs with the acquire in
        // `end_sleep`, which comes after it if the worker sleeps.
        let entry = self.entries[head].state.fetch_or(0, Ordering::AcqRel);
        entry == entry::STALE
    }

    /// Whether `worker` sleeps, or is about to, or has been woken and does not run yet.
    pub(super) fn is_asleep_or_waking(&self, worker: usize) -> bool {
        // Relaxed: a hint. If it is wrong, a task goes to a worker that is not the preferred one.
        let state = self.entries[worker].state.load(Ordering::Relaxed);
        matches!(state, entry::ASLEEP | entry::WOKEN | entry::CALLED)
    }

    /// Wakes `worker` if it sleeps or is about to, at any position of the list, and counts it as
    /// searching. If this returns true, the caller must unpark the worker. If it returns false, the
    /// caller must wake another worker where a wake is wanted.
    #[must_use]
    pub(super) fn wake_worker(&self, worker: usize) -> bool {
        let state = &self.entries[worker].state;
        // Relaxed: if the worker falls asleep right now, `wake_one` covers it.
        if state.load(Ordering::Relaxed) != entry::ASLEEP {
            return false;
        }
        // Counted before the worker can observe the call: it ends its search as a counted searcher.
        let _ = self.update(|state| Some((state.one_more_searching(), ())));
        self.mark_called(worker)
    }

    /// Marks a sleeper that has been counted as searching as called, or takes the count back.
    fn mark_called(&self, worker: usize) -> bool {
        // Release: what this thread did before, above all the push, is visible to the worker.
        // Relaxed on failure: the worker is awake, or another waker has woken it.
        let called = self.entries[worker]
            .state
            .compare_exchange(
                entry::ASLEEP,
                entry::CALLED,
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok();
        if !called {
            // The caller must compensate for pushes that relied on the count meanwhile.
            let _ = self.end_search();
        }
        called
    }

    /// Picks a sleeper to wake if [a wake is wanted](SleepState::wants_wake), and counts it as
    /// searching. The caller must unpark it.
    ///
    /// Prefers a sleeper whose core is not `waker`, the core of the caller, and has no other awake
    /// worker; first among those that are `near`. Otherwise picks the worker that fell asleep last.
    #[must_use]
    pub(super) fn wake_one(
        &self,
        waker: Option<u32>,
        near: impl Iterator<Item = usize> + Clone,
    ) -> Option<usize> {
        let state = self.state();
        if !state.wants_wake() {
            return None;
        }
        let wanted = SleepState::wants_wake;
        if let woken @ Some(_) = self.wake_near(waker, near, wanted) {
            return woken;
        }
        if let Some(chosen) = waker.and_then(|core| self.cores.choose(core, state.head()))
            && state.head() != Some(chosen)
            && self.wake_listed(chosen, wanted)
        {
            return Some(chosen);
        }
        self.pick(wanted)
    }

    /// Wakes a sleeper among those that are `near`, if there is one on a free core and a wake is
    /// `wanted`.
    fn wake_near(
        &self,
        waker: Option<u32>,
        mut near: impl Iterator<Item = usize> + Clone,
        wanted: impl Fn(SleepState) -> bool,
    ) -> Option<usize> {
        let chosen = match waker {
            Some(core) => self.cores.choose_among(near, core, self.state().head()),
            None => near.find(|&worker| self.is_asleep(worker)),
        };
        chosen.filter(|&worker| self.wake_listed(worker, wanted))
    }

    fn is_asleep(&self, worker: usize) -> bool {
        // Relaxed: if it is wrong, no worker is woken here, or one that wakes by itself.
        self.entries[worker].state.load(Ordering::Relaxed) == entry::ASLEEP
    }

    /// Wakes `worker` at any position of the list, if a wake is `wanted` and the worker sleeps. If
    /// this returns false, the caller must wake another worker where a wake is wanted.
    fn wake_listed(&self, worker: usize, wanted: impl Fn(SleepState) -> bool) -> bool {
        self.is_asleep(worker)
            && self
                .update(|state| wanted(state).then(|| (state.one_more_searching(), ())))
                .is_some()
            && self.mark_called(worker)
    }

    /// Makes all workers exit. The caller must then unpark each that [`wake_any`](Self::wake_any)
    /// returns.
    pub(super) fn stop(&self) {
        // A worker that sees the bit sees what came before it; `announce` refuses after it.
        let _ = self.update(|state| Some((SleepState(state.0 | STOPPED), ())));
    }

    /// Picks a sleeper, even if other workers search.
    #[must_use]
    pub(super) fn wake_any(&self) -> Option<usize> {
        self.pick(|_| true)
    }

    /// Picks a sleeper and counts it as searching, even if other workers search, but fewer than
    /// `limit`; first among those that are `near`, as [`wake_one`](Self::wake_one) does. The caller
    /// must unpark it.
    #[must_use]
    pub(super) fn wake_more(
        &self,
        limit: usize,
        waker: Option<u32>,
        near: impl Iterator<Item = usize> + Clone,
    ) -> Option<usize> {
        let wanted = |state: SleepState| state.searching() < limit && !state.has_standby();
        self.wake_near(waker, near, wanted)
            .or_else(|| self.pick(wanted))
    }

    /// Removes the first entry that is not stale from the list while `wanted` holds.
    fn pick(&self, wanted: impl Fn(SleepState) -> bool) -> Option<usize> {
        let mut granted = false;
        loop {
            let picked = self.update(|state| {
                let head = state.head().filter(|_| granted || wanted(state))?;
                // Relaxed: `update` has acquired the head that leads to this entry. If the list has
                // changed since, the tag has changed as well.
                let next = self.entries[head].next.load(Ordering::Relaxed);
                let rest = state.with_head((next as usize).checked_sub(1));
                Some((
                    if granted {
                        rest
                    } else {
                        rest.one_more_searching()
                    },
                    head,
                ))
            });
            let Some(worker) = picked else {
                if granted {
                    // All entries were stale. Take the count back; if it was the last one, and a
                    // worker has fallen asleep meanwhile relying on it, start over.
                    granted = false;
                    if self.end_search() && wanted(self.state()) {
                        continue;
                    }
                }
                return None;
            };
            granted = true;
            if self.mark_woken(worker) {
                return Some(worker);
            }
        }
    }

    /// Marks the worker of an entry that has just been removed from the list as woken. Returns true
    /// if it sleeps, or is about to; false if the entry was stale or its worker was called.
    fn mark_woken(&self, worker: usize) -> bool {
        let state = &self.entries[worker].state;
        loop {
            // Release: what this thread did before, above all the push, is visible to the woken
            // worker.
            if state
                .compare_exchange(
                    entry::ASLEEP,
                    entry::WOKEN,
                    Ordering::Release,
                    Ordering::Relaxed,
                )
                .is_ok()
            {
                return true;
            }
            // Relaxed: this publishes nothing. If it fails, the worker has just fallen asleep and
            // reused the entry, and the first exchange of the next iteration succeeds.
            if state
                .compare_exchange(
                    entry::STALE,
                    entry::OUT,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok()
            {
                return false;
            }
            // Relaxed: the waker that called the worker has published its push in `mark_called`.
            // From now on the entry is like that of any worker that was removed from the list and
            // woken, except that this thread does not unpark it.
            if state
                .compare_exchange(
                    entry::CALLED,
                    entry::WOKEN,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok()
            {
                return false;
            }
            hint::spin_loop();
        }
    }

    /// Changes the word in one atomic step. `change` returns the new state and the result, or
    /// `None` to leave the word as it is.
    fn update<R>(&self, change: impl Fn(SleepState) -> Option<(SleepState, R)>) -> Option<R> {
        // Acquire, here and on failure: `change` reads the entry that the head points to, so it
        // must see what was linked before the head was set. The tag shows that nothing has changed
        // since.
        let mut state = SleepState(self.line.word.load(Ordering::Acquire));
        loop {
            let (next, result) = change(state)?;
            let next = if broken(Canary::WakeBit) {
                next
            } else {
                next.complete()
            };
            if next == state {
                return Some(result);
            }
            // AcqRel: a thread that reads the list sees the entries that were linked before.
            // Acquire on failure: as for the first load.
            match self.line.word.compare_exchange_weak(
                state.0,
                next.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(result),
                Err(now) => state = SleepState(now),
            }
        }
    }
}

impl fmt::Debug for SleeperList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}
