//! What the operating system gives us beyond `std`.

pub(crate) mod barrier;
