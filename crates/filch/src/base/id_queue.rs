//! A queue whose entries have ascending ids, and can leave from anywhere.

use std::collections::VecDeque;

/// The largest capacity, in entries, that an empty queue retains. Larger allocations are freed, so
/// that a queue that was long once does not keep its memory.
const MAX_RETAINED: usize = 256;

/// How many entries that have left a queue contains, beside as many as it has others.
const MIN_LEFT: usize = 32;

/// A queue in the order of the ids of its entries. An entry leaves by its id, in logarithmic time,
/// and the first one in constant time. In the steady state it allocates nothing.
pub(crate) struct IdQueue<V> {
    /// `None`: the entry has left. The first one has not.
    entries: VecDeque<(u64, Option<V>)>,
    len: usize,
}

impl<V> IdQueue<V> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an entry. Its id is greater than those of all others that have been here.
    pub(crate) fn push(&mut self, id: u64, value: V) {
        debug_assert!(self.entries.back().is_none_or(|(last, _)| *last < id));
        self.entries.push_back((id, Some(value)));
        self.len += 1;
    }

    /// Returns the first entry.
    pub(crate) fn first(&self) -> Option<(u64, &V)> {
        let (id, value) = self.entries.front()?;
        Some((*id, value.as_ref()?))
    }

    /// Iterates over the entries, from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        let entries = self.entries.iter();
        entries.filter_map(|(id, value)| Some((*id, value.as_ref()?)))
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut V> {
        let at = self.position(id)?;
        self.entries[at].1.as_mut()
    }

    /// Removes an entry, if it is there.
    pub(crate) fn remove(&mut self, id: u64) -> Option<V> {
        let at = self.position(id)?;
        let value = self.entries[at].1.take()?;
        self.len -= 1;
        if self.len == 0 {
            self.entries.clear();
            if self.entries.capacity() > MAX_RETAINED {
                self.entries = VecDeque::new();
            }
        }
        while let Some((_, None)) = self.entries.front() {
            self.entries.pop_front();
        }
        if self.entries.len() > 2 * self.len + MIN_LEFT {
            self.entries.retain(|(_, value)| value.is_some());
        }
        Some(value)
    }

    fn position(&self, id: u64) -> Option<usize> {
        if self.entries.front()?.0 == id {
            return Some(0);
        }
        self.entries.binary_search_by_key(&id, |(id, _)| *id).ok()
    }
}

impl<V> Default for IdQueue<V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{IdQueue, MAX_RETAINED};
    use crate::base::properties;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_long_queue_gives_its_memory_back() {
        let mut queue = IdQueue::new();
        (0..10 * MAX_RETAINED as u64).for_each(|id| queue.push(id, id));
        for id in (0..10 * MAX_RETAINED as u64).rev() {
            assert_eq!(queue.remove(id), Some(id));
        }
        assert!(queue.is_empty());
        assert_eq!(queue.entries.capacity(), 0);
    }

    proptest! {
        #![proptest_config(properties::config())]

        /// A queue does what an ordered map does.
        #[test]
        fn a_queue_is_a_map(steps in prop::collection::vec((0_u8..5, any::<prop::sample::Index>()), 0..properties::len(400))) {
            let (mut queue, mut model, mut next) = (IdQueue::new(), BTreeMap::new(), 0);
            for (n, (step, which)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        // It may be there, have left, or not have been there.
                        let id = which.index(next as usize + 1) as u64;
                        prop_assert_eq!(queue.get_mut(id), model.get_mut(&id));
                        prop_assert_eq!(queue.remove(id), model.remove(&id));
                    }
                    1 => {
                        let first = model.pop_first();
                        prop_assert_eq!(queue.first().map(|(id, value)| (id, *value)), first);
                        if let Some((id, value)) = first {
                            prop_assert_eq!(queue.remove(id), Some(value));
                        }
                    }
                    _ => {
                        next += 1 + which.index(2) as u64;
                        queue.push(next, n);
                        model.insert(next, n);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.is_empty(), model.is_empty());
                prop_assert!(queue.iter().eq(model.iter().map(|(id, value)| (*id, value))));
            }
        }
    }
}
