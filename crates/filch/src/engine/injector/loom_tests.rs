//! The injector: no push is missed, each producer keeps its order, and a close counts every task.

use super::{Injector, Take};
use crate::{
    base::{
        canary::Canary,
        thread::{number, set_number},
    },
    engine::{
        Core, NoObserver, PerWorker, Placement,
        loom_tests::{core, core_of_two_nodes, until_asleep},
    },
    loom_tests::{caught, model},
};
use loom::{sync::Arc, thread};

/// Two nodes with a shard each; producers with an odd number are on the second.
fn two_nodes() -> Arc<Injector<usize>> {
    let producer_node: super::ProducerNode = std::sync::Arc::new(|| Some(number() % 2));
    Arc::new(Injector::for_nodes(usize::MAX, 2, &producer_node))
}

/// Takes up to `most` tasks once, oldest first.
fn take(injector: &Injector<usize>, most: usize) -> Vec<usize> {
    let mut tasks = Vec::new();
    let push = |task| {
        tasks.push(task);
        Ok(())
    };
    if let Take::Taken(first, _) = injector.try_take(most, push) {
        tasks.push(first);
    }
    tasks.reverse();
    tasks
}

/// Takes the rest, and checks that a queue that reports to be empty is empty.
fn take_rest(injector: &Injector<usize>, taken: &mut Vec<usize>) {
    let empty = injector.is_empty();
    let rest: Vec<usize> = std::iter::from_fn(|| injector.take()).collect();
    assert!(!empty || rest.is_empty(), "hidden: {rest:?}");
    taken.extend(rest);
    assert!(injector.is_empty());
    assert_eq!(injector.len(), 0);
}

/// A worker empties a shard while its producer pushes another task.
fn push_against_take() {
    let injector = Arc::new(Injector::unbounded());
    injector.push_batch(vec![1, 2]).unwrap();
    let producer = {
        let injector = injector.clone();
        thread::spawn(move || injector.push(3).unwrap())
    };
    let mut taken = take(&injector, 2);
    producer.join().unwrap();
    take_rest(&injector, &mut taken);
    assert_eq!(taken, [1, 2, 3]);
}

#[test]
fn a_push_is_visible_to_later_takes() {
    model(None, push_against_take);
}

#[test]
fn canary_push_that_sets_no_bit() {
    caught(Canary::InjectorFlag, None, push_against_take);
}

#[test]
fn canary_bit_cleared_without_the_lock() {
    caught(Canary::InjectorLower, None, push_against_take);
}

/// Two workers take from one shard, one task at a time, while its producer pushes more.
fn order_of_one_producer() {
    let injector = Arc::new(Injector::unbounded());
    injector.push_batch(vec![1, 2]).unwrap();
    let producer = {
        let injector = injector.clone();
        thread::spawn(move || injector.push(3).unwrap())
    };
    let mut taken = take(&injector, 1);
    taken.extend(take(&injector, 1));
    taken.extend(take(&injector, 1));
    producer.join().unwrap();
    take_rest(&injector, &mut taken);
    assert_eq!(taken, [1, 2, 3]);
}

#[test]
fn a_producer_keeps_its_order() {
    model(None, order_of_one_producer);
}

#[test]
fn canary_inbox_before_outbox() {
    caught(Canary::InjectorOrder, None, order_of_one_producer);
}

/// Two producers with shards of their own, and a worker.
#[test]
fn producers_of_different_shards_and_a_worker() {
    model(Some(3), || {
        let injector = Arc::new(Injector::bounded(3));
        let producers = [0, 1].map(|number| {
            let injector = injector.clone();
            thread::spawn(move || {
                set_number(number);
                let tasks = vec![10 * number, 10 * number + 1];
                injector.push_batch(tasks).is_ok()
            })
        });
        let mut taken = take(&injector, 1);
        let accepted = producers.map(|producer| producer.join().unwrap());
        take_rest(&injector, &mut taken);
        for (number, accepted) in accepted.into_iter().enumerate() {
            let own: Vec<_> = taken.iter().filter(|&&task| task / 10 == number).collect();
            let pushed = [10 * number, 10 * number + 1];
            assert!(if accepted {
                own == [&pushed[0], &pushed[1]]
            } else {
                own.is_empty()
            });
        }
        assert!(
            accepted.contains(&true),
            "the capacity is enough for one batch"
        );
        // The whole capacity is free again.
        injector.push_batch(vec![1, 2, 3]).unwrap();
        assert_eq!(injector.push(4), Err(4));
    });
}

/// Producers on two nodes, and a worker of the first: it takes from its own node, and then from the
/// other one, whose producer pushes meanwhile.
fn near_before_far() {
    let injector = two_nodes();
    injector.push_batch(vec![1, 2]).unwrap();
    let far = {
        let injector = injector.clone();
        thread::spawn(move || {
            set_number(1);
            injector.push_batch(vec![11, 12]).unwrap();
        })
    };
    let take_near = || match injector.try_take_near(Some(0), 1, Err) {
        Take::Taken(task, _) => Some(task),
        Take::Empty | Take::Busy => None,
    };
    assert_eq!((take_near(), take_near()), (Some(1), Some(2)), "near first");
    let during = take_near();
    far.join().unwrap();
    let rest: Vec<usize> = std::iter::from_fn(take_near).collect();
    assert!(injector.is_empty(), "hidden from a worker of another node");
    let all: Vec<usize> = during.into_iter().chain(rest).collect();
    assert_eq!(all, [11, 12]);
}

#[test]
fn a_worker_takes_near_tasks_and_then_far_ones() {
    model(Some(3), near_before_far);
}

#[test]
fn canary_worker_that_sees_only_its_own_node() {
    caught(Canary::InjectorFar, Some(3), near_before_far);
}

/// A task is injected on one node while the worker of the other one falls asleep.
#[test]
fn a_task_of_another_node_wakes_a_worker() {
    model(Some(3), || {
        let core = core_of_two_nodes();
        let sleeper = {
            let core = core.clone();
            thread::spawn(move || until_asleep(&core, 0))
        };
        set_number(1);
        core.inject(7, Placement::Injector).unwrap();
        let (ran, asleep) = sleeper.join().unwrap();
        assert!(
            ran > 0 || !asleep || core.sleep_state().searching() > 0,
            "a task is queued, and all workers sleep"
        );
    });
}

fn in_flight(core: &Core<usize, PerWorker, NoObserver>) -> i64 {
    core.gate_state().in_flight()
}

/// Two producers against a close: a task is accepted and counted, or refused.
fn inject_against_close() {
    let core = core(1);
    let producer = {
        let core = core.clone();
        thread::spawn(move || {
            set_number(1);
            core.inject(1, Placement::Injector).is_ok()
        })
    };
    core.close();
    assert!(core.inject(2, Placement::Injector).unwrap_err().is_closed());
    let accepted = producer.join().unwrap();
    assert_eq!(in_flight(&core), i64::from(accepted));
    assert_eq!(
        core.is_stopped(),
        !accepted,
        "workers exit when no task is left"
    );
}

#[test]
fn a_close_counts_accepted_tasks() {
    model(None, inject_against_close);
}

#[test]
fn canary_count_before_refusal() {
    caught(Canary::InjectorClose, None, inject_against_close);
}

/// Two threads close, and each collects the count of some shards.
fn two_closes() {
    let core = core(1);
    core.inject(1, Placement::Injector).unwrap();
    set_number(1);
    core.inject(2, Placement::Injector).unwrap();
    let other = {
        let core = core.clone();
        thread::spawn(move || core.close())
    };
    core.close();
    assert!(!core.is_open() && core.inject(3, Placement::Injector).is_err());
    other.join().unwrap();
    assert_eq!((in_flight(&core), core.is_stopped()), (2, false));
}

#[test]
fn two_threads_may_close() {
    model(None, two_closes);
}

#[test]
fn canary_closer_at_rest() {
    caught(Canary::CloseNotBusy, None, two_closes);
}

/// A worker takes two tasks, moves one to its own queue, and stays in the other, while a second
/// worker falls asleep.
fn move_against_final_check() {
    let core = core(2);
    core.inject_batch(vec![1, 2]).unwrap();
    let mut busy = core.enter(0);
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 1))
    };
    // It stays in its task.
    let step = busy.step(|_, cx| std::mem::forget(cx));
    std::mem::forget((busy, step));
    let (ran, asleep) = sleeper.join().unwrap();
    let sleep = core.sleep_state();
    assert!(
        !(core.has_work() && asleep && sleep.searching() == 0),
        "a task waits and all other workers sleep: ran {ran}, {sleep:?}"
    );
}

#[test]
fn a_batch_that_moves_is_visible_in_one_of_the_queues() {
    model(Some(2), move_against_final_check);
}

#[test]
fn canary_bit_cleared_before_the_move() {
    caught(Canary::InjectorEarly, Some(2), move_against_final_check);
}
