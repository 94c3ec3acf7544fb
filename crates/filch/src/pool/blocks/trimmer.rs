//! The thread that gives chunks of unused blocks back to the system.
//!
//! A reserve keeps what was needed at its peak, so that tasks allocate nothing in the steady state.
//! When a peak is over, nothing may be left that finishes a task or takes a block, so the rest is
//! freed by a thread of its own, and not by workers, which may have work to do. A thread that adds
//! a bundle to a reserve which is large then, and has no trimmer, starts one. The trimmer wakes
//! once per [`PERIOD`] and frees what was not used during the whole of it. So programs whose peaks
//! recur sooner free nothing. It ends when the reserve is small, or when it has freed nothing and
//! nothing was used meanwhile: a trimmer of an idle process ends after a few periods.
//!
//! A reserve of which each chunk has a block in use cannot be trimmed. Then the period doubles each
//! time, up to [`LONGEST_PERIOD`].
//!
//! A child process that was made by a `fork` has the reserve of its parent, but not the trimmer.
//! What the parent was about to free stays in the child.

use super::reserve::{Reserve, Trimmed};
use crate::base::{host::IS_HOSTED, sys::cores, thread, unwind};
use std::{thread::Builder, time::Duration};

/// How long a block must have been unused to be freed, at least. Long compared with the cost of
/// allocating it again, with its share of a page fault; short for people who watch the memory of a
/// process.
const PERIOD: Duration = Duration::from_secs(1);

const LONGEST_PERIOD: Duration = Duration::from_secs(64);

/// Bytes of stack of the thread, which calls no user code except the global allocator.
const STACK: usize = 256 << 10;

/// Starts the trimmer of a reserve. If that fails, a thread that gives blocks away later tries
/// again.
#[cold]
pub(super) fn start(reserve: &'static Reserve) {
    // Where the system starts no threads, it does not take memory back either.
    if IS_HOSTED {
        return;
    }
    let trimmer = Builder::new().name("filch-trimmer".into());
    // Never joined, so that it does not prevent the process from ending. Contained, because `std`
    // may panic where the destructors of a thread that ends call this.
    let started = unwind::contain(|| {
        trimmer.stack_size(STACK).spawn(move || {
            cores::as_first_thread();
            run(reserve);
        })
    });
    if !matches!(started, Ok(Ok(_))) {
        reserve.unclaim_trimmer();
    }
}

fn run(reserve: &Reserve) {
    let mut period = PERIOD;
    loop {
        thread::sleep(period);
        period = match reserve.trim() {
            Trimmed::Settled => return,
            Trimmed::More { worthwhile: true } => PERIOD,
            Trimmed::More { worthwhile: false } => (2 * period).min(LONGEST_PERIOD),
        };
    }
}
