//! Futures as tasks: they wait for something outside without a worker.
//!
//! # The protocol
//!
//! Where the future is says a [`FutureState`]. A wake takes it from asleep to queued, and queues a job that polls it; or notes that it was
//! woken while it is polled. So there is one
//! poll at a time, and none is missed. The first poll happens in the task's strand. The task is held from before the first
//! poll until the future is done, or dropped because the run has been stopped; the future itself does not
//! outlive that, only this word does, in the hands of wakers.
#![expect(
    unsafe_code,
    reason = "a future whose borrows outlive the run, in wakers that may live longer"
)]

use super::{
    build::{Graph, Task},
    context::Context,
    future_state::FutureState,
    node::{Kind, Then},
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

/// Aligned as a job needs it.
#[repr(align(8))]
struct Sleeper {
    nap: FutureState,
    /// Gone when it is done.
    work: Mutex<Option<Work>>,
    run: *const Run<'static>,
    index: u32,
    remote: Arc<Remote>,
    key: Mutex<Option<u64>>,
}

// SAFETY: `run` is used by the one who polls, while the task is held; runs may be shared.
unsafe impl Send for Sleeper {}
// SAFETY: as above.
unsafe impl Sync for Sleeper {}

impl<'env> Graph<'env> {
    /// Adds a task that is a future, made anew for each run. It is polled when the task's predecessors are done and
    /// whenever it is woken; in between it holds no worker. Its successors wait until it is done. It needs no runtime,
    /// but brings its own if it uses one.
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
    /// When the run is stopped, by a panic elsewhere or because it is cancelled, a future that waits is dropped.
    pub fn future<F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        mut make: impl FnMut() -> F + Send + 'env,
    ) -> Task<'_, 'env>
    where
        F: Future<Output = ()> + Send + 'env,
    {
        let task = self.add(name.into());
        self.set(task.index(), Kind::Future, move |cx| {
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
    // SAFETY: what it borrows outlives the plan, and so the run; the sleeper drops it before the task, which is held
    // until then, lets the run end.
    let work =
        unsafe { mem::transmute::<Pin<Box<dyn Future<Output = ()> + Send + 'env>>, Work>(work) };
    let sleeper = Arc::new(Sleeper {
        nap: FutureState::polled(),
        work: Mutex::new(Some(work)),
        run: ptr::from_ref(cx.run).cast(),
        index: cx.index(),
        remote: cx.remote().clone(),
        key: Mutex::new(None),
    });
    cx.run.hold(cx.context);
    match sleeper.poll() {
        Ok(Poll::Ready(())) => {
            cx.run.unhold(cx.context);
            sleeper.end();
            return Then::All;
        }
        // From then on others may poll it.
        Ok(Poll::Pending) => cx.later(move |_| sleeper.fall_asleep()),
        Err(payload) => cx.later(move |cx| {
            cx.run.panicked(sleeper.index, payload);
            sleeper.give_up(cx.context, cx.run);
            cx.run.unhold(cx.context);
        }),
    }
    Then::Later
}

/// # Safety
/// `data` came from `Arc::into_raw` of a sleeper that is queued.
unsafe fn run_poll(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller's duty; the job has one share.
    let sleeper = unsafe { Arc::from_raw(data.cast::<Sleeper>()) };
    let pointer = sleeper.run;
    // SAFETY: the task is held, so the run is alive.
    let run = unsafe { &*pointer };
    let over = if run.isolated {
        context.isolate(|| sleeper.go_on(context, run))
    } else {
        sleeper.go_on(context, run)
    };
    if !over {
        // Out of `go_on`, which borrows the run: when the future sleeps, another poll may end it,
        // and the run.
        sleeper.fall_asleep();
    }
    drop(sleeper);
    // SAFETY: as above.
    if over && unsafe { Run::done(pointer, context) } {
        // SAFETY: it was the last one.
        unsafe { start::finish(pointer, context) };
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sleeper {
    /// Polls the future, which is the caller's at present. It is gone when it is ready; one that has panicked is not,
    /// because its destructor may do so once more: `give_up` drops it.
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

    /// Polls it again, or drops it when the run has been stopped. True when the task needs no
    /// holding any more. Otherwise the caller lets it [fall asleep](Self::fall_asleep).
    fn go_on(self: &Arc<Self>, context: &WorkerContext<'_, '_>, run: &Run<'_>) -> bool {
        self.nap.begin();
        if run.stopped() {
            self.give_up(context, run);
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
                self.give_up(context, run);
            }
        }
        true
    }

    /// The future is not ready. Unless it has been woken meanwhile, it sleeps; the task may be done when this returns.
    fn fall_asleep(self: &Arc<Self>) {
        let mut key = lock(&self.key);
        if key.is_none() {
            *key = self.remote.suspend(self.clone());
        }
        // Stopped: nobody else will tell it.
        let stopped = key.is_none();
        drop(key);
        if !self.nap.fall_asleep() {
            self.queue();
        } else if stopped {
            self.rouse();
        }
    }

    /// Drops the future: it will not be done.
    fn give_up(&self, context: &WorkerContext<'_, '_>, run: &Run<'_>) {
        self.end();
        let work = lock(&self.work).take();
        if let Err(payload) = unwind::contain(|| drop(work)) {
            run.panicked(self.index, payload);
        }
        run.abandon(context, self.index);
    }

    /// Nothing more will happen to it.
    fn end(&self) {
        self.nap.end();
        let key = lock(&self.key).take();
        if let Some(key) = key {
            self.remote.forget(key);
        }
    }

    /// Queues a poll.
    fn queue(self: &Arc<Self>) {
        let data = Arc::into_raw(self.clone());
        // SAFETY: `run_poll` takes the share back, and may run anywhere; the task is held until it has.
        let job = unsafe { Job::new(data, run_poll) };
        self.remote.send(job, true);
    }

    /// Wakes it, if it sleeps.
    fn rouse(self: &Arc<Self>) {
        if self.nap.wake() {
            self.queue();
        }
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.rouse();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rouse();
    }
}

/// The run has been stopped: the next poll drops it.
impl Halt for Sleeper {
    fn halt(self: Arc<Self>) {
        self.rouse();
    }
}
