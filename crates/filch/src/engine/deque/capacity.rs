//! The capacity of a deque.

/// The capacity of a deque.
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
    /// The most tasks that any deque can hold.
    ///
    /// Far below half of the 2^40 indices, so that the sign of a distance between two of them is
    /// correct.
    pub const MAX: usize = if usize::BITS >= 64 { 1 << 38 } else { 1 << 26 };

    /// A fixed capacity of `tasks`, but at least one.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::bounded(1));
    /// let mut owner = deque.owner().unwrap();
    /// assert!(owner.push(1).is_ok());
    /// assert_eq!(owner.push(2), Err(2));
    /// ```
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

    /// An initial capacity of `initial` tasks, which doubles whenever it is not enough.
    ///
    /// ```
    /// use filch::engine::{Capacity, Deque};
    ///
    /// let deque = Deque::new(Capacity::growable(1));
    /// let mut owner = deque.owner().unwrap();
    /// assert!((0..100).all(|task| owner.push(task).is_ok()));
    /// ```
    #[must_use]
    pub const fn growable(initial: usize) -> Self {
        Self {
            initial: Self::bounded(initial).initial,
            limit: Self::MAX,
        }
    }
}

impl Capacity {
    /// Returns the number of tasks that a deque has room for at first.
    pub(in crate::engine) const fn initial(self) -> usize {
        self.initial
    }
}

impl Default for Capacity {
    /// Growable from 256 tasks: 2 KiB of words for one-word tasks.
    fn default() -> Self {
        Self::growable(256)
    }
}
