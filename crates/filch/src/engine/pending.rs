//! Tasks that are not finished: whether there are any, and tasks that are counted before they are
//! queued.

use super::{
    core::Core,
    event::{OUTSIDE, Observer},
    queue::Strategy,
};

impl<T: Send, Q: Strategy, O: Observer> Core<T, Q, O> {
    /// Whether no task was queued, reserved or running at some moment during the call.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert!(core.is_idle());
    /// core.inject(1, Placement::Injector).unwrap();
    /// assert!(!core.is_idle());
    /// let _ = core.enter(0).step(|_, running| assert!(!running.core().is_idle()));
    /// assert!(core.is_idle());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_idle(&self) -> bool {
        // The gate first: a task that is finished in it has entered before, so the sum is too large
        // rather than too small. The gate again: a close moves the tasks that have entered to the
        // gate, and changes it before and after that.
        let gate = self.gate.state();
        let entered = self.injector.entered() + self.futures.entered();
        let is_same = self.gate.state() == gate;
        is_same && gate.busy_workers() == 0 && gate.with_entered(entered).in_flight() == 0
    }

    /// Returns the number of tasks that were queued or running at some recent moment. A worker
    /// counts as running a task until it has found that there is no other one; zero is exact, as
    /// in [`is_idle`](Self::is_idle).
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject_batch(vec![1, 2, 3]).unwrap();
    /// assert_eq!(core.pending(), 3);
    /// let _ = core.enter(0).step(|_, running| assert_eq!(running.core().pending(), 3));
    /// assert_eq!(core.pending(), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        if self.is_idle() {
            return 0;
        }
        let queued = self.shared_len() + Q::queued(&self.store);
        (queued + self.gate.state().busy_workers()).max(1)
    }

    /// Counts a task that will be [queued](Self::inject_reserved) later, or
    /// [withdrawn](Self::withdraw_reserved): until then the workers do not exit. Returns false when
    /// no more tasks are admitted.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert!(core.reserve());
    /// core.close();
    /// assert!(!core.reserve() && !core.is_stopped());
    /// core.inject_reserved(1);
    /// let mut worker = core.enter(0);
    /// assert!(matches!(worker.step(|task, _| assert_eq!(task, 1)), Step::Ran));
    /// while !matches!(worker.step(|_, _| ()), Step::Exit) {}
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn reserve(&self) -> bool {
        self.gate.enter(1)
    }

    /// Queues a task that was [reserved](Self::reserve) in the injector, also when that is full or
    /// the gate is closed.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert!(core.reserve() && !core.has_work());
    /// core.inject_reserved(1);
    /// assert!(core.has_work() && core.pending() == 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn inject_reserved(&self, task: T) {
        self.injector.push_always([task]);
        self.notify_shared(OUTSIDE);
    }

    /// Takes a [reservation](Self::reserve) back: its task does not come.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert!(core.reserve());
    /// core.close();
    /// core.withdraw_reserved();
    /// assert!(core.is_stopped()); // nothing is left
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn withdraw_reserved(&self) {
        self.stop_if_finished(self.gate.withdraw(1));
    }
}
