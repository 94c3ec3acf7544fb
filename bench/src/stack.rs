//! Stacks for the workers of all systems alike.
#![expect(unsafe_code, reason = "the environment is set")]

/// Read by the standard library when it starts a thread.
const VARIABLE: &str = "RUST_MIN_STACK";

/// As much as the main thread mostly has: some cases nest 10,000 joins, and not every system can be told
/// how large the stacks of its threads should be.
const BYTES: &str = "8388608";

/// Gives 8 MiB to every thread started from here on, unless the environment says otherwise. To be called
/// before any thread is started.
pub(crate) fn deepen() {
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: there are no other threads yet, so nobody reads the environment meanwhile.
        unsafe { std::env::set_var(VARIABLE, BYTES) };
    }
}
