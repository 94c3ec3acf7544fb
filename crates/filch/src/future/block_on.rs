//! Running a future on the stack of the caller.

use crate::{
    base::{
        budget,
        sync::{AtomicBool, Ordering, hint},
        thread::{self, Parker},
    },
    pool::{Inner, Pool, context::WorkerContext, latch::WaitTarget},
    threads::cores,
};
use std::{
    cell::Cell,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// How often a thread that is not a worker checks its signal, with eight spin-loop hints in
/// between, before it parks: some 10 µs, about the cost of parking and being woken.
const SPINS_BEFORE_PARK: u32 = 64;

/// The most jobs that a worker runs when its future has yielded, before it polls it again.
const MAX_JOBS_PER_YIELD: usize = 61;

/// How long a thread that works for several pools parks at a time.
const PARK_TIME_IN_SEVERAL_POOLS: Duration = Duration::from_millis(1);

/// The waker of a future on the stack of this thread: whether it has been woken.
struct WakeSignal {
    woken: AtomicBool,
    thread: Arc<Parker>,
}

impl Wake for WakeSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // AcqRel: what was done before the wake is visible to the poll; pairs with `clear`.
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

impl WakeSignal {
    fn is_set(&self) -> bool {
        // Acquire: pairs with the release of the wake.
        self.woken.load(Ordering::Acquire)
    }

    fn clear(&self) {
        // AcqRel: as in `wake_by_ref`. Acquires also what was done before the last of several
        // wakes.
        self.woken.swap(false, Ordering::AcqRel);
    }

    /// Parks until the signal is set, after `rounds` checks without parking.
    fn park(&self, rounds: u32, registration: &impl WaitRegistration) {
        for round in 1..=thread::spin_limit(rounds) {
            if self.is_set() {
                return;
            }
            if round % 16 == 0 {
                thread::yield_now();
            }
            (0..8).for_each(|_| hint::spin_loop());
        }
        while !self.is_set() && registration.register() {
            thread::park();
        }
    }
}

/// A wait that may be registered in the list of waits.
pub(super) trait WaitRegistration {
    /// Registers the wait, which is about to sleep. Returns false when it can never end.
    fn register(&self) -> bool;

    /// Whether it can never end.
    fn is_cyclic(&self) -> bool;
}

/// A wait that is not registered, because what the future waits for is not known.
pub(super) struct Unregistered;

impl WaitRegistration for Unregistered {
    fn register(&self) -> bool {
        true
    }

    fn is_cyclic(&self) -> bool {
        false
    }
}

/// A signal as a wait target of a worker.
struct SignalTarget<'s, V>(&'s WakeSignal, &'s V);

impl<V: WaitRegistration> WaitTarget for SignalTarget<'_, V> {
    fn has_happened(&self) -> bool {
        self.0.is_set() || self.1.is_cyclic()
    }

    fn register_sleeper(&self, _worker: usize) -> bool {
        self.1.register() && !self.0.is_set()
    }

    fn unregister_sleeper(&self) {
        // A later wake unparks this thread spuriously, which is harmless.
    }
}

thread_local! {
    /// A signal that is not in use, to be reused.
    static SPARE: Cell<Option<Arc<WakeSignal>>> = const { Cell::new(None) };
}

/// Calls `f` with a signal for this thread.
fn with_signal<R>(f: impl FnOnce(&Arc<WakeSignal>) -> R) -> R {
    // The thread-local is not accessible while the thread exits.
    let spare = SPARE.try_with(Cell::take).ok().flatten();
    let signal = spare.unwrap_or_else(|| {
        Arc::new(WakeSignal {
            woken: AtomicBool::new(false),
            thread: thread::parker(),
        })
    });
    let result = f(&signal);
    let _ = SPARE.try_with(|spare| spare.set(Some(signal)));
    result
}

/// Polls `future` until it is ready, and calls `wait` in between; or `yielded` when it was woken
/// before the wait, with whether its poll had budget left.
fn drive<F: Future>(
    mut future: Pin<&mut F>,
    wait: impl Fn(&Arc<WakeSignal>),
    yielded: impl Fn(bool),
) -> F::Output {
    with_signal(|signal| {
        let waker = Waker::from(signal.clone());
        let mut cx = Context::from_waker(&waker);
        loop {
            signal.clear();
            let poll = || (future.as_mut().poll(&mut cx), budget::is_left());
            match budget::with_new(poll) {
                (Poll::Ready(value), _) => return value,
                (Poll::Pending, has_budget) if signal.is_set() => yielded(has_budget),
                (Poll::Pending, _) => wait(signal),
            }
        }
    })
}

/// Drives the future on a worker, which runs other tasks meanwhile.
fn drive_on<F: Future>(
    context: &WorkerContext<'_, '_>,
    future: Pin<&mut F>,
    registration: &impl WaitRegistration,
) -> F::Output {
    drive(
        future,
        |signal| match context.is_in_other_pools() {
            true => wait_in_several(context, signal, registration),
            // This task may have queued long ago what the future waits for.
            false => context.wait(&SignalTarget(signal, registration), context.job_mark()),
        },
        |_| {
            context.yield_to_older();
            // A bound, because new tasks may be queued ahead of the future again and again.
            let ran = context.help_in_wait(MAX_JOBS_PER_YIELD);
            if !context.help_enclosing() && ran == 0 && context.has_restricted_waits() {
                // Other threads may have to run what the future waits for.
                thread::yield_now();
            }
        },
    )
}

/// Waits on a thread that is nested in tasks of several pools: it works for all of them, since the
/// future may need any. It can be woken for work of one of them only, so it checks the others
/// periodically.
fn wait_in_several(
    context: &WorkerContext<'_, '_>,
    signal: &WakeSignal,
    registration: &impl WaitRegistration,
) {
    while !signal.is_set() && !registration.is_cyclic() {
        let idle = context.help_in_wait(1) == 0 && !context.help_enclosing() && !signal.is_set();
        if idle && !context.skip_time() && registration.register() {
            context.poll_drivers();
            thread::park_timeout(PARK_TIME_IN_SEVERAL_POOLS);
        }
    }
}

/// Drives the future on a thread that is not a worker.
fn drive_here<F: Future>(
    future: Pin<&mut F>,
    rounds: u32,
    registration: &impl WaitRegistration,
) -> F::Output {
    drive(
        future,
        |signal| signal.park(rounds, registration),
        |has_budget| match has_budget {
            true => thread::yield_now(),
            // This thread has no other future to poll. A yield would give a busy core away for a
            // slice of the system's time, milliseconds after every 128 handles that are ready.
            false => thread::point(),
        },
    )
}

/// Returns how often to check before parking while `threads` workers exist: if they occupy all
/// cores, a thread that spins takes a core from one of them.
fn spins_beside(threads: usize) -> u32 {
    if threads < cores() {
        SPINS_BEFORE_PARK
    } else {
        0
    }
}

/// Runs a future on this thread until it is done, and returns its output.
///
/// On a worker, other tasks run while the future waits. So futures, tasks and `join`s may wait for
/// each other in any order, also on a single worker. Elsewhere the thread sleeps while the future
/// waits.
///
/// The future need not be `Send`, and may borrow. If it waits for a pool [without
/// threads](crate::PoolBuilder::workers), another thread must run that pool's tasks, unless
/// [`Pool::block_on`] is used, which runs them.
///
/// ```
/// let numbers = [1, 2, 3];
/// let sum = filch::block_on(async { numbers.iter().sum::<i32>() });
/// assert_eq!(sum, 6);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let future = pin!(future);
    WorkerContext::with(|context| match context {
        Some(context) => drive_on(context, future, &Unregistered),
        None => drive_here(future, SPINS_BEFORE_PARK, &Unregistered),
    })
}

impl Pool {
    /// [`block_on`] with this pool as the one that [`spawn_future`](crate::spawn_future) and other
    /// free functions use inside. On a pool without threads the caller runs the pool's tasks while
    /// the future waits.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let answer = pool.block_on(async {
    ///     let handle = filch::spawn_future(async { 6 * 7 }); // on this pool
    ///     handle.await.unwrap()
    /// });
    /// assert_eq!(answer, 42);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let future = pin!(future);
        let outside = WorkerContext::with(|context| context.is_none());
        if outside && self.workers() > 0 {
            self.within(|| drive_here(future, spins_beside(self.workers()), &Unregistered))
        } else {
            self.enter_worker(|context| drive_on(context, future, &Unregistered))
        }
    }
}

/// Waits for a future that depends on the pool of that number: on a pool without threads, a caller
/// that is not a worker runs its tasks.
pub(super) fn block_on_for<F: Future>(
    pool: u32,
    future: F,
    registration: &impl WaitRegistration,
) -> F::Output {
    let future = pin!(future);
    WorkerContext::with(|context| match context {
        Some(context) if context.pool().number() == pool => drive_on(context, future, registration),
        _ => match Inner::find(pool) {
            Some(pool) if pool.live_workers() == 0 => {
                pool.enter_worker(|context| drive_on(context, future, registration))
            }
            pool => match context {
                Some(context) => drive_on(context, future, registration),
                None => {
                    let rounds = pool.map_or(0, |pool| spins_beside(pool.live_workers()));
                    drive_here(future, rounds, registration)
                }
            },
        },
    })
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::drive;
    use crate::future::{consume_budget, yield_now};
    use std::{cell::Cell, pin::pin};

    #[test]
    fn a_budget_that_is_used_up_is_not_a_yield() {
        let (yields, renewals) = (Cell::new(0), Cell::new(0));
        let future = pin!(async {
            for _ in 0..1000 {
                consume_budget().await;
            }
            yield_now().await;
        });
        let yielded = |has_budget| {
            let count = if has_budget { &yields } else { &renewals };
            count.set(count.get() + 1);
        };
        drive(future, |_| unreachable!("it waits for nothing"), yielded);
        assert_eq!((yields.get(), renewals.get()), (1, 7));
    }
}
