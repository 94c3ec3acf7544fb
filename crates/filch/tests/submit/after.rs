//! Tasks that wait for others.

use crate::support::{Drops, Flag, LIMIT, Panics, message, pool, quiet_panic, until, within};
use filch::{
    Affinity, CancelToken, Dependency, Pool, Priority, TaskError, TaskHandle, TaskOverflow,
};
use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

/// Notes in which order things happen.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<usize>>>);

impl Log {
    fn note(&self, what: usize) -> impl FnOnce() -> usize + Send + 'static {
        let log = self.clone();
        move || {
            log.0.lock().unwrap().push(what);
            what
        }
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// A task that runs until the flag is set; returns when it has begun.
fn running(pool: &Pool, end: &Flag) -> TaskHandle<()> {
    let (begun, end) = (Flag::default(), end.clone());
    let has_begun = begun.clone();
    let task = pool.submit(move || {
        begun.set();
        end.wait("the end of a long task");
    });
    has_begun.wait("its beginning");
    task
}

/// A task of a pool without workers that a thread of its own runs until the flag is set; returns
/// when it has begun.
fn running_elsewhere(pool: &Pool, end: &Flag) -> (Dependency, thread::JoinHandle<()>) {
    let (begun, end) = (Flag::default(), end.clone());
    let has_begun = begun.clone();
    let task = pool.submit(move || {
        begun.set();
        end.wait("the end of a long task");
    });
    let dependency = task.dependency();
    let thread = thread::spawn(move || task.join().unwrap());
    has_begun.wait("another thread");
    (dependency, thread)
}

/// What became of the tasks of a pool adds up.
#[track_caller]
fn adds_up(pool: &Pool) {
    let total = pool.task_metrics().total();
    let ends = total.finished + total.panicked + total.cancelled + total.expired;
    assert_eq!(total.submitted, ends, "{total:?}");
}

#[track_caller]
fn failed(error: &TaskError) -> (filch::TaskId, bool) {
    let failed = error.failed_dependency().expect("because of another");
    assert!(error.is_cancelled() && !error.is_panic() && !error.is_deadline());
    (failed.id(), failed.is_panic())
}

mod order {
    use super::*;

    #[test]
    fn a_task_runs_after_those_that_it_waits_for() {
        for workers in [0, 1, 2, 4] {
            let log = Log::default();
            let order = within(LIMIT, move || {
                let pool = pool(workers);
                let first: Vec<_> = (0..10).map(|n| pool.submit(log.note(n))).collect();
                let middle = pool.submit_after(&first, log.note(10));
                let last = pool.submit_after((&middle, &first[3]), log.note(11));
                assert_eq!(last.join().unwrap(), 11);
                assert_eq!(middle.join().unwrap(), 10);
                adds_up(&pool);
                log.take()
            });
            assert_eq!(order[10..], [10, 11], "{workers} workers: {order:?}");
        }
    }

    #[test]
    fn nothing_runs_before_the_last_one_has_ended() {
        let pool = pool(2);
        let (end, log) = (Flag::default(), Log::default());
        let long = running(&pool, &end);
        let quick = pool.submit(log.note(0));
        let after = pool.submit_after((&long, &quick), log.note(1));
        assert_eq!(quick.join().unwrap(), 0);
        // Whatever is queued behind it runs, so it is not queued.
        for n in 2..20 {
            pool.submit(log.note(n)).join().unwrap();
        }
        assert!(!after.is_finished());
        end.set();
        assert_eq!(after.join().unwrap(), 1);
        assert_eq!(log.take().last(), Some(&1));
    }

    #[test]
    fn those_that_have_ended_are_fine() {
        for workers in [0, 1] {
            let pool = pool(workers);
            let done = pool.submit(|| ());
            let token = done.dependency();
            done.join().unwrap(); // its result is gone, and so is the handle
            assert!(token.is_finished());
            let after = pool.submit_after(&token, || 1);
            assert_eq!(after.join().unwrap(), 1);
        }
    }

    #[test]
    fn lists_of_any_kind_and_none_at_all() {
        let pool = pool(1);
        let (a, b) = (pool.submit(|| 1), pool.submit(|| "b"));
        let mut group = pool.group();
        (0..3).for_each(|n| _ = group.submit(move || n));
        let tokens: Vec<Dependency> = vec![a.dependency(), b.dependency()];
        let all = pool
            .task(|| 5)
            .after(())
            .after(&group)
            .after([&a, &a])
            .after((Some(&b), &tokens[..], tokens.clone(), None::<&Dependency>))
            .after(&[a.dependency()])
            .after_any_outcome(&tokens);
        assert_eq!(all.submit().unwrap().join().unwrap(), 5);
        assert_eq!(a.join().unwrap(), 1);
        assert_eq!(group.try_join_all().unwrap(), [0, 1, 2]);
        let none: [&TaskHandle<u8>; 0] = [];
        assert_eq!(pool.submit_after(none, || 6).join().unwrap(), 6);
    }

    #[test]
    fn what_they_did_is_visible() {
        let pool = pool(2);
        for n in 0..200 {
            let sum = Arc::new(AtomicUsize::new(0));
            let parts: Vec<_> = (0..3)
                .map(|part| {
                    let sum = sum.clone();
                    pool.submit(move || sum.fetch_add(part + n, SeqCst))
                })
                .collect();
            let total = pool.submit_after(parts.as_slice(), move || sum.load(SeqCst));
            drop(parts);
            assert_eq!(total.join().unwrap(), 3 + 3 * n);
        }
    }

    #[test]
    fn tasks_of_other_pools() {
        for (here, there) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            within(LIMIT, move || {
                let (here, there) = (pool(here), pool(there));
                let first = there.submit(|| 1);
                let second = here.submit_after(&first, || 2);
                let third = there.submit_after(&second, || 3);
                assert_eq!(third.join().unwrap(), 3);
                assert_eq!((first.join().unwrap(), second.join().unwrap()), (1, 2));
                adds_up(&here);
                adds_up(&there);
            });
        }
    }

    #[test]
    fn a_task_submits_what_comes_after_it() {
        for workers in [0, 1] {
            let log = Log::default();
            let pool = pool(workers);
            let notes = log.clone();
            let first = pool.submit(move || {
                let this = filch::current_task().unwrap();
                let next = filch::submit_after(&this, notes.note(2));
                notes.note(1)();
                next
            });
            assert_eq!(first.join().unwrap().join().unwrap(), 2);
            assert_eq!(log.take(), [1, 2]);
        }
    }

    #[test]
    fn priority_and_place_count_when_it_is_ready() {
        let pool = pool(1);
        let (end, log) = (Flag::default(), Log::default());
        let long = running(&pool, &end);
        let normal = pool.submit_after(&long, log.note(0));
        let raised = pool.submit_after(&long, log.note(1));
        let urgent = pool.task(log.note(2)).after(&long);
        let urgent = urgent.priority(Priority::High).submit().unwrap();
        let low = pool.task(log.note(3)).after(&long);
        let low = low.priority(Priority::Low).submit().unwrap();
        assert!(raised.set_priority(Priority::Critical));
        assert_eq!(raised.priority(), Priority::Critical);
        let placed = pool.task(filch::current_worker).after(&long);
        let placed = placed.affinity(Affinity::Worker(0)).submit().unwrap();
        end.set();
        until("all are done", || normal.is_finished() && low.is_finished());
        assert_eq!(log.take(), [1, 2, 0, 3]);
        assert!(raised.is_finished() && urgent.is_finished());
        assert!(!raised.set_priority(Priority::Low));
        assert_eq!(placed.join().unwrap(), Some(0));
        adds_up(&pool);
    }

    #[test]
    fn it_holds_its_room_while_it_waits() {
        let pool = Pool::builder().workers(1).task_capacity(2);
        let pool = pool.overflow(TaskOverflow::Refuse).build().unwrap();
        let end = Flag::default();
        let long = running(&pool, &end);
        let held = pool.submit_after(&long, || 1);
        let given_up = pool.submit_after(&long, || 2);
        let refused = pool.task(|| 3).after(&long).submit().unwrap_err();
        assert!(refused.is_full());
        assert_eq!(refused.into_inner()(), 3);
        assert!(given_up.cancel(), "which makes room");
        let queued = pool.task(|| 4).submit().unwrap();
        end.set();
        assert_eq!(held.join().unwrap() + queued.join().unwrap(), 5);
        adds_up(&pool);
    }

    #[test]
    fn in_a_full_pool_the_caller_does_what_it_can() {
        for workers in [0, 1] {
            let pool = Pool::builder().workers(workers).task_capacity(1);
            let pool = pool.overflow(TaskOverflow::RunInCaller).build().unwrap();
            let (end, log) = (Flag::default(), Log::default());
            let jam = (workers > 0).then(|| running(&pool, &end));
            let first = pool.submit(log.note(0));
            let second = pool.submit_after(&first, log.note(1));
            assert!(first.is_finished() && second.is_finished());
            assert_eq!(log.take(), [0, 1]);
            if let Some(jam) = jam {
                let full = pool.submit(log.note(2));
                // It cannot be run here, and waiting here might be for ever.
                let beyond = pool.submit_after(&jam, log.note(3));
                assert!(!beyond.is_finished());
                end.set();
                assert_eq!(beyond.join().unwrap() + full.join().unwrap(), 5);
            }
            adds_up(&pool);
        }
    }
}

mod failure {
    use super::*;

    #[test]
    fn a_panic_reaches_all_that_follow() {
        for workers in [0, 1, 2] {
            let drops = Drops::default();
            let value = drops.value();
            let pool = pool(workers);
            let bad = pool.task(|| quiet_panic("no luck")).name("bad");
            let bad: TaskHandle<()> = bad.submit().unwrap();
            let next = pool.submit_after(&bad, move || drop(value));
            let last = pool.submit_after(&next, || ());
            let error = last.join().unwrap_err();
            assert_eq!(failed(&error), (bad.id(), true));
            let id = error.id();
            assert_eq!(
                error.to_string(),
                format!(
                    "task {id} was cancelled before it started: it waited for task `bad`, which panicked"
                )
            );
            assert_eq!(drops.seen(), 1, "the closure is gone");
            // Later joiners get the same result.
            let late = pool.submit_after(&next, || ());
            assert_eq!(failed(&late.join().unwrap_err()), (bad.id(), true));
            assert!(bad.join().unwrap_err().is_panic());
            let total = pool.task_metrics().total();
            assert_eq!((total.panicked, total.cancelled), (1, 3));
            adds_up(&pool);
        }
    }

    #[test]
    fn what_is_cancelled_takes_its_followers_along() {
        let pool = pool(0);
        let first = pool.submit(|| ());
        let drops = Drops::default();
        let handles: Vec<_> = (0..3)
            .map(|_| {
                let value = drops.value();
                pool.submit_after(&first, move || drop(value))
            })
            .collect();
        assert!(first.cancel());
        assert_eq!(drops.seen(), 3, "at once");
        for handle in handles {
            let error = handle.join().unwrap_err();
            assert_eq!(failed(&error), (first.id(), false));
            assert!(
                error.to_string().ends_with("which was cancelled"),
                "{error}"
            );
        }
        adds_up(&pool);
    }

    #[test]
    fn it_fails_as_soon_as_one_does() {
        let pool = pool(2);
        let end = Flag::default();
        let long = running(&pool, &end);
        let bad: TaskHandle<()> = pool.submit(|| quiet_panic("no luck"));
        let after = pool.submit_after((&long, &bad), || ());
        assert_eq!(failed(&after.join().unwrap_err()).0, bad.id());
        assert!(!long.is_finished());
        end.set();
        long.join().unwrap();
    }

    #[test]
    fn any_outcome_will_do() {
        for workers in [0, 1] {
            let pool = pool(workers);
            let bad: TaskHandle<()> = pool.submit(|| quiet_panic("no luck"));
            let end = Flag::default();
            let jam = (workers > 0).then(|| running(&pool, &end));
            let never = pool.submit(|| unreachable!("it is cancelled"));
            let both = pool.task(|| 1).after_any_outcome((&bad, &never));
            let both = both.submit().unwrap();
            // One that minds, and one that does not.
            let minds = pool.task(|| 2).after_any_outcome(&bad).after(&never);
            let minds = minds.submit().unwrap();
            assert!(never.cancel());
            end.set();
            assert_eq!(both.join().unwrap(), 1);
            assert_eq!(failed(&minds.join().unwrap_err()), (never.id(), false));
            let late = pool
                .task(|| 3)
                .after_any_outcome((&bad, &never, &minds_of(&pool)));
            assert_eq!(late.submit().unwrap().join().unwrap(), 3);
            drop(jam);
        }
    }

    fn minds_of(pool: &Pool) -> Dependency {
        let task = pool.submit(|| ());
        task.cancel();
        task.dependency()
    }

    #[test]
    fn the_deadline_of_one_and_of_the_other() {
        let pool = pool(1);
        let end = Flag::default();
        let long = running(&pool, &end);
        let drops = Drops::default();
        let (one, two) = (drops.value(), drops.value());
        let late = pool.task(move || drop(one)).after(&long);
        let late = late.timeout(Duration::from_millis(1)).submit().unwrap();
        let after = pool.submit_after(&late, move || drop(two));
        let error = after.join().unwrap_err();
        assert!(error.failed_dependency().unwrap().is_deadline());
        assert_eq!(failed(&error), (late.id(), false));
        assert!(late.join().unwrap_err().is_deadline());
        assert_eq!(drops.seen(), 2, "although the first one still runs");
        end.set();
        long.join().unwrap();
        let total = pool.task_metrics().total();
        assert_eq!((total.expired, total.cancelled), (1, 1));
    }

    #[test]
    fn cancelled_while_it_waits_by_its_handle_or_its_token() {
        let pool = pool(1);
        let (end, token) = (Flag::default(), CancelToken::new());
        let long = running(&pool, &end);
        let drops = Drops::default();
        let (one, two) = (drops.value(), drops.value());
        let held = pool.submit_after(&long, move || drop(one));
        let with_token = pool.task(move || drop(two)).after(&long);
        let with_token = with_token.token(&token).submit().unwrap();
        assert!(held.cancel());
        assert_eq!(drops.seen(), 1, "its closure is dropped at once");
        assert!(!held.cancel() && !held.set_priority(Priority::High));
        token.cancel();
        assert_eq!(drops.seen(), 2);
        let too_late = pool.task(|| ()).after(&long).token(&token);
        let too_late = too_late.submit().unwrap();
        for handle in [held, with_token, too_late] {
            assert!(handle.is_finished());
            let error = handle.join().unwrap_err();
            assert!(error.is_cancelled() && error.failed_dependency().is_none());
        }
        end.set();
        long.join().unwrap();
        adds_up(&pool);
    }

    #[test]
    fn panics_in_dropped_closures_harm_no_other_task() {
        let told = Panics::default();
        let pool = told.pool(0);
        let drops = Drops::default();
        let bad = pool.submit(|| ());
        let handles: Vec<_> = (0..3)
            .map(|_| {
                let bomb = drops.bomb("a bomb");
                pool.submit_after(&bad, move || drop(bomb))
            })
            .collect();
        let last = pool.submit_after(&handles, || ());
        bad.cancel();
        assert!(last.is_finished() && handles.iter().all(TaskHandle::is_finished));
        assert_eq!((told.take().len(), drops.seen()), (3, 3));
    }

    #[test]
    fn a_destructor_joins_another_one_that_fails_too() {
        struct Joins(Option<TaskHandle<()>>);
        impl Drop for Joins {
            fn drop(&mut self) {
                let error = self.0.take().unwrap().join().unwrap_err();
                assert!(error.is_cancelled());
            }
        }
        within(LIMIT, || {
            let pool = pool(1);
            let end = Flag::default();
            let long = running(&pool, &end);
            let bad = pool.submit(|| ());
            // Whichever of the two is notified first, the other is not notified before.
            let (one, two) = (
                pool.submit_after(&bad, || ()),
                pool.submit_after(&bad, || ()),
            );
            let joins_one = Joins(Some(one));
            let first = pool.submit_after(&bad, move || drop(joins_one));
            let joins_two = Joins(Some(two));
            let _second = pool.submit_after(&bad, move || drop(joins_two));
            assert!(bad.cancel());
            assert!(first.join().unwrap_err().is_cancelled());
            end.set();
            long.join().unwrap();
        });
    }

    #[test]
    fn a_group_hears_of_it() {
        let pool = pool(1);
        let bad: TaskHandle<()> = pool.submit(|| quiet_panic("no luck"));
        let end = Flag::default();
        let mut group = pool.group();
        let gate = running(&pool, &end);
        group.task(|| 1).after(&gate).submit().unwrap();
        group.task(|| 2).after(&bad).submit().unwrap();
        let error = group.try_join_all().unwrap_err();
        assert_eq!(failed(&error).0, bad.id());
        end.set();
    }
}

mod waiting {
    use super::*;

    #[test]
    fn a_worker_runs_what_it_waits_for() {
        within(LIMIT, || {
            let pool = pool(1);
            let sum = pool.submit(|| {
                let a = filch::submit(|| 1);
                let b = filch::submit_after(&a, || 2);
                let c = filch::submit_after((&a, &b), || 4);
                let last = filch::task(|| 8).after(&c).priority(Priority::Low);
                let last = last.submit().unwrap();
                last.join().unwrap() + c.join().unwrap() + b.join().unwrap() + a.join().unwrap()
            });
            assert_eq!(sum.join().unwrap(), 15);
        });
    }

    #[test]
    fn in_an_isolated_task_nothing_else_is_run() {
        within(LIMIT, || {
            let pool = pool(0);
            let other = Flag::default();
            let seen = other.clone();
            let sum = pool.submit(move || {
                let (flag, first) = (other.clone(), filch::submit(|| 1));
                filch::spawn(move || flag.set());
                filch::isolate(|| {
                    let next = filch::submit_after(&first, || 2);
                    let last = filch::submit_after(&next, || 3);
                    let last = last.join().unwrap();
                    assert!(!other.is_set(), "what is no part of it waits");
                    last
                })
            });
            assert_eq!(sum.join().unwrap(), 3);
            drop(pool);
            assert!(seen.is_set());
        });
    }

    /// A worker waits in an isolated task; what is ready is in a queue that it does not serve.
    #[test]
    fn an_isolated_worker_hears_of_what_becomes_ready_elsewhere() {
        within(LIMIT, || {
            let (one, none) = (pool(1), pool(0));
            let (end, joins) = (Flag::default(), Flag::default());
            let (long, other) = running_elsewhere(&none, &end);
            let is_joining = joins.clone();
            let sum = one.submit(move || {
                let a = filch::submit_after(&long, || 1);
                let b = filch::submit_after(&a, || 2);
                is_joining.set();
                filch::isolate(|| b.join().unwrap()) + a.join().unwrap()
            });
            joins.wait("the worker");
            thread::sleep(Duration::from_millis(5)); // so that it most likely sleeps
            end.set();
            assert_eq!(sum.join().unwrap(), 3);
            other.join().unwrap();
        });
    }

    /// In a pool without workers only the joiner runs what becomes ready.
    #[test]
    fn a_thread_from_outside_hears_of_it_too() {
        within(LIMIT, || {
            let pool = pool(0);
            let end = Flag::default();
            let (long, other) = running_elsewhere(&pool, &end);
            let mut chain = vec![pool.submit_after(&long, || 0)];
            for n in 1..5 {
                chain.push(pool.submit_after(chain.last(), move || n));
            }
            let last = chain.pop().unwrap();
            let waiting = thread::spawn(move || last.join().unwrap());
            thread::sleep(Duration::from_millis(5)); // so that it most likely sleeps
            end.set();
            assert_eq!(waiting.join().unwrap(), 4);
            other.join().unwrap();
            assert!(chain.iter().all(TaskHandle::is_finished));
            adds_up(&pool);
        });
    }

    #[test]
    fn a_future_runs_them_in_a_pool_without_workers() {
        within(LIMIT, || {
            let pool = pool(0);
            let first = pool.submit(|| 1);
            let next = pool.submit_after(&first, || 2);
            let mut last = pin!(pool.submit_after(&next, || 3));
            let mut cx = Context::from_waker(Waker::noop());
            let Poll::Ready(result) = last.as_mut().poll(&mut cx) else {
                panic!("no other thread is there to run it");
            };
            assert_eq!(result.unwrap(), 3);
            // One of them runs elsewhere: then it is woken when its turn comes.
            let end = Flag::default();
            let (long, other) = running_elsewhere(&pool, &end);
            let middle = pool.submit_after(&long, || 4);
            let last = pool.submit_after(&middle, || 5);
            let waiting = thread::spawn(move || crate::support::block_on(last).unwrap());
            thread::sleep(Duration::from_millis(5)); // so that it most likely sleeps
            end.set();
            assert_eq!(waiting.join().unwrap(), 5);
            other.join().unwrap();
        });
    }

    #[test]
    fn with_a_limit_of_time() {
        for workers in [0, 2] {
            let pool = pool(workers);
            let (first, end) = (pool.submit(|| 1), Flag::default());
            let next = pool.submit_after(&first, || 2);
            let result = next.join_timeout(LIMIT).expect("in time");
            assert_eq!(result.unwrap(), 2);
            if workers > 0 {
                let long = running(&pool, &end);
                let held = pool.submit_after(&long, || 3);
                let start = Instant::now();
                let held = held.join_timeout(Duration::from_millis(5)).unwrap_err();
                assert!(start.elapsed() >= Duration::from_millis(5));
                end.set();
                assert_eq!(held.join_timeout(LIMIT).unwrap().unwrap(), 3);
            }
        }
    }

    #[test]
    fn a_wait_for_what_is_below_is_reported() {
        for workers in [0, 1] {
            let errors = within(LIMIT, move || {
                let pool = pool(workers);
                let task = pool.submit(|| {
                    let this = filch::current_task().unwrap();
                    let next = filch::submit_after(&this, || 1);
                    let last = filch::submit_after(&next, || 2);
                    let keep = next.dependency();
                    (last.join().unwrap_err(), next.join().unwrap_err(), keep)
                });
                let (one, two, keep) = task.join().unwrap();
                // The tasks go on all the same.
                pool.submit_after(&keep, || ()).join().unwrap();
                [one, two]
            });
            assert!(errors.iter().all(TaskError::is_deadlock), "{errors:?}");
        }
    }

    #[test]
    fn a_worker_that_is_meant_for_it_runs_it() {
        within(LIMIT, || {
            let pool = pool(2);
            let first = pool.submit(|| ());
            for worker in [0, 1, 0, 1] {
                let task = pool.task(filch::current_worker).after(&first);
                let task = task.affinity(Affinity::Worker(worker)).submit().unwrap();
                assert!(task.join().unwrap().is_some());
            }
        });
    }
}

mod the_end {
    use super::*;

    #[test]
    fn a_pool_that_is_dropped_runs_what_waits_for_its_own_tasks() {
        for workers in [0, 1, 2] {
            let log = Log::default();
            within(LIMIT, {
                let log = log.clone();
                move || {
                    let pool = pool(workers);
                    let mut last = pool.submit(log.note(0));
                    for n in 1..50 {
                        last = pool.submit_after(&last, log.note(n));
                    }
                    last.detach();
                }
            });
            assert_eq!(log.take(), (0..50).collect::<Vec<_>>());
        }
    }

    #[test]
    fn shutdown_now_cancels_what_waits() {
        for workers in [0, 1] {
            let pool = pool(workers);
            let end = Flag::default();
            let first = match workers {
                0 => pool.submit(|| ()),
                _ => running(&pool, &end),
            };
            let next = pool.submit_after(&first, || unreachable!());
            let clone = pool.clone();
            let ends = thread::spawn(move || pool.shutdown_now());
            if workers > 0 {
                until("it is asked to stop", || {
                    clone.task(|| ()).try_submit().is_err()
                });
                end.set();
            }
            ends.join().unwrap();
            assert!(next.join().unwrap_err().is_cancelled());
            adds_up(&clone);
        }
    }

    #[test]
    fn a_pool_does_not_wait_for_those_of_others() {
        within(LIMIT, || {
            let (here, there) = (pool(1), pool(0));
            let never = there.submit(|| 1);
            let held = here.submit_after(&never, || 2);
            let metrics = here.clone();
            here.shutdown();
            let refused = metrics.task(|| 3).after(&never).submit().unwrap_err();
            assert!(refused.is_closed());
            assert_eq!(never.join().unwrap(), 1);
            assert!(held.join().unwrap_err().is_refused());
            adds_up(&metrics);
            // A pool that is gone altogether.
            let (here, never) = (pool(1), there.submit(|| 1));
            let held = here.submit_after(&never, || 2);
            drop(here);
            assert!(held.join().unwrap_err().is_refused());
            never.detach();
        });
    }

    #[test]
    fn memory_is_given_back() {
        let pool = pool(1);
        let end = Flag::default();
        let long = running(&pool, &end);
        let drops = Drops::default();
        for _ in 0..2_000 {
            let value = drops.value();
            let held = pool.submit_after(&long, move || drop(value));
            assert!(held.cancel());
        }
        assert_eq!(drops.seen(), 2_000);
        let (send, receive) = mpsc::channel();
        let after = pool.submit_after(&long, move || send.send(1).unwrap());
        drop(after);
        end.set();
        assert_eq!(receive.recv_timeout(LIMIT), Ok(1));
        // The task has sent that, and is counted when it is over.
        let metrics = pool.clone();
        pool.shutdown();
        adds_up(&metrics);
    }
}

mod long_chains {
    use super::*;

    /// More than any stack takes, and fewer where each takes more.
    const MANY: usize = if cfg!(debug_assertions) {
        100_000
    } else {
        1_000_000
    };

    /// A chain of tasks behind `first`; gives the last one.
    fn chain(pool: &Pool, first: &TaskHandle<()>, count: &Arc<AtomicUsize>) -> TaskHandle<()> {
        let mut last = None;
        for _ in 0..MANY {
            let count = count.clone();
            let work = move || _ = count.fetch_add(1, SeqCst);
            let next = pool.submit_after(last.as_ref().unwrap_or(first), work);
            last = Some(next);
        }
        last.unwrap()
    }

    #[test]
    fn end_by_running_by_joining_and_by_failing() {
        within(LIMIT, || {
            let pool = pool(1);
            for cancelled in [false, true] {
                let (end, count) = (Flag::default(), Arc::default());
                let gate = running(&pool, &end);
                let first = pool.submit_after(&gate, || ());
                let last = chain(&pool, &first, &count);
                if cancelled {
                    assert!(first.cancel());
                    assert_eq!(failed(&last.join().unwrap_err()).0, first.id());
                    end.set();
                } else {
                    end.set();
                    until_long("the last one has run", || last.is_finished());
                }
                gate.join().unwrap();
                assert_eq!(count.load(SeqCst), if cancelled { 0 } else { MANY });
            }
            adds_up(&pool);
        });
    }

    #[test]
    fn end_with_their_joiner_and_with_their_pool() {
        within(LIMIT, || {
            let none = pool(0);
            let count = Arc::default();
            let first = none.submit(|| ());
            chain(&none, &first, &count).join().unwrap();
            assert_eq!(count.load(SeqCst), MANY);
            let first = none.submit(|| ());
            chain(&none, &first, &count).detach();
            drop((first, none));
            assert_eq!(count.load(SeqCst), 2 * MANY);
        });
    }

    fn until_long(what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < LIMIT, "waited in vain: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Random graphs of tasks, with panics, cancels, deadlines and pools that end in the middle of it.
mod random {
    use super::*;
    use filch::Rng;
    use std::{
        collections::{HashMap, HashSet},
        ops::Range,
        sync::atomic::AtomicU8,
    };

    const TASKS: usize = 600;
    const THREADS: usize = 2;
    const PANIC: &str = "one of the panics";

    /// What is known of all tasks of a round.
    struct Ledger {
        /// How many submissions have begun.
        begun: AtomicUsize,
        called: Vec<AtomicU8>,
        dropped: Vec<AtomicU8>,
        /// Those that can be waited for: the number of a task, and the task.
        known: Mutex<Vec<(usize, Dependency)>>,
        /// What each waits for, and whether it minds how that ends.
        edges: Vec<Mutex<Vec<(usize, bool)>>>,
        /// What became of those that were joined: true for a value.
        ends: Vec<Mutex<Option<bool>>>,
    }

    /// A closure's share of the ledger.
    struct Entry(Arc<Ledger>, usize);

    impl Drop for Entry {
        fn drop(&mut self) {
            self.0.dropped[self.1].fetch_add(1, SeqCst);
        }
    }

    impl Ledger {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                begun: AtomicUsize::new(0),
                called: (0..TASKS).map(|_| AtomicU8::new(0)).collect(),
                dropped: (0..TASKS).map(|_| AtomicU8::new(0)).collect(),
                known: Mutex::default(),
                edges: (0..TASKS).map(|_| Mutex::default()).collect(),
                ends: (0..TASKS).map(|_| Mutex::default()).collect(),
            })
        }

        /// Whether task `n` waits for `other`, at once or by way of others that mind.
        fn waits_for(&self, n: usize, other: usize) -> bool {
            let (mut seen, mut next) = (HashSet::new(), vec![n]);
            while let Some(at) = next.pop() {
                if at == other {
                    return true;
                }
                if seen.insert(at) {
                    let edges = self.edges[at].lock().unwrap();
                    next.extend(edges.iter().filter(|edge| edge.1).map(|edge| edge.0));
                }
            }
            false
        }

        /// Task `n` runs: everything that it waits for has ended, and has run if that matters.
        fn check(&self, n: usize) {
            assert_eq!(self.called[n].fetch_add(1, SeqCst), 0, "called twice");
            for &(other, minds) in &*self.edges[n].lock().unwrap() {
                assert_eq!(self.dropped[other].load(SeqCst), 1, "{other} before {n}");
                let called = self.called[other].load(SeqCst);
                assert!(!minds || called == 1, "{n} runs although {other} did not");
            }
        }

        fn settle(&self, n: usize, result: Result<(), TaskError>) {
            assert_eq!(self.dropped[n].load(SeqCst), 1, "its closure is gone");
            *self.ends[n].lock().unwrap() = Some(result.is_ok());
            let Err(error) = result else { return };
            let called = self.called[n].load(SeqCst);
            assert_eq!(called, u8::from(error.is_panic()), "{error}");
            if error.is_panic() {
                assert_eq!(message(&*error.into_panic()), PANIC);
                return;
            }
            if let Some(failed) = error.failed_dependency() {
                let known: HashMap<_, _> = (self.known.lock().unwrap().iter())
                    .map(|(n, task)| (task.id(), *n))
                    .collect();
                let other = known[&failed.id()];
                assert!(self.waits_for(n, other), "{n} does not wait for {other}");
                let called = self.called[other].load(SeqCst);
                assert_eq!(called, u8::from(failed.is_panic()), "{failed}");
            }
        }
    }

    /// Submits `tasks` to random pools behind random others, cancels and joins some.
    fn submitter(pools: &[Pool], ledger: &Arc<Ledger>, tasks: Range<usize>, seed: u64) {
        let mut rng = Rng::new(seed);
        let token = CancelToken::new();
        let mut handles = Vec::new();
        for n in tasks {
            ledger.begun.fetch_add(1, SeqCst);
            let (kind, entry) = (rng.below(20), Entry(ledger.clone(), n));
            let task = pools[rng.below(pools.len())].task(move || {
                entry.0.check(entry.1);
                match kind {
                    0 => quiet_panic(PANIC),
                    1 => thread::yield_now(),
                    2 => {
                        let inner = filch::submit(|| ());
                        let _ = filch::submit_after(&inner, || ()).join();
                    }
                    _ => {}
                }
            });
            let mut task = task.priority(Priority::ALL[rng.below(4)]);
            for _ in 0..rng.below(4) {
                let known = ledger.known.lock().unwrap();
                let recent = known.len().min(if rng.one_in(4) { TASKS } else { 20 });
                if recent > 0 {
                    let (at, other) = &known[known.len() - 1 - rng.below(recent)];
                    let minds = !rng.one_in(3);
                    ledger.edges[n].lock().unwrap().push((*at, minds));
                    task = match minds {
                        true => task.after(other),
                        false => task.after_any_outcome(other),
                    };
                }
            }
            match rng.below(12) {
                0 => task = task.token(&token),
                1 => task = task.timeout(Duration::from_micros(rng.below(300) as u64)),
                2 => task = task.affinity(Affinity::Node(0)),
                _ => {}
            }
            if let Ok(handle) = task.submit() {
                let known = (n, handle.dependency());
                ledger.known.lock().unwrap().push(known);
                handles.push((n, handle));
            }
            if handles.is_empty() {
                continue;
            }
            let at = rng.below(handles.len());
            match rng.below(12) {
                0 => _ = handles[at].1.cancel(),
                1 => _ = handles[at].1.set_priority(Priority::ALL[rng.below(4)]),
                2 => handles.swap_remove(at).1.detach(),
                3 => {
                    let (n, handle) = handles.swap_remove(at);
                    ledger.settle(n, handle.join());
                }
                4 if rng.one_in(40) => _ = token.cancel(),
                _ => {}
            }
        }
        for (n, handle) in handles {
            ledger.settle(n, handle.join());
        }
    }

    fn round(seed: u64) -> [usize; 2] {
        let mut rng = Rng::new(seed);
        let told = Panics::default();
        // A thread that waits for room cannot do the work of a pool without workers, which may make
        // room.
        let (least, policies) = match rng.one_in(2) {
            true => (0, 2),
            false => (1, 3),
        };
        let pools: Vec<Pool> = (0..2)
            .map(|_| {
                let workers = least + rng.below(3);
                let mut builder = Pool::builder().workers(workers).seed(seed);
                if rng.one_in(3) {
                    let all = [
                        TaskOverflow::Refuse,
                        TaskOverflow::RunInCaller,
                        TaskOverflow::Block,
                    ];
                    let capacity = 1 + rng.below(32);
                    builder = builder.task_capacity(capacity);
                    builder = builder.overflow(all[rng.below(policies)]);
                }
                told.listen(builder).build().unwrap()
            })
            .collect();
        let ledger = Ledger::new();
        thread::scope(|s| {
            let each = TASKS / THREADS;
            for t in 0..THREADS {
                let (pools, ledger) = (&pools, &ledger);
                let seed = seed ^ (t as u64 + 1) << 32;
                s.spawn(move || submitter(pools, ledger, t * each..(t + 1) * each, seed));
            }
            if rng.one_in(2) {
                let (pool, ledger) = (pools[rng.below(2)].clone(), &ledger);
                let (middle, now) = (rng.below(TASKS), rng.one_in(2));
                s.spawn(move || {
                    until("the middle", || ledger.begun.load(SeqCst) >= middle);
                    match now {
                        true => pool.shutdown_now(),
                        false => pool.shutdown(),
                    }
                });
            }
        });
        let metrics = pools.clone();
        pools.into_iter().for_each(Pool::shutdown);
        metrics.iter().for_each(|pool| adds_up(pool));
        assert!(ledger.dropped.iter().all(|n| n.load(SeqCst) == 1));
        assert!(told.take().into_iter().all(|what| what == PANIC));
        let ends: Vec<_> = ledger.ends.iter().map(|end| *end.lock().unwrap()).collect();
        [true, false].map(|good| ends.iter().filter(|end| **end == Some(good)).count())
    }

    #[test]
    fn every_task_runs_after_what_it_waits_for_or_says_why_not() {
        let mut sums = [0; 2];
        let rounds = match std::env::var("FILCH_STRESS") {
            Ok(value) if value == "long" => 1_000,
            _ => 100,
        };
        for seed in 0..rounds {
            println!("round {seed}"); // shown when it fails
            let ends = within(LIMIT, move || round(0xdab + seed));
            sums = [sums[0] + ends[0], sums[1] + ends[1]];
        }
        println!("{sums:?}");
        assert!(sums[0] > 1_000 && sums[1] > 1_000, "{sums:?}");
    }
}
