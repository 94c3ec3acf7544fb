//! Futures that borrow.
//!
//! A scope is a blocking call that does not return before every future that was spawned in it is
//! done or dropped. It is sound because a call cannot be forgotten, as a future or a guard could
//! be. The outcome of each future is stored in a slot that its handle shares, not in its cell: the
//! cell may outlive the scope, held by wakers, and must hold nothing that borrows.
#![expect(unsafe_code, reason = "makes cells of futures that borrow")]

use super::{
    CancelHandle, FutureError, FutureHandle,
    block_on::{Unregistered, block_on_for},
    spawn::launch,
};
use crate::{
    base::{
        sync::{Mutex, MutexGuard},
        unwind,
    },
    engine::Priority,
    pool::{Inner, Pool, context::WorkerContext},
};
use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
};

/// The futures of a scope.
#[derive(Default)]
struct Members {
    /// How many futures have not been dropped.
    pending: usize,
    next: u64,
    /// The cancel handles of futures that may not have ended.
    cancels: BTreeMap<u64, CancelHandle>,
    /// The scope was left by a panic: futures that are added from now on are cancelled.
    closed: bool,
    waker: Option<Waker>,
}

type SharedMembers = Arc<Mutex<Members>>;

fn lock(members: &Mutex<Members>) -> MutexGuard<'_, Members> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One future of the scope. Dropped after that future and its share of the slot.
struct Membership {
    members: SharedMembers,
    key: u64,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let (cancel, waker) = {
            let mut members = lock(&self.members);
            members.pending -= 1;
            let last = members.pending == 0;
            (
                members.cancels.remove(&self.key),
                last.then(|| members.waker.take()).flatten(),
            )
        };
        drop(cancel);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The value of a future that borrows.
type ScopedSlot<T> = Arc<Mutex<Option<T>>>;

/// Takes the value of a future that is done.
fn take_value<T>(slot: &ScopedSlot<T>) -> T {
    let value = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    value.expect("it is done, and taken once")
}

/// A future that borrows. The order of the fields ensures that everything that borrows is dropped
/// before the scope can end.
struct Scoped<F: Future> {
    future: F,
    slot: ScopedSlot<F::Output>,
    _membership: Membership,
}

impl<F: Future> Future for Scoped<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` is pinned with the rest, and nothing moves it; the other fields are not
        // pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `future` is structurally pinned: `self` is pinned, and the field is never moved.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        future.poll(cx).map(|value| {
            *this.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        })
    }
}

/// A scope for futures that borrow: see [`scope`].
///
/// ```
/// let words = ["one", "two"];
/// let letters = filch::future::scope(|s| {
///     let handles = words.map(|word| s.spawn(async { word.len() }));
///     handles.map(|handle| handle.join().unwrap())
/// });
/// assert_eq!(letters, [3, 3]);
/// ```
pub struct FutureScope<'scope, 'env: 'scope> {
    pool: Arc<Inner>,
    members: SharedMembers,
    /// Both lifetimes are invariant, as in `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> FutureScope<'scope, '_> {
    /// Spawns a future that may borrow what lives longer than the scope.
    ///
    /// ```
    /// let mut numbers = [1, 2, 3];
    /// filch::future::scope(|s| {
    ///     for n in &mut numbers {
    ///         s.spawn(async move { *n *= 2 });
    ///     }
    /// });
    /// assert_eq!(numbers, [2, 4, 6]);
    /// ```
    pub fn spawn<F>(&'scope self, future: F) -> ScopedHandle<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        let slot = ScopedSlot::default();
        let key = {
            let mut members = lock(&self.members);
            members.pending += 1;
            members.next += 1;
            members.next
        };
        let scoped = Scoped {
            future,
            slot: slot.clone(),
            _membership: Membership {
                members: self.members.clone(),
                key,
            },
        };
        // SAFETY: the future and its output are `Send`. The scope does not end before `scoped` is
        // dropped, which drops its membership last; the outcome in the cell borrows nothing.
        let handle = unsafe { launch(&self.pool, Priority::Normal, scoped) };
        self.store_cancel_handle(key, handle.cancel_handle());
        ScopedHandle {
            handle,
            slot,
            scope: PhantomData,
        }
    }
}

impl FutureScope<'_, '_> {
    /// Stores the cancel handle of a future that has not ended.
    fn store_cancel_handle(&self, key: u64, cancel: CancelHandle) {
        // A future that has ended found no entry to remove, so none is added. If it ends between
        // this check and the insertion, the entry stays until the scope ends.
        if cancel.is_finished() {
            return;
        }
        let mut members = lock(&self.members);
        if members.closed {
            drop(members);
            cancel.cancel();
        } else {
            members.cancels.insert(key, cancel);
        }
    }
}

/// Calls `f`, which may spawn futures that borrow; returns when all of them are done or dropped. A
/// caller that is a worker runs other tasks meanwhile. The futures run on the
/// [current pool](crate::Pool#the-current-pool).
///
/// If `f` panics, they are cancelled, and then the panic is resumed.
///
/// ```
/// let mut numbers = vec![1, 2, 3];
/// let sum = filch::future::scope(|s| {
///     let halves = numbers.split_at_mut(1);
///     s.spawn(async { halves.0[0] = 10 });
///     let right = s.spawn(async { halves.1.iter().sum::<i32>() });
///     filch::block_on(right).unwrap()
/// });
/// assert_eq!((sum, numbers), (5, vec![10, 2, 3]));
/// ```
pub fn scope<'env, R>(f: impl for<'scope> FnOnce(&'scope FutureScope<'scope, 'env>) -> R) -> R {
    let pool = WorkerContext::with(|context| match context {
        Some(context) => context.pool().share(),
        None => Pool::with_default(|pool| pool.inner().clone()),
    });
    run_future_scope(pool, f)
}

impl Pool {
    /// [`future::scope`](scope) on this pool.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let text = String::from("borrowed");
    /// let length = pool.future_scope(|s| s.spawn(async { text.len() }).join().unwrap());
    /// assert_eq!(length, 8);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn future_scope<'env, R>(
        &self,
        f: impl for<'scope> FnOnce(&'scope FutureScope<'scope, 'env>) -> R,
    ) -> R {
        run_future_scope(self.inner().clone(), f)
    }
}

/// Runs `f` with a new scope, and waits until all its futures are dropped.
fn run_future_scope<'env, R>(
    pool: Arc<Inner>,
    f: impl for<'scope> FnOnce(&'scope FutureScope<'scope, 'env>) -> R,
) -> R {
    let number = pool.number();
    let scope = FutureScope {
        pool,
        members: SharedMembers::default(),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = unwind::contain(|| f(&scope));
    let members = &scope.members;
    if result.is_err() {
        let cancels = {
            let mut members = lock(members);
            members.closed = true;
            std::mem::take(&mut members.cancels)
        };
        cancels.into_values().for_each(|cancel| cancel.cancel());
    }
    // This frame must not be left, not even by a panic, before all futures are dropped.
    unwind::or_abort(|| {
        block_on_for(
            number,
            poll_fn(|cx| {
                let mut members = lock(members);
                if members.pending == 0 {
                    return Poll::Ready(());
                }
                members.waker = Some(cx.waker().clone());
                Poll::Pending
            }),
            &Unregistered,
        );
    });
    match result {
        Ok(value) => value,
        Err(payload) => unwind::resume(payload),
    }
}

/// The handle of a future of a [scope]: await it, or join it. Dropping it discards the result; the
/// scope still waits for the future.
///
/// ```
/// filch::future::scope(|s| {
///     let stuck = s.spawn(std::future::pending::<()>());
///     assert!(!stuck.is_finished());
///     stuck.cancel(); // else the scope would not end
///     assert!(stuck.join().unwrap_err().is_cancelled());
/// });
/// ```
pub struct ScopedHandle<'scope, T> {
    handle: FutureHandle<()>,
    slot: ScopedSlot<T>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedHandle<'_, T> {
    /// [`FutureHandle::join`].
    ///
    /// ```
    /// let text = String::from("borrowed");
    /// let length = filch::future::scope(|s| s.spawn(async { text.len() }).join().unwrap());
    /// assert_eq!(length, 8);
    /// ```
    ///
    /// # Errors
    /// When the future panicked or was cancelled, or its pool was shut down.
    pub fn join(self) -> Result<T, FutureError> {
        self.handle.join()?;
        Ok(take_value(&self.slot))
    }

    /// [`FutureHandle::cancel`].
    ///
    /// ```
    /// filch::future::scope(|s| {
    ///     let endless = s.spawn(std::future::pending::<()>());
    ///     endless.cancel(); // else the scope would not end
    /// });
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// [`FutureHandle::is_finished`].
    ///
    /// ```
    /// filch::future::scope(|s| {
    ///     let endless = s.spawn(std::future::pending::<()>());
    ///     assert!(!endless.is_finished());
    ///     endless.cancel();
    /// });
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<T> Future for ScopedHandle<'_, T> {
    type Output = Result<T, FutureError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.handle).poll(cx);
        polled.map(|done| done.map(|()| take_value(&self.slot)))
    }
}

impl<T> fmt::Debug for ScopedHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScopedHandle").field(&self.handle).finish()
    }
}

impl fmt::Debug for FutureScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureScope")
            .field("pending", &lock(&self.members).pending)
            .finish()
    }
}
