//! The futures of requests.

use super::{error::AcquireError, permit::Permit, state::Semaphore, wait::RequestStage};
use crate::base::budget;
use std::{
    borrow::Cow,
    fmt,
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

/// The future of [`Semaphore::acquire_async`] and [`Semaphore::acquire_many_async`].
///
/// Dropped while it waits, it leaves the queue; dropped after it was served, it gives the units
/// back.
#[must_use = "nothing is requested before it is polled"]
pub struct Acquire<'a> {
    semaphore: Cow<'a, Semaphore>,
    n: u64,
    stage: RequestStage,
}

impl<'a> Acquire<'a> {
    pub(super) fn new(semaphore: &'a Semaphore, n: u64) -> Self {
        Self {
            semaphore: Cow::Borrowed(semaphore),
            n,
            stage: RequestStage::New,
        }
    }

    /// Converts to the same request, at the same place in the queue, with its own handle to the
    /// semaphore.
    ///
    /// ```
    /// use filch::{Semaphore, sync::Acquire};
    ///
    /// fn one_of(semaphore: &Semaphore) -> Acquire<'static> {
    ///     semaphore.acquire_async().into_owned()
    /// }
    /// let _future = one_of(&Semaphore::new(1));
    /// ```
    pub fn into_owned(self) -> Acquire<'static> {
        Acquire {
            semaphore: Cow::Owned(self.semaphore.into_owned()),
            n: self.n,
            stage: self.stage,
        }
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Permit<'a>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            semaphore,
            n,
            stage,
        } = &mut *self;
        let outcome = budget::poll_leaf(cx, |cx| {
            stage.poll(cx.waker(), || RequestStage::begin(semaphore, *n))
        });
        outcome.map_ok(|()| Permit::new(semaphore.clone(), *n))
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

/// The future of [`Semaphore::acquire_all_async`].
///
/// Dropped while it waits, it leaves the queues; dropped after it was served, it gives the units
/// back.
#[must_use = "nothing is requested before it is polled"]
pub struct AcquireAll<'a> {
    wanted: Vec<(Cow<'a, Semaphore>, u64)>,
    stage: RequestStage,
}

impl<'a> AcquireAll<'a> {
    pub(super) fn new(wanted: impl IntoIterator<Item = (&'a Semaphore, u64)>) -> Self {
        let wanted = wanted.into_iter();
        Self {
            wanted: wanted
                .map(|(semaphore, n)| (Cow::Borrowed(semaphore), n))
                .collect(),
            stage: RequestStage::New,
        }
    }

    /// Converts to the same request, at the same place in the queues, with its own handles to the
    /// semaphores.
    ///
    /// ```
    /// use filch::{Semaphore, sync::AcquireAll};
    ///
    /// fn one_of_both(a: &Semaphore, b: &Semaphore) -> AcquireAll<'static> {
    ///     Semaphore::acquire_all_async([(a, 1), (b, 1)]).into_owned()
    /// }
    /// let _future = one_of_both(&Semaphore::new(1), &Semaphore::new(1));
    /// ```
    pub fn into_owned(self) -> AcquireAll<'static> {
        let wanted = self.wanted.into_iter();
        AcquireAll {
            wanted: wanted
                .map(|(semaphore, n)| (Cow::Owned(semaphore.into_owned()), n))
                .collect(),
            stage: self.stage,
        }
    }
}

impl<'a> Future for AcquireAll<'a> {
    type Output = Result<Vec<Permit<'a>>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { wanted, stage } = &mut *self;
        let pairs = || wanted.iter().map(|(semaphore, n)| (&**semaphore, *n));
        let outcome = budget::poll_leaf(cx, |cx| {
            stage.poll(cx.waker(), || RequestStage::begin_all(pairs()))
        });
        let permit = |(semaphore, n)| Permit::new(semaphore, n);
        outcome.map_ok(|()| mem::take(wanted).into_iter().map(permit).collect())
    }
}

impl fmt::Debug for AcquireAll<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireAll").finish_non_exhaustive()
    }
}
