//! Futures that belong to a pool without being queued: they wait to be woken.
//!
//! A pool that ends must drop all of them, so it has to know them. Each is linked into a list when
//! it waits for the first time, and unlinked when it ends. Futures that are queued or running are
//! known anyway, and a future that never waits is never linked. The lists are *shards*, one for
//! each worker and each with its own lock: a worker links into its own shard, so the locks are
//! uncontended except when another thread ends a future.
//!
//! While a shard is open it keeps its pool alive from the first link on, and after that as long as
//! a future is linked. So a waker, which knows that its future is linked, may use the pool.
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

/// The position of a resident in its list.
pub(crate) struct ResidentLink {
    /// Both are protected by the lock of the shard while it is linked. After that they belong to
    /// the thread that evicted it.
    neighbours: UnsafeCell<LinkPair>,
}

#[derive(Clone, Copy, Default)]
struct LinkPair {
    before: Option<NonNull<ResidentLink>>,
    after: Option<NonNull<ResidentLink>>,
}

impl ResidentLink {
    pub(crate) fn new() -> Self {
        Self {
            neighbours: UnsafeCell::new(LinkPair::default()),
        }
    }
}

/// What a shard does with the linked residents when its pool ends.
pub(crate) struct Eviction {
    /// Takes over the resident, if no thread has it at the moment. A thread that has it learns that
    /// the resident must end. Called under the lock.
    ///
    /// # Safety
    /// The resident is linked.
    pub(crate) claim: unsafe fn(NonNull<ResidentLink>) -> bool,
    /// Ends a resident that was taken over. It is not linked any more.
    ///
    /// # Safety
    /// `claim` has taken it over, and this is called once.
    pub(crate) end: unsafe fn(NonNull<ResidentLink>),
}

struct ResidentList<P> {
    head: Option<NonNull<ResidentLink>>,
    closed: bool,
    /// The number of residents that have been evicted, and are not ended yet.
    evicted: usize,
    /// The pool, while it must be kept alive.
    pool_ref: Option<Arc<P>>,
    /// How the residents here are ended: set by the first, and the same for all.
    eviction: Option<&'static Eviction>,
}

// SAFETY: linked residents may be used by the thread that has the lock, as `link` requires.
unsafe impl<P: Send + Sync> Send for ResidentList<P> {}

/// One list.
pub(crate) struct ResidentShard<P> {
    list: Mutex<ResidentList<P>>,
    /// The pool, from the first link on.
    pool: AtomicPtr<P>,
}

impl<P> ResidentShard<P> {
    fn new() -> Self {
        Self {
            list: Mutex::new(ResidentList {
                head: None,
                closed: false,
                evicted: 0,
                pool_ref: None,
                eviction: None,
            }),
            pool: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ResidentList<P>> {
        // In a rehearsal the thread that has the lock may have been interrupted: `claim` reaches an
        // interruption point.
        let is_free = || !matches!(self.list.try_lock(), Err(TryLockError::WouldBlock));
        thread::wait_until(None, is_free);
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a resident. Returns false when the pool has ended, so that the resident must end too.
    ///
    /// # Safety
    /// It stays at its address until it is unlinked or evicted, and may be claimed from any thread.
    /// The functions of `eviction` are for the type that it is a link of, and the same for all that
    /// are linked in this pool.
    #[must_use]
    pub(crate) unsafe fn link(
        &self,
        link: NonNull<ResidentLink>,
        eviction: &'static Eviction,
        pool: impl FnOnce() -> Arc<P>,
    ) -> bool {
        let mut list = self.lock();
        if list.closed {
            return false;
        }
        if list.pool_ref.is_none() {
            let pool = pool();
            // Relaxed: a reader has learnt of the link, which is later than this store.
            self.pool
                .store(Arc::as_ptr(&pool).cast_mut(), Ordering::Relaxed);
            (list.pool_ref, list.eviction) = (Some(pool), Some(eviction));
        }
        let first = list.head.replace(link);
        // SAFETY: the link belongs to the caller until it is linked, which happens now, under the
        // lock.
        unsafe {
            write_link(
                link,
                LinkPair {
                    before: None,
                    after: first,
                },
            );
        };
        if let Some(first) = first {
            // SAFETY: `first` is linked in this list, and this thread holds its lock.
            unsafe { update_link(first, |at| at.before = Some(link)) };
        }
        true
    }

    /// Removes a resident.
    ///
    /// # Safety
    /// It is linked here. The caller keeps the pool alive by other means.
    pub(crate) unsafe fn unlink(&self, link: NonNull<ResidentLink>) {
        let mut list = self.lock();
        // SAFETY: the caller guarantees that it is linked here, and this thread holds the lock.
        unsafe { list.remove(link) };
        let pool_ref = list.release();
        drop(list);
        drop(pool_ref);
    }

    /// Returns the pool.
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
            return; // no resident was ever linked
        };
        let (mut next, mut evicted) = (list.head, None);
        while let Some(link) = next {
            // SAFETY: it is linked, and this thread holds the lock.
            next = unsafe { read_link(link) }.after;
            // SAFETY: it is linked, and this thread holds the lock.
            if unsafe { (eviction.claim)(link) } {
                // SAFETY: it is linked here until this call, and this thread holds the lock.
                unsafe { list.remove(link) };
                list.evicted += 1;
                let (before, after) = (None, evicted.replace(link));
                // SAFETY: `claim` has taken it over, so the link belongs to this thread.
                unsafe { write_link(link, LinkPair { before, after }) };
            }
        }
        let pool_ref = list.release();
        drop(list);
        while let Some(link) = evicted {
            // SAFETY: `claim` has taken it over, so the link belongs to this thread.
            evicted = unsafe { read_link(link) }.after;
            // SAFETY: `claim` has taken it over, it is unlinked, and `end` is called only here,
            // once.
            unsafe { (eviction.end)(link) };
            self.lock().evicted -= 1;
        }
        drop(pool_ref);
    }
}

impl<P> ResidentList<P> {
    /// # Safety
    /// It is linked here.
    unsafe fn remove(&mut self, link: NonNull<ResidentLink>) {
        // SAFETY: the caller guarantees that it is linked here; the list is locked.
        let LinkPair { before, after } = unsafe { read_link(link) };
        match before {
            // SAFETY: a neighbour of a linked one is linked too, and the list is locked.
            Some(before) => unsafe { update_link(before, |at| at.after = after) },
            None => self.head = after,
        }
        if let Some(after) = after {
            // SAFETY: a neighbour of a linked one is linked too, and the list is locked.
            unsafe { update_link(after, |at| at.before = before) };
        }
    }

    fn is_occupied(&self) -> bool {
        self.head.is_some() || self.evicted > 0
    }

    /// Returns the reference to the pool, if it is not needed any more. It must be dropped without
    /// the lock.
    #[must_use]
    fn release(&mut self) -> Option<Arc<P>> {
        (self.closed && self.head.is_none())
            .then(|| self.pool_ref.take())
            .flatten()
    }
}

/// # Safety
/// The link is alive, and either belongs to the caller or is linked in a list whose lock the caller
/// holds.
unsafe fn read_link(link: NonNull<ResidentLink>) -> LinkPair {
    // SAFETY: the caller guarantees that the link is alive.
    let link = unsafe { link.as_ref() };
    // SAFETY: the caller owns the link or holds the lock, which the field `neighbours` requires.
    link.neighbours.with(|at| unsafe { *at })
}

/// # Safety
/// As [`read_link`].
unsafe fn write_link(link: NonNull<ResidentLink>, neighbours: LinkPair) {
    // SAFETY: the caller guarantees what `read_link` requires, and `update_link` requires the same.
    unsafe { update_link(link, |at| *at = neighbours) };
}

/// # Safety
/// As [`read_link`].
unsafe fn update_link(link: NonNull<ResidentLink>, f: impl FnOnce(&mut LinkPair)) {
    // SAFETY: the caller guarantees that the link is alive.
    let link = unsafe { link.as_ref() };
    link.neighbours.with_mut(|at| {
        // SAFETY: the caller owns the link or holds the lock, which the field `neighbours`
        // requires.
        f(unsafe { &mut *at });
    });
}

/// All shards of a pool.
pub(crate) struct Residents<P> {
    closed: AtomicBool,
    shards: Box<[Padded<ResidentShard<P>>]>,
}

thread_local! {
    /// The number of residents that this thread is currently ending.
    static ENDING: Cell<usize> = const { Cell::new(0) };
}

/// Marks that this thread ends a resident, whose destructor is user code and may drop a pool.
#[must_use]
pub(crate) struct EndingGuard(());

impl EndingGuard {
    pub(crate) fn new() -> Self {
        ENDING.set(ENDING.get() + 1);
        Self(())
    }
}

impl Drop for EndingGuard {
    fn drop(&mut self) {
        ENDING.set(ENDING.get() - 1);
    }
}

impl<P> Residents<P> {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            closed: AtomicBool::new(false),
            shards: (0..shards.max(1))
                .map(|_| Padded::new(ResidentShard::new()))
                .collect(),
        }
    }

    /// Whether the pool is ending: no future should start to wait, or continue after a wait.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: a hint that carries no data. A thread that links checks again under the lock.
        self.closed.load(Ordering::Relaxed)
    }

    /// The shard into which `worker` links.
    pub(crate) fn shard(&self, worker: usize) -> &ResidentShard<P> {
        &self.shards[worker % self.shards.len()]
    }

    /// Closes all shards: nothing is linked from now on. Ends all residents that no thread has at
    /// the moment; the others are ended by the threads that have them.
    pub(crate) fn close(&self) {
        // Relaxed: as in `is_closed`.
        self.closed.store(true, Ordering::Relaxed);
        for shard in &self.shards {
            shard.close();
        }
    }

    /// Waits until no resident is left. The remaining ones are about to be ended by threads that
    /// tried to wake them and found the pool closed, or that have evicted them. Does not wait where
    /// this thread is ending a resident itself.
    pub(crate) fn wait(&self) {
        for shard in &self.shards {
            while ENDING.get() == 0 && shard.lock().is_occupied() {
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
