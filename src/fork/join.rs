//! Two closures, perhaps at the same time.
#![expect(unsafe_code, reason = "a job in this very stack frame")]

use crate::{
    base::unwind::{self, Payload},
    engine::Mark,
    pool::{Pool, context::WorkerContext, job::Job, latch::Awaited, stack::StackJob},
};

/// Says how a closure of [`join_context`] came to run.
#[derive(Clone, Copy, Debug)]
pub struct JoinContext {
    migrated: bool,
}

impl JoinContext {
    /// Whether a worker took it from a queue: another one than the caller, most likely, or the caller itself
    /// while it waited for something else.
    #[must_use]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, perhaps at the same time, and returns both results.
///
/// `a` runs right away; `b` is queued where an idle worker can take it, and runs here after `a` if nobody
/// has. On the pool that the caller works for, else on the [global one](Pool::global); a thread from outside
/// becomes a worker for the time of the call.
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
/// When one of the closures panics, after both have finished: with the panic of `a`, or else of `b`. If
/// both panic, that of `b` goes to the pool's [`on_panic`](crate::PoolBuilder::on_panic).
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

/// [`join`] whose closures are told whether another thread runs them.
///
/// ```
/// let (a, b) = filch::join_context(|cx| cx.migrated(), |cx| cx.migrated());
/// assert!(!a); // the first one never moves
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
        self.enter_worker(|context| join_on(context, a, b))
    }
}

/// In one piece with the caller, but for what only a thread from outside needs.
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
        None => Pool::with_default(|pool| pool.join_from_outside(a, b)),
    })
}

/// [`join_context`] where this thread stands. `a` runs here, so it and its result may stay here.
#[inline(always)]
pub(crate) fn join_on<A, B, RA, RB>(context: &WorkerContext<'_, '_>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(JoinContext) -> RA,
    B: FnOnce(JoinContext) -> RB + Send,
    RB: Send,
{
    let job = StackJob::new(
        move |migrated| b(JoinContext { migrated }),
        context.is_isolated(),
    );
    // If this is in a poll: closures may take their time.
    context.poll_is_long();
    // SAFETY: `job` stays in this frame until it has been taken back or its latch is set: nothing below
    // unwinds before that.
    let mark = context.push_part(unsafe { job.job() });
    let ra = match unwind::contain(|| a(JoinContext { migrated: false })) {
        Ok(ra) => ra,
        Err(payload) => finish_b(context, &job, mark, payload),
    };
    match unwind::or_abort(|| take_back(context, &job, mark)) {
        // Not stolen. If `b` panics now, `a` is done and the panic goes its way.
        Some(b) => (ra, b(false)),
        None => (ra, wait(context, &job, mark)),
    }
}

/// The closure, if nobody has stolen it.
#[inline(always)]
fn take_back<F, R>(context: &WorkerContext<'_, '_>, job: &StackJob<F, R>, mark: Mark) -> Option<F>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    if job.latch().happened() {
        // A wait inside of `a` has run it.
        return None;
    }
    if context.retract_part(mark, job)
        || run_younger(context, &|newest| newest.is_at(job), &|| {
            job.latch().happened()
        })
    {
        // SAFETY: its job was the newest, right before `mark`, and nobody has it now. Since we pushed it there, thieves have not
        // taken it, or we would not have won its index; and this thread has not popped it, or it would have
        // run it, and the latch would be set. `run_younger` has popped it itself.
        return Some(unsafe { job.take_back() });
    }
    None
}

/// Pops until it finds the job that `is_ours` knows, and runs what is younger: things that `a`, or a wait in it,
/// has queued and nobody has waited for. False when it has been stolen, or one of those has run it, or it is not its
/// turn.
#[cold]
fn run_younger(
    context: &WorkerContext<'_, '_>,
    is_ours: &dyn Fn(&Job) -> bool,
    happened: &dyn Fn() -> bool,
) -> bool {
    if context.has_queued() && context.preempt() && happened() {
        return false;
    }
    // Had ours been stolen, everything older would have been too.
    while let Some(newest) = context.pop() {
        if is_ours(&newest) {
            return true;
        }
        context.run(newest);
        // Some that wake themselves want to be behind all others: they would come to the top again and again here. A wait
        // knows how to go on with the oldest.
        if happened() || context.is_taking_older_first() {
            return false;
        }
    }
    false
}

/// It was stolen, or others come first: helps until it is done.
#[cold]
fn wait<F, R>(context: &WorkerContext<'_, '_>, job: &StackJob<F, R>, mark: Mark) -> R
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    unwind::or_abort(|| context.wait(job.latch(), context.mark_below(mark)));
    // SAFETY: `wait` returns when the latch is set; once.
    match unsafe { job.take_result() } {
        Ok(result) => result,
        Err(payload) => unwind::resume(payload),
    }
}

/// `a` has panicked: `b` must be finished before its frame goes. Then the panic goes on.
#[cold]
fn finish_b<F, R>(
    context: &WorkerContext<'_, '_>,
    job: &StackJob<F, R>,
    mark: Mark,
    panic: Payload,
) -> !
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    let result = match unwind::or_abort(|| take_back(context, job, mark)) {
        Some(b) => unwind::contain(|| b(false)),
        None => {
            unwind::or_abort(|| context.wait(job.latch(), context.mark_below(mark)));
            // SAFETY: the latch is set; once.
            unsafe { job.take_result() }
        }
    };
    match result {
        // The result's destructor is the user's code, and there is a panic to go on with.
        Ok(result) => {
            if let Err(payload) = unwind::contain(|| drop(result)) {
                context.pool().panicked(payload);
            }
        }
        Err(payload) => context.pool().panicked(payload),
    }
    unwind::resume(panic)
}
