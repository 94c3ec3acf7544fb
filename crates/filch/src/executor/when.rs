//! Tasks that start when a semaphore has room, and hold no worker meanwhile.
//!
//! Such a task is counted from the call on, so that `finish` waits for it, and queued when its
//! units are granted, by the thread that gives units back. A task that waits is in the list of its
//! executor, so that a shutdown can take it out of the queue of the semaphore. The lock of that
//! queue decides which of the two happens: one of them ends the reservation.

use super::{Executor, ExecutorState, Handle, waiting::CancelWaiting};
use crate::{
    base::{error::Refused, unwind},
    engine::{OUTSIDE, Observer, Strategy},
    semaphore::{
        self, AcquireOutcome, Continuation, EnterResult, Notify, Permit, Semaphore, Wants,
    },
};
use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

impl<T, S, Q, O> Executor<T, S, Q, O>
where
    T: Send + 'static,
    S: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
{
    /// Spawns a task that needs `units` of `semaphore`: `task` makes it of its permit, when that is
    /// granted, now or later. No worker waits meanwhile. The task should own the permit, whose
    /// units go back when it is dropped.
    ///
    /// ```
    /// use filch::{Executor, Permit, Semaphore};
    ///
    /// struct Scan {
    ///     file: Vec<u8>,
    ///     _memory: Permit<'static>,
    /// }
    ///
    /// let memory = Semaphore::new(1000);
    /// let executor = Executor::builder()
    ///     .workers(2)
    ///     .build(|_| 0, |scan: Scan, cx| *cx.scratch() += scan.file.len())?;
    /// for size in [600, 500, 400] {
    ///     let scan = move |permit| Scan { file: vec![0; size], _memory: permit };
    ///     executor.spawn_when(&memory, size as u64, scan).unwrap();
    /// }
    /// assert_eq!(executor.finish().scratch.iter().sum::<usize>(), 1500);
    /// assert_eq!(memory.available(), 1000);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// - `task` is called on this thread, or on the thread that gives the units back; it should be
    ///   short. If it panics, that counts as a panic of the task.
    /// - Requests are served first come, first served, together with all other requests for units
    ///   of this semaphore. The limit on [queued tasks](super::ExecutorBuilder::capacity) does not
    ///   apply.
    /// - [`finish`](Self::finish) runs the tasks that wait, so the units that they wait for must
    ///   not be held by its caller. [`shutdown_now`](Self::shutdown_now) drops them, and so does a
    ///   semaphore that is closed or becomes too small.
    ///
    /// # Errors
    /// `task`, if the executor is closed, or the semaphore is closed or has fewer units than that.
    pub fn spawn_when<F>(
        &self,
        semaphore: &Semaphore,
        units: u64,
        task: F,
    ) -> Result<(), Refused<F>>
    where
        F: FnOnce(Permit<'static>) -> T + Send + 'static,
    {
        spawn_when(&self.inner, semaphore, units, task)
    }
}

impl<T, Q, O> Handle<T, Q, O>
where
    T: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
{
    /// [`Executor::spawn_when`].
    ///
    /// ```
    /// use filch::{Executor, Permit, Semaphore};
    ///
    /// let tools = Semaphore::new(1);
    /// let executor = Executor::builder().workers(2).build(|_| (), |_: Permit<'static>, _| {})?;
    /// let handle = executor.handle();
    /// for _ in 0..3 {
    ///     handle.spawn_when(&tools, 1, |tool| tool).unwrap();
    /// }
    /// assert_eq!(executor.finish().metrics.total().executed, 3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn spawn_when<F>(
        &self,
        semaphore: &Semaphore,
        units: u64,
        task: F,
    ) -> Result<(), Refused<F>>
    where
        F: FnOnce(Permit<'static>) -> T + Send + 'static,
    {
        spawn_when(&self.inner, semaphore, units, task)
    }
}

/// A task that is not made yet, with its reservation in the engine.
struct WaitingTask<T: Send, Q: Strategy, O: Observer, F> {
    state: Arc<ExecutorState<T, Q, O>>,
    wants: Wants,
    inner: Mutex<WaitingInner<F>>,
}

struct WaitingInner<F> {
    /// Taken by the thread that makes the task, or drops it.
    make: Option<F>,
    /// Its id in the queue of the semaphore, and its key in the list of the executor, once they are
    /// known.
    id: Option<u64>,
    key: Option<u64>,
}

fn spawn_when<T, Q, O, F>(
    state: &Arc<ExecutorState<T, Q, O>>,
    semaphore: &Semaphore,
    units: u64,
    make: F,
) -> Result<(), Refused<F>>
where
    T: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
    F: FnOnce(Permit<'static>) -> T + Send + 'static,
{
    if !state.core.reserve() {
        return Err(Refused::closed(make));
    }
    match semaphore.try_take(units) {
        Ok(()) => state.spawn_reserved(semaphore, units, make),
        Err(error) if error.is_full() => {
            let wants: Wants = Arc::new([(semaphore.clone(), units)]);
            let waiting = Arc::new(WaitingTask {
                state: state.clone(),
                wants,
                inner: Mutex::new(WaitingInner {
                    make: Some(make),
                    id: None,
                    key: None,
                }),
            });
            waiting.enter();
        }
        Err(_) => {
            state.core.withdraw_reserved();
            return Err(Refused::no_units(make));
        }
    }
    Ok(())
}

impl<T: Send, Q: Strategy, O: Observer> ExecutorState<T, Q, O> {
    /// Makes and queues a reserved task whose units have been taken.
    fn spawn_reserved(
        &self,
        semaphore: &Semaphore,
        units: u64,
        make: impl FnOnce(Permit<'static>) -> T,
    ) {
        let permit = semaphore.permit_for(units);
        match unwind::contain(|| make(permit)) {
            Ok(task) => self.core.inject_reserved(task),
            Err(payload) => {
                self.panicked(OUTSIDE, payload);
                self.core.withdraw_reserved();
            }
        }
    }
}

impl<T, Q, O, F> WaitingTask<T, Q, O, F>
where
    T: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
    F: FnOnce(Permit<'static>) -> T + Send + 'static,
{
    fn lock(&self) -> MutexGuard<'_, WaitingInner<F>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the list of the executor and the queue of the semaphore.
    fn enter(self: Arc<Self>) {
        let key = self.state.waiting.add(self.clone());
        self.lock().key = key;
        let entered = semaphore::enter(&self.wants, Notify::Task(self.clone(), 0));
        let id = match entered {
            EnterResult::Decided(outcome) => return self.resume(0, outcome),
            EnterResult::Queued(id) => id,
        };
        // It may have been resumed meanwhile; then this has no effect.
        self.lock().id = Some(id);
        if self.state.core.is_stopped() {
            // Perhaps before the id was known.
            self.cancel();
        }
    }

    /// Takes what makes the task, once, and leaves the list of the executor.
    fn take(&self) -> Option<F> {
        let (make, key) = {
            let mut inner = self.lock();
            (inner.make.take(), inner.key.take())
        };
        if let Some(key) = key {
            self.state.waiting.remove(key);
        }
        make
    }

    /// Ends the reservation of a task that is not made.
    fn drop_reserved(&self) {
        if let Some(make) = self.take() {
            if let Err(payload) = unwind::contain(|| drop(make)) {
                self.state.panicked(OUTSIDE, payload);
            }
            self.state.core.withdraw_reserved();
        }
    }
}

impl<T, Q, O, F> Continuation for WaitingTask<T, Q, O, F>
where
    T: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
    F: FnOnce(Permit<'static>) -> T + Send + 'static,
{
    fn resume(self: Arc<Self>, _key: u64, outcome: AcquireOutcome) {
        run_iteratively(move || {
            let (semaphore, units) = &self.wants[0];
            match outcome {
                Ok(()) => match self.take() {
                    Some(make) => self.state.spawn_reserved(semaphore, *units, make),
                    None => semaphore.give(*units),
                },
                Err(_) => self.drop_reserved(),
            }
        });
    }
}

type Resumption = Box<dyn FnOnce()>;

thread_local! {
    /// While this thread resumes a task: those that it has to resume after it.
    static RESUMED: RefCell<Option<VecDeque<Resumption>>> = const { RefCell::new(None) };
}

/// Calls `resume`; if this thread is in such a call, after that one: a task that drops its permit
/// when it is made resumes the next one, and that the next, and the stack would overflow.
///
/// A thread that ends may have destroyed its thread-local variables; then the call is nested.
fn run_iteratively(resume: impl FnOnce() + 'static) {
    let mut resume = Some(resume);
    // An error means that this is the destructor of another thread-local variable.
    let _ = RESUMED.try_with(|waiting| match &mut *waiting.borrow_mut() {
        Some(waiting) => {
            waiting.extend(resume.take().map(|resume| Box::new(resume) as Resumption));
        }
        waiting => *waiting = Some(VecDeque::new()),
    });
    let Some(resume) = resume else {
        return;
    };
    call_contained(resume);
    while let Some(next) = next_resumption() {
        call_contained(next);
    }
}

/// Calls `resume`. Panics of the observer and of destructors, which the panic hook has reported,
/// must not keep this thread from resuming the other tasks.
fn call_contained(resume: impl FnOnce()) {
    if let Err(payload) = unwind::contain(resume) {
        unwind::discard(payload);
    }
}

/// Returns the next resumption of this thread; if there is none, later ones are called at once.
fn next_resumption() -> Option<Resumption> {
    let next = RESUMED.try_with(|waiting| {
        let waiting = &mut *waiting.borrow_mut();
        let next = waiting.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *waiting = None;
        }
        next
    });
    next.ok().flatten()
}

impl<T, Q, O, F> CancelWaiting for WaitingTask<T, Q, O, F>
where
    T: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
    F: FnOnce(Permit<'static>) -> T + Send + 'static,
{
    fn cancel(&self) {
        let id = self.lock().id;
        // If it is not queued any more, it is being resumed.
        if id.is_some_and(|id| semaphore::cancel(&self.wants, id)) {
            self.drop_reserved();
        }
    }
}
