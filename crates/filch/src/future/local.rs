//! Futures that stay on one thread.
//!
//! A [`LocalSet`] is a future that owns and polls other futures: they are polled on the thread that
//! polls the set, and are dropped with it. So they need not be `Send`, and no unsafe promise about
//! threads is needed. Their wakers may go to any thread: they hold only a key, a state word of the
//! task protocol (`task.md`) and a shared queue.

use super::{FutureError, block_on, local_queue::LocalQueue};
use crate::{
    base::unwind,
    engine::Level,
    task::{AfterPoll, Cause, TaskOutcome, TaskState, wake},
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt,
    future::poll_fn,
    mem::ManuallyDrop,
    pin::{Pin, pin},
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

/// The most futures that a set polls before it yields to other tasks.
const MAX_POLLS_IN_A_ROW: usize = 61;

type BoxedFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The waker of one future of a set.
struct LocalWaker {
    key: u64,
    /// Whether the future is polled, and whether its key is in the queue: the word of the task
    /// protocol, of which only the transitions of futures are used.
    state: TaskState,
    queue: Arc<LocalQueue>,
}

impl LocalWaker {
    /// Ends a poll of the future, which is pending.
    fn end_poll(&self) {
        match self.state.end_poll() {
            AfterPoll::Idle => {}
            AfterPoll::Requeue | AfterPoll::Drop => self.queue.push(self.key),
        }
    }
}

impl Wake for LocalWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.wake() {
            self.queue.push(self.key);
        }
    }
}

/// One future of a set.
struct LocalFuture {
    waker: Arc<LocalWaker>,
    /// `None` while it is polled.
    future: RefCell<Option<BoxedFuture>>,
}

/// The state of a set.
struct LocalSetState {
    /// The futures that are not done.
    members: RefCell<HashMap<u64, Rc<LocalFuture>>>,
    next_key: Cell<u64>,
    closed: Cell<bool>,
    queue: Arc<LocalQueue>,
}

thread_local! {
    /// The set that this thread polls. Without a destructor, so that a set can be polled in the
    /// destructors of other thread-locals; it is `None` while no set is polled.
    static CURRENT: ManuallyDrop<RefCell<Option<Rc<LocalSetState>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Restores the set that was current before.
struct RestoreCurrent(Option<Rc<LocalSetState>>);

impl Drop for RestoreCurrent {
    fn drop(&mut self) {
        let before = self.0.take();
        // Dropped when the cell is not borrowed any more.
        let _this = CURRENT.with(|current| current.replace(before));
    }
}

impl LocalSetState {
    fn new_key(&self) -> u64 {
        self.next_key.replace(self.next_key.get() + 1)
    }

    fn new_waker(&self, key: u64) -> Arc<LocalWaker> {
        Arc::new(LocalWaker {
            key,
            // Its key is about to be queued.
            state: TaskState::new(Level::Normal),
            queue: self.queue.clone(),
        })
    }

    /// Makes this set the current one of the thread until the result is dropped.
    fn as_current(self: &Rc<Self>) -> RestoreCurrent {
        let this = Some(self.clone());
        RestoreCurrent(CURRENT.with(|current| current.replace(this)))
    }

    fn spawn<F: Future + 'static>(self: &Rc<Self>, future: F) -> LocalHandle<F::Output> {
        let slot = Rc::new(LocalSlot::default());
        let key = self.new_key();
        let handle = LocalHandle {
            slot: slot.clone(),
            set: Rc::downgrade(self),
            key,
        };
        let guard = CancelOnDrop(slot);
        if self.closed.get() {
            unwind::discard(future);
            return handle;
        }
        let future = async move {
            let guard = guard;
            let mut future = pin!(future);
            let outcome = poll_fn(|cx| match unwind::contain(|| future.as_mut().poll(cx)) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(value)) => Poll::Ready(TaskOutcome::Value(value)),
                Err(payload) => Poll::Ready(TaskOutcome::Panic(payload)),
            });
            guard.0.put(outcome.await);
        };
        let member = Rc::new(LocalFuture {
            waker: self.new_waker(key),
            future: RefCell::new(Some(Box::pin(future))),
        });
        self.members.borrow_mut().insert(key, member);
        self.queue.push(key);
        handle
    }

    /// Polls one future.
    fn poll(&self, key: u64) {
        let member = self.members.borrow().get(&key).cloned();
        let Some(member) = member else {
            return; // it was woken once more after its end
        };
        let future = member.future.borrow_mut().take();
        let mut future = future.expect("the key of a future is not queued while it is polled");
        let _poll = member.waker.state.start();
        let waker = Waker::from(member.waker.clone());
        let polled = unwind::contain(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        if let Ok(Poll::Pending) = polled
            && self.members.borrow().contains_key(&key)
        {
            *member.future.borrow_mut() = Some(future);
            return member.waker.end_poll();
        }
        // It is done, or was aborted while it was polled. A panic of its destructor is discarded.
        if let Err(payload) = polled {
            unwind::discard(payload);
        }
        self.end(key);
        unwind::discard(future);
    }

    /// Drops one future.
    fn end(&self, key: u64) {
        let member = self.members.borrow_mut().remove(&key);
        unwind::discard(member);
    }

    /// Polls the futures that were woken. The one of runner `me` is polled by calling `own`.
    fn poll_woken(&self, me: u64, cx: &mut Context<'_>, mut own: impl FnMut() -> bool) -> Poll<()> {
        for _ in 0..MAX_POLLS_IN_A_ROW {
            match self.queue.next(me, cx.waker()) {
                None => return Poll::Pending,
                Some(key) if key != me => self.poll(key),
                Some(_) if own() => return Poll::Ready(()),
                Some(_) => {}
            }
        }
        // There may be more to poll; other tasks run first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A set of futures that stay on one thread, and so need not be `Send`.
///
/// They are polled when the future that [`run_until`](Self::run_until) returns is polled, most
/// often by [`block_on`](Self::block_on); otherwise they wait. Dropping the set drops them, the
/// oldest first.
///
/// ```
/// use filch::future::{LocalSet, spawn_local};
/// use std::{cell::Cell, rc::Rc};
///
/// let (set, sum) = (LocalSet::new(), Rc::new(Cell::new(0)));
/// set.block_on(async {
///     let handles: Vec<_> = (1..=3)
///         .map(|n| {
///             let sum = sum.clone();
///             spawn_local(async move { sum.set(sum.get() + n) })
///         })
///         .collect();
///     for handle in handles {
///         handle.await.unwrap();
///     }
/// });
/// assert_eq!(sum.get(), 6);
/// ```
///
/// A set cannot leave its thread, so its futures are polled and dropped where they were made:
///
/// ```compile_fail
/// let set = filch::future::LocalSet::new();
/// std::thread::spawn(move || drop(set)); // `Rc<..>` cannot be sent between threads
/// ```
pub struct LocalSet {
    state: Rc<LocalSetState>,
}

impl LocalSet {
    /// Creates an empty set.
    ///
    /// ```
    /// assert!(filch::future::LocalSet::new().is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Rc::new(LocalSetState {
                members: RefCell::default(),
                next_key: Cell::new(0),
                closed: Cell::new(false),
                queue: Arc::default(),
            }),
        }
    }

    /// Adds a future. It is polled when the set is.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// let handle = set.spawn_local(async { "there" });
    /// assert_eq!(set.block_on(handle).unwrap(), "there");
    /// ```
    pub fn spawn_local<F: Future + 'static>(&self, future: F) -> LocalHandle<F::Output> {
        self.state.spawn(future)
    }

    /// Polls `future`, and those of the set, until `future` is done. The others remain in the set
    /// for the next call.
    ///
    /// Several of these may be active for one set, concurrently or nested; each polls its own
    /// future, and all of them poll those of the set.
    ///
    /// ```
    /// use filch::future::{LocalSet, spawn_local};
    ///
    /// let set = LocalSet::new();
    /// let answer = filch::block_on(set.run_until(async { spawn_local(async { 42 }).await.unwrap() }));
    /// assert_eq!(answer, 42);
    /// ```
    pub async fn run_until<F: Future>(&self, future: F) -> F::Output {
        let state = &self.state;
        let me = state.new_key();
        let local_waker = state.new_waker(me);
        let waker = Waker::from(local_waker.clone());
        let _guard = state.queue.add_runner(me);
        let (mut future, mut value) = (pin!(future), None);
        poll_fn(|cx| {
            let _current = state.as_current();
            state.poll_woken(me, cx, || {
                let _poll = local_waker.state.start();
                match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(ready) => value = Some(ready),
                    Poll::Pending => local_waker.end_poll(),
                }
                value.is_some()
            })
        })
        .await;
        value.expect("it is ready")
    }

    /// [`block_on`](crate::block_on()) of [`run_until`](Self::run_until).
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// let local = std::rc::Rc::new(3);
    /// assert_eq!(set.block_on(async { *local + 4 }), 7);
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(self.run_until(future))
    }

    /// Returns the number of futures that are not done.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// set.spawn_local(async {}).detach();
    /// assert_eq!(set.len(), 1); // it has not been polled yet
    /// set.block_on(filch::future::yield_now());
    /// assert!(set.is_empty());
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.members.borrow().len()
    }

    /// Whether all of its futures are done.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// let handle = set.spawn_local(async { 1 });
    /// assert!(!set.is_empty());
    /// assert_eq!(set.block_on(handle).unwrap(), 1);
    /// assert!(set.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for LocalSet {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        let state = &self.state;
        state.closed.set(true);
        let _current = state.as_current();
        let mut members: Vec<_> = state.members.borrow_mut().drain().collect();
        // The oldest first, so that the order is deterministic.
        members.sort_unstable_by_key(|(key, _)| *key);
        for (_, member) in members {
            unwind::discard(member);
        }
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSet")
            .field("len", &self.len())
            .finish()
    }
}

/// Adds a future to the [`LocalSet`] that this thread polls at present.
///
/// ```
/// use filch::future::{LocalSet, spawn_local};
/// use std::rc::Rc;
///
/// let shared = Rc::new(5);
/// let seen = LocalSet::new().block_on(async move { spawn_local(async move { *shared }).await });
/// assert_eq!(seen.unwrap(), 5);
/// ```
///
/// # Panics
/// When this thread polls none: in a task or a future of a pool, or in a plain
/// [`block_on`](crate::block_on()).
#[track_caller]
pub fn spawn_local<F: Future + 'static>(future: F) -> LocalHandle<F::Output> {
    match CURRENT.with(|current| current.borrow().clone()) {
        Some(state) => state.spawn(future),
        None => panic!(
            "`spawn_local` outside a `LocalSet`: call it inside `LocalSet::run_until` or \
             `LocalSet::block_on`, or call the method `spawn_local` of a set"
        ),
    }
}

/// The outcome of a future, and the waker of its handle.
struct LocalSlot<T> {
    outcome: Cell<Option<TaskOutcome<T>>>,
    done: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl<T> Default for LocalSlot<T> {
    fn default() -> Self {
        Self {
            outcome: Cell::new(None),
            done: Cell::new(false),
            waker: Cell::new(None),
        }
    }
}

impl<T> LocalSlot<T> {
    /// Stores the outcome, unless there is one already.
    fn put(&self, outcome: TaskOutcome<T>) {
        if self.done.replace(true) {
            return;
        }
        self.outcome.set(Some(outcome));
        if let Some(waker) = self.waker.take() {
            wake(waker);
        }
    }
}

/// Stores `Cancelled` when the future is dropped before it is done.
struct CancelOnDrop<T>(Rc<LocalSlot<T>>);

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        self.0.put(TaskOutcome::Cancelled(Cause::Requested));
    }
}

/// A handle of a future of a [`LocalSet`], awaited in that set. Dropping it detaches the future.
///
/// ```
/// use filch::future::{LocalSet, spawn_local};
///
/// LocalSet::new().block_on(async {
///     let never = spawn_local(std::future::pending::<()>());
///     never.abort();
///     assert!(never.await.unwrap_err().is_cancelled());
/// });
/// ```
#[must_use = "dropping the handle detaches the future"]
pub struct LocalHandle<T> {
    slot: Rc<LocalSlot<T>>,
    set: Weak<LocalSetState>,
    key: u64,
}

impl<T> LocalHandle<T> {
    /// Drops the future, at once if it is not being polled. Without effect if it is done.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// let never = set.spawn_local(std::future::pending::<()>());
    /// never.abort();
    /// assert!(never.is_finished() && set.is_empty());
    /// ```
    pub fn abort(&self) {
        if let Some(set) = self.set.upgrade() {
            set.end(self.key);
        }
    }

    /// Whether the future is done, has panicked, or was cancelled.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// let handle = set.spawn_local(async { 1 });
    /// assert!(!handle.is_finished()); // it has not been polled yet
    /// set.block_on(filch::future::yield_now());
    /// assert!(handle.is_finished());
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.slot.done.get()
    }

    /// Detaches the future, as dropping the handle does: it continues, and its outcome is dropped.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// set.spawn_local(async { println!("when the set is polled") }).detach();
    /// ```
    pub fn detach(self) {}
}

impl<T> Future for LocalHandle<T> {
    type Output = Result<T, FutureError>;

    /// # Panics
    /// When it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.slot.done.get() {
            let outcome = self.slot.outcome.take();
            let outcome =
                outcome.expect("a handle was polled after it had given its result; await it once");
            return Poll::Ready(FutureError::from_outcome(outcome));
        }
        let before = self.slot.waker.take();
        let same = before.filter(|before| before.will_wake(cx.waker()));
        let waker = same.unwrap_or_else(|| cx.waker().clone());
        self.slot.waker.set(Some(waker));
        Poll::Pending
    }
}

impl<T> fmt::Debug for LocalHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalHandle")
            .field("finished", &self.is_finished())
            .finish()
    }
}
