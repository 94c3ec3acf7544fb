//! The worker and the pool of the current thread.

use crate::registry::Registry;
use std::{
    cell::{Cell, RefCell},
    ptr,
    sync::Arc,
};

/// The frequently read part of a worker's context.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    /// Only compared; null on a thread that is not a worker.
    registry: *const Registry,
    pub(crate) index: usize,
    pub(crate) num_threads: usize,
}

const OUTSIDE: Here = Here {
    registry: ptr::null(),
    index: 0,
    num_threads: 0,
};

thread_local! {
    /// Has no destructor, so an access is a plain read of thread-local memory.
    static HERE: Cell<Here> = const { Cell::new(OUTSIDE) };
    static REGISTRY: RefCell<Option<Arc<Registry>>> = const { RefCell::new(None) };
}

/// The context of this thread, if it is a worker.
#[inline(always)]
pub(crate) fn get() -> Option<Here> {
    let here = HERE.get();
    (!here.registry.is_null()).then_some(here)
}

/// Whether this thread is a worker.
#[inline(always)]
pub(crate) fn is_inside() -> bool {
    !HERE.get().registry.is_null()
}

/// Whether this thread is a worker of `registry`.
#[inline(always)]
pub(crate) fn is_of(registry: &Registry) -> bool {
    ptr::eq(HERE.get().registry, registry)
}

/// The registry of this thread, if it is a worker.
pub(crate) fn registry() -> Option<Arc<Registry>> {
    let registry = REGISTRY.try_with(|registry| registry.borrow().clone());
    registry.ok().flatten()
}

/// Makes this thread worker `index` of `registry`.
pub(crate) fn enter(registry: &Arc<Registry>, index: usize) {
    HERE.set(Here {
        registry: Arc::as_ptr(registry),
        index,
        num_threads: registry.num_threads(),
    });
    REGISTRY.with(|place| *place.borrow_mut() = Some(registry.clone()));
}

/// Makes this thread a non-worker again.
pub(crate) fn leave() {
    HERE.set(OUTSIDE);
    // Dropped outside of the borrow: the last reference drops the handlers, which are user code.
    drop(REGISTRY.with(|place| place.borrow_mut().take()));
}
