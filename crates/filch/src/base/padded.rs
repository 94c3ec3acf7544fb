//! A value on separate cache lines.

use std::ops::{Deref, DerefMut};

/// Keeps its value on cache lines that nothing else uses, so that writes to it do not slow down
/// accesses to its neighbours (false sharing).
///
/// 128 bytes rather than 64: x86-64 fetches lines in pairs, and Apple's and some server ARM cores
/// have lines of 128 bytes.
#[derive(Debug, Default, Clone, Copy)]
#[repr(align(128))]
pub(crate) struct Padded<T>(T);

impl<T> Padded<T> {
    /// Puts `value` on separate cache lines.
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
