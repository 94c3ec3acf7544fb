//! The results of siblings, each in its place, and the one who brings the last.
#![expect(unsafe_code, reason = "each place is one worker's alone")]

use crate::ground::{
    canary::{Canary, broken},
    sync::{AtomicUsize, Ordering, UnsafeCell},
};

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
