//! How many waits of a thread are listed.

use std::cell::Cell;

thread_local! {
    static LISTINGS: Cell<Listings> = const { Cell::new(Listings { last: 0, in_progress: 0 }) };
}

/// The listed waits of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listings {
    /// How many there have been.
    last: u64,
    in_progress: u32,
}

impl Listings {
    #[inline]
    pub(crate) fn of_this_thread() -> Self {
        LISTINGS.get()
    }

    /// Whether a listed wait of this thread is in progress, and one has been listed since `self`.
    #[inline]
    pub(crate) fn has_new_in_progress(self) -> bool {
        let now = LISTINGS.get();
        now.in_progress > 0 && now.last != self.last
    }

    pub(super) fn begin() {
        let Self { last, in_progress } = LISTINGS.get();
        LISTINGS.set(Self {
            last: last + 1,
            in_progress: in_progress + 1,
        });
    }

    pub(super) fn end() {
        let now = LISTINGS.get();
        LISTINGS.set(Self {
            in_progress: now.in_progress - 1,
            ..now
        });
    }
}
