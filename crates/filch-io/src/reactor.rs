//! The reactor: one system selector, and the sources that are registered with it.

use crate::source::Readiness;
use filch::Driver;
use mio::{Events, Interest, Poll, Registry, Token, event::Source};
use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    task::Waker,
    thread,
    time::Duration,
};

/// The most events that one call of the system returns; tokio's number. More wait for the next
/// call.
const EVENTS: usize = 1024;

/// How long a second pool that waits in the same reactor sleeps at a time.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// The token of the notification; no source has it.
const NOTIFICATION: Token = Token(usize::MAX);

/// Waits for sources of the system to become ready, on the workers of a pool. Cheap to clone.
///
/// A reactor belongs to one pool, which gets a clone of it by
/// [`PoolBuilder::driver`](filch::PoolBuilder::driver). Without a pool no event of it is ever
/// found. A second pool may share it, but waits in it only now and then while the first one does.
///
/// ```
/// use filch_io::Reactor;
///
/// let reactor = Reactor::new()?;
/// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Reactor {
    shared: Arc<Shared>,
}

struct Shared {
    /// Locked by the thread that waits.
    selector: Mutex<Selector>,
    registry: Registry,
    notifier: mio::Waker,
    sources: Mutex<Sources>,
}

struct Selector {
    poll: Poll,
    events: Events,
}

/// The registered sources. A source's index is its token.
#[derive(Default)]
struct Sources {
    list: Vec<Option<Arc<Readiness>>>,
    free: Vec<usize>,
}

impl Reactor {
    /// A reactor without sources.
    ///
    /// ```
    /// use filch_io::Reactor;
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let waits = pool.spawn_future(async { 1 + 1 }); // an idle worker waits in the reactor
    /// assert_eq!(waits.join()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the system has no selector left for the process.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let notifier = mio::Waker::new(&registry, NOTIFICATION)?;
        let events = Events::with_capacity(EVENTS);
        Ok(Self {
            shared: Arc::new(Shared {
                selector: Mutex::new(Selector { poll, events }),
                registry,
                notifier,
                sources: Mutex::default(),
            }),
        })
    }

    /// Registers `source` for reading and writing. Its number is for
    /// [`deregister`](Self::deregister).
    pub(crate) fn register(&self, source: &mut impl Source) -> io::Result<(usize, Arc<Readiness>)> {
        let readiness = Arc::new(Readiness::default());
        let number = self.sources().insert(readiness.clone());
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .shared
            .registry
            .register(source, Token(number), interest);
        match registered {
            Ok(()) => Ok((number, readiness)),
            Err(error) => {
                self.sources().remove(number);
                Err(error)
            }
        }
    }

    pub(crate) fn deregister(&self, source: &mut impl Source, number: usize) {
        // An error leaves nothing to do: the source is closed next, which removes it as well.
        let _ = self.shared.registry.deregister(source);
        self.sources().remove(number);
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.shared
            .sources
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sources {
    fn insert(&mut self, readiness: Arc<Readiness>) -> usize {
        let Some(number) = self.free.pop() else {
            self.list.push(Some(readiness));
            return self.list.len() - 1;
        };
        self.list[number] = Some(readiness);
        number
    }

    fn remove(&mut self, number: usize) {
        self.list[number] = None;
        self.free.push(number);
    }
}

impl Driver for Reactor {
    fn park(&self, timeout: Option<Duration>, ready: &mut Vec<Waker>) {
        let mut selector = match self.shared.selector.try_lock() {
            Ok(selector) => selector,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // Another pool waits here, and finds the events.
                thread::park_timeout(
                    timeout.map_or(RETRY_INTERVAL, |timeout| timeout.min(RETRY_INTERVAL)),
                );
                return;
            }
        };
        let Selector { poll, events } = &mut *selector;
        if poll.poll(events, timeout).is_err() {
            // Interrupted by a signal: the pool calls again.
            return;
        }
        if events.is_empty() {
            return;
        }
        let sources = self.sources();
        for event in events.iter() {
            // If a number was reused, its new source seems ready once although it is not.
            if let Some(Some(readiness)) = sources.list.get(event.token().0) {
                readiness.set(event, ready);
            }
        }
    }

    fn notify(&self) {
        // It fails only when the counter of notifications is full, and then there is one.
        let _ = self.shared.notifier.wake();
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.sources();
        f.debug_struct("Reactor")
            .field("sources", &(sources.list.len() - sources.free.len()))
            .finish_non_exhaustive()
    }
}
