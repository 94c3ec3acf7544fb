//! Random programs on pools with a driver: futures that wait for its events, tasks that block on
//! them, and tasks from outside that wake a worker in the driver. All end, and no two threads are
//! in the driver at the same time.

use super::percent;
use crate::support::EventSet;
use filch::{
    Driver, Pool, Rng,
    rehearse::{self, Rehearsal, spawn_outside},
};
use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Duration,
};

/// A driver whose events are numbers that are set from outside.
#[derive(Default)]
struct Events {
    state: Mutex<State>,
    inside: AtomicBool,
}

#[derive(Default)]
struct State {
    notified: bool,
    events: EventSet,
    crowded: bool,
}

impl Events {
    fn has_news(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.notified || state.events.has_ready()
    }

    fn set(&self, event: usize) {
        self.state.lock().unwrap().events.insert(event);
    }

    async fn wait(self: Arc<Self>, event: usize) {
        poll_fn(move |cx| self.state.lock().unwrap().events.poll(event, cx)).await;
    }
}

impl Driver for Events {
    fn park(&self, timeout: Option<Duration>, ready: &mut Vec<Waker>) {
        // SeqCst: for a test.
        let crowded = self.inside.swap(true, Ordering::SeqCst);
        rehearse::point();
        if timeout != Some(Duration::ZERO) {
            rehearse::wait_until(|| self.has_news());
        }
        let mut state = self.state.lock().unwrap();
        state.crowded |= crowded;
        state.notified = false;
        state.events.take_ready(ready);
        self.inside.store(false, Ordering::SeqCst);
    }

    fn notify(&self) {
        rehearse::point();
        self.state.lock().unwrap().notified = true;
    }
}

/// Runs the program of `seed`.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    let mut rng = Rng::for_worker(seed, 3);
    let workers = rng.below(4);
    let dedicated = if workers > 0 && percent(&mut rng, 20) {
        1 + rng.below(2)
    } else {
        0
    };
    let events = Arc::new(Events::default());
    let driver = events.clone();
    let rehearsal = Rehearsal::new(workers, seed)
        .pool(move |pool| pool.driver(driver).future_workers(dedicated));
    let watched = events.clone();
    let outcome = rehearsal.try_run(move |pool| run(pool, &events, rng));
    outcome.map_err(|failure| failure.to_string())?;
    if watched.state.lock().unwrap().crowded {
        return Err(format!("two threads were in the driver, with seed {seed}"));
    }
    Ok(())
}

fn run(pool: &Pool, events: &Arc<Events>, mut rng: Rng) {
    let count = 1 + rng.below(4);
    let sets = events.clone();
    let setter = spawn_outside(move || {
        for event in 0..count {
            rehearse::point();
            sets.set(event);
        }
    });
    let mut futures = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..1 + rng.below(4) {
        let waits = events.clone().wait(rng.below(count));
        match rng.below(4) {
            0 | 1 => futures.push(pool.spawn_future(waits)),
            2 => tasks.push(pool.submit(move || filch::block_on(waits))),
            _ => tasks.push(pool.submit(rehearse::point)),
        }
    }
    if percent(&mut rng, 30) {
        pool.install(|| filch::join(rehearse::point, rehearse::point));
    }
    tasks.into_iter().for_each(|task| task.join().unwrap());
    futures
        .into_iter()
        .for_each(|future| future.join().unwrap());
    setter.join();
}
