//! Which cores a thread may run on.
#![cfg_attr(
    all(target_os = "linux", not(miri)),
    expect(
        unsafe_code,
        reason = "calls of the system that the standard library does not have"
    )
)]

/// Lets this thread run wherever the first thread of the process may.
///
/// A thread inherits the cores of the one that starts it. One that is there for everybody should not stay on the core that a
/// worker was pinned to, because that worker happened to need it first.
pub(crate) fn as_first_thread() {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(cores) = linux::cores_of(linux::first_thread()) {
        linux::restrict_to(&cores);
    }
}

/// The core that this thread runs on at the moment, where the system tells.
pub(crate) fn current() -> Option<u32> {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: it only says a number, or -1.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    None
}

/// Whether this thread may run on one core only. False where the system does not tell.
pub(crate) fn is_pinned() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: it counts the bits of a set that it reads.
        linux::cores_of(0).is_some_and(|cores| unsafe { libc::CPU_COUNT(&cores) } == 1)
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    false
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use libc::{cpu_set_t, pid_t};

    pub(super) fn first_thread() -> pid_t {
        // SAFETY: it only says a number: that of the process, which is that of its first thread.
        unsafe { libc::getpid() }
    }

    /// Zero is this thread. `None` if there is no such thread any more, or there are more cores than a set has room for.
    pub(super) fn cores_of(thread: pid_t) -> Option<cpu_set_t> {
        // SAFETY: a set is a row of bits, and this is the empty one.
        let mut cores = unsafe { std::mem::zeroed::<cpu_set_t>() };
        // SAFETY: there is room for as many bytes as are named.
        let result =
            unsafe { libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &raw mut cores) };
        (result == 0).then_some(cores)
    }

    /// Where it is refused the thread stays where it was.
    pub(super) fn restrict_to(cores: &cpu_set_t) {
        // SAFETY: the set is read, as many bytes as are named.
        unsafe { libc::sched_setaffinity(0, size_of::<cpu_set_t>(), cores) };
    }

    #[cfg(all(test, not(filch_loom)))]
    mod tests {
        use super::{cores_of, first_thread, restrict_to};

        #[test]
        fn a_thread_gets_back_what_its_parent_lost() {
            std::thread::spawn(|| {
                let all = cores_of(first_thread()).unwrap();
                let is_in = |core: usize, cores: &libc::cpu_set_t| {
                    // SAFETY: it looks at a bit, if there is one.
                    unsafe { libc::CPU_ISSET(core, cores) }
                };
                let count =
                    |cores: &libc::cpu_set_t| (0..1024).filter(|&core| is_in(core, cores)).count();
                let first = (0..1024).find(|&core| is_in(core, &all)).unwrap();
                // SAFETY: as in `cores_of`.
                let mut one = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
                // SAFETY: it sets a bit that is there.
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
