//! A node that waits for the results of its children.
#![expect(unsafe_code, reason = "each child fills its own place")]

use super::Fold;
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicUsize, Mutex, MutexGuard, Ordering, UnsafeCell},
};
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
                Some(early) if !broken(Canary::FoldEarly) => result = early,
                _ => {
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

/// Places for results, each filled once by whoever has the child of that number. Whoever fills the last one gets all.
///
/// A place is its filler's until `missing` is counted down; from zero on, all are the last filler's.
pub(crate) struct Slots<R> {
    places: Box<[UnsafeCell<Option<R>>]>,
    missing: AtomicUsize,
}

// SAFETY: a result is put in on one thread and taken out on another; none is looked at by two.
unsafe impl<R: Send> Sync for Slots<R> {}
// SAFETY: as above.
unsafe impl<R: Send> Send for Slots<R> {}

impl<R> Slots<R> {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            places: (0..count).map(|_| UnsafeCell::new(None)).collect(),
            missing: AtomicUsize::new(count),
        }
    }

    /// Fills place `at`. True when that was the last one: then [`take`](Self::take) is the caller's.
    ///
    /// # Safety
    /// Each place is filled once.
    pub(crate) unsafe fn fill(&self, at: usize, result: R) -> bool {
        self.places[at].with_mut(|place| {
            // SAFETY: nobody else fills this place, and who takes it waits for our count.
            unsafe { *place = Some(result) };
        });
        let ordering = if broken(Canary::FoldArrive) {
            // Relaxed: a defect for the model checker.
            Ordering::Relaxed
        } else {
            // AcqRel: what each has put in is visible to the last one.
            Ordering::AcqRel
        };
        self.missing.fetch_sub(1, ordering) == 1
    }

    /// The result in place `at`.
    ///
    /// # Safety
    /// The caller has filled the last place.
    pub(crate) unsafe fn take(&self, at: usize) -> Option<R> {
        self.places[at].with_mut(|place| {
            // SAFETY: all are filled, and the caller's.
            unsafe { (*place).take() }
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }
}

/// The places as they are, for the model checker.
#[cfg(filch_loom)]
pub(crate) mod model {
    /// See the places of a fold.
    pub struct Slots(super::Slots<usize>);

    impl std::fmt::Debug for Slots {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Slots")
        }
    }

    #[expect(missing_docs, reason = "a shim for tests")]
    impl Slots {
        pub fn new(count: usize) -> Self {
            Self(super::Slots::new(count))
        }

        /// # Safety
        /// Each place is filled once.
        pub unsafe fn fill(&self, at: usize, result: usize) -> bool {
            // SAFETY: the caller's duty.
            unsafe { self.0.fill(at, result) }
        }

        /// # Safety
        /// The caller has filled the last place.
        pub unsafe fn take(&self, at: usize) -> Option<usize> {
            // SAFETY: the caller's duty.
            unsafe { self.0.take(at) }
        }
    }
}
