#![doc = include_str!("lanes.md")]

use super::locked::LockedQueue;
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicBool, AtomicU64, Ordering},
};
use std::fmt;

/// The priority of a task. Each one but Normal has a *lane*; the code calls the priority that a
/// task is queued at its *level*.
///
/// ```
/// use filch::engine::Priority;
///
/// assert!(Priority::Low < Priority::Normal && Priority::High < Priority::Critical);
/// assert_eq!(Priority::default(), Priority::Normal);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Runs when there is no other task.
    Low,
    /// The default: in the queues of the workers and in the injector, at no extra cost.
    #[default]
    Normal,
    /// Runs before normal tasks.
    High,
    /// Runs before all other tasks.
    Critical,
}

impl Priority {
    /// All levels, the least urgent first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Critical];
}

/// How many more urgent tasks a worker starts before a less urgent one gets a turn; zero gives no
/// turns. Where the driver [supplies the time](super::Worker::observe_time), as the threads of a
/// pool do, High and normal tasks have a turn after 100 ms too.
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
pub struct Ageing {
    /// After this number of Critical tasks in a row, with High tasks waiting, a worker takes a High
    /// one.
    pub high: u32,
    /// After this number of Critical or High tasks, a worker checks its own queue and the injector
    /// first.
    pub normal: u32,
    /// The interval, in tasks of any kind, at which a worker takes a Low task first. One counts as
    /// two: otherwise Low tasks would always come first. Where the driver supplies the time, as the
    /// threads of a pool do, Low tasks have turns only when there have been some for a second.
    pub low: u32,
}

/// One High task for 13 Critical ones: a flood of Critical tasks still gets nine tenths of the
/// pool. All three intervals are primes, as the interval of the injector, so that the turns do not
/// coincide regularly.
const HIGH_EVERY: u32 = 13;

/// One normal task for 31 urgent ones. Urgent tasks often wait for normal ones, so these must
/// progress; the turns cost the urgent tasks no more than three in a hundred.
const NORMAL_EVERY: u32 = 31;

/// One Low task in 127: less than one in a hundred, and with tasks of a millisecond still eight per
/// second and worker.
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

/// How long there must have been Low tasks before they have turns, in nanoseconds, where a driver
/// supplies the time. Longer than most bursts of normal tasks, so that these are not delayed by Low
/// ones, and short enough for Low tasks to make visible progress.
const LOW_TURNS_AFTER_NS: u64 = 1_000_000_000;

/// Since when there have been Low tasks. These are hints, written by the workers that read the
/// clock.
#[derive(Debug, Default)]
pub(super) struct LowAge {
    /// In nanoseconds, plus one; zero while there is no Low task.
    since: AtomicU64,
    /// Whether Low tasks have waited for too short a time to overtake others.
    young: AtomicBool,
}

impl LowAge {
    /// Whether Low tasks may have turns. Always true if no driver supplies the time.
    pub(super) fn is_old_enough(&self) -> bool {
        // Relaxed: a hint.
        !self.young.load(Ordering::Relaxed)
    }

    /// Records that at the time `now` there are Low tasks or not.
    pub(super) fn observe(&self, waiting: bool, now: u64) {
        // Relaxed, here and below: a hint. If two workers race, a turn comes slightly early or
        // late.
        let since = self.since.load(Ordering::Relaxed);
        let next = match (waiting, since) {
            (false, _) => 0,
            (true, 0) => now + 1,
            (true, since) => since,
        };
        if next != since {
            // Relaxed: a hint, as above.
            self.since.store(next, Ordering::Relaxed);
        }
        let young = next == 0 || (now + 1).saturating_sub(next) < LOW_TURNS_AFTER_NS;
        if young == self.is_old_enough() {
            // Relaxed: a hint, as above.
            self.young.store(young, Ordering::Relaxed);
        }
    }
}

const LOW: u64 = 1;
const HIGH: u64 = 1 << 1;
const CRITICAL: u64 = 1 << 2;
/// Futures were spawned from outside while all workers were busy: a hint.
const SPAWNED: u64 = 1 << 3;
/// The increment of the word for each mailbox that holds affine tasks.
const MAILBOX: u64 = 1 << 8;

/// Which lanes hold tasks, and how many mailboxes hold affine tasks: one word, read at every step
/// of every worker.
pub(super) struct Flags(AtomicU64);

/// A snapshot of [`Flags`]: `low`, `high`, `critical`, `spawned` (1 bit each), `mailboxes` (56 bits
/// from bit 8 on).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Raised(u64);

impl Raised {
    /// Whether there is a task that should not wait until the worker's own queue is empty.
    #[inline(always)]
    pub(super) const fn has_preferred(self) -> bool {
        self.0 & !(LOW | SPAWNED) != 0
    }

    /// Whether a Critical or High task is queued, or a future that was spawned from outside.
    pub(super) const fn urgent(self) -> bool {
        self.0 & (HIGH | CRITICAL | SPAWNED) != 0
    }

    pub(super) const fn spawned(self) -> bool {
        self.0 & SPAWNED != 0
    }

    pub(super) const fn has(self, level: Priority) -> bool {
        self.0 & bit(level) != 0
    }

    pub(super) const fn lanes(self) -> bool {
        self.0 & (LOW | HIGH | CRITICAL) != 0
    }

    pub(super) const fn has_affine(self) -> bool {
        self.0 >= MAILBOX
    }
}

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raised")
            .field("critical", &self.has(Priority::Critical))
            .field("high", &self.has(Priority::High))
            .field("low", &self.has(Priority::Low))
            .field("spawned", &self.spawned())
            .field("mailboxes", &(self.0 / MAILBOX))
            .finish()
    }
}

const fn bit(level: Priority) -> u64 {
    match level {
        Priority::Low => LOW,
        Priority::Normal => 0,
        Priority::High => HIGH,
        Priority::Critical => CRITICAL,
    }
}

impl Flags {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub(super) fn read(&self) -> Raised {
        // Relaxed: only selects the queue to check; the lock of the lane or mailbox synchronises
        // with its contents. Before a worker sleeps the barriers of `sleep.md` order this load.
        Raised(self.0.load(Ordering::Relaxed))
    }

    /// Records that the lane with this bit is no longer empty. Called under its lock.
    fn raise(&self, bit: u64) {
        if self.read().0 & bit == 0 && !broken(Canary::LaneFlag) {
            // Relaxed: as in `read`.
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Records that the lane with this bit is empty. Called under its lock.
    fn lower(&self, bit: u64) {
        // Relaxed: as in `read`.
        self.0.fetch_and(!bit, Ordering::Relaxed);
    }

    /// Records that there are futures that were spawned from outside. A hint: see
    /// `Core::request_attention`.
    pub(super) fn raise_spawned(&self) {
        self.raise(SPAWNED);
    }

    /// Records that there seem to be no such futures; the caller must check the queue again.
    /// Returns whether the flag was up.
    pub(super) fn lower_spawned(&self) -> bool {
        let up = self.read().spawned();
        if up {
            self.lower(SPAWNED);
        }
        up
    }

    /// Records that a mailbox has its first affine task. Called under its lock.
    pub(super) fn raise_affine(&self) {
        // Relaxed: as in `read`.
        self.0.fetch_add(MAILBOX, Ordering::Relaxed);
    }

    /// Records that a mailbox has no affine task any more. Called under its lock.
    pub(super) fn lower_affine(&self) {
        // Relaxed: as in `read`.
        let before = self.0.fetch_sub(MAILBOX, Ordering::Relaxed);
        debug_assert!(before >= MAILBOX, "more mailboxes emptied than filled");
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

/// A queue for each level except the normal one, shared by all workers.
pub(super) struct Lanes<T> {
    low: LockedQueue<T>,
    high: LockedQueue<T>,
    critical: LockedQueue<T>,
    /// The capacity of each lane for tasks from outside.
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

    fn lane(&self, level: Priority) -> &LockedQueue<T> {
        match level {
            Priority::Low => &self.low,
            Priority::High => &self.high,
            Priority::Critical => &self.critical,
            Priority::Normal => unreachable!("normal tasks have no lane"),
        }
    }

    /// Adds a task from outside, or returns it when the lane is full.
    pub(super) fn push(&self, flags: &Flags, level: Priority, task: T) -> Result<(), T> {
        self.lane(level)
            .push_then(task, self.capacity, || flags.raise(bit(level)))
    }

    /// Adds a task of a worker, which is never refused.
    pub(super) fn push_always(&self, flags: &Flags, level: Priority, task: T) {
        let pushed = self
            .lane(level)
            .push_then(task, usize::MAX, || flags.raise(bit(level)));
        debug_assert!(pushed.is_ok(), "a lane without a limit refuses no task");
    }

    /// Takes the oldest task of `level`, if its flag is up.
    pub(super) fn take(&self, flags: &Flags, level: Priority) -> Option<T> {
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

    /// Returns the number of tasks at some recent moment.
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
        for level in [Priority::Critical, Priority::High, Priority::Low] {
            let emptied = || flags.lower(bit(level));
            self.lane(level).remove_useless(useless, into, emptied);
        }
    }

    /// Takes all tasks, the most urgent first.
    pub(super) fn drain(&self, flags: &Flags) -> Vec<T> {
        let mut tasks = Vec::new();
        for level in [Priority::Critical, Priority::High, Priority::Low] {
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
    fn a_flag_is_up_while_its_lane_holds_tasks() {
        let (flags, lanes) = (Flags::new(), Lanes::new(2));
        for level in [Priority::Low, Priority::High, Priority::Critical] {
            lanes.push(&flags, level, 1).unwrap();
            lanes.push(&flags, level, 2).unwrap();
            assert_eq!(lanes.push(&flags, level, 3), Err(3), "full");
            lanes.push_always(&flags, level, 3);
            for n in 1..=3 {
                assert!(flags.read().has(level) && flags.read().lanes());
                assert_eq!(flags.read().has_preferred(), level != Priority::Low);
                assert_eq!(lanes.take(&flags, level), Some(n));
            }
            assert_eq!(flags.read(), Raised(0));
            assert_eq!(lanes.take(&flags, level), None);
        }
    }

    #[test]
    fn low_tasks_ripen_with_time() {
        let age = LowAge::default();
        assert!(age.is_old_enough(), "where no driver supplies the time");
        age.observe(false, 5);
        assert!(!age.is_old_enough());
        age.observe(true, 7);
        age.observe(true, 7 + LOW_TURNS_AFTER_NS - 1);
        assert!(!age.is_old_enough());
        age.observe(true, 7 + LOW_TURNS_AFTER_NS);
        assert!(age.is_old_enough());
        age.observe(false, 8 + LOW_TURNS_AFTER_NS);
        assert!(!age.is_old_enough(), "the next Low task waits anew");
    }

    #[test]
    fn mailboxes_are_counted_beside_the_lanes() {
        let flags = Flags::new();
        flags.raise(CRITICAL);
        flags.raise_affine();
        flags.raise_affine();
        flags.lower(CRITICAL);
        flags.lower_affine();
        assert!(flags.read().has_affine() && flags.read().has_preferred() && !flags.read().lanes());
        flags.lower_affine();
        assert_eq!(flags.read(), Raised(0));
    }

    #[test]
    fn removing_useless_tasks_keeps_the_others_and_lowers_the_flags_of_empty_lanes() {
        let (flags, lanes) = (Flags::new(), Lanes::new(usize::MAX));
        for (task, level) in [
            (1, Priority::High),
            (2, Priority::High),
            (3, Priority::High),
            (4, Priority::Low),
        ] {
            lanes.push_always(&flags, level, task);
        }
        let mut useless = Vec::new();
        lanes.remove_useless(&flags, &|task| task % 2 == 0, &mut useless);
        assert_eq!((useless, lanes.len()), (vec![2, 4], 2));
        assert!(flags.read().has(Priority::High) && !flags.read().has(Priority::Low));
        assert_eq!(lanes.drain(&flags), [1, 3]);
    }

    #[test]
    fn draining_takes_the_most_urgent_first() {
        let (flags, lanes) = (Flags::new(), Lanes::new(usize::MAX));
        for (task, level) in [
            (1, Priority::Low),
            (2, Priority::Critical),
            (3, Priority::High),
        ] {
            lanes.push_always(&flags, level, task);
        }
        assert_eq!(lanes.drain(&flags), [2, 3, 1]);
        assert_eq!(flags.read(), Raised(0));
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
