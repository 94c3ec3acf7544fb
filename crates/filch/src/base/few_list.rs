//! A list whose first entries need no allocation.

use std::mem;

/// A list of a few entries, in the order in which they were added. `N` of them are stored in place.
#[derive(Clone)]
pub(crate) struct FewList<T, const N: usize> {
    /// The first entries; those behind the first `None` are `None`.
    first: [Option<T>; N],
    /// The others, only if the first are there.
    rest: Vec<T>,
}

impl<T, const N: usize> Default for FewList<T, N> {
    fn default() -> Self {
        Self {
            first: [const { None }; N],
            rest: Vec::new(),
        }
    }
}

impl<T, const N: usize> FewList<T, N> {
    pub(crate) fn push(&mut self, new: T) {
        match self.first.iter_mut().find(|entry| entry.is_none()) {
            Some(entry) => *entry = Some(new),
            None => self.rest.push(new),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.iter().flatten().count() + self.rest.len()
    }

    /// Whether the next entry needs an allocation.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.first.iter().all(Option::is_some) && self.rest.len() == self.rest.capacity()
    }

    pub(crate) fn capacity(&self) -> usize {
        N + self.rest.capacity()
    }

    pub(crate) fn reserve(&mut self, more: usize) {
        self.rest.reserve(more);
    }

    /// Removes and returns the entries that are `out`.
    pub(crate) fn remove_if(&mut self, out: impl Fn(&T) -> bool) -> Vec<T> {
        let Self { first, rest } = mem::take(self);
        self.rest.reserve(rest.capacity());
        let mut removed = Vec::new();
        for entry in first.into_iter().flatten().chain(rest) {
            match out(&entry) {
                true => removed.push(entry),
                false => self.push(entry),
            }
        }
        removed
    }

    /// Removes and returns the last entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.rest.pop();
        last.or_else(|| self.first.iter_mut().rev().find_map(Option::take))
    }

    /// Calls `f` with each entry, in their order.
    #[inline]
    pub(crate) fn consume(self, mut f: impl FnMut(T)) {
        let Self { first, rest } = self;
        for entry in first {
            match entry {
                Some(entry) => f(entry),
                // There are no others behind it.
                None => return,
            }
        }
        rest.into_iter().for_each(f);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().flatten().chain(&self.rest)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().flatten().chain(&mut self.rest)
    }
}

impl<T, const N: usize> FromIterator<T> for FewList<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut list = Self::default();
        entries.into_iter().for_each(|entry| list.push(entry));
        list
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::FewList;

    fn consumed(list: FewList<u32, 2>) -> Vec<u32> {
        let mut entries = Vec::new();
        list.consume(|entry| entries.push(entry));
        entries
    }

    #[test]
    fn entries_keep_their_order() {
        for len in 0..6 {
            let list: FewList<u32, 2> = (0..len).collect();
            assert_eq!(list.len(), len as usize);
            assert!(list.iter().copied().eq(0..len));
            assert!(consumed(list).into_iter().eq(0..len));
        }
    }

    #[test]
    fn the_last_entry_is_popped_first() {
        let mut list: FewList<u32, 2> = (0..4).collect();
        list.iter_mut().for_each(|entry| *entry += 1);
        let popped: Vec<_> = std::iter::from_fn(|| list.pop()).collect();
        assert_eq!(popped, [4, 3, 2, 1]);
        list.push(5);
        assert_eq!(consumed(list), [5]);
    }

    #[test]
    fn removed_entries_leave_no_gap() {
        let mut list: FewList<u32, 2> = (0..6).collect();
        let capacity = list.capacity();
        assert_eq!(list.remove_if(|entry| entry % 3 == 0), [0, 3]);
        assert!(list.iter().copied().eq([1, 2, 4, 5]));
        assert!(list.capacity() >= capacity, "the memory is kept");
        list.push(6);
        assert_eq!(consumed(list), [1, 2, 4, 5, 6]);
    }
}
