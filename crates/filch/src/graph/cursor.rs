//! Where the sources of a run are taken from.
//!
//! A small run inside a task has one feeder, and no job for each source. The worker that begins it
//! takes the sources from the cursor one at a time, as feeders do, and other workers find the
//! feeder. So a source costs an atomic addition, and no push and pop.

use super::block::FirstTasks;
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicUsize, Ordering},
    thread,
};
use std::cell::Cell;

/// Where feeders take sources from.
pub(super) struct Cursor {
    /// The position of the next source.
    pub(super) next: AtomicUsize,
    /// How many sources a feeder takes at once, unless few are left.
    pub(super) block_len: AtomicUsize,
}

impl Cursor {
    pub(super) fn new() -> Self {
        Self {
            next: AtomicUsize::new(0),
            block_len: AtomicUsize::new(1),
        }
    }

    /// Takes one source. Returns its position, which is not less than the number of sources if none
    /// is left.
    #[inline(always)]
    fn take(&self) -> usize {
        if broken(Canary::GraphCursor) {
            // Relaxed, twice: the deliberate defect.
            let at = self.next.load(Ordering::Relaxed);
            thread::point();
            self.next.store(at + 1, Ordering::Relaxed);
            return at;
        }
        // Relaxed: the sources were written before the feeder was queued.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins again with the first source, and keeps the length of the blocks.
    pub(super) fn restart(&mut self) {
        self.next = AtomicUsize::new(0);
    }
}

/// The sources that a worker takes from the cursor of a run.
pub(super) struct CursorTasks<'a> {
    cursor: &'a Cursor,
    sources: &'a [u32],
    /// The position after the one that was taken last; that of the end if none is left.
    next: Cell<usize>,
    /// Whether the worker leaves the other sources to the feeder.
    has_stopped: Cell<bool>,
}

impl<'a> CursorTasks<'a> {
    #[inline(always)]
    pub(super) fn new(cursor: &'a Cursor, sources: &'a [u32]) -> Self {
        Self {
            cursor,
            sources,
            next: Cell::new(0),
            has_stopped: Cell::new(false),
        }
    }

    /// Whether no source is left.
    #[inline(always)]
    pub(super) fn is_used_up(&self) -> bool {
        self.next.get() >= self.sources.len()
    }
}

impl FirstTasks for CursorTasks<'_> {
    const IN_STRAND: bool = true;

    #[inline(always)]
    fn take(&self) -> Option<u32> {
        if self.is_used_up() || self.has_stopped.get() {
            return None;
        }
        thread::point();
        let at = self.cursor.take();
        self.next.set(at + 1);
        self.sources.get(at).copied()
    }

    #[inline(always)]
    fn is_last(&self) -> bool {
        self.is_used_up()
    }

    fn take_remaining(&self) -> &[u32] {
        self.has_stopped.set(true);
        &[]
    }
}
