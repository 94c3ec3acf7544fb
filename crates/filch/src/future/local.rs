//! Futures that stay on one thread.
//!
//! A [`LocalSet`] is a future that owns and polls other futures: they are polled on the thread that
//! polls the set, and are dropped with it. So they need not be `Send`, and no unsafe promise about
//! threads is needed. Their wakers may go to any thread: they hold only a key, a state word of the
//! task protocol (`task.md`) and a shared queue.

use super::{
    block_on,
    local_handle::{CancelSlot, LocalHandle, LocalMembers, LocalSlot},
    local_queue::LocalQueue,
};
use crate::{
    base::{
        budget,
        unwind::{self, Payload},
    },
    engine::Priority,
    task::{AfterPoll, DropInUnwind, TaskOutcome, TaskState},
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt,
    future::poll_fn,
    mem::{self, ManuallyDrop},
    pin::{Pin, pin},
    rc::Rc,
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
    /// Where its outcome goes.
    slot: Rc<dyn CancelSlot>,
}

impl LocalFuture {
    /// Drops a future of a set that is done or cancelled. A panic of its destructor is its outcome,
    /// if it has none yet.
    fn end(&self, future: BoxedFuture) {
        let dropped = unwind::contain(|| drop(future));
        self.slot.cancel(dropped.err());
    }

    /// Drops a future that was removed from its set, unless it is being polled: then it is dropped
    /// after that.
    fn cancel(&self) {
        let future = self.future.borrow_mut().take();
        if let Some(future) = future {
            self.end(future);
        }
    }
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
            state: TaskState::new(Priority::Normal),
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
            set: Rc::<Self>::downgrade(self),
            key,
        };
        if self.closed.get() {
            slot.cancel(unwind::contain(|| drop(future)).err());
            return handle;
        }
        let to = slot.clone();
        let future = async move {
            let mut future = pin!(Some(future));
            let outcome = poll_fn(|cx| match poll_contained(future.as_mut(), cx) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(value)) => Poll::Ready(TaskOutcome::Value(value)),
                Err(payload) => Poll::Ready(TaskOutcome::Panic(payload)),
            });
            to.put(outcome.await);
        };
        let member = Rc::new(LocalFuture {
            waker: self.new_waker(key),
            future: RefCell::new(Some(Box::pin(future))),
            slot,
        });
        self.members.borrow_mut().insert(key, member);
        self.queue.push(key);
        handle
    }

    /// Polls one future.
    fn poll(&self, key: u64) {
        let member = self.members.borrow().get(&key).cloned();
        let Some(member) = member else {
            return; // it was cancelled while it was queued
        };
        let future = member.future.borrow_mut().take();
        let mut future = future.expect("the key of a future is not queued while it is polled");
        let _poll = member.waker.state.start();
        let waker = Waker::from(member.waker.clone());
        let mut cx = Context::from_waker(&waker);
        let polled = unwind::contain(|| budget::with_new(|| future.as_mut().poll(&mut cx)));
        if let Ok(Poll::Pending) = polled
            && self.members.borrow().contains_key(&key)
        {
            *member.future.borrow_mut() = Some(future);
            return member.waker.end_poll();
        }
        // It is done, or was cancelled while it was polled.
        if let Err(payload) = polled {
            unwind::discard(payload);
        }
        self.members.borrow_mut().remove(&key);
        member.end(future);
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

impl LocalMembers for LocalSetState {
    fn end(&self, key: u64) {
        let member = self.members.borrow_mut().remove(&key);
        if let Some(member) = member {
            member.cancel();
        }
    }
}

/// Polls a future, and contains its panic. The panic drops the future while it unwinds, so that the
/// destructors see `thread::panicking()`.
fn poll_contained<F: Future>(
    mut future: Pin<&mut Option<F>>,
    cx: &mut Context<'_>,
) -> Result<Poll<F::Output>, Payload> {
    let mut dropped = None;
    let polled = unwind::contain(|| {
        let mut guard = DropInUnwind {
            future: future.as_mut(),
            dropped: &mut dropped,
        };
        let future = guard.future.as_mut().as_pin_mut();
        let polled = future.expect("it is polled until it is done").poll(cx);
        mem::forget(guard);
        polled
    });
    // The panic of the poll is the outcome.
    if let Some(payload) = dropped {
        unwind::discard(payload);
    }
    polled
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
                let mut cx = Context::from_waker(&waker);
                match budget::with_new(|| future.as_mut().poll(&mut cx)) {
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
            member.cancel();
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
