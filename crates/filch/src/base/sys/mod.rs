//! Services of the operating system beyond `std`.

#[cfg(not(filch_loom))]
pub(crate) mod barrier;
#[cfg(filch_loom)]
pub mod barrier;
pub(crate) mod cores;
pub(crate) mod memory;
pub(crate) mod stack;
