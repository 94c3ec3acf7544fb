//! Points in time by the clock of the [host](crate::base::host), with the interface of `std`.
#![cfg_attr(
    not(all(target_family = "wasm", target_os = "unknown")),
    expect(unreachable_pub, reason = "compiled for its tests only")
)]

use std::{
    ops::{Add, AddAssign, Sub, SubAssign},
    time::Duration,
};

/// A point in time: as [`std::time::Instant`], whose clock does not work on this target, by the
/// clock of the installed [`Host`](crate::host::Host).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// Returns the current time. It does not advance before a [`Host`](crate::host::Host) is
    /// installed.
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    #[must_use]
    pub fn now() -> Self {
        Self(crate::base::host::now())
    }

    /// Returns the time since `self`.
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// Returns the time from `earlier` to `self`, or `None` if `earlier` is later.
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns `self + time`, or `None` if it cannot be represented.
    #[must_use]
    pub fn checked_add(&self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Self)
    }

    /// Returns `self - time`, or `None` if it cannot be represented.
    #[must_use]
    pub fn checked_sub(&self, time: Duration) -> Option<Self> {
        self.0.checked_sub(time).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        self.checked_add(time)
            .expect("the sum is a time that cannot be represented")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        self.checked_sub(time)
            .expect("the difference is a time that cannot be represented")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, time: Duration) {
        *self = *self - time;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::Instant;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_counts_as_that_of_std() {
        let start = Instant(10 * SECOND);
        let mut end = start + SECOND;
        assert_eq!((end - start, start - end), (SECOND, Duration::ZERO));
        assert_eq!((end.duration_since(start), start < end), (SECOND, true));
        assert_eq!(start.checked_duration_since(end), None);
        assert_eq!(start.checked_add(Duration::MAX), None);
        assert_eq!(start.checked_sub(11 * SECOND), None);
        end -= SECOND;
        assert_eq!(end, start);
        end += SECOND;
        assert_eq!(end - SECOND, start);
    }
}
