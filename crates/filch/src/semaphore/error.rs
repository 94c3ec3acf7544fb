//! Why a request was refused.

use std::{error::Error, fmt};

/// Why a [`Semaphore`](crate::Semaphore) refused a request.
///
/// ```
/// use filch::Semaphore;
/// use std::time::Duration;
///
/// let semaphore = Semaphore::new(2);
/// let _one = semaphore.acquire()?;
/// assert!(semaphore.try_acquire_many(2).unwrap_err().is_full());
/// assert!(semaphore.acquire_many_timeout(2, Duration::ZERO).unwrap_err().is_timeout());
/// assert!(semaphore.acquire_many(3).unwrap_err().is_too_large());
/// semaphore.close();
/// assert!(semaphore.acquire().unwrap_err().is_closed());
/// # Ok::<(), filch::AcquireError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireError {
    kind: AcquireErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AcquireErrorKind {
    Closed,
    Full,
    Timeout,
    TooLarge { requested: u64, capacity: u64 },
}

impl AcquireError {
    pub(super) const CLOSED: Self = Self {
        kind: AcquireErrorKind::Closed,
    };
    pub(super) const FULL: Self = Self {
        kind: AcquireErrorKind::Full,
    };
    pub(super) const TIMEOUT: Self = Self {
        kind: AcquireErrorKind::Timeout,
    };

    #[cold]
    pub(super) fn too_large(requested: u64, capacity: u64) -> Self {
        let kind = AcquireErrorKind::TooLarge {
            requested,
            capacity,
        };
        Self { kind }
    }

    /// Whether the semaphore was closed.
    ///
    /// ```
    /// let semaphore = filch::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.acquire().unwrap_err().is_closed());
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind == AcquireErrorKind::Closed
    }

    /// Whether too few units are free, or other requests are queued; the same call may succeed
    /// later.
    ///
    /// ```
    /// let semaphore = filch::Semaphore::new(1);
    /// let permit = semaphore.acquire()?;
    /// assert!(semaphore.try_acquire().unwrap_err().is_full());
    /// drop(permit);
    /// assert!(semaphore.try_acquire().is_ok());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind == AcquireErrorKind::Full
    }

    /// Whether the deadline passed before the units were free.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let semaphore = filch::Semaphore::new(1);
    /// let _permit = semaphore.acquire()?;
    /// let late = semaphore.acquire_timeout(Duration::from_millis(1));
    /// assert!(late.unwrap_err().is_timeout());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind == AcquireErrorKind::Timeout
    }

    /// Whether the request exceeds the capacity; waiting would not help.
    ///
    /// ```
    /// let semaphore = filch::Semaphore::new(4);
    /// let error = semaphore.acquire_many(5).unwrap_err();
    /// assert!(error.is_too_large());
    /// semaphore.add(1);
    /// assert!(semaphore.acquire_many(5).is_ok());
    /// ```
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(self.kind, AcquireErrorKind::TooLarge { .. })
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            AcquireErrorKind::Closed => f.write_str("the semaphore is closed; use another one"),
            AcquireErrorKind::Full => f.write_str(
                "not enough units are free, or other requests wait for them; try again later or wait",
            ),
            AcquireErrorKind::Timeout => {
                f.write_str("the units were not free in time; wait longer or request fewer")
            }
            AcquireErrorKind::TooLarge { requested, capacity } => write!(
                f,
                "{requested} units were requested and there are {capacity} in all; request fewer or \
                 add some"
            ),
        }
    }
}

impl Error for AcquireError {}
