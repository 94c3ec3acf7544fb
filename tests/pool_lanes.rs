//! Levels in a pool: what a worker runs while it waits for something.

mod support;

use filch::{Pool, Priority};
use std::sync::{Arc, Mutex};
use support::{Flag, LIMIT, pool, within};

/// What ran, in order: the numbers of the tasks of a scope, and one that comes from outside in the middle.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<u32>>>);

const VISITOR: u32 = 999;
const TASKS: u32 = 20;

impl Order {
    fn note(&self, task: u32) {
        self.0.lock().unwrap().push(task);
    }

    /// Where the visitor came, counted from the task that waited for it.
    fn place(&self, after: u32) -> usize {
        let order = self.0.lock().unwrap();
        let place = |task| order.iter().position(|&t| t == task).unwrap();
        place(VISITOR) - place(after)
    }
}

/// The only worker of `pool` waits for the tasks of a scope; while it runs the third, a Critical task is submitted.
/// Says how many tasks after that one the worker came to it, and how many tasks it had left then.
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
    // Not by joining: whoever joins a task that is queued runs it.
    support::until("the visitor", || handle.is_finished());
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
        assert_eq!(left, 0, "the visitor came when the scope was done");
    });
}
