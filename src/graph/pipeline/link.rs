//! Stages whose types are not known any more, and the rooms for the values between them.
#![expect(unsafe_code, reason = "values of any type in the room of a line")]

use super::source::{Book, Ended, Fed, Flow};
use crate::base::sync::UnsafeCell;
use std::{
    alloc::{self, Layout},
    marker::PhantomData,
    ptr::NonNull,
};

/// A stage after the source.
pub(super) trait Link: Send + Sync {
    fn is_serial(&self) -> bool;

    /// What it puts into the room.
    fn output(&self) -> Layout;

    /// Takes its input out of the room and puts its output in. When it panics, the room is empty.
    ///
    /// # Safety
    /// The room holds the input of this stage and is the caller's alone. If the stage is serial, nobody else is in
    /// it.
    unsafe fn carry(&self, room: NonNull<u8>);

    /// Drops the output.
    ///
    /// # Safety
    /// The room holds the output of this stage and is the caller's alone. It is empty afterwards, also by a panic.
    unsafe fn discard(&self, room: NonNull<u8>);
}

/// The stage where tokens come from.
pub(super) trait Source: Send + Sync {
    /// What it puts into the room.
    fn output(&self) -> Layout;

    /// Puts the next token's value into the room, if there is one.
    ///
    /// # Safety
    /// The room is empty and the caller's alone, and nobody else is in the source.
    unsafe fn feed(&self, room: NonNull<u8>) -> Fed;

    /// The number of the newest token.
    ///
    /// # Safety
    /// Nobody else is in the source.
    unsafe fn newest(&self) -> u64;

    /// Drops the output.
    ///
    /// # Safety
    /// As [`Link::discard`].
    unsafe fn discard(&self, room: NonNull<u8>);

    /// Ends a run: drops the tokens that were put aside. The source is as new.
    fn end(&mut self) -> Ended;
}

/// A stage that one token at a time goes through.
pub(super) struct Serial<F, A, B> {
    /// Used by whoever is in the stage, one at a time.
    func: UnsafeCell<F>,
    types: PhantomData<fn(A) -> B>,
}

// SAFETY: the closure is `Send`, and `Link::carry` asks for one caller at a time.
unsafe impl<F: Send, A, B> Sync for Serial<F, A, B> {}

impl<F, A, B> Serial<F, A, B> {
    pub(super) fn new(func: F) -> Self {
        Self {
            func: UnsafeCell::new(func),
            types: PhantomData,
        }
    }
}

impl<A: Send, B: Send, F: FnMut(A) -> B + Send> Link for Serial<F, A, B> {
    fn is_serial(&self) -> bool {
        true
    }

    fn output(&self) -> Layout {
        Layout::new::<B>()
    }

    unsafe fn carry(&self, room: NonNull<u8>) {
        // SAFETY: the room holds an `A`, which moves out of it.
        let input = unsafe { room.cast::<A>().read() };
        // SAFETY: the caller is alone in the stage.
        let output = self.func.with_mut(|func| unsafe { (*func)(input) });
        // SAFETY: the room is empty, and large and aligned enough for every output.
        unsafe { room.cast::<B>().write(output) };
    }

    unsafe fn discard(&self, room: NonNull<u8>) {
        // SAFETY: the room holds a `B`, which moves out of it.
        drop(unsafe { room.cast::<B>().read() });
    }
}

/// A stage that any number of tokens are in at once.
pub(super) struct Parallel<F, A, B> {
    func: F,
    types: PhantomData<fn(A) -> B>,
}

impl<F, A, B> Parallel<F, A, B> {
    pub(super) fn new(func: F) -> Self {
        Self {
            func,
            types: PhantomData,
        }
    }
}

impl<A: Send, B: Send, F: Fn(A) -> B + Send + Sync> Link for Parallel<F, A, B> {
    fn is_serial(&self) -> bool {
        false
    }

    fn output(&self) -> Layout {
        Layout::new::<B>()
    }

    unsafe fn carry(&self, room: NonNull<u8>) {
        // SAFETY: the room holds an `A`, which moves out of it.
        let input = unsafe { room.cast::<A>().read() };
        let output = (self.func)(input);
        // SAFETY: the room is empty, and large and aligned enough for every output.
        unsafe { room.cast::<B>().write(output) };
    }

    unsafe fn discard(&self, room: NonNull<u8>) {
        // SAFETY: the room holds a `B`, which moves out of it.
        drop(unsafe { room.cast::<B>().read() });
    }
}

/// The source and its book.
pub(super) struct Feeder<F, T> {
    /// Used by whoever is in the source, one at a time.
    inside: UnsafeCell<(F, Book<T>)>,
}

// SAFETY: closure and values are `Send`, and `Source::feed` and `Source::newest` ask for one caller at a time.
unsafe impl<F: Send, T: Send> Sync for Feeder<F, T> {}

impl<F, T> Feeder<F, T> {
    pub(super) fn new(func: F) -> Self {
        Self {
            inside: UnsafeCell::new((func, Book::new())),
        }
    }
}

impl<T: Send, F: FnMut(&mut Flow) -> Option<T> + Send> Source for Feeder<F, T> {
    fn output(&self) -> Layout {
        Layout::new::<T>()
    }

    unsafe fn feed(&self, room: NonNull<u8>) -> Fed {
        self.inside.with_mut(|inside| {
            // SAFETY: the caller is alone in the source.
            let (func, book) = unsafe { &mut *inside };
            match book.next(func) {
                Ok(Some((token, value))) => {
                    // SAFETY: the room is empty, and large and aligned enough.
                    unsafe { room.cast::<T>().write(value) };
                    Fed::Token(token)
                }
                Ok(None) => Fed::End,
                Err(trouble) => Fed::Trouble(trouble),
            }
        })
    }

    unsafe fn newest(&self) -> u64 {
        // SAFETY: the caller is alone in the source.
        self.inside.with(|inside| unsafe { (*inside).1.newest() })
    }

    unsafe fn discard(&self, room: NonNull<u8>) {
        // SAFETY: the room holds a `T`, which moves out of it.
        drop(unsafe { room.cast::<T>().read() });
    }

    fn end(&mut self) -> Ended {
        // SAFETY: `&mut self`: nobody is in the source.
        self.inside.with_mut(|inside| unsafe { (*inside).1.end() })
    }
}

/// A room for each line, large enough for what any stage puts out.
pub(super) struct Rooms {
    first: NonNull<u8>,
    /// From one room to the next, in bytes.
    stride: usize,
    all: Layout,
}

/// Rooms begin on cache lines of their own: neighbours are used by different workers.
const ROOM_ALIGN: usize = 64;

impl Rooms {
    /// `lines` rooms, for everything in `outputs`. `None` when there is not enough memory in the world.
    pub(super) fn new(lines: usize, outputs: impl Iterator<Item = Layout>) -> Option<Self> {
        let room = outputs.fold((1, ROOM_ALIGN), |(size, align), layout| {
            (layout.size().max(size), layout.align().max(align))
        });
        let room = Layout::from_size_align(room.0, room.1).ok()?.pad_to_align();
        let size = room.size().checked_mul(lines)?;
        let all = Layout::from_size_align(size, room.align()).ok()?;
        // SAFETY: a room has at least one byte, and there is at least one line.
        let first = unsafe { alloc::alloc(all) };
        let Some(first) = NonNull::new(first) else {
            alloc::handle_alloc_error(all)
        };
        Some(Self {
            first,
            stride: room.size(),
            all,
        })
    }

    /// The room of `line`.
    #[inline(always)]
    pub(super) fn get(&self, line: usize) -> NonNull<u8> {
        let offset = line * self.stride;
        assert!(offset < self.all.size());
        // SAFETY: inside of the block, as just checked.
        unsafe { self.first.add(offset) }
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        // SAFETY: from `alloc` with this layout. What is in the rooms has been taken out by the run.
        unsafe { alloc::dealloc(self.first.as_ptr(), self.all) };
    }
}
