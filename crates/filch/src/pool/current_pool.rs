//! The pool that a thread which is not a worker uses at present, instead of the global one.
#![expect(unsafe_code, reason = "a thread-local pointer to what a caller holds")]

use super::{NO_POOL, Pool, inner::Inner};
use std::{
    cell::{Cell, RefCell},
    fmt,
    marker::PhantomData,
    ptr,
};

thread_local! {
    static ENTERED: Cell<*const Pool> = const { Cell::new(ptr::null()) };
    /// The newest of the guards.
    static NEWEST: Cell<Entry> = const { Cell::new(Entry::NONE) };
    static GUARDS: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
    static NEXT_GUARD: Cell<u64> = const { Cell::new(0) };
}

/// What an [`EnterGuard`] has entered. The pool is named by its number, since a guard that is
/// forgotten must not leave a pointer.
#[derive(Clone, Copy)]
struct Entry {
    /// Its own number on this thread.
    guard: u64,
    /// The number of the pool; `NO_POOL` if there is no guard.
    pool: u32,
    /// What `ENTERED` was when the guard was made, for comparison only: a call of `Pool::within`
    /// inside the guard's life takes precedence.
    over: *const Pool,
}

impl Entry {
    const NONE: Self = Self {
        guard: 0,
        pool: NO_POOL,
        over: ptr::null(),
    };
}

/// Keeps a thread in a pool: from [`Pool::enter`].
#[must_use = "dropping the guard leaves the pool"]
pub struct EnterGuard<'p> {
    guard: u64,
    /// The pool is borrowed, and the guard belongs to its thread.
    pool: PhantomData<(&'p Pool, *const ())>,
}

impl Drop for EnterGuard<'_> {
    fn drop(&mut self) {
        // A thread that ends has left every pool.
        let _ = GUARDS.try_with(|guards| {
            let mut guards = guards.borrow_mut();
            // Guards may be dropped in any order.
            guards.retain(|entry| entry.guard != self.guard);
            NEWEST.set(guards.last().copied().unwrap_or(Entry::NONE));
        });
    }
}

impl fmt::Debug for EnterGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish_non_exhaustive()
    }
}

/// Restores the pool that was entered before.
struct RestoreEntered(*const Pool);

impl Drop for RestoreEntered {
    fn drop(&mut self) {
        ENTERED.set(self.0);
    }
}

impl Pool {
    /// Makes the free functions that this thread calls use this pool, until the guard is dropped:
    /// [`spawn_future`](crate::spawn_future), [`submit`](crate::submit()),
    /// [`join`](crate::join()) and so on. [`install`](Self::install) does so for a closure, and
    /// makes the thread a worker for that time.
    ///
    /// On a worker of a pool the guard has no effect, since a worker uses the pool that it works
    /// for. Of several guards the newest counts.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let entered = pool.enter();
    /// let worker = filch::spawn_future(async { std::thread::current().name().map(str::to_owned) });
    /// assert_eq!(worker.join().unwrap().as_deref(), Some("filch-0"));
    /// assert_eq!(filch::Pool::current().unwrap().workers(), 1);
    /// drop(entered);
    /// assert!(filch::Pool::current().is_none());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        let guard = NEXT_GUARD.get() + 1;
        NEXT_GUARD.set(guard);
        let entry = Entry {
            guard,
            pool: self.inner().number(),
            over: ENTERED.get(),
        };
        // Without effect on a thread that ends: its list of guards is gone.
        if GUARDS
            .try_with(|guards| guards.borrow_mut().push(entry))
            .is_ok()
        {
            NEWEST.set(entry);
        }
        EnterGuard {
            guard,
            pool: PhantomData,
        }
    }

    /// Calls `f`. On a thread that is not a worker, free functions called in it use this pool.
    pub(crate) fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restore = RestoreEntered(ENTERED.replace(self));
        f()
    }

    /// Calls `f` with the pool that this thread has entered, if any.
    #[inline(always)]
    pub(crate) fn with_entered<R>(f: impl FnOnce(Option<&Self>) -> R) -> R {
        let newest = NEWEST.get();
        if newest.pool != NO_POOL
            && let Some(pool) = Self::of_guard(newest)
        {
            return f(Some(&pool));
        }
        // SAFETY: `within` borrows the pool for as long as the pointer is set.
        f(unsafe { ENTERED.get().as_ref() })
    }

    /// Returns the pool of a guard, unless a call that was made since takes precedence, or the pool
    /// is gone.
    #[cold]
    fn of_guard(newest: Entry) -> Option<Self> {
        let within = ENTERED.get();
        if !within.is_null() && within != newest.over {
            return None;
        }
        let owned = Inner::find(newest.pool)?.handle.get()?.upgrade()?;
        Some(Self { owned })
    }

    /// Calls `f` with the pool that a thread which is not a worker uses: the one it has entered,
    /// else the global one.
    #[inline(always)]
    pub(crate) fn with_default<R>(f: impl FnOnce(&Self) -> R) -> R {
        Self::with_entered(|pool| f(pool.unwrap_or_else(|| Self::global())))
    }
}
