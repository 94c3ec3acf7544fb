//! The error of a cancelled loop.

use crate::cancel::CancelReason;
use std::{error::Error, fmt};

/// A loop was cancelled before it was done; contains its progress.
///
/// ```
/// use filch::{CancelReason, CancelToken, par::over};
///
/// let token = CancelToken::new();
/// token.cancel();
/// let error = over(0..10).cancel(&token).for_each(drop).unwrap_err();
/// assert_eq!((error.done(), error.total(), error.reason()), (0, 10, CancelReason::Requested));
/// assert_eq!(error.to_string(), "the loop ended after 0 of 10 items: cancelled");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopCancelled {
    done: usize,
    total: usize,
    reason: CancelReason,
}

impl LoopCancelled {
    pub(super) fn new(done: usize, total: usize, reason: CancelReason) -> Self {
        Self {
            done,
            total,
            reason,
        }
    }

    /// The number of items that were done. Generally not the first ones, since workers run several
    /// pieces at once.
    ///
    /// ```
    /// use filch::{CancelToken, prelude::*};
    ///
    /// let token = CancelToken::new();
    /// token.cancel();
    /// let error = (0..10).into_par().cancel(&token).sum::<i32>().unwrap_err();
    /// assert!(error.done() < 10);
    /// ```
    #[must_use]
    pub fn done(&self) -> usize {
        self.done
    }

    /// The number of items in total.
    ///
    /// ```
    /// use filch::{CancelToken, prelude::*};
    ///
    /// let token = CancelToken::new();
    /// token.cancel();
    /// let error = (0..10).into_par().cancel(&token).sum::<i32>().unwrap_err();
    /// assert!(error.total() == 10);
    /// ```
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Why the token was cancelled.
    ///
    /// ```
    /// use filch::{CancelReason, CancelToken, prelude::*};
    ///
    /// let token = CancelToken::new();
    /// token.cancel();
    /// let error = (0..10).into_par().cancel(&token).sum::<i32>().unwrap_err();
    /// assert!(error.reason() == CancelReason::Requested);
    /// ```
    #[must_use]
    pub fn reason(&self) -> CancelReason {
        self.reason
    }
}

impl fmt::Display for LoopCancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the loop ended after {} of {} items: {}",
            self.done, self.total, self.reason
        )
    }
}

impl Error for LoopCancelled {}
