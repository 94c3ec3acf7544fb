//! A closure that is called once in its place, and its result.
#![expect(unsafe_code, reason = "a closure and its result, each in a cell")]

use std::mem::{self, ManuallyDrop, MaybeUninit};

/// A closure, and its result when it has been called: for callers that lend the closure, behind a
/// pointer, to a function that is compiled once. It is an `Option` of each, with less code.
pub(crate) struct OnceCall<F, R> {
    progress: CallProgress,
    /// Initialised while the progress is `Ready`.
    func: ManuallyDrop<F>,
    /// Initialised while the progress is `Returned`.
    result: MaybeUninit<R>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallProgress {
    Ready,
    /// It runs, or has panicked, or its result was taken or dropped.
    Begun,
    Returned,
}

impl CallProgress {
    /// Leaves the state `from`. Not inlined, so that it is compiled once.
    #[inline(never)]
    fn leave(&mut self, from: Self) {
        assert!(*self == from, "a closure is called once");
        *self = Self::Begun;
    }
}

impl<F, R> OnceCall<F, R> {
    #[inline(always)]
    pub(crate) fn new(func: F) -> Self {
        Self {
            progress: CallProgress::Ready,
            func: ManuallyDrop::new(func),
            result: MaybeUninit::uninit(),
        }
    }

    /// Passes the closure to `call` and keeps the result.
    ///
    /// # Panics
    /// If it was called before.
    #[inline(always)]
    pub(crate) fn call(&mut self, call: impl FnOnce(F) -> R) {
        self.progress.leave(CallProgress::Ready);
        // SAFETY: the progress was `Ready`, so the closure is there; and it is no longer, so the
        // closure is taken once.
        let func = unsafe { ManuallyDrop::take(&mut self.func) };
        self.result.write(call(func));
        self.progress = CallProgress::Returned;
    }

    /// Returns the result.
    ///
    /// # Panics
    /// If the closure has not returned.
    #[inline(always)]
    pub(crate) fn take_result(&mut self) -> R {
        self.progress.leave(CallProgress::Returned);
        // SAFETY: the progress was `Returned`, so the result is there; and it is no longer, so the
        // result is taken once.
        unsafe { self.result.assume_init_read() }
    }

    /// Drops the closure or the result, whichever is there.
    #[cold]
    #[inline(never)]
    pub(crate) fn clear(&mut self) {
        match mem::replace(&mut self.progress, CallProgress::Begun) {
            // SAFETY: the progress was `Ready`, so the closure is there; and it is no longer, so it
            // is dropped once.
            CallProgress::Ready => unsafe { ManuallyDrop::drop(&mut self.func) },
            CallProgress::Begun => {}
            // SAFETY: the progress was `Returned`, so the result is there; and it is no longer, so
            // the result is dropped once.
            CallProgress::Returned => unsafe { self.result.assume_init_drop() },
        }
    }
}

impl<F, R> Drop for OnceCall<F, R> {
    #[inline(always)]
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::OnceCall;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        rc::Rc,
    };

    #[test]
    fn what_it_has_is_dropped_once() {
        let (captured, returned) = (Rc::new(()), Rc::new(()));
        let new = || {
            let (captured, returned) = (captured.clone(), returned.clone());
            OnceCall::new(move || {
                drop(captured);
                returned
            })
        };
        let counts = || (Rc::strong_count(&captured), Rc::strong_count(&returned));
        drop(new());
        assert_eq!(counts(), (1, 1));
        let mut once = new();
        once.call(|f| f());
        assert_eq!(counts(), (1, 2));
        once.clear();
        assert_eq!(counts(), (1, 1));
        drop(once);
        assert_eq!(counts(), (1, 1));
        let mut once = new();
        once.call(|f| f());
        let result = once.take_result();
        drop(once);
        assert_eq!(counts(), (1, 2));
        drop(result);
        assert_eq!(counts(), (1, 1));
    }

    #[test]
    fn it_is_called_once() {
        let panics = |f: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(f)).is_err();
        let mut once = OnceCall::<_, Rc<u8>>::new(|| Rc::new(1));
        assert!(panics(&mut || drop(once.take_result())));
        let mut once = OnceCall::<_, Rc<u8>>::new(|| Rc::new(1));
        once.call(|f| f());
        assert!(panics(&mut || once.call(|f| f())));
        let mut once = OnceCall::<_, Rc<u8>>::new(|| Rc::new(1));
        assert!(panics(&mut || once.call(|_| panic!("on purpose"))));
        assert!(panics(&mut || drop(once.take_result())));
    }
}
