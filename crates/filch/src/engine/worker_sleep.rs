//! How a worker stops searching, falls asleep and wakes up; `sleep.md` has the protocol.

use super::{
    event::{Event, Observer, Source},
    gate::Verdict,
    idle::IdleAction,
    queue::{Queue, Strategy},
    sleep::{Announced, Awake},
    worker::{ParkToken, Phase, Step, Worker},
};
use crate::base::{
    canary::{Canary, broken},
    sync::fence_after_rmw,
    sys::barrier,
};
use std::time::Duration;

/// Sleeps shorter than this make the next search longer: a search in their place would have found
/// the task. The longest search of the default policy takes about as long. Half of the time may be
/// the wake-up (`filch-bench traps`, case `regions`: with 50 µs two workers were no faster than
/// one).
const SHORT_SLEEP: Duration = Duration::from_micros(200);

/// The fewest failed searches before a sleep: some 4 µs.
const MIN_ROUNDS: u32 = 4;

impl<T: Send, Q: Strategy, O: Observer> Worker<'_, T, Q, O> {
    /// Ends a successful search.
    pub(super) fn found(&mut self, source: Source) {
        self.phase = Phase::Active;
        // A search of this length would have succeeded again, so allow twice that.
        self.max_rounds = self.max_rounds.max(self.rounds.saturating_mul(2));
        self.rounds = 0;
        let last = self.core.sleep.end_search();
        // With a worker that is woken here, one searches, so the search is passed on.
        let passed = std::mem::take(&mut self.woken) && self.wake_in_turn(source);
        self.deferred_tasks = 0;
        if last && !passed && !broken(Canary::PassOn) {
            self.pass_on();
        }
    }

    /// Called when a worker that was woken has found a task: if it sees more, it wakes a worker for
    /// each, up to [`wake_fanout`](super::Settings::wake_fanout), besides those that pushes wake.
    /// So the number of awake workers doubles with every wake.
    fn wake_in_turn(&self, source: Source) -> bool {
        if self.core.settings.wake_fanout == 0 {
            return false;
        }
        let own = match self.has_own() {
            // Where the number is not known there is one.
            true => self.queue.own_len().max(1),
            false => 0,
        };
        let left = match source {
            // Tasks of a worker that has spawned several are likely to spawn more. With a wake for
            // each, 256 simulated workers are awake after 223 instead of 55 µs (a tree of tasks).
            Source::Steal { victim, .. } => 2 * self.queue.left_tasks(victim),
            _ => 0,
        };
        // Single tasks of other workers. Without them the workers that a graph needs would wake one
        // after the other: 256 simulated workers run a wavefront 75 instead of 93 times as fast as
        // one (`bench/results/scale`).
        let more = own + left + self.deferred_tasks + self.core.injector.len();
        more > 0 && (broken(Canary::WakeInTurn) || self.core.wake_several(self.id, more))
    }

    /// Called when the last searcher has stopped: wakes another worker if there are more tasks.
    ///
    /// A push that came before counted on this search, so the check needs the barrier of a last
    /// check. A wake costs more than the barrier, and even more if the woken worker finds no task.
    fn pass_on(&self) {
        let core = self.core;
        if !core.sleep.state().wants_wake() || !core.sleep.has_sleeper() {
            return;
        }
        if !core.has_work() {
            if !broken(Canary::PassOnFence) {
                self.make_pushes_visible();
            }
            if !core.has_work() {
                return;
            }
        }
        let _ = core.wake_one(self.id);
    }

    /// Makes all pushes visible whose threads have not seen this worker's last change of the sleep
    /// word.
    ///
    /// Only running tasks push without a fence, and workers with running tasks count as busy in the
    /// gate. If no other worker is busy, a fence is enough. It pairs with the one in
    /// `Gate::begin_busy`: a worker that becomes busy after the load of the gate sees the change of
    /// the sleep word. The heavy barrier pairs with the light one of `Core::must_notify`, and the
    /// fence with those of `Core::notify_shared` and `Core::notify_moved`.
    fn make_pushes_visible(&self) {
        fence_after_rmw();
        let own = usize::from(!self.idle_at_gate);
        if self.core.gate.state().busy_workers() > own && !broken(Canary::PushBarrier) {
            barrier::heavy();
        }
    }

    /// A step of the standby worker, which was woken on a core where another worker is awake, and
    /// cannot leave that core. It yields to the other worker: otherwise both share the work of one
    /// core, and the tasks that one has taken wait while the other runs.
    ///
    /// It yields up to [`Settings::standby`](super::Settings::standby) times. If the other worker
    /// is blocked, that takes no time.
    pub(super) fn yield_in_standby(&mut self, times: u32) -> Step {
        if times < self.core.settings.standby && self.may_stand_by() {
            self.phase = Phase::Standby(times + 1);
            return Step::Idle(IdleAction::Yield);
        }
        let counted = self.core.sleep.end_standby(self.core.search_limit());
        self.begin_search();
        if !counted {
            // Enough other workers are searching: act as a worker without tasks.
            self.phase = Phase::Active;
        }
        Step::Idle(IdleAction::Spin(0))
    }

    /// Whether all tasks are in the queues of workers that are awake, and every core with a worker
    /// has one that is awake.
    fn may_stand_by(&self) -> bool {
        let core = self.core;
        let raised = core.flags().read();
        let here = core.current_core();
        let urgent = raised.lanes()
            || raised.has_affine()
            || !core.injector.is_empty()
            || !core.futures.is_empty();
        let shared = |here| core.sleep.cores().is_shared(self.id, here);
        let free = |here| core.sleep.cores().choose(here, None).is_some();
        !urgent
            && !self.has_pinned()
            && here.is_some_and(|here| shared(here) && !free(here))
            && Q::has_work(&core.store)
    }

    /// Records that the worker counts as searching from now on.
    fn begin_search(&mut self) {
        let core = self.core;
        core.sleep.cores().awake(self.id, core.current_core());
        self.phase = Phase::Searching;
        self.rounds = 0;
    }

    /// Flushes the count, and enters the list of sleepers.
    pub(super) fn fall_asleep(&mut self, searching: bool, timeout: Option<Duration>) -> Step {
        if self.flush_count() == Verdict::Finished {
            self.core.stop_if_finished(Verdict::Finished);
            return Step::Exit;
        }
        let core = self.core;
        let here = core.current_core();
        let cores = core.sleep.cores();
        let alone = here.is_none_or(|here| !cores.is_shared(self.id, here));
        cores.asleep(self.id, here);
        let announced = core.sleep.announce(self.id, searching, alone);
        if !matches!(announced, Announced::Listed | Announced::LastSearcher) {
            cores.awake(self.id, here);
        }
        match announced {
            Announced::Listed => self.park(timeout),
            Announced::LastSearcher => {
                self.phase = Phase::LastCheck(timeout);
                Step::Idle(IdleAction::Spin(0))
            }
            Announced::MustSearch => {
                // The other searchers have stopped meanwhile.
                self.phase = Phase::Active;
                Step::Idle(IdleAction::Spin(0))
            }
            Announced::Woken => {
                self.phase = Phase::Searching;
                self.rounds = 0;
                Step::Idle(IdleAction::Spin(0))
            }
            Announced::Stopped => {
                if searching {
                    let _ = self.core.sleep.end_search();
                }
                self.phase = Phase::Active;
                Step::Exit
            }
        }
    }

    pub(super) fn flush_count(&mut self) -> Verdict {
        if self.idle_at_gate {
            return Verdict::Running;
        }
        self.idle_at_gate = true;
        self.core.gate.end_busy(std::mem::take(&mut self.count))
    }

    pub(super) fn finish_last_check(&mut self, timeout: Option<Duration>) -> Step {
        // Most likely this wakes the worker itself, which is at the head of the list.
        self.last_check();
        self.park(timeout)
    }

    /// The last searcher's check of every queue after its announcement.
    fn last_check(&self) {
        if !broken(Canary::SleepFence) {
            self.make_pushes_visible();
        }
        let core = self.core;
        let raised = core.flags().read();
        let found = raised.lanes() && !broken(Canary::LaneLastCheck)
            || raised.has_affine() && !broken(Canary::AffineLastCheck)
            || core.has_normal_work();
        if found && !broken(Canary::LastCheck) {
            let _ = core.wake_one(self.id);
        }
    }

    fn park(&mut self, timeout: Option<Duration>) -> Step {
        self.phase = Phase::Parked;
        self.core.observer.event(self.id, Event::Parked);
        Step::Park(ParkToken {
            worker: self.id,
            timeout,
        })
    }

    /// Stops searching or sleeping, and passes the search on if pushes count on it.
    pub(super) fn leave_search(&mut self) {
        let core = self.core;
        match self.phase {
            Phase::Active => {}
            Phase::Searching => {
                if core.sleep.end_search() {
                    self.pass_on();
                }
            }
            Phase::Standby(_) => {
                if !broken(Canary::StandbyLeaves) {
                    // Pushes have counted on the standby worker.
                    let _ = core.sleep.end_standby(0);
                    self.pass_on();
                }
            }
            Phase::LastCheck(_) | Phase::Parked => {
                // The worker is still in the list, and its entry becomes stale. If a waker has
                // woken it meanwhile, it must pass on the search. If not, and its last check is
                // due, it makes that check before it leaves.
                if core.sleep.end_sleep(self.id) == Awake::Woken {
                    if core.sleep.end_search() {
                        self.pass_on();
                    }
                } else if self.phase != Phase::Parked {
                    self.last_check();
                }
            }
        }
        if self.phase != Phase::Active {
            core.sleep.cores().awake(self.id, core.current_core());
            self.phase = Phase::Active;
            core.request_attention_for_missed(self.id);
        }
    }

    /// Whether the worker was woken on the core of another one and yields to it.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// assert!(!core.enter(0).stands_by()); // it is the only worker
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn stands_by(&self) -> bool {
        matches!(self.phase, Phase::Standby(_))
    }

    /// Whether this worker has been woken. A driver may check this instead of counting unparks.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// let mut worker = core.enter(0);
    /// let token = loop {
    ///     if let Step::Park(token) = worker.step(|_, _| ()) {
    ///         break token;
    ///     }
    /// };
    /// assert!(!worker.is_woken());
    /// core.inject(1, Placement::Injector).unwrap();
    /// assert!(worker.is_woken());
    /// # worker.resume(token);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_woken(&self) -> bool {
        self.core.sleep.is_woken(self.id)
    }

    /// [`resume`](Self::resume) after a sleep of a known length. If it was short, the next search
    /// before a sleep is longer, up to the limit of the idle policy. If it was long, searching is
    /// not worth while, and the next search is shorter.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// let mut worker = core.enter(0);
    /// let token = loop {
    ///     if let Step::Park(token) = worker.step(|_, _| ()) {
    ///         break token;
    ///     }
    /// };
    /// let start = Instant::now();
    /// core.inject(1, Placement::Injector).unwrap(); // while the thread sleeps
    /// worker.resume_after(token, start.elapsed());
    /// assert!(matches!(worker.step(|task, _| assert_eq!(task, 1)), Step::Ran));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn resume_after(&mut self, token: ParkToken, slept: Duration) {
        if slept < SHORT_SLEEP {
            self.max_rounds = self.max_rounds.saturating_mul(4);
        } else if self.rounds > 0 {
            self.max_rounds = (self.max_rounds.min(self.rounds) / 2).max(MIN_ROUNDS);
        }
        self.resume(token);
    }

    /// Resumes the worker after it was parked.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// let mut worker = core.enter(0);
    /// let token = loop {
    ///     if let Step::Park(token) = worker.step(|_, _| ()) {
    ///         break token;
    ///     }
    /// };
    /// core.inject(1, Placement::Injector).unwrap();
    /// worker.resume(token);
    /// assert!(matches!(worker.step(|task, _| assert_eq!(task, 1)), Step::Ran));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// When the token is another worker's.
    pub fn resume(&mut self, token: ParkToken) {
        assert!(
            token.worker == self.id && self.phase == Phase::Parked,
            "a worker is resumed with the token that it was parked with"
        );
        self.core.observer.event(self.id, Event::Unparked);
        match self.core.sleep.end_sleep(self.id) {
            // After the stop every worker is resumed, and leaves.
            Awake::Woken
                if !self.core.is_stopped()
                    && self.may_stand_by()
                    && (self.core.settings.is_pinned)()
                    && self.core.sleep.stand_by() =>
            {
                self.phase = Phase::Standby(0);
            }
            Awake::Woken => {
                self.begin_search();
                self.woken = true;
            }
            Awake::ByItself => {
                self.begin_search();
                self.phase = Phase::Active;
            }
        }
    }
}
