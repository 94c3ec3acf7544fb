//! A value on separate cache lines.

use std::ops::{Deref, DerefMut};

/// Keeps its value on cache lines that nothing else uses, so that writes to it do not slow down
/// accesses to its neighbours (false sharing).
///
/// 128 bytes rather than 64: x86-64 fetches lines in pairs, and Apple's and some server ARM cores
/// have lines of 128 bytes.
///
/// ```
/// use filch::base::padded::Padded;
///
/// let cells = [Padded::new(1), Padded::new(2)];
/// assert!(std::mem::align_of_val(&cells[0]) >= 128);
/// assert_eq!(*cells[0] + *cells[1], 3);
/// ```
#[derive(Debug, Default, Clone, Copy)]
#[repr(align(128))]
pub struct Padded<T>(T);

impl<T> Padded<T> {
    /// Puts `value` on separate cache lines.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
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
