//! Groups of submitted tasks.

use crate::support::{Drops, Flag, LIMIT, Panics, pool, quiet_panic, until, within};
use filch::{CancelToken, Pool, Priority, TaskGroup, TaskOverflow};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

#[test]
fn results_come_in_the_order_of_submission() {
    for workers in [0, 1, 4] {
        let sums = within(LIMIT, move || {
            let pool = pool(workers);
            let group = |n: u64| {
                let mut group = pool.group();
                for n in 0..n {
                    group.submit(move || n * n);
                }
                group
            };
            let all: Vec<u64> = group(300)
                .join_all()
                .into_iter()
                .map(|result| result.unwrap())
                .collect();
            assert_eq!(all, group(300).try_join_all().unwrap());
            assert_eq!(all, group(300).gather().unwrap());
            assert!(group(0).try_join_all().unwrap().is_empty());
            // Inside a task too.
            let inside = pool.install(|| group(300).try_join_all().unwrap());
            assert_eq!(all, inside);
            all
        });
        assert!(
            sums.iter()
                .enumerate()
                .all(|(n, sum)| (n * n) as u64 == *sum)
        );
    }
}

#[test]
fn wait_leaves_the_results_where_they_are() {
    let pool = pool(2);
    let mut group = pool.group();
    assert!(group.is_empty());
    let ids: Vec<_> = (0..10).map(|n| group.submit(move || n)).collect();
    assert_eq!(group.len(), 10);
    group.wait();
    group.submit(|| 10);
    group.wait();
    let handles = group.into_handles();
    assert!(handles.iter().all(|handle| handle.is_finished()));
    assert!(
        ids.iter().eq(handles[..10]
            .iter()
            .map(|h| h.id())
            .collect::<Vec<_>>()
            .iter())
    );
    let sum: i32 = handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .sum();
    assert_eq!(sum, 55);
}

#[test]
fn the_first_error_cancels_the_rest() {
    within(LIMIT, || {
        let (told, drops) = (Panics::default(), Drops::default());
        let pool = told.pool(2);
        let mut group = pool.group();
        let begun = Flag::default();
        // The first one would never end by itself, and is not the one that fails.
        let begun_too = begun.clone();
        group.submit(move || {
            begun_too.set();
            until("it is cancelled", filch::is_cancelled);
            0
        });
        begun.wait("the endless task");
        group
            .task(|| quiet_panic("first"))
            .name("bad")
            .submit()
            .unwrap();
        for n in 0..100 {
            let value = drops.value();
            group.submit(move || {
                std::thread::sleep(Duration::from_millis(1));
                drop(value);
                n
            });
        }
        let error = group.try_join_all().unwrap_err();
        assert_eq!(error.to_string(), "task `bad` panicked: first");
        assert_eq!(drops.seen(), 100, "all others have ended");
        let total = pool.task_metrics().total();
        assert_eq!(
            total.submitted,
            total.finished + total.panicked + total.cancelled
        );
        assert_eq!(total.panicked, 1);
        assert!(told.take().is_empty());
    });
}

#[test]
fn an_error_ends_the_wait_for_those_before_it() {
    within(LIMIT, || {
        // The waiting thread sleeps, or helps, when the error comes.
        for inside in [false, true] {
            let pool = pool(3);
            let (begun, go) = (Flag::default(), Flag::default());
            let (begun_too, go_too) = (begun.clone(), go.clone());
            let mut group: TaskGroup<()> = pool.group();
            group.submit(move || {
                begun_too.set();
                until("it is cancelled", filch::is_cancelled);
            });
            begun.wait("the endless task");
            let failing = Flag::default();
            let failing_too = failing.clone();
            group.submit(move || {
                failing_too.set();
                go_too.wait("the word");
                quiet_panic("late")
            });
            failing.wait("the task that will fail");
            let later = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(10));
                go.set();
            });
            let error = match inside {
                true => pool.install(|| group.try_join_all().unwrap_err()),
                false => group.try_join_all().unwrap_err(),
            };
            assert!(error.is_panic());
            later.join().unwrap();
        }
    });
}

#[test]
fn all_errors_can_be_gathered() {
    let pool = pool(2);
    let mut group = pool.group();
    let token = CancelToken::new();
    token.cancel();
    group.submit(|| 1);
    group.submit(|| quiet_panic("one"));
    group.task(|| 2).token(&token).submit().unwrap();
    group
        .task(|| quiet_panic("two"))
        .priority(Priority::High)
        .submit()
        .unwrap();
    let late = group.task(|| 3).timeout(Duration::ZERO);
    late.submit().unwrap();
    let errors = group.gather().unwrap_err();
    let kinds: Vec<_> = errors
        .iter()
        .map(|error| (error.is_panic(), error.is_cancelled(), error.is_deadline()))
        .collect();
    let expected = [
        (true, false, false),
        (false, true, false),
        (true, false, false),
        (false, true, true),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_member_that_was_cancelled_is_an_error() {
    let pool = pool(1);
    let token = CancelToken::new();
    let mut group = pool.group();
    group.submit(|| 1);
    token.cancel();
    group.task(|| 2).token(&token).submit().unwrap();
    assert!(group.try_join_all().unwrap_err().is_cancelled());
}

#[test]
fn cancel_all_spares_what_comes_later() {
    let pool = pool(0);
    let mut group = pool.group();
    for n in 0..10 {
        group.submit(move || n);
    }
    assert_eq!(group.cancel_all(), 10);
    assert_eq!(group.cancel_all(), 0);
    group.submit(|| 10);
    let results = group.join_all();
    let cancelled = results.iter().filter(|result| result.is_err()).count();
    assert_eq!((cancelled, results.len()), (10, 11));
}

#[test]
fn dropping_a_group_cancels_and_detaching_does_not() {
    let drops = Drops::default();
    let pool = pool(0);
    let ran = Arc::new(AtomicUsize::new(0));
    let group = || {
        let mut group = pool.group();
        for _ in 0..5 {
            let (ran, value) = (ran.clone(), drops.value());
            group.submit(move || {
                ran.fetch_add(1, SeqCst);
                drop(value);
            });
        }
        group
    };
    drop(group());
    assert_eq!((ran.load(SeqCst), drops.seen()), (0, 5));
    group().detach();
    pool.clone().shutdown();
    assert_eq!((ran.load(SeqCst), drops.seen()), (5, 10));
}

#[test]
fn a_refused_member_is_an_error_or_comes_back() {
    let builder = Pool::builder().workers(0).task_capacity(1);
    let pool = builder.overflow(TaskOverflow::Refuse).build().unwrap();
    let mut group = pool.group();
    group.submit(|| 1);
    let refused = group.task(|| 2).submit().unwrap_err();
    assert!(refused.is_full());
    assert_eq!(refused.into_inner()(), 2);
    assert!(group.task(|| 3).try_submit().is_err());
    assert!(group.task(|| 3).submit_timeout(Duration::ZERO).is_err());
    assert_eq!(group.len(), 1, "what came back is no member");
    assert_eq!(group.try_join_all().unwrap(), [1]);
    let mut group = pool.group();
    group.submit(|| 1);
    group.submit(|| 2);
    let error = group.try_join_all().unwrap_err();
    assert!(error.is_refused(), "{error}");
}

#[test]
fn values_that_are_not_taken_may_panic_when_dropped() {
    let drops = Drops::default();
    let pool = pool(1);
    let mut group = pool.group();
    for _ in 0..3 {
        let value = drops.bomb("value");
        group.submit(move || Some(value));
    }
    group.submit(|| quiet_panic("the error"));
    let error = group.try_join_all().err().unwrap();
    assert!(error.is_panic());
    assert_eq!(drops.seen(), 3);
}

#[test]
fn a_task_of_a_group_that_waits_for_the_group_gets_an_error() {
    within(LIMIT, || {
        let pool = pool(1);
        let (send, receive) = std::sync::mpsc::channel::<TaskGroup<bool>>();
        let mut group = pool.group();
        let (told, heard) = std::sync::mpsc::channel();
        group.submit(move || {
            let mut group = receive.recv().unwrap();
            group.wait();
            told.send(group.try_join_all().unwrap_err().is_deadlock())
                .unwrap();
            true
        });
        send.send(group).unwrap();
        assert!(heard.recv().unwrap());
    });
}
