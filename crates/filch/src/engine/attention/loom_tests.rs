//! Attention: while all workers are busy inside tasks, no push into a shared queue is missed.

use crate::{
    base::canary::Canary,
    engine::{
        NoObserver, ParkToken, PerWorker, Placement, Priority, Step, Worker,
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

/// Worker 0 is inside a task. Worker 1 has been called for an affine task, and its old entry is at
/// the head of the list of sleepers. It takes that task while another one is pushed.
fn push_against_end_of_called_search(push: Push) {
    let core = core(2);
    let (mut busy, mut called) = (core.enter(0), core.enter(1));
    busy.run_as_worker(|| (), |running| std::mem::forget(running));
    let token = park(&mut called);
    core.inject(7, Placement::Affine(1)).unwrap();
    called.resume(token);
    let pusher = {
        let core = core.clone();
        thread::spawn(move || push(&core))
    };
    let mut ran = None;
    while ran.is_none() {
        let _step = called.step(|task, running| {
            ran = Some(task);
            std::mem::forget(running);
        });
        // The thread that holds the lock of a queue continues.
        thread::yield_now();
    }
    pusher.join().unwrap();
    if ran == Some(7) {
        assert!(
            core.wants_attention(),
            "a task waits behind a stale entry, and no attention is requested"
        );
    }
    std::mem::forget((busy, called));
}

/// Steps until the worker sleeps. There is no task.
fn park<'c>(worker: &mut Worker<'c, usize, PerWorker, NoObserver>) -> ParkToken {
    loop {
        if let Step::Park(token) = worker.step(|_, _| unreachable!()) {
            return token;
        }
    }
}

#[test]
fn a_push_at_the_end_of_the_search_of_a_called_worker_is_not_missed() {
    for push in [inject, inject_urgent, inject_future] {
        model(Some(3), move || push_against_end_of_called_search(push));
    }
}

#[test]
fn canary_stale_entry_taken_for_a_sleeper() {
    caught(Canary::AttentionStale, Some(3), || {
        push_against_end_of_called_search(inject);
    });
}

/// Both workers are inside tasks, and the list of sleepers has a stale entry. One worker spawns a
/// task and tries to wake a sleeper: it counts one as searching, and takes the count back. A push
/// may have relied on the count meanwhile.
fn push_against_count_taken_back() {
    let core = core(2);
    let (mut busy, mut woke) = (core.enter(0), core.enter(1));
    let token = park(&mut woke);
    woke.resume(token); // by itself
    woke.run_as_worker(|| (), |running| std::mem::forget(running));
    let pusher = {
        let core = core.clone();
        thread::spawn(move || inject_urgent(&core))
    };
    busy.run_as_worker(
        || (),
        |mut running| {
            running.try_spawn(7, Placement::Local).unwrap();
            std::mem::forget(running);
        },
    );
    pusher.join().unwrap();
    assert!(
        core.wants_attention(),
        "a push relied on a search that never began, and no attention is requested"
    );
    std::mem::forget((busy, woke));
}

#[test]
fn a_push_that_relied_on_a_count_that_try_take_back_is_not_missed() {
    model(Some(3), push_against_count_taken_back);
}

#[test]
fn canary_count_taken_back_without_a_request() {
    caught(
        Canary::AttentionTakeBack,
        Some(3),
        push_against_count_taken_back,
    );
}
