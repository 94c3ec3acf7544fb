//! The task protocol: no wake is lost, one thread at a time has a future, and it ends once. The
//! outcome of a task is taken or dropped once, whether it is a future or a closure.
#![expect(unsafe_code, reason = "runs a future as a worker does")]

use super::{
    AfterPoll, Cause, CellKind, Header, JoinRef, Joinable, PollBody, Polled, StartAction,
    TaskOutcome, TaskRef, TaskState, TaskStatus, make_future,
};
use crate::{
    base::{canary::Canary, unwind::Payload},
    engine::Priority,
    loom_tests::{Data, caught, long_run, model},
    submit::loom_tests::{UnparkThread, closure, waker},
};
use loom::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};
// Not loom's: counts of what happened, and what must not be dropped after a deadlock was reported.
use std::{
    mem::ManuallyDrop,
    ptr::NonNull,
    sync::{Arc, atomic},
    task::{Context, Waker},
};

/// Starts the future of this word. Returns whether to poll it.
fn start(word: &TaskState) -> bool {
    word.start() == StartAction::Poll
}

/// Ends the future of this word, which has been dropped.
fn finish(word: &TaskState) {
    let _ = word.finish(TaskStatus::Cancelled(Cause::Requested));
}

/// A future that is ready when two events have happened, and the queue for its one job.
struct ModelFuture {
    word: TaskState,
    /// The future: only the thread that has it accesses it.
    future: Data,
    happened: [AtomicBool; 2],
    queued: AtomicBool,
    ended: AtomicUsize,
}

impl ModelFuture {
    fn new() -> Self {
        Self {
            word: TaskState::new(Priority::Normal),
            future: Data::default(),
            happened: [AtomicBool::new(false), AtomicBool::new(false)],
            queued: AtomicBool::new(true),
            ended: AtomicUsize::new(0),
        }
    }

    /// Runs the job, if it is queued. Returns whether the future has ended.
    fn step(&self) -> bool {
        if !self.queued.swap(false, Ordering::AcqRel) {
            return false;
        }
        if !start(&self.word) {
            self.end();
            return true;
        }
        self.future.add(1);
        if self.happened.iter().all(|one| one.load(Ordering::Relaxed)) {
            self.end();
            return true;
        }
        match self.word.end_poll() {
            AfterPoll::Idle => false,
            AfterPoll::Requeue => {
                self.queue();
                false
            }
            AfterPoll::Drop => {
                assert!(!start(&self.word));
                self.end();
                true
            }
        }
    }

    fn end(&self) {
        self.future.add(1);
        self.ended.fetch_add(1, Ordering::Relaxed);
        finish(&self.word);
    }

    fn queue(&self) {
        let before = self.queued.swap(true, Ordering::AcqRel);
        assert!(!before, "there is one job for a future");
    }

    fn wake(&self) {
        if self.word.wake() {
            self.queue();
        }
    }
}

/// Two events happen, each followed by a wake, while a worker polls.
fn wakes_against_polls() {
    let task = loom::sync::Arc::new(ModelFuture::new());
    let others: Vec<_> = (0..2)
        .map(|n| {
            let task = task.clone();
            thread::spawn(move || {
                task.happened[n].store(true, Ordering::Relaxed);
                task.wake();
            })
        })
        .collect();
    let mut done = task.step();
    others.into_iter().for_each(|other| other.join().unwrap());
    while !done && task.queued.load(Ordering::Acquire) {
        done = task.step();
    }
    assert!(done, "a wake was lost");
}

#[test]
fn no_wake_is_lost() {
    model(long_run(2, 3), wakes_against_polls);
}

#[test]
fn canary_rest_without_a_check() {
    caught(Canary::FutureRest, long_run(2, 3), wakes_against_polls);
}

/// A future that is queued already is woken; the poll must see what was done before the wake, also
/// where nothing else orders it.
fn wake_again() {
    let task = loom::sync::Arc::new(ModelFuture::new());
    let other = {
        let task = task.clone();
        thread::spawn(move || {
            task.happened[0].store(true, Ordering::Relaxed);
            task.happened[1].store(true, Ordering::Relaxed);
            task.wake();
        })
    };
    // The job is queued from the start: it is taken without synchronisation with the other thread.
    let mut done = task.step();
    for _ in 0..2 {
        if !done && task.queued.load(Ordering::Acquire) {
            done = task.step();
        }
    }
    other.join().unwrap();
    let idle = !done && !task.queued.load(Ordering::Acquire);
    assert!(
        !idle,
        "the wake came before the poll, which did not see the events"
    );
}

#[test]
fn a_wake_of_a_queued_future_is_visible() {
    model(None, wake_again);
}

#[test]
fn canary_wake_again_without_a_write() {
    caught(Canary::FutureWakeAgain, None, wake_again);
}

/// A future without a handle, polled by the thread that made it and then by the threads that wake
/// it. It is ready when two events have happened.
struct Unqueued {
    word: TaskState,
    events: AtomicUsize,
    /// The future: only the thread that has it accesses it.
    future: Data,
    polls: atomic::AtomicUsize,
    done: AtomicUsize,
}

impl Unqueued {
    /// Polls it until it rests or is done.
    fn poll(&self) {
        loop {
            self.future.add(1);
            self.polls.fetch_add(1, Ordering::Relaxed);
            if self.events.load(Ordering::Acquire) == 2 {
                self.done.fetch_add(1, Ordering::Relaxed);
                return finish(&self.word);
            }
            if self.word.end_poll() == AfterPoll::Idle {
                return;
            }
            assert!(start(&self.word));
        }
    }

    fn event(&self) {
        self.events.fetch_add(1, Ordering::AcqRel);
        if self.word.wake() {
            assert!(start(&self.word));
            self.poll();
        }
    }
}

fn events_against_polls() {
    let future = loom::sync::Arc::new(Unqueued {
        word: TaskState::new_running(),
        events: AtomicUsize::new(0),
        future: Data::default(),
        polls: atomic::AtomicUsize::new(0),
        done: AtomicUsize::new(0),
    });
    let others = [(); 2].map(|()| {
        let future = future.clone();
        thread::spawn(move || future.event())
    });
    future.poll();
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(future.done.load(Ordering::Relaxed), 1, "a wake was missed");
    assert!(future.polls.load(Ordering::Relaxed) <= 3);
}

#[test]
fn a_future_without_a_handle_misses_no_wake() {
    model(Some(3), events_against_polls);
}

#[test]
fn canary_future_without_a_handle_that_misses_a_wake() {
    caught(Canary::FutureRest, Some(3), events_against_polls);
    caught(Canary::FutureWakeAgain, Some(3), events_against_polls);
}

/// The pool ends while the future is polled and woken.
fn eviction() {
    let task = loom::sync::Arc::new(ModelFuture::new());
    assert!(!task.step(), "no event has happened");
    let waker = {
        let task = task.clone();
        thread::spawn(move || {
            task.wake();
            task.step();
        })
    };
    if task.word.evict() {
        task.end();
    }
    waker.join().unwrap();
    task.step();
    assert_eq!(task.ended.load(Ordering::Relaxed), 1, "it ends once");
}

#[test]
fn a_future_ends_once() {
    model(None, eviction);
}

#[test]
fn canary_eviction_in_two_steps() {
    caught(Canary::FutureEvict, None, eviction);
}

/// A future is cancelled while it is polled and woken.
#[test]
fn a_cancel_ends_a_future() {
    model(long_run(2, 3), || {
        let task = loom::sync::Arc::new(ModelFuture::new());
        let others = [false, true].map(|cancel| {
            let task = task.clone();
            thread::spawn(move || {
                if match cancel {
                    true => task.word.cancel_future(),
                    false => task.word.wake(),
                } {
                    task.queue();
                }
            })
        });
        task.step();
        others.into_iter().for_each(|other| other.join().unwrap());
        while task.ended.load(Ordering::Relaxed) == 0 {
            assert!(
                task.queued.load(Ordering::Acquire),
                "a cancellation was lost"
            );
            task.step();
        }
        assert_eq!(task.ended.load(Ordering::Relaxed), 1);
    });
}

/// A future that belongs to no pool.
struct Bare;

impl CellKind for Bare {
    type Run = PollBody<Self>;
    const WHOLE_LINES: bool = true;
}

impl Joinable for Bare {
    fn report_panic(_: u32, _: Payload) {
        unreachable!("nothing panics here");
    }
}

/// The job of a future that is ready at once.
struct FutureJob(NonNull<Header<Bare>>);

// SAFETY: the models use only futures and values that are `Send`.
unsafe impl Send for FutureJob {}

impl FutureJob {
    /// Polls the future, and stores its value.
    fn run(self) {
        // SAFETY: the reference of the future itself, which this thread owns with its job.
        let task = unsafe { TaskRef::from_counted(self.0) };
        assert_eq!(task.state.start(), StartAction::Poll);
        let mut cx = Context::from_waker(Waker::noop());
        // SAFETY: this thread has started the future, and it is in the cell.
        let polled = unsafe { (task.vtable.run)(self.0, &mut cx) };
        let Polled::Done(status, None) = polled else {
            unreachable!("it is ready, and nothing panics here");
        };
        // SAFETY: the future has been dropped by its last poll, and its outcome is in the slot.
        let payload = unsafe { task.finish(status, |_| ()) };
        assert!(payload.is_none(), "nothing panics here");
    }
}

/// Creates a future with this value. Returns its handle, and a function that runs it.
fn future<T: Send + 'static>(value: T) -> (JoinRef<Bare, T>, impl FnOnce() + Send + 'static) {
    // SAFETY: the models use only futures and values that are `Send`.
    let cell = unsafe { make_future(TaskState::new(Priority::Normal), Bare, async move { value }) };
    // SAFETY: `TaskState::new` has counted the handle, and the value is that of the future.
    let join = unsafe { JoinRef::new(cell, 0) };
    let job = FutureJob(cell);
    (join, move || job.run())
}

/// Waits as a future does: it registers a waker, and checks again when that is called. With `again`
/// it registers another one before that.
fn wait<K: Joinable>(join: &mut JoinRef<K, usize>, again: bool) -> usize {
    while join.register_waker(&waker()) {
        if again && !join.register_waker(&waker()) {
            break;
        }
        thread::park();
    }
    match join.take().expect("it is done") {
        TaskOutcome::Value(value) => value,
        _ => unreachable!("nothing panics here"),
    }
}

/// A task ends while its handle falls asleep.
fn end_against_sleep<K: Joinable>(
    (join, run): (JoinRef<K, usize>, impl FnOnce() + Send + 'static),
    again: bool,
) {
    // After loom has reported a deadlock, its types must not be used.
    let mut join = ManuallyDrop::new(join);
    let worker = thread::spawn(run);
    assert_eq!(wait(&mut *join, again), 7);
    worker.join().unwrap();
    drop(ManuallyDrop::into_inner(join));
}

#[test]
fn a_waiter_is_woken() {
    model(None, || end_against_sleep(closure(7), false));
    model(None, || end_against_sleep(future(7), false));
}

#[test]
fn another_waker_loses_nothing() {
    model(Some(3), || end_against_sleep(closure(7), true));
    model(Some(3), || end_against_sleep(future(7), true));
}

#[test]
fn canary_end_that_wakes_no_waiter() {
    caught(Canary::TaskWake, None, || {
        end_against_sleep(closure(7), false);
    });
    caught(Canary::TaskWake, Some(3), || {
        end_against_sleep(closure(7), true);
    });
    caught(Canary::TaskWake, None, || {
        end_against_sleep(future(7), false);
    });
}

#[test]
fn canary_sleep_without_a_check() {
    caught(Canary::TaskWatch, None, || {
        end_against_sleep(closure(7), false);
    });
    caught(Canary::TaskWatch, Some(3), || {
        end_against_sleep(closure(7), true);
    });
    caught(Canary::TaskWatch, None, || {
        end_against_sleep(future(7), false);
    });
}

/// A value whose drops are counted.
struct CountedValue(Arc<atomic::AtomicUsize>);

impl Drop for CountedValue {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task ends while its handle is dropped, with a registered waker if it was `watched`.
fn end_against_drop<K: Joinable, R: FnOnce() + Send + 'static>(
    make: impl FnOnce(CountedValue) -> (JoinRef<K, CountedValue>, R),
    watched: bool,
) {
    let dropped = Arc::new(atomic::AtomicUsize::new(0));
    let (mut join, run) = make(CountedValue(dropped.clone()));
    let signal = Arc::new(UnparkThread(thread::current()));
    if watched {
        assert!(join.register_waker(&Waker::from(signal.clone())));
    }
    let worker = thread::spawn(run);
    drop(join);
    worker.join().unwrap();
    let dropped = dropped.load(Ordering::SeqCst);
    assert_eq!(dropped, 1, "the value is dropped once");
    assert_eq!(Arc::strong_count(&signal), 1, "the waker is dropped");
}

#[test]
fn a_value_that_is_not_taken_is_dropped_once() {
    for watched in [false, true] {
        model(None, move || end_against_drop(closure, watched));
        model(None, move || end_against_drop(future, watched));
    }
}

#[test]
fn canary_check_for_the_handle_before_the_end() {
    caught(Canary::TaskOrphan, None, || {
        end_against_drop(closure, false);
    });
    caught(Canary::TaskOrphan, None, || end_against_drop(future, false));
}
