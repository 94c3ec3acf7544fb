//! The thieves' word of a deque: the index of the oldest task, whether the owner guards its pops,
//! and how many tasks a thief has claimed.

use crate::base::canary::{Canary, broken};
use std::fmt;

/// Bits below the index.
const INDEX_SHIFT: u32 = 24;

/// One step of an [`Index`].
const ONE: u64 = 1 << INDEX_SHIFT;

/// The number of times that the owner has calmed down, modulo 2^12.
const CALM_SHIFT: u32 = 12;
const CALM: u64 = 1 << CALM_SHIFT;
const CALM_MASK: u64 = (ONE - 1) & !(CALM - 1);

/// The owner fences its pops.
const GUARDED: u64 = 1 << 11;

/// Thieves may take tasks: every pop that was not fenced is visible to them.
const OPEN: u64 = 1 << 10;

/// No batch can be claimed at this index any more.
const SEALED: u64 = 1 << 9;

/// The most tasks that one claim can hold.
pub(super) const MAX_CLAIM: usize = (SEALED - 1) as usize;

/// A position in the sequence of the tasks of a deque, modulo 2^40.
///
/// Stored in the upper bits of a `u64`, so that arithmetic wraps by itself and an index can be
/// compared with the front word without shifting. Two indices are compared by their distance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Index(u64);

impl Index {
    /// The largest `size` that [`offset`](Self::offset) accepts.
    pub(super) const MAX_SIZE: u32 = INDEX_SHIFT;

    /// The number of low bits that are zero in the [raw form](Self::raw).
    pub(super) const FREE_BITS: u32 = INDEX_SHIFT;

    pub(super) const fn from_raw(raw: u64) -> Self {
        Self(raw & !(ONE - 1))
    }

    /// Returns the index whose [`raw`](Self::raw) form this is.
    #[inline(always)]
    pub(super) const fn from_clean(raw: u64) -> Self {
        debug_assert!(raw & (ONE - 1) == 0);
        Self(raw)
    }

    #[cfg(all(test, not(filch_loom)))]
    pub(super) const fn from_count(count: u64) -> Self {
        Self(count << INDEX_SHIFT)
    }

    pub(super) const fn raw(self) -> u64 {
        self.0
    }

    /// Returns the index `n` tasks younger.
    #[inline(always)]
    pub(super) const fn plus(self, n: usize) -> Self {
        Self(self.0.wrapping_add((n as u64) << INDEX_SHIFT))
    }

    /// Returns the index one task older.
    #[inline(always)]
    pub(super) const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(ONE))
    }

    /// Returns the index `tasks` tasks older.
    #[inline(always)]
    pub(super) const fn minus(self, tasks: u8) -> Self {
        Self(self.0.wrapping_sub(ONE * tasks as u64))
    }

    /// Returns how many tasks younger than `older` this index is; negative when it is older.
    #[inline(always)]
    pub(super) const fn since(self, older: Self) -> isize {
        (self.0.wrapping_sub(older.0) as i64 >> INDEX_SHIFT) as isize
    }

    /// Returns the offset of the slot of this index in a ring of slots of `2^size` units, in units;
    /// `mask` is the offset of the last slot. One shift less than multiplying the slot number.
    #[inline(always)]
    pub(super) const fn offset(self, size: u32, mask: usize) -> usize {
        (self.0 >> (INDEX_SHIFT - size)) as usize & mask
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 >> INDEX_SHIFT)
    }
}

/// The state of the thieves' end: `index` (40 bits), `calmed` (12), `guarded`, `open`, `sealed`
/// (one each), `claimed` (9).
///
/// Between two values of (`index`, `calmed`) the rest only moves forward: *quiet*, *guarded*,
/// *open*, *claimed*, *sealed*. So if a thief's compare-and-swap succeeds, nothing has changed in
/// between.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Front(u64);

impl Front {
    /// Creates a quiet word: no thief has knocked yet.
    pub(super) const fn quiet(index: Index) -> Self {
        Self(index.0)
    }

    /// Creates an open word, for systems without a process-wide barrier.
    pub(super) const fn open(index: Index) -> Self {
        Self(index.0 | GUARDED | OPEN)
    }

    pub(super) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(super) const fn raw(self) -> u64 {
        self.0
    }

    /// Returns the index of the oldest task.
    #[inline(always)]
    pub(super) const fn index(self) -> Index {
        Index::from_raw(self.0)
    }

    /// Whether the oldest task is older than `index`.
    #[inline(always)]
    pub(super) const fn is_before(self, index: Index) -> bool {
        // The flags below the index do not matter, since those of `index` are zero.
        (self.0.wrapping_sub(index.0) as i64) < 0
    }

    /// Returns the number of tasks that a thief has claimed and not taken yet.
    #[inline(always)]
    pub(super) const fn claimed(self) -> usize {
        (self.0 & (SEALED - 1)) as usize
    }

    /// Whether no thief has knocked, so that the owner need not fence its pops.
    #[inline(always)]
    pub(super) const fn is_quiet(self) -> bool {
        self.0 & GUARDED == 0
    }

    /// Whether thieves may take tasks.
    pub(super) const fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }

    /// Whether the owner has excluded batches at this index.
    pub(super) const fn sealed(self) -> bool {
        self.0 & SEALED != 0
    }

    /// Sets *guarded*: a thief has knocked, and the owner must fence its pops from now on.
    pub(super) const fn guard(self) -> Self {
        Self(self.0 | GUARDED)
    }

    /// Sets *open*: the thief's barrier is complete, or the owner has seen that a thief has
    /// knocked.
    pub(super) const fn let_in(self) -> Self {
        debug_assert!(!self.is_quiet());
        Self(self.0 | OPEN)
    }

    /// Clears all flags and the claim, after a period without thieves. The new count makes every
    /// swap fail that expects an older word.
    pub(super) fn calm_down(self) -> Self {
        let step = if broken(Canary::CalmTag) { 0 } else { CALM };
        let calmed = self.0.wrapping_add(step) & CALM_MASK;
        Self(self.index().0 | calmed)
    }

    /// Claims `n` tasks for a thief.
    pub(super) const fn claim(self, n: usize) -> Self {
        debug_assert!(n <= MAX_CLAIM && self.claimed() == 0 && self.is_open() && !self.sealed());
        Self(self.0 | n as u64)
    }

    /// Voids the claim, and every later one at this index.
    pub(super) const fn seal(self) -> Self {
        Self((self.0 & !(SEALED - 1)) | SEALED)
    }

    /// Moves the front past `n` tasks that have been taken.
    pub(super) const fn advance(self, n: usize) -> Self {
        let rest = self.0 & (CALM_MASK | GUARDED | OPEN);
        Self(self.index().plus(n).0 | rest)
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front")
            .field("index", &self.index())
            .field("calmed", &((self.0 & CALM_MASK) >> CALM_SHIFT))
            .field("quiet", &self.is_quiet())
            .field("open", &self.is_open())
            .field("sealed", &self.sealed())
            .field("claimed", &self.claimed())
            .finish()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn distances_survive_the_wrap() {
        let last = Index::from_count((1 << 40) - 1);
        let next = last.plus(3);
        assert_eq!(next.since(last), 3);
        assert_eq!(last.since(next), -3);
        assert_eq!(next.offset(0, 7), 2);
        assert_eq!(next.offset(3, 7 << 3), 16);
        assert_eq!(Index::from_count(0).previous(), last);
    }

    #[test]
    fn transitions_keep_the_fields_apart() {
        let index = Index::from_count(5);
        let front = Front::open(index);
        let claimed = front.claim(MAX_CLAIM);
        assert_eq!((claimed.index(), claimed.claimed()), (index, MAX_CLAIM));
        assert!(
            claimed.seal().sealed() && claimed.seal().claimed() == 0 && claimed.seal().is_open()
        );
        assert_eq!(claimed.seal().advance(1), Front::open(index.plus(1)));
        let quiet = front.calm_down();
        assert!(quiet.is_quiet() && !quiet.is_open() && quiet.index() == index);
        assert_ne!(
            quiet.guard().let_in(),
            front,
            "another time is another word"
        );
    }

    #[test]
    fn calming_down_wraps_without_touching_the_index() {
        let index = Index::from_count(7);
        let mut front = Front::quiet(index);
        for _ in 0..1 << 12 {
            front = front.guard().let_in().calm_down();
            assert_eq!(front.index(), index);
        }
        assert_eq!(front, Front::quiet(index));
    }
}
