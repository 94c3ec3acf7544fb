//! The thieves' word of a deque: index of the oldest task, and how many a thief has claimed.

use std::fmt;

/// Bits below the index: the claim.
const INDEX_SHIFT: u32 = 16;

/// One step of an [`Index`].
const ONE: u64 = 1 << INDEX_SHIFT;

/// No batch may be claimed at this index any more.
const SEALED: u64 = 1 << 15;

/// The most tasks one claim can hold.
pub(super) const MAX_CLAIM: usize = (SEALED - 1) as usize;

/// A position in the sequence of all tasks a deque has ever held, modulo 2^48.
///
/// Kept in the upper 48 bits of a `u64`, so that arithmetic wraps by itself and an index can be
/// compared with the front word without shifting. Two indices are compared by their distance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Index(u64);

impl Index {
    pub(super) const fn from_raw(raw: u64) -> Self {
        Self(raw & !(ONE - 1))
    }

    #[cfg(all(test, not(filch_loom)))]
    pub(super) const fn from_count(count: u64) -> Self {
        Self(count << INDEX_SHIFT)
    }

    pub(super) const fn raw(self) -> u64 {
        self.0
    }

    /// The index `n` tasks younger.
    #[inline(always)]
    pub(super) const fn plus(self, n: usize) -> Self {
        Self(self.0.wrapping_add((n as u64) << INDEX_SHIFT))
    }

    /// The index one task older.
    #[inline(always)]
    pub(super) const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(ONE))
    }

    /// How many tasks younger than `older` this index is; negative when it is older.
    #[inline(always)]
    pub(super) const fn since(self, older: Self) -> isize {
        (self.0.wrapping_sub(older.0) as i64 >> INDEX_SHIFT) as isize
    }

    /// The slot of this index in a ring with `mask + 1` slots.
    #[inline(always)]
    pub(super) const fn slot(self, mask: usize) -> usize {
        (self.0 >> INDEX_SHIFT) as usize & mask
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 >> INDEX_SHIFT)
    }
}

/// The state of the thieves' end: `index` (48 bits), `sealed` (1), `claimed` (15).
///
/// At one index the word only moves forward through *unclaimed*, *claimed(n)*, *sealed*; it returns
/// to *unclaimed* only with a new index. So a thief whose compare-and-swap succeeds knows that the
/// word did not change in between, and none of these states is ever entered twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Front(u64);

impl Front {
    pub(super) const fn at(index: Index) -> Self {
        Self(index.0)
    }

    pub(super) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(super) const fn raw(self) -> u64 {
        self.0
    }

    /// The index of the oldest task.
    #[inline(always)]
    pub(super) const fn index(self) -> Index {
        Index::from_raw(self.0)
    }

    /// How many tasks a thief has claimed and not yet taken.
    #[inline(always)]
    pub(super) const fn claimed(self) -> usize {
        (self.0 & (SEALED - 1)) as usize
    }

    /// Whether the owner has ruled out batches at this index.
    pub(super) const fn sealed(self) -> bool {
        self.0 & SEALED != 0
    }

    /// Claims `n` tasks for a thief.
    pub(super) const fn claim(self, n: usize) -> Self {
        debug_assert!(n <= MAX_CLAIM && self.claimed() == 0 && !self.sealed());
        Self(self.0 | n as u64)
    }

    /// Voids the claim, and every later one at this index.
    pub(super) const fn seal(self) -> Self {
        Self(self.index().0 | SEALED)
    }

    /// `n` tasks have been taken from this end.
    pub(super) const fn advance(self, n: usize) -> Self {
        Self(self.index().plus(n).0)
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front")
            .field("index", &self.index())
            .field("claimed", &self.claimed())
            .field("sealed", &self.sealed())
            .finish()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn distances_survive_the_wrap() {
        let last = Index::from_count((1 << 48) - 1);
        let next = last.plus(3);
        assert_eq!(next.since(last), 3);
        assert_eq!(last.since(next), -3);
        assert_eq!(next.slot(7), 2);
        assert_eq!(Index::from_count(0).previous(), last);
    }

    #[test]
    fn claim_seal_and_advance_keep_the_index_apart() {
        let front = Front::at(Index::from_count(5));
        let claimed = front.claim(MAX_CLAIM);
        assert_eq!(
            (claimed.index(), claimed.claimed()),
            (front.index(), MAX_CLAIM)
        );
        assert!(claimed.seal().sealed() && claimed.seal().claimed() == 0);
        assert_eq!(claimed.seal().index(), front.index());
        assert_eq!(claimed.seal().advance(1), Front::at(Index::from_count(6)));
    }
}
