//! The type of points in time: that of `std`, except where `std` has no clock.

#[cfg(any(test, all(target_family = "wasm", target_os = "unknown")))]
mod hosted;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use hosted::Instant;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use std::time::Instant;
