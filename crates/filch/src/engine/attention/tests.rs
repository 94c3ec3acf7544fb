//! Attention beside stale entries of the list of sleepers.

use crate::engine::{
    Core, IdleAction, IdlePolicy, NoObserver, ParkToken, PerWorker, Placement, Priority, Settings,
    Step, Worker,
};

type Engine = Core<u32, PerWorker, NoObserver>;

/// Parks when the first search fails.
struct ParkAtOnce;

impl IdlePolicy for ParkAtOnce {
    fn idle(&self, _rounds: u32) -> IdleAction {
        IdleAction::Park(None)
    }
}

fn engine(workers: usize) -> Engine {
    let settings = Settings {
        idle: Box::new(ParkAtOnce),
        ..Settings::new(workers)
    };
    Core::new(settings, &Default::default(), NoObserver).unwrap()
}

/// Steps until the worker sleeps. There is no task.
fn park(worker: &mut Worker<'_, u32, PerWorker, NoObserver>) -> ParkToken {
    loop {
        if let Step::Park(token) = worker.step(|_, _| unreachable!()) {
            return token;
        }
    }
}

/// The entry of a worker that was called is stale while the worker runs. A task that was pushed
/// during its search waits for a busy worker all the same.
#[test]
fn a_task_that_a_called_worker_leaves_gets_attention() {
    for other in [
        Placement::Injector,
        Placement::FutureInjector,
        Placement::Affine(0),
    ] {
        let core = engine(2);
        let (mut busy, mut called) = (core.enter(0), core.enter(1));
        busy.run_as_worker(
            || (),
            |_running| {
                let token = park(&mut called);
                core.inject(1, Placement::Affine(1)).unwrap();
                called.resume(token);
                core.inject(2, other).unwrap();
                assert!(!core.wants_attention(), "a worker searches");
                let ran = called.step(|_, _| {
                    assert!(core.has_work());
                    assert!(core.wants_attention(), "{other:?}: all workers are busy");
                });
                assert!(matches!(ran, Step::Ran));
            },
        );
    }
}

/// A sleeper behind a stale entry is woken: it is not busy, so no attention is needed.
#[test]
fn a_sleeper_behind_a_stale_entry_is_woken_instead() {
    let core = engine(3);
    let (mut busy, mut called) = (core.enter(0), core.enter(1));
    let mut sleeper = core.enter(2);
    busy.run_as_worker(
        || (),
        |_running| {
            let slept = park(&mut sleeper);
            let token = park(&mut called);
            core.inject(1, Placement::Affine(1)).unwrap();
            called.resume(token);
            core.inject(2, Placement::Lane(Priority::High)).unwrap();
            core.inject(3, Placement::Injector).unwrap();
            let ran = called.step(|_, _| {
                assert!(core.has_work());
                assert!(sleeper.is_woken() && !core.wants_attention());
            });
            assert!(matches!(ran, Step::Ran));
            sleeper.resume(slept);
        },
    );
}
