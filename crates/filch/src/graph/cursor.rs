//! Where the feeders of a run take its sources from.

use crate::base::sync::AtomicUsize;

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

    /// Begins again with the first source, and keeps the length of the blocks.
    pub(super) fn restart(&mut self) {
        self.next = AtomicUsize::new(0);
    }
}
