//! The living pools, by number.
//!
//! A handle of a task neither keeps its pool alive nor shares a reference count with others: it
//! stores the number of the pool, and the few calls that need the pool find it here.

use super::inner::Inner;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

struct Pools {
    next: u32,
    living: BTreeMap<u32, Weak<Inner>>,
}

static POOLS: Mutex<Pools> = Mutex::new(Pools {
    next: 0,
    living: BTreeMap::new(),
});

fn lock() -> MutexGuard<'static, Pools> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number that no pool has.
pub(crate) const NO_POOL: u32 = u32::MAX;

/// Returns the number for a pool that is being built. It is free again when the pool is dropped.
pub(super) fn new_number() -> u32 {
    let mut pools = lock();
    // The numbers wrap around after four billion pools; those of living pools are skipped.
    loop {
        let number = pools.next;
        pools.next = number.wrapping_add(1);
        if number == NO_POOL {
            continue;
        }
        if let Entry::Vacant(vacant) = pools.living.entry(number) {
            vacant.insert(Weak::new());
            return number;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The weak pointer may be the last one to the pool's memory: it is dropped without the
        // lock.
        let entry = lock().living.remove(&self.number);
        drop(entry);
    }
}

impl Inner {
    /// The pool's number, which no other living pool has.
    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Makes the pool available to [`find`](Self::find).
    pub(super) fn publish(self: &Arc<Self>) {
        lock().living.insert(self.number(), Arc::downgrade(self));
    }

    /// Returns the pool of that number, if it is alive.
    pub(crate) fn find(number: u32) -> Option<Arc<Self>> {
        lock().living.get(&number)?.upgrade()
    }
}
