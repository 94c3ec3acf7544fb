//! The CPUs that a thread may run on.
#![cfg_attr(
    all(target_os = "linux", not(miri)),
    expect(
        unsafe_code,
        reason = "calls of the system that the standard library does not have"
    )
)]

use std::io;

/// Allows this thread to run on all CPUs that the first thread of the process may use.
///
/// A thread inherits the CPUs of the thread that starts it. One that serves the whole process
/// should not stay on the CPU of the pinned worker that happened to start it.
pub(crate) fn as_first_thread() {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(mask) = linux::mask_of(linux::first_thread()) {
        // Where the system refuses, the thread stays where it is.
        let _ = linux::restrict_to(&mask);
    }
}

/// The CPU that this thread runs on at the moment, where the system reports it.
pub(crate) fn current() -> Option<u32> {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: the call takes no arguments, and returns a number, or -1.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    None
}

/// Whether this thread may run on one CPU only. False where the system does not report it.
pub(crate) fn is_pinned() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        linux::mask_of(0)
            .is_some_and(|mask| mask.iter().map(|word| word.count_ones()).sum::<u32>() == 1)
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    false
}

/// Returns the CPUs that this thread may run on, in ascending order; if it was [pinned](pin), those
/// of before. `None` where the system does not report it.
pub(crate) fn allowed() -> Option<Vec<usize>> {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let mask = linux::BEFORE.get().or_else(|| linux::mask_of(0))?;
        Some(linux::cpus_in(&mask).collect())
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    None
}

/// Restricts this thread to these CPUs, as far as they exist and the system allows them.
///
/// # Errors
/// When the system allows none of them, or does not pin threads. Then nothing changes.
pub(crate) fn pin(cpus: impl Iterator<Item = usize>) -> io::Result<()> {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let before = linux::BEFORE.get().or_else(|| linux::mask_of(0));
        linux::restrict_to(&linux::mask_with(cpus))?;
        linux::BEFORE.set(before);
        Ok(())
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        let _ = cpus;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Whether [`pin`] works on this system.
pub(crate) const CAN_PIN: bool = cfg!(all(target_os = "linux", not(miri)));

/// What a thread has to undo that a [pinned](pin) thread starts: it should not be pinned as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InheritedPin {
    #[cfg(all(target_os = "linux", not(miri)))]
    before: linux::Mask,
}

impl InheritedPin {
    /// Returns what the threads inherit that this thread starts, if it is pinned.
    pub(crate) fn of_this_thread() -> Option<Self> {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            linux::BEFORE.get().map(|before| Self { before })
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        None
    }

    /// Lets this thread run where the thread that started it could run before it was pinned.
    pub(crate) fn undo(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            // Where the system refuses, the thread stays where it is.
            let _ = linux::restrict_to(&self.before);
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use libc::{cpu_set_t, pid_t};
    use std::{cell::Cell, io};

    /// A set of CPUs, one bit for each: room for as many as Linux can be built for. `cpu_set_t`
    /// has room for an eighth of them.
    pub(super) type Mask = [u64; 8192 / 64];

    thread_local! {
        /// The CPUs of this thread before it was pinned.
        pub(super) static BEFORE: Cell<Option<Mask>> = const { Cell::new(None) };
    }

    pub(super) fn first_thread() -> pid_t {
        // SAFETY: the call takes no arguments, and returns the number of the process, which is that
        // of its first thread.
        unsafe { libc::getpid() }
    }

    /// Returns the CPUs of a thread; zero is this thread. `None` if the thread does not exist any
    /// more, or if there are more CPUs than a mask has room for.
    pub(super) fn mask_of(thread: pid_t) -> Option<Mask> {
        let mut mask: Mask = [0; _];
        let set = (&raw mut mask).cast::<cpu_set_t>();
        // SAFETY: the call writes at most as many bytes as are passed, which is the size of `mask`.
        // The masks of the system are arrays of words with the first CPU in the lowest bit.
        let result = unsafe { libc::sched_getaffinity(thread, size_of::<Mask>(), set) };
        (result == 0).then(|| native(mask))
    }

    /// Restricts this thread to these CPUs.
    ///
    /// # Errors
    /// When the system refuses. Then nothing changes.
    pub(super) fn restrict_to(mask: &Mask) -> io::Result<()> {
        let mask = native(*mask);
        let set = (&raw const mask).cast::<cpu_set_t>();
        // SAFETY: the call reads as many bytes as are passed, which is the size of `mask`.
        match unsafe { libc::sched_setaffinity(0, size_of::<Mask>(), set) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Converts between words of 64 bits and those of the system, which are half as long on some
    /// machines: that matters if their first half is the high one.
    fn native(mask: Mask) -> Mask {
        match cfg!(all(target_endian = "big", target_pointer_width = "32")) {
            true => mask.map(|word| word.rotate_left(32)),
            false => mask,
        }
    }

    /// Returns the mask of these CPUs, without those for which there is no room.
    pub(super) fn mask_with(cpus: impl Iterator<Item = usize>) -> Mask {
        let mut mask: Mask = [0; _];
        for cpu in cpus {
            if let Some(word) = mask.get_mut(cpu / 64) {
                *word |= 1 << (cpu % 64);
            }
        }
        mask
    }

    pub(super) fn cpus_in(mask: &Mask) -> impl Iterator<Item = usize> {
        (0..mask.len() * 64).filter(|cpu| mask[cpu / 64] & (1 << (cpu % 64)) != 0)
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, filch_loom))))]
mod tests {
    use super::{InheritedPin, allowed, as_first_thread, current, is_pinned, linux, pin};
    use std::thread;

    #[test]
    fn a_thread_of_a_pinned_parent_regains_all_cpus() {
        let pinned = || {
            let all = allowed().unwrap();
            let here = |mask: Option<_>| linux::cpus_in(&mask.unwrap()).collect::<Vec<_>>();
            pin([all[0]].into_iter()).unwrap();
            assert_eq!(here(linux::mask_of(0)), [all[0]]);
            assert!(is_pinned());
            assert_eq!(current(), u32::try_from(all[0]).ok());
            assert_eq!(allowed().unwrap(), all, "it knows what it could use before");

            let inherited = InheritedPin::of_this_thread().unwrap();
            let child = thread::spawn(move || {
                assert!(InheritedPin::of_this_thread().is_none());
                let before = here(linux::mask_of(0));
                inherited.undo();
                (before, here(linux::mask_of(0)))
            });
            assert_eq!(child.join().unwrap(), (vec![all[0]], all));

            as_first_thread();
            let first = here(linux::mask_of(linux::first_thread()));
            assert_eq!(here(linux::mask_of(0)), first);
        };
        thread::spawn(pinned).join().unwrap();
    }

    #[test]
    fn a_refused_pin_changes_nothing() {
        let refused = || {
            let all = allowed().unwrap();
            assert!(pin([].into_iter()).is_err());
            assert!(pin([usize::MAX].into_iter()).is_err());
            assert_eq!(allowed().unwrap(), all);
            assert!(InheritedPin::of_this_thread().is_none());
        };
        thread::spawn(refused).join().unwrap();
    }
}
