//! The remaining stack of a thread.
#![cfg_attr(
    all(target_os = "linux", not(miri)),
    expect(unsafe_code, reason = "asks the thread library for the stack's bounds")
)]

use std::{cell::Cell, hint};

/// The stack size that is assumed when the system does not report it, in bytes.
const ASSUMED_BYTES: usize = 1 << 20;

thread_local! {
    /// The lowest address that this thread's waits should reach, or zero when not determined yet.
    static FLOOR: Cell<usize> = const { Cell::new(0) };
}

/// Returns an address in the current stack frame.
#[inline(always)]
fn stack_address() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(hint::black_box(&local)).addr()
}

/// Whether less than half of this thread's stack is in use. (Where the size is not known, whether
/// less than 512 KiB have been used since the first call.)
#[inline]
pub(crate) fn is_ample() -> bool {
    is_ample_with(0)
}

/// [`is_ample`] when `more` bytes are in use.
#[inline]
pub(crate) fn is_ample_with(more: usize) -> bool {
    let floor = match FLOOR.get() {
        0 => determine_floor(),
        floor => floor,
    };
    // Stacks grow down everywhere that this library runs, except for Miri, where frames are
    // anywhere.
    cfg!(miri) || stack_address() > floor.saturating_add(more)
}

/// Determines the floor at the first call of this thread.
#[cold]
#[inline(never)]
fn determine_floor() -> usize {
    let floor = stack_middle()
        .unwrap_or_else(|| stack_address().saturating_sub(ASSUMED_BYTES / 2))
        .max(1);
    FLOOR.set(floor);
    floor
}

/// Returns the address in the middle of this thread's stack.
#[cfg(all(target_os = "linux", not(miri)))]
fn stack_middle() -> Option<usize> {
    use std::mem::MaybeUninit;

    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the call takes no arguments and cannot fail.
    let me = unsafe { libc::pthread_self() };
    // SAFETY: `me` is a living thread, and `attributes` is written when the call returns 0.
    if unsafe { libc::pthread_getattr_np(me, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut low, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: `attributes` was initialised above; the other two pointers are to local variables.
    let got =
        unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size) };
    // SAFETY: `attributes` was initialised above, and is not used after this.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    (got == 0 && size > 0).then(|| low.addr() + size / 2)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn stack_middle() -> Option<usize> {
    None
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::is_ample;

    /// Recurses in steps of 4 KiB until the stack is no longer ample. Returns the number of steps.
    fn depth() -> usize {
        let frame = [0_u8; 4096];
        std::hint::black_box(&frame);
        let below = if is_ample() { depth() + 1 } else { 0 };
        std::hint::black_box(&frame);
        below
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "Miri's stack is unlimited, so `is_ample` is always true there"
    )]
    fn about_half_of_the_stack_is_ample() {
        // The system may give more than is requested, never less.
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        let steps = thread.spawn(depth).unwrap().join().unwrap();
        assert!(
            steps >= 60,
            "only {steps} steps of 4 KiB in a stack of at least 1 MiB"
        );
    }
}
