//! Pools whose workers wait in a driver.

use crate::support::{EventSet, LIMIT, within};
use filch::{Driver, Pool, PoolBuilder};
use std::{
    collections::HashSet,
    future::poll_fn,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::Waker,
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

/// A driver whose events are numbers that are set from outside.
#[derive(Default)]
struct Events {
    state: Mutex<State>,
    changed: Condvar,
    /// Threads that are in `park` at present; and that were more than one at a time.
    inside: AtomicUsize,
    crowded: AtomicBool,
    threads: Mutex<HashSet<ThreadId>>,
}

#[derive(Default)]
struct State {
    notified: bool,
    events: EventSet,
}

impl Driver for Events {
    fn park(&self, timeout: Option<Duration>, ready: &mut Vec<Waker>) {
        // SeqCst: for a test.
        if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.crowded.store(true, Ordering::SeqCst);
        }
        self.threads.lock().unwrap().insert(thread::current().id());
        let timeout = timeout.unwrap_or(Duration::from_secs(3600));
        let state = self.state.lock().unwrap();
        let is_quiet = |state: &mut State| !state.notified && !state.events.has_ready();
        let waited = self.changed.wait_timeout_while(state, timeout, is_quiet);
        let mut state = waited.unwrap().0;
        state.notified = false;
        state.events.take_ready(ready);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn notify(&self) {
        self.state.lock().unwrap().notified = true;
        self.changed.notify_all();
    }
}

impl Events {
    fn set(&self, event: usize) {
        self.state.lock().unwrap().events.insert(event);
        self.changed.notify_all();
    }

    async fn wait(self: Arc<Self>, event: usize) {
        poll_fn(move |cx| self.state.lock().unwrap().events.poll(event, cx)).await;
    }
}

fn with_events(set: impl Fn(PoolBuilder) -> PoolBuilder) -> (Arc<Events>, Pool) {
    let events = Arc::new(Events::default());
    let pool = set(Pool::builder().driver(events.clone()));
    (events, pool.build().unwrap())
}

#[test]
fn an_event_wakes_its_future_on_the_worker_that_found_it() {
    for workers in [1, 2, 4] {
        let (events, pool) = with_events(|pool| pool.workers(workers).spin_rounds(0));
        for event in 0..200 {
            let waits = pool.spawn_future(events.clone().wait(event));
            if event % 3 == 0 {
                thread::sleep(Duration::from_micros(100));
            }
            events.set(event);
            waits.join().unwrap();
        }
        assert!(!events.crowded.load(Ordering::SeqCst));
        // No thread but the workers.
        assert!(events.threads.lock().unwrap().len() <= workers);
    }
}

#[test]
fn a_worker_in_the_driver_is_woken_for_tasks_and_for_the_end() {
    let (events, pool) = with_events(|pool| pool.workers(1).spin_rounds(0));
    for number in 0..200 {
        if number % 5 == 0 {
            thread::sleep(Duration::from_micros(200));
        }
        assert_eq!(pool.submit(move || number).join().unwrap(), number);
        assert_eq!(pool.on_worker(|| 1), 1);
    }
    drop(pool);
    assert!(events.threads.lock().unwrap().len() <= 1);
}

#[test]
fn a_worker_that_leaves_passes_the_driver_on() {
    within(LIMIT, || {
        let (events, pool) = with_events(|pool| pool.workers(3).spin_rounds(0));
        for event in 0..100 {
            let waits = pool.spawn_future(events.clone().wait(event));
            pool.resize(1 + event % 3).unwrap();
            if event % 4 == 0 {
                thread::sleep(Duration::from_micros(200));
            }
            events.set(event);
            waits.join().unwrap();
        }
        assert!(!events.crowded.load(Ordering::SeqCst));
    });
}

#[test]
fn busy_workers_poll_the_driver() {
    let (events, pool) = with_events(|pool| pool.workers(1));
    let waits = pool.spawn_future(events.clone().wait(1));
    let stop = Arc::new(AtomicBool::new(false));
    // The only worker always has a task of its own.
    fn again(stop: Arc<AtomicBool>) {
        thread::sleep(Duration::from_micros(20));
        if !stop.load(Ordering::SeqCst) {
            filch::spawn(move || again(stop));
        }
    }
    let until = stop.clone();
    pool.spawn(move || again(until));
    thread::sleep(Duration::from_millis(5));
    events.set(1);
    waits.join().unwrap();
    stop.store(true, Ordering::SeqCst);
}

#[test]
fn a_long_task_polls_the_driver_at_its_checkpoints() {
    let (events, pool) = with_events(|pool| pool.workers(1));
    let waits = pool.spawn_future(events.clone().wait(1));
    let (sender, receiver) = mpsc::channel();
    let polled = pool.spawn_future(async move {
        waits.await.unwrap();
        sender.send(()).unwrap();
    });
    let long = pool.submit(move || {
        events.set(1);
        let limit = Instant::now() + LIMIT;
        while receiver.try_recv().is_err() {
            assert!(Instant::now() < limit, "the event was not found");
            filch::checkpoint();
        }
    });
    long.join().unwrap();
    polled.join().unwrap();
}

#[test]
fn waits_in_the_middle_of_a_task_are_in_the_driver() {
    // A worker that blocks on a future, and a caller that works for a pool without threads.
    for workers in [1, 0] {
        let (events, pool) = with_events(|pool| pool.workers(workers));
        for event in 0..50 {
            let sets = events.clone();
            let setter = thread::spawn(move || {
                thread::sleep(Duration::from_micros(300));
                sets.set(event);
            });
            let waits = events.clone().wait(event);
            if workers == 0 {
                pool.block_on(waits);
            } else {
                pool.on_worker(|| filch::block_on(waits));
            }
            setter.join().unwrap();
        }
    }
}

#[test]
fn a_thread_that_blocks_in_the_driver_hears_of_what_happens_elsewhere() {
    let (events, pool) = with_events(|pool| pool.workers(1).spin_rounds(0));
    // Keeps a waker in the driver.
    let waits = pool.spawn_future(events.clone().wait(1));
    for number in 0..100 {
        let outcome = pool.on_worker(|| {
            let (sender, receiver) = async_channel::bounded(1);
            let sends = thread::spawn(move || {
                thread::sleep(Duration::from_micros(300));
                sender.send_blocking(number).unwrap();
            });
            let outcome = filch::block_on(receiver.recv()).unwrap();
            sends.join().unwrap();
            outcome
        });
        assert_eq!(outcome, number);
    }
    events.set(1);
    waits.join().unwrap();
}

#[test]
fn a_guest_that_leaves_the_driver_hands_it_over() {
    let (events, pool) = with_events(|pool| pool.workers(2).spin_rounds(0));
    for event in 0..100 {
        let waits = pool.spawn_future(events.clone().wait(event));
        // The guest may be in the driver when its wait ends.
        pool.install(|| filch::join(|| thread::sleep(Duration::from_micros(200)), || ()));
        events.set(event);
        waits.join().unwrap();
    }
}

#[test]
fn a_worker_that_is_kept_for_futures_waits_in_the_driver() {
    for dedicated in [1, 2] {
        let (events, pool) = with_events(|pool| pool.workers(1).future_workers(dedicated));
        let (sender, receiver) = mpsc::channel::<()>();
        // Takes the only other worker, and has no checkpoint.
        let long = pool.submit(move || receiver.recv());
        for event in 0..100 {
            let waits = pool.spawn_future(events.clone().wait(event));
            if event % 3 == 0 {
                thread::sleep(Duration::from_micros(200));
            }
            events.set(event);
            waits.join().unwrap();
        }
        // One that blocks there, and one that is woken from elsewhere meanwhile.
        let waits = events.clone().wait(1000);
        let blocks = pool.spawn_future(async move { filch::block_on(waits) });
        thread::sleep(Duration::from_millis(2));
        events.set(1000);
        blocks.join().unwrap();
        drop(sender);
        assert!(long.join().unwrap().is_err());
    }
}

/// A driver that has events whenever it is asked.
struct Flood;

impl Driver for Flood {
    fn park(&self, timeout: Option<Duration>, ready: &mut Vec<Waker>) {
        if timeout != Some(Duration::ZERO) {
            thread::sleep(Duration::from_micros(20));
        }
        ready.push(Waker::noop().clone());
    }

    fn notify(&self) {}
}

/// A wait in the driver ends although events keep coming: the task that it waits for needs another
/// task.
#[test]
fn a_flood_of_events_does_not_hold_up_a_wait() {
    within(LIMIT, || {
        let pool = Pool::builder().workers(2).driver(Flood).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let (started, has_started) = mpsc::channel();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                pool.on_worker(|| {
                    let brief = || thread::sleep(Duration::from_millis(3));
                    filch::join(brief, move || {
                        started.send(()).unwrap();
                        receiver.recv().unwrap()
                    })
                    .1
                })
            });
            has_started.recv().unwrap();
            pool.spawn(move || sender.send(7).unwrap());
            assert_eq!(waiter.join().unwrap(), 7);
        });
    });
}

/// A dedicated worker that waits in a future goes on to poll other futures.
#[test]
fn a_wait_on_a_dedicated_worker_polls_other_futures() {
    within(LIMIT, || {
        for _ in 0..4 {
            let (_, pool) = with_events(|pool| pool.workers(1).future_workers(1));
            let (sender, receiver) = mpsc::channel();
            let (started, has_started) = mpsc::channel();
            let waiter = pool.spawn_future(async move {
                let brief = || thread::sleep(Duration::from_millis(3));
                filch::join(brief, move || {
                    started.send(()).unwrap();
                    receiver.recv().unwrap()
                })
                .1
            });
            has_started.recv().unwrap();
            // The dedicated worker sleeps in its wait by now, if its job was stolen.
            thread::sleep(Duration::from_millis(30));
            pool.spawn_future(async move { sender.send(7).unwrap() })
                .detach();
            assert_eq!(waiter.join().unwrap(), 7);
        }
    });
}
