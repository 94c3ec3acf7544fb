//! The task protocol: no wake is lost, one thread has a future at a time, it ends once; and the outcome of a task is had
//! or dropped once, whether it is a future or a closure.

use super::{caught, long_run, model};
use filch::{
    base::canary::Canary,
    submit,
    task::model as tasks,
    task::model::{Rest, Word},
};
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread::{self, Thread},
};
// Not loom's: counts of what happened, and what must not be dropped after loom has reported a defect.
use std::{
    mem::ManuallyDrop,
    sync::{Arc, atomic},
    task::{Wake, Waker},
};

/// A future that is ready when so many things have happened, and the queue for its one job.
struct Task {
    word: Word,
    /// What the future is: only whoever has it may touch it.
    future: UnsafeCell<()>,
    happened: [AtomicBool; 2],
    queued: AtomicBool,
    ended: AtomicUsize,
}

impl Task {
    fn new() -> Self {
        Self {
            word: Word::queued(),
            future: UnsafeCell::new(()),
            happened: [AtomicBool::new(false), AtomicBool::new(false)],
            queued: AtomicBool::new(true),
            ended: AtomicUsize::new(0),
        }
    }

    fn touch(&self) {
        // Loom notes who is there when.
        self.future.with_mut(|_| ());
    }

    /// Runs the job, if there is one. True when all has happened, or it has ended.
    fn step(&self) -> bool {
        if !self.queued.swap(false, Ordering::AcqRel) {
            return false;
        }
        if !self.word.start() {
            self.end();
            return true;
        }
        self.touch();
        if self.happened.iter().all(|one| one.load(Ordering::Relaxed)) {
            self.end();
            return true;
        }
        match self.word.rest() {
            Rest::Idle => false,
            Rest::Again => {
                self.queue();
                false
            }
            Rest::Drop => {
                assert!(!self.word.start());
                self.end();
                true
            }
        }
    }

    fn end(&self) {
        self.touch();
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.word.finish();
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

/// Two things happen, each followed by a wake, while a worker polls.
fn wakes_against_polls() {
    let task = loom::sync::Arc::new(Task::new());
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
fn canary_rest_without_a_look() {
    caught(Canary::FutureRest, long_run(2, 3), wakes_against_polls);
}

/// A future that is queued already is woken twice; the poll must see what was done before both wakes, also where nothing
/// else orders it.
fn wake_again() {
    let task = loom::sync::Arc::new(Task::new());
    let other = {
        let task = task.clone();
        thread::spawn(move || {
            task.happened[0].store(true, Ordering::Relaxed);
            task.happened[1].store(true, Ordering::Relaxed);
            task.wake();
        })
    };
    // The job is there from the start: it is taken without a word from the other thread.
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
        "the wake came before the poll, which did not see why"
    );
}

#[test]
fn a_wake_of_one_that_is_queued_is_seen() {
    model(None, wake_again);
}

#[test]
fn canary_wake_again_without_a_write() {
    caught(Canary::FutureWakeAgain, None, wake_again);
}

/// A future without a handle, polled by the thread that made it and then by those that wake it. It is ready when two
/// events have happened.
struct Unqueued {
    word: Word,
    events: AtomicUsize,
    /// What the future is: only the thread that has it may touch it.
    future: UnsafeCell<()>,
    polls: atomic::AtomicUsize,
    done: AtomicUsize,
}

impl Unqueued {
    /// Polls it until it rests or is done.
    fn go_on(&self) {
        loop {
            // Loom notes who is there when.
            self.future.with_mut(|_| ());
            self.polls.fetch_add(1, Ordering::Relaxed);
            if self.events.load(Ordering::Acquire) == 2 {
                self.done.fetch_add(1, Ordering::Relaxed);
                return self.word.finish();
            }
            if self.word.rest() == Rest::Idle {
                return;
            }
            assert!(self.word.start());
        }
    }

    fn event(&self) {
        self.events.fetch_add(1, Ordering::AcqRel);
        if self.word.wake() {
            assert!(self.word.start());
            self.go_on();
        }
    }
}

fn events_against_polls() {
    let future = loom::sync::Arc::new(Unqueued {
        word: Word::running(),
        events: AtomicUsize::new(0),
        future: UnsafeCell::new(()),
        polls: atomic::AtomicUsize::new(0),
        done: AtomicUsize::new(0),
    });
    let others = [(); 2].map(|()| {
        let future = future.clone();
        thread::spawn(move || future.event())
    });
    future.go_on();
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
    let task = loom::sync::Arc::new(Task::new());
    assert!(!task.step(), "nothing has happened");
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

/// It is aborted while it is polled and woken.
#[test]
fn an_abort_ends_it() {
    model(long_run(2, 3), || {
        let task = loom::sync::Arc::new(Task::new());
        let others = [false, true].map(|abort| {
            let task = task.clone();
            thread::spawn(move || {
                if match abort {
                    true => task.word.abort(),
                    false => task.word.wake(),
                } {
                    task.queue();
                }
            })
        });
        task.step();
        others.into_iter().for_each(|other| other.join().unwrap());
        while task.ended.load(Ordering::Relaxed) == 0 {
            assert!(task.queued.load(Ordering::Acquire), "an abort was lost");
            task.step();
        }
        assert_eq!(task.ended.load(Ordering::Relaxed), 1);
    });
}

/// Unparks a thread of the model.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// The handle's side of a closure or of a future.
trait Join<T> {
    fn watch(&mut self, waker: &Waker) -> bool;
    fn take(&mut self) -> Option<T>;
}

impl<T> Join<T> for tasks::Join<T> {
    fn watch(&mut self, waker: &Waker) -> bool {
        self.watch(waker)
    }

    fn take(&mut self) -> Option<T> {
        self.take()
    }
}

impl<T> Join<T> for submit::model::Hold<T> {
    fn watch(&mut self, waker: &Waker) -> bool {
        self.watch(waker)
    }

    fn take(&mut self) -> Option<T> {
        self.take().map(|outcome| outcome.expect("it ran"))
    }
}

/// A future with this value, and what runs it.
fn future<T: Send + 'static>(value: T) -> (impl Join<T>, impl FnOnce() + Send + 'static) {
    let (join, job) = tasks::make(async move { value });
    (join, move || job.run())
}

/// A closure with this value, and what runs it.
fn closure<T: Send + 'static>(value: T) -> (impl Join<T>, impl FnOnce() + Send + 'static) {
    let (hold, canceller, ticket) = submit::model::make(move || value);
    drop(canceller);
    (hold, move || ticket.claim().unwrap().run())
}

/// Waits as a future does: it leaves a waker, and does not look again before that is called. With `again` it is polled
/// by another thread in between.
fn wait(join: &mut impl Join<usize>, again: bool) -> usize {
    while join.watch(&waker()) {
        if again && !join.watch(&waker()) {
            break;
        }
        thread::park();
    }
    join.take().expect("it is done")
}

/// A task ends while its handle falls asleep.
fn end_against_sleep((join, run): (impl Join<usize>, impl FnOnce() + Send + 'static), again: bool) {
    // When loom has reported a sleep without an end, nothing of its own may be used any more.
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
        end_against_sleep(closure(7), false)
    });
    caught(Canary::TaskWake, Some(3), || {
        end_against_sleep(closure(7), true)
    });
    caught(Canary::TaskWake, None, || {
        end_against_sleep(future(7), false)
    });
}

#[test]
fn canary_sleep_without_a_look() {
    caught(Canary::TaskWatch, None, || {
        end_against_sleep(closure(7), false)
    });
    caught(Canary::TaskWatch, Some(3), || {
        end_against_sleep(closure(7), true)
    });
    caught(Canary::TaskWatch, None, || {
        end_against_sleep(future(7), false)
    });
}

/// Something whose end is counted.
struct Thing(Arc<atomic::AtomicUsize>);

impl Drop for Thing {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task with a `Thing` as its value ends while its handle is dropped, with a waker in it if it was `watched`.
fn end_against_drop<J: Join<Thing>, R: FnOnce() + Send + 'static>(
    make: impl FnOnce(Thing) -> (J, R),
    watched: bool,
) {
    let dropped = Arc::new(atomic::AtomicUsize::new(0));
    let (mut join, run) = make(Thing(dropped.clone()));
    let signal = Arc::new(Unpark(thread::current()));
    if watched {
        assert!(join.watch(&Waker::from(signal.clone())));
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
fn canary_look_for_the_handle_before_the_handover() {
    caught(Canary::TaskOrphan, None, || {
        end_against_drop(closure, false)
    });
    caught(Canary::TaskOrphan, None, || end_against_drop(future, false));
}
