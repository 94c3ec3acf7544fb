//! Type-erased stages, and the slots for the values between them.
#![expect(unsafe_code, reason = "values of any type in the slot of a line")]

use super::source::{Flow, SourceEnd, SourceOutput, SourceState};
use crate::base::sync::UnsafeCell;
use std::{
    alloc::{self, Layout},
    marker::PhantomData,
    ptr::NonNull,
};

/// A stage after the source.
pub(super) trait ErasedStage: Send + Sync {
    fn is_serial(&self) -> bool;

    /// Returns the layout of the value that it puts into the slot.
    fn output(&self) -> Layout;

    /// Moves its input out of the slot and its output in. If it panics, the slot is empty.
    ///
    /// # Safety
    /// The slot holds the input of this stage, and only the caller uses it. If the stage is serial,
    /// no other thread is in it.
    unsafe fn process(&self, slot: NonNull<u8>);

    /// Drops the output.
    ///
    /// # Safety
    /// The slot holds the output of this stage, and only the caller uses it. The slot is empty
    /// afterwards, also after a panic.
    unsafe fn discard(&self, slot: NonNull<u8>);
}

/// The stage that produces tokens.
pub(super) trait ErasedSource: Send + Sync {
    /// Returns the layout of the value that it puts into the slot.
    fn output(&self) -> Layout;

    /// Puts the next token's value into the slot, if there is one.
    ///
    /// # Safety
    /// The slot is empty and only the caller uses it, and no other thread is in the source.
    unsafe fn next(&self, slot: NonNull<u8>) -> SourceOutput;

    /// Returns the number of the newest token.
    ///
    /// # Safety
    /// No other thread is in the source.
    unsafe fn newest(&self) -> u64;

    /// Drops the output.
    ///
    /// # Safety
    /// As [`ErasedStage::discard`].
    unsafe fn discard(&self, slot: NonNull<u8>);

    /// Ends a run: drops the deferred tokens, and resets the source.
    fn end(&mut self) -> SourceEnd;
}

/// A stage that processes one token at a time.
pub(super) struct SerialStage<F, A, B> {
    /// Used by the strand that is in the stage, one at a time.
    func: UnsafeCell<F>,
    types: PhantomData<fn(A) -> B>,
}

// SAFETY: the closure is `Send`, and `ErasedStage::process` requires one caller at a time.
unsafe impl<F: Send, A, B> Sync for SerialStage<F, A, B> {}

impl<F, A, B> SerialStage<F, A, B> {
    pub(super) fn new(func: F) -> Self {
        Self {
            func: UnsafeCell::new(func),
            types: PhantomData,
        }
    }
}

impl<A: Send, B: Send, F: FnMut(A) -> B + Send> ErasedStage for SerialStage<F, A, B> {
    fn is_serial(&self) -> bool {
        true
    }

    fn output(&self) -> Layout {
        Layout::new::<B>()
    }

    unsafe fn process(&self, slot: NonNull<u8>) {
        // SAFETY: the slot holds an `A`, which moves out of it.
        let input = unsafe { slot.cast::<A>().read() };
        // SAFETY: the caller ensures that no other thread is in the stage.
        let output = self.func.with_mut(|func| unsafe { (*func)(input) });
        // SAFETY: the slot is empty, and large and aligned enough for every output.
        unsafe { slot.cast::<B>().write(output) };
    }

    unsafe fn discard(&self, slot: NonNull<u8>) {
        // SAFETY: the slot holds a `B`, which moves out of it.
        drop(unsafe { slot.cast::<B>().read() });
    }
}

/// A stage that processes any number of tokens at once.
pub(super) struct ParallelStage<F, A, B> {
    func: F,
    types: PhantomData<fn(A) -> B>,
}

impl<F, A, B> ParallelStage<F, A, B> {
    pub(super) fn new(func: F) -> Self {
        Self {
            func,
            types: PhantomData,
        }
    }
}

impl<A: Send, B: Send, F: Fn(A) -> B + Send + Sync> ErasedStage for ParallelStage<F, A, B> {
    fn is_serial(&self) -> bool {
        false
    }

    fn output(&self) -> Layout {
        Layout::new::<B>()
    }

    unsafe fn process(&self, slot: NonNull<u8>) {
        // SAFETY: the slot holds an `A`, which moves out of it.
        let input = unsafe { slot.cast::<A>().read() };
        let output = (self.func)(input);
        // SAFETY: the slot is empty, and large and aligned enough for every output.
        unsafe { slot.cast::<B>().write(output) };
    }

    unsafe fn discard(&self, slot: NonNull<u8>) {
        // SAFETY: the slot holds a `B`, which moves out of it.
        drop(unsafe { slot.cast::<B>().read() });
    }
}

/// The source's closure and its state.
pub(super) struct SourceStage<F, T> {
    /// Used by the strand that is in the source, one at a time.
    inside: UnsafeCell<(F, SourceState<T>)>,
}

// SAFETY: closure and values are `Send`, and `ErasedSource::next` and `ErasedSource::newest`
// require one caller at a time.
unsafe impl<F: Send, T: Send> Sync for SourceStage<F, T> {}

impl<F, T> SourceStage<F, T> {
    pub(super) fn new(func: F) -> Self {
        Self {
            inside: UnsafeCell::new((func, SourceState::new())),
        }
    }
}

impl<T: Send, F: FnMut(&mut Flow) -> Option<T> + Send> ErasedSource for SourceStage<F, T> {
    fn output(&self) -> Layout {
        Layout::new::<T>()
    }

    unsafe fn next(&self, slot: NonNull<u8>) -> SourceOutput {
        self.inside.with_mut(|inside| {
            // SAFETY: the caller ensures that no other thread is in the source.
            let (func, state) = unsafe { &mut *inside };
            match state.next(func) {
                Ok(Some((token, value))) => {
                    // SAFETY: the slot is empty, and large and aligned enough.
                    unsafe { slot.cast::<T>().write(value) };
                    SourceOutput::Token(token)
                }
                Ok(None) => SourceOutput::End,
                Err(defer_error) => SourceOutput::DeferError(defer_error),
            }
        })
    }

    unsafe fn newest(&self) -> u64 {
        // SAFETY: the caller ensures that no other thread is in the source.
        self.inside.with(|inside| unsafe { (*inside).1.newest() })
    }

    unsafe fn discard(&self, slot: NonNull<u8>) {
        // SAFETY: the slot holds a `T`, which moves out of it.
        drop(unsafe { slot.cast::<T>().read() });
    }

    fn end(&mut self) -> SourceEnd {
        // SAFETY: `&mut self`: no other thread is in the source.
        self.inside.with_mut(|inside| unsafe { (*inside).1.end() })
    }
}

/// A slot for each line, large enough for the output of any stage.
pub(super) struct LineSlots {
    first: NonNull<u8>,
    /// The distance from one slot to the next, in bytes.
    stride: usize,
    all: Layout,
}

/// Minimum alignment of slots, in bytes: they begin on cache lines of their own, since neighbours
/// are used by different workers.
const SLOT_ALIGN: usize = 64;

impl LineSlots {
    /// Allocates `lines` slots for everything in `outputs`. Returns `None` if their total size
    /// exceeds `isize::MAX`.
    pub(super) fn new(lines: usize, outputs: impl Iterator<Item = Layout>) -> Option<Self> {
        let slot = outputs.fold((1, SLOT_ALIGN), |(size, align), layout| {
            (layout.size().max(size), layout.align().max(align))
        });
        let slot = Layout::from_size_align(slot.0, slot.1).ok()?.pad_to_align();
        let size = slot.size().checked_mul(lines)?;
        let all = Layout::from_size_align(size, slot.align()).ok()?;
        // SAFETY: the layout is not empty: a slot has at least one byte, and there is at least one
        // line.
        let first = unsafe { alloc::alloc(all) };
        let Some(first) = NonNull::new(first) else {
            alloc::handle_alloc_error(all)
        };
        Some(Self {
            first,
            stride: slot.size(),
            all,
        })
    }

    /// Returns the slot of `line`.
    #[inline(always)]
    pub(super) fn get(&self, line: usize) -> NonNull<u8> {
        let offset = line * self.stride;
        assert!(offset < self.all.size());
        // SAFETY: the offset is inside the allocation, as just checked.
        unsafe { self.first.add(offset) }
    }
}

impl Drop for LineSlots {
    fn drop(&mut self) {
        // SAFETY: the memory is from `alloc` with this layout. The run has moved the values out of
        // the slots.
        unsafe { alloc::dealloc(self.first.as_ptr(), self.all) };
    }
}
