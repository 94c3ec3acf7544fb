//! Tests of deferred notifications, and of the order of the worker's own queue.

use crate::engine::{Core, NoObserver, PerWorker, Placement, Settings, Step, Unpark};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

struct Wakes(Arc<AtomicUsize>);

impl Unpark for Wakes {
    fn unpark(&self, _worker: usize) {
        self.0.fetch_add(1, Relaxed);
    }
}

type TestCore = Core<&'static str, PerWorker, NoObserver>;
type TestRunning<'w, 'c> = super::RunningWorker<'w, 'c, &'static str, PerWorker, NoObserver>;

/// Spawns a task to run next while another worker sleeps, and does `then`. Returns the number
/// of wakes in each of the two steps.
fn beside_a_sleeper(then: impl FnOnce(&TestCore, &mut TestRunning<'_, '_>)) -> [usize; 2] {
    let spawn =
        |running: &mut TestRunning<'_, '_>| running.try_spawn("next", Placement::Next).unwrap();
    steps_beside_a_sleeper(spawn, then)
}

fn steps_beside_a_sleeper(
    first: impl FnOnce(&mut TestRunning<'_, '_>),
    then: impl FnOnce(&TestCore, &mut TestRunning<'_, '_>),
) -> [usize; 2] {
    let wakes = Arc::new(AtomicUsize::new(0));
    let mut settings = Settings::new(2);
    settings.unpark = Box::new(Wakes(wakes.clone()));
    let core = TestCore::new(settings, &Default::default(), NoObserver).unwrap();
    let (mut busy, mut sleeper) = (core.enter(0), core.enter(1));
    core.inject("busy", Placement::Injector).unwrap();
    let mut woken = [0; 2];
    let step = busy.step(|_, mut running| {
        while !matches!(sleeper.step(|_, _| ()), Step::Park(_)) {}
        let count = || wakes.swap(0, Relaxed);
        count();
        first(&mut running);
        woken[0] = count();
        then(&core, &mut running);
        woken[1] = count();
    });
    assert!(matches!(step, Step::Ran));
    woken
}

#[test]
fn a_deferred_notification_is_made_up_before_another_task_runs() {
    assert_eq!(beside_a_sleeper(|_, _| ()), [0, 0], "it is next");
    let own = beside_a_sleeper(|_, running| {
        assert_eq!(running.take_own(), Some("next"));
        running.record_start();
        running.end_wait();
    });
    assert_eq!(own, [0, 0], "it has been taken");
    let settled = beside_a_sleeper(|_, running| running.end_wait());
    assert_eq!(settled, [0, 1], "the running task continues");
    let pinned = beside_a_sleeper(|core, running| {
        core.inject("pinned", Placement::Pinned(0)).unwrap();
        assert_eq!(running.take_pinned(), Some("pinned"));
        running.record_start();
    });
    // One for the pinned task.
    assert_eq!(pinned, [0, 2], "the pinned task runs first");
    let urgent = beside_a_sleeper(|_, running| assert_eq!(running.take_pinned(), None));
    assert_eq!(urgent, [0, 0], "there was no pinned task");
}

#[test]
fn a_deferred_notification_is_made_up_when_a_newer_task_is_taken() {
    let taken = beside_a_sleeper(|_, running| {
        running
            .try_spawn("above", Placement::LocalUnnotified)
            .unwrap();
        assert_eq!(running.take_own(), Some("above"));
        running.record_start();
    });
    assert_eq!(taken, [0, 1], "another one runs before it");
    let back = beside_a_sleeper(|_, running| {
        running
            .try_spawn("above", Placement::LocalUnnotified)
            .unwrap();
        assert_eq!(running.take_own(), Some("above"));
        running.record_merged();
        running.end_wait();
    });
    assert_eq!(back, [0, 1], "the running task continues");
}

#[test]
fn deferred_notifications_are_made_up_when_the_wait_ends() {
    let spawn = |running: &mut TestRunning<'_, '_>| {
        running
            .try_spawn("one", Placement::LocalUnnotified)
            .unwrap();
        running
            .try_spawn("two", Placement::LocalUnnotified)
            .unwrap();
    };
    let one_left = steps_beside_a_sleeper(spawn, |_, running| {
        assert_eq!(running.take_own(), Some("two"));
        running.record_start();
        running.end_wait();
    });
    assert_eq!(one_left, [0, 1]);
    let none_left = steps_beside_a_sleeper(spawn, |_, running| {
        while running.take_own().is_some() {
            running.record_start();
        }
        running.end_wait();
    });
    assert_eq!(none_left, [0, 0]);
}

#[test]
fn rotating_above_a_mark_moves_the_newest_behind_the_others() {
    let core = TestCore::new(Settings::new(1), &Default::default(), NoObserver).unwrap();
    let mut worker = core.enter(0);
    core.inject("", Placement::Injector).unwrap();
    let _step = worker.step(|_, mut running| {
        running.try_spawn("below", Placement::Local).unwrap();
        let mark = running.queue().owner().mark();
        running.move_newest_last(mark);
        assert!(!running.is_reordered(), "there was nothing to move");
        for task in ["a", "b"] {
            running.try_spawn(task, Placement::Local).unwrap();
        }
        running.try_spawn("c", Placement::LocalLast).unwrap();
        assert!(running.is_taking_older_first());
        running.move_newest_last(mark);
        assert!(running.is_reordered() && !running.is_taking_older_first());
        let mut order = Vec::new();
        while let Some(task) = running.take_own() {
            running.record_start();
            order.push(task);
        }
        assert_eq!(order, ["b", "a", "c", "below"]);
    });
}

#[test]
fn a_worker_continues_with_its_own_queue_unless_a_task_has_precedence() {
    let core = TestCore::new(Settings::new(1), &Default::default(), NoObserver).unwrap();
    core.inject("", Placement::Injector).unwrap();
    let _step = core.enter(0).step(|_, mut running| {
        running.spawn("own", Placement::Local);
        assert!(running.try_continue_own());
        running.spawn("affine", Placement::Affine(0));
        assert!(!running.try_continue_own());
    });
}

#[test]
fn a_part_is_retracted_by_the_worker_that_has_pushed_it() {
    let core = TestCore::new(Settings::new(1), &Default::default(), NoObserver).unwrap();
    core.inject("", Placement::Injector).unwrap();
    let _step = core.enter(0).step(|_, mut running| {
        let mark = running.next_part_mark().unwrap();
        if running.push_part(mark, "part") {
            running.notify_part();
        }
        assert!(running.queue().owner().retract(mark));
        assert!(!running.queue().owner().retract(mark));
    });
}

#[test]
fn affine_tasks_move_to_another_worker_once_and_never_to_their_own() {
    let core = TestCore::new(Settings::new(2), &Default::default(), NoObserver).unwrap();
    let (mut worker, _other) = (core.enter(0), core.enter(1));
    core.inject("first", Placement::Injector).unwrap();
    let _step = worker.step(|_, mut running| {
        running.spawn("affine", Placement::Affine(0));
        running.move_affine(0);
        assert_eq!(core.mailboxes[0].affine_len(), 1);
        running.move_affine(1);
        assert_eq!(core.mailboxes[0].affine_len(), 0);
        assert_eq!(core.mailboxes[1].affine_len(), 1);
    });
}
