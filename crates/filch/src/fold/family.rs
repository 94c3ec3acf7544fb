//! A node that waits for the results of its children.
#![expect(unsafe_code, reason = "each child fills its own slot")]

use super::Fold;
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicUsize, Mutex, MutexGuard, Ordering, UnsafeCell},
};
use std::sync::{Arc, PoisonError};

/// An open node, its accumulator, and where its own result goes.
pub(super) struct Family<F: Fold> {
    /// Taken when all children are done.
    above: Mutex<Option<ResultTarget<F>>>,
    count: usize,
    arrivals: Arrivals<F>,
}

enum Arrivals<F: Fold> {
    InOrder(Mutex<InOrder<F>>),
    AtTheEnd(Mutex<Option<F::Accumulator>>, ResultSlots<F::Result>),
}

/// Results that are accumulated as soon as those before them are.
struct InOrder<F: Fold> {
    /// `None` while a worker accumulates.
    acc: Option<F::Accumulator>,
    /// The child that is accumulated next, or at present.
    next: usize,
    /// Results that arrived before those of earlier siblings.
    early: Vec<Option<F::Result>>,
}

/// Where a result goes: the slot of a child, or the caller. Each exists once.
pub(super) struct ResultTarget<F: Fold>(Option<(Arc<Family<F>>, usize)>);

/// A complete family: where its result goes, and its accumulator.
type Complete<F> = (ResultTarget<F>, <F as Fold>::Accumulator);

impl<F: Fold> ResultTarget<F> {
    pub(super) fn root() -> Self {
        Self(None)
    }

    /// Delivers the result that belongs here. The worker that completes a family continues with it.
    /// The result is returned as `Err` if this is the root.
    pub(super) fn deliver(
        self,
        fold: &F,
        result: F::Result,
    ) -> Result<Option<Complete<F>>, F::Result> {
        let Some((family, at)) = self.0 else {
            return Err(result);
        };
        let acc = match &family.arrivals {
            Arrivals::InOrder(arrivals) => family.accumulate_in_order(fold, arrivals, at, result),
            Arrivals::AtTheEnd(acc, slots) => {
                // SAFETY: there is one `ResultTarget` of each number, and this call has consumed
                // it.
                let last = unsafe { slots.fill(at, result) };
                last.then(|| {
                    let mut acc = lock(acc).take().expect("taken once");
                    for at in 0..slots.count() {
                        // SAFETY: `fill` has returned that all slots are filled, and this worker
                        // filled the last one.
                        let result = unsafe { slots.take(at) };
                        fold.accumulate(&mut acc, result.expect("all are filled"));
                    }
                    acc
                })
            }
        };
        Ok(acc.map(|acc| (lock(&family.above).take().expect("taken once"), acc)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: Fold> Family<F> {
    pub(super) fn new(
        above: ResultTarget<F>,
        acc: F::Accumulator,
        count: usize,
        at_the_end: bool,
    ) -> Self {
        let arrivals = if at_the_end {
            Arrivals::AtTheEnd(Mutex::new(Some(acc)), ResultSlots::new(count))
        } else {
            Arrivals::InOrder(Mutex::new(InOrder {
                acc: Some(acc),
                next: 0,
                early: Vec::new(),
            }))
        };
        Self {
            above: Mutex::new(Some(above)),
            count,
            arrivals,
        }
    }

    /// Returns where the result of child `at` goes; must be called once for each child.
    pub(super) fn target(family: &Arc<Self>, at: usize) -> ResultTarget<F> {
        ResultTarget(Some((family.clone(), at)))
    }

    /// Accumulates the result if it is the next one, and those behind it; returns the accumulator
    /// after the last child.
    fn accumulate_in_order(
        &self,
        fold: &F,
        arrivals: &Mutex<InOrder<F>>,
        at: usize,
        mut result: F::Result,
    ) -> Option<F::Accumulator> {
        let mut state = lock(arrivals);
        let its_turn = state.next == at;
        let mut acc = match state.acc.take_if(|_| its_turn) {
            Some(acc) => acc,
            None => {
                if state.early.is_empty() {
                    state.early.resize_with(self.count, || None);
                }
                state.early[at] = Some(result);
                return None;
            }
        };
        loop {
            // User code runs without the lock.
            drop(state);
            fold.accumulate(&mut acc, result);
            state = lock(arrivals);
            state.next += 1;
            let next = state.next;
            if next == self.count {
                return Some(acc);
            }
            match state.early.get_mut(next).and_then(Option::take) {
                Some(early) if !broken(Canary::FoldEarly) => result = early,
                _ => {
                    state.acc = Some(acc);
                    return None;
                }
            }
        }
    }
}

/// Drops the chain of parents in a loop, from the inside out: after a panic there may be a million
/// of them.
impl<F: Fold> Drop for Family<F> {
    fn drop(&mut self) {
        let mut above = lock(&self.above).take();
        while let Some(ResultTarget(Some((family, _)))) = above {
            above = Arc::into_inner(family).and_then(|family| lock(&family.above).take());
        }
    }
}

/// Slots for results, each filled once by the worker of the child of that number. The worker that
/// fills the last one gets all results.
///
/// A slot belongs to its filler until `empty_slots` is decremented; from zero on, all belong to the
/// last filler.
struct ResultSlots<R> {
    slots: Box<[UnsafeCell<Option<R>>]>,
    empty_slots: AtomicUsize,
}

// SAFETY: a result is put in on one thread and taken out on another; no two threads access it at
// the same time.
unsafe impl<R: Send> Sync for ResultSlots<R> {}
// SAFETY: the results move with the slots, which is sound because `R` is `Send`.
unsafe impl<R: Send> Send for ResultSlots<R> {}

impl<R> ResultSlots<R> {
    fn new(count: usize) -> Self {
        Self {
            slots: (0..count).map(|_| UnsafeCell::new(None)).collect(),
            empty_slots: AtomicUsize::new(count),
        }
    }

    /// Fills slot `at`. Returns whether that was the last one: then the caller may
    /// [`take`](Self::take).
    ///
    /// # Safety
    /// Each slot is filled once.
    unsafe fn fill(&self, at: usize, result: R) -> bool {
        self.slots[at].with_mut(|slot| {
            // SAFETY: no other call fills this slot, and the taker waits for the decrement below.
            unsafe { *slot = Some(result) };
        });
        let ordering = if broken(Canary::FoldArrive) {
            // Relaxed: a defect for the model checker.
            Ordering::Relaxed
        } else {
            // AcqRel: the writes of all fillers are visible to the last one.
            Ordering::AcqRel
        };
        self.empty_slots.fetch_sub(1, ordering) == 1
    }

    /// The result in slot `at`.
    ///
    /// # Safety
    /// The caller has filled the last slot.
    unsafe fn take(&self, at: usize) -> Option<R> {
        self.slots[at].with_mut(|slot| {
            // SAFETY: all slots are filled, and belong to the caller, which filled the last one.
            unsafe { (*slot).take() }
        })
    }

    fn count(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
