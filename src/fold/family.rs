//! A node that waits for the results of its children.
#![expect(unsafe_code, reason = "each child fills its own place")]

use super::{Fold, slots::Slots};
use crate::ground::sync::{Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};

/// An open node, its heap, and where its own result goes.
pub(super) struct Family<F: Fold> {
    /// Taken when all children are there.
    above: Mutex<Option<Place<F>>>,
    count: usize,
    arrivals: Arrivals<F>,
}

enum Arrivals<F: Fold> {
    InOrder(Mutex<InOrder<F>>),
    AtTheEnd(Mutex<Option<F::Heap>>, Slots<F::Result>),
}

/// Results that are taken in as soon as those before them are.
struct InOrder<F: Fold> {
    /// Whoever accumulates has it.
    heap: Option<F::Heap>,
    /// The child that is accumulated next, or at present.
    next: usize,
    /// Those that came too early.
    early: Vec<Option<F::Result>>,
}

/// Where a result goes: the child of that number, or the caller. There is one of each.
pub(super) struct Place<F: Fold>(Option<(Arc<Family<F>>, usize)>);

/// A family that is complete: its heap, and where its result goes.
type Complete<F> = (Place<F>, <F as Fold>::Heap);

impl<F: Fold> Place<F> {
    pub(super) fn root() -> Self {
        Self(None)
    }

    /// Hands in the result that belongs here. Whoever completes a family goes on with it. The result comes back if it
    /// is the caller's.
    pub(super) fn deliver(
        self,
        fold: &F,
        result: F::Result,
    ) -> Result<Option<Complete<F>>, F::Result> {
        let Some((family, at)) = self.0 else {
            return Err(result);
        };
        let heap = match &family.arrivals {
            Arrivals::InOrder(arrivals) => family.take_in(fold, arrivals, at, result),
            Arrivals::AtTheEnd(heap, slots) => {
                // SAFETY: there is one `Place` of each number, and it is gone now.
                let last = unsafe { slots.fill(at, result) };
                last.then(|| {
                    let mut heap = lock(heap).take().expect("taken once");
                    for at in 0..slots.count() {
                        // SAFETY: `fill` said that all are there.
                        let result = unsafe { slots.take(at) };
                        fold.accumulate(&mut heap, result.expect("all are filled"));
                    }
                    heap
                })
            }
        };
        Ok(heap.map(|heap| (lock(&family.above).take().expect("taken once"), heap)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: Fold> Family<F> {
    pub(super) fn new(above: Place<F>, heap: F::Heap, count: usize, at_the_end: bool) -> Self {
        let arrivals = if at_the_end {
            Arrivals::AtTheEnd(Mutex::new(Some(heap)), Slots::new(count))
        } else {
            Arrivals::InOrder(Mutex::new(InOrder {
                heap: Some(heap),
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

    /// The place of child `at`: to be asked for once.
    pub(super) fn place(family: &Arc<Self>, at: usize) -> Place<F> {
        Place(Some((family.clone(), at)))
    }

    /// Accumulates the result if its turn has come, and those behind it; the heap, if that was all.
    fn take_in(
        &self,
        fold: &F,
        arrivals: &Mutex<InOrder<F>>,
        at: usize,
        mut result: F::Result,
    ) -> Option<F::Heap> {
        let mut state = lock(arrivals);
        let its_turn = state.next == at;
        let mut heap = match state.heap.take_if(|_| its_turn) {
            Some(heap) => heap,
            None => {
                if state.early.is_empty() {
                    state.early.resize_with(self.count, || None);
                }
                state.early[at] = Some(result);
                return None;
            }
        };
        loop {
            // The user's code runs without the lock.
            drop(state);
            fold.accumulate(&mut heap, result);
            state = lock(arrivals);
            state.next += 1;
            let next = state.next;
            if next == self.count {
                return Some(heap);
            }
            match state.early.get_mut(next).and_then(Option::take) {
                Some(early) => result = early,
                None => {
                    state.heap = Some(heap);
                    return None;
                }
            }
        }
    }
}

/// From the inside out, one after the other: after a panic there may be a million of them.
impl<F: Fold> Drop for Family<F> {
    fn drop(&mut self) {
        let mut above = lock(&self.above).take();
        while let Some(Place(Some((family, _)))) = above {
            above = Arc::into_inner(family).and_then(|family| lock(&family.above).take());
        }
    }
}
