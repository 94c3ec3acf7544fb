//! CPU time of this process.
#![expect(unsafe_code, reason = "the clock system call")]

use std::time::Duration;

/// Returns the CPU time of all threads of the process, including those that have ended.
pub(crate) fn used() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one `timespec` to `time`.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert!(failed == 0, "this system has no CPU clock for processes");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
