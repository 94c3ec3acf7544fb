//! Drops a future whose poll panics while that panic unwinds.

use crate::base::unwind::{self, Payload};
use std::pin::Pin;

/// A future that can be dropped where it is.
pub(crate) trait DropInPlace {
    /// Drops the future. It is not used after this.
    fn drop_in_place(&mut self);
}

impl<F> DropInPlace for Pin<&mut Option<F>> {
    fn drop_in_place(&mut self) {
        self.set(None);
    }
}

/// Drops a future when the panic of its poll unwinds through the frame of the guard, so that its
/// destructors see `thread::panicking()`. A panic of theirs is contained here, where it would abort
/// the process otherwise, and stored. If the poll returns, the guard is forgotten.
pub(crate) struct DropInUnwind<'a, F: DropInPlace> {
    pub(crate) future: F,
    /// The panic of the destructor.
    pub(crate) dropped: &'a mut Option<Payload>,
}

impl<F: DropInPlace> Drop for DropInUnwind<'_, F> {
    #[cold]
    fn drop(&mut self) {
        *self.dropped = unwind::contain(|| self.future.drop_in_place()).err();
    }
}
