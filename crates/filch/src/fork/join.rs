//! Two closures, potentially in parallel.
#![expect(unsafe_code, reason = "a job in this very stack frame")]

use crate::{
    base::unwind::{self, AbortOnUnwind, Payload},
    engine::Mark,
    pool::{
        Pool, call_on_default,
        context::WorkerContext,
        context_call::call_once,
        latch::{WaitTarget, WorkerLatch},
        stack::StackJob,
    },
};

/// How a closure of [`join_context`] was started.
#[derive(Clone, Copy, Debug)]
pub struct JoinContext {
    migrated: bool,
}

impl JoinContext {
    /// Whether a worker took it from a queue: most likely another one than the caller, or the
    /// caller itself while it waited for something else.
    ///
    /// ```
    /// let (first, _) = filch::join_context(|cx| cx.migrated(), |cx| cx.migrated());
    /// assert!(!first); // the caller runs the first one itself
    /// ```
    #[must_use]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, potentially in parallel, and returns both results.
///
/// `a` runs right away; `b` is queued where an idle worker can steal it, and runs here after `a` if
/// it was not stolen. It uses the [current pool](crate::Pool#the-current-pool); a thread from
/// outside becomes a worker for the duration of the call.
///
/// ```
/// fn fibonacci(n: u32) -> u64 {
///     if n < 2 {
///         return u64::from(n);
///     }
///     let (a, b) = filch::join(|| fibonacci(n - 1), || fibonacci(n - 2));
///     a + b
/// }
/// assert_eq!(fibonacci(20), 6765);
/// ```
///
/// # Panics
/// If one of the closures panics, after both have finished: with the panic of `a`, or else of `b`.
/// If both panic, that of `b` goes to the pool's [`on_panic`](crate::PoolBuilder::on_panic).
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_current(|_| a(), |_| b())
}

/// [`join`] whose closures learn whether another thread runs them.
///
/// ```
/// let (a, b) = filch::join_context(|cx| cx.migrated(), |cx| cx.migrated());
/// assert!(!a); // the first one never migrates
/// println!("the second one was {}stolen", if b { "" } else { "not " });
/// ```
#[inline]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(JoinContext) -> RA + Send,
    B: FnOnce(JoinContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_current(a, b)
}

impl Pool {
    /// [`join`] on this pool.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build().unwrap();
    /// let mut halves = [1, 2, 3, 4];
    /// let (left, right) = halves.split_at_mut(2);
    /// pool.join(|| left[0] = 10, || right[0] = 30);
    /// assert_eq!(halves, [10, 2, 30, 4]);
    /// ```
    #[inline]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.join_here(|_| a(), |_| b())
    }

    /// [`join_context`] on this pool.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let (migrated, sum) = pool.join_context(|cx| cx.migrated(), |_| 1 + 2);
    /// assert_eq!((migrated, sum), (false, 3));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline]
    pub fn join_context<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(JoinContext) -> RA + Send,
        B: FnOnce(JoinContext) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.join_here(a, b)
    }

    #[inline(always)]
    fn join_here<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(JoinContext) -> RA + Send,
        B: FnOnce(JoinContext) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        WorkerContext::with(|context| match context {
            Some(context) if context.is_of(self) => join_on(context, a, b),
            _ => self.join_from_outside(a, b),
        })
    }

    #[cold]
    #[inline(never)]
    fn join_from_outside<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(JoinContext) -> RA + Send,
        B: FnOnce(JoinContext) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.inner()
            .enter_from_elsewhere(|context| join_on(context, a, b))
    }
}

/// Inlined into the caller, except for what only a thread from outside needs.
#[inline(always)]
fn join_current<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(JoinContext) -> RA + Send,
    B: FnOnce(JoinContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    WorkerContext::with(|context| match context {
        Some(context) => join_on(context, a, b),
        None => join_on_default(a, b),
    })
}

#[cold]
#[inline(never)]
fn join_on_default<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(JoinContext) -> RA + Send,
    B: FnOnce(JoinContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    call_once(|context| join_on(context, a, b), call_on_default)
}

/// [`join_context`] on this worker. `a` runs here, so neither it nor its result has to be `Send`.
#[inline(always)]
pub(crate) fn join_on<A, B, RA, RB>(context: &WorkerContext<'_, '_>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(JoinContext) -> RA,
    B: FnOnce(JoinContext) -> RB + Send,
    RB: Send,
{
    // If this is inside a poll: the closures may take long.
    context.mark_poll_long();
    join_with_context(
        context,
        |_| a(JoinContext { migrated: false }),
        |_, migrated| b(JoinContext { migrated }),
    )
}

/// [`join_on`] whose closures get the context of the worker that runs them.
///
/// Nothing but the context and the result of `a` needs a register that outlives a call: each such
/// register costs every caller two instructions, also those at the leaves of a recursion, which do
/// not join. So the cold functions before the call of `a` take it by value and return it.
#[inline(always)]
pub(super) fn join_with_context<A, B, RA, RB>(
    context: &WorkerContext<'_, '_>,
    a: A,
    b: B,
) -> (RA, RB)
where
    A: FnOnce(&WorkerContext<'_, '_>) -> RA,
    B: FnOnce(&WorkerContext<'_, '_>, bool) -> RB + Send,
    RB: Send,
{
    match context.part_mark() {
        Some(mark) => join_at(context, mark, a, b),
        None => join_with_room(context, a, b),
    }
}

/// [`join_with_context`] after the queue has grown.
#[cold]
#[inline(never)]
fn join_with_room<A, B, RA, RB>(context: &WorkerContext<'_, '_>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(&WorkerContext<'_, '_>) -> RA,
    B: FnOnce(&WorkerContext<'_, '_>, bool) -> RB + Send,
    RB: Send,
{
    let mark = context.make_room_for_part();
    join_at(context, mark, a, b)
}

/// [`join_with_context`] with the position of the part.
#[inline(always)]
fn join_at<A, B, RA, RB>(context: &WorkerContext<'_, '_>, mark: Mark, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(&WorkerContext<'_, '_>) -> RA,
    B: FnOnce(&WorkerContext<'_, '_>, bool) -> RB + Send,
    RB: Send,
{
    let job = StackJob::new(b, context.is_isolated(), mark);
    // SAFETY: `job` stays in this frame until it has been taken back or its latch is set: nothing
    // below unwinds before that.
    let must_notify = context.push_part(mark, unsafe { job.job() });
    let a = match must_notify {
        true => after_push(context, a),
        false => a,
    };
    let ra = match unwind::contain(|| a(context)) {
        Ok(ra) => ra,
        Err(payload) => finish_b(context, &job, payload),
    };
    match take_back(context, &job) {
        // Not stolen. If `b` panics now, `a` is done and the panic propagates.
        Some(b) => (ra, b(context, false)),
        None => (ra, wait(context, &job)),
    }
}

/// Completes a push. Takes `a` and returns it, so that no register has to keep it meanwhile.
#[cold]
#[inline(never)]
fn after_push<A>(context: &WorkerContext<'_, '_>, a: A) -> A {
    context.after_push();
    a
}

/// Takes the closure back, if it has not been stolen.
#[inline(always)]
fn take_back<F, R>(context: &WorkerContext<'_, '_>, job: &StackJob<F, R>) -> Option<F>
where
    F: FnOnce(&WorkerContext<'_, '_>, bool) -> R + Send,
    R: Send,
{
    if try_take_back(context, job) {
        // SAFETY: its job was the newest, at the place that its latch knew, and has no other owner
        // now. Since we pushed it there, thieves have not taken it, or we would not have won its
        // index; and this thread has not popped it, or it would have run it, and the latch would be
        // set. `run_younger` has popped it itself.
        return Some(unsafe { job.take_back() });
    }
    None
}

/// Takes the job out of the queue, if it has not been stolen. Jobs that were queued after it run
/// first. Returns whether the job was taken.
#[inline(always)]
fn try_take_back<F, R>(context: &WorkerContext<'_, '_>, job: &StackJob<F, R>) -> bool
where
    F: FnOnce(&WorkerContext<'_, '_>, bool) -> R + Send,
    R: Send,
{
    let guard = AbortOnUnwind;
    let is_back = context.retract_part(job.latch(), job)
        || run_younger(context, (&raw const *job).cast(), job.latch());
    guard.disarm();
    is_back
}

/// Pops until it finds the job at the address `ours`, and runs the younger ones: jobs that `a`, or
/// a wait in it, has queued without waiting for them. Returns false if the job has been stolen, or
/// one of the others has run it, or older jobs must run first.
#[cold]
fn run_younger(context: &WorkerContext<'_, '_>, ours: *const (), latch: &WorkerLatch) -> bool {
    // If the latch is set, a wait inside `a` has run it.
    !latch.has_happened() && context.ensure_current(|| pop_younger(context, ours, latch))
}

/// As [`run_younger`].
fn pop_younger(context: &WorkerContext<'_, '_>, ours: *const (), latch: &WorkerLatch) -> bool {
    if context.has_queued() && context.preempt() && latch.has_happened() {
        return false;
    }
    // If ours had been stolen, all older jobs would have been too.
    while let Some(newest) = context.pop() {
        if newest.is_at(ours) {
            return true;
        }
        context.run_popped(newest);
        // A task that wakes itself should run after all others, but would be popped here again and
        // again. A wait continues with the oldest instead.
        if latch.has_happened() || context.is_taking_older_first() {
            return false;
        }
    }
    false
}

/// The job was stolen, or others must run first: runs other tasks until it is done.
#[cold]
fn wait<F, R>(context: &WorkerContext<'_, '_>, job: &StackJob<F, R>) -> R
where
    F: FnOnce(&WorkerContext<'_, '_>, bool) -> R + Send,
    R: Send,
{
    wait_for(context, job.latch());
    // SAFETY: the latch is set, since the wait is over, and the result is taken once.
    match unsafe { job.take_result() } {
        Ok(result) => result,
        Err(payload) => unwind::resume(payload),
    }
}

#[cold]
fn wait_for(context: &WorkerContext<'_, '_>, latch: &WorkerLatch) {
    if let Some(mark) = latch.mark() {
        unwind::or_abort(|| context.ensure_current(|| context.wait(latch, mark.below())));
    }
}

/// `a` has panicked: finishes `b` before the frame goes, and then resumes the panic. If `b` was not
/// stolen, it runs as a stolen one would.
#[cold]
fn finish_b<F, R>(context: &WorkerContext<'_, '_>, job: &StackJob<F, R>, panic: Payload) -> !
where
    F: FnOnce(&WorkerContext<'_, '_>, bool) -> R + Send,
    R: Send,
{
    if try_take_back(context, job) {
        // SAFETY: the only job was taken out of the queue, and this one is run at once.
        let job = unsafe { job.job() };
        unwind::or_abort(|| context.ensure_current(|| context.run_popped(job)));
    }
    wait_for(context, job.latch());
    // SAFETY: the latch is set, since the wait is over, and the result is taken once.
    let result = unsafe { job.take_result() };
    // The result's destructor is user code, and another panic is to be resumed.
    if let Err(payload) = result.and_then(|result| unwind::contain(|| drop(result))) {
        context.pool().panicked(payload);
    }
    unwind::resume(panic)
}
