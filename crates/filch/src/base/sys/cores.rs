//! The cores that a thread may run on.
#![cfg_attr(
    all(target_os = "linux", not(miri)),
    expect(
        unsafe_code,
        reason = "calls of the system that the standard library does not have"
    )
)]

/// Allows this thread to run on all cores that the first thread of the process may use.
///
/// A thread inherits the cores of the thread that starts it. One that serves the whole process
/// should not stay on the core of the pinned worker that happened to start it.
pub(crate) fn as_first_thread() {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(cores) = linux::cores_of(linux::first_thread()) {
        linux::restrict_to(&cores);
    }
}

/// The core that this thread runs on at the moment, where the system reports it.
pub(crate) fn current() -> Option<u32> {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: the call takes no arguments, and returns a number, or -1.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    None
}

/// Whether this thread may run on one core only. False where the system does not report it.
pub(crate) fn is_pinned() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: the call only reads the set, and counts its bits.
        linux::cores_of(0).is_some_and(|cores| unsafe { libc::CPU_COUNT(&cores) } == 1)
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    false
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use libc::{cpu_set_t, pid_t};

    pub(super) fn first_thread() -> pid_t {
        // SAFETY: the call takes no arguments, and returns the number of the process, which is that
        // of its first thread.
        unsafe { libc::getpid() }
    }

    /// Returns the cores of a thread; zero is this thread. `None` if the thread does not exist any
    /// more, or if there are more cores than a set has room for.
    pub(super) fn cores_of(thread: pid_t) -> Option<cpu_set_t> {
        // SAFETY: a set is an array of bits, for which zero is a valid value: the empty set.
        let mut cores = unsafe { std::mem::zeroed::<cpu_set_t>() };
        // SAFETY: the pointer is to a set of the size that is passed.
        let result =
            unsafe { libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &raw mut cores) };
        (result == 0).then_some(cores)
    }

    /// Restricts this thread to these cores. Where the system refuses, nothing changes.
    pub(super) fn restrict_to(cores: &cpu_set_t) {
        // SAFETY: the call reads a set of the size that is passed.
        unsafe { libc::sched_setaffinity(0, size_of::<cpu_set_t>(), cores) };
    }

    #[cfg(all(test, not(filch_loom)))]
    mod tests {
        use super::{cores_of, first_thread, restrict_to};

        #[test]
        fn a_thread_of_a_pinned_parent_regains_all_cores() {
            std::thread::spawn(|| {
                let all = cores_of(first_thread()).unwrap();
                let is_in = |core: usize, cores: &libc::cpu_set_t| {
                    // SAFETY: the call only reads a bit, if it is in range.
                    unsafe { libc::CPU_ISSET(core, cores) }
                };
                let count =
                    |cores: &libc::cpu_set_t| (0..1024).filter(|&core| is_in(core, cores)).count();
                let first = (0..1024).find(|&core| is_in(core, &all)).unwrap();
                // SAFETY: as in `cores_of`, zero is a valid value: the empty set.
                let mut one = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
                // SAFETY: the call sets a bit that is in range, because `first` was found in a set.
                unsafe { libc::CPU_SET(first, &mut one) };
                restrict_to(&one);
                assert_eq!(count(&cores_of(0).unwrap()), 1);
                assert!(super::super::is_pinned());
                assert_eq!(super::super::current(), u32::try_from(first).ok());
                super::super::as_first_thread();
                assert_eq!(count(&cores_of(0).unwrap()), count(&all));
            })
            .join()
            .unwrap();
        }
    }
}
