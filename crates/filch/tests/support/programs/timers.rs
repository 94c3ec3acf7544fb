//! Random programs of sleeps, timeouts, intervals, races and cancellations on a pool without
//! threads, in virtual time.
//!
//! The oracle never asks a clock or a queue: it adds up durations. It says for every mark of the
//! program whether it is reached, and when, to the millisecond.

use super::percent;
use filch::{
    Pool, Rng,
    time::{self, Clock, MissedTicks, PausedClock},
};
use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

/// Times are in milliseconds from the start of the clock.
type Time = u64;

/// The end of what never ends.
const NEVER: Time = Time::MAX;

/// How late a tick may be without being missed.
const TOLERANCE: Time = 5;

/// What a task does, one after the other.
type Program = Vec<Step>;

#[derive(Clone, Debug)]
struct Step {
    /// What is noted when it is done, with the time.
    mark: u32,
    op: Op,
}

#[derive(Clone, Debug)]
enum Op {
    Sleep(Time),
    /// A time that may have passed.
    Until(Time),
    /// Polled once and dropped.
    Leave(Time),
    /// Polled once, then moved.
    Reset(Time, Time),
    Timeout(Time, Program),
    /// The first one to end wins; the other one is dropped.
    Race(Program, Program),
    Both(Program, Program),
    Spawn(Program),
    Ticks {
        period: Time,
        missed: MissedTicks,
        /// What is done after each tick takes so long.
        work: Vec<Time>,
    },
}

/// What is known of a mark: when it was reached; and of a tick, for when it was meant.
type Marks = BTreeMap<(u32, usize), (Time, Time)>;

fn ms(time: Time) -> Duration {
    match time {
        NEVER => Duration::MAX,
        time => Duration::from_millis(time),
    }
}

/// Makes programs.
struct Author {
    rng: Rng,
    marks: u32,
}

impl Author {
    fn time(&mut self) -> Time {
        match self.rng.below(100) {
            0..10 => 0,
            10..12 => NEVER,
            12..20 => 1_000_000 + self.rng.below(5) as Time,
            _ => self.rng.below(25) as Time,
        }
    }

    fn program(&mut self, depth: usize) -> Program {
        let steps = 1 + self.rng.below(4);
        (0..steps).map(|_| self.step(depth)).collect()
    }

    fn step(&mut self, depth: usize) -> Step {
        self.marks += 1;
        let mark = self.marks;
        let simple = depth == 0 || percent(&mut self.rng, 40);
        let op = match self.rng.below(if simple { 5 } else { 9 }) {
            0 => Op::Sleep(self.time()),
            1 => Op::Until(self.rng.below(60) as Time),
            2 => Op::Leave(self.time()),
            3 => Op::Reset(self.time(), self.time()),
            4 => self.ticks(),
            5 => Op::Timeout(self.time(), self.program(depth - 1)),
            6 => Op::Race(self.program(depth - 1), self.program(depth - 1)),
            7 => Op::Both(self.program(depth - 1), self.program(depth - 1)),
            _ => Op::Spawn(self.program(depth - 1)),
        };
        Step { mark, op }
    }

    fn ticks(&mut self) -> Op {
        let ticks = 1 + self.rng.below(6);
        let kinds = [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip];
        Op::Ticks {
            period: 1 + self.rng.below(10) as Time,
            missed: kinds[self.rng.below(3)],
            work: (0..ticks).map(|_| self.rng.below(25) as Time).collect(),
        }
    }
}

/// What a task in the pool can reach.
#[derive(Clone)]
struct Stage {
    pool: Pool,
    clock: PausedClock,
    marks: Arc<Mutex<Marks>>,
    wrong: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    fn now(&self) -> Time {
        self.clock.elapsed().as_millis() as Time
    }

    fn note(&self, mark: u32, tick: usize, meant: Time) {
        let twice = self
            .marks
            .lock()
            .unwrap()
            .insert((mark, tick), (self.now(), meant));
        if twice.is_some() {
            self.wrong(format!("mark {mark}, {tick} was reached twice"));
        }
    }

    fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    fn spawn(&self, program: Program) {
        let stage = self.clone();
        let task = async move { stage.run(&program).await };
        self.pool.spawn_future(task).detach();
    }

    fn run<'a>(&'a self, program: &'a Program) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            for Step { mark, op } in program {
                self.perform(*mark, op).await;
                self.note(*mark, 0, 0);
            }
        })
    }

    async fn perform(&self, mark: u32, op: &Op) {
        match op {
            Op::Sleep(time) => time::sleep(ms(*time)).await,
            Op::Until(at) => {
                let start = self.clock.now() - self.clock.elapsed();
                time::sleep_until(start + ms(*at)).await;
            }
            Op::Leave(time) => {
                let mut sleep = time::sleep(ms(*time));
                poll_once(&mut sleep).await;
            }
            Op::Reset(first, then) => {
                let mut sleep = time::sleep(ms(*first));
                poll_once(&mut sleep).await;
                sleep.reset_after(ms(*then));
                sleep.await;
            }
            Op::Timeout(time, program) => {
                let (start, end) = (self.now(), end(program, self.now()));
                let outcome = time::timeout(ms(*time), self.run(program)).await;
                let in_time = end != NEVER && end <= start.saturating_add(*time);
                if outcome.is_ok() != in_time {
                    self.wrong(format!("the timeout of {mark} was {outcome:?}"));
                }
            }
            Op::Race(a, b) => {
                let (mut a, mut b) = (pin!(self.run(a)), pin!(self.run(b)));
                poll_fn(|cx| match a.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(()),
                    Poll::Pending => b.as_mut().poll(cx),
                })
                .await;
            }
            Op::Both(a, b) => both(self.run(a), self.run(b)).await,
            Op::Spawn(program) => self.spawn(program.clone()),
            Op::Ticks {
                period,
                missed,
                work,
            } => {
                let start = Clock::current().now();
                let begun = self.now();
                let mut interval = time::interval(ms(*period)).missed_ticks(*missed);
                for (tick, work) in work.iter().enumerate() {
                    let meant = interval.tick().await - start;
                    self.note(mark, 1 + tick, begun + meant.as_millis() as Time);
                    time::sleep(ms(*work)).await;
                }
            }
        }
    }
}

async fn poll_once(future: &mut (impl Future<Output = ()> + Unpin)) {
    poll_fn(|cx| {
        let _ = Pin::new(&mut *future).poll(cx);
        Poll::Ready(())
    })
    .await;
}

async fn both(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_done, mut b_done) = (false, false);
    poll_fn(|cx| {
        a_done = a_done || a.as_mut().poll(cx).is_ready();
        b_done = b_done || b.as_mut().poll(cx).is_ready();
        match a_done && b_done {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

/// Until when things happen: those of this very time do if it is inclusive. Later is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cut {
    time: Time,
    inclusive: bool,
}

const NO_CUT: Cut = Cut {
    time: NEVER,
    inclusive: false,
};

impl Cut {
    fn admits(self, time: Time) -> bool {
        time < self.time || time == self.time && self.inclusive && time != NEVER
    }
}

/// When a program that begins at `start` ends, if nothing ends it before.
fn end(program: &Program, start: Time) -> Time {
    walk(program, start, NO_CUT, &mut Marks::new())
}

/// Notes what a program reaches that begins at `now` and is dropped at `cut`; says when it ends.
fn walk(program: &Program, mut now: Time, cut: Cut, marks: &mut Marks) -> Time {
    for Step { mark, op } in program {
        if !cut.admits(now) {
            return now;
        }
        now = walk_op(*mark, op, now, cut, marks);
        if cut.admits(now) {
            marks.insert((*mark, 0), (now, 0));
        }
    }
    now
}

fn walk_op(mark: u32, op: &Op, now: Time, cut: Cut, marks: &mut Marks) -> Time {
    match op {
        Op::Sleep(time) | Op::Reset(_, time) => now.saturating_add(*time),
        Op::Until(at) => now.max(*at),
        Op::Leave(_) => now,
        Op::Timeout(time, program) => {
            // What is inside is polled first, also when the time is up.
            let late = Cut {
                time: now.saturating_add(*time),
                inclusive: true,
            };
            walk(program, now, cut.min(late), marks);
            end(program, now).min(late.time)
        }
        Op::Race(a, b) => {
            let (a_ends, b_ends) = (end(a, now), end(b, now));
            let over = a_ends.min(b_ends);
            // The first is polled first: it sees the end of the second one; the second one not that
            // of the first.
            let cut_at = |inclusive| Cut {
                time: over,
                inclusive,
            };
            walk(a, now, cut.min(cut_at(true)), marks);
            walk(b, now, cut.min(cut_at(b_ends < a_ends)), marks);
            over
        }
        Op::Both(a, b) => walk(a, now, cut, marks).max(walk(b, now, cut, marks)),
        Op::Spawn(program) => {
            // It lives on its own.
            walk(program, now, NO_CUT, marks);
            now
        }
        Op::Ticks {
            period,
            missed,
            work,
        } => {
            let (mut now, mut due) = (now, now);
            for (tick, work) in work.iter().enumerate() {
                now = now.max(due);
                if cut.admits(now) {
                    marks.insert((mark, 1 + tick), (now, due));
                }
                due = match missed {
                    _ if now - due <= TOLERANCE => due + period,
                    MissedTicks::Burst => due + period,
                    MissedTicks::Delay => now + period,
                    MissedTicks::Skip => (due..)
                        .step_by(*period as usize)
                        .find(|at| *at > now)
                        .unwrap(),
                };
                now += work;
            }
            now
        }
    }
}

/// How time goes on.
#[derive(Clone, Copy, Debug)]
enum Drive {
    Jumps,
    Ticks,
    Producer,
    /// By itself.
    Auto,
}

/// Lets everything happen that ever happens.
fn drive(stage: &Stage, how: Drive, rng: &mut Rng) {
    let Stage { pool, clock, .. } = stage;
    match how {
        Drive::Jumps => loop {
            pool.run_until_stalled();
            if !clock.advance_to_next() {
                break;
            }
        },
        Drive::Ticks => loop {
            while pool.tick() {}
            if !clock.advance_to_next() {
                break;
            }
        },
        Drive::Producer => {
            pool.run_until_stalled();
            while clock.pending() > 0 {
                let time = 1 + rng.below(500_000) as Time;
                clock.run_for(ms(time), || {
                    pool.run_until_stalled();
                });
            }
        }
        // Longer than any program, but for those that never end.
        Drive::Auto => pool.block_on(clock.sleep(ms(1 << 40))),
    }
}

/// One program of this seed, run and compared.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    let mut author = Author {
        rng: Rng::for_worker(seed, 1),
        marks: 0,
    };
    let programs: Vec<Program> = (0..4).map(|_| author.program(4)).collect();
    let drives = [Drive::Jumps, Drive::Ticks, Drive::Producer, Drive::Auto];
    let how = drives[author.rng.below(drives.len())];
    let clock = match how {
        Drive::Auto => PausedClock::auto(),
        _ => PausedClock::new(),
    };
    let built = Pool::builder().workers(0).clock(&clock).build();
    let stage = Stage {
        pool: built.map_err(|error| error.to_string())?,
        clock,
        marks: Arc::default(),
        wrong: Arc::default(),
    };
    for program in &programs {
        stage.spawn(program.clone());
    }
    drive(&stage, how, &mut author.rng);
    let mut expected = Marks::new();
    for program in &programs {
        walk(program, 0, NO_CUT, &mut expected);
    }
    let reached = stage.marks.lock().unwrap().clone();
    for (mark, at) in &expected {
        if reached.get(mark) != Some(at) {
            let got = reached.get(mark);
            return Err(format!(
                "{mark:?} at {at:?} expected, got {got:?}: {programs:?}"
            ));
        }
    }
    if let Some(mark) = reached.keys().find(|mark| !expected.contains_key(mark)) {
        return Err(format!("{mark:?} was reached after the end: {programs:?}"));
    }
    if let Some(wrong) = stage.wrong.lock().unwrap().first() {
        return Err(wrong.clone());
    }
    match stage.clock.pending() {
        0 => Ok(()),
        left => Err(format!("{left} entries are left at the clock")),
    }
}
