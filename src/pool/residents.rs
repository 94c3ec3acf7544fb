//! Who lives in a pool without being queued: futures that wait to be woken.
//!
//! A pool that ends must drop every one of them, so it has to know them. Each is linked into a list when it waits for
//! the first time, and taken out when it ends; what is queued or running is known anyway, and a future that never waits
//! is never linked. The lists are *shards*, one for each worker and its own lock for each: a worker links into its own,
//! so the locks are free but for those who end a future elsewhere.
//!
//! While a shard is open it keeps its pool alive from the first link on, and after that as long as somebody is in it. So
//! whoever knows that a future is linked, a waker, may use the pool.
#![expect(unsafe_code, reason = "lists that are linked through what they hold")]

use crate::base::{
    padded::Padded,
    sync::{AtomicBool, AtomicPtr, Mutex, MutexGuard, Ordering, UnsafeCell},
    thread,
};
use std::{
    cell::Cell,
    fmt,
    ptr::{self, NonNull},
    sync::{Arc, PoisonError, TryLockError},
};

/// The place of a resident in its list.
pub(crate) struct Link {
    /// Both belong to the lock of the shard while it is linked, and to whoever has evicted it after that.
    neighbours: UnsafeCell<Neighbours>,
}

#[derive(Clone, Copy, Default)]
struct Neighbours {
    before: Option<NonNull<Link>>,
    after: Option<NonNull<Link>>,
}

impl Link {
    pub(crate) fn new() -> Self {
        Self {
            neighbours: UnsafeCell::new(Neighbours::default()),
        }
    }
}

/// What a shard does with those who are in it when its pool ends.
pub(crate) struct Eviction {
    /// Takes over the resident, if nobody else has it at the moment; whoever has it learns that it must end. Called
    /// under the lock.
    ///
    /// # Safety
    /// The resident is linked.
    pub(crate) claim: unsafe fn(NonNull<Link>) -> bool,
    /// Ends a resident that was taken over. It is not linked any more.
    ///
    /// # Safety
    /// `claim` has taken it over, and this is called once.
    pub(crate) end: unsafe fn(NonNull<Link>),
}

struct List<P> {
    head: Option<NonNull<Link>>,
    closed: bool,
    /// How many have been evicted, and are not ended yet.
    evicted: usize,
    /// The pool, while it is needed.
    keep: Option<Arc<P>>,
    /// How those who are here are ended: told by the first, and the same for all.
    eviction: Option<&'static Eviction>,
}

// SAFETY: those who are linked may be used by whoever has the lock, as `link` asks for.
unsafe impl<P: Send + Sync> Send for List<P> {}

/// One list.
pub(crate) struct Shard<P> {
    list: Mutex<List<P>>,
    /// The pool, from the first link on.
    pool: AtomicPtr<P>,
}

impl<P> Shard<P> {
    fn new() -> Self {
        Self {
            list: Mutex::new(List {
                head: None,
                closed: false,
                evicted: 0,
                keep: None,
                eviction: None,
            }),
            pool: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, List<P>> {
        // In a rehearsal whoever has the lock may have been interrupted: `claim` comes to a point.
        let is_free = || !matches!(self.list.try_lock(), Err(TryLockError::WouldBlock));
        thread::wait_until(None, is_free);
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a resident. False when the pool has ended, and it must too.
    ///
    /// # Safety
    /// It stays where it is until it is unlinked or evicted, and may be claimed from any thread. The functions of
    /// `eviction` are for what it is a link of, as those of all who are linked in this pool.
    #[must_use]
    pub(crate) unsafe fn link(
        &self,
        link: NonNull<Link>,
        eviction: &'static Eviction,
        pool: impl FnOnce() -> Arc<P>,
    ) -> bool {
        let mut list = self.lock();
        if list.closed {
            return false;
        }
        if list.keep.is_none() {
            let pool = pool();
            // Relaxed: whoever reads it has been told of the link, which is later.
            self.pool
                .store(Arc::as_ptr(&pool).cast_mut(), Ordering::Relaxed);
            (list.keep, list.eviction) = (Some(pool), Some(eviction));
        }
        let first = list.head.replace(link);
        // SAFETY: it is the caller's until it is linked, which is now.
        unsafe {
            set(
                link,
                Neighbours {
                    before: None,
                    after: first,
                },
            );
        };
        if let Some(first) = first {
            // SAFETY: it is linked, and the lock is ours.
            unsafe { change(first, |at| at.before = Some(link)) };
        }
        true
    }

    /// Takes a resident out.
    ///
    /// # Safety
    /// It is linked here. The caller holds the pool in another way.
    pub(crate) unsafe fn unlink(&self, link: NonNull<Link>) {
        let mut list = self.lock();
        // SAFETY: the caller's duty.
        unsafe { list.remove(link) };
        let keep = list.release();
        drop(list);
        drop(keep);
    }

    /// The pool.
    ///
    /// # Safety
    /// The caller knows of a resident that is linked here, and stays so meanwhile.
    pub(crate) unsafe fn pool(&self) -> *const P {
        // Relaxed: written before the resident was linked, which the caller knows of.
        self.pool.load(Ordering::Relaxed)
    }

    fn close(&self) {
        let mut list = self.lock();
        list.closed = true;
        let Some(eviction) = list.eviction else {
            return; // there never was anybody
        };
        let (mut next, mut evicted) = (list.head, None);
        while let Some(link) = next {
            // SAFETY: it is linked, and the lock is ours.
            next = unsafe { get(link) }.after;
            // SAFETY: as above.
            if unsafe { (eviction.claim)(link) } {
                // SAFETY: as above.
                unsafe { list.remove(link) };
                list.evicted += 1;
                let (before, after) = (None, evicted.replace(link));
                // SAFETY: it has been taken over.
                unsafe { set(link, Neighbours { before, after }) };
            }
        }
        let keep = list.release();
        drop(list);
        while let Some(link) = evicted {
            // SAFETY: as above.
            evicted = unsafe { get(link) }.after;
            // SAFETY: as above, and this is the only time.
            unsafe { (eviction.end)(link) };
            self.lock().evicted -= 1;
        }
        drop(keep);
    }
}

impl<P> List<P> {
    /// # Safety
    /// It is linked here.
    unsafe fn remove(&mut self, link: NonNull<Link>) {
        // SAFETY: the caller's duty; the list is locked.
        let Neighbours { before, after } = unsafe { get(link) };
        match before {
            // SAFETY: it is linked too.
            Some(before) => unsafe { change(before, |at| at.after = after) },
            None => self.head = after,
        }
        if let Some(after) = after {
            // SAFETY: as above.
            unsafe { change(after, |at| at.before = before) };
        }
    }

    fn has_anybody(&self) -> bool {
        self.head.is_some() || self.evicted > 0
    }

    /// The share of the pool, if it is needed no longer. It must be dropped without the lock.
    #[must_use]
    fn release(&mut self) -> Option<Arc<P>> {
        (self.closed && self.head.is_none())
            .then(|| self.keep.take())
            .flatten()
    }
}

/// # Safety
/// The link is there, and the caller's or its lock the caller's.
unsafe fn get(link: NonNull<Link>) -> Neighbours {
    // SAFETY: the caller's duty.
    let link = unsafe { link.as_ref() };
    // SAFETY: as the field says.
    link.neighbours.with(|at| unsafe { *at })
}

/// # Safety
/// As [`get`].
unsafe fn set(link: NonNull<Link>, neighbours: Neighbours) {
    // SAFETY: the caller's duty.
    unsafe { change(link, |at| *at = neighbours) };
}

/// # Safety
/// As [`get`].
unsafe fn change(link: NonNull<Link>, f: impl FnOnce(&mut Neighbours)) {
    // SAFETY: the caller's duty.
    let link = unsafe { link.as_ref() };
    link.neighbours.with_mut(|at| {
        // SAFETY: as the field says.
        f(unsafe { &mut *at });
    });
}

/// All shards of a pool.
pub(crate) struct Residents<P> {
    closed: AtomicBool,
    shards: Box<[Padded<Shard<P>>]>,
}

thread_local! {
    /// How many residents this thread is in the middle of ending.
    static ENDING: Cell<usize> = const { Cell::new(0) };
}

/// This thread ends a resident, whose destructor is the user's and may drop a pool.
#[must_use]
pub(crate) struct Ending(());

impl Ending {
    pub(crate) fn new() -> Self {
        ENDING.set(ENDING.get() + 1);
        Self(())
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        ENDING.set(ENDING.get() - 1);
    }
}

impl<P> Residents<P> {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            closed: AtomicBool::new(false),
            shards: (0..shards.max(1))
                .map(|_| Padded::new(Shard::new()))
                .collect(),
        }
    }

    /// Whether the pool is ending: nobody should start to wait, or go on with what has waited.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: a hint that carries no data. Who links is told under the lock.
        self.closed.load(Ordering::Relaxed)
    }

    /// The list for what `worker` links.
    pub(crate) fn shard(&self, worker: usize) -> &Shard<P> {
        &self.shards[worker % self.shards.len()]
    }

    /// From now on nobody is linked. Ends all that nobody else has at the moment; the others are ended by those who have them.
    pub(crate) fn close(&self) {
        // Relaxed: as in `is_closed`.
        self.closed.store(true, Ordering::Relaxed);
        for shard in &self.shards {
            shard.close();
        }
    }

    /// Waits until everybody has gone. Those who are still there are about to be ended by threads that tried to wake
    /// them and found the pool closed, or that have evicted them. Where this thread is in the middle of that itself it does not wait.
    pub(crate) fn wait(&self) {
        for shard in &self.shards {
            while ENDING.get() == 0 && shard.lock().has_anybody() {
                thread::yield_now();
            }
        }
    }
}

impl<P> fmt::Debug for Residents<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Residents")
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
