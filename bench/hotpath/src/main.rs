//! The functions whose machine code `hotpath.sh` checks.

use filch::engine::{
    Capacity, Core, Deque, NoObserver, Owner, PerWorker, Placement, RunningWorker, Settings,
};
use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering, fence},
};

/// A push and a pop by the owner of a deque.
#[inline(never)]
fn probe_push_pop(owner: &mut Owner<'_, u64>, task: u64) -> Option<u64> {
    owner.push(task).ok()?;
    owner.pop()
}

/// A spawn by a running task: the push, the count, and the check for sleeping workers.
#[inline(never)]
fn probe_spawn_local(
    active: &mut RunningWorker<'_, '_, u64, PerWorker, NoObserver>,
    task: u64,
) -> bool {
    active.try_spawn(task, Placement::Local).is_ok()
}

/// The canary, in which the script must find two fences, a locked addition and an exchange.
#[inline(never)]
fn probe_canary(word: &AtomicU64) -> u64 {
    fence(Ordering::SeqCst);
    let before = word.fetch_add(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    before + word.swap(0, Ordering::Relaxed)
}

fn main() {
    let deque = Deque::new(Capacity::default());
    let mut owner = deque.owner().expect("a new deque has no owner");
    let popped = black_box(probe_push_pop)(&mut owner, black_box(1));
    assert_eq!(popped, Some(1));

    let core: Core<u64, PerWorker, NoObserver> =
        Core::new(Settings::new(1), &Default::default(), NoObserver)
            .expect("the settings are fine");
    core.inject(1, Placement::Injector).expect("open");
    let mut worker = core.enter(0);
    let _ = worker.step(|task, mut active| {
        assert!(black_box(probe_spawn_local)(&mut active, black_box(task)));
    });

    assert_eq!(black_box(probe_canary)(&AtomicU64::new(3)), 7);
}
