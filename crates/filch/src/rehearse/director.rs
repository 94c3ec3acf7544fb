//! The director: chooses the actor that runs, and records what the others wait for.

use super::{RehearsalFailure, failure::FailureKind};
use crate::{
    base::{
        Instant,
        rng::Rng,
        thread::{self as directed, Director, Point},
    },
    clock::PausedClock,
};
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, Thread, ThreadId},
    time::Duration,
};

/// The maximum real time between two points. Long enough for a task that computes on a busy
/// machine; an actor that takes longer most likely waits for something that is unknown to the
/// director.
const MAX_TIME_BETWEEN_POINTS: Duration = Duration::from_secs(20);

/// The interval at which `direct` checks for progress.
const PROGRESS_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// One in this number of switches wakes a sleeping actor spuriously, as `park` allows.
const SPURIOUS_WAKE_ONE_IN: usize = 64;

/// The duration of a point in nanoseconds, for code that adapts to measured times. The seed chooses
/// one, so the same work is light in one rehearsal and heavy in another.
const POINT_NANOS: [u64; 3] = [20, 500, 5_000];

/// The state of an actor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ActorStatus {
    /// Its thread has not reached its first point.
    Starting,
    /// It can run.
    Ready,
    /// It sleeps until it is unparked, or until the deadline.
    Parked(Option<Instant>),
    /// It waits for a condition that was false at this value of `DirectorState::events`, or until
    /// the deadline.
    Checking(u64, Option<Instant>),
    /// It waits until the thread has left the rehearsal.
    Joining(ThreadId),
    /// It advances the clock when no other actor can run.
    AdvancesClock,
    /// Its thread is no longer part of the rehearsal.
    Left,
}

struct ActorEntry {
    name: String,
    status: ActorStatus,
    /// Whether it was unparked since it last slept.
    token: bool,
    thread: Option<Thread>,
    /// Its priority, with [`SwitchStyle::Priorities`]: the highest runs.
    rank: u64,
}

/// How the next actor is chosen. The seed decides.
#[derive(Clone, Copy, Debug)]
enum SwitchStyle {
    /// At one in this number of points, a random actor.
    Random(usize),
    /// Always the actor of the highest rank that can run; at one in this number of points it gets
    /// the lowest rank. This delays single actors by long times (Burckhardt, Kothari, Musuvathi and
    /// Nagarakatte, *A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs*, 2010).
    Priorities(usize),
}

struct DirectorState {
    actors: Vec<ActorEntry>,
    /// The actor that runs; `None` before the start and after the end.
    running: Option<usize>,
    rng: Rng,
    style: SwitchStyle,
    points: u64,
    turns: u64,
    fingerprint: u64,
    /// Incremented by every action that may make the condition of a waiting actor true.
    events: u64,
    /// Advanced when no actor can run.
    clock: Option<PausedClock>,
    failure: Option<FailureKind>,
}

/// A rehearsal in progress; see the module `rehearse`.
pub(super) struct Rehearsing {
    pub(super) seed: u64,
    workers: usize,
    /// The number of threads of the pool, including dedicated workers.
    pub(super) threads: usize,
    max_points: u64,
    state: Mutex<DirectorState>,
    /// Notified when an actor has started, the last one has left, or the rehearsal has failed.
    state_changed: Condvar,
}

/// The statistics of a run.
pub(super) struct RunStatistics {
    pub(super) points: u64,
    pub(super) turns: u64,
    pub(super) fingerprint: u64,
}

impl DirectorState {
    fn can_run(&self, actor: usize) -> bool {
        let entry = &self.actors[actor];
        match entry.status {
            ActorStatus::Ready => true,
            ActorStatus::Parked(_) => entry.token,
            ActorStatus::Checking(since, _) => since < self.events,
            ActorStatus::Joining(thread) => self.has_left(thread),
            ActorStatus::Starting | ActorStatus::AdvancesClock | ActorStatus::Left => false,
        }
    }

    /// Whether the thread is not, or no longer, part of the rehearsal.
    fn has_left(&self, thread: ThreadId) -> bool {
        let of = |entry: &&ActorEntry| entry.thread.as_ref().is_some_and(|t| t.id() == thread);
        let entry = self.actors.iter().find(of);
        entry.is_none_or(|entry| entry.status == ActorStatus::Left)
    }

    /// Chooses the next actor; `except` is chosen only if no other actor can run.
    fn choose(&mut self, except: Option<usize>) -> Option<usize> {
        let mut able: Vec<usize> = (0..self.actors.len())
            .filter(|&actor| self.can_run(actor))
            .collect();
        if able.len() > 1 {
            able.retain(|&actor| Some(actor) != except);
        }
        if able.is_empty() {
            return self.let_time_pass();
        }
        match self.style {
            SwitchStyle::Random(_) => Some(able[self.rng.below(able.len())]),
            SwitchStyle::Priorities(_) => able.into_iter().max_by_key(|&a| self.actors[a].rank),
        }
    }

    /// Chooses, with a small probability, a sleeping actor for a spurious wake.
    fn choose_sleeper(&mut self) -> Option<usize> {
        if !self.rng.one_in(SPURIOUS_WAKE_ONE_IN) {
            return None;
        }
        let asleep = |entry: &ActorEntry| matches!(entry.status, ActorStatus::Parked(_));
        let sleepers: Vec<usize> = (0..self.actors.len())
            .filter(|&actor| asleep(&self.actors[actor]))
            .collect();
        sleepers.get(self.rng.below(sleepers.len())).copied()
    }

    /// Returns the actor that advances the clock, if a future waits for the clock or all others
    /// have left.
    fn choose_clock_actor(&self) -> Option<usize> {
        let is_clock_actor = |entry: &ActorEntry| entry.status == ActorStatus::AdvancesClock;
        let clock_actor = self.actors.iter().position(is_clock_actor)?;
        let awaited = self.clock.as_ref().is_some_and(|clock| clock.pending() > 0);
        (awaited || self.have_others_left(clock_actor)).then_some(clock_actor)
    }

    fn have_others_left(&self, actor: usize) -> bool {
        let mut others = self
            .actors
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != actor);
        others.all(|(_, entry)| entry.status == ActorStatus::Left)
    }

    /// Lets time pass when no actor can run: by the clock of the rehearsal if a future waits for
    /// it, otherwise by sleeping until the first deadline. Returns the next actor.
    fn let_time_pass(&mut self) -> Option<usize> {
        if let Some(clock_actor) = self.choose_clock_actor() {
            return Some(clock_actor);
        }
        let due = |entry: &ActorEntry| match entry.status {
            ActorStatus::Parked(until) | ActorStatus::Checking(_, until) => until,
            _ => None,
        };
        let all = self.actors.iter().enumerate();
        let first = all.filter_map(|(actor, entry)| Some((due(entry)?, actor)));
        let (until, actor) = first.min()?;
        thread::sleep(until.saturating_duration_since(Instant::now()));
        Some(actor)
    }

    /// Returns the actor that runs next, after `actor` has reached `point`.
    fn next_actor(&mut self, actor: usize, point: Point) -> usize {
        let due = match (self.style, point) {
            (_, Point::Yield) => true,
            (SwitchStyle::Random(one_in), Point::Event) => self.rng.one_in(one_in),
            (SwitchStyle::Random(one_in), Point::Spin) => self.rng.one_in(8 * one_in),
            (SwitchStyle::Priorities(one_in), Point::Event) => self.rng.one_in(one_in),
            // The actor that it waits for may have a low rank.
            (SwitchStyle::Priorities(_), Point::Spin) => self.rng.one_in(8),
        };
        if due {
            if let Some(sleeper) = self.choose_sleeper() {
                return sleeper;
            }
            self.demote(actor);
        } else if let SwitchStyle::Random(_) = self.style {
            return actor;
        }
        let except = (point == Point::Yield).then_some(actor);
        self.choose(except).unwrap_or(actor)
    }

    /// Gives `actor` the lowest rank.
    fn demote(&mut self, actor: usize) {
        let last = self
            .actors
            .iter()
            .map(|entry| entry.rank)
            .min()
            .unwrap_or(1);
        if last == 0 {
            self.actors
                .iter_mut()
                .for_each(|entry| entry.rank += 1 << 32);
        }
        self.actors[actor].rank = self.actors.iter().map(|s| s.rank).min().unwrap_or(1) - 1;
    }

    fn add(&mut self, name: String) -> usize {
        // Random ranks, far from zero so that `demote` has room below.
        let rank = (1 << 62) | self.rng.next_u64() >> 2;
        self.actors.push(ActorEntry {
            name,
            status: ActorStatus::Starting,
            token: false,
            thread: None,
            rank,
        });
        self.actors.len() - 1
    }

    /// Describes the state of every actor.
    fn description(&self) -> String {
        let mut lines = Vec::new();
        for (actor, entry) in self.actors.iter().enumerate() {
            let doing = match entry.status {
                ActorStatus::Starting => "has not started",
                ActorStatus::Ready if self.running == Some(actor) => "runs",
                ActorStatus::Ready => "can run",
                ActorStatus::Parked(None) => "sleeps",
                ActorStatus::Parked(Some(_)) => "sleeps for a time",
                ActorStatus::Checking(..) => "waits for something",
                ActorStatus::Joining(_) => "joins another thread",
                ActorStatus::AdvancesClock | ActorStatus::Left => continue,
            };
            lines.push(format!("{} {doing}", entry.name));
        }
        lines.join("; ")
    }
}

impl Rehearsing {
    pub(super) fn new(
        workers: usize,
        dedicated: usize,
        seed: u64,
        max_points: u64,
        clock: Option<PausedClock>,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let style = match rng.below(8) {
            0 | 1 => SwitchStyle::Random(2),
            2 => SwitchStyle::Random(4),
            3 => SwitchStyle::Random(16),
            4 => SwitchStyle::Random(64),
            5 => SwitchStyle::Priorities(16),
            6 => SwitchStyle::Priorities(64),
            _ => SwitchStyle::Priorities(256),
        };
        let mut state = DirectorState {
            actors: Vec::new(),
            running: None,
            rng,
            style,
            points: 0,
            turns: 0,
            fingerprint: seed,
            events: 1,
            clock,
            failure: None,
        };
        for worker in 0..workers {
            state.add(format!("worker {worker}"));
        }
        for worker in 0..dedicated {
            state.add(format!("worker {worker} for futures"));
        }
        Self {
            seed,
            workers,
            threads: workers + dedicated,
            max_points,
            state: Mutex::new(state),
            state_changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DirectorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the current thread `actor`. It runs undirected until its first point.
    pub(super) fn enter(self: &Arc<Self>, actor: usize) {
        self.lock().actors[actor].thread = Some(thread::current());
        directed::enter(self.clone(), actor);
    }

    /// Ends the participation of the current thread, which is `actor`.
    pub(super) fn leave(&self, actor: usize) {
        directed::leave();
        let mut state = self.lock();
        state.actors[actor].status = ActorStatus::Left;
        state.events += 1;
        if state
            .actors
            .iter()
            .all(|entry| entry.status == ActorStatus::Left)
        {
            state.running = None;
            drop(state);
            return self.state_changed.notify_all();
        }
        self.switch_from(state, None);
    }

    /// Adds an actor for a thread from outside, calls `start`, which starts the thread, and waits
    /// until the actor has reached its first point.
    pub(super) fn add<R>(&self, start: impl FnOnce(usize) -> R) -> R {
        let actor = {
            let mut state = self.lock();
            let name = format!("outside {}", state.actors.len() - self.threads);
            state.add(name)
        };
        let result = start(actor);
        self.wait_for_all_to_start();
        result
    }

    /// Advances the clock whenever no other actor can run, until all others have left. This is an
    /// actor of its own because wakers must be called by a thread that is not a worker, as by the
    /// timer's thread.
    pub(super) fn run_clock(&self, actor: usize, clock: &PausedClock) {
        loop {
            let mut state = self.lock();
            state.actors[actor].status = ActorStatus::AdvancesClock;
            self.switch_from(state, Some(actor));
            let mut state = self.lock();
            state.actors[actor].status = ActorStatus::Ready;
            state.events += 1;
            if state.have_others_left(actor) {
                return;
            }
            drop(state);
            clock.advance_to_next();
        }
    }

    /// Waits until all actors have reached their first point.
    pub(super) fn wait_for_all_to_start(&self) {
        let mut state = self.lock();
        let is_starting = |entry: &ActorEntry| entry.status == ActorStatus::Starting;
        while state.actors.iter().any(is_starting) {
            state = self
                .state_changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts the first actor, and waits until all have left.
    pub(super) fn direct(&self) -> Result<RunStatistics, RehearsalFailure> {
        self.switch_from(self.lock(), None);
        let (mut before, mut since) = (0, Instant::now());
        let mut state = self.lock();
        loop {
            if let Some(kind) = &state.failure {
                return Err(RehearsalFailure::new(self.workers, self.seed, kind.clone()));
            }
            if state.running.is_none() {
                return Ok(RunStatistics {
                    points: state.points,
                    turns: state.turns,
                    fingerprint: state.fingerprint,
                });
            }
            if state.points != before {
                (before, since) = (state.points, Instant::now());
            } else if since.elapsed() > MAX_TIME_BETWEEN_POINTS {
                let description = state.description();
                state.failure = Some(FailureKind::Stuck(description));
                continue;
            }
            let waited = self
                .state_changed
                .wait_timeout(state, PROGRESS_CHECK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the turn of `actor`.
    fn wait_for_turn(&self, actor: usize) {
        loop {
            {
                let state = self.lock();
                // After a failure no actor continues, because what it waits for may be gone.
                if state.failure.is_none() && state.running == Some(actor) {
                    return;
                }
            }
            thread::park();
        }
    }

    /// Switches from `from`, whose status is set, to the next actor, which may be `from`
    /// itself. Returns when it is the turn of `from` again.
    fn switch_from(&self, mut state: MutexGuard<'_, DirectorState>, from: Option<usize>) {
        let except = from.filter(|&actor| state.actors[actor].status != ActorStatus::Ready);
        let Some(next) = state.choose(except) else {
            let description = state.description();
            return self.fail(state, from, FailureKind::Deadlock(description));
        };
        self.switch_to(state, from, next);
    }

    fn switch_to(
        &self,
        mut state: MutexGuard<'_, DirectorState>,
        from: Option<usize>,
        next: usize,
    ) {
        if from != Some(next) {
            state.turns += 1;
            let mixed = state.fingerprint ^ (state.points << 8) ^ next as u64;
            state.fingerprint = Rng::new(mixed).next_u64();
            state.running = Some(next);
        }
        let thread = state.actors[next].thread.clone();
        drop(state);
        if from == Some(next) {
            return;
        }
        thread.expect("an actor that can run has a thread").unpark();
        if let Some(actor) = from {
            self.wait_for_turn(actor);
        }
    }

    /// Ends the run with a failure. An actor that calls this never returns.
    fn fail(
        &self,
        mut state: MutexGuard<'_, DirectorState>,
        actor: Option<usize>,
        kind: FailureKind,
    ) {
        state.failure.get_or_insert(kind);
        drop(state);
        self.state_changed.notify_all();
        if actor.is_some() {
            loop {
                thread::park();
            }
        }
    }
}

impl Director for Rehearsing {
    fn point(&self, actor: usize, point: Point) {
        let mut state = self.lock();
        if state.actors[actor].status == ActorStatus::Starting {
            state.actors[actor].status = ActorStatus::Ready;
            drop(state);
            self.state_changed.notify_all();
            return self.wait_for_turn(actor);
        }
        if state.failure.is_some() {
            drop(state);
            return self.wait_for_turn(actor);
        }
        state.points += 1;
        state.events += 1;
        if state.points > self.max_points {
            let description = state.description();
            return self.fail(state, Some(actor), FailureKind::Livelock(description));
        }
        let next = state.next_actor(actor, point);
        self.switch_to(state, Some(actor), next);
    }

    fn park(&self, actor: usize, deadline: Option<Instant>) {
        self.point(actor, Point::Event);
        let mut state = self.lock();
        if !std::mem::take(&mut state.actors[actor].token) {
            state.actors[actor].status = ActorStatus::Parked(deadline);
            self.switch_from(state, Some(actor));
            state = self.lock();
            state.actors[actor].token = false;
            state.actors[actor].status = ActorStatus::Ready;
        }
        state.events += 1;
    }

    fn unpark(&self, actor: usize) {
        let mut state = self.lock();
        state.actors[actor].token = true;
        state.events += 1;
    }

    fn wait_until(&self, actor: usize, deadline: Option<Instant>, ready: &dyn Fn() -> bool) {
        self.point(actor, Point::Event);
        loop {
            // Read before `ready`, so that every later action of another actor triggers a new
            // check.
            let events = self.lock().events;
            if ready() || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                break;
            }
            let mut state = self.lock();
            state.actors[actor].status = ActorStatus::Checking(events, deadline);
            self.switch_from(state, Some(actor));
            self.lock().actors[actor].status = ActorStatus::Ready;
        }
    }

    fn fail_undirected(&self, actor: usize, what: &str) {
        let state = self.lock();
        let kind = FailureKind::Stray(state.actors[actor].name.clone(), what.to_owned());
        self.fail(state, Some(actor), kind);
    }

    fn nanos(&self) -> u64 {
        self.lock().points * POINT_NANOS[self.seed as usize % POINT_NANOS.len()]
    }

    fn join(&self, actor: usize, other: ThreadId) {
        let mut state = self.lock();
        // Counts what this actor has done since its last point.
        state.events += 1;
        state.actors[actor].status = ActorStatus::Joining(other);
        self.switch_from(state, Some(actor));
        self.lock().actors[actor].status = ActorStatus::Ready;
    }
}
