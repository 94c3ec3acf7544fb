//! The caller's thread does the work of a pool, job by job: for pools without threads.

use super::{Inner, Pool, context::WorkerContext};

impl Pool {
    /// Runs one queued job on this thread, if there is one, and says whether it did.
    ///
    /// Made for pools without threads ([`workers(0)`](crate::PoolBuilder::workers)): a program with one thread, a test
    /// or an event loop decides itself when and how much of the queued work is done.
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
    /// What a job queues waits for the next call. On a pool without threads the tasks that one thread has queued from
    /// outside run in their order, among those of one priority. Each call chooses anew: the turns that less urgent tasks get now
    /// and then while urgent ones keep coming are counted within one [`run_until_stalled`](Self::run_until_stalled), not
    /// from tick to tick.
    ///
    /// It may be called anywhere:
    /// - On a pool with threads the caller helps them. What only a certain worker may run is left to it, and so is what
    ///   it should run while it sleeps and is being woken for it.
    /// - Inside of a task of the same pool another job runs in the middle of this task, as with
    ///   [`yield_now`](crate::yield_now). In an [`isolate`](crate::isolate), or with most of the stack in use, none does.
    /// - When more threads from outside are in the pool than it has places for, nothing runs; they see to the jobs.
    /// - After a shutdown nothing is queued. A job that is found all the same, because a late call has queued it, is run
    ///   with all that it queues: nobody comes for the rest.
    ///
    /// With a [`PausedClock::auto`](crate::time::PausedClock::auto) a pool without threads that has nothing queued moves the
    /// clock to the next time that somebody waits for, and goes on with what that wakes.
    ///
    /// A panic of the job goes where it always goes: to the handle, or to
    /// [`on_panic`](crate::PoolBuilder::on_panic).
    pub fn tick(&self) -> bool {
        self.inner().help(1) == 1
    }

    /// Runs queued jobs on this thread until there are none, those included that they queue, and says how many it ran.
    ///
    /// With a pool without threads everything has happened then that can happen without something from elsewhere: tasks
    /// are done, or wait for somebody outside of the pool. On a pool with threads those may still be at work. Otherwise as
    /// [`tick`](Self::tick).
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
    /// A job that queues itself again is run again and again: then this does not return, and calls to
    /// [`tick`](Self::tick) are the better loop. So does an interval by a clock that moves by itself.
    pub fn run_until_stalled(&self) -> usize {
        self.inner().help(usize::MAX)
    }
}

impl Inner {
    /// Runs at most so many jobs on this thread, and says how many it ran.
    fn help(&self, most: usize) -> usize {
        let help = |context: &WorkerContext<'_, '_>| {
            let mut ran = 0;
            if self.has_driver() {
                context.poll_driver();
            }
            loop {
                ran += context.help(most - ran);
                // Where nothing may run, no time passes either.
                if ran == most || context.has_isolated_waits() || !self.skip_time(false) {
                    return ran;
                }
            }
        };
        WorkerContext::with(|context| match context {
            Some(context) if context.is_inside(self) => self.enter_worker(help),
            // A place costs more than a look, and a loop of ticks looks often.
            _ if !self.has_driver() && !self.core().has_work() && !self.skip_time(false) => 0,
            _ => self.try_as_guest(help).unwrap_or(0),
        })
    }
}
