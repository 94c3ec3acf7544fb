//! Results for systems without handles: the task sends its result itself.

use super::{Pending, Submits};
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError, mpsc},
};

/// One channel per submitting thread for all its results, in any order: the cheapest way.
pub(crate) struct Mpsc<'p, S: Submits> {
    pool: &'p S::Pool,
    pending: usize,
    sender: mpsc::Sender<u64>,
    results: mpsc::Receiver<u64>,
}

impl<'p, S: Submits> Mpsc<'p, S> {
    pub(super) fn new(pool: &'p S::Pool) -> Self {
        let (sender, results) = mpsc::channel();
        Self {
            pool,
            pending: 0,
            sender,
            results,
        }
    }
}

impl<S: Submits> Pending for Mpsc<'_, S> {
    #[inline(always)]
    fn submit(&mut self, task: impl FnOnce() -> u64 + Send + 'static) {
        let sender = self.sender.clone();
        S::detach(self.pool, move || {
            sender.send(task()).expect("the submitting thread waits");
        });
        self.pending += 1;
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.pending -= 1;
        self.results.recv().expect("a task is pending")
    }

    #[inline(always)]
    fn finish(mut self) -> u64 {
        (0..self.pending).map(|_| self.next()).sum()
    }
}

/// A slot per result, which identifies the task, as a handle does.
pub(crate) struct Oneshots<'p, S: Submits> {
    pool: &'p S::Pool,
    slots: VecDeque<Arc<Slot>>,
}

#[derive(Default)]
struct Slot {
    value: Mutex<Option<u64>>,
    there: Condvar,
}

impl Slot {
    #[inline(always)]
    fn send(&self, value: u64) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.there.notify_one();
    }

    #[inline(always)]
    fn receive(&self) -> u64 {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(value) = *value {
                return value;
            }
            value = self
                .there
                .wait(value)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<'p, S: Submits> Oneshots<'p, S> {
    pub(super) fn new(pool: &'p S::Pool) -> Self {
        Self {
            pool,
            slots: VecDeque::new(),
        }
    }
}

impl<S: Submits> Pending for Oneshots<'_, S> {
    #[inline(always)]
    fn submit(&mut self, task: impl FnOnce() -> u64 + Send + 'static) {
        let slot = Arc::new(Slot::default());
        self.slots.push_back(slot.clone());
        S::detach(self.pool, move || slot.send(task()));
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.slots.pop_front().expect("a task is pending").receive()
    }

    #[inline(always)]
    fn finish(self) -> u64 {
        self.slots.into_iter().map(|slot| slot.receive()).sum()
    }
}
