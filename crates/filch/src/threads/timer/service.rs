//! What the threads of the timer know of each other.

use crate::base::Instant;

/// When a thread will check the queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum NextCheck {
    /// Before it sleeps the next time; or there is no thread.
    Awake,
    /// At this time at the latest. (The watchdog: a grace after it.)
    Until(Instant),
    /// When it is woken.
    Forever,
}

impl NextCheck {
    pub(super) fn until(at: Option<Instant>) -> Self {
        at.map_or(Self::Forever, Self::Until)
    }

    /// Records that the thread must check the queue at `at`. Returns whether the thread has to be
    /// woken for that.
    pub(super) fn shorten(&mut self, at: Instant) -> bool {
        let sooner = match *self {
            Self::Awake => false,
            Self::Until(time) => at < time,
            Self::Forever => true,
        };
        if sooner {
            *self = Self::Until(at);
        }
        sooner
    }
}

/// The roles of the timer's threads.
#[derive(Debug)]
pub(super) struct Service {
    /// The number of the server. It is incremented when another thread takes over.
    pub(super) server: u64,
    /// The number of the callback that the server is in.
    pub(super) inside: Option<u64>,
    /// The number of callbacks so far.
    pub(super) callbacks: u64,
    /// The number of threads.
    pub(super) threads: usize,
    pub(super) has_watchdog: bool,
    /// When the watchdog will check.
    pub(super) watch: NextCheck,
}

impl Service {
    pub(super) const fn new() -> Self {
        Self {
            server: 0,
            inside: None,
            callbacks: 0,
            threads: 0,
            has_watchdog: false,
            watch: NextCheck::Awake,
        }
    }

    #[cfg(all(test, not(filch_loom)))]
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Prevents another thread from being started.
    #[cfg(all(test, not(filch_loom)))]
    pub(super) fn prevent_start(&mut self) {
        self.has_watchdog = true;
    }

    /// The state with one thread, which has just been started.
    pub(super) fn first(before: &Self) -> Self {
        Self {
            server: before.server + 1,
            callbacks: before.callbacks,
            threads: 1,
            ..Self::new()
        }
    }
}
