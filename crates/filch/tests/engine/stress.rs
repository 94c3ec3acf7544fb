//! Many threads, for a moment: the deque and the injector under real races, with tasks that know
//! when they are dropped twice.

use filch::engine::{Capacity, Deque, Injector, Steal, Take};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

/// A task that must be taken exactly once, and dropped exactly once.
struct Tracked {
    number: usize,
    log: Arc<Log>,
}

struct Log {
    taken: Vec<AtomicUsize>,
    dropped: Vec<AtomicUsize>,
}

impl Log {
    fn new(tasks: usize) -> Arc<Self> {
        let zeros = || (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self {
            taken: zeros(),
            dropped: zeros(),
        })
    }

    fn task(self: &Arc<Self>, number: usize) -> Tracked {
        Tracked {
            number,
            log: self.clone(),
        }
    }

    fn assert_each_once(&self, what: &str) {
        for (name, counts) in [("taken", &self.taken), ("dropped", &self.dropped)] {
            for (number, count) in counts.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                assert_eq!(count, 1, "{what}: task {number} was {name} {count} times");
            }
        }
    }
}

impl Tracked {
    fn take(self) {
        self.log.taken[self.number].fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.log.dropped[self.number].fetch_add(1, Ordering::Relaxed);
    }
}

const TASKS: usize = if cfg!(debug_assertions) {
    20_000
} else {
    200_000
};

/// An owner that pushes and pops in bursts, against thieves of both kinds.
fn owner_against_thieves(capacity: Capacity, thieves: usize, burst: usize) {
    let log = Log::new(TASKS);
    let deque = Arc::new(Deque::<Tracked>::new(capacity));
    let done = Arc::new(AtomicBool::new(false));
    let start = Arc::new(Barrier::new(thieves + 1));
    let threads: Vec<_> = (0..thieves)
        .map(|thief| {
            let (deque, done, start) = (deque.clone(), done.clone(), start.clone());
            thread::spawn(move || {
                let mine = Deque::new(Capacity::bounded(8));
                let mut mine = mine.owner().unwrap();
                start.wait();
                loop {
                    let last_look = done.load(Ordering::Acquire);
                    let got = if thief % 2 == 0 {
                        match deque.steal() {
                            Steal::Taken(task) => Steal::Taken((task, 0)),
                            Steal::Empty => Steal::Empty,
                            Steal::Retry => Steal::Retry,
                        }
                    } else {
                        deque.steal_batch(&mut mine, 8)
                    };
                    match got {
                        Steal::Taken((task, moved)) => {
                            task.take();
                            let batch = std::iter::from_fn(|| mine.pop());
                            assert_eq!(batch.map(Tracked::take).count(), moved);
                        }
                        Steal::Empty if last_look => break,
                        Steal::Empty | Steal::Retry => thread::yield_now(),
                    }
                }
            })
        })
        .collect();
    let mut owner = deque.owner().unwrap();
    start.wait();
    let mut next = 0;
    while next < TASKS {
        for _ in 0..burst.min(TASKS - next) {
            match owner.push(log.task(next)) {
                Ok(()) => next += 1,
                Err(task) => {
                    task.take(); // full: run it at once
                    next += 1;
                }
            }
        }
        for _ in 0..burst.div_ceil(2) {
            if let Some(task) = owner.pop() {
                task.take();
            }
        }
    }
    while let Some(task) = owner.pop() {
        task.take();
    }
    done.store(true, Ordering::Release);
    for thread in threads {
        thread.join().unwrap();
    }
    log.assert_each_once(&format!(
        "{capacity:?}, {thieves} thieves, bursts of {burst}"
    ));
}

#[test]
fn growable_deque_under_thieves() {
    for (thieves, burst) in [(1, 1), (1, 3), (2, 10), (3, 100)] {
        owner_against_thieves(Capacity::growable(2), thieves, burst);
    }
}

#[test]
fn bounded_deque_under_thieves() {
    for (thieves, burst) in [(1, 2), (2, 5), (3, 50)] {
        owner_against_thieves(Capacity::bounded(16), thieves, burst);
    }
}

#[test]
fn what_is_left_is_dropped_once() {
    let log = Log::new(1_000);
    let deque = Arc::new(Deque::new(Capacity::growable(4)));
    let mut owner = deque.owner().unwrap();
    (0..1_000).for_each(|n| assert!(owner.push(log.task(n)).is_ok()));
    let thief = {
        let deque = deque.clone();
        thread::spawn(move || {
            for _ in 0..300 {
                drop(deque.steal());
            }
        })
    };
    for _ in 0..300 {
        drop(owner.pop());
    }
    thief.join().unwrap();
    drop(owner);
    drop(deque);
    assert!(
        log.dropped
            .iter()
            .all(|count| count.load(Ordering::Relaxed) == 1)
    );
}

#[test]
fn injector_under_producers_and_consumers() {
    const PRODUCERS: usize = 3;
    let log = Log::new(TASKS);
    let injector = Arc::new(Injector::bounded(64));
    let taken = Arc::new(AtomicUsize::new(0));
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (injector, log) = (injector.clone(), log.clone());
            thread::spawn(move || {
                let mut numbers = (0..TASKS).filter(|n| n % PRODUCERS == producer).peekable();
                while numbers.peek().is_some() {
                    let mut batch: Vec<_> = numbers.by_ref().take(7).map(|n| log.task(n)).collect();
                    while let Err(refused) = injector.push_batch(batch) {
                        batch = refused; // all or nothing: it comes back whole
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let consumers: Vec<_> = (0..2)
        .map(|_| {
            let (injector, taken) = (injector.clone(), taken.clone());
            thread::spawn(move || {
                let mut room = Vec::new();
                while taken.load(Ordering::Relaxed) < TASKS {
                    match injector.try_take(5, |task| {
                        // Refuses now and then: the task must stay in its place.
                        if room.len() == 3 {
                            return Err(task);
                        }
                        room.push(task);
                        Ok(())
                    }) {
                        Take::Taken(first, moved) => {
                            assert_eq!(room.len(), moved);
                            taken.fetch_add(moved + 1, Ordering::Relaxed);
                            first.take();
                            room.drain(..).for_each(Tracked::take);
                        }
                        Take::Empty | Take::Busy => thread::yield_now(),
                    }
                }
            })
        })
        .collect();
    for thread in producers.into_iter().chain(consumers) {
        thread.join().unwrap();
    }
    log.assert_each_once("injector");
}

#[test]
fn one_producer_is_served_in_order() {
    let injector = Arc::new(Injector::unbounded());
    let producer = {
        let injector = injector.clone();
        thread::spawn(move || (0..TASKS).for_each(|n| injector.push(n).unwrap()))
    };
    let mut next = 0;
    while next < TASKS {
        let mut batch = Vec::new();
        match injector.try_take(64, |task| {
            batch.push(task);
            Ok(())
        }) {
            Take::Taken(first, _) => {
                for task in std::iter::once(first).chain(batch.into_iter().rev()) {
                    assert_eq!(task, next);
                    next += 1;
                }
            }
            Take::Empty | Take::Busy => thread::yield_now(),
        }
    }
    producer.join().unwrap();
}

#[test]
fn each_of_several_producers_is_served_in_order() {
    const PRODUCERS: usize = 4;
    let injector = Arc::new(Injector::unbounded());
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let injector = injector.clone();
            thread::spawn(move || {
                (0..TASKS).for_each(|n| injector.push((producer, n)).unwrap());
            })
        })
        .collect();
    let mut next = [0; PRODUCERS];
    while next != [TASKS; PRODUCERS] {
        let mut batch = Vec::new();
        match injector.try_take(64, |task| {
            batch.push(task);
            Ok(())
        }) {
            Take::Taken(first, _) => {
                for (producer, n) in std::iter::once(first).chain(batch.into_iter().rev()) {
                    assert_eq!(n, next[producer], "producer {producer}");
                    next[producer] += 1;
                }
            }
            Take::Empty | Take::Busy => thread::yield_now(),
        }
    }
    producers
        .into_iter()
        .for_each(|producer| producer.join().unwrap());
    assert!(injector.is_empty());
}

#[test]
fn what_is_left_in_the_injector_is_dropped_once() {
    const PRODUCERS: usize = 4;
    let log = Log::new(TASKS);
    let injector = Arc::new(Injector::unbounded());
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (injector, log) = (injector.clone(), log.clone());
            thread::spawn(move || {
                let own = (0..TASKS).filter(|n| n % PRODUCERS == producer);
                own.for_each(|n| assert!(injector.push(log.task(n)).is_ok()));
            })
        })
        .collect();
    let consumers: Vec<_> = (0..2)
        .map(|consumer| {
            let injector = injector.clone();
            thread::spawn(move || {
                for _ in 0..TASKS / 64 {
                    drop(injector.try_take(8, |task| match consumer {
                        0 => Err(task), // keeps its place
                        _ => {
                            drop(task);
                            Ok(())
                        }
                    }));
                    if consumer == 1 {
                        drop(injector.take());
                    }
                }
                drop(injector.drain());
            })
        })
        .collect();
    for thread in producers.into_iter().chain(consumers) {
        thread.join().unwrap();
    }
    drop(injector);
    assert!(
        log.dropped
            .iter()
            .all(|count| count.load(Ordering::Relaxed) == 1)
    );
}
