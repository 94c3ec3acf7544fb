//! What the tests of the pool and of its faces share.
#![allow(dead_code, reason = "every test file uses some of it")]

use filch::{Pool, PoolBuilder};
use std::{
    any::Any,
    collections::HashSet,
    future::{Future, poll_fn},
    panic::{self, AssertUnwindSafe},
    pin::pin,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

/// The limit of every wait: a test that takes longer hangs. With ten busy threads for each core the
/// longest tests take more than 10 s.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A panic that the tests expect: quiet, so that the output shows only the unexpected ones.
pub(crate) fn quiet_panic(what: &'static str) -> ! {
    panic::resume_unwind(Box::new(what))
}

/// What a panic said.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &'static str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .unwrap_or("?")
}

/// Calls `f`, which must panic, and says with what.
#[track_caller]
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> &'static str {
    match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("it should have panicked"),
        Err(payload) => message(&*payload),
    }
}

/// Calls `f` on a thread of its own: a hang becomes a failure.
#[track_caller]
pub(crate) fn within<R: Send + 'static>(
    limit: Duration,
    f: impl FnOnce() -> R + Send + 'static,
) -> R {
    let (send, receive) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = send.send(panic::catch_unwind(AssertUnwindSafe(f)));
    });
    match receive.recv_timeout(limit) {
        Ok(Ok(result)) => {
            thread.join().unwrap();
            result
        }
        Ok(Err(payload)) => panic::resume_unwind(payload),
        Err(_) => panic!("not done after {limit:?}"),
    }
}

/// Waits until `condition` holds; not for ever.
#[track_caller]
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited in vain: {what}");
        match start.elapsed().as_millis() {
            0 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(100)),
        }
    }
}

/// Polls a future on this thread, whenever it is woken, until it is done.
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let start = Instant::now();
        thread::park_timeout(LIMIT);
        assert!(start.elapsed() < LIMIT, "the future was not woken");
    }
}

/// A number that tasks share.
pub(crate) fn counter() -> AtomicUsize {
    AtomicUsize::new(0)
}

pub(crate) fn add(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

pub(crate) fn get(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}

/// Counts calls, and how many run at the same time.
#[derive(Default)]
pub(crate) struct Gauge {
    running: AtomicUsize,
    pub(crate) most: AtomicUsize,
    pub(crate) ran: AtomicUsize,
}

impl Gauge {
    pub(crate) fn call(&self, f: impl FnOnce()) {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        f();
        self.running.fetch_sub(1, Ordering::SeqCst);
        add(&self.ran);
    }
}

/// A number, and a closure that adds to it.
pub(crate) fn counting() -> (Arc<AtomicUsize>, impl Fn() + Clone + Send + 'static) {
    let count = Arc::new(counter());
    let shared = count.clone();
    (count, move || add(&shared))
}

/// Something that happens once.
#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub(crate) fn wait(&self, what: &str) {
        until(what, || self.is_set());
    }
}

/// Counted signals, and the waker of the one future that waits for the next.
#[derive(Default)]
pub(crate) struct Signals(Mutex<(usize, Option<Waker>)>);

impl Signals {
    pub(crate) fn send(&self) {
        let waker = {
            let mut signals = self.0.lock().unwrap();
            signals.0 += 1;
            signals.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) async fn receive(&self) {
        poll_fn(|cx| {
            let mut signals = self.0.lock().unwrap();
            if signals.0 > 0 {
                signals.0 -= 1;
                return Poll::Ready(());
            }
            signals.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Whether a future waits for a signal.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.lock().unwrap().1.is_some()
    }
}

/// A pool of `workers` workers.
pub(crate) fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

/// A pool that hands no task off to another thread: it starts none itself.
pub(crate) fn pool_without_substitutes(workers: usize) -> Pool {
    let start = |worker: filch::PoolThread| {
        thread::spawn(move || worker.run());
        Ok(())
    };
    Pool::builder().workers(workers).build_on(start).unwrap()
}

/// The panics that `on_panic` of a pool reported.
#[derive(Clone, Default)]
pub(crate) struct Panics(Arc<Mutex<Vec<&'static str>>>);

impl Panics {
    /// Makes the pool of `builder` report its panics here.
    pub(crate) fn listen(&self, builder: PoolBuilder) -> PoolBuilder {
        let panics = self.0.clone();
        builder.on_panic(move |payload| panics.lock().unwrap().push(message(&**payload)))
    }

    pub(crate) fn pool(&self, workers: usize) -> Pool {
        self.listen(Pool::builder().workers(workers))
            .build()
            .unwrap()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Removes and returns the messages, sorted.
    pub(crate) fn take(&self) -> Vec<&'static str> {
        let mut panics = std::mem::take(&mut *self.0.lock().unwrap());
        panics.sort_unstable();
        panics
    }
}

/// The events of a driver, which are numbers, and the wakers of futures that wait for them.
#[derive(Default)]
pub(crate) struct EventSet {
    happened: HashSet<usize>,
    waiting: Vec<(usize, Waker)>,
}

impl EventSet {
    pub(crate) fn insert(&mut self, event: usize) {
        self.happened.insert(event);
    }

    pub(crate) fn poll(&mut self, event: usize, cx: &Context<'_>) -> Poll<()> {
        if self.happened.contains(&event) {
            return Poll::Ready(());
        }
        self.waiting.push((event, cx.waker().clone()));
        Poll::Pending
    }

    /// Whether a future waits for an event that has happened.
    pub(crate) fn has_ready(&self) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|(event, _)| self.happened.contains(event))
    }

    /// Moves the wakers of events that have happened to `ready`.
    pub(crate) fn take_ready(&mut self, ready: &mut Vec<Waker>) {
        let happened = &self.happened;
        let taken = self
            .waiting
            .extract_if(.., |(event, _)| happened.contains(event));
        ready.extend(taken.map(|(_, waker)| waker));
    }
}

/// Counts how often it was made and dropped.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

/// One value whose end is counted.
pub(crate) struct Counted {
    drops: Drops,
    /// Panics when it is dropped.
    pub(crate) bomb: Option<&'static str>,
}

impl Drops {
    pub(crate) fn value(&self) -> Counted {
        Counted {
            drops: self.clone(),
            bomb: None,
        }
    }

    pub(crate) fn bomb(&self, what: &'static str) -> Counted {
        Counted {
            drops: self.clone(),
            bomb: Some(what),
        }
    }

    pub(crate) fn seen(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.drops.0.fetch_add(1, Ordering::SeqCst);
        if let Some(what) = self.bomb {
            quiet_panic(what);
        }
    }
}

const CHILD: &str = "FILCH_TEST_CHILD";

/// Runs the test `name` of this very binary once more, in a process of its own, where `f` is
/// called: for tests whose failure would end the process, or that measure the process.
#[track_caller]
pub(crate) fn in_a_child(name: &str, f: impl FnOnce() + Send + 'static) {
    in_a_child_with(name, &[], f);
}

/// [`in_a_child`] that has these environment variables.
pub(crate) fn in_a_child_with(
    name: &str,
    variables: &[(&str, &str)],
    f: impl FnOnce() + Send + 'static,
) {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        return within(2 * LIMIT, f);
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "the process ended with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "there is no test {name}");
}
