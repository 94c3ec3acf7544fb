//! The permit that a semaphore gives out.

use super::state::Semaphore;
use std::{borrow::Cow, fmt, mem};

/// Units of a [`Semaphore`]. They go back when it is dropped, also by a panic.
///
/// It borrows its semaphore, so that taking and giving back touch only the semaphore's atomic word.
/// [`into_owned`](Self::into_owned) converts it to one with its own handle, to be stored or sent
/// elsewhere.
///
/// ```
/// use filch::{Permit, Semaphore};
///
/// struct Buffer {
///     bytes: Vec<u8>,
///     _permit: Permit<'static>,
/// }
/// let memory = Semaphore::new(1 << 20);
/// let buffer = Buffer {
///     bytes: vec![0; 4096],
///     _permit: memory.acquire_many(4096)?.into_owned(),
/// };
/// assert_eq!(memory.available() + buffer.bytes.len() as u64, 1 << 20);
/// # Ok::<(), filch::AcquireError>(())
/// ```
#[must_use = "the units go back when it is dropped"]
pub struct Permit<'a> {
    semaphore: Cow<'a, Semaphore>,
    units: u64,
}

impl Semaphore {
    /// Returns a permit for units that the caller has taken.
    pub(crate) fn permit_for(&self, units: u64) -> Permit<'static> {
        Permit::new(Cow::Owned(self.clone()), units)
    }
}

impl<'a> Permit<'a> {
    #[inline]
    pub(super) fn new(semaphore: Cow<'a, Semaphore>, units: u64) -> Self {
        Self { semaphore, units }
    }

    /// Returns the number of units it holds.
    ///
    /// ```
    /// let semaphore = filch::Semaphore::new(8);
    /// assert_eq!(semaphore.acquire_many(5)?.units(), 5);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Splits off `n` of its units. `None` if it has fewer.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(8);
    /// let mut most = semaphore.acquire_many(8)?;
    /// let few = most.split(3).unwrap();
    /// assert_eq!((most.units(), few.units()), (5, 3));
    /// assert!(most.split(6).is_none());
    /// drop(few);
    /// assert_eq!(semaphore.available(), 3);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    #[must_use = "the units go back when it is dropped"]
    pub fn split(&mut self, n: u64) -> Option<Self> {
        let remaining = self.units.checked_sub(n)?;
        let part = Self::new(self.semaphore.clone(), n);
        self.units = remaining;
        Some(part)
    }

    /// Merges the units of `other` into this permit.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(8);
    /// let mut permit = semaphore.acquire()?;
    /// permit.merge(semaphore.acquire_many(2)?).unwrap();
    /// assert_eq!(permit.units(), 3);
    ///
    /// let stranger = Semaphore::new(1);
    /// let other = permit.merge(stranger.acquire()?).unwrap_err();
    /// assert_eq!(other.units(), 1);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If `other` belongs to another semaphore; the error contains it.
    pub fn merge<'b>(&mut self, other: Permit<'b>) -> Result<(), Permit<'b>> {
        if !self.semaphore.ptr_eq(&other.semaphore) {
            return Err(other);
        }
        self.units += other.into_units();
        Ok(())
    }

    /// Removes the units from the semaphore for good, which decreases its capacity. Queued requests
    /// that exceed the new capacity are refused. The counterpart is [`Semaphore::add`].
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(8);
    /// semaphore.acquire_many(2)?.forget();
    /// assert_eq!(semaphore.capacity(), 6);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn forget(mut self) {
        let n = mem::take(&mut self.units);
        self.semaphore.shrink(n);
    }

    /// Converts to a permit for the same units with its own handle to the semaphore.
    ///
    /// ```
    /// use filch::{AcquireError, Permit, Semaphore};
    ///
    /// fn only_one() -> Result<Permit<'static>, AcquireError> {
    ///     Ok(Semaphore::new(1).acquire()?.into_owned())
    /// }
    /// assert_eq!(only_one()?.units(), 1);
    /// # Ok::<(), AcquireError>(())
    /// ```
    pub fn into_owned(mut self) -> Permit<'static> {
        let n = mem::take(&mut self.units);
        Permit::new(Cow::Owned(self.semaphore.clone().into_owned()), n)
    }

    /// Returns the units, for which the caller accounts from now on: they stay taken until
    /// [`Semaphore::give`].
    pub(crate) fn into_units(mut self) -> u64 {
        mem::take(&mut self.units)
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.units > 0 {
            self.semaphore.give(self.units);
        }
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("units", &self.units)
            .finish()
    }
}
