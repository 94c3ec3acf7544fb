//! Positions in a deque.

use super::front::Index;

/// A position between two tasks of a deque; see [`Owner::mark`](super::Owner::mark).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(pub(super) Index);

impl Mark {
    /// The number of low bits that are zero in the [raw form](Self::raw).
    pub(crate) const FREE_BITS: u32 = Index::FREE_BITS;

    /// Returns the mark below the task that was pushed before this one.
    #[must_use]
    pub(crate) fn below(self) -> Self {
        Self(self.0.previous())
    }

    /// Returns the mark below which fewer tasks are.
    #[must_use]
    pub(crate) fn earlier(self, other: Self) -> Self {
        match other.0.since(self.0) < 0 {
            true => other,
            false => self,
        }
    }

    /// Returns the mark above which fewer tasks are.
    #[must_use]
    pub(crate) fn later(self, other: Self) -> Self {
        match other.0.since(self.0) > 0 {
            true => other,
            false => self,
        }
    }

    /// Returns the mark as a word whose low [`FREE_BITS`](Self::FREE_BITS) are zero.
    #[inline(always)]
    pub(crate) fn raw(self) -> u64 {
        self.0.raw()
    }

    /// Returns the mark of a word, whatever its low [`FREE_BITS`](Self::FREE_BITS) are.
    pub(crate) fn from_raw(word: u64) -> Self {
        Self(Index::from_raw(word))
    }
}
