//! Sleeps, timeouts and intervals: on the real clock, and on one that is paused.

use crate::support::{Drops, Flag, LIMIT, pool, quiet_panic, until, within};
use filch::{
    Pool, block_on,
    time::{self, Clock, Elapsed, Interval, MissedTicks, PausedClock, Sleep},
};
use std::{
    future::{Future, pending, poll_fn, ready},
    io,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Counts its wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn seen(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn wakes() -> (Arc<Wakes>, Waker) {
    let wakes = Arc::new(Wakes::default());
    (wakes.clone(), wakes.into())
}

/// Polls with a waker that does nothing.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

fn tick(interval: &mut Interval) -> Poll<Instant> {
    interval.poll_tick(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_sleep_is_never_early_and_does_end() {
    within(LIMIT, || {
        for time in [0, 1, 3, 10].map(ms) {
            let start = Instant::now();
            block_on(time::sleep(time));
            assert!(start.elapsed() >= time);
            let at = Instant::now() + time;
            block_on(time::sleep_until(at));
            assert!(Instant::now() >= at);
        }
    });
}

#[test]
fn a_sleep_of_no_time_or_of_a_time_that_has_passed_is_ready_at_once() {
    assert!(poll(&mut time::sleep(Duration::ZERO)).is_ready());
    assert!(poll(&mut time::sleep_until(Instant::now())).is_ready());
    let clock = PausedClock::new();
    let start = clock.now();
    clock.advance(ms(5));
    for at in [start, start + ms(5)] {
        let mut sleep = clock.sleep_until(at);
        assert!(sleep.is_elapsed());
        assert!(poll(&mut sleep).is_ready());
        assert!(poll(&mut sleep).is_ready(), "and again");
    }
}

#[test]
fn a_time_that_no_clock_reaches_never_comes() {
    let clock = PausedClock::new();
    for clock in [&Clock::real(), &*clock] {
        let mut sleep = clock.sleep(Duration::MAX);
        assert_eq!(sleep.deadline(), None);
        assert!(poll(&mut sleep).is_pending() && !sleep.is_elapsed());
        let mut timeout = clock.timeout(Duration::MAX, ready(1));
        assert_eq!(timeout.deadline(), None);
        assert_eq!(poll(&mut timeout), Poll::Ready(Ok(1)));
        assert!(poll(&mut clock.timeout(Duration::MAX, pending::<()>())).is_pending());
        let mut interval = clock.interval(Duration::MAX);
        assert!(tick(&mut interval).is_ready());
        for missed in [MissedTicks::Delay, MissedTicks::Skip, MissedTicks::Burst] {
            interval = interval.missed_ticks(missed);
            assert!(tick(&mut interval).is_pending());
        }
        // And back to where clocks get to.
        sleep.reset(clock.now());
        assert!(poll(&mut sleep).is_ready());
        sleep.reset_after(Duration::MAX);
        assert!(poll(&mut sleep).is_pending());
    }
    clock.advance(Duration::from_secs(1 << 40));
    assert_eq!(clock.pending(), 0);
}

#[test]
fn a_huge_time_that_a_clock_reaches_is_kept_in_order() {
    let clock = PausedClock::new();
    let far = Duration::from_secs(1 << 50);
    let (mut late, mut soon) = (clock.sleep(far), clock.sleep(ms(1)));
    assert!(poll(&mut late).is_pending() && poll(&mut soon).is_pending());
    assert!(clock.advance_to_next());
    assert!(poll(&mut soon).is_ready() && poll(&mut late).is_pending());
    assert_eq!(clock.next(), Some(far - ms(1)));
    assert!(clock.advance_to_next());
    assert_eq!(clock.elapsed(), far);
    assert!(poll(&mut late).is_ready());
    // The real one takes it, too, and lets it go.
    assert!(poll(&mut time::sleep(far)).is_pending());
}

#[test]
fn only_the_last_waker_is_woken() {
    let clock = PausedClock::new();
    let (first, second) = (wakes(), wakes());
    let mut sleep = clock.sleep(ms(10));
    assert!(poll_with(&mut sleep, &first.1).is_pending());
    assert!(poll_with(&mut sleep, &first.1).is_pending());
    assert!(poll_with(&mut sleep, &second.1).is_pending());
    assert_eq!(clock.pending(), 1, "one entry, however often it is polled");
    clock.advance(ms(9));
    assert_eq!(second.0.seen(), 0);
    clock.advance(ms(1));
    assert_eq!((first.0.seen(), second.0.seen()), (0, 1));
    assert!(poll_with(&mut sleep, &first.1).is_ready());
    clock.advance(ms(10));
    assert_eq!((first.0.seen(), second.0.seen()), (0, 1));
}

#[test]
fn only_the_last_waker_is_woken_by_the_real_clock() {
    let (first, second) = (wakes(), wakes());
    let at = Instant::now() + ms(30);
    let mut sleep = time::sleep_until(at);
    let firsts = poll_with(&mut sleep, &first.1).is_pending();
    let seconds = poll_with(&mut sleep, &second.1).is_pending();
    until("its time has come", || sleep.is_elapsed());
    if seconds {
        until("the second waker is woken", || second.0.seen() == 1);
    }
    assert!(firsts || !seconds);
    if seconds {
        assert_eq!(first.0.seen(), 0);
    }
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn a_dropped_sleep_leaves_nothing() {
    let clock = PausedClock::new();
    let (woken, waker) = wakes();
    let mut sleeps: Vec<Sleep> = (1..=10).map(|n| clock.sleep(ms(n))).collect();
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &waker).is_pending());
    }
    assert_eq!((clock.pending(), Arc::strong_count(&woken)), (10, 12));
    sleeps.truncate(3);
    assert_eq!((clock.pending(), Arc::strong_count(&woken)), (3, 5));
    clock.advance(ms(20));
    assert_eq!(
        (clock.pending(), woken.seen(), Arc::strong_count(&woken)),
        (0, 3, 2)
    );
    // The same on the real clock.
    let mut sleep = time::sleep(Duration::from_secs(3600));
    assert!(poll_with(&mut sleep, &waker).is_pending());
    assert_eq!(Arc::strong_count(&woken), 3);
    drop(sleep);
    assert_eq!(Arc::strong_count(&woken), 2);
}

#[test]
fn a_reset_sleep_wakes_at_the_new_time_without_a_poll() {
    let clock = PausedClock::new();
    let (woken, waker) = wakes();
    let mut sleep = clock.sleep(ms(10));
    sleep.reset_after(ms(20)); // before the first poll
    assert!(poll_with(&mut sleep, &waker).is_pending());
    sleep.reset(clock.now() + ms(30));
    clock.advance(ms(29));
    assert_eq!(woken.seen(), 0);
    clock.advance(ms(1));
    assert_eq!(woken.seen(), 1);
    // After it was ready it starts anew.
    sleep.reset_after(ms(5));
    assert!(!sleep.is_elapsed());
    clock.advance(ms(5));
    assert_eq!(woken.seen(), 1, "it was not polled since");
    assert!(poll_with(&mut sleep, &waker).is_ready());
    // To a time that has passed: the waiter is woken at once.
    sleep.reset_after(ms(50));
    assert!(poll_with(&mut sleep, &waker).is_pending());
    sleep.reset(clock.now());
    assert_eq!(woken.seen(), 2);
    assert!(poll_with(&mut sleep, &waker).is_ready());
}

#[test]
fn a_reset_sleep_of_the_real_clock_wakes_at_the_new_time() {
    let (woken, waker) = wakes();
    let mut sleep = time::sleep(Duration::from_secs(3600));
    assert!(poll_with(&mut sleep, &waker).is_pending());
    sleep.reset(Instant::now());
    until("it is woken", || woken.seen() == 1);
    assert!(poll_with(&mut sleep, &waker).is_ready());
}

#[test]
fn a_timeout_gives_the_output_or_is_late() {
    let clock = PausedClock::new();
    let mut in_time = clock.timeout(ms(10), clock.sleep(ms(10)));
    let mut late = clock.timeout(ms(10), clock.sleep(ms(11)));
    assert!(poll(&mut in_time).is_pending() && poll(&mut late).is_pending());
    assert_eq!(clock.pending(), 4);
    clock.advance(ms(10));
    assert_eq!(poll(&mut in_time), Poll::Ready(Ok(())), "ready is not late");
    let Poll::Ready(Err(elapsed)) = poll(&mut late) else {
        panic!("it is late");
    };
    assert_eq!(
        io::Error::from(elapsed.clone()).kind(),
        io::ErrorKind::TimedOut
    );
    assert!(elapsed.to_string().contains("in time"));
    let mut slow = late.into_inner();
    clock.advance(ms(1));
    assert!(poll(&mut slow).is_ready(), "it goes on without the timeout");
}

#[test]
fn a_timeout_holds_the_time_of_a_future_that_wakes_itself_for_ever() {
    within(LIMIT, || {
        let busy = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let late: Result<(), Elapsed> = block_on(time::timeout(ms(5), busy));
        assert!(late.is_err());
        let at = Instant::now() + ms(5);
        assert!(block_on(time::timeout_at(at, pending::<()>())).is_err());
        assert!(Instant::now() >= at);
        assert_eq!(block_on(time::timeout(ms(5), async { 7 })), Ok(7));
    });
}

#[test]
fn a_timeout_that_is_over_drops_its_future_with_itself_and_its_entry_at_once() {
    let clock = PausedClock::new();
    let drops = Drops::default();
    let value = drops.value();
    let mut timeout = Box::pin(clock.timeout(ms(1), async move {
        let _value = value;
        pending::<()>().await;
    }));
    assert!(poll(&mut timeout).is_pending());
    clock.advance(ms(1));
    assert!(matches!(poll(&mut timeout), Poll::Ready(Err(_))));
    assert_eq!((drops.seen(), clock.pending()), (0, 0));
    drop(timeout);
    assert_eq!(drops.seen(), 1);
    // Ready before its time: the entry goes with it.
    let (send, receive) = mpsc::channel::<()>();
    let mut timeout = clock.timeout(
        ms(1),
        poll_fn(move |_| match receive.try_recv() {
            Ok(()) => Poll::Ready(()),
            Err(_) => Poll::Pending,
        }),
    );
    assert!(poll(&mut timeout).is_pending());
    send.send(()).unwrap();
    assert_eq!(poll(&mut timeout), Poll::Ready(Ok(())));
    drop(timeout);
    assert_eq!(clock.pending(), 0);
}

/// Returns the times of ticks and the times that they were due, in milliseconds, if the interval is
/// polled at `times`.
fn ticks(missed: MissedTicks, times: &[u64]) -> Vec<(u64, u64)> {
    let clock = PausedClock::new();
    let start = clock.now();
    let mut interval = clock.interval(ms(10)).missed_ticks(missed);
    assert_eq!(interval.period(), ms(10));
    let mut taken = Vec::new();
    for time in times {
        clock.advance(ms(*time) - clock.elapsed());
        while let Poll::Ready(at) = tick(&mut interval) {
            taken.push((*time, (at - start).as_millis() as u64));
        }
    }
    taken
}

#[test]
fn ticks_that_come_in_time_are_the_same_for_all() {
    for missed in [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip] {
        let taken = ticks(missed, &[0, 5, 10, 20, 25, 30]);
        assert_eq!(taken, [0, 10, 20, 30].map(|at| (at, at)), "{missed:?}");
    }
}

#[test]
fn missed_ticks_come_at_once_later_or_not_at_all() {
    let times = [0, 35, 40, 45, 50, 55];
    let [burst, delay, skip] =
        [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip].map(|m| ticks(m, &times));
    assert_eq!(
        burst,
        [(0, 0), (35, 10), (35, 20), (35, 30), (40, 40), (50, 50)]
    );
    assert_eq!(delay, [(0, 0), (35, 10), (45, 45), (55, 55)]);
    assert_eq!(skip, [(0, 0), (35, 10), (40, 40), (50, 50)]);
    // Late by exactly one period, and by less.
    assert_eq!(
        ticks(MissedTicks::Skip, &[0, 20, 29, 30]),
        [(0, 0), (20, 10), (30, 30)]
    );
    assert_eq!(
        ticks(MissedTicks::Delay, &[0, 16, 25, 26]),
        [(0, 0), (16, 10), (26, 26)]
    );
}

#[test]
fn a_tick_that_is_a_little_late_is_not_missed() {
    for missed in [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip] {
        let taken = ticks(missed, &[0, 13, 20, 35, 40]);
        let expected = [(0, 0), (13, 10), (20, 20), (35, 30), (40, 40)];
        assert_eq!(taken, expected, "{missed:?}");
    }
    // 5 ms are tolerated, 6 are not.
    let taken = ticks(MissedTicks::Delay, &[0, 15, 20, 36, 40, 46]);
    assert_eq!(taken, [(0, 0), (15, 10), (20, 20), (36, 30), (46, 46)]);
}

#[test]
fn an_interval_starts_when_it_should_and_can_be_reset() {
    let clock = PausedClock::new();
    let start = clock.now();
    let mut interval = clock.interval_at(start + ms(7), ms(10));
    assert!(tick(&mut interval).is_pending());
    clock.advance(ms(7));
    assert_eq!(tick(&mut interval), Poll::Ready(start + ms(7)));
    clock.advance(ms(5));
    interval.reset();
    clock.advance(ms(9));
    assert!(tick(&mut interval).is_pending());
    clock.advance(ms(1));
    assert_eq!(tick(&mut interval), Poll::Ready(start + ms(22)));
    interval.reset_at(start + ms(23));
    clock.advance(ms(1));
    assert_eq!(tick(&mut interval), Poll::Ready(start + ms(23)));
    assert!(tick(&mut interval).is_pending());
    assert_eq!(clock.next(), Some(ms(10)));
}

#[test]
fn a_tick_that_is_not_waited_for_is_not_lost() {
    let clock = PausedClock::new();
    let start = clock.now();
    let mut interval = clock.interval_at(start + ms(10), ms(10));
    {
        let mut first = pin!(interval.tick());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        clock.advance(ms(10));
    }
    assert_eq!(tick(&mut interval), Poll::Ready(start + ms(10)));
}

#[test]
fn a_period_of_zero_is_refused() {
    let refused = std::panic::catch_unwind(|| PausedClock::new().interval(Duration::ZERO));
    let payload = refused.unwrap_err();
    assert!(crate::support::message(&*payload).contains("period above zero"));
    assert!(
        std::panic::catch_unwind(|| time::interval_at(Instant::now(), Duration::ZERO)).is_err()
    );
}

#[test]
fn an_interval_of_the_real_clock_ticks() {
    within(LIMIT, || {
        let start = Instant::now();
        let mut interval = time::interval_at(start, ms(2));
        for n in 0..5 {
            let at = block_on(interval.tick());
            assert_eq!(at, start + n * ms(2));
            assert!(Instant::now() >= at);
        }
    });
}

#[test]
fn advancing_wakes_in_order_and_shows_each_one_its_time() {
    struct Note(PausedClock, Mutex<Vec<(u64, u64)>>);
    struct Noted(Arc<Note>, u64);
    impl Wake for Noted {
        fn wake(self: Arc<Self>) {
            let Note(clock, notes) = &*self.0;
            let time = clock.elapsed().as_millis() as u64;
            notes.lock().unwrap().push((self.1, time));
        }
    }
    let clock = PausedClock::new();
    let note = Arc::new(Note(clock.clone(), Mutex::default()));
    let times = [30, 10, 20, 10, 40, 10, 50];
    let sleeps: Vec<_> = (0..)
        .zip(times)
        .map(|(n, time)| {
            let mut sleep = clock.sleep(ms(time));
            let waker = Arc::new(Noted(note.clone(), n)).into();
            assert!(poll_with(&mut sleep, &waker).is_pending());
            sleep
        })
        .collect();
    clock.advance(ms(40));
    assert_eq!(
        *note.1.lock().unwrap(),
        [(1, 10), (3, 10), (5, 10), (2, 20), (0, 30), (4, 40)]
    );
    assert_eq!(
        (clock.elapsed(), clock.pending(), clock.next()),
        (ms(40), 1, Some(ms(10)))
    );
    drop(sleeps);
    assert!(!clock.advance_to_next());
    assert_eq!(clock.elapsed(), ms(40), "it stays where no future waits");
}

#[test]
fn a_waker_that_panics_costs_no_other_wake() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            quiet_panic("a waker");
        }
    }
    struct PanicsLater;
    impl Wake for PanicsLater {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for PanicsLater {
        fn drop(&mut self) {
            quiet_panic("the drop of a waker");
        }
    }
    let paused = PausedClock::new();
    let (woken, waker) = wakes();
    for clock in [&Clock::real(), &*paused] {
        let at = clock.now() + ms(20);
        let mut sleeps = [(); 4].map(|()| clock.sleep_until(at));
        let [a, b, c, d] = &mut sleeps;
        let before = woken.seen();
        // On a slow machine the time of the real one may have come already.
        let first = poll_with(a, &waker).is_pending();
        let _ = poll_with(b, &Arc::new(Panics).into());
        let later = Arc::new(PanicsLater);
        let _ = poll_with(c, &later.clone().into());
        // The last one is at the clock.
        let _ = std::panic::catch_unwind(move || drop(later));
        let last = poll_with(d, &waker).is_pending();
        let expected = before + usize::from(first) + usize::from(last);
        if clock.is_paused() {
            paused.advance(ms(20));
        }
        until("both are woken", || woken.seen() == expected);
    }
    // Exchanged and dropped, too: the panic goes no further.
    let mut sleep = paused.sleep(ms(1));
    let later = Arc::new(PanicsLater);
    assert!(poll_with(&mut sleep, &later.clone().into()).is_pending());
    drop(later);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    let later = Arc::new(PanicsLater);
    assert!(poll_with(&mut sleep, &later.clone().into()).is_pending());
    drop(later);
    drop(sleep);
    assert_eq!(paused.pending(), 0);
}

#[test]
fn a_waker_that_blocks_holds_others_up_for_a_moment_only() {
    struct Blocks(Flag, Flag);
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            self.0.set();
            self.1.wait("the others have been woken");
        }
    }
    within(LIMIT, || {
        let (blocked, go_on) = (Flag::default(), Flag::default());
        let blocks = Arc::new(Blocks(blocked.clone(), go_on.clone())).into();
        let mut sleep = time::sleep(ms(50));
        if poll_with(&mut sleep, &blocks).is_pending() {
            blocked.wait("the waker is called");
        }
        block_on(time::sleep(ms(1)));
        block_on(time::sleep(ms(1)));
        go_on.set();
        block_on(time::sleep(ms(1)));
    });
}

#[test]
fn a_hundred_thousand_pending_sleeps() {
    const MANY: u64 = 100_000;
    let clock = PausedClock::new();
    let (woken, waker) = wakes();
    let times = (0..MANY).map(|n| 1 + n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1000);
    let mut sleeps: Vec<Sleep> = times.map(|time| clock.sleep(ms(time))).collect();
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &waker).is_pending());
    }
    assert_eq!(clock.pending(), sleeps.len());
    // Every other one is dropped, in an order that has nothing to do with that of the times.
    let mut n = 0;
    sleeps.retain(|_| {
        n += 1;
        n % 2 == 0
    });
    assert_eq!(clock.pending(), sleeps.len());
    clock.advance(ms(1000));
    assert_eq!((woken.seen(), clock.pending()), (sleeps.len(), 0));
    // On the real clock none comes, and all of them go.
    let mut sleeps: Vec<Sleep> = (0..MANY).map(|n| time::sleep(ms(3_600_000 + n))).collect();
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &waker).is_pending());
    }
    drop(sleeps);
    assert_eq!(Arc::strong_count(&woken), 2);
}

#[test]
fn the_clock_is_that_of_the_pool_whose_worker_asks() {
    let paused = PausedClock::new();
    let virtual_pool = Pool::builder().workers(1).clock(&paused).build().unwrap();
    let real_pool = pool(1);
    let is_paused = || Clock::current().is_paused();
    assert!(!is_paused());
    assert!(!real_pool.install(is_paused));
    assert!(virtual_pool.install(is_paused), "as a guest");
    assert!(
        virtual_pool.submit(is_paused).join().unwrap(),
        "on a worker"
    );
    // One inside the other, and back.
    let seen = virtual_pool.install(|| {
        let inner = real_pool.install(|| (is_paused(), virtual_pool.install(is_paused)));
        (inner, is_paused())
    });
    assert_eq!(seen, ((false, true), true));
    assert!(!is_paused());
}

#[test]
fn what_was_made_on_one_pool_is_awaited_on_another_by_its_own_clock() {
    within(LIMIT, || {
        let paused = PausedClock::new();
        let virtual_pool = Pool::builder().workers(0).clock(&paused).build().unwrap();
        let mut made = virtual_pool.install(|| time::sleep(Duration::from_secs(3600)));
        let elsewhere = pool(1);
        let (made, waits) = elsewhere
            .submit(move || {
                let pending = poll(&mut made).is_pending();
                (made, pending)
            })
            .join()
            .unwrap();
        assert!(waits);
        assert_eq!(paused.pending(), 1);
        let done = elsewhere.submit(move || block_on(made));
        until("it waits", || !done.is_finished());
        paused.advance(Duration::from_secs(3600));
        done.join().unwrap();
        // The other way round: a real sleep, on a pool whose time stands still.
        let real = elsewhere.install(|| time::sleep(ms(1)));
        virtual_pool.install(|| block_on(real));
    });
}

/// What many tasks of a pool do with the clock: sleep in turns, and say when they woke.
fn rounds(pool: &Pool, tasks: u64) -> Vec<u64> {
    let tasks: Vec<_> = (0..tasks)
        .map(|n| {
            pool.spawn_future(async move {
                let start = Clock::current().now();
                for _ in 0..3 {
                    time::sleep(ms(1 + n % 7)).await;
                }
                (Clock::current().now() - start).as_millis() as u64
            })
        })
        .collect();
    tasks.into_iter().map(|task| task.join().unwrap()).collect()
}

#[test]
fn tasks_sleep_on_real_workers() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let slept = rounds(&pool(workers), 100);
            for (n, slept) in (0..).zip(slept) {
                assert!(slept >= 3 * (1 + n % 7), "task {n} slept {slept} ms");
            }
        }
    });
}

#[test]
fn a_clock_that_moves_by_itself_lets_no_thread_wait() {
    within(LIMIT, || {
        let clock = PausedClock::auto();
        let builder = Pool::builder().workers(0).spin_rounds(0);
        let pool = builder.clock(&clock).build().unwrap();
        let slept = rounds(&pool, 100);
        assert_eq!(slept, (0..100).map(|n| 3 * (1 + n % 7)).collect::<Vec<_>>());
        assert_eq!(clock.elapsed(), ms(21));
        // Days in no time; and others go on meanwhile.
        let day = Duration::from_secs(86_400);
        let ticks = pool.spawn_future(async {
            let mut interval = time::interval(Duration::from_secs(3600));
            let mut ticks = 0;
            while interval.tick().await < Clock::current().now() + ms(1) && ticks < 1000 {
                ticks += 1;
            }
            ticks
        });
        pool.block_on(time_of(&clock, day));
        assert!(!ticks.is_finished());
        assert_eq!(ticks.join().unwrap(), 1000);
    });
}

/// Sleeps by the clock of the pool that polls it first.
async fn time_of(clock: &PausedClock, time: Duration) {
    let before = clock.elapsed();
    time::sleep(time).await;
    assert_eq!(clock.elapsed(), before + time);
}

#[test]
fn the_clock_of_a_block_on_is_that_of_its_pool() {
    within(LIMIT, || {
        let clock = PausedClock::new();
        let pool = Pool::builder().workers(1).clock(&clock).build().unwrap();
        pool.block_on(async {
            assert!(Clock::current().is_paused());
            let sleeps = filch::spawn_future(time::sleep(Duration::from_secs(60)));
            until("it waits", || clock.pending() == 1);
            clock.advance(Duration::from_secs(60));
            sleeps.await.unwrap();
        });
        assert!(!Clock::current().is_paused());
    });
}

#[test]
fn a_cancelled_task_leaves_nothing_at_the_clock() {
    within(LIMIT, || {
        let clock = PausedClock::new();
        let pool = Pool::builder().workers(0).clock(&clock).build().unwrap();
        let spawn = || pool.spawn_future(async { time::sleep(ms(10)).await });
        let (cancelled, woken, left) = (spawn(), spawn(), spawn());
        pool.run_until_stalled();
        assert_eq!(clock.pending(), 3);
        cancelled.cancel();
        pool.run_until_stalled();
        assert_eq!(clock.pending(), 2);
        assert!(cancelled.join().unwrap_err().is_cancelled());
        // Woken, and cancelled before it is polled again.
        drop(left);
        clock.advance(ms(10));
        woken.cancel();
        assert!(woken.join().unwrap_err().is_cancelled());
        let never = spawn();
        pool.run_until_stalled();
        assert_eq!(clock.pending(), 1);
        drop(pool);
        assert_eq!(clock.pending(), 0, "the pool has dropped its futures");
        assert!(never.join().unwrap_err().is_cancelled());
    });
}

#[test]
fn sleeps_outlive_the_pool_that_they_were_made_on() {
    within(LIMIT, || {
        let gone = pool(1);
        let sleep = gone.install(|| time::sleep(ms(5)));
        drop(gone);
        block_on(sleep);
    });
}

#[test]
fn a_clock_is_moved_by_several_threads_and_never_back() {
    let clock = PausedClock::new();
    let (woken, waker) = wakes();
    let mut sleeps: Vec<_> = (0..400).map(|n| clock.sleep(ms(n + 1))).collect();
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &waker).is_pending());
    }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = clock.now();
                for _ in 0..100 {
                    clock.advance(ms(1));
                    assert!(clock.now() >= last + ms(1));
                    last = clock.now();
                }
            });
        }
    });
    // Two that begin at the same time move to the same one.
    assert!(clock.elapsed() >= ms(100) && clock.elapsed() <= ms(400));
    clock.advance(ms(400));
    assert_eq!((woken.seen(), clock.pending()), (400, 0));
}

#[test]
fn what_waits_is_visible_and_can_be_sent() {
    fn is_sendable<T: Send + Sync + Unpin>(_: &T) {}
    let clock = PausedClock::new();
    let sleep = clock.sleep(ms(1));
    let timeout = clock.timeout(ms(1), ready(()));
    let interval = clock.interval(ms(1));
    is_sendable(&clock);
    is_sendable(&Clock::real());
    is_sendable(&sleep);
    is_sendable(&timeout);
    is_sendable(&interval);
    assert!(format!("{sleep:?}").contains("elapsed: false"));
    assert!(format!("{timeout:?}").contains("Timeout"));
    assert!(format!("{interval:?}").contains("period: 1ms"));
    assert!(format!("{clock:?}").contains("pending: 0"));
    assert_eq!(format!("{:?}", Clock::default()), "Clock::Real");
    assert!(format!("{:?}", Clock::from(clock)).contains("elapsed: 0ns"));
}
