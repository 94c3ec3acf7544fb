//! Futures as tasks: they wait for external events without a worker.
//!
//! They are futures of the task protocol (`task.md`), without handles. The first poll happens in
//! the task's strand. A wake queues a job of the run, which polls the future again: with urgent
//! work, unless another poll has called the waker. The task is suspended from before the first poll
//! until the future is done, or dropped because the run has been stopped. The future itself does
//! not live longer than that; its wakers keep only the cell.
#![expect(
    unsafe_code,
    reason = "a future whose borrows outlive the run, in a cell that may live longer"
)]

use super::{
    build::{Graph, Task},
    context::{AfterReturn, TaskContext},
    control::{OnStop, RunControl, SendOrder},
    heap_run,
    node::{Release, TaskKind},
    run::GraphRun,
};
use crate::{
    base::unwind::Payload,
    pool::{active_jobs, context::WorkerContext, job::Job},
    task::{
        self, AfterPoll, Cause, CellKind, Header, PollBody, Polled, Schedule, TaskRef, TaskState,
        TaskStatus, borrow_waker, waker_functions,
    },
    threads::timer::Timer,
};
use std::{
    borrow::Cow,
    cell::Cell,
    ptr::{self, NonNull},
    sync::Arc,
    task::{RawWakerVTable, Waker},
};

/// What a future of a graph has in its header.
struct GraphFuture {
    run: *const GraphRun<'static>,
    index: u32,
    control: Arc<RunControl>,
    /// The registration that resumes it when the run is stopped. Only the thread that has started
    /// the future uses it.
    key: Cell<Option<u64>>,
}

thread_local! {
    /// The future of a graph that this thread polls.
    static POLLED: Cell<PolledFuture> = const {
        Cell::new(PolledFuture { cell: ptr::null(), woke_itself: false })
    };
}

/// A future that is being polled.
#[derive(Clone, Copy)]
struct PolledFuture {
    /// Its cell, only for comparison; null if there is none.
    cell: *const (),
    woke_itself: bool,
}

// SAFETY: `run` and `key` are used only by the thread that has started the future, while the task
// is suspended; `GraphRun` is `Sync`.
unsafe impl Send for GraphFuture {}
// SAFETY: as for `Send`: one thread at a time uses `run` and `key`; the other fields are `Sync`.
unsafe impl Sync for GraphFuture {}

impl CellKind for GraphFuture {
    type Run = PollBody<Self>;
    const WHOLE_LINES: bool = true;
}

impl<'env> Graph<'env> {
    /// Adds a task that is a future, created anew for each run. It is polled when the task's
    /// predecessors are done and whenever it is woken; in between it occupies no worker. Its
    /// successors wait until it is done. It needs no async runtime; a future that uses one has to
    /// bring it.
    ///
    /// ```
    /// use filch::Graph;
    /// use std::time::Duration;
    ///
    /// let graph = Graph::new();
    /// let answer = graph.future("answer", || async {
    ///     filch::time::sleep(Duration::from_millis(1)).await; // or a socket, or a channel
    /// });
    /// answer.precede(graph.task("after", || println!("there it is")));
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// When the run is stopped, by a panic of another task or because it is cancelled, a future
    /// that waits is dropped.
    pub fn future<F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        make: impl FnMut() -> F + Send + 'env,
    ) -> Task<'_, 'env>
    where
        F: Future<Output = ()> + Send + 'env,
    {
        let task = self.add(name.into());
        self.set_future(task, make);
        task
    }

    /// Makes a task a [`future`](Self::future).
    pub(super) fn set_future<F>(
        &self,
        task: Task<'_, 'env>,
        mut make: impl FnMut() -> F + Send + 'env,
    ) where
        F: Future<Output = ()> + Send + 'env,
    {
        // SAFETY: what the future borrows outlives the plan, and so the run. The future is dropped
        // before its task, which is suspended until then, lets the run end.
        self.set(task.index(), TaskKind::Future, move |cx| unsafe {
            begin(cx, make())
        });
    }
}

/// Polls a future for the first time.
///
/// # Safety
/// What the future borrows lives until the run ends.
unsafe fn begin(cx: &TaskContext<'_, '_, '_>, future: impl Future<Output = ()> + Send) -> Release {
    let kind = GraphFuture {
        run: ptr::from_ref(cx.run).cast(),
        index: cx.index(),
        control: cx.control().clone(),
        key: Cell::new(None),
    };
    // SAFETY: the future is `Send`, and the caller guarantees that its borrows outlive the run. The
    // task is suspended until the future has been dropped, so the run does not end before.
    let cell = unsafe { task::make_future(TaskState::new_running(), kind, future) };
    // SAFETY: the word counts one reference, that of the future itself, and it is running.
    let started = Started(unsafe { TaskRef::from_counted(cell) });
    cx.run.add_pending(cx.context);
    match started.poll() {
        // From then on other workers may poll it.
        (Polled::Pending, woke_itself) => {
            let suspend = move |_: &TaskContext<'_, '_, '_>| started.suspend(woke_itself);
            cx.after_return(AfterReturn::Call(Box::new(suspend)));
        }
        (Polled::Done(status, dropped), _) => {
            let (index, panics) = started.end(status, dropped);
            if let [None, None] = panics {
                cx.run.remove_pending(cx.context);
                return Release::All;
            }
            let end = move |cx: &TaskContext<'_, '_, '_>| {
                give_up(cx.run, index, panics);
                cx.run.remove_pending(cx.context);
            };
            cx.after_return(AfterReturn::Call(Box::new(end)));
        }
    }
    Release::Deferred
}

/// Polls a future that was woken.
///
/// # Safety
/// `data` is the cell of a future that is scheduled, and the caller owns its job.
unsafe fn run_poll(data: *const (), context: &WorkerContext<'_, '_>) {
    let cell = NonNull::new(data.cast_mut().cast()).expect("cells are not at zero");
    // SAFETY: the reference of the future itself belongs to the thread that owns its job.
    let task = unsafe { TaskRef::<GraphFuture>::from_counted(cell) };
    let pointer = task.kind.run;
    // SAFETY: the task is suspended, so the run is alive.
    let run = unsafe { &*pointer };
    let pending = context.isolate_if(run.isolated, || poll_again(task, context, run));
    if let Some((started, woke_itself)) = pending {
        // Not inside `poll_again`, which borrows the run: once the future is suspended, another
        // poll may end it, and the run.
        return started.suspend(woke_itself);
    }
    // SAFETY: the task is suspended, and so counted as pending, until this call.
    if unsafe { GraphRun::done(pointer, context) } {
        // SAFETY: `done` returned true: this was the last pending job.
        unsafe { heap_run::finish(pointer, context) };
    }
}

/// Starts the future: polls it, or drops it when the run has been stopped. Returns `None` if the
/// task is not suspended any more, else whether the future has woken itself.
fn poll_again(
    task: TaskRef<GraphFuture>,
    context: &WorkerContext<'_, '_>,
    run: &GraphRun<'_>,
) -> Option<(Started, bool)> {
    // It is never closed: the run says whether it must end.
    let _poll = task.state.start();
    let started = Started(task);
    if run.stopped() {
        let (index, panics) = started.cancel();
        give_up(run, index, panics);
        return None;
    }
    match started.poll() {
        (Polled::Pending, woke_itself) => return Some((started, woke_itself)),
        (Polled::Done(status, dropped), _) => match started.end(status, dropped) {
            (index, [None, None]) => run.complete(context, index),
            (index, panics) => give_up(run, index, panics),
        },
    }
    None
}

/// Ends the task without releasing its successors: it has panicked, or the run is stopped.
fn give_up(run: &GraphRun<'_>, index: u32, panics: Panics) {
    for payload in panics.into_iter().flatten() {
        run.panicked(index, payload);
    }
    run.give_up(index);
}

/// The panic of the future, and that of its destructor.
type Panics = [Option<Payload>; 2];

/// A future that this thread has started, with the reference of the future itself.
struct Started(TaskRef<GraphFuture>);

impl Started {
    /// Polls the future. Returns the result, and whether the future has woken itself.
    fn poll(&self) -> (Polled, bool) {
        let cell = self.0.pointer();
        let before = POLLED.replace(PolledFuture {
            cell: cell.as_ptr().cast(),
            woke_itself: false,
        });
        // SAFETY: the future is not done before `end` finishes it.
        let waker = unsafe { borrow_waker(cell) };
        let mut cx = std::task::Context::from_waker(&waker);
        let polled = active_jobs::enter(
            || self.0.kind.control.group(),
            true,
            || {
                // SAFETY: this thread has started the future, and it is in the cell.
                unsafe { (self.0.vtable.run)(cell, &mut cx) }
            },
        );
        (polled, POLLED.replace(before).woke_itself)
    }

    /// Drops the future; returns what [`end`](Self::end) does.
    fn cancel(self) -> (u32, Panics) {
        // SAFETY: this thread has started the future, and it is in the cell.
        let dropped = unsafe { (self.0.vtable.drop_body)(self.0.pointer()) };
        self.end(TaskStatus::Cancelled(Cause::Requested), dropped)
    }

    /// Ends a future that has been dropped: wakes have no effect any more. Returns the number of
    /// its task, and the panics.
    fn end(self, status: TaskStatus, dropped: Option<Payload>) -> (u32, Panics) {
        let kind = &self.0.kind;
        let index = kind.index;
        if let Some(key) = kind.key.take() {
            kind.control.unregister_on_stop(key);
        }
        // SAFETY: this thread has started the future, which has been dropped; the outcome is in the
        // slot. It has no followers: only submitted tasks have.
        let panic = unsafe { self.0.finish(status, |_| ()) };
        (index, [panic, dropped])
    }

    /// Lets a future that is pending wait, unless it has been woken meanwhile: by itself, or by
    /// something else. The task may be done when this returns.
    fn suspend(self, woke_itself: bool) {
        let kind = &self.0.kind;
        if kind.key.get().is_none() {
            // SAFETY: the future is not done before its poll ends.
            let waker = unsafe { borrow_waker(self.0.pointer()) };
            let resume = Resume(Waker::clone(&waker));
            kind.key
                .set(kind.control.register_on_stop(Arc::new(resume)));
        }
        if kind.key.get().is_none() {
            // The run is stopped: no other thread will wake it for that.
            let _is_running = self.0.state.wake();
        }
        let cell = self.0.into_counted();
        // SAFETY: a future that is not done keeps its cell. Only the word is borrowed: when it
        // is suspended, another thread may end it.
        let state = unsafe { &(*cell.as_ptr()).state };
        match state.end_poll() {
            AfterPoll::Idle => {}
            AfterPoll::Requeue | AfterPoll::Drop => {
                let order = match woke_itself {
                    true => SendOrder::Last,
                    false => SendOrder::Woken,
                };
                // SAFETY: the future was woken during the poll, so this thread owns it.
                unsafe { send(cell, order) };
            }
        }
    }
}

/// The functions of the wakers.
static WAKER: RawWakerVTable = waker_functions::<GraphFuture>();

impl Schedule for GraphFuture {
    const WAKER: &'static RawWakerVTable = &WAKER;

    unsafe fn schedule(cell: NonNull<Header<Self>>) {
        let order = match is_in_poll() {
            true => SendOrder::Last,
            false => SendOrder::Woken,
        };
        // SAFETY: the wake has made the caller the owner of the future.
        unsafe { send(cell, order) };
    }

    /// Records that the future has woken itself, if it has.
    fn on_redundant_wake(cell: NonNull<Header<Self>>) {
        let polled = POLLED.get();
        if ptr::eq(polled.cell, cell.as_ptr().cast()) && !Timer::is_waking_due() {
            POLLED.set(PolledFuture {
                woke_itself: true,
                ..polled
            });
        }
    }
}

/// Whether this thread polls a future, and the timer calls no wakers here. Futures that wake each
/// other are not urgent.
fn is_in_poll() -> bool {
    let is_in_poll = !POLLED.get().cell.is_null()
        || WorkerContext::with(|context| context.is_some_and(WorkerContext::is_in_poll));
    is_in_poll && !Timer::is_waking_due()
}

/// Queues the next poll of a future.
///
/// # Safety
/// The future is scheduled, and the caller owns it.
unsafe fn send(cell: NonNull<Header<GraphFuture>>, order: SendOrder) {
    // SAFETY: a future that is not done keeps its cell. The job may end it, so the control is
    // cloned before.
    let control = unsafe { &(*cell.as_ptr()).kind.control }.clone();
    // SAFETY: `run_poll` takes over the future, which is scheduled; any worker may run it, and
    // the task is suspended until it has.
    let job = unsafe { Job::new(cell.as_ptr().cast_const(), run_poll) };
    control.send(job, order);
}

/// Called when the run has been stopped: the next poll drops the future.
struct Resume(Waker);

impl OnStop for Resume {
    fn on_stop(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}
