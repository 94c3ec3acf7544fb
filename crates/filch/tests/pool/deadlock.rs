//! Waits that can never end are reported, and others are not.

use crate::support::{Flag, LIMIT, pool, pool_without_substitutes, until, within};
use filch::{Affinity, FutureHandle, Pool, TaskError, TaskGroup, TaskHandle};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

/// What a task of a ring says: whether its own join has failed, and how.
type Told = Option<TaskError>;

/// A handle that is sent later, and the task that waits for it.
type Later = (
    mpsc::Sender<TaskHandle<Told>>,
    mpsc::Receiver<TaskHandle<Told>>,
);

/// Joins a task that returns the result of its own join.
fn join(handle: TaskHandle<Told>) -> Told {
    handle.join().err()
}

/// Starts as many tasks as the pool has workers, each of which joins the next one when all run.
fn ring(pool: &Pool, names: &[&str]) -> Vec<TaskError> {
    let all = Arc::new(Barrier::new(names.len()));
    let (told, heard) = mpsc::channel();
    let (mut handles, mut senders) = (Vec::new(), Vec::new());
    for &name in names {
        let (sender, next): Later = mpsc::channel();
        let (all, told) = (all.clone(), told.clone());
        let task = pool.task(move || {
            all.wait();
            let error = join(next.recv().unwrap());
            told.send(error).unwrap();
            None
        });
        handles.push(task.name(name).submit().unwrap());
        senders.push(sender);
    }
    handles.rotate_left(1);
    for (sender, handle) in senders.into_iter().zip(handles) {
        sender.send(handle).unwrap();
    }
    drop(told);
    heard.into_iter().flatten().collect()
}

#[test]
fn two_tasks_that_join_each_other_end_and_one_gets_an_error() {
    for _ in 0..200 {
        let errors = within(LIMIT, || ring(&pool(2), &["left", "right"]));
        let [error] = &errors[..] else {
            panic!("one of them: {errors:?}");
        };
        assert!(error.is_deadlock() && !error.is_cancelled() && !error.is_panic());
        let text = error.to_string();
        let circle = match error.name() {
            Some("left") => "task `left` waits for task `right`, which waits for task `left`",
            _ => "task `right` waits for task `left`, which waits for task `right`",
        };
        assert!(text.contains(circle), "{text}");
        assert_eq!(error.cycle().unwrap().parties().len(), 2);
    }
}

#[test]
fn a_ring_of_five_is_broken_at_one_place() {
    let names = ["a", "b", "c", "d", "e"];
    for _ in 0..20 {
        let errors = within(LIMIT, move || ring(&pool(5), &names));
        assert_eq!(errors.len(), 1, "{errors:?}");
        let cycle = errors[0].cycle().unwrap();
        let mut named: Vec<_> = cycle
            .parties()
            .iter()
            .map(|party| party.name().unwrap())
            .collect();
        named.sort_unstable();
        assert_eq!(named, names);
    }
}

/// Two workers, on each of which a task is interrupted by another one, which joins the interrupted
/// one on the other worker.
#[test]
fn tasks_on_top_of_each_others_targets_are_a_deadlock() {
    within(LIMIT, || {
        let (pool, elsewhere) = (pool_without_substitutes(2), pool(2));
        let end = Flag::default();
        let (told, heard) = mpsc::channel();
        let mut senders = Vec::new();
        let mut below = Vec::new();
        // The number of lower tasks on their own workers. On a loaded machine others may run them.
        let in_place = Arc::new(AtomicUsize::new(0));
        for worker in [0, 1] {
            let (sender, other) = mpsc::channel::<TaskHandle<()>>();
            let in_place = in_place.clone();
            let is_here = move || filch::current_worker() == Some(worker);
            senders.push(sender);
            let (end, told, elsewhere, pool_too) =
                (end.clone(), told.clone(), elsewhere.clone(), pool.clone());
            let task = pool.task(move || {
                in_place.fetch_add(usize::from(is_here()), SeqCst);
                let top = pool_too.task(move || {
                    let joined = other.recv().unwrap().join();
                    told.send((is_here(), joined)).unwrap();
                });
                let top = top
                    .affinity(Affinity::Worker(worker))
                    .name(["top 0", "top 1"][worker]);
                top.submit().unwrap().detach();
                let begun = Flag::default();
                let started = begun.clone();
                let long = elsewhere.submit(move || {
                    started.set();
                    end.wait("the end");
                });
                begun.wait("the task elsewhere");
                long.join().unwrap();
            });
            let task = task
                .affinity(Affinity::Worker(worker))
                .name(["low 0", "low 1"][worker]);
            below.push(task.submit().unwrap());
        }
        for (sender, task) in senders.into_iter().zip(below.into_iter().rev()) {
            sender.send(task).unwrap();
        }
        // One of the tasks on top gets an error; the other one waits for one that goes on when
        // `end` is set.
        let (is_here, joined) = heard.recv().unwrap();
        let error = joined.unwrap_err();
        assert!(error.is_deadlock(), "{error}");
        let text = error.to_string();
        let named = ["task `low 0`", "task `low 1`"].map(|name| text.contains(name));
        if is_here && in_place.load(SeqCst) == 2 {
            assert_eq!(named, [true; 2], "{text}");
        } else {
            assert!(named.contains(&true), "{text}");
        }
        end.set();
        heard.recv().unwrap().1.unwrap();
    });
}

#[test]
fn a_join_of_a_task_that_is_held_back_by_one_that_joins_the_caller_is_a_deadlock() {
    within(LIMIT, || {
        let pool = pool(2);
        let both = Arc::new(Barrier::new(2));
        let (to_first, caller): Later = mpsc::channel();
        let (to_caller, follower) = mpsc::channel::<TaskHandle<()>>();
        let (told, heard) = mpsc::channel();
        let first = {
            let (both, told) = (both.clone(), told.clone());
            let task = pool.task(move || {
                both.wait();
                told.send(join(caller.recv().unwrap())).unwrap();
            });
            task.name("first").submit().unwrap()
        };
        let follower_of = pool
            .task(|| ())
            .name("follower")
            .after(&first)
            .submit()
            .unwrap();
        let caller = pool.task(move || {
            both.wait();
            told.send(follower.recv().unwrap().join().err()).unwrap();
            None
        });
        to_caller.send(follower_of).unwrap();
        to_first
            .send(caller.name("caller").submit().unwrap())
            .unwrap();
        let errors: Vec<_> = heard.into_iter().flatten().collect();
        assert!(errors.len() == 1 && errors[0].is_deadlock(), "{errors:?}");
        let text = errors[0].to_string();
        assert!(
            text.contains("`first`") && text.contains("`caller`"),
            "{text}"
        );
        first.join().unwrap();
    });
}

/// A held task whose handle or token is elsewhere may be cancelled, and then the wait ends.
#[test]
fn a_circle_that_a_cancel_can_break_is_not_reported() {
    for by_token in [false, true] {
        within(LIMIT, move || {
            let pool = pool(2);
            let token = filch::CancelToken::new();
            let both = Arc::new(Barrier::new(2));
            let (to_first, caller): Later = mpsc::channel();
            let (to_caller, last) = mpsc::channel::<TaskHandle<()>>();
            let first = {
                let both = both.clone();
                pool.submit(move || {
                    both.wait();
                    join(caller.recv().unwrap())
                })
            };
            let mut middle = pool.task(|| ()).after(&first);
            if by_token {
                middle = middle.token(&token);
            }
            let middle = middle.submit().unwrap();
            let end = pool.submit_after(&middle, || ());
            let middle = match by_token {
                true => {
                    middle.detach();
                    None
                }
                false => Some(middle),
            };
            let caller = pool.submit(move || {
                both.wait();
                last.recv().unwrap().join().err()
            });
            to_caller.send(end).unwrap();
            to_first.send(caller).unwrap();
            until("both wait", || filch::waits().len() >= 2);
            thread::sleep(Duration::from_millis(5));
            match middle {
                Some(middle) => assert!(middle.cancel()),
                None => assert!(token.cancel()),
            }
            // The caller has learnt that what it waited for was cancelled, and notified `first`.
            assert!(first.join().unwrap().is_none());
        });
    }
}

/// A task with a group of one, which joins it.
fn group_of_one(collect: fn(TaskGroup<Told>) -> Told) -> Vec<TaskError> {
    let pool = pool(2);
    let (to_member, outer): Later = mpsc::channel();
    let (told, heard) = mpsc::channel();
    let both = Arc::new(Barrier::new(2));
    let outer_task = {
        let (told, inner) = (told.clone(), pool.clone());
        pool.task(move || {
            let mut group = inner.group();
            let too = both.clone();
            let member = group.task(move || {
                too.wait();
                told.send(join(outer.recv().unwrap())).unwrap();
                None
            });
            member.name("member").submit().unwrap();
            both.wait();
            collect(group)
        })
    };
    to_member
        .send(outer_task.name("outer").submit().unwrap())
        .unwrap();
    drop(told);
    heard.into_iter().flatten().collect()
}

#[test]
fn groups_report_deadlocks() {
    for collect in [
        (|group| group.join_all().pop().unwrap().err()) as fn(TaskGroup<Told>) -> Told,
        |group| group.try_join_all().err(),
        |mut group| {
            group.wait();
            group.gather().err().and_then(|mut errors| errors.pop())
        },
    ] {
        // Either the member hears of it, or the group; the member's join fails in neither case for
        // another reason.
        let errors = within(LIMIT, move || group_of_one(collect));
        assert!(errors.iter().all(TaskError::is_deadlock), "{errors:?}");
    }
}

/// The member that joins the group's task can be released by the failure of another one, so nothing
/// is reported.
#[test]
fn a_group_that_a_failure_ends_is_not_reported() {
    within(LIMIT, || {
        let pool = pool(3);
        let (to_member, outer): Later = mpsc::channel();
        let (told, heard) = mpsc::channel();
        let fail = Flag::default();
        let task = {
            let (inner, fail) = (pool.clone(), fail.clone());
            pool.submit(move || {
                let mut group = inner.group();
                group.submit(move || told.send(join(outer.recv().unwrap())).unwrap());
                group.submit(move || {
                    fail.wait("the failure");
                    crate::support::quiet_panic("planned");
                });
                // Not `try_join_all` to the end: that waits for the member that joins us.
                let error = group.into_handles().pop().unwrap().join().unwrap_err();
                assert!(error.is_panic(), "{error}");
                None
            })
        };
        to_member.send(task).unwrap();
        until("both wait", || filch::waits().len() >= 2);
        fail.set();
        assert!(heard.recv().unwrap().is_none());
    });
}

#[test]
fn a_wait_with_a_limit_ends_by_the_clock_and_breaks_the_circle() {
    within(LIMIT, || {
        let pool = pool(2);
        let both = Arc::new(Barrier::new(2));
        let (to_left, next_of_left): Later = mpsc::channel();
        let (to_right, next_of_right): Later = mpsc::channel();
        let (told, heard) = mpsc::channel();
        let left = {
            let both = both.clone();
            pool.submit(move || {
                both.wait();
                let right = next_of_left.recv().unwrap();
                right
                    .join_timeout(Duration::from_millis(30))
                    .unwrap_err()
                    .detach();
                None
            })
        };
        let right = pool.submit(move || {
            both.wait();
            told.send(join(next_of_right.recv().unwrap())).unwrap();
            None
        });
        to_left.send(right).unwrap();
        to_right.send(left).unwrap();
        assert!(heard.recv().unwrap().is_none());
    });
}

/// A future whose poll blocks: it joins a task, which joins it.
#[test]
fn a_future_and_a_task_that_join_each_other_are_a_deadlock() {
    for _ in 0..50 {
        within(LIMIT, || {
            let pool = pool(2);
            let (to_future, task): Later = mpsc::channel();
            let (to_task, future) = mpsc::channel::<FutureHandle<Told>>();
            let (told, heard) = mpsc::channel();
            let also_told = told.clone();
            let begun = Flag::default();
            let polled = begun.clone();
            let handle = pool.spawn_future(async move {
                polled.set();
                let error = join(task.recv().unwrap());
                told.send(error.map(|error| (error.is_deadlock(), error.to_string())))
                    .unwrap();
                None
            });
            to_task.send(handle).unwrap();
            // Otherwise the worker that runs the task may poll the future while it waits for it.
            begun.wait("the future");
            let task = pool.task(move || {
                let error = future.recv().unwrap().join().err();
                let error = error.map(|error| (error.is_deadlock(), error.to_string()));
                also_told.send(error).unwrap();
                None
            });
            to_future
                .send(task.name("the task").submit().unwrap())
                .unwrap();
            let errors: Vec<_> = heard.into_iter().flatten().collect();
            let [(true, text)] = &errors[..] else {
                panic!("one of them: {errors:?}");
            };
            assert!(
                text.contains("task `the task`") && text.contains("future 0x"),
                "{text}"
            );
        });
    }
}

/// The future waits for the task that joins it, but awaits: it may be woken by anything, or
/// cancelled.
#[test]
fn a_future_that_awaits_is_not_reported() {
    within(LIMIT, || {
        let pool = pool(2);
        let (to_future, task): Later = mpsc::channel();
        let future = pool.spawn_future(async move { task.recv().unwrap().await.err() });
        let cancel = future.cancel_handle();
        let task = pool.submit(move || {
            assert!(future.join().unwrap_err().is_cancelled());
            None
        });
        to_future.send(task).unwrap();
        until("it waits", || !filch::waits().is_empty());
        thread::sleep(Duration::from_millis(5));
        cancel.cancel();
        pool.shutdown();
    });
}

#[test]
fn the_list_names_waiters_and_their_targets() {
    within(LIMIT, || {
        let pool = pool(2);
        let end = Flag::default();
        let slow = {
            let end = end.clone();
            let task = pool.task(move || end.wait("the end"));
            task.name("slow task of the list").submit().unwrap()
        };
        let waiter = pool.task(move || slow.join().unwrap()).name("its waiter");
        let waiter = waiter.submit().unwrap();
        let listed = || {
            let mut waits = filch::waits().into_iter();
            waits.find(|wait| wait.subject().name() == Some("slow task of the list"))
        };
        until("it is listed", || listed().is_some());
        let wait = listed().unwrap();
        assert_eq!(wait.waiter().name(), Some("its waiter"));
        assert!(wait.waiter().task_id() == Some(waiter.id().get()));
        let text = wait.to_string();
        assert!(
            text.starts_with("task `its waiter` waits for task `slow task"),
            "{text}"
        );
        end.set();
        waiter.join().unwrap();
        assert!(listed().is_none());
    });
}
