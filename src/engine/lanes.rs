#![doc = include_str!("lanes.md")]

use super::locked::LockedQueue;
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicBool, AtomicU64, Ordering},
};
use std::fmt;

/// How urgent a task is.
///
/// ```
/// use filch::engine::Level;
///
/// assert!(Level::Low < Level::Normal && Level::High < Level::Critical);
/// assert_eq!(Level::default(), Level::Normal);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "simulate",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Level {
    /// When there is nothing else to do.
    Low,
    /// As it comes: in the queues of the workers and in the injector, at no extra cost.
    #[default]
    Normal,
    /// Before those that are normal.
    High,
    /// Before everything else.
    Critical,
}

impl Level {
    /// All levels, the least urgent first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Critical];
}

/// How many more urgent tasks a worker starts before a less urgent one gets a turn; zero gives it none.
///
/// ```
/// use filch::engine::{Ageing, Settings};
///
/// let settings = Settings {
///     ageing: Ageing { low: 0, ..Ageing::default() }, // Low tasks may wait for ever
///     ..Settings::new(4)
/// };
/// # let _ = settings;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "simulate",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Ageing {
    /// After so many Critical tasks in a row, with High ones waiting, a worker takes a High one.
    pub high: u32,
    /// After so many tasks that were Critical or High, a worker looks at its own queue and the injector
    /// first.
    pub normal: u32,
    /// Every so many tasks, of whatever kind, a worker looks at the Low ones first. One counts as two: else they
    /// would always come first. Where the driver tells the time, as the threads of a pool do, only when
    /// there have been Low tasks for a second.
    pub low: u32,
}

/// One High task for 13 Critical ones: whoever floods the pool with Critical tasks keeps nine tenths of it.
/// All three are primes, as the interval of the injector, so that the turns don't fall in step.
const HIGH_EVERY: u32 = 13;

/// One normal task for 31 urgent ones. The normal ones are what the urgent ones hope to overtake, and often what
/// they wait for as well, so this costs the urgent no more than three in a hundred.
const NORMAL_EVERY: u32 = 31;

/// One Low task in 127: less than one in a hundred, and with tasks of a millisecond still eight a second from
/// every worker.
const LOW_EVERY: u32 = 127;

impl Default for Ageing {
    fn default() -> Self {
        Self {
            high: HIGH_EVERY,
            normal: NORMAL_EVERY,
            low: LOW_EVERY,
        }
    }
}

/// How long Low tasks wait for turns, in nanoseconds, where a driver tells the time: longer than most
/// bursts of normal tasks last, so that Low means what it says, and short enough to be seen to run.
const LOW_AFTER: u64 = 1_000_000_000;

/// Since when there have been Low tasks: hints, written by the workers that read the clock.
#[derive(Debug, Default)]
pub(super) struct LowAge {
    /// In nanoseconds, plus one; zero while there is none.
    since: AtomicU64,
    /// Low tasks have waited for too short a time to overtake others.
    young: AtomicBool,
}

impl LowAge {
    /// Whether Low tasks may have turns. Always, as long as no driver tells the time.
    pub(super) fn is_ripe(&self) -> bool {
        // Relaxed: a hint.
        !self.young.load(Ordering::Relaxed)
    }

    /// It is `now`, and there are Low tasks or not.
    pub(super) fn observe(&self, waiting: bool, now: u64) {
        // Relaxed, here and below: a hint. If two workers race, a turn comes a little early or late.
        let since = self.since.load(Ordering::Relaxed);
        let next = match (waiting, since) {
            (false, _) => 0,
            (true, 0) => now + 1,
            (true, since) => since,
        };
        if next != since {
            // Relaxed: as above.
            self.since.store(next, Ordering::Relaxed);
        }
        let young = next == 0 || (now + 1).saturating_sub(next) < LOW_AFTER;
        if young == self.is_ripe() {
            // Relaxed: as above.
            self.young.store(young, Ordering::Relaxed);
        }
    }
}

const LOW: u64 = 1;
const HIGH: u64 = 1 << 1;
const CRITICAL: u64 = 1 << 2;
/// Futures that were spawned from outside, while all workers were busy: a hint.
const SPAWNED: u64 = 1 << 3;
/// What one box that is not empty adds to the word.
const BOX: u64 = 1 << 8;

/// Which lanes hold something, and how many boxes do: one word, read at every step of every worker.
pub(super) struct Flags(AtomicU64);

/// A reading of [`Flags`]: `low`, `high`, `critical`, `spawned` (1 bit each), `boxes` (56 bits from
/// bit 8 on).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Raised(u64);

impl Raised {
    /// Whether there is something that should not wait until the worker's own queue is empty.
    #[inline(always)]
    pub(super) const fn presses(self) -> bool {
        self.0 & !(LOW | SPAWNED) != 0
    }

    /// Whether a Critical or High task waits, or a future that was spawned from outside.
    pub(super) const fn urgent(self) -> bool {
        self.0 & (HIGH | CRITICAL | SPAWNED) != 0
    }

    pub(super) const fn spawned(self) -> bool {
        self.0 & SPAWNED != 0
    }

    pub(super) const fn has(self, level: Level) -> bool {
        self.0 & bit(level) != 0
    }

    pub(super) const fn lanes(self) -> bool {
        self.0 & (LOW | HIGH | CRITICAL) != 0
    }

    pub(super) const fn boxes(self) -> bool {
        self.0 >= BOX
    }
}

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raised")
            .field("critical", &self.has(Level::Critical))
            .field("high", &self.has(Level::High))
            .field("low", &self.has(Level::Low))
            .field("spawned", &self.spawned())
            .field("boxes", &(self.0 / BOX))
            .finish()
    }
}

const fn bit(level: Level) -> u64 {
    match level {
        Level::Low => LOW,
        Level::Normal => 0,
        Level::High => HIGH,
        Level::Critical => CRITICAL,
    }
}

impl Flags {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub(super) fn read(&self) -> Raised {
        // Relaxed: tells where to look; what is there the lock of the lane or box shows. Before a worker sleeps
        // the barriers of `sleep.md` order it.
        Raised(self.0.load(Ordering::Relaxed))
    }

    /// The lane with this bit is no longer empty. Called under its lock.
    fn raise(&self, bit: u64) {
        if self.read().0 & bit == 0 && !broken(Canary::LaneFlag) {
            // Relaxed: as in `read`.
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The lane with this bit is empty. Called under its lock.
    fn lower(&self, bit: u64) {
        // Relaxed: as in `read`.
        self.0.fetch_and(!bit, Ordering::Relaxed);
    }

    /// There are futures that were spawned from outside. A hint: see `Core::request_attention`.
    pub(super) fn raise_spawned(&self) {
        self.raise(SPAWNED);
    }

    /// There seem to be none, and the caller looks once more.
    /// Returns whether the flag was up.
    pub(super) fn lower_spawned(&self) -> bool {
        let up = self.read().spawned();
        if up {
            self.lower(SPAWNED);
        }
        up
    }

    /// A box is no longer empty. Called under its lock.
    pub(super) fn raise_box(&self) {
        // Relaxed: as in `read`.
        self.0.fetch_add(BOX, Ordering::Relaxed);
    }

    /// A box is empty. Called under its lock.
    pub(super) fn lower_box(&self) {
        // Relaxed: as in `read`.
        let before = self.0.fetch_sub(BOX, Ordering::Relaxed);
        debug_assert!(before >= BOX, "more boxes emptied than filled");
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

/// A queue for each level that is not normal, for all workers.
pub(super) struct Lanes<T> {
    low: LockedQueue<T>,
    high: LockedQueue<T>,
    critical: LockedQueue<T>,
    /// The most tasks from outside that wait in each.
    capacity: usize,
}

impl<T> Lanes<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            low: LockedQueue::unbounded(),
            high: LockedQueue::unbounded(),
            critical: LockedQueue::unbounded(),
            capacity,
        }
    }

    fn lane(&self, level: Level) -> &LockedQueue<T> {
        match level {
            Level::Low => &self.low,
            Level::High => &self.high,
            Level::Critical => &self.critical,
            Level::Normal => unreachable!("normal tasks have no lane"),
        }
    }

    /// Adds a task from outside, or gives it back when the lane is full.
    pub(super) fn push(&self, flags: &Flags, level: Level, task: T) -> Result<(), T> {
        self.lane(level)
            .push_then(task, self.capacity, || flags.raise(bit(level)))
    }

    /// Adds a task of a worker, which is never refused.
    pub(super) fn push_always(&self, flags: &Flags, level: Level, task: T) {
        let pushed = self
            .lane(level)
            .push_then(task, usize::MAX, || flags.raise(bit(level)));
        debug_assert!(pushed.is_ok(), "no memory is as large as that");
    }

    /// Takes the oldest task of `level`, if its flag is up.
    pub(super) fn take(&self, flags: &Flags, level: Level) -> Option<T> {
        if !flags.read().has(level) {
            return None;
        }
        let mut late = false;
        let task = self.lane(level).take_then(|| {
            late = broken(Canary::LaneLower);
            if !late {
                flags.lower(bit(level));
            }
        });
        if late {
            flags.lower(bit(level));
        }
        task
    }

    /// How many tasks there seem to be.
    pub(super) fn len(&self) -> usize {
        self.low.len() + self.high.len() + self.critical.len()
    }

    /// Moves the tasks that are `useless` to `into`.
    pub(super) fn remove_useless(
        &self,
        flags: &Flags,
        useless: &impl Fn(&T) -> bool,
        into: &mut Vec<T>,
    ) {
        for level in [Level::Critical, Level::High, Level::Low] {
            let emptied = || flags.lower(bit(level));
            self.lane(level).remove_useless(useless, into, emptied);
        }
    }

    /// Takes everything.
    pub(super) fn drain(&self, flags: &Flags) -> Vec<T> {
        let mut tasks = Vec::new();
        for level in [Level::Critical, Level::High, Level::Low] {
            while let Some(task) = self.take(flags, level) {
                tasks.push(task);
            }
        }
        tasks
    }
}

impl<T> fmt::Debug for Lanes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes")
            .field("critical", &self.critical.len())
            .field("high", &self.high.len())
            .field("low", &self.low.len())
            .finish()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_up_while_its_lane_holds_something() {
        let (flags, lanes) = (Flags::new(), Lanes::new(2));
        for level in [Level::Low, Level::High, Level::Critical] {
            lanes.push(&flags, level, 1).unwrap();
            lanes.push(&flags, level, 2).unwrap();
            assert_eq!(lanes.push(&flags, level, 3), Err(3), "full");
            lanes.push_always(&flags, level, 3);
            for n in 1..=3 {
                assert!(flags.read().has(level) && flags.read().lanes());
                assert_eq!(flags.read().presses(), level != Level::Low);
                assert_eq!(lanes.take(&flags, level), Some(n));
            }
            assert_eq!(flags.read(), Raised(0));
            assert_eq!(lanes.take(&flags, level), None);
        }
    }

    #[test]
    fn low_tasks_ripen_with_time() {
        let age = LowAge::default();
        assert!(age.is_ripe(), "where no driver tells the time");
        age.observe(false, 5);
        assert!(!age.is_ripe());
        age.observe(true, 7);
        age.observe(true, 7 + LOW_AFTER - 1);
        assert!(!age.is_ripe());
        age.observe(true, 7 + LOW_AFTER);
        assert!(age.is_ripe());
        age.observe(false, 8 + LOW_AFTER);
        assert!(!age.is_ripe(), "all are gone, and the next one waits anew");
    }

    #[test]
    fn boxes_are_counted_beside_the_lanes() {
        let flags = Flags::new();
        flags.raise(CRITICAL);
        flags.raise_box();
        flags.raise_box();
        flags.lower(CRITICAL);
        flags.lower_box();
        assert!(flags.read().boxes() && flags.read().presses() && !flags.read().lanes());
        flags.lower_box();
        assert_eq!(flags.read(), Raised(0));
    }

    #[test]
    fn weeding_leaves_the_others_and_lowers_the_flags_of_empty_lanes() {
        let (flags, lanes) = (Flags::new(), Lanes::new(usize::MAX));
        for (task, level) in [
            (1, Level::High),
            (2, Level::High),
            (3, Level::High),
            (4, Level::Low),
        ] {
            lanes.push_always(&flags, level, task);
        }
        let mut weeds = Vec::new();
        lanes.remove_useless(&flags, &|task| task % 2 == 0, &mut weeds);
        assert_eq!((weeds, lanes.len()), (vec![2, 4], 2));
        assert!(flags.read().has(Level::High) && !flags.read().has(Level::Low));
        assert_eq!(lanes.drain(&flags), [1, 3]);
    }

    #[test]
    fn draining_takes_the_most_urgent_first() {
        let (flags, lanes) = (Flags::new(), Lanes::new(usize::MAX));
        for (task, level) in [(1, Level::Low), (2, Level::Critical), (3, Level::High)] {
            lanes.push_always(&flags, level, task);
        }
        assert_eq!(lanes.drain(&flags), [2, 3, 1]);
        assert_eq!(flags.read(), Raised(0));
    }
}
