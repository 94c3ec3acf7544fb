//! Deterministic testing of programs on a pool: the production code on real threads, of which only
//! one runs at a time, in an order that a seed decides.
//!
//! The crate `filch-sim` checks the engine. This module checks the layers above it: graphs,
//! submitted tasks, scopes, and the programs that use them.
//!
//! ```
//! use filch::{Graph, rehearse::Rehearsal};
//! use std::sync::{Arc, Mutex};
//!
//! for seed in 0..20 {
//!     let order = Rehearsal::new(3, seed).run(|pool| {
//!         let order = Arc::new(Mutex::new(Vec::new()));
//!         let graph = Graph::new();
//!         let tasks = ["a", "b", "c"].map(|name| {
//!             let order = order.clone();
//!             graph.task(name, move || order.lock().unwrap().push(name))
//!         });
//!         tasks[0].precede([tasks[1], tasks[2]]);
//!         graph.plan().unwrap().run_on(pool).unwrap();
//!         order.lock().unwrap().clone()
//!     });
//!     assert_eq!(order[0], "a"); // "b" and "c": one order for each seed
//! }
//! ```
//!
//! # How it works
//!
//! Each worker of the pool and each thread from outside is an *actor*: a thread of its own that
//! runs only in its turn. At every *point* a *director* may switch to another actor. Points are the
//! events of the engine's observer, the start of each step of a worker, some steps of the protocols
//! above the engine, every wait, yield and spin, and [`point`]. A sleeping actor is not chosen
//! before it has been woken; sometimes one is woken spuriously. So every wait is the real one, and
//! a lost wake is a deadlock, which is reported with the state of every actor.
//!
//! Actors are threads so that they can continue in any order. If one thread ran other actors inside
//! of an interrupted one, the last interrupted actor would have to continue first, and a task that
//! waits for a task interrupted below it on the stack would deadlock, although the program does
//! not. (Shuttle, a checker for Rust programs, works in the same way with coroutines.)
//!
//! # What it cannot find
//!
//! A run is sequentially consistent, so a missing fence goes unnoticed, and between two points no
//! actor is interrupted. The loom models cover both.
//!
//! # Time
//!
//! With a [clock](Rehearsal::clock) the [sleeps](crate::time) of futures are rehearsed too. Virtual
//! time passes only when no actor can run, so everything that can happen before a sleep ends does.
//! The other deadlines, those of submitted tasks and of tokens, use real time, on a thread that is
//! not directed. Folds and loops, which measure the time per node or item, get a time that is
//! derived from the number of points.
//!
//! # What a rehearsed program must not do
//!
//! It must not wait for another actor in a way that is unknown to the director: for a lock that is
//! held at a point, for a channel, or in a spinning loop without [`point`]. Then the rehearsal
//! stops, which is reported after some 20 seconds.
//!
//! It must not use the [global pool](Pool::global), or build a pool with threads, since these
//! threads are not directed; that is reported at once. It must not depend on the clock, on
//! addresses or on other sources of nondeterminism, or the same seed may give another order.

mod director;
mod failure;

pub use failure::RehearsalFailure;

use crate::{
    base::{
        thread as directed,
        unwind::{self, Payload},
    },
    clock::PausedClock,
    pool::{Pool, PoolBuilder},
};
use director::Rehearsing;
use std::{
    cell::RefCell,
    fmt,
    sync::Arc,
    thread::{self, JoinHandle},
};

/// The default limit of points of a rehearsal: a thousand times as many as most need.
const MAX_POINTS: u64 = 5_000_000;

thread_local! {
    /// The rehearsal in which this thread is an actor.
    static CURRENT: RefCell<Option<Arc<Rehearsing>>> = const { RefCell::new(None) };
}

type Configure = Box<dyn FnOnce(PoolBuilder) -> PoolBuilder>;

/// A rehearsal: see the [module](self).
pub struct Rehearsal {
    workers: usize,
    seed: u64,
    max_points: u64,
    clock: Option<PausedClock>,
    configure: Option<Configure>,
}

/// The result of a rehearsal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rehearsed<R> {
    /// The value that the closure returned.
    pub value: R,
    /// The number of points.
    pub points: u64,
    /// The number of switches to another actor.
    pub turns: u64,
    /// A digest of the order of actors: the same for the same seed.
    pub fingerprint: u64,
}

impl Rehearsal {
    /// Creates a rehearsal on a pool with `workers` workers, in the order of `seed`. With zero
    /// workers the threads from outside do the work.
    ///
    /// ```
    /// use filch::rehearse::Rehearsal;
    ///
    /// for seed in 0..10 {
    ///     let sum = Rehearsal::new(0, seed).run(|pool| pool.submit(|| 1 + 1).join().unwrap());
    ///     assert_eq!(sum, 2);
    /// }
    /// ```
    #[must_use]
    pub fn new(workers: usize, seed: u64) -> Self {
        Self {
            workers,
            seed,
            max_points: MAX_POINTS,
            clock: None,
            configure: None,
        }
    }

    /// Configures the pool: capacities, panic handlers and so on. The number of workers, their
    /// names, hooks and seeds are set by the rehearsal.
    ///
    /// ```
    /// use filch::rehearse::Rehearsal;
    ///
    /// let rehearsal = Rehearsal::new(2, 1).pool(|builder| builder.task_capacity(1));
    /// assert_eq!(rehearsal.run(|pool| pool.submit(|| 1).join().unwrap()), 1);
    /// ```
    #[must_use]
    pub fn pool(mut self, configure: impl FnOnce(PoolBuilder) -> PoolBuilder + 'static) -> Self {
        self.configure = Some(Box::new(configure));
        self
    }

    /// Gives the pool this clock. When no actor can run, the clock advances to the next time that
    /// is waited for.
    ///
    /// ```
    /// use filch::{rehearse::Rehearsal, time::{self, PausedClock}};
    /// use std::time::Duration;
    ///
    /// for seed in 0..20 {
    ///     let clock = PausedClock::new();
    ///     let rehearsal = Rehearsal::new(2, seed).clock(&clock);
    ///     let hours = rehearsal.run(move |pool| {
    ///         let hour = Duration::from_secs(3600);
    ///         let slow = pool.spawn_future(async move { time::sleep(2 * hour).await });
    ///         let quick = pool.spawn_future(async move { time::sleep(hour).await });
    ///         quick.join().unwrap();
    ///         assert!(!slow.is_finished());
    ///         slow.join().unwrap();
    ///         clock.elapsed().as_secs() / 3600
    ///     });
    ///     assert_eq!(hours, 2);
    /// }
    /// ```
    #[must_use]
    pub fn clock(mut self, clock: &PausedClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Sets the number of points after which the rehearsal counts as a livelock (default: five
    /// million).
    ///
    /// ```
    /// use filch::rehearse::{self, Rehearsal};
    ///
    /// let rehearsal = Rehearsal::new(1, 7).max_points(100);
    /// let failure = rehearsal.try_run(|_| (0..1_000).for_each(|_| rehearse::point()));
    /// assert!(failure.unwrap_err().is_livelock());
    /// ```
    #[must_use]
    pub fn max_points(mut self, points: u64) -> Self {
        self.max_points = points;
        self
    }

    /// Calls `f` with the pool, on a thread from outside, and returns its result when all actors
    /// have ended: the pool's workers exit when its last handle is dropped.
    ///
    /// ```
    /// use filch::rehearse::Rehearsal;
    ///
    /// for seed in 0..10 {
    ///     let halves = Rehearsal::new(2, seed).run(|pool| pool.join(|| "left", || "right"));
    ///     assert_eq!(halves, ("left", "right"));
    /// }
    /// ```
    ///
    /// # Panics
    /// Panics with the seed in the message on a deadlock, on a livelock, or if `f` panics.
    #[track_caller]
    pub fn run<R: Send + 'static>(self, f: impl FnOnce(&Pool) -> R + Send + 'static) -> R {
        match self.try_run(f) {
            Ok(rehearsed) => rehearsed.value,
            Err(failure) => panic!("{failure}"),
        }
    }

    /// As [`run`](Self::run), but returns statistics, or the failure.
    ///
    /// ```
    /// use filch::rehearse::Rehearsal;
    ///
    /// let once = || Rehearsal::new(2, 5).try_run(|pool| pool.join(|| 1, || 2)).unwrap();
    /// assert_eq!(once(), once());
    /// assert_eq!(once().value, (1, 2));
    /// ```
    ///
    /// # Errors
    /// Fails on a deadlock, on a livelock, or if `f` panics. After the first two the threads stay
    /// blocked until the process ends and leak what they own, because their stack frames may be
    /// borrowed.
    ///
    /// # Panics
    /// Panics if the threads cannot be started.
    pub fn try_run<R: Send + 'static>(
        self,
        f: impl FnOnce(&Pool) -> R + Send + 'static,
    ) -> Result<Rehearsed<R>, RehearsalFailure> {
        let (workers, seed) = (self.workers, self.seed);
        let mut builder = Pool::builder();
        if let Some(clock) = &self.clock {
            builder = builder.clock(clock);
        }
        let clock = self.clock;
        if let Some(configure) = self.configure {
            builder = configure(builder);
        }
        let dedicated = builder.dedicated();
        let director = Rehearsing::new(workers, dedicated, seed, self.max_points, clock.clone());
        let director = Arc::new(director);
        let (entering, leaving) = (director.clone(), director.clone());
        let pool = builder
            .workers(workers)
            .seed(seed)
            // Few rounds, because failed searches lengthen the rehearsal.
            .spin_rounds((seed % 3) as u32)
            // A panic inside the scheduler aborts the process. Its message contains the thread's
            // name, and therefore the seed.
            .name(move |worker| format!("worker {worker} of a rehearsal with seed {seed}"))
            .on_start(move |worker| enter(&entering, worker))
            .on_exit(move |worker| leave(&leaving, worker))
            .build()
            .unwrap_or_else(|error| panic!("the rehearsal could not be started: {error}"));
        director.wait_for_all_to_start();
        let first = director.add(|actor| start(&director, actor, move || f(&pool)));
        if let Some(clock) = clock {
            let clock_director = director.clone();
            director.add(|actor| {
                start(&director, actor, move || {
                    clock_director.run_clock(actor, &clock);
                });
            });
        }
        let statistics = director.direct()?;
        match first.join() {
            Ok(Ok(value)) => Ok(Rehearsed {
                value,
                points: statistics.points,
                turns: statistics.turns,
                fingerprint: statistics.fingerprint,
            }),
            Ok(Err(payload)) | Err(payload) => Err(RehearsalFailure::panic(workers, seed, payload)),
        }
    }
}

impl fmt::Debug for Rehearsal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rehearsal")
            .field("workers", &self.workers)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

fn enter(director: &Arc<Rehearsing>, actor: usize) {
    CURRENT.set(Some(director.clone()));
    director.enter(actor);
}

fn leave(director: &Arc<Rehearsing>, actor: usize) {
    CURRENT.set(None);
    director.leave(actor);
}

/// Starts a thread that becomes `actor` and calls `f`.
fn start<R: Send + 'static>(
    director: &Arc<Rehearsing>,
    actor: usize,
    f: impl FnOnce() -> R + Send + 'static,
) -> JoinHandle<Result<R, Payload>> {
    let director = director.clone();
    let name = format!(
        "outside {} of a rehearsal with seed {}",
        actor - director.threads,
        director.seed
    );
    let thread = thread::Builder::new().name(name).spawn(move || {
        enter(&director, actor);
        directed::point();
        // What `f` owns, including the pool, is dropped inside `contain` too.
        let result = unwind::contain(f);
        leave(&director, actor);
        result
    });
    thread.unwrap_or_else(|error| panic!("a rehearsal needs one more thread: {error}"))
}

/// A point at which a rehearsal may switch to another worker or thread. Does nothing outside of a
/// rehearsal.
///
/// ```
/// use filch::rehearse::{self, Rehearsal};
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
///
/// // Two tasks that load first and store afterwards: some orders lose one of the two additions.
/// let sum = |seed| Rehearsal::new(1, seed).run(|pool| {
///     let sum = Arc::new(AtomicU32::new(0));
///     let add = |sum: &AtomicU32| {
///         let seen = sum.load(Ordering::Relaxed);
///         rehearse::point();
///         sum.store(seen + 1, Ordering::Relaxed);
///     };
///     pool.scope(|scope| {
///         scope.spawn(|_| add(&sum));
///         scope.spawn(|_| add(&sum));
///     });
///     sum.load(Ordering::Relaxed)
/// });
/// assert!((0..200).any(|seed| sum(seed) == 1));
/// ```
pub fn point() {
    directed::point();
}

/// Waits until `ready` returns true because of another actor. For code that blocks by its own
/// means, such as a [`Driver`](crate::Driver). Does nothing outside of a rehearsal.
///
/// ```
/// use filch::rehearse::{self, Rehearsal};
/// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
///
/// Rehearsal::new(1, 7).run(|pool| {
///     let done = Arc::new(AtomicBool::new(false));
///     let set = done.clone();
///     pool.spawn(move || set.store(true, Ordering::Relaxed));
///     rehearse::wait_until(|| done.load(Ordering::Relaxed));
///     assert!(done.load(Ordering::Relaxed));
/// });
/// ```
pub fn wait_until(ready: impl Fn() -> bool) {
    directed::wait_until(None, ready);
}

/// A handle to a thread from outside of the pool, in a rehearsal.
#[derive(Debug)]
pub struct OutsideThread<R> {
    thread: JoinHandle<Result<R, Payload>>,
}

/// Starts another thread from outside of the pool, in the caller's rehearsal. The rehearsal ends
/// only after this thread has ended.
///
/// ```
/// use filch::rehearse::{self, Rehearsal};
///
/// let sum = Rehearsal::new(1, 3).run(|pool| {
///     let shared = pool.clone();
///     let other = rehearse::spawn_outside(move || shared.submit(|| 1).join().unwrap());
///     pool.submit(|| 2).join().unwrap() + other.join()
/// });
/// assert_eq!(sum, 3);
/// ```
///
/// # Panics
/// Panics if the caller is not in a rehearsal, or if the thread cannot be started.
pub fn spawn_outside<R: Send + 'static>(
    f: impl FnOnce() -> R + Send + 'static,
) -> OutsideThread<R> {
    let director = CURRENT.with_borrow(Clone::clone);
    let director = director.expect("threads from outside belong to a rehearsal");
    let thread = director.add(|actor| start(&director, actor, f));
    OutsideThread { thread }
}

impl<R> OutsideThread<R> {
    /// Waits until the thread has ended, and returns its result.
    ///
    /// ```
    /// use filch::rehearse::{self, Rehearsal};
    ///
    /// let answer = Rehearsal::new(1, 5).run(|pool| {
    ///     let shared = pool.clone();
    ///     let outside = rehearse::spawn_outside(move || shared.join(|| 40, || 2));
    ///     outside.join()
    /// });
    /// assert_eq!(answer, (40, 2));
    /// ```
    ///
    /// # Panics
    /// Resumes the panic of the thread if it panicked.
    pub fn join(self) -> R {
        match directed::join(self.thread) {
            Ok(Ok(value)) => value,
            Ok(Err(payload)) | Err(payload) => unwind::resume(payload),
        }
    }
}
