//! An asymmetric barrier, of which one side is nearly free.
//!
//! Two threads that each write one word and then read the other's both need a full fence between
//! their write and their read, or both may miss the other's write. [`light`] and [`heavy`] are such
//! a pair. When the system can make every thread of the process execute a fence on request (Linux:
//! `membarrier`), `light` only has to stop the compiler, and `heavy` makes the request. Otherwise
//! both are a `SeqCst` fence. Busy workers call `light`; idle workers call `heavy`.
//!
//! Which of the two it is gets decided once for the process, by the first [`prepare`], and never
//! changes: a `light` that stops only the compiler must never be paired with a `heavy` that is only
//! a fence.
#![cfg_attr(
    all(target_os = "linux", not(any(filch_loom, filch_tsan, miri))),
    expect(unsafe_code, reason = "the membarrier system call")
)]

use crate::base::error::BuildError;
use std::ffi::OsString;

/// Also for Miri, which has no such call, and for ThreadSanitizer, which does not understand it.
#[cfg(all(any(not(target_os = "linux"), filch_tsan, miri), not(filch_loom)))]
mod fences {
    use crate::base::sync::fence_seq_cst;

    pub(crate) fn prepare() -> super::BarrierKind {
        super::BarrierKind::Fence
    }

    #[inline(always)]
    pub(crate) fn light() {
        fence_seq_cst();
    }

    #[inline(always)]
    pub(crate) fn interrupt_point() {}

    pub(crate) fn heavy() {
        fence_seq_cst();
    }
}

/// A model of the system call, for the model checker.
///
/// `membarrier` guarantees that every other thread executes a full fence at some point of its
/// program between the call and the return. Here one thread, the one that has called `busy_side`,
/// has such points wherever it calls [`interrupt_point`]: it checks whether there is a request, and
/// if so, fences and acknowledges it. `heavy` makes a request and waits for the acknowledgement. In
/// the production build `interrupt_point` stops the compiler and nothing else. The points must be
/// between the accesses whose order matters, those of a pop; where there are none, the model's
/// thief only waits a little longer than a real one.
#[cfg(filch_loom)]
mod model {
    use super::BarrierKind;
    use crate::base::sync::{AtomicUsize, Ordering, fence_seq_cst};
    use loom::sync::Notify;

    const NONE: usize = 0;

    /// More barriers than any model requests.
    const REQUESTS: usize = 16;

    struct Rendezvous {
        busy_side: AtomicUsize,
        asked: AtomicUsize,
        acknowledged: AtomicUsize,
        /// The requester with each request waits here: blocked, so that loom need not explore its
        /// waiting.
        acknowledgements: Vec<Notify>,
    }

    loom::lazy_static! {
        static ref RENDEZVOUS: Rendezvous = Rendezvous {
            busy_side: AtomicUsize::new(NONE),
            asked: AtomicUsize::new(0),
            acknowledged: AtomicUsize::new(0),
            acknowledgements: (0..REQUESTS).map(|_| Notify::new()).collect(),
        };
    }

    loom::thread_local! {
        static BUSY: std::cell::Cell<bool> = std::cell::Cell::new(false);
    }

    pub(crate) fn prepare() -> BarrierKind {
        BarrierKind::Process
    }

    pub(crate) fn light() {
        fence_seq_cst();
    }

    /// Makes this thread acknowledge barriers at its `interrupt_point` points, until the value is
    /// dropped.
    #[cfg(test)]
    pub(crate) fn busy_side() -> BusySide {
        BUSY.with(|busy| busy.set(true));
        // Release: pairs with the acquire in `heavy`.
        RENDEZVOUS.busy_side.store(1, Ordering::Release);
        BusySide(())
    }

    /// See [`busy_side`].
    #[cfg(test)]
    pub(crate) struct BusySide(());

    #[cfg(test)]
    impl Drop for BusySide {
        fn drop(&mut self) {
            BUSY.with(|busy| busy.set(false));
            // The thread's own fence, for requesters from now on; they no longer wait.
            fence_seq_cst();
            // Release: pairs with the acquire in `heavy`. AcqRel: takes all pending requests, and
            // makes this thread's past visible to later requesters.
            RENDEZVOUS.busy_side.store(NONE, Ordering::Release);
            acknowledge(RENDEZVOUS.asked.swap(REQUESTS, Ordering::AcqRel));
        }
    }

    /// Acknowledges all requests below `asked`.
    fn acknowledge(asked: usize) {
        // Relaxed: only this thread writes it. Release: this thread's past is visible to the
        // requesters.
        let acknowledged = RENDEZVOUS.acknowledged.load(Ordering::Relaxed);
        RENDEZVOUS.acknowledged.store(asked, Ordering::Release);
        for request in acknowledged..asked.min(REQUESTS) {
            RENDEZVOUS.acknowledgements[request].notify();
        }
    }

    pub(crate) fn interrupt_point() {
        if !BUSY.with(std::cell::Cell::get) {
            // No requester waits for an acknowledgement of this thread, so it fences at every
            // point.
            fence_seq_cst();
            return;
        }
        // Relaxed: an interrupt may come arbitrarily late; the fence below does the rest.
        let asked = RENDEZVOUS.asked.load(Ordering::Relaxed);
        if asked != RENDEZVOUS.acknowledged.load(Ordering::Relaxed) {
            fence_seq_cst();
            acknowledge(asked);
        }
    }

    pub(crate) fn heavy() {
        fence_seq_cst();
        // Acquire: pairs with the releases of the busy side.
        if BUSY.with(std::cell::Cell::get) || RENDEZVOUS.busy_side.load(Ordering::Acquire) == NONE {
            return;
        }
        // AcqRel: this thread's past is visible to the busy side, which acknowledges or has left.
        let request = RENDEZVOUS.asked.fetch_add(1, Ordering::AcqRel);
        // From `REQUESTS` on the busy side has left, with a fence. Acquire: the busy side's past is
        // visible to this thread.
        while request < REQUESTS && RENDEZVOUS.acknowledged.load(Ordering::Acquire) <= request {
            RENDEZVOUS.acknowledgements[request].wait(); // may wake spuriously
        }
        fence_seq_cst();
    }
}

#[cfg(all(target_os = "linux", not(any(filch_loom, filch_tsan, miri))))]
mod membarrier {
    use super::BarrierKind;
    use crate::base::sync::{
        Ordering,
        atomic::{AtomicBool, compiler_fence},
        fence_seq_cst,
    };
    use std::sync::OnceLock;

    // From linux/membarrier.h; libc does not name them on every target.
    const QUERY: libc::c_int = 0;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    /// How often a barrier that the kernel refuses is retried.
    const RETRIES: u32 = 1000;

    /// Whether `light` is a fence. Starts as true, so that a `light` before the decision is strong.
    ///
    /// Relaxed suffices: it is written once, in `prepare`, before the threads that use it exist,
    /// and reading the older value `true` only makes `light` stronger.
    static FENCES: AtomicBool = AtomicBool::new(true);
    static KIND: OnceLock<BarrierKind> = OnceLock::new();

    fn call(command: libc::c_int) -> libc::c_long {
        // SAFETY: membarrier takes three integers and accesses no memory of this process; an
        // unknown command is refused with an error code.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// Registers for the barrier and tries it once. Returns whether the kernel offers it, and it
    /// succeeded.
    fn register() -> bool {
        let offered = call(QUERY);
        let wanted = libc::c_long::from(PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED);
        offered > 0
            && offered & wanted == wanted
            && call(REGISTER_PRIVATE_EXPEDITED) == 0
            && call(PRIVATE_EXPEDITED) == 0
    }

    pub(crate) fn prepare() -> BarrierKind {
        *KIND.get_or_init(|| {
            // A wrong value is an error of `check_variable`; a queue without an engine ignores it.
            let forced = super::fence_asked(std::env::var_os(super::VARIABLE)) == Ok(true);
            if !forced && register() {
                // Relaxed: see `FENCES`.
                FENCES.store(false, Ordering::Relaxed);
                BarrierKind::Process
            } else {
                BarrierKind::Fence
            }
        })
    }

    #[inline(always)]
    pub(crate) fn light() {
        // Relaxed: see `FENCES`.
        if FENCES.load(Ordering::Relaxed) {
            fence_seq_cst();
        } else {
            // SeqCst: for the compiler alone; `heavy` makes the processor fence.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// A point at which a barrier request may interrupt this thread: no access is moved across it.
    #[inline(always)]
    pub(crate) fn interrupt_point() {
        // SeqCst: for the compiler alone, as in `light`.
        compiler_fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy() {
        fence_seq_cst();
        if prepare() != BarrierKind::Process {
            return;
        }
        for _ in 0..RETRIES {
            if call(PRIVATE_EXPEDITED) == 0 {
                return;
            }
            // The kernel is short of memory, temporarily.
            crate::base::thread::yield_now();
        }
        // The kernel accepted the registration and a first call, so a refusal now (a system call
        // filter installed later, say) would silently void every `light` of the process.
        eprintln!("filch: the process-wide memory barrier stopped working; aborting");
        std::process::abort();
    }
}

#[cfg(all(any(not(target_os = "linux"), filch_tsan, miri), not(filch_loom)))]
pub(crate) use fences::{heavy, interrupt_point, light, prepare};
#[cfg(all(target_os = "linux", not(any(filch_loom, filch_tsan, miri))))]
pub(crate) use membarrier::{heavy, interrupt_point, light, prepare};
#[cfg(all(test, filch_loom))]
pub(crate) use model::busy_side;
#[cfg(filch_loom)]
pub(crate) use model::{heavy, interrupt_point, light, prepare};

/// The environment variable that chooses fences where the system offers the barrier.
const VARIABLE: &str = "FILCH_BARRIER";

/// Checks the environment variable.
pub(crate) fn check_variable() -> Result<(), BuildError> {
    match fence_asked(std::env::var_os(VARIABLE)) {
        Ok(_) => Ok(()),
        Err(value) => Err(BuildError::config(format!(
            "{VARIABLE} is {value:?}; set it to \"fence\", or unset it"
        ))),
    }
}

/// Whether a value of the variable asks for fences, or the value if it is wrong.
fn fence_asked(value: Option<OsString>) -> Result<bool, OsString> {
    match value {
        Some(value) if value == "fence" => Ok(true),
        Some(value) if !value.is_empty() => Err(value),
        _ => Ok(false),
    }
}

/// How this process implements its barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    /// A `SeqCst` fence on both sides.
    #[cfg_attr(filch_loom, expect(dead_code, reason = "models have the other kind"))]
    Fence,
    /// Free on the busy side; the idle side makes every thread of the process execute a fence.
    Process,
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{fence_asked, heavy, light, prepare};
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    #[test]
    fn the_variable_has_one_value() {
        assert_eq!(fence_asked(None), Ok(false));
        assert_eq!(fence_asked(Some("".into())), Ok(false));
        assert_eq!(fence_asked(Some("fence".into())), Ok(true));
        for wrong in ["fences", "Fence", "0", " "] {
            assert_eq!(fence_asked(Some(wrong.into())), Err(wrong.into()));
        }
    }

    /// Store buffering: with one light and one heavy side, both threads never miss each other.
    #[test]
    fn light_and_heavy_order_a_store_before_a_load() {
        prepare();
        for _ in 0..if cfg!(miri) { 20 } else { 2_000 } {
            let (x, y) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let start = Barrier::new(2);
            let (a, b) = std::thread::scope(|s| {
                let busy = s.spawn(|| {
                    start.wait();
                    x.store(1, Ordering::Relaxed);
                    light();
                    y.load(Ordering::Relaxed)
                });
                start.wait();
                y.store(1, Ordering::Relaxed);
                heavy();
                (x.load(Ordering::Relaxed), busy.join().unwrap())
            });
            assert!(a == 1 || b == 1, "both sides missed the other's write");
        }
    }
}
