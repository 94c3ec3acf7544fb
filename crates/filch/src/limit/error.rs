//! Why a request was refused.

use std::{error::Error, fmt, sync::Arc};

/// Why a [`Budget`](crate::Budget) or [`Budgets`](crate::Budgets) refused a request.
///
/// ```
/// use filch::{Budget, Budgets};
/// use std::time::Duration;
///
/// let budget = Budget::new(2);
/// let _one = budget.acquire(1)?;
/// assert!(budget.try_acquire(2).unwrap_err().is_full());
/// assert!(budget.acquire_timeout(2, Duration::ZERO).unwrap_err().is_timeout());
/// assert!(budget.acquire(3).unwrap_err().is_too_large());
/// budget.close();
/// assert!(budget.acquire(1).unwrap_err().is_closed());
///
/// let budgets = Budgets::new().with("bytes", 4096);
/// let error = budgets.acquire(&[("byte", 1)]).unwrap_err();
/// assert!(error.is_unknown());
/// assert!(error.to_string().contains("`byte`"));
/// # Ok::<(), filch::AcquireError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireError {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Closed,
    Full,
    Timeout,
    TooLarge {
        part: Option<Arc<str>>,
        asked: u64,
        capacity: u64,
    },
    Unknown(Arc<str>),
}

impl AcquireError {
    pub(super) const CLOSED: Self = Self { kind: Kind::Closed };
    pub(super) const FULL: Self = Self { kind: Kind::Full };
    pub(super) const TIMEOUT: Self = Self {
        kind: Kind::Timeout,
    };

    #[cold]
    pub(super) fn too_large(part: Option<Arc<str>>, asked: u64, capacity: u64) -> Self {
        Self {
            kind: Kind::TooLarge {
                part,
                asked,
                capacity,
            },
        }
    }

    #[cold]
    pub(super) fn unknown(part: &str) -> Self {
        Self {
            kind: Kind::Unknown(part.into()),
        }
    }

    /// Whether the budget was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind == Kind::Closed
    }

    /// Whether too few units are free, or other requests are queued; the same call may succeed
    /// later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind == Kind::Full
    }

    /// Whether the deadline passed before the units were free.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind == Kind::Timeout
    }

    /// Whether the request exceeds the capacity; waiting would not help.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(self.kind, Kind::TooLarge { .. })
    }

    /// Whether there is no part of that name.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, Kind::Unknown(_))
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Closed => f.write_str("the budget is closed; ask another one"),
            Kind::Full => f.write_str(
                "not enough units are free, or others wait for them; try again later or wait",
            ),
            Kind::Timeout => {
                f.write_str("the units were not free in time; wait longer or ask for fewer")
            }
            Kind::TooLarge {
                part,
                asked,
                capacity,
            } => {
                write!(f, "{asked} units ")?;
                if let Some(part) = part {
                    write!(f, "of `{part}` ")?;
                }
                write!(
                    f,
                    "were asked for and there are {capacity} in all; ask for fewer or add some"
                )
            }
            Kind::Unknown(part) => {
                write!(f, "there is no part `{part}`; add it or correct the name")
            }
        }
    }
}

impl Error for AcquireError {}
