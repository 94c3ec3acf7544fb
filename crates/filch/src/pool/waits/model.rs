//! The list as it is, for the model checker.

use super::{Needs, Party, StackPosition, Subject};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicBool, AtomicU64, Ordering},
    },
    pool::task::DEPTH_BITS,
};
use std::sync::Arc;

/// See the list of the process.
pub struct WaitList(super::WaitList);

/// A task that reports its state as a submitted task does, with the same orderings.
#[derive(Clone, Default)]
pub struct Task(Arc<State>);

#[derive(Default)]
struct State {
    position: AtomicU64,
    is_done: AtomicBool,
}

/// The position of a task or a wait at that depth of the stack of that thread.
fn position(thread: u64, depth: u64) -> StackPosition {
    StackPosition::from_bits(thread << DEPTH_BITS | depth)
}

#[expect(missing_docs, reason = "a shim for tests")]
impl Task {
    pub fn begin(&self, thread: u64, depth: u64) {
        // Relaxed: as in `TaskMeta::start_here`.
        let at = position(thread, depth).bits();
        self.0.position.store(at, Ordering::Relaxed);
    }

    pub fn end(&self) {
        // Release: as in `State::finish`.
        self.0.is_done.store(true, Ordering::Release);
    }

    pub fn is_done(&self) -> bool {
        // Acquire: as in `State::load`.
        self.0.is_done.load(Ordering::Acquire)
    }
}

impl Subject for Task {
    fn needs(&self) -> Needs {
        let is_running = !self.is_done() || broken(Canary::WaitStale);
        // Relaxed: as in `TaskMeta::position`.
        match self.0.position.load(Ordering::Relaxed) {
            0 => Needs::Unknown,
            at if is_running => Needs::Return(StackPosition::from_bits(at)),
            _ => Needs::Unknown,
        }
    }

    fn party(&self) -> Party {
        Party::task(0, None)
    }
}

#[expect(clippy::new_without_default, missing_docs, reason = "a shim for tests")]
impl WaitList {
    pub fn new() -> Self {
        Self(super::WaitList::new())
    }

    /// Waits at that position for `subject`: calls `wait` when it is listed. Returns false when it
    /// can never end.
    pub fn wait(&self, thread: u64, depth: u64, subject: &Task, wait: impl FnOnce()) -> bool {
        let waiting = super::Waiting::at(&self.0, position(thread, depth));
        let describe = |list: &mut Vec<Box<dyn Subject>>| {
            list.push(Box::new(subject.clone()));
            true
        };
        let listed = waiting.list(describe, || None);
        if listed {
            wait();
        }
        listed
    }
}
