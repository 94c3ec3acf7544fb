//! Results on their way into a vector that has room for them, but nothing in it yet.
#![expect(
    unsafe_code,
    reason = "several workers write into the spare room of one vector"
)]

use super::{
    drive::{Piece, Sink},
    pieces::Pieces,
};
use std::{marker::PhantomData, mem, ptr};

/// A part of the spare room of a vector.
pub(super) struct Admission<'v, R> {
    /// The first place. This one and the `len - 1` after it lie in the spare room of a vector that is borrowed for
    /// `'v`, and are this value's alone: `collect` makes one of all the room, `split_at` deals it out. All pointers are
    /// made from the vector's own, so that one from an early part may be used for the parts behind it.
    start: *mut R,
    len: usize,
    vector: PhantomData<&'v mut Vec<R>>,
}

// SAFETY: it is the right to write results to some places, and they may be written by any thread because `R` is `Send`.
unsafe impl<R: Send> Send for Admission<'_, R> {}

impl<R> Admission<'_, R> {
    #[inline]
    pub(super) fn split_at(self, index: usize) -> (Self, Self) {
        assert!(index <= self.len, "cut behind the end");
        let part = |start, len| Self {
            start,
            len,
            vector: PhantomData,
        };
        // Within the room, or at its end.
        let middle = self.start.wrapping_add(index);
        (part(self.start, index), part(middle, self.len - index))
    }
}

/// Items, and room for what is made of them.
pub(super) struct Into<'v, P, R> {
    pub(super) items: P,
    pub(super) room: Admission<'v, R>,
}

impl<P: Pieces, R: Send> Pieces for Into<'_, P, R> {
    type Item = P::Item;
    type Iter = P::Iter;

    #[inline]
    fn size(&self) -> usize {
        self.room.len
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let (items, more_items) = self.items.split_at(index);
        let (room, more_room) = self.room.split_at(index);
        let more = Self {
            items: more_items,
            room: more_room,
        };
        (Self { items, room }, more)
    }

    #[inline]
    fn items(self) -> P::Iter {
        self.items.items()
    }
}

/// Results that stand next to each other in the room of a vector, and are dropped with this unless the vector takes
/// them over.
pub(super) struct Filled<'v, R> {
    /// The `len` results from here on are initialised and belong to this alone: they were written by `fill`, into room
    /// that it was given for good.
    start: *mut R,
    len: usize,
    vector: PhantomData<(&'v mut Vec<R>, R)>,
}

// SAFETY: it owns results, which may go to other threads because `R` is `Send`.
unsafe impl<R: Send> Send for Filled<'_, R> {}

impl<'v, R> Filled<'v, R> {
    /// None yet; they will begin where `room` does.
    #[inline]
    pub(super) fn before(room: &Admission<'v, R>) -> Self {
        Self {
            start: room.start,
            len: 0,
            vector: PhantomData,
        }
    }

    /// Writes results into `room`, which lies right behind those that there are.
    #[inline]
    pub(super) fn fill(&mut self, room: Admission<'v, R>, results: impl Iterator<Item = R>) {
        let Admission { start, len, .. } = room;
        assert!(ptr::eq(self.end(), start), "a block out of its order");
        for (place, result) in (0..len).zip(results) {
            // SAFETY: within the room.
            let place = unsafe { start.add(place) };
            // SAFETY: the place is the room's, which is ours; nothing is there yet.
            unsafe { place.write(result) };
            // Counted when it is there: if the next one panics, it is dropped.
            self.len += 1;
        }
    }

    #[inline]
    fn end(&self) -> *const R {
        self.start.wrapping_add(self.len)
    }

    /// These results and those of the next piece. If some are missing in between, because the loop was cancelled, the
    /// next ones are dropped.
    pub(super) fn and(mut self, next: Self) -> Self {
        if ptr::eq(self.end(), next.start) {
            self.len += next.len;
            mem::forget(next);
        } else {
            // Now, while these are here: one of their destructors may panic.
            drop(next);
        }
        self
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<R> Drop for Filled<'_, R> {
    fn drop(&mut self) {
        let results = ptr::slice_from_raw_parts_mut(self.start, self.len);
        // SAFETY: initialised and ours, as `start` says.
        unsafe { ptr::drop_in_place(results) };
    }
}

/// Items at a time that [`extend_wanted`] makes room for: so much is wasted at most, and the look at the room is lost in it.
const AT_ONCE: usize = 256;

/// Items up to this size are cheaper written in vain than guessed about: a wrong guess costs some 5 ns.
const SMALL_ITEM: usize = 32;

/// Puts those items of `block` that are `wanted` behind those that `found` has.
///
/// Small items without a destructor are all written, each over the last one that was not wanted: without a jump, which
/// nobody could foresee.
pub(super) fn extend_wanted<P: Pieces>(
    found: &mut Vec<P::Item>,
    mut block: Piece<P>,
    wanted: impl Fn(&P::Item) -> bool,
) {
    if mem::needs_drop::<P::Item>() || size_of::<P::Item>() > SMALL_ITEM {
        return found.extend(block.items().filter(wanted));
    }
    while block.len > 0 {
        let size = block.len.min(AT_ONCE);
        let (part, rest) = block.split_at(size);
        found.reserve(AT_ONCE);
        let start = found.len();
        let room = &mut found.spare_capacity_mut()[..AT_ONCE];
        let mut len = 0;
        // No more than there is room for, whatever the source said.
        for item in part.items().take(AT_ONCE) {
            let more = usize::from(wanted(&item));
            // Never behind the end: one place for each item so far.
            room[len].write(item);
            len += more;
        }
        // SAFETY: the first `len` places of the room have been written; the room begins behind `start` items that are
        // there, and has capacity.
        unsafe { found.set_len(start + len) };
        block = rest;
    }
}

/// A vector of `len` results: `write` gets the room for them and gives back what it has filled, and something else. No
/// vector if some are missing.
pub(super) fn collect<R, X>(
    len: usize,
    write: impl for<'v> FnOnce(Admission<'v, R>) -> (Filled<'v, R>, X),
) -> (Option<Vec<R>>, X) {
    let mut vector = Vec::with_capacity(len);
    let start: *mut R = vector.as_mut_ptr();
    let (filled, more) = write(Admission {
        start,
        len,
        vector: PhantomData,
    });
    if filled.len != len || !ptr::eq(filled.start, start) {
        return (None, more);
    }
    mem::forget(filled);
    // SAFETY: `len` results from the start of the room on are initialised, and belong to nobody since `filled` has been
    // forgotten. There is room for as many.
    unsafe { vector.set_len(len) };
    (Some(vector), more)
}

/// Puts what a function makes of the items into their places.
pub(super) struct MapInto<F>(pub(super) F);

impl<'v, P, R, F> Sink<Into<'v, P, R>> for MapInto<F>
where
    P: Pieces,
    R: Send,
    F: Fn(P::Item) -> R + Sync,
{
    type Acc = Filled<'v, R>;

    #[inline]
    fn start(&self, piece: &Into<'v, P, R>) -> Self::Acc {
        Filled::before(&piece.room)
    }

    #[inline]
    fn feed(&self, mut filled: Self::Acc, block: Piece<Into<'v, P, R>>) -> Self::Acc {
        let Into { items, room } = block.pieces;
        filled.fill(room, items.items().map(&self.0));
        filled
    }

    fn join(&self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        left.and(right)
    }
}
