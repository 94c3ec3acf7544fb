#![doc = include_str!("sleep.md")]

use super::{lanes::Flags, worker_cores::WorkerCores};
use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicU8, AtomicU32, AtomicU64, Ordering, hint},
};
use std::fmt;

/// A push must wake a sleeper: one is listed, no worker searches, and none stands by.
const WAKE: u64 = 1;
const CAREFUL: u64 = 1 << 1;
/// Busy workers are asked to serve work that is not in their own queues.
const ATTENTION: u64 = 1 << 2;
const STANDBY: u64 = 1 << 3;
const STOPPED: u64 = 1 << 4;
const HEAD_SHIFT: u32 = 5;
const HEAD_MASK: u64 = 0x3fff << HEAD_SHIFT;
const SEARCHING_SHIFT: u32 = 19;
const SEARCHING: u64 = 1 << SEARCHING_SHIFT;
const SEARCHING_MASK: u64 = 0xffff << SEARCHING_SHIFT;
const TAG: u64 = 1 << 35;

/// The most workers that one sleep word can count.
pub const MAX_WORKERS: usize = 0x3ffe;

/// A reading of the sleep word: `wake` (1 bit), `careful` (1), `attention` (1), `standby` (1), `stopped` (1),
/// `head` (14), `searching` (16), `tag` (29). `wake` follows from the others, so that a push tests three bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SleepState(u64);

impl SleepState {
    /// How many workers are looking for work.
    #[must_use]
    pub const fn searching(self) -> usize {
        ((self.0 & SEARCHING_MASK) >> SEARCHING_SHIFT) as usize
    }

    /// Whether somebody may be asleep.
    #[inline(always)]
    #[must_use]
    pub const fn has_sleepers(self) -> bool {
        self.0 & HEAD_MASK != 0
    }

    /// Whether a push has anything more to do: it [must wake](Self::wants_wake) a sleeper, busy workers are asked
    /// to serve other work, or this system needs a fence before the word can be trusted.
    #[inline(always)]
    #[must_use]
    pub const fn needs_care(self) -> bool {
        self.0 & (WAKE | CAREFUL | ATTENTION) != 0
    }

    /// Whether busy workers are asked to serve work that is not in their own queues.
    #[inline(always)]
    #[must_use]
    pub const fn attention(self) -> bool {
        self.0 & ATTENTION != 0
    }

    /// Whether no worker sleeps, searches or stands by: new work has to wait for a busy one.
    #[inline(always)]
    #[must_use]
    pub const fn all_busy(self) -> bool {
        self.0 & (HEAD_MASK | SEARCHING_MASK | STANDBY) == 0
    }

    /// Whether a woken worker [stands by](Sleep::stand_by).
    #[must_use]
    pub const fn has_standby(self) -> bool {
        self.0 & STANDBY != 0
    }

    /// Whether everybody has been told to go home.
    #[inline(always)]
    #[must_use]
    pub const fn stopped(self) -> bool {
        self.0 & STOPPED != 0
    }

    /// Whether new work must wake a sleeper: one is listed, no worker searches, and none stands by.
    #[inline(always)]
    #[must_use]
    pub const fn wants_wake(self) -> bool {
        self.0 & WAKE != 0
    }

    /// The same state with the bit `wake` that belongs to it. Every change of the word ends with this.
    const fn complete(self) -> Self {
        let wake = self.has_sleepers() && self.0 & (SEARCHING_MASK | STANDBY) == 0;
        Self((self.0 & !WAKE) | if wake { WAKE } else { 0 })
    }

    const fn head(self) -> Option<usize> {
        let head = (self.0 & HEAD_MASK) >> HEAD_SHIFT;
        (head as usize).checked_sub(1)
    }

    /// The list of sleepers now starts with `head`; the tag makes the word a new one.
    const fn with_head(self, head: Option<usize>) -> Self {
        let head = match head {
            Some(worker) => worker as u64 + 1,
            None => 0,
        };
        Self(((self.0 & !HEAD_MASK) | (head << HEAD_SHIFT)).wrapping_add(TAG))
    }

    const fn one_more_searching(self) -> Self {
        Self(self.0 + SEARCHING)
    }

    const fn one_less_searching(self) -> Self {
        Self(self.0 - SEARCHING)
    }

    const fn with_standby(self) -> Self {
        Self(self.0 | STANDBY)
    }

    const fn without_standby(self) -> Self {
        Self(self.0 & !STANDBY)
    }
}

impl fmt::Debug for SleepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("searching", &self.searching())
            .field("head", &self.head())
            .field("attention", &self.attention())
            .field("wake", &self.wants_wake())
            .field("standby", &self.has_standby())
            .field("careful", &(self.0 & CAREFUL != 0))
            .field("stopped", &self.stopped())
            .finish()
    }
}

/// What became of a worker that wants to sleep.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// It is listed; others are still searching.
    Listed,
    /// It is listed, and it was the last one searching: it must look once more.
    LastSearcher,
    /// Nobody is searching, so it must search before it may sleep.
    MustSearch,
    /// It did not fall asleep, but somebody has woken it meanwhile and counts on its search.
    Woken,
    /// The workers have been told to go home.
    Stopped,
}

/// What a worker that wakes up finds.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awake {
    /// Somebody woke it, and counted it among the searching.
    Woken,
    /// It woke by itself: the time was up.
    ByItself,
}

/// A worker's entry in the list of sleepers.
mod entry {
    /// Not in the list.
    pub(super) const OUT: u8 = 0;
    /// In the list and asleep, or about to be.
    pub(super) const ASLEEP: u8 = 1;
    /// Taken from the list by somebody who wakes it.
    pub(super) const WOKEN: u8 = 2;
    /// In the list, but awake: whoever finds it there throws the entry away.
    pub(super) const STALE: u8 = 3;
    /// In the list, and woken all the same: somebody has called this very worker.
    pub(super) const CALLED: u8 = 4;
}

#[derive(Default)]
struct Entry {
    state: AtomicU8,
    /// The next sleeper in the list, plus one; meaningful while this one is in the list.
    next: AtomicU32,
}

/// What every step of every worker reads, on one line. It is written when somebody begins or ends a search, and
/// when a lane or a box gets its first task or loses its last.
struct Line {
    word: AtomicU64,
    flags: Flags,
}

/// Who searches and who sleeps.
pub struct Sleep {
    line: Padded<Line>,
    entries: Box<[Padded<Entry>]>,
    cores: WorkerCores,
}

impl Sleep {
    /// For at most `workers` workers, all awake and none searching. `one_sided` says whether a pusher needs
    /// no fence before its look at the word, because the sleeper makes up for it.
    ///
    /// # Panics
    /// When `workers` is more than [`MAX_WORKERS`].
    #[must_use]
    pub fn new(workers: usize, one_sided: bool) -> Self {
        assert!(
            workers <= MAX_WORKERS,
            "more workers than the sleep word counts"
        );
        Self {
            line: Padded::new(Line {
                word: AtomicU64::new(if one_sided { 0 } else { CAREFUL }),
                flags: Flags::new(),
            }),
            entries: (0..workers).map(|_| Padded::default()).collect(),
            cores: WorkerCores::new(workers),
        }
    }

    /// On which cores the workers run, and ran when they fell asleep.
    pub(super) fn cores(&self) -> &WorkerCores {
        &self.cores
    }

    /// The present state. A pusher puts a light barrier between its push and this load.
    #[inline(always)]
    #[must_use]
    pub fn state(&self) -> SleepState {
        // Relaxed: the barriers of `sleep.md` order it.
        SleepState(self.line.word.load(Ordering::Relaxed))
    }

    /// The flags of the lanes and boxes, which only live here.
    #[inline(always)]
    pub(super) fn flags(&self) -> &Flags {
        &self.line.flags
    }

    /// Sets the attention bit. Returns whether it was clear.
    pub(super) fn raise_attention(&self) -> bool {
        // AcqRel: a worker that clears the bit after this sees the push that came before.
        let before = self.line.word.fetch_or(ATTENTION, Ordering::AcqRel);
        !SleepState(before).attention()
    }

    /// Clears the attention bit. The caller must then look once more for work that needs it.
    pub(super) fn lower_attention(&self) {
        // AcqRel: as in `raise_attention`.
        self.line.word.fetch_and(!ATTENTION, Ordering::AcqRel);
    }

    /// Becomes a searcher unless `limit` workers are searching already.
    #[must_use]
    pub fn start_search(&self, limit: usize) -> bool {
        self.update(|state| (state.searching() < limit).then(|| (state.one_more_searching(), ())))
            .is_some()
    }

    /// A searcher has found work, or leaves. True when it was the last one: it should wake another,
    /// since where there was one task there may be more.
    #[must_use]
    pub fn end_search(&self) -> bool {
        // The release of `update` hands what this searcher has seen on to the next one.
        let last = self.update(|state| {
            debug_assert!(state.searching() > 0);
            let next = state.one_less_searching();
            Some((next, next.searching() == 0))
        });
        last == Some(true)
    }

    /// A searcher stands by: it counts no longer as searching, and pushes wake no other worker until it
    /// [comes back](Self::end_standby), or a worker falls asleep that is not on a shared core. False when
    /// another worker stands by already: then it goes on searching.
    #[must_use]
    pub fn stand_by(&self) -> bool {
        self.update(|state| {
            debug_assert!(state.searching() > 0);
            (!state.has_standby()).then(|| (state.one_less_searching().with_standby(), ()))
        })
        .is_some()
    }

    /// The worker that stands by stands by no longer. True when it counts as searching again: unless `limit`
    /// workers are searching already.
    #[must_use]
    pub fn end_standby(&self, limit: usize) -> bool {
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

    /// Announces that `worker` is about to sleep, which ends its search if it is `searching`. `alone` says that no
    /// other worker is awake on its core, as far as is known: then a push must be able to wake it, whoever stands by.
    pub fn announce(&self, worker: usize, searching: bool, alone: bool) -> Announced {
        let entry = &self.entries[worker];
        // An entry that is still in the list from an earlier sleep is used again.
        // Relaxed: only this worker makes an entry stale; a waker that throws it away at the same
        // time settles who was first by the entry's own order.
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
            // Relaxed: nobody else sees the entry until the list has it, by the release of `update`.
            entry.state.store(entry::ASLEEP, Ordering::Relaxed);
        }
        let announced = self.update(|state| {
            if state.stopped() {
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
            Some(Announced::MustSearch) if self.get_up(worker, listed) => Announced::Woken,
            Some(announced) => announced,
            None => {
                if self.get_up(worker, listed) {
                    // Nobody counts on a search any more.
                    let _ = self.end_search();
                }
                Announced::Stopped
            }
        }
    }

    /// Undoes the entry of an announcement that did not happen. True when a waker was faster: it has
    /// counted the worker among the searching.
    fn get_up(&self, worker: usize, listed: bool) -> bool {
        let entry = &self.entries[worker];
        if listed {
            return self.wake_up(worker) == Awake::Woken;
        }
        // It was never in the list, but it may have been called. Acquire: pairs with the release in `call`.
        entry.state.swap(entry::OUT, Ordering::Acquire) == entry::CALLED
            && !broken(Canary::CallBack)
    }

    /// What woke `worker`. Called by the worker itself once it no longer sleeps.
    pub fn wake_up(&self, worker: usize) -> Awake {
        let entry = &self.entries[worker];
        // Acquire: pairs with the release in `settle`.
        match entry.state.compare_exchange(
            entry::ASLEEP,
            entry::STALE,
            Ordering::Acquire,
            Ordering::Acquire,
        ) {
            Ok(_) => Awake::ByItself,
            Err(state) => {
                // A called worker is still in the list, unless a waker has just found it there.
                // Relaxed: acquired above; if it fails, the waker has handed nothing over.
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
                    // Relaxed: out of the list, the entry is ours alone.
                    entry.state.store(entry::OUT, Ordering::Relaxed);
                }
                Awake::Woken
            }
        }
    }

    /// Whether `worker` has been woken and has not noticed yet.
    #[must_use]
    pub fn is_woken(&self, worker: usize) -> bool {
        // Acquire: pairs with the releases in `settle` and `call`.
        let state = self.entries[worker].state.load(Ordering::Acquire);
        matches!(state, entry::WOKEN | entry::CALLED)
    }

    /// Whether a worker sleeps that no wake is on the way to. The list alone does not tell: it has stale entries.
    ///
    /// For a worker that has ended its search: it sees every sleeper that was listed before, since the word was
    /// acquired then.
    pub(super) fn has_sleeper(&self) -> bool {
        // Relaxed: see above.
        let is_asleep =
            |entry: &Padded<Entry>| entry.state.load(Ordering::Relaxed) == entry::ASLEEP;
        self.entries.iter().any(is_asleep)
    }

    /// Whether `worker` sleeps, or is about to, woken or not.
    pub(super) fn is_down(&self, worker: usize) -> bool {
        // Relaxed: a hint. If it is wrong, a task goes to another worker than it should.
        let state = self.entries[worker].state.load(Ordering::Relaxed);
        matches!(state, entry::ASLEEP | entry::WOKEN | entry::CALLED)
    }

    /// Wakes `worker`, wherever it is in the list, if it sleeps or is about to, and counts it among the searching.
    /// The caller must unpark it. If this says no, the caller must see to it that somebody else is woken where
    /// that is called for.
    #[must_use]
    pub fn call(&self, worker: usize) -> bool {
        let state = &self.entries[worker].state;
        // Relaxed: if it falls asleep right now, that is what `wake_one` is for.
        if state.load(Ordering::Relaxed) != entry::ASLEEP {
            return false;
        }
        // Counted before it can notice, since it will stop searching as one who is counted.
        let _ = self.update(|state| Some((state.one_more_searching(), ())));
        self.mark_called(worker)
    }

    /// Marks a sleeper as called that has been counted as searching, or takes the count back.
    fn mark_called(&self, worker: usize) -> bool {
        // Release: what we did before, the push above all, is visible to the worker. Relaxed on failure: it is
        // awake, or somebody else has woken it.
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
            // Who trusted in the count meanwhile is the caller's to make up for.
            let _ = self.end_search();
        }
        called
    }

    /// Picks a sleeper to wake if [that is wanted](SleepState::wants_wake), and counts it as searching. The
    /// caller must unpark it.
    ///
    /// Rather one whose core is not `waker`, the core of the caller, and has no other worker that is awake; and
    /// else the one that fell asleep last.
    #[must_use]
    pub fn wake_one(&self, waker: Option<u32>) -> Option<usize> {
        let state = self.state();
        if !state.wants_wake() {
            return None;
        }
        if let Some(chosen) = waker.and_then(|core| self.cores.choose(core, state.head()))
            && state.head() != Some(chosen)
            && self.wake_listed(chosen)
        {
            return Some(chosen);
        }
        self.pick(|state| state.wants_wake())
    }

    /// Wakes `worker`, wherever it is in the list, if a wake is still wanted and it sleeps.
    fn wake_listed(&self, worker: usize) -> bool {
        // Relaxed: as in `call`.
        self.entries[worker].state.load(Ordering::Relaxed) == entry::ASLEEP
            && self
                .update(|state| state.wants_wake().then(|| (state.one_more_searching(), ())))
                .is_some()
            && self.mark_called(worker)
    }

    /// Tells everybody to go home. The caller must then wake all that
    /// [`wake_any`](Self::wake_any) returns.
    pub fn stop(&self) {
        // A worker that sees the bit sees what came before; `announce` refuses after it.
        let _ = self.update(|state| Some((SleepState(state.0 | STOPPED), ())));
    }

    /// Picks a sleeper, whoever is searching.
    #[must_use]
    pub fn wake_any(&self) -> Option<usize> {
        self.pick(|_| true)
    }

    /// Takes the first true sleeper from the list while `wanted` holds.
    fn pick(&self, wanted: impl Fn(SleepState) -> bool) -> Option<usize> {
        let mut granted = false;
        loop {
            let picked = self.update(|state| {
                let head = state.head().filter(|_| granted || wanted(state))?;
                // Relaxed: `update` has acquired the head that leads here, and if the list has changed
                // since, so has the tag.
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
                    // Only stale entries were there. Give the count back; if it was the last, and
                    // somebody went to sleep in the meantime trusting in it, start over.
                    granted = false;
                    if self.end_search() && wanted(self.state()) {
                        continue;
                    }
                }
                return None;
            };
            granted = true;
            if self.settle(worker) {
                return Some(worker);
            }
        }
    }

    /// Decides the fate of an entry that has just been taken from the list: true if its worker
    /// sleeps, or is about to, and is now marked as woken; false if the entry was stale, or its worker called.
    fn settle(&self, worker: usize) -> bool {
        let state = &self.entries[worker].state;
        loop {
            // Release: what we did before, the push above all, is visible to the woken worker.
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
            // Relaxed: nothing is handed over. If it fails, the worker has just gone to sleep
            // counting on the entry, and the first exchange finds it.
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
            // Relaxed: the one that called the worker has handed over what there was. From now on the entry is
            // like that of anybody who was taken from the list and woken; only we have not done it.
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

    /// One atomic change of the word: `change` says what to, and what to return; `None` gives up.
    fn update<R>(&self, change: impl Fn(SleepState) -> Option<(SleepState, R)>) -> Option<R> {
        // Acquire, here and on failure: `change` reads the entry that the head points to, so it must see
        // what was linked before the head was set. That nothing has changed since, the tag tells.
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
            // AcqRel: who reads the list sees the entries that were linked before. Acquire on failure: as
            // above.
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

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}
