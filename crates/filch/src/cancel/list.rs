//! A list in insertion order with removal by key in constant time.

/// The largest capacity, in slots, that an emptied list retains. Larger allocations are freed, so
/// that a token that once had many children does not keep their memory.
const MAX_RETAINED_SLOTS: usize = 64;

/// The index that stands for "no slot".
const NONE: u32 = u32::MAX;

/// A doubly linked list in a slab: values are appended, and removed from anywhere by key, in O(1).
pub(crate) struct ListenerList<V> {
    slots: Vec<ListSlot<V>>,
    first: u32,
    last: u32,
    /// The head of the list of free slots, which are linked by `after`.
    free: u32,
}

struct ListSlot<V> {
    value: Option<V>,
    before: u32,
    after: u32,
}

/// The place of a value. Valid for that value only: after its removal, another value may get the
/// same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerKey(u32);

impl<V> ListenerList<V> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            first: NONE,
            last: NONE,
            free: NONE,
        }
    }

    /// Returns the key of the next pushed value.
    pub(crate) fn next_key(&self) -> ListenerKey {
        ListenerKey(match self.free {
            NONE => u32::try_from(self.slots.len()).expect("fewer than four billion values"),
            free => free,
        })
    }

    pub(crate) fn push(&mut self, value: V) -> ListenerKey {
        let key = self.next_key();
        let slot = ListSlot {
            value: Some(value),
            before: self.last,
            after: NONE,
        };
        if self.free == NONE {
            self.slots.push(slot);
        } else {
            self.free = std::mem::replace(self.slot(key.0), slot).after;
        }
        match self.last {
            NONE => self.first = key.0,
            last => self.slot(last).after = key.0,
        }
        self.last = key.0;
        key
    }

    /// Removes the value at `key`, if there is one.
    pub(crate) fn remove(&mut self, key: ListenerKey) -> Option<V> {
        let slot = self.slots.get_mut(key.0 as usize)?;
        let value = slot.value.take()?;
        let (before, after) = (slot.before, slot.after);
        slot.after = self.free;
        self.free = key.0;
        match before {
            NONE => self.first = after,
            before => self.slot(before).after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.slot(after).before = before,
        }
        if self.first == NONE {
            self.shrink();
        }
        Some(value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Removes the oldest value.
    pub(crate) fn pop_first(&mut self) -> Option<V> {
        let first = self.first;
        let slot = self.slots.get_mut(first as usize)?;
        let value = slot.value.take();
        self.first = std::mem::replace(&mut slot.after, self.free);
        self.free = first;
        match self.first {
            NONE => {
                self.last = NONE;
                self.shrink();
            }
            next => self.slot(next).before = NONE,
        }
        value
    }

    /// Returns the oldest value.
    pub(crate) fn first(&self) -> Option<&V> {
        self.slots.get(self.first as usize)?.value.as_ref()
    }

    /// Removes the oldest values, at most `most`, as long as they are `wanted`; calls `each` with
    /// them.
    pub(crate) fn drain_front(
        &mut self,
        most: usize,
        wanted: impl Fn(&V) -> bool,
        mut each: impl FnMut(V),
    ) {
        let mut at = self.first;
        for _ in 0..most {
            let Some(slot) = self.slots.get_mut(at as usize) else {
                break;
            };
            let Some(value) = slot.value.take_if(|value| wanted(value)) else {
                break;
            };
            (at, slot.after, self.free) = (slot.after, self.free, at);
            each(value);
        }
        let is_emptied = self.first != NONE && at == NONE;
        self.first = at;
        match at {
            NONE => self.last = NONE,
            first => self.slot(first).before = NONE,
        }
        if is_emptied {
            self.shrink();
        }
    }

    /// Gives the memory of a large list back, which is empty.
    fn shrink(&mut self) {
        if self.slots.capacity() > MAX_RETAINED_SLOTS {
            *self = Self::new();
        }
    }

    /// Returns the value at `key`, if there is one.
    pub(crate) fn get_mut(&mut self, key: ListenerKey) -> Option<&mut V> {
        self.slots.get_mut(key.0 as usize)?.value.as_mut()
    }

    /// Iterates over the values in insertion order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.after;
            slot.value.as_ref()
        })
    }

    #[cfg(all(test, not(filch_loom)))]
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    fn slot(&mut self, at: u32) -> &mut ListSlot<V> {
        &mut self.slots[at as usize]
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{ListenerKey, ListenerList, MAX_RETAINED_SLOTS};
    use crate::base::properties;
    use proptest::prelude::*;

    #[test]
    fn values_leave_from_anywhere_and_the_others_keep_their_order() {
        let mut list = ListenerList::new();
        let keys: Vec<ListenerKey> = (0..5).map(|n| list.push(n)).collect();
        assert_eq!(list.remove(keys[2]), Some(2));
        assert_eq!(list.remove(keys[2]), None);
        assert_eq!(list.remove(keys[0]), Some(0));
        assert_eq!(list.remove(keys[4]), Some(4));
        let expected = list.next_key();
        assert_eq!(list.push(5), expected);
        assert_eq!(list.get_mut(expected), Some(&mut 5));
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(list.slots(), 5, "free slots are used again");
        assert_eq!([1, 3, 5].map(|_| list.pop_first()), [1, 3, 5].map(Some));
        assert_eq!(list.pop_first(), None);
        assert_eq!(list.get_mut(expected), None);
    }

    #[test]
    fn an_emptied_list_gives_its_memory_back() {
        let mut list = ListenerList::new();
        let keys: Vec<ListenerKey> = (0..10 * MAX_RETAINED_SLOTS).map(|n| list.push(n)).collect();
        for key in keys.iter().rev() {
            assert!(list.remove(*key).is_some());
        }
        assert_eq!(list.slots(), 0);
        assert_eq!(list.remove(keys[3]), None);
        assert_eq!(list.push(1), ListenerKey(0));
    }

    proptest! {
        #![proptest_config(properties::config())]

        /// A list does what a vector of keys and values does.
        #[test]
        fn a_list_is_a_vector(steps in prop::collection::vec((0_u8..3, any::<prop::sample::Index>()), 0..properties::len(300))) {
            let mut list = ListenerList::new();
            let mut model: Vec<(ListenerKey, usize)> = Vec::new();
            for (n, (step, which)) in steps.into_iter().enumerate() {
                match step {
                    0 if !model.is_empty() => {
                        let (key, value) = model.remove(which.index(model.len()));
                        prop_assert_eq!(list.remove(key), Some(value));
                    }
                    1 if n % 5 == 0 => {
                        let first = (!model.is_empty()).then(|| model.remove(0).1);
                        prop_assert_eq!(list.pop_first(), first);
                    }
                    1 if n % 5 == 1 => {
                        let mut taken = Vec::new();
                        let (most, limit) = (which.index(4), 2 * n / 3);
                        list.drain_front(most, |value| *value < limit, |value| taken.push(value));
                        let unwanted = model.iter().position(|(_, value)| *value >= limit);
                        let count = most.min(unwanted.unwrap_or(model.len()));
                        let expected = model.drain(..count).map(|(_, value)| value);
                        prop_assert!(expected.eq(taken));
                    }
                    _ => model.push((list.push(n), n)),
                }
                prop_assert!(list.iter().eq(model.iter().map(|(_, value)| value)));
            }
        }
    }
}
