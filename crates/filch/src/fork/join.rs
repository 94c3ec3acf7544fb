//! Two closures, potentially in parallel.
#![expect(unsafe_code, reason = "a job in this very stack frame")]

use crate::{
    base::{
        once_call::OnceCall,
        unwind::{self, AbortOnUnwind, Payload},
    },
    engine::Mark,
    pool::{
        Inner, Pool, call_on_default,
        context::WorkerContext,
        context_call::call_once,
        latch::{WaitTarget, WorkerLatch},
        stack::{ErasedPart, PartState, StackJob},
    },
};
use std::mem;

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
        join_halves(a, b, |a, b| self.inner().join_from_elsewhere(a, b))
    }
}

/// A closure of a join and its result, behind a pointer: what a join from outside needs is compiled
/// once with it, and not once more for every join.
trait ErasedHalf: Send {
    /// Calls the closure, once, and keeps the result.
    fn call(&mut self, cx: JoinContext);

    /// Drops the result.
    fn drop_result(&mut self);
}

impl<F: FnOnce(JoinContext) -> R + Send, R: Send> ErasedHalf for OnceCall<F, R> {
    fn call(&mut self, cx: JoinContext) {
        OnceCall::call(self, |f| f(cx));
    }

    fn drop_result(&mut self) {
        self.clear();
    }
}

/// The result of the second closure, while the join has it: it is dropped if the first panics.
struct HalfResult<'f>(&'f mut dyn ErasedHalf);

impl Drop for HalfResult<'_> {
    fn drop(&mut self) {
        self.0.drop_result();
    }
}

/// [`join_on`] that leaves the results where they are.
fn join_erased(context: &WorkerContext<'_, '_>, a: &mut dyn ErasedHalf, b: &mut dyn ErasedHalf) {
    let ((), result) = join_on(
        context,
        |cx| a.call(cx),
        |cx| {
            b.call(cx);
            HalfResult(b)
        },
    );
    mem::forget(result);
}

/// Passes both closures to `join` behind pointers, and returns their results.
#[inline(always)]
fn join_halves<A, B, RA, RB>(
    a: A,
    b: B,
    join: impl FnOnce(&mut dyn ErasedHalf, &mut dyn ErasedHalf),
) -> (RA, RB)
where
    A: FnOnce(JoinContext) -> RA + Send,
    B: FnOnce(JoinContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let (mut a, mut b) = (OnceCall::new(a), OnceCall::new(b));
    join(&mut a, &mut b);
    (a.take_result(), b.take_result())
}

impl Inner {
    /// A join on a thread whose current context is not of this pool.
    fn join_from_elsewhere(&self, a: &mut dyn ErasedHalf, b: &mut dyn ErasedHalf) {
        self.enter_from_elsewhere(|context| join_erased(context, a, b));
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
    join_halves(a, b, join_erased_on_default)
}

/// A join on a thread that is not a worker.
fn join_erased_on_default(a: &mut dyn ErasedHalf, b: &mut dyn ErasedHalf) {
    call_once(|context| join_erased(context, a, b), call_on_default);
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
    if try_take_back(context, job.state()) {
        // SAFETY: its job was the newest, at the place that its latch knew, and has no other owner
        // now. Since we pushed it there, thieves have not taken it, or we would not have won its
        // index; and this thread has not popped it, or it would have run it, and the latch would be
        // set. `run_younger` has popped it itself.
        let b = unsafe { job.take_back() };
        // If `b` panics now, `a` is done and the panic propagates.
        return (ra, b(context, false));
    }
    wait(context, job.state());
    // SAFETY: the latch is set, since the wait is over; it has returned, so there is no panic; and
    // the result is taken once.
    (ra, unsafe { job.take_result() })
}

/// Completes a push. Takes `a` and returns it, so that no register has to keep it meanwhile.
#[cold]
#[inline(never)]
fn after_push<A>(context: &WorkerContext<'_, '_>, a: A) -> A {
    context.after_push();
    a
}

/// Takes the job out of the queue, if it has not been stolen. Jobs that were queued after it run
/// first. Returns whether the job was taken.
#[inline(always)]
fn try_take_back(context: &WorkerContext<'_, '_>, part: &PartState) -> bool {
    let guard = AbortOnUnwind;
    let is_back =
        context.retract_part(part.latch(), part) || run_younger(context, part, part.latch());
    guard.disarm();
    is_back
}

/// Pops until it finds the job at the address `ours`, and runs the younger ones: jobs that `a`, or
/// a wait in it, has queued without waiting for them. Returns false if the job has been stolen, or
/// one of the others has run it, or older jobs must run first.
#[cold]
fn run_younger(
    context: &WorkerContext<'_, '_>,
    ours: *const PartState,
    latch: &WorkerLatch,
) -> bool {
    // If the latch is set, a wait inside `a` has run it.
    !latch.has_happened() && context.ensure_current(|| pop_younger(context, ours, latch))
}

/// As [`run_younger`].
fn pop_younger(
    context: &WorkerContext<'_, '_>,
    ours: *const PartState,
    latch: &WorkerLatch,
) -> bool {
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

/// The job was stolen, or others must run first: runs other tasks until it is done. If it has
/// panicked, resumes the panic.
#[cold]
#[inline(never)]
fn wait(context: &WorkerContext<'_, '_>, part: &PartState) {
    if let Some(payload) = wait_for(context, part) {
        unwind::resume(payload);
    }
}

/// Runs other tasks until the job is done, and returns its panic if it has panicked.
fn wait_for(context: &WorkerContext<'_, '_>, part: &PartState) -> Option<Payload> {
    let latch = part.latch();
    if let Some(mark) = latch.mark() {
        unwind::or_abort(|| context.ensure_current(|| context.wait(latch, mark.below())));
    }
    // SAFETY: the latch is set, since the wait is over, and this is called once for each job, by
    // `wait` or `finish_part`.
    unsafe { part.take_panic() }
}

/// `a` has panicked: finishes `b` before the frame goes, and then resumes the panic. Not inlined:
/// its caller would keep the addresses for it in registers while `a` runs.
#[cold]
#[inline(never)]
fn finish_b<F, R>(context: &WorkerContext<'_, '_>, job: &StackJob<F, R>, panic: Payload) -> !
where
    F: FnOnce(&WorkerContext<'_, '_>, bool) -> R + Send,
    R: Send,
{
    finish_part(context, &job.erased(), panic)
}

/// As [`finish_b`]. If the part was not stolen, it runs as a stolen one would.
#[inline(never)]
fn finish_part(context: &WorkerContext<'_, '_>, part: &ErasedPart<'_>, panic: Payload) -> ! {
    if try_take_back(context, part.state()) {
        // SAFETY: the only job was taken out of the queue, and this one is run at once.
        let job = unsafe { part.job() };
        unwind::or_abort(|| context.ensure_current(|| context.run_popped(job)));
    }
    let other = wait_for(context, part.state()).or_else(|| {
        // The result's destructor is user code, and another panic is to be resumed.
        // SAFETY: the latch is set, since the wait is over; there is no panic; and the result is
        // taken once.
        unwind::contain(|| unsafe { part.drop_result() }).err()
    });
    if let Some(payload) = other {
        context.pool().panicked(payload);
    }
    unwind::resume(panic)
}
