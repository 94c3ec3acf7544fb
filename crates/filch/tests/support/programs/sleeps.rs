//! Random calls of everything that a sleep and a paused clock can do, against a list that is
//! searched from end to end.
//!
//! What is compared after every call: which wakers were woken, in which order and at what time; how
//! many wait, and for when.

use super::percent;
use filch::{
    Rng,
    time::{PausedClock, Sleep},
};
use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// Times are in milliseconds from the start of the clock.
type Time = u64;

/// How many calls a seed makes.
const CALLS: usize = 200;

/// How many sleeps there are at most; few, so that they meet.
const SLEEPS: usize = 12;

/// Who was woken when.
type Log = Mutex<Vec<(usize, Time)>>;

/// Waker number so and so.
struct Tells(usize, PausedClock, Arc<Log>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        let time = self.1.elapsed().as_millis() as Time;
        self.2.lock().unwrap().push((self.0, time));
    }
}

/// What a sleep should be.
struct Expected {
    /// `None`: never.
    at: Option<Time>,
    /// What waits at the clock: in the order of insertion, and the waiters.
    entry: Option<(u64, usize)>,
}

struct Model {
    now: Time,
    /// How many entries there have been.
    entries: u64,
    log: Vec<(usize, Time)>,
}

impl Model {
    fn insert(&mut self, sleep: &mut Expected, waker: usize) {
        self.entries += 1;
        sleep.entry = Some((self.entries, waker));
    }

    fn poll(&mut self, sleep: &mut Expected, waker: usize) -> bool {
        let Some(at) = sleep.at else { return false };
        if at <= self.now {
            sleep.entry = None;
            return true;
        }
        match &mut sleep.entry {
            Some((_, present)) => *present = waker,
            None => self.insert(sleep, waker),
        }
        false
    }

    fn reset(&mut self, sleep: &mut Expected, at: Option<Time>) {
        sleep.at = at;
        match (sleep.entry.take(), at) {
            (Some((_, waker)), Some(at)) if at <= self.now => self.log.push((waker, self.now)),
            (Some((_, waker)), Some(_)) => self.insert(sleep, waker),
            _ => {}
        }
    }

    fn advance<'a>(&mut self, sleeps: impl Iterator<Item = &'a mut Expected>, end: Time) {
        let due = sleeps.filter(|sleep| sleep.entry.is_some() && sleep.at <= Some(end));
        let mut due: Vec<_> = due
            .map(|sleep| {
                let (number, waker) = sleep.entry.take().expect("filtered");
                (sleep.at.expect("it has an entry"), number, waker)
            })
            .collect();
        due.sort_unstable();
        self.log
            .extend(due.iter().map(|(at, _, waker)| (*waker, *at)));
        self.now = end;
    }
}

/// The sleeps as they are, and as they should be.
struct Scene {
    rng: Rng,
    clock: PausedClock,
    log: Arc<Log>,
    sleeps: Vec<(Sleep, Expected)>,
    model: Model,
}

impl Scene {
    /// A time around now, or never.
    fn some_time(&mut self) -> Option<Time> {
        match percent(&mut self.rng, 5) {
            true => None,
            false => Some((self.model.now + self.rng.below(30) as Time).saturating_sub(5)),
        }
    }

    fn instant(&self, at: Time) -> std::time::Instant {
        self.clock.now() - self.clock.elapsed() + Duration::from_millis(at)
    }

    fn add(&mut self) {
        let at = self.some_time();
        let sleep = match at {
            None => self.clock.sleep(Duration::MAX),
            Some(at) if at >= self.model.now && percent(&mut self.rng, 50) => {
                self.clock.sleep(Duration::from_millis(at - self.model.now))
            }
            Some(at) => self.clock.sleep_until(self.instant(at)),
        };
        self.sleeps.push((sleep, Expected { at, entry: None }));
    }

    fn poll(&mut self, n: usize) -> Result<(), String> {
        let who = self.rng.below(4);
        let tells = Tells(who, self.clock.clone(), self.log.clone());
        let waker = Waker::from(Arc::new(tells));
        let (sleep, expected) = &mut self.sleeps[n];
        let ready = Pin::new(&mut *sleep).poll(&mut Context::from_waker(&waker)) == Poll::Ready(());
        match self.model.poll(expected, who) == ready {
            true => Ok(()),
            false => Err(format!("a poll of {sleep:?} said ready: {ready}")),
        }
    }

    fn reset(&mut self, n: usize) {
        let at = self.some_time();
        let instant = at.map(|at| self.instant(at));
        let (sleep, expected) = &mut self.sleeps[n];
        match instant {
            Some(instant) => sleep.reset(instant),
            None => sleep.reset_after(Duration::MAX),
        }
        self.model.reset(expected, at);
    }

    fn advance(&mut self) {
        let next = self.clock.next();
        let time = match next {
            Some(next) if percent(&mut self.rng, 30) => {
                assert!(self.clock.advance_to_next());
                next
            }
            _ => {
                let time = Duration::from_millis(self.rng.below(12) as Time);
                self.clock.advance(time);
                time
            }
        };
        let end = self.model.now + time.as_millis() as Time;
        let expected = self.sleeps.iter_mut().map(|(_, expected)| expected);
        self.model.advance(expected, end);
    }

    fn call(&mut self) -> Result<(), String> {
        let what = self.rng.below(100);
        if self.sleeps.is_empty() || what < 20 && self.sleeps.len() < SLEEPS {
            self.add();
            return Ok(());
        }
        let n = self.rng.below(self.sleeps.len());
        match what {
            0..60 => return self.poll(n),
            60..75 => self.reset(n),
            75..85 => drop(self.sleeps.swap_remove(n)),
            _ => self.advance(),
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), String> {
        let log = self.log.lock().unwrap();
        if *log != self.model.log {
            return Err(format!("woken: {log:?}, expected: {:?}", self.model.log));
        }
        let waiting = self.sleeps.iter().filter(|(_, e)| e.entry.is_some());
        let (pending, next) = (
            waiting.clone().count(),
            waiting
                .filter_map(|(_, e)| Some(e.at? - self.model.now))
                .min(),
        );
        let clock = (self.clock.pending(), self.clock.next());
        match clock == (pending, next.map(Duration::from_millis)) {
            true => Ok(()),
            false => Err(format!("{clock:?} wait, expected: {pending}, {next:?}")),
        }
    }
}

/// Everything that a seed does.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    let mut scene = Scene {
        rng: Rng::for_worker(seed, 0),
        clock: PausedClock::new(),
        log: Arc::default(),
        sleeps: Vec::new(),
        model: Model {
            now: 0,
            entries: 0,
            log: Vec::new(),
        },
    };
    for call in 0..CALLS {
        let checked = scene.call().and_then(|()| scene.compare());
        checked.map_err(|wrong| format!("call {call}: {wrong}"))?;
    }
    Ok(())
}
