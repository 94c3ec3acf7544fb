use super::{
    Alarm, NextCheck, Timer, TimerError, TimerHandle,
    serve::{GRACE, THREADS},
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    task::{Wake, Waker},
    thread,
    time::{Duration, Instant},
};

/// A test that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A separate timer for a test. Its thread stays, as that of the process does.
fn timer() -> &'static Timer {
    Box::leak(Box::new(Timer::new()))
}

/// A time that has not come when the next lines have run: Miri's clock runs with its instructions.
fn soon() -> Instant {
    let millis = if cfg!(miri) { 2000 } else { 20 };
    Instant::now() + Duration::from_millis(millis)
}

fn never() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// A callback that sends `what`.
fn send<T: Send + 'static>(to: &Sender<T>, what: T) -> impl FnOnce() + Send + 'static {
    let to = to.clone();
    move || to.send(what).unwrap()
}

/// Keeps the thread of the timer busy until the result is dropped; no other thread takes over.
fn busy(timer: &'static Timer) -> Sender<()> {
    // The start of the thread resets the service, so it comes first.
    timer.ensure_thread().unwrap();
    timer.lock().service.prevent_start();
    stuck(timer)
}

/// A callback that does not return until the result is dropped.
fn stuck(timer: &'static Timer) -> Sender<()> {
    let (to, from) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let callback = move || {
        ready.send(()).unwrap();
        let _ = from.recv_timeout(LIMIT);
    };
    timer.at(Instant::now(), callback).unwrap().detach();
    receive(&is_ready);
    to
}

#[track_caller]
fn receive<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(LIMIT).expect("it comes")
}

fn pending(timer: &Timer) -> usize {
    timer.lock().queue.len()
}

impl Timer {
    /// [`Timer::at`] with another way to start the thread.
    fn at_with(
        &'static self,
        at: Instant,
        callback: Box<dyn FnOnce() + Send>,
        start: impl FnOnce(&'static Self) -> io::Result<()>,
    ) -> Result<TimerHandle, TimerError> {
        let key = self.insert_with(at, Alarm::Call(callback), start)?;
        Ok(TimerHandle {
            timer: self,
            key: Some(key),
        })
    }

    /// Simulates the state of a child process after a fork: the thread runs in another process.
    pub(crate) fn lose_thread(&self) {
        self.lock().process = Some(u64::MAX);
    }

    pub(crate) fn has_thread(&self) -> bool {
        self.lock().has_thread()
    }
}

impl TimerHandle {
    pub(crate) fn is_pending(&self) -> bool {
        let queue = &self.timer.lock().queue;
        self.key.is_some_and(|key| queue.has(key))
    }

    /// Returns a function that reports, also after the handle was dropped, whether the entry is
    /// still queued.
    pub(crate) fn witness(&self) -> impl Fn() -> bool + use<> {
        let (timer, key) = (self.timer, self.key);
        move || key.is_some_and(|key| timer.lock().queue.has(key))
    }
}

#[test]
fn callbacks_run_in_order_and_not_early() {
    let (to, from) = mpsc::channel();
    let (timer, base) = (timer(), soon());
    let busy = busy(timer);
    let times = [30, 10, 20, 10, 0, 10];
    let handles: Vec<_> = (0..times.len())
        .map(|n| {
            let at = base + Duration::from_millis(times[n]);
            let to = to.clone();
            let callback = move || to.send((n, Instant::now() >= at)).unwrap();
            timer.at(at, callback).unwrap()
        })
        .collect();
    drop(busy);
    let came: Vec<_> = times.iter().map(|_| receive(&from)).collect();
    assert_eq!(came, [4, 1, 3, 5, 2, 0].map(|n| (n, true)));
    assert!(handles.iter().all(|handle| !handle.is_pending()));
}

#[test]
fn late_callbacks_run_in_order_though_the_timer_was_never_used_before() {
    let (to, from) = mpsc::channel();
    let now = Instant::now();
    let ago = |millis| now - Duration::from_millis(millis);
    let (timer, times) = (timer(), [ago(10), ago(30), ago(20)]);
    let busy = busy(timer);
    for (n, at) in times.into_iter().enumerate() {
        timer.at(at, send(&to, n)).unwrap().detach();
    }
    drop(busy);
    assert_eq!([1, 2, 0], times.map(|_| receive(&from)));
}

#[test]
fn an_earlier_entry_wakes_the_thread() {
    let (to, from) = mpsc::channel();
    let timer = timer();
    let late = timer.at(never(), send(&to, "late")).unwrap();
    // The thread sleeps for an hour by now, or has not checked the queue yet: both must work.
    thread::sleep(Duration::from_millis(5));
    for _ in 0..50 {
        let past = timer.at(Instant::now(), send(&to, "now")).unwrap();
        assert_eq!(receive(&from), "now");
        assert!(!past.cancel(), "it has run");
    }
    assert!(late.cancel());
    assert_eq!(pending(timer), 0);
}

#[test]
fn cancelled_and_dropped_entries_do_not_run_and_detached_ones_do() {
    let (to, from) = mpsc::channel();
    let (timer, at) = (timer(), soon());
    let busy = busy(timer);
    let cancelled = timer.at(at, send(&to, "cancelled")).unwrap();
    drop(timer.at(at, send(&to, "dropped")).unwrap());
    timer.at(at, send(&to, "detached")).unwrap().detach();
    assert!(cancelled.cancel());
    assert_eq!(pending(timer), 1, "only the detached one is left");
    drop(busy);
    assert_eq!(receive(&from), "detached");
    // The callbacks have been dropped, and their senders with them.
    drop(to);
    assert!(from.recv_timeout(LIMIT).is_err());
}

#[test]
fn a_removed_entry_drops_its_callback_outside_of_the_lock() {
    struct Uses(&'static Timer, Sender<usize>);
    impl Drop for Uses {
        fn drop(&mut self) {
            self.1.send(pending(self.0)).unwrap(); // needs the lock
            std::panic::resume_unwind(Box::new("a drop that panics"));
        }
    }
    let (to, from) = mpsc::channel();
    let timer = timer();
    let uses = Uses(timer, to);
    let handle = timer.at(never(), move || drop(uses)).unwrap();
    assert!(handle.cancel(), "the panic goes no further");
    assert_eq!(from.try_recv(), Ok(0));
}

#[test]
fn a_panic_ends_only_its_callback() {
    let (to, from) = mpsc::channel();
    let (timer, at) = (timer(), soon());
    let before = timer.at(at, send(&to, 1)).unwrap();
    let panics = timer
        .at(at, || std::panic::resume_unwind(Box::new("in a callback")))
        .unwrap();
    let after = timer.at(at, send(&to, 2)).unwrap();
    assert_eq!([receive(&from), receive(&from)], [1, 2]);
    drop((before, panics, after));
    timer.at(at, send(&to, 3)).unwrap().detach();
    assert_eq!(receive(&from), 3, "the thread lives");
}

#[test]
fn a_callback_may_use_the_timer() {
    let (to, from) = mpsc::channel();
    let timer = timer();
    let (handle_to, handle_from) = mpsc::channel::<TimerHandle>();
    let own = timer.at(soon(), move || {
        // Itself, and a new one that is due at once.
        let own = handle_from.recv().unwrap();
        assert!(!own.cancel());
        timer.at(Instant::now(), send(&to, ())).unwrap().detach();
    });
    handle_to.send(own.unwrap()).unwrap();
    receive(&from);
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error_and_tried_again() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let timer = timer();
    let drops = Arc::new(AtomicUsize::new(0));
    let counted = Counted(drops.clone());
    let refused = timer.at_with(never(), Box::new(move || drop(counted)), |_| {
        Err(io::ErrorKind::WouldBlock.into())
    });
    let error = refused.unwrap_err();
    assert!(error.to_string().contains("thread of the timer"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!((pending(timer), drops.load(Ordering::SeqCst)), (0, 1));
    let (to, from) = mpsc::channel();
    timer.at(soon(), send(&to, ())).unwrap().detach();
    receive(&from);
}

#[test]
fn the_thread_is_started_once_and_again_after_a_fork() {
    let timer = timer();
    let starts = Arc::new(AtomicUsize::new(0));
    let insert = |callback| {
        let handle = timer.at_with(soon(), callback, |timer| {
            starts.fetch_add(1, Ordering::SeqCst);
            timer.start()
        });
        handle.unwrap().detach();
    };
    let (to, from) = mpsc::channel();
    (0..3).for_each(|n| insert(Box::new(send(&to, n))));
    (0..3).for_each(|n| assert_eq!(receive(&from), n));
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    timer.lose_thread();
    insert(Box::new(send(&to, 3)));
    assert_eq!(receive(&from), 3);
    assert_eq!(starts.load(Ordering::SeqCst), 2);
}

#[test]
fn an_inherited_entry_is_served_without_a_new_one() {
    let (to, from) = mpsc::channel();
    let timer = timer();
    // Into a queue that no thread serves yet.
    let no_thread = |_| Ok(());
    let entry = timer.at_with(soon(), Box::new(send(&to, ())), no_thread);
    entry.unwrap().detach();
    timer.lose_thread();
    timer.ensure_thread().unwrap();
    assert!(timer.has_thread());
    receive(&from);
}

#[test]
fn inserting_and_removing_far_entries_does_not_wake_the_thread() {
    let (timer, far) = (timer(), never());
    let first = timer.at(far, || ()).unwrap();
    // No thread observes it awake after it went to sleep, since it keeps the lock until then.
    let asleep = || matches!(timer.lock().next_check, NextCheck::Until(at) if at == far);
    let start = Instant::now();
    while !asleep() {
        assert!(start.elapsed() < LIMIT, "it does not go to sleep");
        thread::yield_now();
    }
    for n in 0..if cfg!(miri) { 20 } else { 1000 } {
        let handle = timer.at(far + Duration::from_secs(n), || ()).unwrap();
        assert!(
            asleep(),
            "it was woken for an entry that does not come earlier"
        );
        assert!(handle.cancel());
    }
    assert!(first.cancel());
    assert!(asleep(), "it was woken for an entry that left");
    assert_eq!(pending(timer), 0);
}

/// A waker that sends its number.
struct SendsNumber(Sender<usize>, usize);

impl Wake for SendsNumber {
    fn wake(self: Arc<Self>) {
        self.0.send(self.1).unwrap();
    }
}

fn sends_number(to: &Sender<usize>, what: usize) -> Waker {
    Arc::new(SendsNumber(to.clone(), what)).into()
}

#[test]
fn a_waker_is_woken_once_and_may_be_exchanged_before() {
    let (to, from) = mpsc::channel();
    let (timer, at) = (timer(), soon());
    let busy = busy(timer);
    let (first, second) = (sends_number(&to, 1), sends_number(&to, 2));
    let key = timer.wake_at(at, first.clone()).unwrap();
    assert!(timer.renew(key, &first), "it is the same one");
    assert!(timer.renew(key, &second));
    let removed = timer.wake_at(at, first.clone()).unwrap();
    assert!(timer.remove(removed).is_some() && timer.remove(removed).is_none());
    assert!(!timer.renew(removed, &first), "it has gone");
    drop(busy);
    assert_eq!(receive(&from), 2);
    assert!(!timer.renew(key, &first), "its time has come");
    drop((to, first, second));
    assert!(
        from.recv_timeout(LIMIT).is_err(),
        "no other waker was woken"
    );
}

#[test]
fn a_waker_is_exchanged_outside_of_the_lock() {
    struct Uses(&'static Timer);
    impl Wake for Uses {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Uses {
        fn drop(&mut self) {
            assert_eq!(pending(self.0), 1); // needs the lock
            std::panic::resume_unwind(Box::new("a drop that panics"));
        }
    }
    let timer = timer();
    let key = timer.wake_at(never(), Arc::new(Uses(timer)).into());
    let key = key.unwrap();
    assert!(timer.renew(key, Waker::noop()), "the panic goes no further");
    assert!(timer.remove(key).is_some());
}

#[test]
fn blocking_callbacks_do_not_delay_others_for_long() {
    let timer = timer();
    let (to, from) = mpsc::channel();
    // One fewer than there may be threads: the last one serves.
    let mut blocked: Vec<_> = (1..THREADS).map(|_| stuck(timer)).collect();
    for n in 0..3 {
        timer.at(soon(), send(&to, n)).unwrap().detach();
        assert_eq!(receive(&from), n);
    }
    assert_eq!(timer.lock().service.threads(), THREADS);
    // All threads: then the entry is served when the first one returns.
    blocked.push(stuck(timer));
    timer.at(soon(), send(&to, 9)).unwrap().detach();
    drop(blocked.swap_remove(0));
    assert_eq!(receive(&from), 9);
    drop(blocked);
    // Threads that return end, except for one watchdog.
    let start = Instant::now();
    while timer.lock().service.threads() > 2 {
        assert!(start.elapsed() < LIMIT, "they don't end");
        thread::sleep(Duration::from_millis(1));
    }
    let again = stuck(timer);
    timer.at(soon(), send(&to, 3)).unwrap().detach();
    assert_eq!(receive(&from), 3);
    drop(again);
}

#[test]
fn short_callbacks_are_left_to_one_thread() {
    let timer = timer();
    let (to, from) = mpsc::channel();
    let start = Instant::now();
    let mut seen = Vec::new();
    // Long enough for the watchdog to check many times.
    while start.elapsed() < 10 * GRACE {
        let to = to.clone();
        let report = move || to.send(thread::current().id()).unwrap();
        timer.at(Instant::now(), report).unwrap().detach();
        seen.push(receive(&from));
    }
    seen.dedup();
    // A busy machine may delay a thread in its short callback for a grace, but not each time.
    assert!(seen.len() < 4, "{} threads served", seen.len());
}

/// Polls the clock until an entry seems to be due.
fn poll_until_due(timer: &Timer) {
    let start = Instant::now();
    while !timer.poll_clock() {
        assert!(start.elapsed() < LIMIT, "nothing is due");
    }
}

#[test]
fn a_polling_worker_wakes_in_place_of_the_thread() {
    let (to, from) = mpsc::channel();
    let timer = timer();
    assert!(!timer.is_waited_for() && !timer.is_due());
    let _busy = busy(timer);
    let at = soon();
    for n in [1, 2] {
        let waker = sends_number(&to, n);
        timer.allow_inline_wakes(waker.vtable());
        timer.wake_at(at, waker).unwrap();
    }
    let early = timer.is_due();
    assert!(!early || Instant::now() >= at);
    poll_until_due(timer);
    assert!(Instant::now() >= at);
    timer.wake_due();
    assert_eq!([from.try_recv(), from.try_recv()], [Ok(1), Ok(2)]);
    assert_eq!(pending(timer), 0);
    assert!(!timer.is_waited_for());
}

#[test]
fn a_polling_worker_leaves_callbacks_and_untrusted_wakers_to_the_thread() {
    let (to, from) = mpsc::channel();
    let (timer, at) = (timer(), soon());
    let stuck = busy(timer);
    timer.wake_at(at, sends_number(&to, 0)).unwrap();
    poll_until_due(timer);
    timer.wake_due();
    assert!(from.try_recv().is_err(), "its vtable is not allowed");
    timer.allow_inline_wakes(sends_number(&to, 0).vtable());
    let process = timer.lock().process;
    timer.lose_thread();
    timer.wake_due();
    assert!(from.try_recv().is_err(), "it is the parent's");
    timer.lock().process = process;
    timer.wake_due();
    assert_eq!(from.try_recv(), Ok(0));
    let call = timer.at(at, send(&to, 1)).unwrap();
    timer.wake_at(at, sends_number(&to, 2)).unwrap();
    poll_until_due(timer);
    timer.wake_due();
    assert!(from.try_recv().is_err() && call.is_pending());
    drop(stuck);
    assert_eq!([receive(&from), receive(&from)], [1, 2]);
}

#[test]
fn an_entry_that_has_left_the_queue_is_known_without_the_lock() {
    let (to, from) = mpsc::channel();
    let timer = timer();
    let _busy = busy(timer);
    let (first, second) = (soon(), soon() + Duration::from_secs(1 << 20));
    // Not a clone: the vtable of a clone may have another address.
    let waker = || sends_number(&to, 1);
    timer.allow_inline_wakes(waker().vtable());
    timer.wake_at(first, waker()).unwrap();
    let late = timer.wake_at(second, waker()).unwrap();
    assert!(!timer.is_gone(first) && !timer.is_gone(second));
    poll_until_due(timer);
    assert!(!timer.is_gone(first), "it is due, and in the queue");
    let mut ready = Vec::new();
    timer.take_due(&mut ready);
    assert!(timer.is_gone(first) && !timer.is_gone(second));
    ready.into_iter().for_each(Waker::wake);
    assert_eq!(from.try_recv(), Ok(1));
    timer.remove(late);
    assert_eq!(pending(timer), 0);
}

#[test]
fn an_entry_that_is_left_to_the_thread_is_not_gone() {
    let (to, from) = mpsc::channel();
    let (timer, at) = (timer(), soon());
    let stuck = busy(timer);
    timer.wake_at(at, sends_number(&to, 0)).unwrap();
    poll_until_due(timer);
    timer.wake_due();
    assert!(!timer.is_gone(at), "its vtable is not allowed");
    drop(stuck);
    assert_eq!(receive(&from), 0);
    assert!(timer.is_gone(at));
}

#[test]
fn a_removed_entry_is_not_waited_for() {
    let timer = timer();
    let key = timer.wake_at(Instant::now(), Waker::noop().clone());
    let key = key.unwrap();
    timer.remove(key);
    assert!(!timer.is_waited_for());
    // A time that the clock does not reach is not due.
    let far = Instant::now() + Duration::from_secs(1 << 40);
    let far = timer.wake_at(far, Waker::noop().clone()).unwrap();
    assert!(!timer.is_due());
    timer.remove(far);
}
