//! The functions that `js/filch.js` provides. On other targets they do nothing.

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
#[link(wasm_import_module = "filch")]
unsafe extern "C" {
    /// Milliseconds since some fixed moment.
    pub(crate) safe fn now() -> f64;

    /// Asks for a call of `filch_turn`, soon.
    pub(crate) safe fn request_turn();

    /// Asks for a call of `filch_timers` after some milliseconds, instead of an earlier request.
    pub(crate) safe fn request_timers(milliseconds: f64);

    /// Prints a message to the console.
    ///
    /// # Safety
    /// There are `length` bytes at `address`.
    fn print(address: *const u8, length: usize);

    /// Settles a promise of JavaScript.
    ///
    /// # Safety
    /// As [`print`].
    fn settle_reply(token: u32, fulfilled: u32, address: *const u8, length: usize);
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
mod absent {
    pub(crate) fn now() -> f64 {
        0.0
    }

    pub(crate) fn request_turn() {}

    pub(crate) fn request_timers(_milliseconds: f64) {}

    pub(crate) unsafe fn print(_address: *const u8, _length: usize) {}

    pub(crate) unsafe fn settle_reply(
        _token: u32,
        _fulfilled: u32,
        _address: *const u8,
        _length: usize,
    ) {
    }
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub(crate) use absent::{now, request_timers, request_turn};
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
use absent::{print, settle_reply};

/// Prints a message to the console.
pub(crate) fn print_text(text: &str) {
    // SAFETY: both numbers are of `text`, which JavaScript reads before this returns.
    unsafe { print(text.as_ptr(), text.len()) };
}

/// Settles the promise that `token` stands for in JavaScript.
pub(crate) fn settle_promise(token: u32, fulfilled: bool, bytes: &[u8]) {
    // SAFETY: both numbers are of `bytes`, which JavaScript reads before this returns.
    unsafe { settle_reply(token, u32::from(fulfilled), bytes.as_ptr(), bytes.len()) };
}
