//! The rings of a deque: the newest one, and those that it has replaced.
//!
//! `deque.md`, section *Growing*, has the protocol.
#![expect(
    unsafe_code,
    reason = "rings that thieves read while the owner replaces them"
)]

use super::ring::{Ring, Slots};
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicPtr, AtomicUsize, Ordering, UnsafeCell, fence_after_rmw, fence_seq_cst},
};
use std::{marker::PhantomData, ptr};

/// The size of a ring, in bytes, from which on it is freed soon after it was replaced. Thieves
/// register when they read such a ring, which costs two locked instructions per steal. Smaller ones
/// stay until the deque is dropped; together they are smaller than this.
const SHORT_LIVED_BYTES: usize = if cfg!(filch_loom) { 16 } else { 64 << 10 };

struct RingNode<T> {
    ring: Ring<T>,
    /// The ring that this one replaced, if it was not freed. Belongs to the owner of the deque.
    replaced: RingPtr<T>,
    /// Read by registered thieves while they read the ring, and written when it is freed: for the
    /// model checker, which reports a thief that is not ordered before that.
    reads: UnsafeCell<()>,
}

/// A pointer to a ring, or null. The lowest bit of the address is set if the ring is *short-lived*:
/// it may be freed before the deque is dropped, so that thieves must register before they read it.
pub(super) struct RingPtr<T>(*mut RingNode<T>);

impl<T> Clone for RingPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RingPtr<T> {}

impl<T> RingPtr<T> {
    /// Makes `ring` the one that replaces `replaced`, in a deque for at most `limit` tasks.
    pub(super) fn new(ring: Ring<T>, replaced: Self, limit: usize) -> Self {
        let short_lived = ring.bytes() >= SHORT_LIVED_BYTES && ring.len() < limit;
        let node = Box::into_raw(Box::new(RingNode {
            ring,
            replaced,
            reads: UnsafeCell::new(()),
        }));
        Self(node.wrapping_byte_add(usize::from(short_lived)))
    }

    pub(super) const fn null() -> Self {
        Self(ptr::null_mut())
    }

    #[inline(always)]
    fn is_short_lived(self) -> bool {
        self.0.addr() & 1 != 0
    }

    #[inline(always)]
    fn node(self) -> *mut RingNode<T> {
        self.0.wrapping_byte_sub(self.0.addr() & 1)
    }

    /// Returns the ring.
    ///
    /// # Safety
    /// It is not null, and is not freed during `'a`, or during the use of the reference.
    #[inline(always)]
    pub(super) unsafe fn ring<'a>(self) -> &'a Ring<T> {
        // SAFETY: the caller guarantees a live node. Only the field is borrowed, since the owner
        // may write `replaced`.
        unsafe { &(*self.node()).ring }
    }

    /// Frees this ring and those that it has replaced.
    ///
    /// # Safety
    /// No thread uses any of them, nor does any thread after this.
    pub(super) unsafe fn free_all(mut self) {
        while !self.0.is_null() {
            // SAFETY: every node came from `Box::into_raw` and is reached only through this list.
            // The caller guarantees that no thread uses it.
            let owned = unsafe { Box::from_raw(self.node()) };
            self = owned.replaced;
        }
    }
}

/// The word that points to the newest ring of a deque, which only the owner writes. `readers`, an
/// argument of its methods, is the number of thieves that may be reading a short-lived ring: the
/// thieves write it, so it is on another line.
pub(super) struct NewestRing<T> {
    pointer: AtomicPtr<RingNode<T>>,
    tasks: PhantomData<fn(T) -> T>,
}

impl<T> NewestRing<T> {
    pub(super) fn new(ring: RingPtr<T>) -> Self {
        Self {
            pointer: AtomicPtr::new(ring.0),
            tasks: PhantomData,
        }
    }

    /// Returns the newest ring, for the owner.
    pub(super) fn get(&self) -> RingPtr<T> {
        // Relaxed: only the owner writes it, and a new owner has synchronised with the last one.
        RingPtr(self.pointer.load(Ordering::Relaxed))
    }

    /// Makes `ring` the newest one, for the owner.
    pub(super) fn publish(&self, ring: RingPtr<T>) {
        // Release: pairs with the acquire in `read_slots`; the copies are visible. A thief that
        // still reads the old ring finds the same tasks there: it is never written again.
        self.pointer.store(ring.0, Ordering::Release);
    }

    /// Calls `read` with the slots of the newest ring, or of one that the owner replaces meanwhile.
    #[inline]
    pub(super) fn read_slots<R>(
        &self,
        readers: &AtomicUsize,
        read: impl FnOnce(Slots<'_, T>) -> R,
    ) -> R {
        // Acquire: pairs with the release in `publish`; the copied slots are visible.
        let newest = RingPtr(self.pointer.load(Ordering::Acquire));
        if newest.is_short_lived() {
            return self.read_slots_registered(readers, read);
        }
        // SAFETY: a ring that is not short-lived is freed only by `Deque::drop`.
        read(unsafe { newest.ring() }.slots())
    }

    /// [`read_slots`](Self::read_slots) of a ring that may be freed.
    #[cold]
    fn read_slots_registered<R>(
        &self,
        readers: &AtomicUsize,
        read: impl FnOnce(Slots<'_, T>) -> R,
    ) -> R {
        let _reading = Reading::register(readers);
        // Acquire: as in `read_slots`.
        let newest = RingPtr(self.pointer.load(Ordering::Acquire));
        // SAFETY: this thread is registered, and has read the pointer after that: so the ring is
        // not freed before `_reading` is dropped. Only the field is borrowed, as in
        // `RingPtr::ring`.
        let reads = unsafe { &(*newest.node()).reads };
        // SAFETY: this thread is registered, so the ring is not freed before `_reading` is dropped.
        reads.with(|_| read(unsafe { newest.ring() }.slots()))
    }

    /// Frees the short-lived rings that the newest one has replaced, unless a thief may be reading
    /// one of them. Then they are freed when the ring grows again, or with the deque.
    ///
    /// # Safety
    /// The caller is the owner, which does not use any of these rings.
    pub(super) unsafe fn free_replaced(&self, readers: &AtomicUsize) {
        let newest = self.get();
        // Pairs with the fence in `Reading::register`: a thief that the load below does not see
        // registers later, and then it reads the pointer to the newest ring.
        fence_seq_cst();
        // Acquire: pairs with the release in the drop of a `Reading`: what those thieves have read
        // was read before the rings are freed.
        if readers.load(Ordering::Acquire) != 0 && !broken(Canary::RingFree) {
            return;
        }
        loop {
            // SAFETY: the newest ring is not freed, and its `replaced` belongs to the owner.
            let replaced = unsafe { (*newest.node()).replaced };
            if !replaced.is_short_lived() {
                return;
            }
            // SAFETY: `replaced` is a live node; only the field is borrowed.
            unsafe { &(*replaced.node()).reads }.with_mut(|_| ());
            if cfg!(filch_loom) {
                // The model checker would read freed memory before it can report that.
                return;
            }
            // SAFETY: the node came from `Box::into_raw`, and no thief has its address or can get
            // it: none is registered, and the newest ring is another one.
            let owned = unsafe { Box::from_raw(replaced.node()) };
            // SAFETY: the newest ring is not freed, and its `replaced` belongs to the owner.
            unsafe { (*newest.node()).replaced = owned.replaced };
        }
    }
}

#[cfg(all(test, not(filch_loom)))]
impl<T> NewestRing<T> {
    /// Returns the size of all rings, in bytes. The owner does not replace one meanwhile.
    pub(super) fn bytes(&self) -> usize {
        let (mut ring, mut bytes) = (self.get(), 0);
        while !ring.0.is_null() {
            // SAFETY: the rings of this list are live until the owner frees them.
            bytes += unsafe { ring.ring() }.bytes();
            // SAFETY: the ring is live until the owner frees it; only the field is read.
            ring = unsafe { (*ring.node()).replaced };
        }
        bytes
    }
}

/// A thief that may be reading a short-lived ring.
struct Reading<'a>(&'a AtomicUsize);

impl<'a> Reading<'a> {
    fn register(readers: &'a AtomicUsize) -> Self {
        // Relaxed: the fence below orders it before what this thief reads.
        readers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `free_replaced`.
        fence_after_rmw();
        Self(readers)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `free_replaced`. The reads of the slots come before.
        self.0.fetch_sub(1, Ordering::Release);
    }
}
