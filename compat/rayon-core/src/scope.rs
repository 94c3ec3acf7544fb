//! Scopes: tasks that borrow.
#![expect(unsafe_code, reason = "a reference to filch's scope is one to ours")]

use crate::{BroadcastContext, here, registry::global};
use std::fmt;

/// Spawns tasks that may borrow data that outlives the scope. See [`scope()`].
#[repr(transparent)]
pub struct Scope<'scope>(filch::Scope<'scope>);

/// Spawns tasks that may borrow data that outlives the scope, in FIFO order. See [`scope_fifo()`].
#[repr(transparent)]
pub struct ScopeFifo<'scope>(filch::Scope<'scope>);

impl<'scope> Scope<'scope> {
    pub(crate) fn of<'a>(scope: &'a filch::Scope<'scope>) -> &'a Self {
        // SAFETY: `Scope` is a transparent wrapper of filch's scope, so the reference is valid for
        // both types.
        unsafe { &*(&raw const *scope).cast() }
    }

    /// Spawns a task that ends before the scope does. On one thread the newest task runs first.
    ///
    /// ```
    /// let mut words = ["one", "two"].map(String::from);
    /// rayon_core::scope(|s| {
    ///     for word in &mut words {
    ///         s.spawn(move |_| word.push('!'));
    ///     }
    /// });
    /// assert_eq!(words, ["one!", "two!"]);
    /// ```
    #[inline]
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.0.spawn(move |scope| body(Scope::of(scope)));
    }

    /// Spawns a task once on every thread of the pool.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let calls = AtomicUsize::new(0);
    /// rayon_core::scope(|s| s.spawn_broadcast(|_, _| {
    ///     calls.fetch_add(1, Ordering::Relaxed);
    /// }));
    /// assert_eq!(calls.into_inner(), rayon_core::current_num_threads());
    /// ```
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let threads = self.0.pool_workers();
        self.0.spawn_broadcast(move |scope, index| {
            BroadcastContext::with(index, threads, |cx| body(Scope::of(scope), cx));
        });
    }
}

impl<'scope> ScopeFifo<'scope> {
    pub(crate) fn of<'a>(scope: &'a filch::Scope<'scope>) -> &'a Self {
        // SAFETY: `ScopeFifo` is a transparent wrapper of filch's scope, so the reference is valid
        // for both types.
        unsafe { &*(&raw const *scope).cast() }
    }

    /// Spawns a task that ends before the scope does. It starts after the tasks that were spawned
    /// before it.
    ///
    /// ```
    /// let mut word = String::from("word");
    /// rayon_core::scope_fifo(|s| s.spawn_fifo(|_| word.push('!')));
    /// assert_eq!(word, "word!");
    /// ```
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        self.0.spawn_fifo(move |scope| body(ScopeFifo::of(scope)));
    }

    /// Spawns a task once on every thread of the pool.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let threads = self.0.pool_workers();
        self.0.spawn_broadcast(move |scope, index| {
            BroadcastContext::with(index, threads, |cx| body(ScopeFifo::of(scope), cx));
        });
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(&self.0).finish()
    }
}

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScopeFifo").field(&self.0).finish()
    }
}

/// Calls `op` with a scope, and returns when every task spawned in it has ended. Called from
/// outside of any pool, `op` and the tasks run on threads of the global one.
///
/// ```
/// let numbers = vec![1, 2, 3];
/// let (mut sum, mut product) = (0, 1);
/// rayon_core::scope(|s| {
///     s.spawn(|_| sum = numbers.iter().sum());
///     s.spawn(|_| product = numbers.iter().product());
/// });
/// assert_eq!((sum, product), (6, 6));
/// ```
///
/// # Panics
/// If `op` or a task panics, after all tasks have ended.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    if here::is_inside() {
        filch::scope(|scope| op(Scope::of(scope)))
    } else {
        global().scope(op)
    }
}

/// [`scope()`] whose tasks start in the order in which they are spawned, per thread.
///
/// # Panics
/// As [`scope()`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    if here::is_inside() {
        filch::scope(|scope| op(ScopeFifo::of(scope)))
    } else {
        global().scope_fifo(op)
    }
}

/// [`scope()`] whose `op` runs on the calling thread; its tasks run on the current pool, or on the
/// global one outside of any pool.
///
/// ```
/// use std::{rc::Rc, thread};
///
/// let here = thread::current().id();
/// let local = Rc::new(1); // cannot go elsewhere
/// let mut there = None;
/// rayon_core::in_place_scope(|s| {
///     s.spawn(|_| there = Some(thread::current().id()));
///     assert_eq!(*local, 1);
/// });
/// assert_ne!(there, Some(here));
/// ```
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    if here::is_inside() {
        filch::scope(|scope| op(Scope::of(scope)))
    } else {
        global().in_place_scope(op)
    }
}

/// [`in_place_scope`] with the order of [`scope_fifo()`].
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    if here::is_inside() {
        filch::scope(|scope| op(ScopeFifo::of(scope)))
    } else {
        global().in_place_scope_fifo(op)
    }
}
