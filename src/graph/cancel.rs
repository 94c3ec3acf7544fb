//! Stopping a run from outside, and what else can be chosen about one.

use super::{
    error::RunError,
    plan::{Plan, Plus, RunReport},
    remote::Remote,
    start,
};
use crate::{
    cancel::{CancelToken, Registration},
    ground::sync::{AtomicBool, Ordering},
    pool::{Pool, on_current, site::Site},
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// Stops runs of graphs: those that were started with a clone of it, and those that will be.
///
/// Tasks that run are not interrupted, but they may ask; no others are released. Futures that wait are dropped.
///
/// ```
/// use filch::{Graph, graph::{Cancel, RunOptions}};
///
/// let cancel = Cancel::new();
/// let graph = Graph::new();
/// graph.task("long", || {
///     for step in 0..1_000_000 {
///         if cancel.is_cancelled() {
///             return;
///         }
///         if step == 10 {
///             cancel.cancel(); // or from any other thread
///         }
///     }
/// });
/// graph.plan()?.run_with(&RunOptions::new().cancel(&cancel))?;
/// assert!(cancel.is_cancelled());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Cancel {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    cancelled: Flag,
    /// What it stops at present.
    runs: Mutex<Vec<Arc<Remote>>>,
    /// How it hears of a token; gone with it, so that the token keeps nothing.
    token: OnceLock<Registration>,
}

struct Flag(AtomicBool);

impl Default for Flag {
    fn default() -> Self {
        Self(AtomicBool::new(false))
    }
}

/// Used as soon as the token is cancelled, or runs out of time.
///
/// ```
/// use filch::{CancelToken, Graph, graph::{Cancel, RunOptions}};
///
/// let token = CancelToken::new();
/// token.cancel();
/// let graph = Graph::new();
/// graph.task("never", || unreachable!());
/// let error = graph
///     .plan()?
///     .run_with(&RunOptions::new().cancel(&Cancel::from(&token)))
///     .unwrap_err();
/// assert!(error.is_cancelled());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl From<&CancelToken> for Cancel {
    fn from(token: &CancelToken) -> Self {
        let cancel = Self::new();
        let inner = Arc::downgrade(&cancel.inner);
        let heard = token.on_cancel(move || {
            if let Some(inner) = inner.upgrade() {
                Self { inner }.cancel();
            }
        });
        cancel.inner.token.get_or_init(|| heard);
        cancel
    }
}

impl Cancel {
    /// One that has not been used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Arc<Remote>>> {
        self.inner
            .runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops everything. The second time it does nothing.
    pub fn cancel(&self) {
        // Release: pairs with the acquire in `is_cancelled`; what was done before is visible to who asks.
        self.inner.cancelled.0.store(true, Ordering::Release);
        let runs = std::mem::take(&mut *self.runs());
        for run in runs {
            run.stop();
        }
    }

    /// Whether [`cancel`](Self::cancel) has been called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the release in `cancel`.
        self.inner.cancelled.0.load(Ordering::Acquire)
    }

    /// From now on it stops this run too.
    pub(super) fn watch(&self, run: &Arc<Remote>) {
        let mut runs = self.runs();
        // Whoever cancels sets the flag before it takes the list, so one of both is seen.
        if self.is_cancelled() {
            drop(runs);
            run.stop();
        } else {
            runs.push(run.clone());
        }
    }

    /// The run is over.
    pub(super) fn unwatch(&self, run: &Arc<Remote>) {
        self.runs().retain(|other| !Arc::ptr_eq(other, run));
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel")
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

/// What can be chosen about a run: see [`Plan::run_with`].
///
/// ```
/// use filch::{Graph, Pool, graph::RunOptions};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let mut runs = 0;
/// let graph = Graph::new();
/// graph.task("count", || runs += 1);
/// graph.plan()?.run_with(&RunOptions::new().on(&pool).times(3))?;
/// assert_eq!(runs, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RunOptions {
    pool: Option<Pool>,
    cancel: Option<Cancel>,
    times: Option<u64>,
}

impl RunOptions {
    /// Once, on the pool that the caller works for, else on the global one; nobody stops it.
    pub fn new() -> Self {
        Self::default()
    }

    /// On this pool.
    pub fn on(mut self, pool: &Pool) -> Self {
        self.pool = Some(pool.clone());
        self
    }

    /// It can be stopped with this.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// So many times, one after the other.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    pub(super) fn run(&self, plan: &mut Plan<'_>) -> Result<RunReport, RunError> {
        match &self.pool {
            Some(pool) => pool.on_site(|site| self.run_at(plan, site)),
            None => on_current(|site| self.run_at(plan, site)),
        }
    }

    fn run_at(&self, plan: &mut Plan<'_>, site: &Site<'_, '_>) -> Result<RunReport, RunError> {
        let mut ran = 0;
        for _ in 0..self.times.unwrap_or(1) {
            ran = self.run_once(plan, site).plus(ran)?.ran;
        }
        Ok(RunReport { ran })
    }

    fn run_once(&self, plan: &mut Plan<'_>, site: &Site<'_, '_>) -> Result<RunReport, RunError> {
        let Some(cancel) = &self.cancel else {
            return start::run(plan, site);
        };
        let remote = Remote::new(site.pool(), site.worker());
        cancel.watch(&remote);
        let outcome = start::run_with(plan, site, &remote);
        cancel.unwatch(&remote);
        outcome.into_result()
    }
}
