//! Random steps, on a semaphore and on a simple model of it.

use super::Polled;
use filch::{
    AcquireError, Permit, Semaphore,
    sync::{Acquire, AcquireAll},
};
use proptest::prelude::*;
use std::{collections::HashMap, future::Future, time::Duration};

/// Units by the number of their part.
type Ask = Vec<(usize, u64)>;

/// The number of semaphores in the random tests with several.
const PARTS: usize = 3;

/// What the random tests do with one semaphore and with several.
trait Limited {
    type Permit;
    type Future: Future<Output = Result<Self::Permit, AcquireError>> + Unpin;

    fn make(units: &[u64]) -> Self;
    fn try_acquire(&self, ask: &Ask) -> Result<Self::Permit, AcquireError>;
    fn acquire_at_once(&self, ask: &Ask) -> Result<Self::Permit, AcquireError>;
    fn acquire_async(&self, ask: &Ask) -> Self::Future;
    fn add(&self, part: usize, units: u64);
    fn close(&self, part: usize);
    /// The free units of each part, all units of each part, and how many wait for each part.
    fn numbers(&self) -> (Vec<u64>, Vec<u64>, Vec<usize>);
    fn split(permit: &mut Self::Permit, ask: &Ask) -> Option<Self::Permit>;
    fn merge(permit: &mut Self::Permit, other: Self::Permit);
    fn forget(permit: Self::Permit);
}

/// The sum: there is one part only.
fn sum(ask: &Ask) -> u64 {
    ask.iter().map(|&(_, n)| n).sum()
}

impl Limited for Semaphore {
    type Permit = Permit<'static>;
    type Future = Acquire<'static>;

    fn make(units: &[u64]) -> Self {
        Self::new(units[0])
    }

    fn try_acquire(&self, ask: &Ask) -> Result<Self::Permit, AcquireError> {
        self.try_acquire_many(sum(ask)).map(Permit::into_owned)
    }

    fn acquire_at_once(&self, ask: &Ask) -> Result<Self::Permit, AcquireError> {
        let permit = self.acquire_many_timeout(sum(ask), Duration::ZERO);
        permit.map(Permit::into_owned)
    }

    fn acquire_async(&self, ask: &Ask) -> Self::Future {
        self.acquire_many_async(sum(ask)).into_owned()
    }

    fn add(&self, _: usize, units: u64) {
        self.add(units);
    }

    fn close(&self, _: usize) {
        self.close();
    }

    fn numbers(&self) -> (Vec<u64>, Vec<u64>, Vec<usize>) {
        let (free, all) = (self.available(), self.capacity());
        (vec![free], vec![all], vec![self.waiting()])
    }

    fn split(permit: &mut Self::Permit, ask: &Ask) -> Option<Self::Permit> {
        permit.split(sum(ask))
    }

    fn merge(permit: &mut Self::Permit, other: Self::Permit) {
        permit.merge(other).unwrap();
    }

    fn forget(permit: Self::Permit) {
        permit.forget();
    }
}

/// How many units of `part` are wanted.
fn of(ask: &Ask, part: usize) -> u64 {
    let found = ask.iter().find(|&&(other, _)| other == part);
    found.map_or(0, |&(_, n)| n)
}

/// Several semaphores. A request names all of them, so it gets a permit for each.
struct Several(Vec<Semaphore>);

impl Several {
    fn wanted(&self, ask: &Ask) -> impl Iterator<Item = (&Semaphore, u64)> {
        let all = self.0.iter().enumerate();
        all.map(|(part, semaphore)| (semaphore, of(ask, part)))
    }
}

fn owned(permits: Vec<Permit<'_>>) -> Vec<Permit<'static>> {
    permits.into_iter().map(Permit::into_owned).collect()
}

impl Limited for Several {
    type Permit = Vec<Permit<'static>>;
    type Future = AcquireAll<'static>;

    fn make(units: &[u64]) -> Self {
        Self(units.iter().map(|&units| Semaphore::new(units)).collect())
    }

    fn try_acquire(&self, ask: &Ask) -> Result<Self::Permit, AcquireError> {
        Semaphore::try_acquire_all(self.wanted(ask)).map(owned)
    }

    fn acquire_at_once(&self, ask: &Ask) -> Result<Self::Permit, AcquireError> {
        Semaphore::acquire_all_timeout(self.wanted(ask), Duration::ZERO).map(owned)
    }

    fn acquire_async(&self, ask: &Ask) -> Self::Future {
        Semaphore::acquire_all_async(self.wanted(ask)).into_owned()
    }

    fn add(&self, part: usize, units: u64) {
        self.0[part].add(units);
    }

    fn close(&self, part: usize) {
        self.0[part].close();
    }

    fn numbers(&self) -> (Vec<u64>, Vec<u64>, Vec<usize>) {
        let all = || self.0.iter();
        (
            all().map(Semaphore::available).collect(),
            all().map(Semaphore::capacity).collect(),
            all().map(Semaphore::waiting).collect(),
        )
    }

    fn split(permits: &mut Self::Permit, ask: &Ask) -> Option<Self::Permit> {
        let mut parts = permits.iter_mut().enumerate();
        if parts.any(|(part, permit)| permit.units() < of(ask, part)) {
            return None;
        }
        let parts = permits.iter_mut().enumerate();
        parts
            .map(|(part, permit)| permit.split(of(ask, part)))
            .collect()
    }

    fn merge(permits: &mut Self::Permit, others: Self::Permit) {
        for (permit, other) in permits.iter_mut().zip(others) {
            permit.merge(other).unwrap();
        }
    }

    fn forget(permits: Self::Permit) {
        permits.into_iter().for_each(Permit::forget);
    }
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Granted,
    Full,
    Timeout,
    TooLarge,
    Closed,
}

impl End {
    fn of<P>(result: &Result<P, AcquireError>) -> Self {
        match result {
            Ok(_) => Self::Granted,
            Err(error) if error.is_full() => Self::Full,
            Err(error) if error.is_timeout() => Self::Timeout,
            Err(error) if error.is_too_large() => Self::TooLarge,
            Err(error) if error.is_closed() => Self::Closed,
            Err(error) => panic!("{error}"),
        }
    }
}

/// What semaphores should do, as simply as possible.
struct Model {
    free: Vec<u64>,
    all: Vec<u64>,
    closed: Vec<bool>,
    queue: Vec<(usize, Ask)>,
    /// What the queued requests got.
    ended: HashMap<usize, End>,
}

impl Model {
    /// Takes every request that fits and that wants nothing which one before it waits for.
    fn serve(&mut self) {
        let mut waited_for = Vec::new();
        for (id, ask) in std::mem::take(&mut self.queue) {
            let too_large = ask.iter().any(|&(part, n)| n > self.all[part]);
            let fits = |&(part, n): &(usize, u64)| {
                n == 0 || n <= self.free[part] && !waited_for.contains(&part)
            };
            let closed = ask.iter().any(|&(part, n)| n > 0 && self.closed[part]);
            if closed || too_large {
                let end = if closed { End::Closed } else { End::TooLarge };
                self.ended.insert(id, end);
            } else if ask.iter().all(fits) {
                ask.iter().for_each(|&(part, n)| self.free[part] -= n);
                self.ended.insert(id, End::Granted);
            } else {
                waited_for.extend(ask.iter().filter(|(_, n)| *n > 0).map(|&(part, _)| part));
                self.queue.push((id, ask));
            }
        }
    }

    /// A new request; `None` when it waits.
    fn ask(&mut self, id: usize, ask: &Ask) -> Option<End> {
        if self.closed.contains(&true) {
            self.ended.insert(id, End::Closed);
            return Some(End::Closed);
        }
        self.queue.push((id, ask.clone()));
        self.serve();
        self.ended.get(&id).copied()
    }

    fn leave(&mut self, id: usize) {
        self.queue.retain(|&(other, _)| other != id);
        self.serve();
    }

    fn give(&mut self, ask: &Ask) {
        ask.iter().for_each(|&(part, n)| self.free[part] += n);
        self.serve();
    }
}

/// One step. The numbers choose among what there is at that moment.
#[derive(Clone, Debug)]
enum Step {
    Try(Ask),
    AtOnce(Ask),
    Start(Ask),
    Poll(usize),
    Cancel(usize),
    Release(usize),
    Split(usize, Ask),
    Merge(usize, usize),
    Forget(usize),
    Add(usize, u64),
    Close(usize),
}

/// Requests for one of `parts` parts or for several; no part twice, so that the model can stay
/// simple.
fn asks(parts: usize) -> impl Strategy<Value = Ask> {
    prop::collection::vec(prop::option::of(0..5_u64), parts).prop_map(|units| {
        let named = units.into_iter().enumerate();
        named.filter_map(|(part, n)| Some((part, n?))).collect()
    })
}

fn steps(parts: usize) -> impl Strategy<Value = Vec<Step>> {
    let at = 0..8_usize;
    let step = prop_oneof![
        6 => asks(parts).prop_map(Step::Try),
        3 => asks(parts).prop_map(Step::AtOnce),
        9 => asks(parts).prop_map(Step::Start),
        6 => at.clone().prop_map(Step::Poll),
        4 => at.clone().prop_map(Step::Cancel),
        9 => at.clone().prop_map(Step::Release),
        3 => (at.clone(), asks(parts)).prop_map(|(at, ask)| Step::Split(at, ask)),
        2 => (at.clone(), at.clone()).prop_map(|(at, other)| Step::Merge(at, other)),
        1 => at.prop_map(Step::Forget),
        1 => (0..parts, 0..3_u64).prop_map(|(part, units)| Step::Add(part, units)),
        1 => prop_oneof![9 => Just(Step::Add(0, 0)), 1 => (0..parts).prop_map(Step::Close)],
    ];
    prop::collection::vec(step, 1..60)
}

/// The semaphore and its model side by side.
struct Twins<L: Limited> {
    limit: L,
    model: Model,
    next: usize,
    requests: Vec<(usize, Ask, Polled<L::Future>)>,
    permits: Vec<(Ask, L::Permit)>,
}

/// Chooses among `values`.
fn pick<T>(values: &mut Vec<T>, at: usize) -> Option<T> {
    (!values.is_empty()).then(|| values.remove(at % values.len()))
}

/// Adds `more` to `ask`.
fn add_up(ask: &mut Ask, more: Ask) {
    for (part, n) in more {
        match ask.iter_mut().find(|(other, _)| *other == part) {
            Some((_, sum)) => *sum += n,
            None => ask.push((part, n)),
        }
    }
}

impl<L: Limited> Twins<L> {
    fn new(units: &[u64]) -> Self {
        let model = Model {
            free: units.to_vec(),
            all: units.to_vec(),
            closed: vec![false; units.len()],
            queue: Vec::new(),
            ended: HashMap::new(),
        };
        Self {
            limit: L::make(units),
            model,
            next: 0,
            requests: Vec::new(),
            permits: Vec::new(),
        }
    }

    /// A request that does not wait; `instead` is what it says when it would have to.
    fn at_once(&mut self, ask: Ask, result: Result<L::Permit, AcquireError>, instead: End) {
        let id = self.next;
        self.next += 1;
        let expected = self.model.ask(id, &ask).unwrap_or(instead);
        self.model.leave(id);
        assert_eq!(End::of(&result), expected, "{ask:?}");
        self.permits.extend(result.ok().map(|permit| (ask, permit)));
    }

    fn start(&mut self, ask: Ask) {
        let id = self.next;
        self.next += 1;
        let mut request = Polled::new(self.limit.acquire_async(&ask));
        let result = request.poll();
        assert_eq!(result.as_ref().map(End::of), self.model.ask(id, &ask));
        match result {
            None => self.requests.push((id, ask, request)),
            Some(result) => self.permits.extend(result.ok().map(|permit| (ask, permit))),
        }
    }

    fn poll(&mut self, at: usize) {
        let Some((id, ask, mut request)) = pick(&mut self.requests, at) else {
            return;
        };
        let result = request.poll();
        let expected = self.model.ended.get(&id).copied();
        assert_eq!(result.as_ref().map(End::of), expected);
        match result {
            None => self.requests.push((id, ask, request)),
            Some(result) => self.permits.extend(result.ok().map(|permit| (ask, permit))),
        }
    }

    fn cancel(&mut self, at: usize) {
        if let Some((id, ask, request)) = pick(&mut self.requests, at) {
            drop(request);
            if self.model.ended.get(&id) == Some(&End::Granted) {
                self.model.give(&ask);
            }
            self.model.leave(id);
        }
    }

    fn split(&mut self, at: usize, apart: Ask) {
        let Some((mut ask, mut permit)) = pick(&mut self.permits, at) else {
            return;
        };
        let enough = apart.iter().all(|&(part, n)| n <= of(&ask, part));
        let split = L::split(&mut permit, &apart);
        assert_eq!(split.is_some(), enough);
        if let Some(split) = split {
            for &(part, n) in apart.iter().filter(|(_, n)| *n > 0) {
                ask.iter_mut().find(|(other, _)| *other == part).unwrap().1 -= n;
            }
            self.permits.push((apart, split));
        }
        self.permits.push((ask, permit));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Try(ask) => {
                let result = self.limit.try_acquire(&ask);
                self.at_once(ask, result, End::Full);
            }
            Step::AtOnce(ask) => {
                let result = self.limit.acquire_at_once(&ask);
                self.at_once(ask, result, End::Timeout);
            }
            Step::Start(ask) => self.start(ask),
            Step::Poll(at) => self.poll(at),
            Step::Cancel(at) => self.cancel(at),
            Step::Release(at) => {
                if let Some((ask, permit)) = pick(&mut self.permits, at) {
                    drop(permit);
                    self.model.give(&ask);
                }
            }
            Step::Split(at, ask) => self.split(at, ask),
            Step::Merge(at, other) => {
                if self.permits.len() < 2 {
                    return;
                }
                let one = pick(&mut self.permits, at);
                let other = pick(&mut self.permits, other);
                if let (Some((mut ask, mut permit)), Some((more, other))) = (one, other) {
                    L::merge(&mut permit, other);
                    add_up(&mut ask, more);
                    self.permits.push((ask, permit));
                }
            }
            Step::Forget(at) => {
                if let Some((ask, permit)) = pick(&mut self.permits, at) {
                    L::forget(permit);
                    ask.iter().for_each(|&(part, n)| self.model.all[part] -= n);
                    self.model.serve();
                }
            }
            Step::Add(part, units) => {
                self.limit.add(part, units);
                self.model.all[part] += units;
                self.model.give(&vec![(part, units)]);
            }
            Step::Close(part) => {
                self.limit.close(part);
                self.model.closed[part] = true;
                self.model.serve();
            }
        }
    }

    fn compare(&self) {
        let Model {
            free, all, queue, ..
        } = &self.model;
        let waits_for = |part| queue.iter().filter(|(_, ask)| of(ask, part) > 0).count();
        let waiting = (0..free.len()).map(waits_for).collect();
        let expected = (free.clone(), all.clone(), waiting);
        assert_eq!(self.limit.numbers(), expected);
        for (id, _, request) in &self.requests {
            let ended = self.model.ended.contains_key(id);
            assert_eq!(request.wakes.calls(), usize::from(ended), "of request {id}");
        }
    }

    fn run(units: &[u64], steps: Vec<Step>) {
        let mut twins = Self::new(units);
        for step in steps {
            twins.step(step);
            twins.compare();
        }
        twins.requests.clear();
        twins.permits.clear();
        let (free, all, waiting) = twins.limit.numbers();
        assert_eq!((free, waiting), (all, vec![0; twins.model.free.len()]));
    }
}

proptest! {
    #[test]
    fn one_semaphore_does_as_its_model(units in 0..6_u64, steps in steps(1)) {
        Twins::<Semaphore>::run(&[units], steps);
    }

    #[test]
    fn several_semaphores_do_as_their_model(
        units in prop::collection::vec(1..6_u64, PARTS),
        steps in steps(PARTS),
    ) {
        Twins::<Several>::run(&units, steps);
    }
}
