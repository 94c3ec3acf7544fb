//! The sleep word: its bits, and a snapshot of it.

use std::fmt;

/// A push must wake a sleeper: one is listed, no worker searches, and none stands by.
const WAKE: u64 = 1;
/// The system has no process-wide barrier: a push needs a fence before it can rely on the word.
pub(super) const CAREFUL: u64 = 1 << 1;
/// Busy workers must serve work that is not in their own queues.
pub(super) const ATTENTION: u64 = 1 << 2;
/// A worker stands by: it yields its core to another worker before it searches.
const STANDBY: u64 = 1 << 3;
/// All workers must exit.
pub(super) const STOPPED: u64 = 1 << 4;
/// The first entry of the list of sleepers, plus one; zero if the list is empty.
const HEAD_SHIFT: u32 = 5;
const HEAD_MASK: u64 = 0x3fff << HEAD_SHIFT;
/// The number of searching workers.
const SEARCHING_SHIFT: u32 = 19;
const SEARCHING: u64 = 1 << SEARCHING_SHIFT;
const SEARCHING_MASK: u64 = 0xffff << SEARCHING_SHIFT;
/// Changes with the list, so that a compare-and-swap of an old word fails.
const TAG: u64 = 1 << 35;

/// The most workers that one sleep word can count.
pub const MAX_WORKERS: usize = 0x3ffe;

/// A snapshot of the sleep word: `wake` (1 bit), `careful` (1), `attention` (1), `standby` (1),
/// `stopped` (1), `head` (14), `searching` (16), `tag` (29). `wake` is derived from the other
/// fields, so a push tests three bits only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SleepState(pub(super) u64);

impl SleepState {
    /// Returns the number of searching workers.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// let mut worker = core.enter(0);
    /// let _ = worker.step(|_, _| ()); // there is no task
    /// assert_eq!(core.sleep_state().searching(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub const fn searching(self) -> usize {
        ((self.0 & SEARCHING_MASK) >> SEARCHING_SHIFT) as usize
    }

    /// Whether the list of sleepers has an entry. The entry may be stale.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// let mut worker = core.enter(0);
    /// while !matches!(worker.step(|_, _| ()), Step::Park(_)) {}
    /// assert!(core.sleep_state().has_sleepers());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn has_sleepers(self) -> bool {
        self.0 & HEAD_MASK != 0
    }

    /// Whether a push has more to do: it [must wake](Self::wants_wake) a sleeper, attention is
    /// requested, or this system needs a fence before the word can be trusted.
    #[inline(always)]
    #[must_use]
    pub(super) const fn needs_slow_push(self) -> bool {
        self.0 & (WAKE | CAREFUL | ATTENTION) != 0
    }

    /// Whether busy workers must serve work that is not in their own queues.
    #[inline(always)]
    #[must_use]
    pub(super) const fn attention(self) -> bool {
        self.0 & ATTENTION != 0
    }

    /// Whether no worker sleeps, searches or stands by, so that new work waits for a busy worker.
    #[inline(always)]
    #[must_use]
    pub(super) const fn all_busy(self) -> bool {
        self.0 & (HEAD_MASK | SEARCHING_MASK | STANDBY) == 0
    }

    /// Whether a woken worker [stands by](super::Worker::stands_by).
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// let mut worker = core.enter(0);
    /// while !matches!(worker.step(|_, _| ()), Step::Park(_)) {}
    /// assert!(!core.sleep_state().has_standby()); // it sleeps
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub const fn has_standby(self) -> bool {
        self.0 & STANDBY != 0
    }

    /// Whether the workers must exit.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.stop();
    /// assert!(core.sleep_state().is_stopped());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn is_stopped(self) -> bool {
        self.0 & STOPPED != 0
    }

    /// Whether new work must wake a sleeper: one is listed, no worker searches, and none stands by.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert!(!core.sleep_state().wants_wake()); // no worker sleeps
    /// let mut worker = core.enter(0);
    /// while !matches!(worker.step(|_, _| ()), Step::Park(_)) {}
    /// assert!(core.sleep_state().wants_wake());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn wants_wake(self) -> bool {
        self.0 & WAKE != 0
    }

    /// Returns the state with `wake` recomputed. Every change of the word ends with this.
    #[inline]
    pub(super) const fn complete(self) -> Self {
        let wake = self.has_sleepers() && self.0 & (SEARCHING_MASK | STANDBY) == 0;
        Self((self.0 & !WAKE) | if wake { WAKE } else { 0 })
    }

    #[inline]
    pub(super) const fn head(self) -> Option<usize> {
        let head = (self.0 & HEAD_MASK) >> HEAD_SHIFT;
        (head as usize).checked_sub(1)
    }

    /// Replaces the head of the list of sleepers. The tag is incremented, so the word is a new one.
    #[inline]
    pub(super) const fn with_head(self, head: Option<usize>) -> Self {
        let head = match head {
            Some(worker) => worker as u64 + 1,
            None => 0,
        };
        Self(((self.0 & !HEAD_MASK) | (head << HEAD_SHIFT)).wrapping_add(TAG))
    }

    #[inline]
    pub(super) const fn one_more_searching(self) -> Self {
        Self(self.0 + SEARCHING)
    }

    #[inline]
    pub(super) const fn one_less_searching(self) -> Self {
        Self(self.0 - SEARCHING)
    }

    #[inline]
    pub(super) const fn with_standby(self) -> Self {
        Self(self.0 | STANDBY)
    }

    #[inline]
    pub(super) const fn without_standby(self) -> Self {
        Self(self.0 & !STANDBY)
    }
}

impl fmt::Debug for SleepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepState")
            .field("searching", &self.searching())
            .field("head", &self.head())
            .field("attention", &self.attention())
            .field("wake", &self.wants_wake())
            .field("standby", &self.has_standby())
            .field("careful", &(self.0 & CAREFUL != 0))
            .field("stopped", &self.is_stopped())
            .finish()
    }
}
