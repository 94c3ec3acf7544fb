//! Handles that end their tasks, ids, tokens that many tasks share, and the counters of both.

use crate::support::{Drops, Flag, LIMIT, pool, until, within};
use filch::{CancelToken, Pool, current_task_id};
use std::{sync::mpsc, time::Duration};

#[test]
fn a_dropped_guard_ends_a_task_that_waits() {
    within(LIMIT, || {
        let (pool, drops) = (pool(0), Drops::default());
        let owned = drops.value();
        let task = pool.submit(move || drop(owned)).cancel_on_drop();
        assert!(!task.is_finished());
        drop(task);
        assert_eq!(drops.seen(), 1, "the closure is dropped at once");
        let counts = pool.task_metrics().total();
        assert_eq!((counts.cancelled, counts.stopped), (1, 0));
    });
}

#[test]
fn a_guard_gives_the_handle_back_and_is_a_future() {
    within(LIMIT, || {
        let pool = pool(1);
        let task = pool.submit(|| 1).cancel_on_drop();
        assert_eq!(task.into_inner().join().unwrap(), 1);
        let task = pool.submit(|| 2).cancel_on_drop();
        assert_eq!(pool.block_on(task).unwrap(), 2);
        let future = pool.spawn_future(async { 3 }).cancel_on_drop();
        assert_eq!(pool.block_on(future).unwrap(), 3);
        let counts = pool.task_metrics().total();
        assert_eq!(
            (counts.finished, counts.cancelled, counts.stopped),
            (2, 0, 0)
        );
    });
}

#[test]
fn a_task_that_is_cancelled_while_it_runs_is_counted_as_stopped() {
    within(LIMIT, || {
        let run = |pool: &Pool, token: &CancelToken| {
            let begun = Flag::default();
            let started = begun.clone();
            let task = pool.task(move || {
                started.set();
                while !filch::is_cancelled() {
                    std::thread::yield_now();
                }
            });
            let task = task.token(token).submit().unwrap();
            begun.wait("the task to begin");
            task
        };
        let (pool, token) = (pool(1), CancelToken::new());
        // By its handle, by a guard, and by its token.
        let task = run(&pool, &token);
        assert!(!task.cancel() && !token.is_cancelled());
        task.join().unwrap();
        drop(run(&pool, &token).cancel_on_drop());
        let task = run(&pool, &token);
        token.cancel();
        task.join().unwrap();
        // One that is not, and one whose deadline passes while it runs.
        pool.submit(|| ()).join().unwrap();
        let late = pool.task(|| until("the deadline", filch::is_cancelled));
        let late = late.timeout(Duration::from_millis(200)).submit().unwrap();
        let started_late = late.join().is_err();
        let counts = pool.task_metrics().total();
        assert_eq!(counts.stopped, 4 - u64::from(started_late));
        assert_eq!(counts.finished, 5 - u64::from(started_late));
        assert_eq!(counts.cancelled, 0);
    });
}

#[test]
fn a_task_has_a_token_of_its_own_below_the_shared_one() {
    within(LIMIT, || {
        let (pool, shared) = (pool(2), CancelToken::new());
        let (send, receive) = mpsc::channel();
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let send = send.clone();
                let task = pool.task(move || {
                    let own = filch::current_task().unwrap().token();
                    send.send(own.clone()).unwrap();
                    own.wait();
                });
                task.token(&shared).submit().unwrap()
            })
            .collect();
        let tokens: Vec<_> = (0..2)
            .map(|_| receive.recv_timeout(LIMIT).unwrap())
            .collect();
        tasks[0].cancel();
        until("its own token is cancelled", || {
            tokens.iter().any(CancelToken::is_cancelled)
        });
        let cancelled = tokens.iter().filter(|token| token.is_cancelled()).count();
        assert_eq!((cancelled, shared.is_cancelled()), (1, false));
        shared.cancel();
        assert!(tokens.iter().all(CancelToken::is_cancelled));
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn one_token_cancels_every_queued_task() {
    within(LIMIT, || {
        const TASKS: usize = 3_000;
        let (pool, token, drops) = (pool(0), CancelToken::new(), Drops::default());
        let submit = |_| {
            let owned = drops.value();
            pool.task(move || drop(owned))
                .token(&token)
                .submit()
                .unwrap()
        };
        let tasks: Vec<_> = (0..TASKS).map(submit).collect();
        assert!(tasks[7].cancel() && !token.is_cancelled());
        token.cancel();
        assert_eq!(drops.seen(), TASKS);
        assert!(submit(0).join().unwrap_err().is_cancelled(), "too late");
        assert!(
            tasks
                .into_iter()
                .all(|task| task.join().unwrap_err().is_cancelled())
        );
        assert_eq!(pool.task_metrics().total().cancelled, TASKS as u64 + 1);
    });
}

#[test]
fn tasks_and_futures_share_their_ids() {
    within(LIMIT, || {
        assert_eq!(current_task_id(), None);
        let pool = pool(1);
        let task = pool.submit(current_task_id);
        let future =
            pool.spawn_future(async { (current_task_id(), filch::current_task().is_none()) });
        let (task_id, future_id) = (task.id(), future.id());
        assert_ne!(task_id, future_id);
        assert_eq!(task.join().unwrap(), Some(task_id));
        assert_eq!(future.join().unwrap(), (Some(future_id), true));
        // A task that is nested in a poll has its own id, and the poll has its own afterwards.
        let both = pool.spawn_future(async {
            let inner = filch::submit(current_task_id);
            let inner_id = inner.id();
            (inner.join().unwrap() == Some(inner_id), current_task_id())
        });
        let id = both.id();
        assert_eq!(both.join().unwrap(), (true, Some(id)));
    });
}
