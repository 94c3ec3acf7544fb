//! The permit that a budget gives out.

use super::Budget;
use std::{borrow::Cow, fmt, mem};

/// Units of a [`Budget`]. They go back when it is dropped, also by a panic.
///
/// It borrows its budget, so that taking and giving back touch only the budget's atomic word.
/// [`into_owned`](Self::into_owned) converts it to one with its own handle, to be stored or sent
/// elsewhere.
///
/// ```
/// use filch::{Budget, Permit};
///
/// struct Buffer {
///     bytes: Vec<u8>,
///     _permit: Permit<'static>,
/// }
/// let memory = Budget::new(1 << 20);
/// let buffer = Buffer {
///     bytes: vec![0; 4096],
///     _permit: memory.acquire(4096)?.into_owned(),
/// };
/// assert_eq!(memory.available() + buffer.bytes.len() as u64, 1 << 20);
/// # Ok::<(), filch::AcquireError>(())
/// ```
#[must_use = "the units go back when it is dropped"]
pub struct Permit<'a> {
    budget: Cow<'a, Budget>,
    n: u64,
}

impl<'a> Permit<'a> {
    #[inline]
    pub(super) fn new(budget: Cow<'a, Budget>, n: u64) -> Self {
        Self { budget, n }
    }

    /// The number of units it holds.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Splits off `n` of its units. `None` if it has fewer.
    ///
    /// ```
    /// use filch::Budget;
    ///
    /// let budget = Budget::new(8);
    /// let mut most = budget.acquire(8)?;
    /// let few = most.split(3).unwrap();
    /// assert_eq!((most.n(), few.n()), (5, 3));
    /// assert!(most.split(6).is_none());
    /// drop(few);
    /// assert_eq!(budget.available(), 3);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    #[must_use = "the units go back when it is dropped"]
    pub fn split(&mut self, n: u64) -> Option<Self> {
        let rest = self.n.checked_sub(n)?;
        let part = Self::new(self.budget.clone(), n);
        self.n = rest;
        Some(part)
    }

    /// Merges the units of `other` into this permit.
    ///
    /// ```
    /// use filch::Budget;
    ///
    /// let budget = Budget::new(8);
    /// let mut permit = budget.acquire(1)?;
    /// permit.merge(budget.acquire(2)?).unwrap();
    /// assert_eq!(permit.n(), 3);
    ///
    /// let stranger = Budget::new(1);
    /// let other = permit.merge(stranger.acquire(1)?).unwrap_err();
    /// assert_eq!(other.n(), 1);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If `other` belongs to another budget; the error contains it.
    pub fn merge<'b>(&mut self, other: Permit<'b>) -> Result<(), Permit<'b>> {
        if !self.budget.is(&other.budget) {
            return Err(other);
        }
        self.n += other.keep();
        Ok(())
    }

    /// Removes the units from the budget for good, which decreases its capacity. Queued requests
    /// that exceed the new capacity are refused. The counterpart is [`Budget::add`].
    ///
    /// ```
    /// use filch::Budget;
    ///
    /// let budget = Budget::new(8);
    /// budget.acquire(2)?.forget();
    /// assert_eq!(budget.capacity(), 6);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn forget(mut self) {
        let n = mem::take(&mut self.n);
        self.budget.shrink(n);
    }

    /// Converts to a permit for the same units with its own handle to the budget.
    pub fn into_owned(mut self) -> Permit<'static> {
        let n = mem::take(&mut self.n);
        Permit::new(Cow::Owned(self.budget.clone().into_owned()), n)
    }

    /// Returns the units, for which the caller accounts from now on: they stay taken until
    /// [`Budget::give`].
    pub(crate) fn keep(mut self) -> u64 {
        mem::take(&mut self.n)
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.n > 0 {
            self.budget.give(self.n);
        }
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("n", &self.n).finish()
    }
}
