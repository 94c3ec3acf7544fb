//! Modes of a worker for the duration of a call: isolated waits, protection from thieves, a wait
//! target, a short poll.

use super::{context::WorkerContext, isolation};
use crate::engine::{FAST_STEPS, Mark, STEPS};
use std::{cell::Cell, ptr};

/// Ends an isolation when it is dropped.
struct RestoreIsolation<'a, 'w, 'c> {
    context: &'a WorkerContext<'w, 'c>,
    isolated: Option<Mark>,
    by_call: Option<Mark>,
}

impl Drop for RestoreIsolation<'_, '_, '_> {
    #[cold]
    fn drop(&mut self) {
        let Self {
            context,
            isolated,
            by_call,
        } = *self;
        context.isolated_by_call.set(by_call);
        if !isolation::is_held() {
            context.set_isolated(by_call);
        } else if context.guard_number.get() != 0 {
            // The call may have returned a guard, or dropped one.
            context.isolate_by_guards();
        } else {
            context.set_isolated(isolated);
        }
    }
}

impl WorkerContext<'_, '_> {
    /// Runs `f`, which waits for `event`, or works on it first.
    #[inline(always)]
    pub(crate) fn with_wait_target<T: ?Sized, R>(&self, event: &T, f: impl FnOnce() -> R) -> R {
        struct RestoreTarget<'a>(&'a Cell<*const ()>, *const ());
        impl Drop for RestoreTarget<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _back = RestoreTarget(
            &self.wait_target,
            self.wait_target.replace(ptr::from_ref(event).cast()),
        );
        f()
    }

    /// Whether `event` is the wait target here.
    #[inline(always)]
    pub(crate) fn is_wait_target<T>(&self, event: *const T) -> bool {
        ptr::eq(self.wait_target.get(), event.cast())
    }

    /// Whether nothing on this thread waits for the task here.
    #[inline(always)]
    pub(crate) fn is_outermost(&self) -> bool {
        self.outermost && self.wait_target.get().is_null()
    }

    /// Runs `f`, while thieves leave what is queued here to this worker, as long as it makes
    /// [progress](Self::count_step): very fast progress, if `fast`.
    pub(crate) fn hold_off_thieves<R>(&self, fast: bool, f: impl FnOnce() -> R) -> R {
        struct RestoreRequest<'a, 'w, 'c>(&'a WorkerContext<'w, 'c>, u32);
        impl Drop for RestoreRequest<'_, '_, '_> {
            fn drop(&mut self) {
                self.0.running().queue().hold_off_thieves(self.1);
            }
        }
        let before = self
            .running()
            .queue()
            .hold_off_thieves(if fast { FAST_STEPS } else { STEPS });
        let _back = RestoreRequest(self, before);
        f()
    }

    /// Counts a finished task of `hold_off_thieves`.
    #[inline(always)]
    pub(crate) fn count_step(&self) {
        self.running().queue().count_step();
    }

    /// Runs `f`, [isolated](Self::isolate) or not.
    #[inline(always)]
    pub(crate) fn isolate_if<R>(&self, isolated: bool, f: impl FnOnce() -> R) -> R {
        let _isolated = isolated.then(|| self.begin_isolation());
        f()
    }

    /// Runs `f`; waits in it run only tasks that were queued in it.
    pub(crate) fn isolate<R>(&self, f: impl FnOnce() -> R) -> R {
        self.isolate_if(true, f)
    }

    #[cold]
    fn begin_isolation(&self) -> impl Drop {
        let mark = Some(self.mark());
        let isolation = RestoreIsolation {
            context: self,
            isolated: self.isolated.get(),
            by_call: self.isolated_by_call.replace(mark),
        };
        self.set_isolated(mark);
        isolation
    }

    /// Makes waits run only tasks that are queued above the mark, or everything if there is none.
    pub(super) fn set_isolated(&self, mark: Option<Mark>) {
        self.isolated.set(mark);
        // A thief with a batch of this worker's tasks might block in a task that needs this task's
        // lock before it has run all of them.
        self.running().queue().set_one_by_one(mark.is_some());
    }

    /// Calls `poll`, which is expected to be short: this worker takes next what it wakes.
    #[inline(always)]
    pub(crate) fn in_poll<R>(&self, poll: impl FnOnce() -> R) -> R {
        let before = self.in_poll.replace(true);
        let result = poll();
        self.in_poll.set(before);
        result
    }

    /// Whether the current job is in a poll that is considered short.
    #[inline(always)]
    pub(crate) fn is_in_poll(&self) -> bool {
        self.in_poll.get()
    }

    /// Marks the current poll as long-running. Returns whether it was considered short.
    #[inline(always)]
    pub(crate) fn mark_poll_long(&self) -> bool {
        self.in_poll.replace(false)
    }
}
