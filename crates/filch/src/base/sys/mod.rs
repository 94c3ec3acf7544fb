//! Services of the operating system beyond `std`.

pub(crate) mod barrier;
pub(crate) mod cores;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod stack;
