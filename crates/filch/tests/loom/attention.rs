//! Attention: while all workers are busy inside of tasks, no push into a shared queue is overlooked.

use super::{
    caught, model,
    sleep::{Engine, core},
};
use filch::{
    base::canary::Canary,
    engine::{Level, Placement, Step},
};
use loom::{sync::Arc, thread};

type Push = fn(&Engine);

fn inject(core: &Engine) {
    core.inject(1, Placement::Injector).unwrap();
}

fn inject_urgent(core: &Engine) {
    core.inject(1, Placement::Lane(Level::Critical)).unwrap();
}

fn inject_future(core: &Engine) {
    core.inject(1, Placement::FutureInjector).unwrap();
}

/// The only worker is inside of a task and clears the attention bit while a task comes.
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
        core.settle_attention();
        pusher.join().unwrap();
        assert!(core.wants_attention(), "a task waits, and no worker knows");
        // The task goes on.
        std::mem::forget(running);
    });
    std::mem::forget((worker, step));
}

#[test]
fn a_task_that_comes_while_attention_is_cleared_is_not_overlooked() {
    for push in [inject, inject_urgent, inject_future] {
        model(None, move || push_against_clear(push));
    }
}

#[test]
fn canary_push_that_does_not_ask_for_attention() {
    // The first push does not ask either.
    caught(Canary::Attention, None, || push_against_clear(inject));
}

#[test]
fn canary_attention_cleared_without_another_look() {
    caught(Canary::AttentionLook, None, || push_against_clear(inject));
}

/// One worker is inside of a task and has another one queued. A second worker looks for work, and finds
/// that one or the urgent one that comes meanwhile. If it finds the first, it asks for attention, or the
/// pusher does.
fn push_against_end_of_search() {
    let core = core(2);
    core.inject(0, Placement::Injector).unwrap();
    let mut busy = core.enter(0);
    let step = busy.step(|_, mut running| {
        running.try_spawn(7, Placement::Local).unwrap();
        std::mem::forget(running);
    });
    std::mem::forget((busy, step));
    core.settle_attention();
    let searcher = {
        let core = core.clone();
        thread::spawn(move || run_one(&core))
    };
    inject_urgent(&core);
    if searcher.join().unwrap() == Some(7) {
        assert!(core.wants_attention(), "a task waits, and no worker knows");
    }
}

/// Steps worker 1 until it is inside of a task, or sleeps.
fn run_one(core: &Arc<Engine>) -> Option<usize> {
    let (mut worker, mut ran) = (core.enter(1), None);
    loop {
        let step = worker.step(|task, running| {
            ran = Some(task);
            std::mem::forget(running);
        });
        match step {
            Step::Idle(_) => thread::yield_now(),
            Step::Park(ticket) if worker.is_woken() => worker.resume(ticket),
            step => {
                std::mem::forget((worker, step));
                return ran;
            }
        }
    }
}

#[test]
fn a_task_that_comes_at_the_end_of_a_search_is_not_overlooked() {
    model(Some(2), push_against_end_of_search);
}

#[test]
fn canary_end_of_a_search_that_asks_for_nothing() {
    caught(Canary::Attention, Some(2), push_against_end_of_search);
}
