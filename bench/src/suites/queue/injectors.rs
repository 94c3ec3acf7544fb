//! The injectors, behind one trait.

use super::deques::{Crossbeam, Deques, Filch};
use filch::engine::{Injector, Steal, Take};

/// The batch size of [`FilchBatches`].
const BATCH: u64 = 256;

/// The maximum batch that a worker takes: the engine's default.
const MAX_BATCH: usize = 64;

/// A kind of injector, and the deque that receives its batches.
pub(super) trait Injectors: 'static {
    type Into: Deques;
    type Injector: Sync;

    fn new() -> Self::Injector;
    /// Pushes the tasks from zero to `tasks`.
    fn push_all(injector: &Self::Injector, tasks: u64);
    /// Takes a batch: returns one task and moves the others to `into`.
    fn take(injector: &Self::Injector, into: &mut <Self::Into as Deques>::Owner<'_>) -> Steal<u64>;
}

impl Injectors for Filch {
    type Into = Self;
    type Injector = Injector<u64>;

    fn new() -> Self::Injector {
        Injector::unbounded()
    }

    fn push_all(injector: &Self::Injector, tasks: u64) {
        for task in 0..tasks {
            injector.push(task).expect("it has no limit");
        }
    }

    fn take(injector: &Self::Injector, into: &mut <Self as Deques>::Owner<'_>) -> Steal<u64> {
        match injector.try_take(MAX_BATCH, |task| into.push(task)) {
            Take::Taken(task, _) => Steal::Taken(task),
            Take::Empty => Steal::Empty,
            Take::Busy => Steal::Retry,
        }
    }
}

/// filch's injector, filled in batches.
pub(super) struct FilchBatches;

impl Injectors for FilchBatches {
    type Into = Filch;
    type Injector = Injector<u64>;

    fn new() -> Self::Injector {
        Injector::unbounded()
    }

    fn push_all(injector: &Self::Injector, tasks: u64) {
        for from in (0..tasks).step_by(BATCH as usize) {
            let batch: Vec<_> = (from..tasks.min(from + BATCH)).collect();
            injector.push_batch(batch).expect("it has no limit");
        }
    }

    fn take(injector: &Self::Injector, into: &mut <Filch as Deques>::Owner<'_>) -> Steal<u64> {
        Filch::take(injector, into)
    }
}

impl Injectors for Crossbeam {
    type Into = Self;
    type Injector = crossbeam_deque::Injector<u64>;

    fn new() -> Self::Injector {
        crossbeam_deque::Injector::new()
    }

    fn push_all(injector: &Self::Injector, tasks: u64) {
        (0..tasks).for_each(|task| injector.push(task));
    }

    fn take(injector: &Self::Injector, into: &mut <Self as Deques>::Owner<'_>) -> Steal<u64> {
        match injector.steal_batch_and_pop(into) {
            crossbeam_deque::Steal::Success(task) => Steal::Taken(task),
            crossbeam_deque::Steal::Empty => Steal::Empty,
            crossbeam_deque::Steal::Retry => Steal::Retry,
        }
    }
}
