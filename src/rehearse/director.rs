//! Who goes on, and who waits for what.

use super::{Failure, failure::Kind};
use crate::{
    base::{
        rng::Rng,
        thread::{self as directed, Director, Point},
    },
    clock::PausedClock,
};
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, Thread, ThreadId},
    time::{Duration, Instant},
};

/// How long an actor may go on in real time without coming to a point. Long enough for a task that computes on a busy
/// machine; after that it waits, most likely, for something that the director does not know.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often the seat looks whether something happens.
const LOOK: Duration = Duration::from_millis(500);

/// One in so many times somebody is woken for nothing: `park` may do that.
const SPURIOUS: usize = 64;

/// How many nanoseconds a point counts for, where somebody asks the clock what to do next; the seed chooses. What is
/// light work in one rehearsal is heavy in another.
const POINT_NANOS: [u64; 3] = [20, 500, 5_000];

/// Where an actor stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    /// Its thread has not come to its first point.
    Coming,
    /// It can go on.
    Ready,
    /// It sleeps until it is unparked, or until then.
    Parked(Option<Instant>),
    /// It waits for something that did not hold when so much had happened, or until then.
    Checking(u64, Option<Instant>),
    /// It waits until that thread has left.
    Joining(ThreadId),
    /// It moves the clock when nobody else can go on.
    KeepsTime,
    /// Its thread is none of ours any more.
    Left,
}

struct Slot {
    name: String,
    stand: Stand,
    /// It was unparked since it last slept.
    token: bool,
    thread: Option<Thread>,
    /// Whoever has the highest goes on, where there are favourites.
    rank: u64,
}

/// How the next one is chosen: the seed decides.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// One in so many points anybody.
    Anybody(usize),
    /// Always the one of the highest rank that can, but one in so many points it becomes the last of all: what happens when
    /// one is late by very much (Burckhardt, Kothari, Musuvathi and Nagarakatte, *A Randomized Scheduler with Probabilistic
    /// Guarantees of Finding Bugs*, 2010).
    Favourites(usize),
}

struct State {
    slots: Vec<Slot>,
    /// None before the beginning, and when it is over.
    running: Option<usize>,
    rng: Rng,
    style: Style,
    points: u64,
    turns: u64,
    fingerprint: u64,
    /// Grows with everything that may bring something about for which others wait.
    happened: u64,
    /// Moves when nobody can go on.
    clock: Option<PausedClock>,
    failure: Option<Kind>,
}

/// See the module `rehearse`.
pub(super) struct Rehearsing {
    pub(super) seed: u64,
    workers: usize,
    /// All threads of the pool.
    pub(super) threads: usize,
    most_points: u64,
    state: Mutex<State>,
    /// Somebody has come, the last one has left, or it has failed.
    seat: Condvar,
}

/// What a run was like.
pub(super) struct Course {
    pub(super) points: u64,
    pub(super) turns: u64,
    pub(super) fingerprint: u64,
}

impl State {
    fn can_go_on(&self, actor: usize) -> bool {
        let slot = &self.slots[actor];
        match slot.stand {
            Stand::Ready => true,
            Stand::Parked(_) => slot.token,
            Stand::Checking(since, _) => since < self.happened,
            Stand::Joining(thread) => self.has_left(thread),
            Stand::Coming | Stand::KeepsTime | Stand::Left => false,
        }
    }

    /// Whether the thread is none of ours, or not any more.
    fn has_left(&self, thread: ThreadId) -> bool {
        let of = |slot: &&Slot| slot.thread.as_ref().is_some_and(|t| t.id() == thread);
        let slot = self.slots.iter().find(of);
        slot.is_none_or(|slot| slot.stand == Stand::Left)
    }

    /// Chooses who goes on; `but` does not, unless nobody else can.
    fn choose(&mut self, but: Option<usize>) -> Option<usize> {
        let mut able: Vec<usize> = (0..self.slots.len())
            .filter(|&actor| self.can_go_on(actor))
            .collect();
        if able.len() > 1 {
            able.retain(|&actor| Some(actor) != but);
        }
        if able.is_empty() {
            return self.let_time_pass();
        }
        match self.style {
            Style::Anybody(_) => Some(able[self.rng.below(able.len())]),
            Style::Favourites(_) => able.into_iter().max_by_key(|&a| self.slots[a].rank),
        }
    }

    /// Somebody who sleeps, now and then.
    fn choose_sleeper(&mut self) -> Option<usize> {
        if !self.rng.one_in(SPURIOUS) {
            return None;
        }
        let asleep = |slot: &Slot| matches!(slot.stand, Stand::Parked(_));
        let sleepers: Vec<usize> = (0..self.slots.len())
            .filter(|&actor| asleep(&self.slots[actor]))
            .collect();
        sleepers.get(self.rng.below(sleepers.len())).copied()
    }

    /// Who keeps the time, if somebody waits for the clock, or there is nobody else.
    fn choose_keeper(&self) -> Option<usize> {
        let keeps = |slot: &Slot| slot.stand == Stand::KeepsTime;
        let keeper = self.slots.iter().position(keeps)?;
        let awaited = self.clock.as_ref().is_some_and(|clock| clock.pending() > 0);
        (awaited || self.have_others_left(keeper)).then_some(keeper)
    }

    fn have_others_left(&self, actor: usize) -> bool {
        let mut others = self.slots.iter().enumerate().filter(|(at, _)| *at != actor);
        others.all(|(_, slot)| slot.stand == Stand::Left)
    }

    /// Nobody can go on before some time has passed: by the clock of the rehearsal, if somebody waits for that; else sleeps
    /// until the first one is due.
    fn let_time_pass(&mut self) -> Option<usize> {
        if let Some(keeper) = self.choose_keeper() {
            return Some(keeper);
        }
        let due = |slot: &Slot| match slot.stand {
            Stand::Parked(until) | Stand::Checking(_, until) => until,
            _ => None,
        };
        let all = self.slots.iter().enumerate();
        let first = all.filter_map(|(actor, slot)| Some((due(slot)?, actor)));
        let (until, actor) = first.min()?;
        thread::sleep(until.saturating_duration_since(Instant::now()));
        Some(actor)
    }

    /// Who goes on when `actor` has come to a point.
    fn after(&mut self, actor: usize, how: Point) -> usize {
        let due = match (self.style, how) {
            (_, Point::Yield) => true,
            (Style::Anybody(one_in), Point::Event) => self.rng.one_in(one_in),
            (Style::Anybody(one_in), Point::Spin) => self.rng.one_in(8 * one_in),
            (Style::Favourites(one_in), Point::Event) => self.rng.one_in(one_in),
            // Whom it waits for may be far behind.
            (Style::Favourites(_), Point::Spin) => self.rng.one_in(8),
        };
        if due {
            if let Some(sleeper) = self.choose_sleeper() {
                return sleeper;
            }
            self.demote(actor);
        } else if let Style::Anybody(_) = self.style {
            return actor;
        }
        let but = (how == Point::Yield).then_some(actor);
        self.choose(but).unwrap_or(actor)
    }

    /// Everybody else comes first.
    fn demote(&mut self, actor: usize) {
        let last = self.slots.iter().map(|slot| slot.rank).min().unwrap_or(1);
        if last == 0 {
            self.slots.iter_mut().for_each(|slot| slot.rank += 1 << 32);
        }
        self.slots[actor].rank = self.slots.iter().map(|s| s.rank).min().unwrap_or(1) - 1;
    }

    fn add(&mut self, name: String) -> usize {
        // Ranks of their own: in the order of random numbers, far from zero.
        let rank = (1 << 62) | self.rng.next_u64() >> 2;
        self.slots.push(Slot {
            name,
            stand: Stand::Coming,
            token: false,
            thread: None,
            rank,
        });
        self.slots.len() - 1
    }

    /// What everybody is doing.
    fn scene(&self) -> String {
        let mut lines = Vec::new();
        for (actor, slot) in self.slots.iter().enumerate() {
            let doing = match slot.stand {
                Stand::Coming => "has not come",
                Stand::Ready if self.running == Some(actor) => "goes on",
                Stand::Ready => "can go on",
                Stand::Parked(None) => "sleeps",
                Stand::Parked(Some(_)) => "sleeps for a time",
                Stand::Checking(..) => "waits for something",
                Stand::Joining(_) => "waits for the end of another",
                Stand::KeepsTime | Stand::Left => continue,
            };
            lines.push(format!("{} {doing}", slot.name));
        }
        lines.join("; ")
    }
}

impl Rehearsing {
    pub(super) fn new(
        workers: usize,
        dedicated: usize,
        seed: u64,
        most_points: u64,
        clock: Option<PausedClock>,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let style = match rng.below(8) {
            0 | 1 => Style::Anybody(2),
            2 => Style::Anybody(4),
            3 => Style::Anybody(16),
            4 => Style::Anybody(64),
            5 => Style::Favourites(16),
            6 => Style::Favourites(64),
            _ => Style::Favourites(256),
        };
        let mut state = State {
            slots: Vec::new(),
            running: None,
            rng,
            style,
            points: 0,
            turns: 0,
            fingerprint: seed,
            happened: 1,
            clock,
            failure: None,
        };
        for worker in 0..workers {
            state.add(format!("worker {worker}"));
        }
        for worker in 0..dedicated {
            state.add(format!("worker {worker} of those for futures"));
        }
        Self {
            seed,
            workers,
            threads: workers + dedicated,
            most_points,
            state: Mutex::new(state),
            seat: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread is `actor` from now on. It goes on until its first point.
    pub(super) fn enter(self: &Arc<Self>, actor: usize) {
        self.lock().slots[actor].thread = Some(thread::current());
        directed::enter(self.clone(), actor);
    }

    /// This thread, which is `actor`, is on its own from now on.
    pub(super) fn leave(&self, actor: usize) {
        directed::leave();
        let mut state = self.lock();
        state.slots[actor].stand = Stand::Left;
        state.happened += 1;
        if state.slots.iter().all(|slot| slot.stand == Stand::Left) {
            state.running = None;
            drop(state);
            return self.seat.notify_all();
        }
        self.hand_over(state, None);
    }

    /// Makes room for a thread from outside, and calls `start`, which starts it and returns when it is on its way;
    /// then waits until it has come.
    pub(super) fn add<R>(&self, start: impl FnOnce(usize) -> R) -> R {
        let actor = {
            let mut state = self.lock();
            let name = format!("outside {}", state.slots.len() - self.threads);
            state.add(name)
        };
        let result = start(actor);
        self.until_all_have_come();
        result
    }

    /// `actor` moves the clock whenever nobody else can go on, until all others have left. It is an actor of its own because
    /// the wakers have to be called by somebody who is no worker, as the timer of a process is.
    pub(super) fn keep_time(&self, actor: usize, clock: &PausedClock) {
        loop {
            let mut state = self.lock();
            state.slots[actor].stand = Stand::KeepsTime;
            self.hand_over(state, Some(actor));
            let mut state = self.lock();
            state.slots[actor].stand = Stand::Ready;
            state.happened += 1;
            if state.have_others_left(actor) {
                return;
            }
            drop(state);
            clock.advance_to_next();
        }
    }

    /// Waits until everybody is at a point.
    pub(super) fn until_all_have_come(&self) {
        let mut state = self.lock();
        let coming = |slot: &Slot| slot.stand == Stand::Coming;
        while state.slots.iter().any(coming) {
            state = self
                .seat
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the first one go on, and waits until all have left.
    pub(super) fn direct(&self) -> Result<Course, Failure> {
        self.hand_over(self.lock(), None);
        let (mut before, mut since) = (0, Instant::now());
        let mut state = self.lock();
        loop {
            if let Some(kind) = &state.failure {
                return Err(Failure::new(self.workers, self.seed, kind.clone()));
            }
            if state.running.is_none() {
                return Ok(Course {
                    points: state.points,
                    turns: state.turns,
                    fingerprint: state.fingerprint,
                });
            }
            if state.points != before {
                (before, since) = (state.points, Instant::now());
            } else if since.elapsed() > PATIENCE {
                let scene = state.scene();
                state.failure = Some(Kind::Stuck(scene));
                continue;
            }
            let waited = self.seat.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the turn of `actor`.
    fn until_turn(&self, actor: usize) {
        loop {
            {
                let state = self.lock();
                // After a failure nobody goes on any more: what they wait for may be gone.
                if state.failure.is_none() && state.running == Some(actor) {
                    return;
                }
            }
            thread::park();
        }
    }

    /// `from`, which stands as its slot says, lets somebody go on, perhaps itself; returns when it is its turn again.
    fn hand_over(&self, mut state: MutexGuard<'_, State>, from: Option<usize>) {
        let but = from.filter(|&actor| state.slots[actor].stand != Stand::Ready);
        let Some(next) = state.choose(but) else {
            let scene = state.scene();
            return self.fail(state, from, Kind::Deadlock(scene));
        };
        self.pass_to(state, from, next);
    }

    fn pass_to(&self, mut state: MutexGuard<'_, State>, from: Option<usize>, next: usize) {
        if from != Some(next) {
            state.turns += 1;
            let mixed = state.fingerprint ^ (state.points << 8) ^ next as u64;
            state.fingerprint = Rng::new(mixed).next_u64();
            state.running = Some(next);
        }
        let thread = state.slots[next].thread.clone();
        drop(state);
        if from == Some(next) {
            return;
        }
        thread.expect("who can go on has a thread").unpark();
        if let Some(actor) = from {
            self.until_turn(actor);
        }
    }

    /// Ends the run: nobody goes on.
    fn fail(&self, mut state: MutexGuard<'_, State>, actor: Option<usize>, kind: Kind) {
        state.failure.get_or_insert(kind);
        drop(state);
        self.seat.notify_all();
        if actor.is_some() {
            loop {
                thread::park();
            }
        }
    }
}

impl Director for Rehearsing {
    fn point(&self, actor: usize, how: Point) {
        let mut state = self.lock();
        if state.slots[actor].stand == Stand::Coming {
            state.slots[actor].stand = Stand::Ready;
            drop(state);
            self.seat.notify_all();
            return self.until_turn(actor);
        }
        if state.failure.is_some() {
            drop(state);
            return self.until_turn(actor);
        }
        state.points += 1;
        state.happened += 1;
        if state.points > self.most_points {
            let scene = state.scene();
            return self.fail(state, Some(actor), Kind::Livelock(scene));
        }
        let next = state.after(actor, how);
        self.pass_to(state, Some(actor), next);
    }

    fn park(&self, actor: usize, deadline: Option<Instant>) {
        self.point(actor, Point::Event);
        let mut state = self.lock();
        if !std::mem::take(&mut state.slots[actor].token) {
            state.slots[actor].stand = Stand::Parked(deadline);
            self.hand_over(state, Some(actor));
            state = self.lock();
            state.slots[actor].token = false;
            state.slots[actor].stand = Stand::Ready;
        }
        state.happened += 1;
    }

    fn unpark(&self, actor: usize) {
        let mut state = self.lock();
        state.slots[actor].token = true;
        state.happened += 1;
    }

    fn wait_until(&self, actor: usize, deadline: Option<Instant>, ready: &dyn Fn() -> bool) {
        self.point(actor, Point::Event);
        loop {
            // What others do from here on is later than the look.
            let happened = self.lock().happened;
            if ready() || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                break;
            }
            let mut state = self.lock();
            state.slots[actor].stand = Stand::Checking(happened, deadline);
            self.hand_over(state, Some(actor));
            self.lock().slots[actor].stand = Stand::Ready;
        }
    }

    fn stray(&self, actor: usize, what: &str) {
        let state = self.lock();
        let kind = Kind::Stray(state.slots[actor].name.clone(), what.to_owned());
        self.fail(state, Some(actor), kind);
    }

    fn nanos(&self) -> u64 {
        self.lock().points * POINT_NANOS[self.seed as usize % POINT_NANOS.len()]
    }

    fn join(&self, actor: usize, other: ThreadId) {
        let mut state = self.lock();
        // What it has done since its last point.
        state.happened += 1;
        state.slots[actor].stand = Stand::Joining(other);
        self.hand_over(state, Some(actor));
        self.lock().slots[actor].stand = Stand::Ready;
    }
}
