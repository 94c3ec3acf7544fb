//! The ready tasks of a run whose plan has an order.

use super::ranks::TaskRanks;
use std::{
    collections::{BinaryHeap, binary_heap::PeekMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The ready tasks of a run that no worker has taken, as a heap.
///
/// For each of them there is a job that runs the best one, whichever that is then; see `ordered`.
/// The jobs of the sources are queued one after the other.
pub(super) struct ReadyTasks {
    ranks: Arc<TaskRanks>,
    state: Mutex<ReadyState>,
}

struct ReadyState {
    /// The ranks of the tasks.
    heap: BinaryHeap<u32>,
    /// How many sources have no job yet.
    sources_left: usize,
}

impl ReadyTasks {
    pub(super) fn new(ranks: &Arc<TaskRanks>, sources: &[u32]) -> Self {
        let heap: Vec<u32> = sources.iter().map(|&task| ranks.rank(task)).collect();
        let state = ReadyState {
            sources_left: heap.len(),
            heap: heap.into(),
        };
        Self {
            ranks: ranks.clone(),
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReadyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, task: u32) {
        self.lock().heap.push(self.ranks.rank(task));
    }

    /// Takes the best task. The caller runs one of the jobs, so there is one.
    pub(super) fn pop(&self) -> u32 {
        let rank = self.lock().heap.pop();
        self.ranks.task(rank.expect("each job has a task"))
    }

    /// Puts a task in, and takes the best one out: this one, if no other is more important.
    pub(super) fn exchange(&self, task: u32) -> u32 {
        let mut rank = self.ranks.rank(task);
        let mut state = self.lock();
        if let Some(mut best) = state.heap.peek_mut()
            && self.ranks.is_above(*best, rank)
        {
            std::mem::swap(&mut *best, &mut rank);
            // The heap is put in order again when this is dropped.
            drop::<PeekMut<'_, u32>>(best);
        }
        drop(state);
        self.ranks.task(rank)
    }

    /// Takes the right to run a task for one of the sources. Returns whether more are left, or
    /// `None` if this one does not exist.
    pub(super) fn take_source(&self) -> Option<bool> {
        let mut state = self.lock();
        state.sources_left = state.sources_left.checked_sub(1)?;
        Some(state.sources_left > 0)
    }
}
