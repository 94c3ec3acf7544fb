//! Two closures, perhaps at the same time.
#![expect(unsafe_code, reason = "a job in this very stack frame")]

use crate::{
    ground::unwind,
    pool::{Pool, latch::Awaited, on_current, site::Site, stack::StackJob},
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
    on_current(|site| join_on(site, |_| a(), |_| b()))
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
    on_current(|site| join_on(site, a, b))
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
        self.on_site(|site| join_on(site, |_| a(), |_| b()))
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
        self.on_site(|site| join_on(site, a, b))
    }
}

#[inline(always)]
fn join_on<A, B, RA, RB>(site: &Site<'_, '_>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(JoinContext) -> RA,
    B: FnOnce(JoinContext) -> RB + Send,
    RB: Send,
{
    let job = StackJob::new(
        move |migrated| b(JoinContext { migrated }),
        site.is_isolated(),
    );
    // SAFETY: `job` stays in this frame until it has been taken back or its latch is set: nothing below
    // unwinds before that.
    site.push_part(unsafe { job.job() });
    let ra = match unwind::contain(|| a(JoinContext { migrated: false })) {
        Ok(ra) => ra,
        Err(payload) => {
            finish_b(site, &job);
            unwind::resume(payload)
        }
    };
    match unwind::or_abort(|| take_back(site, &job)) {
        // Not stolen. If `b` panics now, `a` is done and the panic goes its way.
        Some(b) => (ra, b(false)),
        None => (ra, wait(site, &job)),
    }
}

/// The closure, if nobody has stolen it.
#[inline(always)]
fn take_back<F, R>(site: &Site<'_, '_>, job: &StackJob<F, R>) -> Option<F>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    while let Some(newest) = site.pop() {
        if newest.is_at(job) {
            // SAFETY: we have just popped its job.
            return Some(unsafe { job.take_back() });
        }
        if job.latch().happened() {
            // A wait inside of `a` has run it; the newest is none of our business.
            site.put_back(newest);
            return None;
        }
        // Something that `a` has spawned and nobody has waited for: had ours been stolen, everything
        // older would have been too.
        site.run(newest);
    }
    None
}

/// It was stolen: helps others until the thief is done.
#[cold]
fn wait<F, R>(site: &Site<'_, '_>, job: &StackJob<F, R>) -> R
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    unwind::or_abort(|| site.wait(job.latch(), site.mark()));
    // SAFETY: `wait` returns when the latch is set; once.
    match unsafe { job.take_result() } {
        Ok(result) => result,
        Err(payload) => unwind::resume(payload),
    }
}

/// `a` has panicked: `b` must be finished before its frame goes.
#[cold]
fn finish_b<F, R>(site: &Site<'_, '_>, job: &StackJob<F, R>)
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    let result = match unwind::or_abort(|| take_back(site, job)) {
        Some(b) => unwind::contain(|| b(false)),
        None => {
            unwind::or_abort(|| site.wait(job.latch(), site.mark()));
            // SAFETY: the latch is set; once.
            unsafe { job.take_result() }
        }
    };
    match result {
        // The result's destructor is the user's code, and there is a panic to go on with.
        Ok(result) => {
            if let Err(payload) = unwind::contain(|| drop(result)) {
                site.pool().panicked(payload);
            }
        }
        Err(payload) => site.pool().panicked(payload),
    }
}
