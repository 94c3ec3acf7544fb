//! Two closures, potentially in parallel.
#![expect(unsafe_code, reason = "a job in this very stack frame")]

use crate::{
    base::unwind::{self, Payload},
    engine::Mark,
    pool::{Pool, context::WorkerContext, job::Job, latch::WaitTarget, stack::StackJob},
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
/// it was not stolen. It uses the pool whose worker calls it, else the [global pool](Pool::global);
/// a thread from outside becomes a worker for the duration of the call.
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
        self.enter_worker(|context| join_on(context, a, b))
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
        None => Pool::with_default(|pool| pool.join_from_outside(a, b)),
    })
}

/// [`join_context`] on this worker. `a` runs here, so neither it nor its result has to be `Send`.
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
    // If this is inside a poll: the closures may take long.
    context.mark_poll_long();
    // SAFETY: `job` stays in this frame until it has been taken back or its latch is set: nothing
    // below unwinds before that.
    let mark = context.push_part(unsafe { job.job() });
    let ra = match unwind::contain(|| a(JoinContext { migrated: false })) {
        Ok(ra) => ra,
        Err(payload) => finish_b(context, &job, mark, payload),
    };
    match unwind::or_abort(|| take_back(context, &job, mark)) {
        // Not stolen. If `b` panics now, `a` is done and the panic propagates.
        Some(b) => (ra, b(false)),
        None => (ra, wait(context, &job, mark)),
    }
}

/// Takes the closure back, if it has not been stolen.
#[inline(always)]
fn take_back<F, R>(context: &WorkerContext<'_, '_>, job: &StackJob<F, R>, mark: Mark) -> Option<F>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    if job.latch().happened() {
        // A wait inside `a` has run it.
        return None;
    }
    if context.retract_part(mark, job)
        || run_younger(context, &|newest| newest.is_at(job), &|| {
            job.latch().happened()
        })
    {
        // SAFETY: its job was the newest, right before `mark`, and has no other owner now. Since we
        // pushed it there, thieves have not taken it, or we would not have won its index; and this
        // thread has not popped it, or it would have run it, and the latch would be set.
        // `run_younger` has popped it itself.
        return Some(unsafe { job.take_back() });
    }
    None
}

/// Pops until it finds the job for which `is_ours` holds, and runs the younger ones: jobs that `a`,
/// or a wait in it, has queued without waiting for them. Returns false if the job has been stolen,
/// or one of the others has run it, or older jobs must run first.
#[cold]
fn run_younger(
    context: &WorkerContext<'_, '_>,
    is_ours: &dyn Fn(&Job) -> bool,
    happened: &dyn Fn() -> bool,
) -> bool {
    if context.has_queued() && context.preempt() && happened() {
        return false;
    }
    // If ours had been stolen, all older jobs would have been too.
    while let Some(newest) = context.pop() {
        if is_ours(&newest) {
            return true;
        }
        context.run_popped(newest);
        // A task that wakes itself should run after all others, but would be popped here again and
        // again. A wait continues with the oldest instead.
        if happened() || context.is_taking_older_first() {
            return false;
        }
    }
    false
}

/// The job was stolen, or others must run first: runs other tasks until it is done.
#[cold]
fn wait<F, R>(context: &WorkerContext<'_, '_>, job: &StackJob<F, R>, mark: Mark) -> R
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    unwind::or_abort(|| context.wait(job.latch(), context.mark_below(mark)));
    // SAFETY: `wait` returns when the latch is set, and the result is taken once.
    match unsafe { job.take_result() } {
        Ok(result) => result,
        Err(payload) => unwind::resume(payload),
    }
}

/// `a` has panicked: finishes `b` before the frame goes, and then resumes the panic.
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
            // SAFETY: the latch is set, since `wait` has returned, and the result is taken once.
            unsafe { job.take_result() }
        }
    };
    match result {
        // The result's destructor is user code, and another panic is to be resumed.
        Ok(result) => {
            if let Err(payload) = unwind::contain(|| drop(result)) {
                context.pool().panicked(payload);
            }
        }
        Err(payload) => context.pool().panicked(payload),
    }
    unwind::resume(panic)
}
