//! Programs on a pool, rehearsed: the production code on real threads, of which one goes on at a time, in an order that
//! a seed decides.
//!
//! [`simulate`](crate::simulate) checks the engine. This checks what stands on it: graphs, submitted tasks, scopes, and the
//! programs that use them.
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
//!     assert_eq!(order[0], "a"); // and "b" and "c" come in either order, but always in the same for one seed
//! }
//! ```
//!
//! # How it works
//!
//! Each worker of the pool and each thread from outside is an *actor*: a thread of its own, that goes on only when it is
//! its turn. At every *point* (wherever the engine tells its observer something, before each step of a worker, at some
//! steps of the faces' protocols, wherever somebody waits, yields or spins, and at [`point`]) a *director* may let
//! another one go on. Who sleeps is not chosen before it has been woken; now and then somebody is woken for nothing. So
//! every wait is the real one, and a wake that gets lost is a deadlock, which is reported with what everybody waits for.
//!
//! The threads are there because of the order: whoever was interrupted first may go on first. If one thread ran the others in
//! the middle of what it does, the last to be interrupted would have to be the first to go on, and a task that waits for one
//! that is interrupted below it would look like a deadlock and be none. (Shuttle, a checker for Rust programs, works in
//! the same way with coroutines.)
//!
//! # What it cannot find
//!
//! Everything happens in one order that all agree on, so a missing fence goes unnoticed, and between two points
//! nobody is interrupted; the model checker looks there.
//!
//! # Time
//!
//! With a [clock](Rehearsal::clock) the [sleeps](crate::time) of futures are rehearsed too: virtual time passes when nobody
//! can go on, and only then; so everything that can happen before a sleep is over does. Other deadlines, those of submitted
//! tasks and of tokens, come when they come, on a thread that nobody directs. Folds
//! and loops, which ask the clock how much work there is in a node or an item, are told how many points there were.
//!
//! # What a rehearsed program must not do
//!
//! Wait for another actor in a way that the director does not know: with a lock that is held at a point, a channel, a
//! spinning loop without [`point`]. Then nothing goes on, and after some 20 seconds that is reported as well.
//!
//! It must not use the [global pool](Pool::global), or build a pool with threads, since the director does not know these
//! threads; that is reported at once. And it must not depend on the clock, on addresses or on other sources of chance, or
//! the same seed may take another way.

mod director;
mod failure;

pub use failure::Failure;

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

/// How many points a rehearsal may have: a thousand times as many as most need.
const MOST_POINTS: u64 = 5_000_000;

thread_local! {
    /// The rehearsal that this thread is an actor in.
    static CURRENT: RefCell<Option<Arc<Rehearsing>>> = const { RefCell::new(None) };
}

type Configure = Box<dyn FnOnce(PoolBuilder) -> PoolBuilder>;

/// A rehearsal: see the [module](self).
pub struct Rehearsal {
    workers: usize,
    seed: u64,
    most_points: u64,
    clock: Option<PausedClock>,
    configure: Option<Configure>,
}

/// What a rehearsal came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rehearsed<R> {
    /// What the closure returned.
    pub value: R,
    /// How many points there were.
    pub points: u64,
    /// How often somebody else went on.
    pub turns: u64,
    /// A digest of who went on when: the same for the same seed.
    pub fingerprint: u64,
}

impl Rehearsal {
    /// On a pool with so many workers (with none the threads from outside do the work), in the order of `seed`.
    #[must_use]
    pub fn new(workers: usize, seed: u64) -> Self {
        Self {
            workers,
            seed,
            most_points: MOST_POINTS,
            clock: None,
            configure: None,
        }
    }

    /// Sets up the pool: capacities, panic handlers and so on. Its workers, their names, hooks and seeds belong to the
    /// rehearsal.
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

    /// Gives the pool this clock, which moves to the next time that somebody waits for when nobody can go on.
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

    /// After how many points it is taken for one that never ends (five million).
    #[must_use]
    pub fn most_points(mut self, points: u64) -> Self {
        self.most_points = points;
        self
    }

    /// Calls `f` with the pool, on a thread from outside, and returns what it returned when all have come to their
    /// end: the pool's workers leave when its last handle is dropped.
    ///
    /// # Panics
    /// When nobody can go on, or it does not end, or `f` panics: with the seed.
    #[track_caller]
    pub fn run<R: Send + 'static>(self, f: impl FnOnce(&Pool) -> R + Send + 'static) -> R {
        match self.try_run(f) {
            Ok(rehearsed) => rehearsed.value,
            Err(failure) => panic!("{failure}"),
        }
    }

    /// [`run`](Self::run) that says what it was like, and what went wrong.
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
    /// When nobody can go on, or it does not end, or `f` panics. After the first two the threads stay where they are
    /// until the process ends, with all that is theirs: what one waits for in its frame cannot be taken from it.
    ///
    /// # Panics
    /// When the threads cannot be started.
    pub fn try_run<R: Send + 'static>(
        self,
        f: impl FnOnce(&Pool) -> R + Send + 'static,
    ) -> Result<Rehearsed<R>, Failure> {
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
        let director = Rehearsing::new(workers, dedicated, seed, self.most_points, clock.clone());
        let director = Arc::new(director);
        let (coming, leaving) = (director.clone(), director.clone());
        let pool = builder
            .workers(workers)
            .seed(seed)
            // Looking around in vain is dull to watch.
            .spin_rounds((seed % 3) as u32)
            // Where a panic inside of the scheduler ends the process, its message has the name, and so the seed.
            .name(move |worker| format!("worker {worker} of a rehearsal with seed {seed}"))
            .on_start(move |worker| enter(&coming, worker))
            .on_exit(move |worker| leave(&leaving, worker))
            .build()
            .unwrap_or_else(|error| panic!("the rehearsal could not be started: {error}"));
        director.until_all_have_come();
        let first = director.add(|actor| start(&director, actor, move || f(&pool)));
        if let Some(clock) = clock {
            let keeper = director.clone();
            director.add(|actor| {
                start(&director, actor, move || keeper.keep_time(actor, &clock));
            });
        }
        let course = director.direct()?;
        match first.join() {
            Ok(Ok(value)) => Ok(Rehearsed {
                value,
                points: course.points,
                turns: course.turns,
                fingerprint: course.fingerprint,
            }),
            Ok(Err(payload)) | Err(payload) => Err(Failure::panic(workers, seed, payload)),
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

/// Starts the thread of `actor`, which calls `f`.
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
        // What `f` owns, the pool among it, is dropped in there too.
        let result = unwind::contain(f);
        leave(&director, actor);
        result
    });
    thread.unwrap_or_else(|error| panic!("a rehearsal needs one more thread: {error}"))
}

/// A place where another worker or thread may go on, in a rehearsal. Elsewhere it is nothing.
///
/// ```
/// use filch::rehearse::{self, Rehearsal};
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
///
/// // Two threads that look first and write afterwards: some order loses one of the two additions.
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

/// Waits until `ready`, which others bring about: for code in a rehearsal that blocks in a way of its own, such as a
/// [`Driver`](crate::Driver). Elsewhere it is nothing.
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

/// A thread from outside of the pool, in a rehearsal.
#[derive(Debug)]
pub struct Outside<R> {
    thread: JoinHandle<Result<R, Payload>>,
}

/// Starts one more thread from outside of the pool, in the rehearsal that the caller is in. The rehearsal ends when it has
/// come to its end, too.
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
/// When the caller is in no rehearsal, or the thread cannot be started.
pub fn spawn_outside<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Outside<R> {
    let director = CURRENT.with_borrow(Clone::clone);
    let director = director.expect("threads from outside belong to a rehearsal");
    let thread = director.add(|actor| start(&director, actor, f));
    Outside { thread }
}

impl<R> Outside<R> {
    /// Waits for its end.
    ///
    /// # Panics
    /// When it panicked: with the same.
    pub fn join(self) -> R {
        match directed::join(self.thread) {
            Ok(Ok(value)) => value,
            Ok(Err(payload)) | Err(payload) => unwind::resume(payload),
        }
    }
}
