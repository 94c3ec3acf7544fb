//! How many tasks a deque holds.

/// How many tasks a deque holds.
///
/// ```
/// use filch::engine::{Capacity, Deque};
///
/// let small = Deque::new(Capacity::bounded(2));
/// let mut owner = small.owner().unwrap();
/// assert_eq!(owner.push('a'), Ok(()));
/// assert_eq!(owner.push('b'), Ok(()));
/// assert_eq!(owner.push('c'), Err('c'));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub(super) initial: usize,
    pub(super) limit: usize,
}

impl Capacity {
    /// The most tasks any deque can hold.
    ///
    /// Far below half of the 2^40 indices, so that a distance between two of them always has its sign.
    pub const MAX: usize = if usize::BITS >= 64 { 1 << 38 } else { 1 << 26 };

    /// Room for `tasks` tasks and no more, rounded up to at least one.
    #[must_use]
    pub const fn bounded(tasks: usize) -> Self {
        let limit = match tasks {
            0 => 1,
            more if more > Self::MAX => Self::MAX,
            more => more,
        };
        Self {
            initial: limit,
            limit,
        }
    }

    /// Starts with room for `initial` tasks and doubles whenever that is not enough.
    #[must_use]
    pub const fn growable(initial: usize) -> Self {
        Self {
            initial: Self::bounded(initial).initial,
            limit: Self::MAX,
        }
    }

    /// The most tasks that fit, or `None` when the deque grows.
    #[must_use]
    pub const fn limit(self) -> Option<usize> {
        if self.limit == Self::MAX {
            None
        } else {
            Some(self.limit)
        }
    }
}

impl Default for Capacity {
    /// Growable from 256 tasks, seed 001's capacity: 2 KiB of words for one-word tasks.
    fn default() -> Self {
        Self::growable(256)
    }
}
