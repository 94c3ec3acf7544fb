//! Whether this process is a child of the one that started a thread.
//!
//! A child process has the memory of its parent, but not its threads. The number of the process
//! says in which of the two the caller is. On Linux `getpid` is a system call, which took a third
//! of the time of a timeout that is set and removed; so a function that `fork` calls in the child
//! counts generations instead. (A process that is made by the bare system call, past the C library,
//! is not noticed there, as it is not by the library itself.)
#![cfg_attr(
    all(target_os = "linux", not(any(miri, filch_loom))),
    expect(unsafe_code, reason = "registers a function with the C library")
)]

use std::io;

#[cfg(all(target_os = "linux", not(any(miri, filch_loom))))]
mod generation {
    use crate::base::sync::Hint;
    use std::{
        io,
        sync::{Mutex, PoisonError},
    };

    /// The number of forks between the first process that counted and this one.
    static FORKS: Hint = Hint::new(0);

    /// Returns a number that differs between a process and its children.
    #[inline]
    pub(super) fn number() -> u64 {
        // The thread that forked is the only one of the child, and has written it itself.
        FORKS.get()
    }

    /// Called in the child by the thread that forks. It only writes a word: nothing else is allowed
    /// there.
    unsafe extern "C" fn count_fork() {
        FORKS.set(FORKS.get() + 1);
    }

    /// Registers the function that counts forks, once.
    pub(super) fn observe() -> io::Result<()> {
        static OBSERVED: Mutex<bool> = Mutex::new(false);
        let mut observed = OBSERVED.lock().unwrap_or_else(PoisonError::into_inner);
        if *observed {
            return Ok(());
        }
        // SAFETY: `count_fork` may be called at any time, and does only what a child may do after a
        // fork: it writes a static word.
        let error = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
        match error {
            0 => {
                *observed = true;
                Ok(())
            }
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(miri, filch_loom)))))]
mod generation {
    use std::{io, process};

    pub(super) fn number() -> u64 {
        // There is one process on wasm, and no number for it.
        match cfg!(target_family = "wasm") {
            true => 0,
            false => process::id().into(),
        }
    }

    pub(super) fn observe() -> io::Result<()> {
        Ok(())
    }
}

/// The number of this process: it differs from that of its parent, if [`observe_forks`] was called
/// before the fork.
#[inline]
pub(crate) fn number() -> u64 {
    generation::number()
}

/// Makes [`number`] differ in the children that are forked from now on.
///
/// # Errors
/// When the system has no memory for that.
pub(crate) fn observe_forks() -> io::Result<()> {
    generation::observe()
}

#[cfg(all(test, target_os = "linux", not(any(miri, filch_loom))))]
mod tests {
    use super::{number, observe_forks};

    #[test]
    fn a_child_has_another_number() {
        observe_forks().unwrap();
        observe_forks().unwrap();
        let before = number();
        // SAFETY: the child only compares two numbers and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let differs = number() == before + 1;
            // SAFETY: ends the child at once, without the destructors of the parent's values.
            unsafe { libc::_exit(if differs { 0 } else { 1 }) };
        }
        assert!(child > 0, "no process could be started");
        let mut status = 0;
        // SAFETY: waits for the child that was started above, and writes one integer.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, status), (child, 0));
        assert_eq!(number(), before, "the parent's does not change");
    }
}
