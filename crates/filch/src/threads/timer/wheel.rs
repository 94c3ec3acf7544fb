//! A queue of deadlines whose cost does not grow with their number, without a clock.
//!
//! A heap of a million entries is slow because of its memory: each removal of the first entry reads
//! ten or twenty places of an array that is in no cache. So only the entries of the present
//! *tick*, about a millisecond, are in order. All later ones are in lists (`far`), one for each
//! slot of a hierarchical wheel, as in tokio and in the kernels' timers: a level has 64 slots, and
//! a slot of a level is as long as the whole level below it. Insertion and removal are O(1). When
//! the time reaches the beginning of a slot, its entries are moved to lower levels, each of them at
//! most once for every level. Those of a tick that has begun are sorted together (`sorted`), which
//! takes fewer instructions than a heap of them. Only entries that are inserted for the present
//! tick, or the past, are in a heap (`near`).
//!
//! # Which slot
//!
//! `base` is the tick up to which entries are near. The level of a later tick is the highest digit,
//! to the base 64, in which it differs from `base`, and that digit is the slot. So the slots need
//! not turn, and the first occupied slot of the lowest occupied level has the earliest entries.
//! `base` may advance to any tick at which no occupied slot begins before: the entries left have
//! the same highest different digit then.
//!
//! # Order
//!
//! Entries have numbers in the order of their insertion, which decide between equal times. Of a
//! sorted entry and one of the heap at the same time the sorted one comes first: it was inserted
//! before the tick began, and the other one after that.

use super::queue::{TimerKey, TimerQueue};
use std::{fmt, mem};

/// The length of a tick is 2 to this power nanoseconds: 1.05 ms. It does not limit the precision,
/// only the number of entries in the heap.
const TICK_BITS: u32 = 20;

/// A level has 2 to this power slots: as many as a word has bits.
const SLOT_BITS: u32 = 6;

/// Enough levels for all ticks.
const LEVELS: usize = (u64::BITS - TICK_BITS).div_ceil(SLOT_BITS) as usize;

/// The number of entries of a slot that are read to find the first of them. With more entries the
/// beginning of the slot is used instead, and at that time they are moved.
const MAX_SCANNED: usize = 8;

/// The number of entries whose memory an emptied queue retains, as in [`TimerQueue`].
const MAX_RETAINED_ENTRIES: usize = 1024;

/// No entry: the end of a list.
const NONE: u32 = u32::MAX;

/// The time while there is no entry.
pub(super) const NEVER: u64 = u64::MAX;

/// Values with a time each, in nanoseconds; the earliest is dequeued first, and of those with the
/// same time the one that was inserted first.
pub(super) struct TimerWheel<V> {
    /// Entries of ticks up to `base` that were far before, the earliest last. Some of them may have
    /// been removed.
    sorted: Vec<SortedEntry>,
    /// The other entries of ticks up to `base`, as indices of `entries`.
    near: TimerQueue<u64, u32>,
    far: [[WheelList; 1 << SLOT_BITS]; LEVELS],
    /// For each level, a bit for each list that is not empty.
    occupied: [u64; LEVELS],
    base: u64,
    entries: Vec<WheelEntry<V>>,
    /// The first free place in `entries`.
    free: u32,
    /// The number of the next entry.
    number: u64,
    len: usize,
    /// No entry is earlier. [`NEVER`] if and only if there is none.
    next: u64,
}

#[derive(Clone, Copy)]
struct WheelList {
    first: u32,
    last: u32,
}

/// Of a list of a million entries each one is read from memory, so it is one cache line.
#[repr(align(64))]
struct WheelEntry<V> {
    at: u64,
    number: u64,
    place: EntryPlace,
    /// `None` while the entry is free.
    value: Option<V>,
}

/// The copy of an entry in `sorted`. The order is that of the fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SortedEntry {
    at: u64,
    number: u64,
    index: u32,
}

/// Where an entry is.
#[derive(Clone, Copy)]
enum EntryPlace {
    Sorted,
    Near(TimerKey),
    Far { before: u32, after: u32 },
    Free { next: u32 },
}

impl WheelList {
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };
}

/// Whether the entry of this copy has not been removed.
fn is_present<V>(entries: &[WheelEntry<V>], copy: &SortedEntry) -> bool {
    let entry = &entries[copy.index as usize];
    entry.number == copy.number && entry.value.is_some()
}

fn tick_of(nanos: u64) -> u64 {
    nanos >> TICK_BITS
}

impl<V> TimerWheel<V> {
    pub(super) const fn new() -> Self {
        Self {
            sorted: Vec::new(),
            near: TimerQueue::new(),
            far: [[WheelList::EMPTY; 1 << SLOT_BITS]; LEVELS],
            occupied: [0; LEVELS],
            base: 0,
            entries: Vec::new(),
            free: NONE,
            number: 0,
            len: 0,
            next: NEVER,
        }
    }

    #[cfg(all(test, not(filch_loom)))]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A time that is not after the first entry; [`NEVER`] if and only if there is none. It is
    /// later than `now` after [`pop_due`](Self::pop_due) has found nothing at `now`.
    pub(super) fn next_at(&self) -> u64 {
        self.next
    }

    /// Adds an entry, at `at` in nanoseconds before [`NEVER`].
    pub(super) fn insert(&mut self, at: u64, value: V) -> TimerKey {
        let number = self.number;
        self.number += 1;
        let index = self.occupy(WheelEntry {
            at,
            number,
            place: EntryPlace::Free { next: NONE },
            value: Some(value),
        });
        self.place(index);
        self.len += 1;
        self.next = self.next.min(at);
        TimerKey::new(index, number)
    }

    /// Removes an entry, unless it is gone already.
    pub(super) fn remove(&mut self, key: TimerKey) -> Option<V> {
        self.get_mut(key)?;
        let entry = &self.entries[key.slot()];
        match entry.place {
            // Its copy is dropped when it is reached.
            EntryPlace::Sorted => {}
            EntryPlace::Near(near) => {
                self.near.remove(near);
            }
            EntryPlace::Far { before, after } => self.unlink(entry.at, before, after),
            EntryPlace::Free { .. } => return None,
        }
        Some(self.release(key.slot_index()))
    }

    /// The value of an entry, unless it is gone already.
    pub(super) fn get_mut(&mut self, key: TimerKey) -> Option<&mut V> {
        let entry = self.entries.get_mut(key.slot())?;
        match entry.number == key.number() {
            true => entry.value.as_mut(),
            false => None,
        }
    }

    /// Removes the first entry if it is due at `now`.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<V> {
        self.pop_due_if(now, |_| true)
    }

    /// [`pop_due`](Self::pop_due) if the entry is `wanted`.
    pub(super) fn pop_due_if(&mut self, now: u64, wanted: impl FnOnce(&V) -> bool) -> Option<V> {
        while self
            .sorted
            .pop_if(|copy| !is_present(&self.entries, copy))
            .is_some()
        {}
        // Far entries are later than all others.
        if self.first_in_order().is_none_or(|(first, _)| first > now) {
            self.advance(tick_of(now));
        }
        let value = self.pop_in_order(now, wanted);
        self.next = self.find_next();
        value
    }

    /// The time of the first entry that is not far, or an earlier one if that was removed; and
    /// whether it is in `sorted`.
    fn first_in_order(&self) -> Option<(u64, bool)> {
        match (self.sorted.last(), self.near.next_at()) {
            (Some(copy), near) if near.is_none_or(|near| copy.at <= near) => Some((copy.at, true)),
            (_, near) => near.map(|near| (near, false)),
        }
    }

    /// Removes the first entry if it is not far, due at `now`, and `wanted`.
    fn pop_in_order(&mut self, now: u64, wanted: impl FnOnce(&V) -> bool) -> Option<V> {
        let entries = &self.entries;
        let wanted = |index: u32| entries[index as usize].value.as_ref().is_some_and(wanted);
        let index = match self.first_in_order()? {
            (at, _) if at > now => None,
            (_, true) => self
                .sorted
                .pop_if(|copy| wanted(copy.index))
                .map(|copy| copy.index),
            (_, false) => self.near.pop_due_if(now, |index| wanted(*index)),
        };
        index.map(|index| self.release(index))
    }

    /// Whether the entry is still in the queue.
    #[cfg(all(test, not(filch_loom)))]
    pub(super) fn has(&self, key: TimerKey) -> bool {
        let entry = self.entries.get(key.slot());
        entry.is_some_and(|entry| entry.number == key.number() && entry.value.is_some())
    }

    /// Sorts the entries of all ticks up to `tick`. Called when all that are in order are later
    /// than that, so none is if there are such entries.
    fn advance(&mut self, tick: u64) {
        let before = self.sorted.len();
        while let Some((level, slot, start)) = self.first_slot()
            && start <= tick
        {
            self.base = start;
            self.occupied[level] &= !(1 << slot);
            let list = mem::replace(&mut self.far[level][slot], WheelList::EMPTY);
            let mut index = list.first;
            while index != NONE {
                let entry = &mut self.entries[index as usize];
                let EntryPlace::Far { after, .. } = entry.place else {
                    unreachable!("an entry of a list is far");
                };
                if tick_of(entry.at) <= tick {
                    entry.place = EntryPlace::Sorted;
                    let (at, number) = (entry.at, entry.number);
                    self.sorted.push(SortedEntry { at, number, index });
                } else {
                    self.place(index);
                }
                index = after;
            }
        }
        self.base = self.base.max(tick);
        if self.sorted.len() > before {
            self.sorted.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// The level, the slot and the first tick of the first slot with entries.
    fn first_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        let shift = SLOT_BITS * level as u32;
        // The digits of `base` above this level, this slot, and zeros.
        let above = self.base >> shift >> SLOT_BITS << SLOT_BITS;
        let start = (above | u64::from(slot)) << shift;
        Some((level, slot as usize, start))
    }

    /// Computes `next`.
    fn find_next(&self) -> u64 {
        if let Some((first, _)) = self.first_in_order() {
            return first;
        }
        let Some((level, slot, start)) = self.first_slot() else {
            return NEVER;
        };
        let (mut index, mut earliest) = (self.far[level][slot].first, NEVER);
        for _ in 0..MAX_SCANNED {
            let entry = &self.entries[index as usize];
            earliest = earliest.min(entry.at);
            match entry.place {
                EntryPlace::Far { after: NONE, .. } => return earliest,
                EntryPlace::Far { after, .. } => index = after,
                _ => unreachable!("an entry of a list is far"),
            }
        }
        start << TICK_BITS
    }

    /// The level and the slot of a tick after `base`.
    fn slot_of(&self, tick: u64) -> (usize, usize) {
        let level = (tick ^ self.base).ilog2() / SLOT_BITS;
        let slot = tick >> (SLOT_BITS * level) & ((1 << SLOT_BITS) - 1);
        (level as usize, slot as usize)
    }

    /// Puts an entry that is nowhere into the heap or at the end of its list.
    fn place(&mut self, index: u32) {
        let at = self.entries[index as usize].at;
        let tick = tick_of(at);
        self.entries[index as usize].place = if tick <= self.base {
            EntryPlace::Near(self.near.insert(at, index))
        } else {
            let (level, slot) = self.slot_of(tick);
            self.occupied[level] |= 1 << slot;
            let list = &mut self.far[level][slot];
            let before = mem::replace(&mut list.last, index);
            match before {
                NONE => list.first = index,
                _ => self.set_after(before, index),
            }
            EntryPlace::Far {
                before,
                after: NONE,
            }
        };
    }

    /// Takes an entry at `at` out of its list, where it is between these two.
    fn unlink(&mut self, at: u64, before: u32, after: u32) {
        let (level, slot) = self.slot_of(tick_of(at));
        match before {
            NONE => self.far[level][slot].first = after,
            _ => self.set_after(before, after),
        }
        match after {
            NONE => self.far[level][slot].last = before,
            _ => self.set_before(after, before),
        }
        if self.far[level][slot].first == NONE {
            self.occupied[level] &= !(1 << slot);
        }
    }

    fn set_after(&mut self, index: u32, next: u32) {
        if let EntryPlace::Far { after, .. } = &mut self.entries[index as usize].place {
            *after = next;
        }
    }

    fn set_before(&mut self, index: u32, previous: u32) {
        if let EntryPlace::Far { before, .. } = &mut self.entries[index as usize].place {
            *before = previous;
        }
    }

    fn occupy(&mut self, entry: WheelEntry<V>) -> u32 {
        match self.entries.get_mut(self.free as usize) {
            None => {
                self.entries.push(entry);
                let index = u32::try_from(self.entries.len() - 1);
                index.expect("fewer than four billion entries")
            }
            Some(free) => {
                let index = self.free;
                if let EntryPlace::Free { next } = free.place {
                    self.free = next;
                }
                *free = entry;
                index
            }
        }
    }

    /// Frees an entry that is in neither the heap nor a list any more, and returns its value.
    fn release(&mut self, index: u32) -> V {
        let entry = &mut self.entries[index as usize];
        let value = entry.value.take().expect("an entry has a value");
        entry.place = EntryPlace::Free { next: self.free };
        self.free = index;
        self.len -= 1;
        if self.len == 0 {
            self.next = NEVER;
            self.sorted.clear();
            if self.sorted.capacity() > MAX_RETAINED_ENTRIES {
                self.sorted = Vec::new();
            }
            if self.entries.capacity() > MAX_RETAINED_ENTRIES {
                // No entry is in use, and numbers are not reused, so old keys find nothing.
                self.entries = Vec::new();
                self.free = NONE;
            }
        }
        value
    }
}

impl<V> fmt::Debug for TimerWheel<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerWheel")
            .field("len", &self.len)
            .field("next_at", &self.next)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{MAX_RETAINED_ENTRIES, NEVER, TICK_BITS, TimerKey, TimerWheel};
    use crate::base::properties;
    use proptest::prelude::*;

    const TICK: u64 = 1 << TICK_BITS;

    /// Removes all entries up to `now`, and checks the time of the next one.
    fn pop_all(wheel: &mut TimerWheel<usize>, now: u64) -> Vec<usize> {
        let popped: Vec<_> = std::iter::from_fn(|| wheel.pop_due(now)).collect();
        assert!(wheel.next_at() > now, "a thread would not sleep");
        popped
    }

    #[test]
    fn the_earliest_comes_first_and_equals_in_the_order_of_insertion() {
        let mut wheel = TimerWheel::new();
        // In several levels, with two that are equal in each, and one before the end of time.
        let times = [1, 2, TICK, 70 * TICK, 5_000 * TICK, 1 << 62, NEVER - 1];
        for (n, at) in times.iter().chain(&times).enumerate() {
            wheel.insert(*at, n);
        }
        for (n, at) in times.into_iter().enumerate() {
            assert!(pop_all(&mut wheel, at - 1).is_empty());
            assert!(wheel.next_at() <= at);
            assert_eq!(pop_all(&mut wheel, at), [n, n + times.len()]);
        }
        assert_eq!((wheel.len(), wheel.next_at()), (0, NEVER));
    }

    #[test]
    fn one_entry_is_waited_for_exactly() {
        let mut wheel = TimerWheel::new();
        for at in [3, 5 * TICK + 7, 100_000 * TICK + 9] {
            wheel.insert(at, 0);
            assert_eq!(wheel.next_at(), at);
            assert!(pop_all(&mut wheel, at - 1).is_empty());
            assert_eq!(wheel.next_at(), at);
            assert_eq!(pop_all(&mut wheel, at), [0]);
        }
    }

    #[test]
    fn many_entries_leave_nothing_behind() {
        const LEN: u64 = if cfg!(miri) {
            MAX_RETAINED_ENTRIES as u64 + 100
        } else {
            100_000
        };
        let mut wheel = TimerWheel::new();
        let time = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let keys: Vec<TimerKey> = (0..LEN)
            .map(|n| wheel.insert(time(n), n as usize))
            .collect();
        for (n, key) in keys.iter().enumerate().rev() {
            assert_eq!(wheel.remove(*key), Some(n));
        }
        assert_eq!((wheel.len(), wheel.next_at()), (0, NEVER));
        assert!(wheel.occupied.iter().all(|slots| *slots == 0));
        assert_eq!(wheel.entries.len(), 0, "the memory has been given back");
        assert_eq!(wheel.remove(keys[0]), None);
        let again = wheel.insert(1, 1);
        assert_eq!(wheel.remove(keys[0]), None, "an old key finds nothing");
        assert_eq!(wheel.remove(again), Some(1));
    }

    proptest! {
        #![proptest_config(properties::config())]

        /// The wheel behaves like a sorted vector, also if the time of a pop is before the last.
        #[test]
        fn a_wheel_is_a_sorted_vector(
            steps in prop::collection::vec(
                (0_u8..7, 0_u32..44, any::<u32>(), any::<prop::sample::Index>()),
                0..properties::len(400),
            ),
        ) {
            let mut wheel = TimerWheel::new();
            let mut model: Vec<(u64, usize)> = Vec::new();
            let mut keys: Vec<(TimerKey, (u64, usize))> = Vec::new();
            let mut now = 0_u64;
            for (n, (step, bits, low, which)) in steps.into_iter().enumerate() {
                // Distances of all magnitudes, a few of them equal.
                let time = now + (u64::from(low % 4) << bits);
                match step {
                    0..3 => {
                        keys.push((wheel.insert(time, n), (time, n)));
                        model.insert(model.partition_point(|e| *e < (time, n)), (time, n));
                    }
                    3..5 if !keys.is_empty() => {
                        let (key, entry) = keys[which.index(keys.len())];
                        let there = model.binary_search(&entry).ok();
                        prop_assert_eq!(wheel.has(key), there.is_some());
                        prop_assert_eq!(wheel.get_mut(key).copied(), there.map(|_| entry.1));
                        let expected = there.map(|at| model.remove(at).1);
                        prop_assert_eq!(wheel.remove(key), expected);
                    }
                    5 => {
                        // An earlier clock reading, by another thread.
                        let before = now.saturating_sub(u64::from(low));
                        let due = model.first().is_some_and(|(at, _)| *at <= before);
                        let expected = due.then(|| model.remove(0).1);
                        prop_assert_eq!(wheel.pop_due(before), expected);
                    }
                    _ => {
                        now = time;
                        let due = model.partition_point(|(at, _)| *at <= now);
                        let expected: Vec<_> = model.drain(..due).map(|(_, n)| n).collect();
                        prop_assert_eq!(pop_all(&mut wheel, now), expected);
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
                match model.first() {
                    None => prop_assert_eq!(wheel.next_at(), NEVER),
                    Some((at, _)) => prop_assert!(wheel.next_at() <= *at),
                }
            }
        }
    }
}
