//! The permit that several budgets give out together.

use super::{
    Budgets,
    set::{Ask, add_to},
};
use std::{borrow::Cow, fmt, mem, sync::Arc};

/// Units of several parts of [`Budgets`]. They go back when it is dropped, also by a panic.
///
/// It borrows its budgets; [`into_owned`](Self::into_owned) converts it to one with its own handle,
/// to be stored or sent elsewhere.
///
/// ```
/// use filch::{Budgets, Permits};
///
/// let budgets = Budgets::new().with("objects", 8).with("bytes", 4096);
/// let permits: Permits<'static> = budgets
///     .acquire(&[("objects", 1), ("bytes", 100)])?
///     .into_owned();
/// assert_eq!((permits.n("bytes"), permits.n("nothing")), (100, 0));
/// # Ok::<(), filch::AcquireError>(())
/// ```
#[must_use = "the units go back when it is dropped"]
pub struct Permits<'a> {
    budgets: Cow<'a, Budgets>,
    ask: Ask,
}

impl<'a> Permits<'a> {
    pub(super) fn new(budgets: Cow<'a, Budgets>, ask: Ask) -> Self {
        Self { budgets, ask }
    }

    /// The number of units of `name` it holds.
    #[must_use]
    pub fn n(&self, name: &str) -> u64 {
        let part = self.budgets.lock().find(name);
        self.ask
            .iter()
            .find(|&&(other, _)| Some(other) == part)
            .map_or(0, |&(_, n)| n)
    }

    /// Splits off the units that are `wanted`. `None` if it has fewer of one of them: then nothing
    /// changes.
    ///
    /// ```
    /// use filch::Budgets;
    ///
    /// let budgets = Budgets::new().with("objects", 8).with("bytes", 4096);
    /// let mut most = budgets.acquire(&[("objects", 8), ("bytes", 100)])?;
    /// let few = most.split(&[("objects", 3)]).unwrap();
    /// assert_eq!((most.n("objects"), few.n("objects")), (5, 3));
    /// assert!(most.split(&[("bytes", 1), ("objects", 6)]).is_none());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    #[must_use = "the units go back when it is dropped"]
    pub fn split(&mut self, wanted: &[(&str, u64)]) -> Option<Self> {
        let apart = self.budgets.lock().resolve(wanted).ok()?;
        let mut rest = self.ask.clone();
        for &(part, n) in &apart {
            let (_, held) = rest.iter_mut().find(|(other, _)| *other == part)?;
            *held = held.checked_sub(n)?;
        }
        rest.retain(|&(_, n)| n > 0);
        self.ask = rest;
        Some(Self::new(self.budgets.clone(), apart))
    }

    /// Merges the units of `other` into this permit.
    ///
    /// ```
    /// use filch::Budgets;
    ///
    /// let budgets = Budgets::new().with("objects", 8).with("bytes", 4096);
    /// let mut permits = budgets.acquire(&[("objects", 1)])?;
    /// permits.merge(budgets.acquire(&[("bytes", 10)])?).unwrap();
    /// assert_eq!((permits.n("objects"), permits.n("bytes")), (1, 10));
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If `other` belongs to other budgets; the error contains it.
    pub fn merge<'b>(&mut self, mut other: Permits<'b>) -> Result<(), Permits<'b>> {
        if !self.budgets.is(&other.budgets) {
            return Err(other);
        }
        for (part, n) in mem::take(&mut other.ask) {
            add_to(&mut self.ask, part, n);
        }
        Ok(())
    }

    /// Removes the units from the budgets for good, which decreases their capacity. Queued requests
    /// that exceed the new capacity are refused. The counterpart is [`Budgets::add`].
    ///
    /// ```
    /// use filch::Budgets;
    ///
    /// let budgets = Budgets::new().with("objects", 8);
    /// budgets.acquire(&[("objects", 2)])?.forget();
    /// assert_eq!(budgets.capacity("objects"), Some(6));
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn forget(mut self) {
        let ask = mem::take(&mut self.ask);
        self.budgets.shrink(&ask);
    }

    /// Converts to a permit for the same units with its own handle to the budgets.
    pub fn into_owned(mut self) -> Permits<'static> {
        let ask = mem::take(&mut self.ask);
        Permits::new(Cow::Owned(self.budgets.clone().into_owned()), ask)
    }
}

impl Drop for Permits<'_> {
    fn drop(&mut self) {
        if !self.ask.is_empty() {
            self.budgets.give(&self.ask);
        }
    }
}

impl fmt::Debug for Permits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.budgets.lock();
        let held: Vec<_> = self
            .ask
            .iter()
            .map(|&(part, n)| (Arc::clone(&set.parts[part].name), n))
            .collect();
        drop(set);
        let mut debug = f.debug_struct("Permits");
        for (name, n) in held {
            debug.field(&name, &n);
        }
        debug.finish()
    }
}
