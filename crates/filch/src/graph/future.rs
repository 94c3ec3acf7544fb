//! Futures as tasks: they wait for external events without a worker.
//!
//! # The protocol
//!
//! A [`FutureState`] says whether the future is asleep, queued, polled or done. A wake changes it
//! from asleep to queued, and queues a job that polls the future; during a poll, a wake is recorded
//! in the state. So there is one poll at a time, and no wake is missed. The first poll happens in
//! the task's strand. The task is held from before the first poll until the future is done, or
//! dropped because the run has been stopped. The future itself does not live longer than that;
//! wakers keep only the record with the state.
#![expect(
    unsafe_code,
    reason = "a future whose borrows outlive the run, in wakers that may live longer"
)]

use super::{
    build::{Graph, Task},
    context::Context,
    future_state::FutureState,
    node::{TaskKind, Then},
    remote::{Halt, Remote},
    run::Run,
    start, within,
};
use crate::{
    base::unwind::{self, Payload},
    pool::{context::WorkerContext, job::Job},
};
use std::{
    borrow::Cow,
    mem,
    pin::Pin,
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{self, Poll, Wake, Waker},
};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Aligned as a job requires it.
#[repr(align(8))]
struct FutureTask {
    state: FutureState,
    /// `None` during a poll, and when the future is done or dropped.
    work: Mutex<Option<Work>>,
    run: *const Run<'static>,
    index: u32,
    remote: Arc<Remote>,
    key: Mutex<Option<u64>>,
}

// SAFETY: `run` is used only by the worker that polls, while the task is held; `Run` is `Sync`.
unsafe impl Send for FutureTask {}
// SAFETY: as for `Send`: `run` is used only by the worker that polls; the other fields are `Sync`.
unsafe impl Sync for FutureTask {}

impl<'env> Graph<'env> {
    /// Adds a task that is a future, created anew for each run. It is polled when the task's
    /// predecessors are done and whenever it is woken; in between it occupies no worker. Its
    /// successors wait until it is done. It needs no async runtime; a future that uses one has to
    /// bring it.
    ///
    /// ```
    /// use filch::Graph;
    /// use std::{sync::mpsc, task::Poll};
    ///
    /// let (send, receive) = mpsc::channel();
    /// let graph = Graph::new();
    /// let answer = graph.future("answer", || {
    ///     let send = send.clone();
    ///     let mut asked = false;
    ///     std::future::poll_fn(move |cx| {
    ///         if asked {
    ///             return Poll::Ready(());
    ///         }
    ///         asked = true;
    ///         send.send(cx.waker().clone()).unwrap();
    ///         Poll::Pending
    ///     })
    /// });
    /// answer.precede(graph.task("after", || println!("there it is")));
    /// let mut plan = graph.plan()?;
    /// std::thread::scope(|s| {
    ///     s.spawn(|| receive.into_iter().next().unwrap().wake());
    ///     plan.run()
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// When the run is stopped, by a panic of another task or because it is cancelled, a future
    /// that waits is dropped.
    pub fn future<F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        mut make: impl FnMut() -> F + Send + 'env,
    ) -> Task<'_, 'env>
    where
        F: Future<Output = ()> + Send + 'env,
    {
        let task = self.add(name.into());
        self.set(task.index(), TaskKind::Future, move |cx| {
            begin(cx, Box::pin(make()))
        });
        task
    }
}

/// Polls a future for the first time.
fn begin<'env>(
    cx: &Context<'_, '_, '_>,
    work: Pin<Box<dyn Future<Output = ()> + Send + 'env>>,
) -> Then {
    // SAFETY: what it borrows outlives the plan, and so the run. The record drops it before the
    // task, which is held until then, lets the run end.
    let work =
        unsafe { mem::transmute::<Pin<Box<dyn Future<Output = ()> + Send + 'env>>, Work>(work) };
    let future_task = Arc::new(FutureTask {
        state: FutureState::polled(),
        work: Mutex::new(Some(work)),
        run: ptr::from_ref(cx.run).cast(),
        index: cx.index(),
        remote: cx.remote().clone(),
        key: Mutex::new(None),
    });
    cx.run.hold(cx.context);
    match future_task.poll() {
        Ok(Poll::Ready(())) => {
            cx.run.unhold(cx.context);
            future_task.end();
            return Then::All;
        }
        // From then on other workers may poll it.
        Ok(Poll::Pending) => cx.later(move |_| future_task.fall_asleep()),
        Err(payload) => cx.later(move |cx| {
            cx.run.panicked(future_task.index, payload);
            future_task.give_up(cx.run);
            cx.run.unhold(cx.context);
        }),
    }
    Then::Later
}

/// # Safety
/// `data` came from `Arc::into_raw` of a record whose poll is queued.
unsafe fn run_poll(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller passes the result of `Arc::into_raw`, and the job owns one share.
    let future_task = unsafe { Arc::from_raw(data.cast::<FutureTask>()) };
    let pointer = future_task.run;
    // SAFETY: the task is held, so the run is alive.
    let run = unsafe { &*pointer };
    let over = if run.isolated {
        context.isolate(|| future_task.poll_again(context, run))
    } else {
        future_task.poll_again(context, run)
    };
    if !over {
        // Not inside of `poll_again`, which borrows the run: when the future sleeps, another poll
        // may end it, and the run.
        future_task.fall_asleep();
    }
    drop(future_task);
    // SAFETY: the task is held, and so counted as pending, until this call.
    if over && unsafe { Run::done(pointer, context) } {
        // SAFETY: `done` returned true: this was the last pending job.
        unsafe { start::finish(pointer, context) };
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FutureTask {
    /// Polls the future, which no other thread uses meanwhile. A future that is ready is dropped.
    /// One that has panicked is not, because its destructor may panic as well: `give_up` drops it.
    fn poll(self: &Arc<Self>) -> Result<Poll<()>, Payload> {
        let waker = Waker::from(self.clone());
        let mut work = lock(&self.work).take().expect("polled by one at a time");
        let mut cx = task::Context::from_waker(&waker);
        let poll = || unwind::contain(|| work.as_mut().poll(&mut cx));
        let result = within::enter(self.remote.line(), poll);
        if let Ok(Poll::Ready(())) = result {
            return unwind::contain(|| drop(work)).map(Poll::Ready);
        }
        *lock(&self.work) = Some(work);
        result
    }

    /// Polls the future again, or drops it when the run has been stopped. Returns true if the task
    /// need not be held any more. Otherwise the caller calls [`fall_asleep`](Self::fall_asleep).
    fn poll_again(self: &Arc<Self>, context: &WorkerContext<'_, '_>, run: &Run<'_>) -> bool {
        self.state.begin();
        if run.stopped() {
            self.give_up(run);
            return true;
        }
        match self.poll() {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(())) => {
                self.end();
                run.complete(context, self.index);
            }
            Err(payload) => {
                run.panicked(self.index, payload);
                self.give_up(run);
            }
        }
        true
    }

    /// Puts a future that is not ready to sleep, unless it has been woken meanwhile. The task may
    /// be done when this returns.
    fn fall_asleep(self: &Arc<Self>) {
        let mut key = lock(&self.key);
        if key.is_none() {
            *key = self.remote.suspend(self.clone());
        }
        // The run is stopped: no other thread will wake it for that.
        let stopped = key.is_none();
        drop(key);
        if !self.state.fall_asleep() {
            self.queue();
        } else if stopped {
            self.wake_if_asleep();
        }
    }

    /// Drops the future without completing it.
    fn give_up(&self, run: &Run<'_>) {
        self.end();
        let work = lock(&self.work).take();
        if let Err(payload) = unwind::contain(|| drop(work)) {
            run.panicked(self.index, payload);
        }
        run.abandon(self.index);
    }

    /// Ends the future: wakes have no effect any more.
    fn end(&self) {
        self.state.end();
        let key = lock(&self.key).take();
        if let Some(key) = key {
            self.remote.forget(key);
        }
    }

    /// Queues a poll.
    fn queue(self: &Arc<Self>) {
        let data = Arc::into_raw(self.clone());
        // SAFETY: `run_poll` takes the share back, and may run on any worker; the task is held
        // until it has.
        let job = unsafe { Job::new(data, run_poll) };
        self.remote.send(job, true);
    }

    /// Queues a poll if the future is asleep.
    fn wake_if_asleep(self: &Arc<Self>) {
        if self.state.wake() {
            self.queue();
        }
    }
}

impl Wake for FutureTask {
    fn wake(self: Arc<Self>) {
        self.wake_if_asleep();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_if_asleep();
    }
}

/// Called when the run has been stopped: the next poll drops the future.
impl Halt for FutureTask {
    fn halt(self: Arc<Self>) {
        self.wake_if_asleep();
    }
}
