//! A priority queue of deadlines, without a clock.
//!
//! The time is a parameter of any ordered type, so the same queue serves the timer's thread, a test
//! with a paused clock, and virtual time.

use std::fmt;

/// The number of entries whose memory an emptied queue retains. Larger allocations are freed, so
/// that one burst does not occupy its memory for ever.
const MAX_RETAINED_ENTRIES: usize = 1024;

/// The number of children of an entry in the heap: four make half as many levels as two, and are
/// next to each other in memory.
const CHILDREN: usize = 4;

/// The end of the list of free slots.
const NONE: u32 = u32::MAX;

/// Values with a time each; the earliest is dequeued first, and of those with the same time the one
/// that was inserted first.
///
/// A heap of times over a slab of values. The position of every entry in the heap is stored beside
/// the slab, so an entry is removed from the middle in O(log n), immediately: cancelled entries
/// occupy no memory.
pub(crate) struct TimerQueue<T, V> {
    heap: Vec<HeapEntry<T>>,
    slots: Vec<TimerSlot<V>>,
    /// For each slot, the position of its entry in the heap; for a free slot, the next free one.
    /// Not in the slots: every entry that moves writes its position, and a list of numbers stays in
    /// the cache.
    positions: Vec<u32>,
    /// The first free slot.
    free: u32,
    /// The number of the next entry.
    next: u64,
}

#[derive(Clone, Copy)]
struct HeapEntry<T> {
    at: T,
    /// In the order of creation, and never reused.
    number: u64,
    slot: u32,
}

struct TimerSlot<V> {
    /// The number of the entry that is here.
    number: u64,
    value: Option<V>,
}

/// Identifies one entry, also after it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    slot: u32,
    number: u64,
}

impl TimerKey {
    pub(super) fn new(slot: u32, number: u64) -> Self {
        Self { slot, number }
    }

    pub(super) fn slot_index(self) -> u32 {
        self.slot
    }

    pub(super) fn slot(self) -> usize {
        self.slot as usize
    }

    pub(super) fn number(self) -> u64 {
        self.number
    }
}

impl<T: Ord + Copy, V> TimerQueue<T, V> {
    pub(crate) const fn new() -> Self {
        Self {
            heap: Vec::new(),
            slots: Vec::new(),
            positions: Vec::new(),
            free: NONE,
            next: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The time of the first entry.
    pub(crate) fn next_at(&self) -> Option<T> {
        self.heap.first().map(|entry| entry.at)
    }

    pub(crate) fn insert(&mut self, at: T, value: V) -> TimerKey {
        let number = self.next;
        self.next += 1;
        let slot = self.occupy(TimerSlot {
            number,
            value: Some(value),
        });
        let entry = HeapEntry { at, number, slot };
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1, entry);
        TimerKey { slot, number }
    }

    /// Removes an entry, unless it is gone already.
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<V> {
        let slot = self.slots.get(key.slot as usize)?;
        if slot.number != key.number || slot.value.is_none() {
            return None;
        }
        Some(self.take(self.positions[key.slot as usize] as usize))
    }

    /// The value of an entry, unless it is gone already.
    pub(crate) fn get_mut(&mut self, key: TimerKey) -> Option<&mut V> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        match slot.number == key.number {
            true => slot.value.as_mut(),
            false => None,
        }
    }

    /// Removes the first entry if it is due at `now`.
    pub(crate) fn pop_due(&mut self, now: T) -> Option<V> {
        self.pop_due_if(now, |_| true)
    }

    /// [`pop_due`](Self::pop_due) if the entry is `wanted`.
    pub(crate) fn pop_due_if(&mut self, now: T, wanted: impl FnOnce(&V) -> bool) -> Option<V> {
        let first = self.heap.first().filter(|first| first.at <= now)?;
        let value = self.slots[first.slot as usize].value.as_ref();
        value.is_some_and(wanted).then(|| self.take(0))
    }

    /// Whether the entry is still in the queue.
    #[cfg(all(test, not(filch_loom)))]
    pub(crate) fn has(&self, key: TimerKey) -> bool {
        let slot = self.slots.get(key.slot as usize);
        slot.is_some_and(|slot| slot.number == key.number && slot.value.is_some())
    }

    /// Removes the entry at `position` of the heap.
    fn take(&mut self, position: usize) -> V {
        let entry = self.heap.swap_remove(position);
        if let Some(&last) = self.heap.get(position) {
            // The entry from the end belongs further down, or, below another branch, further up.
            match position > 0 && last.is_before(&self.heap[parent(position)]) {
                true => self.sift_up(position, last),
                false => self.sift_down(position, last),
            }
        }
        let value = self.slots[entry.slot as usize].value.take();
        self.positions[entry.slot as usize] = self.free;
        self.free = entry.slot;
        if self.heap.is_empty() && self.slots.capacity() > MAX_RETAINED_ENTRIES {
            // No slot is in use, and numbers are not reused, so old tickets find nothing.
            self.heap = Vec::new();
            self.slots = Vec::new();
            self.positions = Vec::new();
            self.free = NONE;
        }
        value.expect("an entry has a value")
    }

    /// Stores an entry in a free slot. Its position is set when the entry is placed in the heap.
    fn occupy(&mut self, slot: TimerSlot<V>) -> u32 {
        if self.free == NONE {
            self.slots.push(slot);
            self.positions.push(NONE);
            return index(self.slots.len() - 1);
        }
        let at = self.free;
        // The position of a free slot is the next free one.
        self.free = self.positions[at as usize];
        self.slots[at as usize] = slot;
        at
    }

    /// Places `entry` at `position` or above, where its parent is earlier. What is at `position` is
    /// overwritten.
    fn sift_up(&mut self, mut position: usize, entry: HeapEntry<T>) {
        while position > 0 {
            let above = self.heap[parent(position)];
            if !entry.is_before(&above) {
                break;
            }
            self.place(position, above);
            position = parent(position);
        }
        self.place(position, entry);
    }

    /// Places `entry` at `position` or below, where its children are later. What is at `position`
    /// is overwritten.
    fn sift_down(&mut self, mut position: usize, entry: HeapEntry<T>) {
        loop {
            let first = CHILDREN * position + 1;
            let children = self.heap.iter().skip(first).take(CHILDREN).copied();
            let earliest = children
                .enumerate()
                .reduce(|a, b| match b.1.is_before(&a.1) {
                    true => b,
                    false => a,
                });
            match earliest {
                Some((nth, child)) if child.is_before(&entry) => {
                    self.place(position, child);
                    position = first + nth;
                }
                _ => break,
            }
        }
        self.place(position, entry);
    }

    /// Writes an entry to its place in the heap, and that place to its position.
    fn place(&mut self, position: usize, entry: HeapEntry<T>) {
        self.heap[position] = entry;
        self.positions[entry.slot as usize] = index(position);
    }

    /// Asserts the invariants that hold between calls.
    #[cfg(all(test, not(filch_loom)))]
    pub(crate) fn check(&self) {
        for (position, entry) in self.heap.iter().enumerate() {
            let slot = &self.slots[entry.slot as usize];
            assert_eq!(
                (self.positions[entry.slot as usize], slot.number),
                (index(position), entry.number)
            );
            assert!(slot.value.is_some());
            assert!(position == 0 || !entry.is_before(&self.heap[parent(position)]));
        }
        let (mut free, mut at) = (0, self.free);
        while at != NONE {
            assert!(self.slots[at as usize].value.is_none());
            (free, at) = (free + 1, self.positions[at as usize]);
        }
        assert_eq!(self.heap.len() + free, self.slots.len());
        assert_eq!(self.positions.len(), self.slots.len());
    }
}

impl<T: Ord> HeapEntry<T> {
    fn is_before(&self, other: &Self) -> bool {
        (&self.at, self.number) < (&other.at, other.number)
    }
}

/// The parent of a position in the heap other than the first.
fn parent(position: usize) -> usize {
    (position - 1) / CHILDREN
}

/// A position in a list. Four billion entries would need a hundred gigabytes.
fn index(position: usize) -> u32 {
    u32::try_from(position).expect("fewer than four billion entries")
}

impl<T: Ord + Copy + fmt::Debug, V> fmt::Debug for TimerQueue<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerQueue")
            .field("len", &self.len())
            .field("next_at", &self.next_at())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{MAX_RETAINED_ENTRIES, TimerKey, TimerQueue};
    use crate::base::properties;
    use proptest::prelude::*;

    #[test]
    fn the_earliest_comes_first_and_equals_in_the_order_of_creation() {
        let mut queue = TimerQueue::new();
        for (at, value) in [
            (5, "e"),
            (3, "b"),
            (9, "g"),
            (3, "c"),
            (1, "a"),
            (3, "d"),
            (5, "f"),
        ] {
            queue.insert(at, value);
            queue.check();
        }
        assert_eq!((queue.len(), queue.next_at()), (7, Some(1)));
        assert_eq!(queue.pop_due(0), None, "nothing is due");
        let mut due = Vec::new();
        while let Some(value) = queue.pop_due(5) {
            due.push(value);
            queue.check();
        }
        assert_eq!(due, ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(queue.next_at(), Some(9));
    }

    #[test]
    fn a_ticket_is_for_one_entry_only() {
        let mut queue = TimerQueue::new();
        let first = queue.insert(1, 'a');
        assert_eq!(queue.remove(first), Some('a'));
        let second = queue.insert(1, 'b');
        assert_eq!(second.slot, first.slot, "the slot is used again");
        assert_eq!(queue.remove(first), None);
        assert!(queue.has(second) && !queue.has(first));
        assert_eq!(queue.pop_due(1), Some('b'));
        assert_eq!(queue.remove(second), None);
    }

    #[test]
    fn many_entries_leave_nothing_behind() {
        const LEN: u64 = if cfg!(miri) {
            MAX_RETAINED_ENTRIES as u64 + 100
        } else {
            100_000
        };
        let mut queue = TimerQueue::new();
        // Removed from the middle, in an order that is unrelated to that of the times.
        let tickets: Vec<TimerKey> = (0..LEN)
            .map(|n| queue.insert(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40, n))
            .collect();
        queue.check();
        for (n, key) in tickets.iter().enumerate().rev() {
            assert_eq!(queue.remove(*key), Some(n as u64));
        }
        queue.check();
        assert_eq!((queue.len(), queue.next_at()), (0, None));
        assert_eq!(queue.slots.len(), 0, "the memory has been given back");
        assert_eq!(queue.remove(tickets[0]), None);
        let again = queue.insert(1, 1);
        assert_eq!(again.slot, 0);
        assert_eq!(queue.remove(tickets[0]), None, "an old key finds nothing");
        assert_eq!(queue.remove(again), Some(1));
    }

    proptest! {
        #![proptest_config(properties::config())]

        /// The queue behaves like a sorted vector.
        #[test]
        fn a_queue_is_a_sorted_vector(
            steps in prop::collection::vec((0_u8..6, 0_u32..20, any::<prop::sample::Index>()), 0..properties::len(400)),
        ) {
            let mut queue = TimerQueue::new();
            let mut model: Vec<(u32, usize)> = Vec::new();
            let mut tickets: Vec<(TimerKey, (u32, usize))> = Vec::new();
            for (n, (step, time, which)) in steps.into_iter().enumerate() {
                match step {
                    0..3 => {
                        tickets.push((queue.insert(time, n), (time, n)));
                        model.insert(model.partition_point(|entry| *entry < (time, n)), (time, n));
                    }
                    3..5 if !tickets.is_empty() => {
                        let (key, entry) = tickets[which.index(tickets.len())];
                        let there = model.binary_search(&entry).ok();
                        prop_assert_eq!(queue.has(key), there.is_some());
                        prop_assert_eq!(queue.get_mut(key).copied(), there.map(|_| entry.1));
                        let expected = there.map(|at| model.remove(at).1);
                        prop_assert_eq!(queue.remove(key), expected);
                    }
                    _ => {
                        let due = model.first().is_some_and(|(at, _)| *at <= time);
                        let expected = due.then(|| model.remove(0).1);
                        prop_assert_eq!(queue.pop_due(time), expected);
                    }
                }
                queue.check();
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.next_at(), model.first().map(|(at, _)| *at));
            }
        }
    }
}
