//! The pools that there are, by number.
//!
//! A handle of a task does not keep its pool alive, and does not share a count with others: it knows the number of
//! the pool, and the few calls that need more ask here.

use super::Inner;
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

/// A pool's number, until it is dropped.
#[derive(Debug)]
pub(super) struct Number(u32);

impl Number {
    /// The number for a pool to come.
    pub(super) fn new() -> Self {
        let mut pools = lock();
        // Four billion pools later the numbers begin anew; those of the living are left out.
        loop {
            let number = pools.next;
            pools.next = number.wrapping_add(1);
            if let Entry::Vacant(vacant) = pools.living.entry(number) {
                vacant.insert(Weak::new());
                return Self(number);
            }
        }
    }

    #[inline(always)]
    pub(super) fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // The weak pointer may be the last one to the pool's memory: it is dropped without the lock.
        let entry = lock().living.remove(&self.0);
        drop(entry);
    }
}

impl Inner {
    /// The pool's number, which no other living pool has.
    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.number.get()
    }

    /// From now on [`find`](Self::find) finds it.
    pub(super) fn publish(self: &Arc<Self>) {
        lock().living.insert(self.number(), Arc::downgrade(self));
    }

    /// The pool of that number, if it lives.
    pub(crate) fn find(number: u32) -> Option<Arc<Self>> {
        lock().living.get(&number)?.upgrade()
    }
}
