//! Runs the jobs of a pool one by one on the caller's thread: for pools without threads.

use super::{Inner, Pool, context::WorkerContext, time_slice};
use std::time::Duration;

impl Pool {
    /// Runs one queued job on this thread, if there is one. Returns whether it did.
    ///
    /// Intended for pools without threads ([`workers(0)`](crate::PoolBuilder::workers)): a program
    /// with one thread, a test or an event loop decides itself when and how much of the queued work
    /// is done.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(0).build()?;
    /// let (a, b) = (pool.submit(|| "a"), pool.submit(|| "b"));
    /// assert!(pool.tick());
    /// assert!(a.is_finished() && !b.is_finished());
    /// assert!(pool.tick());
    /// assert!(!pool.tick()); // nothing is left
    /// # assert_eq!((a.join().unwrap(), b.join().unwrap()), ("a", "b"));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// What a job enqueues waits for the next call. On a pool without threads the tasks that one
    /// thread has enqueued from outside run in FIFO order, among those of one priority. Each call
    /// chooses anew: the turns that less urgent tasks get occasionally while urgent ones keep
    /// arriving are counted within one [`run_until_stalled`](Self::run_until_stalled), not from
    /// tick to tick.
    ///
    /// It may be called anywhere:
    /// - On a pool with threads the caller helps them. A pinned task is left to its worker, and so
    ///   is a task that a worker should run while it sleeps and is being woken for it.
    /// - Inside of a task of the same pool another job runs nested in this task, as with
    ///   [`yield_now`](crate::yield_now). In an [`isolate`](crate::isolate), or with most of the
    ///   stack in use, none does.
    /// - When all slots for threads from outside are taken, nothing runs; the threads in those
    ///   slots run the jobs.
    /// - After a shutdown nothing is queued. A job that is found nevertheless, because a late call
    ///   has enqueued it, is run with all that it enqueues: no other thread would run the rest.
    ///
    /// With a [`PausedClock::auto`](crate::time::PausedClock::auto) a pool without threads that has
    /// nothing queued advances the clock to the next deadline that a task waits for, and continues
    /// with the tasks that are woken.
    ///
    /// A panic of the job is reported as usual: through the handle, or to
    /// [`on_panic`](crate::PoolBuilder::on_panic).
    pub fn tick(&self) -> bool {
        self.inner().help(1, || true) == 1
    }

    /// Runs queued jobs on this thread until there are none, those included that they enqueue.
    /// Returns the number of jobs that ran.
    ///
    /// In a pool without threads no further progress is then possible without outside input: tasks
    /// are done, or wait for something outside of the pool. In a pool with threads those may still
    /// be running tasks. Otherwise as [`tick`](Self::tick).
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(0).build()?;
    /// pool.spawn(|| filch::spawn(|| println!("second")));
    /// assert_eq!(pool.run_until_stalled(), 2);
    /// assert_eq!(pool.run_until_stalled(), 0);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// A job that enqueues itself again is run again and again: then this does not return, and
    /// calls to [`tick`](Self::tick) are the better loop. The same holds for an interval on an
    /// auto-advancing clock.
    pub fn run_until_stalled(&self) -> usize {
        self.inner().help(usize::MAX, || true)
    }

    /// Runs queued jobs on this thread, those included that they enqueue, until there are none or
    /// `budget` is spent. Returns the number of jobs that ran: at least one, if one was queued.
    /// Otherwise as [`run_until_stalled`](Self::run_until_stalled).
    ///
    /// It is for a thread that must return to its event loop in time, for example to draw the next
    /// frame. [`PoolBuilder::on_work`](crate::PoolBuilder::on_work) is called when another call is
    /// needed.
    ///
    /// ```
    /// use filch::Pool;
    /// use std::time::Duration;
    ///
    /// let pool = Pool::builder().workers(0).build()?;
    /// (0..3).for_each(|_| pool.spawn(|| std::thread::sleep(Duration::from_millis(2))));
    /// assert_eq!(pool.run_for(Duration::from_millis(1)), 1); // the budget is spent
    /// assert_eq!(pool.run_for(Duration::from_secs(60)), 2); // nothing is left
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// No job is interrupted, so the call may take longer than `budget`, by the duration of one
    /// task, poll of a future, task of a [launched](Self::launch) graph or stage of a
    /// pipeline. A loop, join or fold in a task is a part of this task. The clock is read once for
    /// each of them.
    pub fn run_for(&self, budget: Duration) -> usize {
        let budget = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
        time_slice::limit_to(budget, || {
            self.inner().help(usize::MAX, || !time_slice::is_over())
        })
    }
}

impl Inner {
    /// Runs at most `most` jobs on this thread, and after the first one only if `more`. Returns how
    /// many it ran.
    fn help(&self, most: usize, more: impl Fn() -> bool) -> usize {
        let help = |context: &WorkerContext<'_, '_>| {
            let mut ran = 0;
            if self.has_driver() {
                context.poll_driver();
            }
            loop {
                ran += context.help_while(most - ran, &more);
                // Where nothing may run, the clock does not advance either.
                let stop = ran == most || !more() || context.has_restricted_waits();
                if stop || !self.skip_time(false) {
                    return ran;
                }
            }
        };
        WorkerContext::with(|context| match context {
            Some(context) if context.is_inside(self) => self.enter_worker(help),
            // Taking a guest slot costs more than this check, and a loop of ticks checks often.
            _ if !self.has_driver() && !self.core().has_work() && !self.skip_time(false) => 0,
            _ => self.try_as_guest(help).unwrap_or(0),
        })
    }
}
