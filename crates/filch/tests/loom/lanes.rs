//! Lanes and boxes: no task stays behind in one with everybody asleep, on the production step; and calling one
//! certain worker.

use super::{
    caught, model,
    sleep::{core, until_asleep},
};
use filch::{
    base::canary::Canary,
    engine::{
        Level, Placement, Sleep,
        sleep::{Announced, Awake},
    },
};
use loom::{sync::Arc, thread};

/// `count` Critical tasks come from outside while the only worker falls asleep: they are run, or the worker is woken.
fn urgent_against_sleep(count: usize) {
    let core = core(1);
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 0))
    };
    for task in 0..count {
        core.inject(task, Placement::Lane(Level::Critical)).unwrap();
    }
    let (ran, asleep) = sleeper.join().unwrap();
    let on_the_way = !asleep || core.sleep().searching() > 0;
    assert!(
        ran == count || on_the_way,
        "{ran} of {count} tasks have run, and everybody sleeps"
    );
    assert!(ran == count || core.has_work(), "a task that nobody sees");
}

#[test]
fn an_urgent_task_wakes_somebody() {
    model(Some(3), || urgent_against_sleep(1));
}

#[test]
fn canary_lane_without_its_flag() {
    caught(Canary::LaneFlag, Some(3), || urgent_against_sleep(1));
}

#[test]
fn canary_last_look_without_the_lanes() {
    caught(Canary::LaneLastLook, Some(3), || urgent_against_sleep(1));
}

#[test]
fn canary_urgent_task_without_a_look_at_the_sleepers() {
    caught(Canary::PushWake, Some(3), || urgent_against_sleep(1));
}

/// The second task comes while the first is taken: the flag is up as long as one of them is there.
#[test]
fn a_flag_says_what_is_true() {
    model(Some(2), || urgent_against_sleep(2));
}

#[test]
fn canary_flag_that_is_lowered_late() {
    caught(Canary::LaneLower, Some(2), || urgent_against_sleep(2));
}

/// A task comes for a worker that falls asleep.
fn boxed_against_sleep() {
    let core = core(1);
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 0))
    };
    core.inject(7, Placement::Affine(0)).unwrap();
    let (ran, asleep) = sleeper.join().unwrap();
    assert!(
        ran > 0 || !asleep || core.sleep().searching() > 0,
        "a task is in the box of a worker that sleeps"
    );
}

#[test]
fn a_task_in_a_box_wakes_its_worker() {
    model(Some(3), boxed_against_sleep);
}

#[test]
fn canary_last_look_without_the_boxes() {
    caught(Canary::AffineLastLook, Some(3), boxed_against_sleep);
}

/// A task comes from outside, rather for worker `near`, while worker 0 falls asleep; there is no worker 1.
fn near_against_sleep(near: usize) {
    let core = core(2);
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 0))
    };
    core.inject(7, Placement::InjectorNear(near)).unwrap();
    let (ran, asleep) = sleeper.join().unwrap();
    assert!(
        ran > 0 || !asleep || core.sleep().searching() > 0,
        "a task from outside, and everybody sleeps"
    );
}

#[test]
fn a_task_for_a_worker_nearby_wakes_somebody() {
    model(Some(3), || near_against_sleep(0));
    model(Some(3), || near_against_sleep(1));
}

#[test]
fn canary_task_nearby_without_a_look_at_the_sleepers() {
    caught(Canary::PushWake, Some(3), || near_against_sleep(0));
}

/// A busy worker that stays in its task spawns one for `owner`, while worker 1 falls asleep: worker 1 runs it, or is
/// on the way.
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
        // For ever in this task, as far as the others can tell.
        std::mem::forget(cx);
    });
    std::mem::forget((busy, step));
    let (ran, _) = sleeper.join().unwrap();
    assert!(
        ran > 0 || core.sleep().searching() > 0,
        "a task waits in a box, and the only one who is free sleeps"
    );
}

#[test]
fn a_task_for_one_who_falls_asleep_is_run() {
    model(Some(2), || spawn_for_against_sleep(1));
}

#[test]
fn a_task_for_one_who_is_busy_is_run_by_another() {
    model(Some(2), || spawn_for_against_sleep(0));
}

#[test]
fn canary_box_of_a_busy_worker_without_the_last_look() {
    caught(Canary::AffineLastLook, Some(2), || {
        spawn_for_against_sleep(0);
    });
}

/// Two workers sleep, 1 at the head of the list.
fn two_asleep() -> Arc<Sleep> {
    let sleep = Arc::new(Sleep::new(2, true));
    for worker in [0, 1] {
        assert!(sleep.start_search(2));
        let _ = sleep.announce(worker, true, true);
    }
    sleep
}

/// A worker is called while it wakes by itself: it counts as searching if it was called, and notices.
#[test]
fn a_call_meets_one_who_wakes_by_itself() {
    model(None, || {
        let sleep = two_asleep();
        let caller = {
            let sleep = sleep.clone();
            thread::spawn(move || sleep.call(0))
        };
        let awake = sleep.wake_up(0);
        let called = caller.join().unwrap();
        assert_eq!(called, awake == Awake::Woken);
        assert_eq!(sleep.state().searching(), usize::from(called));
        // Its entry, somewhere in the list, is stale; that of the other is good.
        assert_eq!(sleep.wake_any(), Some(1));
        assert_eq!(sleep.wake_any(), None);
    });
}

/// One worker is called while somebody is woken: each that is woken counts once, and nobody is lost from the list.
#[test]
fn a_call_meets_a_wake() {
    for called in [0, 1] {
        model(None, move || {
            let sleep = two_asleep();
            let waker = {
                let sleep = sleep.clone();
                thread::spawn(move || sleep.wake_one(None))
            };
            let call = sleep.call(called);
            let woken = waker.join().unwrap();
            assert!(call || woken.is_some(), "nobody was woken");
            let up = |worker| usize::from(sleep.is_woken(worker));
            assert_eq!(sleep.state().searching(), up(0) + up(1));
            while sleep.wake_any().is_some() {}
            assert!(up(0) + up(1) == 2, "somebody sleeps and is in no list");
            for worker in [0, 1] {
                assert_eq!(sleep.wake_up(worker), Awake::Woken);
            }
        });
    }
}

/// A worker that may not search is called in the middle of its announcement.
fn call_against_announcement() {
    let sleep = Arc::new(Sleep::new(1, true));
    let caller = {
        let sleep = sleep.clone();
        thread::spawn(move || sleep.call(0))
    };
    let announced = sleep.announce(0, false, true);
    let called = caller.join().unwrap();
    let noticed = match announced {
        Announced::Woken => true,
        // It counted as searching when it announced itself, for it was about to be called.
        Announced::Listed => sleep.is_woken(0),
        Announced::MustSearch => false,
        other => panic!("{other:?}"),
    };
    assert_eq!(called, noticed, "called, and did not notice");
    assert_eq!(sleep.state().searching(), usize::from(called));
}

#[test]
fn a_call_on_the_way_back_is_noticed() {
    model(None, call_against_announcement);
}

#[test]
fn canary_call_that_is_not_noticed() {
    caught(Canary::CallBack, None, call_against_announcement);
}
