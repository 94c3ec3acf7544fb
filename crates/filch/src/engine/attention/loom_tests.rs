//! Attention: while all workers are busy inside tasks, no push into a shared queue is missed.

use crate::{
    base::canary::Canary,
    engine::{
        Placement, Priority, Step,
        loom_tests::{Engine, core},
    },
    loom_tests::{caught, model},
};
use loom::{sync::Arc, thread};

type Push = fn(&Engine);

fn inject(core: &Engine) {
    core.inject(1, Placement::Injector).unwrap();
}

fn inject_urgent(core: &Engine) {
    core.inject(1, Placement::Lane(Priority::Critical)).unwrap();
}

fn inject_future(core: &Engine) {
    core.inject(1, Placement::FutureInjector).unwrap();
}

/// The only worker is inside a task and clears the attention bit during a push.
fn push_against_clear(push: Push) {
    let core = core(1);
    core.inject(0, Placement::Injector).unwrap();
    assert!(core.wants_attention(), "no worker sleeps or searches");
    let mut worker = core.enter(0);
    let step = worker.step(|_, running| {
        let pusher = {
            let core = core.clone();
            thread::spawn(move || push(&core))
        };
        core.clear_unneeded_attention();
        pusher.join().unwrap();
        assert!(
            core.wants_attention(),
            "a task waits, and no attention is requested"
        );
        // The task continues.
        std::mem::forget(running);
    });
    std::mem::forget((worker, step));
}

#[test]
fn a_push_while_attention_is_cleared_is_not_missed() {
    for push in [inject, inject_urgent, inject_future] {
        model(None, move || push_against_clear(push));
    }
}

#[test]
fn canary_push_that_requests_no_attention() {
    // The first push does not request attention either.
    caught(Canary::Attention, None, || push_against_clear(inject));
}

#[test]
fn canary_attention_cleared_without_a_check() {
    caught(Canary::AttentionRecheck, None, || {
        push_against_clear(inject)
    });
}

/// One worker is inside a task and has another one queued. A second worker searches, and finds
/// that task or the urgent one that is pushed meanwhile. If it finds the first, it requests
/// attention, or the pusher does.
fn push_against_end_of_search() {
    let core = core(2);
    core.inject(0, Placement::Injector).unwrap();
    let mut busy = core.enter(0);
    let step = busy.step(|_, mut running| {
        running.try_spawn(7, Placement::Local).unwrap();
        std::mem::forget(running);
    });
    std::mem::forget((busy, step));
    core.clear_unneeded_attention();
    let searcher = {
        let core = core.clone();
        thread::spawn(move || run_one(&core))
    };
    inject_urgent(&core);
    if searcher.join().unwrap() == Some(7) {
        assert!(
            core.wants_attention(),
            "a task waits, and no attention is requested"
        );
    }
}

/// Steps worker 1 until it is inside a task, or sleeps.
fn run_one(core: &Arc<Engine>) -> Option<usize> {
    let (mut worker, mut ran) = (core.enter(1), None);
    loop {
        let step = worker.step(|task, running| {
            ran = Some(task);
            std::mem::forget(running);
        });
        match step {
            Step::Idle(_) => thread::yield_now(),
            Step::Park(token) if worker.is_woken() => worker.resume(token),
            step => {
                std::mem::forget((worker, step));
                return ran;
            }
        }
    }
}

#[test]
fn a_push_at_the_end_of_a_search_is_not_missed() {
    model(Some(2), push_against_end_of_search);
}

#[test]
fn canary_end_of_a_search_that_requests_no_attention() {
    caught(Canary::Attention, Some(2), push_against_end_of_search);
}

/// The only worker that stays is inside a task and clears the attention bit while a guest leaves,
/// or spills a part of its queue. The task that the guest had queued is in the injector then.
fn handed_on_against_clear(spill: bool) {
    let core = core(2);
    core.inject(0, Placement::Injector).unwrap();
    let mut worker = core.enter(0);
    let step = worker.step(|_, running| std::mem::forget(running));
    let guest = {
        let core = core.clone();
        thread::spawn(move || {
            let mut guest = core.enter(1);
            guest.run_as_worker(thread::yield_now, |mut running| {
                running.try_spawn(7, Placement::Local).unwrap();
                if spill {
                    running.spill();
                    std::mem::forget(running);
                }
            });
            if spill {
                std::mem::forget(guest);
            }
        })
    };
    core.clear_unneeded_attention();
    guest.join().unwrap();
    assert!(
        core.wants_attention(),
        "a task waits, and no attention is requested"
    );
    std::mem::forget((worker, step));
}

#[test]
fn tasks_that_a_worker_hands_on_are_not_missed() {
    for spill in [false, true] {
        model(None, move || handed_on_against_clear(spill));
    }
}

#[test]
fn canary_tasks_handed_on_without_a_request() {
    for spill in [false, true] {
        caught(Canary::Attention, None, move || {
            handed_on_against_clear(spill)
        });
    }
}
