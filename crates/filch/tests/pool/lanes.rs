//! Levels in a pool: what a worker runs while it waits for something.

use crate::support::{Flag, LIMIT, pool, within};
use filch::{Pool, Priority};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// What ran, in order: the numbers of the tasks of a scope, and one that comes from outside in the
/// middle.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<u32>>>);

const VISITOR: u32 = 999;
const TASKS: u32 = 20;

impl Order {
    fn note(&self, task: u32) {
        self.0.lock().unwrap().push(task);
    }

    /// The position of the visitor, counted from the task that waited for it.
    fn place(&self, after: u32) -> usize {
        let order = self.0.lock().unwrap();
        let place = |task| order.iter().position(|&t| t == task).unwrap();
        place(VISITOR) - place(after)
    }
}

/// The only worker of `pool` waits for the tasks of a scope; while it runs the third, a Critical
/// task is submitted. Returns the number of tasks that the worker ran before it, and the number
/// that it had left then.
fn visit(pool: &Pool, isolated: bool) -> (usize, usize) {
    let (order, third, submitted) = (Order::default(), Flag::default(), Flag::default());
    let done = Flag::default();
    let inside = {
        let (order, third, submitted) = (order.clone(), third.clone(), submitted.clone());
        move || {
            filch::scope(|s| {
                for task in 0..TASKS {
                    let (order, third, submitted) = (&order, &third, &submitted);
                    s.spawn(move |_| {
                        order.note(task);
                        if task == TASKS - 3 {
                            third.set();
                            submitted.wait("the submission");
                        }
                    });
                }
            });
        }
    };
    pool.spawn({
        let done = done.clone();
        move || {
            if isolated {
                filch::isolate(inside);
            } else {
                inside();
            }
            done.set();
        }
    });
    third.wait("the third task");
    let visitor = order.clone();
    let handle = pool
        .task(move || visitor.note(VISITOR))
        .priority(Priority::Critical)
        .submit()
        .unwrap();
    submitted.set();
    // Not by joining: the joiner of a queued task runs it.
    crate::support::until("the visitor", || handle.is_finished());
    done.wait("the scope");
    let place = order.place(TASKS - 3);
    (place, TASKS as usize - 3 - (place - 1))
}

/// Newest first: of 20 tasks the third is number 17.
#[test]
fn a_worker_that_waits_runs_urgent_tasks_first() {
    within(LIMIT, || {
        assert_eq!(visit(&pool(1), false), (1, TASKS as usize - 3));
    });
}

#[test]
fn an_isolated_wait_runs_nothing_from_elsewhere() {
    within(LIMIT, || {
        let (_, left) = visit(&pool(1), true);
        assert_eq!(left, 0, "the visitor ran when the scope was done");
    });
}

/// The only worker waits for a scope whose tasks follow each other: one from outside gets its turn.
/// A Low task has one only after a second.
#[test]
fn a_wait_starves_no_task() {
    fn follow<'s>(s: &filch::Scope<'s>, ran: &'s AtomicUsize, left: usize) {
        if left > 0 {
            s.spawn(move |s| {
                ran.fetch_add(1, Ordering::SeqCst);
                follow(s, ran, left - 1);
            });
        }
    }
    within(LIMIT, || {
        let pool = pool(1);
        let (begun, queued) = (Flag::default(), Flag::default());
        let ran = Arc::new(AtomicUsize::new(0));
        let busy = {
            let (begun, queued, ran) = (begun.clone(), queued.clone(), ran.clone());
            pool.submit(move || {
                begun.set();
                queued.wait("the others are queued");
                filch::scope(|s| follow(s, &ran, 10_000));
            })
        };
        begun.wait("the worker begins");
        let came = Arc::new(Mutex::new(vec![]));
        let note = || {
            let (ran, came) = (ran.clone(), came.clone());
            move || came.lock().unwrap().push(ran.load(Ordering::SeqCst))
        };
        pool.spawn(note());
        let low = pool.task(note()).priority(Priority::Low).submit().unwrap();
        let begin = Instant::now();
        queued.set();
        busy.join().unwrap();
        while !low.is_finished() {
            thread::yield_now();
        }
        let came = came.lock().unwrap().clone();
        assert!(came[0] < 1_000, "{came:?}");
        let second = begin.elapsed() >= Duration::from_secs(1);
        assert!(second || came[1] == 10_000, "{came:?}");
    });
}

/// The only worker waits, and has nothing of its own; High tasks that follow each other leave a
/// turn to the one from outside that it waits for.
#[test]
fn urgent_tasks_leave_turns_in_a_wait() {
    fn follow(pool: &Pool, over: &Flag) {
        if !over.is_set() {
            let (again, until) = (pool.clone(), over.clone());
            let task = pool.task(move || follow(&again, &until));
            task.priority(Priority::High).submit().unwrap().detach();
        }
    }
    within(LIMIT, || {
        let (here, there) = (pool(1), pool(1));
        let (begun, queued, over) = (Flag::default(), Flag::default(), Flag::default());
        let elsewhere = {
            let (begun, over) = (begun.clone(), over.clone());
            there.submit(move || {
                begun.set();
                over.wait("the normal task runs");
            })
        };
        begun.wait("what is waited for begins");
        let busy = {
            let (queued, over, pool) = (queued.clone(), over.clone(), here.clone());
            here.submit(move || {
                queued.wait("the normal task is queued");
                follow(&pool, &over);
                elsewhere.join().unwrap();
            })
        };
        let set = over.clone();
        here.spawn(move || set.set());
        queued.set();
        busy.join().unwrap();
    });
}
