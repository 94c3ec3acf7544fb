//! Groups of futures that stay on one thread.

use super::{HandleGroup, LocalHandle, LocalSet, group_members::MemberHandle, spawn_local};

/// A group of futures of a [`LocalSet`], which need not be `Send`, and are awaited as they end: the
/// counterpart of [`FutureGroup`](super::FutureGroup). Dropping the group cancels the remaining
/// ones.
///
/// ```
/// use filch::future::{LocalGroup, LocalSet};
/// use std::rc::Rc;
///
/// let sum = LocalSet::new().block_on(async {
///     let (mut group, shared) = (LocalGroup::new(), Rc::new(10));
///     for n in 0..3 {
///         let shared = shared.clone();
///         group.spawn_local(async move { n * *shared });
///     }
///     let mut sum = 0;
///     while let Some(product) = group.join_next().await {
///         sum += product.unwrap();
///     }
///     sum
/// });
/// assert_eq!(sum, 30);
/// ```
#[doc(alias = "JoinSet")]
pub type LocalGroup<T> = HandleGroup<LocalHandle<T>>;

impl<T> LocalGroup<T> {
    /// Adds a future to the group and to the [`LocalSet`] that this thread polls at present.
    ///
    /// ```
    /// use filch::future::{LocalGroup, LocalSet};
    ///
    /// let result = LocalSet::new().block_on(async {
    ///     let mut group = LocalGroup::new();
    ///     group.spawn_local(async { "here" });
    ///     group.join_next().await
    /// });
    /// assert_eq!(result.unwrap().unwrap(), "here");
    /// ```
    ///
    /// # Panics
    /// When this thread polls none, as [`spawn_local`].
    #[track_caller]
    pub fn spawn_local<F: Future<Output = T> + 'static>(&mut self, future: F)
    where
        T: 'static,
    {
        let recorder = self.members.recorder();
        let key = recorder.key();
        self.members
            .insert(key, spawn_local(recorder.record(future)));
    }

    /// Adds a future to the group and to `set`. It is polled when the set is.
    ///
    /// ```
    /// use filch::future::{LocalGroup, LocalSet};
    ///
    /// let (set, mut group) = (LocalSet::new(), LocalGroup::new());
    /// group.spawn_local_on(&set, async { 7 });
    /// assert_eq!(set.block_on(group.join_next()).unwrap().unwrap(), 7);
    /// ```
    pub fn spawn_local_on<F: Future<Output = T> + 'static>(&mut self, set: &LocalSet, future: F)
    where
        T: 'static,
    {
        let recorder = self.members.recorder();
        let key = recorder.key();
        let handle = set.spawn_local(recorder.record(future));
        self.members.insert(key, handle);
    }
}

impl<T> MemberHandle for LocalHandle<T> {
    type Value = T;

    fn try_take(&mut self) -> Option<Self::Output> {
        self.take_outcome()
    }

    fn cancel(&self) {
        Self::cancel(self);
    }
}
