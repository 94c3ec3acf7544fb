//! The stack size of all workers.
#![expect(unsafe_code, reason = "the environment is set")]

/// Read by the standard library when it starts a thread.
const VARIABLE: &str = "RUST_MIN_STACK";

/// The usual size of the main thread's stack: some cases nest 10,000 joins, and not every system
/// has a setting for the stack size of its threads.
const BYTES: &str = "8388608";

/// Sets the stack of every thread started later to 8 MiB, unless the environment sets it. Must be
/// called before any thread is started.
pub(crate) fn deepen() {
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: there are no other threads yet, so no thread reads the environment at the same
        // time.
        unsafe { std::env::set_var(VARIABLE, BYTES) };
    }
}
