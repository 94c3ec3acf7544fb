//! Lanes and mailboxes: no task is left in one while all workers sleep, with the production step;
//! and wakes of one particular worker.

use crate::{
    base::canary::Canary,
    engine::{
        Placement, Priority,
        loom_tests::{Engine, core, core_of_two_nodes, until_asleep},
        sleep::{Announced, Awake, SleeperList},
    },
    loom_tests::{caught, model},
};
use loom::{sync::Arc, thread};

/// `count` Critical tasks are injected while the only worker falls asleep: the worker runs them, or
/// is woken.
fn urgent_against_sleep(count: usize) {
    let core = core(1);
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 0))
    };
    for task in 0..count {
        core.inject(task, Placement::Lane(Priority::Critical))
            .unwrap();
    }
    let (ran, asleep) = sleeper.join().unwrap();
    let is_awake = !asleep || core.sleep_state().searching() > 0;
    assert!(
        ran == count || is_awake,
        "{ran} of {count} tasks have run, and the worker sleeps"
    );
    assert!(ran == count || core.has_work(), "a task is not visible");
}

#[test]
fn an_urgent_task_wakes_a_worker() {
    model(Some(3), || urgent_against_sleep(1));
}

#[test]
fn canary_lane_without_its_flag() {
    caught(Canary::LaneFlag, Some(3), || urgent_against_sleep(1));
}

#[test]
fn canary_final_check_without_the_lanes() {
    caught(Canary::LaneLastCheck, Some(3), || urgent_against_sleep(1));
}

#[test]
fn canary_urgent_push_without_a_wake() {
    caught(Canary::PushWake, Some(3), || urgent_against_sleep(1));
}

/// The second task is pushed while the first is taken: the flag is set while one of them is queued.
#[test]
fn a_flag_is_set_while_its_lane_has_tasks() {
    model(Some(2), || urgent_against_sleep(2));
}

#[test]
fn canary_flag_that_is_lowered_late() {
    caught(Canary::LaneLower, Some(2), || urgent_against_sleep(2));
}

/// An affine task is injected for a worker that falls asleep.
fn affine_against_sleep() {
    placed_against_sleep(&core(1), Placement::Affine(0), 0);
}

#[test]
fn a_task_in_a_mailbox_wakes_its_worker() {
    model(Some(3), affine_against_sleep);
}

#[test]
fn canary_final_check_without_the_mailboxes() {
    caught(Canary::AffineLastCheck, Some(3), affine_against_sleep);
}

/// A task is injected while a worker falls asleep.
fn placed_against_sleep(core: &Arc<Engine>, placement: Placement, worker: usize) {
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, worker))
    };
    core.inject(7, placement).unwrap();
    let (ran, asleep) = sleeper.join().unwrap();
    assert!(
        ran > 0 || !asleep || core.sleep_state().searching() > 0,
        "a task is queued, and all workers sleep"
    );
}

/// A task for a node is injected while a worker falls asleep, of that node or of the other one.
fn node_against_sleep(worker: usize) {
    placed_against_sleep(&core_of_two_nodes(), Placement::AffineNode(0), worker);
}

#[test]
fn a_task_for_a_node_wakes_a_worker() {
    model(Some(3), || node_against_sleep(0));
    model(Some(3), || node_against_sleep(1));
}

#[test]
fn canary_final_check_without_the_mailbox_of_a_node() {
    caught(Canary::AffineLastCheck, Some(3), || node_against_sleep(1));
}

/// The only worker of a node leaves while a task for the node is injected. The other worker sleeps:
/// it is woken, and the task is in the injector.
fn node_against_leave() {
    let core = core_of_two_nodes();
    assert_eq!(until_asleep(&core, 0), (0, true));
    let last = core.enter(1);
    let pusher = {
        let core = core.clone();
        thread::spawn(move || core.inject(7, Placement::AffineNode(1)).unwrap())
    };
    drop(last);
    pusher.join().unwrap();
    assert_eq!(core.injected(), 1, "the task is left in the mailbox");
    assert!(core.sleep_state().searching() > 0, "the worker sleeps");
}

#[test]
fn a_task_for_a_node_whose_last_worker_leaves_is_for_all() {
    model(Some(3), node_against_leave);
}

#[test]
fn canary_mailbox_of_a_node_that_stays_open() {
    caught(Canary::NodeLeaves, Some(3), node_against_leave);
}

/// A task is injected near worker `near` while worker 0 falls asleep. Worker 1 has not entered.
fn near_against_sleep(near: usize) {
    placed_against_sleep(&core(2), Placement::InjectorNear(near), 0);
}

#[test]
fn a_task_near_a_worker_wakes_a_worker() {
    model(Some(3), || near_against_sleep(0));
    model(Some(3), || near_against_sleep(1));
}

#[test]
fn canary_near_push_without_a_wake() {
    caught(Canary::PushWake, Some(3), || near_against_sleep(0));
}

/// A busy worker that stays in its task spawns an affine task for `owner` while worker 1 falls
/// asleep: worker 1 runs it, or is woken.
fn spawn_for_against_sleep(owner: usize) {
    let core = core(2);
    core.inject(1, Placement::Injector).unwrap();
    let mut busy = core.enter(0);
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 1))
    };
    let step = busy.step(|_, mut cx| {
        cx.spawn(2, Placement::Affine(owner));
        // The worker stays in this task.
        std::mem::forget(cx);
    });
    std::mem::forget((busy, step));
    let (ran, _) = sleeper.join().unwrap();
    assert!(
        ran > 0 || core.sleep_state().searching() > 0,
        "a task waits in a mailbox, and the only idle worker sleeps"
    );
}

#[test]
fn a_task_for_a_worker_that_falls_asleep_is_run() {
    model(Some(2), || spawn_for_against_sleep(1));
}

#[test]
fn a_task_for_a_busy_worker_is_run_by_another() {
    model(Some(2), || spawn_for_against_sleep(0));
}

#[test]
fn canary_final_check_without_the_mailbox_of_a_busy_worker() {
    caught(Canary::AffineLastCheck, Some(2), || {
        spawn_for_against_sleep(0);
    });
}

/// Two workers sleep; 1 is at the head of the list.
fn two_asleep() -> Arc<SleeperList> {
    let sleep = Arc::new(SleeperList::new(2, true));
    for worker in [0, 1] {
        assert!(sleep.start_search(2));
        let _ = sleep.announce(worker, true, true);
    }
    sleep
}

/// A worker is called while it wakes by itself: if it was called, it counts as searching and learns
/// of it.
#[test]
fn a_call_and_a_worker_that_wakes_by_itself() {
    model(None, || {
        let sleep = two_asleep();
        let caller = {
            let sleep = sleep.clone();
            thread::spawn(move || sleep.wake_worker(0))
        };
        let awake = sleep.end_sleep(0);
        let called = caller.join().unwrap();
        assert_eq!(called, awake == Awake::Woken);
        assert_eq!(sleep.state().searching(), usize::from(called));
        // Its entry in the list is stale; that of the other worker is valid.
        assert_eq!(sleep.wake_any(), Some(1));
        assert_eq!(sleep.wake_any(), None);
    });
}

/// One worker is called while a worker is woken: each worker that is woken counts once, and the
/// list loses none.
#[test]
fn a_call_and_a_wake() {
    for called in [0, 1] {
        model(None, move || {
            let sleep = two_asleep();
            let waker = {
                let sleep = sleep.clone();
                thread::spawn(move || sleep.wake_one(None, std::iter::empty()))
            };
            let call = sleep.wake_worker(called);
            let woken = waker.join().unwrap();
            assert!(call || woken.is_some(), "no worker was woken");
            let up = |worker| usize::from(sleep.is_woken(worker));
            assert_eq!(sleep.state().searching(), up(0) + up(1));
            while sleep.wake_any().is_some() {}
            assert!(up(0) + up(1) == 2, "a worker sleeps and is in no list");
            for worker in [0, 1] {
                assert_eq!(sleep.end_sleep(worker), Awake::Woken);
            }
        });
    }
}

/// A worker that may not search is called in the middle of its announcement.
fn call_against_announcement() {
    let sleep = Arc::new(SleeperList::new(1, true));
    let caller = {
        let sleep = sleep.clone();
        thread::spawn(move || sleep.wake_worker(0))
    };
    let announced = sleep.announce(0, false, true);
    let called = caller.join().unwrap();
    let knows = match announced {
        Announced::Woken => true,
        // The caller had counted it as searching before it announced itself.
        Announced::Listed => sleep.is_woken(0),
        Announced::MustSearch => false,
        other => panic!("{other:?}"),
    };
    assert_eq!(called, knows, "called, and does not know it");
    assert_eq!(sleep.state().searching(), usize::from(called));
}

#[test]
fn a_call_during_an_announcement_is_not_lost() {
    model(None, call_against_announcement);
}

#[test]
fn canary_call_that_is_lost() {
    caught(Canary::CallBack, None, call_against_announcement);
}
