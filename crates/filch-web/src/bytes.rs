//! Memory that JavaScript fills and passes to Rust.

use std::ptr;

/// Returns the bytes that JavaScript has passed by `app.write(value)`, which allocates them here.
///
/// ```
/// # let bytes = Box::<[u8]>::from(*b"from the page");
/// # let (length, address) = (bytes.len(), Box::into_raw(bytes).cast::<u8>());
/// // The arguments of an exported function:
/// // SAFETY: the page calls it with what `app.write` has returned, once.
/// let text = unsafe { filch_web::take_bytes(address, length) };
/// assert_eq!(text, b"from the page");
/// ```
///
/// # Safety
/// The arguments must be those that `app.write` returned, and used once.
#[must_use]
pub unsafe fn take_bytes(address: *mut u8, length: usize) -> Vec<u8> {
    let bytes = ptr::slice_from_raw_parts_mut(address, length);
    // SAFETY: `filch_allocate` made the block of this length, and the caller uses it once.
    unsafe { Box::from_raw(bytes) }.into_vec()
}

/// Allocates `length` bytes for JavaScript, which passes them to [`take_bytes`] or `filch_settle`.
#[unsafe(no_mangle)]
extern "C" fn filch_allocate(length: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; length].into_boxed_slice()).cast()
}
