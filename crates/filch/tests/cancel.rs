//! What a cancellation promises: trees, callbacks, deadlines, and the one thread that serves them.

mod support;

use filch::{CancelReason, CancelToken, Pool, cancel::Registration};
use proptest::prelude::*;
use std::{
    fs,
    future::Future,
    panic::UnwindSafe,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};
use support::{Drops, LIMIT, counting, get, in_a_child, quiet_panic, until, within};

const HOUR: Duration = Duration::from_secs(3600);

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn write(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }

    /// Writes `what` when `token` is cancelled.
    fn listen(&self, token: &CancelToken, what: &str) -> Registration {
        let (log, what) = (self.clone(), what.to_owned());
        token.on_cancel(move || log.write(&what))
    }

    /// What was written so far, and forgets it.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Keeps the thread of the timer busy until the result is dropped, so that nothing is due too soon
/// for a test.
fn busy_timer() -> mpsc::Sender<()> {
    loop {
        let (token, here) = (CancelToken::new(), thread::current().id());
        let (to, from) = mpsc::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let callback = move || {
            // A deadline that has passed before the timer got it is called here.
            if thread::current().id() != here {
                ready.send(()).unwrap();
                let _ = from.recv_timeout(LIMIT);
            }
        };
        token.on_cancel(callback).detach();
        token.cancel_after(Duration::from_millis(1)).unwrap();
        if is_ready.recv_timeout(LIMIT).is_ok() {
            return to;
        }
    }
}

#[test]
fn it_is_what_it_should_be() {
    fn traits<T: Send + Sync + UnwindSafe + Unpin + std::fmt::Debug + 'static>() {}
    traits::<CancelToken>();
    traits::<Registration>();
    traits::<filch::cancel::Cancelled>();
    traits::<filch::cancel::DropGuard>();
    assert!(!CancelToken::default().is_cancelled());
    assert!(format!("{:?}", CancelToken::new()).contains("None"));
}

#[test]
fn cancelling_goes_down_and_not_up() {
    let root = CancelToken::new();
    let (left, right) = (root.child(), root.child());
    let below = left.child();
    let states = || [&root, &left, &below, &right].map(CancelToken::is_cancelled);
    assert!(left.clone().cancel(), "a clone is the same token");
    assert_eq!(states(), [false, true, true, false]);
    assert!(!below.cancel(), "it was cancelled with its parent");
    assert!(root.cancel());
    assert_eq!(states(), [true; 4]);
    assert!(root.child().is_cancelled(), "born cancelled");
    assert!(root.child().child().is_cancelled());
}

#[test]
fn a_grandparent_reaches_through_a_parent_that_was_dropped() {
    let root = CancelToken::new();
    let grandchild = root.child().child();
    root.cancel();
    assert!(grandchild.is_cancelled());
}

#[test]
fn the_first_reason_stays_and_is_inherited() {
    let token = CancelToken::new();
    let (first, second) = (token.child(), token.child());
    assert_eq!(token.reason(), None);
    first.cancel();
    token.cancel_after(Duration::ZERO).unwrap();
    token.cancel();
    let (asked, deadline) = (Some(CancelReason::Requested), Some(CancelReason::Deadline));
    assert_eq!(
        [&token, &first, &second].map(CancelToken::reason),
        [deadline, asked, deadline]
    );
    assert_eq!(second.child().reason(), deadline);
    assert_eq!(CancelReason::Requested.to_string(), "cancelled");
}

#[test]
fn callbacks_run_from_the_top_down_in_the_order_of_creation() {
    let log = Log::default();
    let root = CancelToken::new();
    let registrations = [log.listen(&root, "root 1"), log.listen(&root, "root 2")];
    let (gone, a) = (root.child(), root.child());
    drop(gone);
    // The next child has the place of the one that is gone, and still comes after `a`.
    let b = root.child();
    let a_below = a.child();
    let more = [
        log.listen(&b, "b"),
        log.listen(&a_below, "below a"),
        log.listen(&a, "a"),
        log.listen(&root, "root 3"),
    ];
    root.cancel();
    assert_eq!(
        log.take(),
        ["root 1", "root 2", "root 3", "a", "below a", "b"]
    );
    drop((registrations, more));
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn everything_is_cancelled_before_the_first_callback_runs() {
    let (root, log) = (CancelToken::new(), Log::default());
    let below = root.child().child();
    let callback = root.on_cancel({
        let (below, log) = (below.clone(), log.clone());
        move || log.write(&format!("below: {}", below.is_cancelled()))
    });
    root.cancel();
    assert_eq!(log.take(), ["below: true"]);
    drop(callback);
}

#[test]
fn a_callback_runs_once_or_never() {
    let (ran, count) = counting();
    let drops = Drops::default();
    let token = CancelToken::new();
    let register = |count: Box<dyn Fn() + Send>| {
        let value = drops.value();
        token.on_cancel(move || {
            let _value = value;
            count();
        })
    };
    let kept = register(Box::new(count.clone()));
    drop(register(Box::new(count.clone())));
    assert!(register(Box::new(count.clone())).remove());
    assert_eq!(drops.seen(), 2, "what was removed is dropped");
    register(Box::new(count.clone())).detach();
    token.cancel();
    assert_eq!((get(&ran), drops.seen()), (2, 4));
    token.cancel();
    assert!(!kept.remove(), "it has run");
    assert!(
        !register(Box::new(count.clone())).remove(),
        "it runs at once"
    );
    register(Box::new(count)).detach();
    assert_eq!((get(&ran), drops.seen()), (4, 6));
}

#[test]
fn a_registration_keeps_its_token_and_a_callback_does_not() {
    let (ran, count) = counting();
    let root = CancelToken::new();
    let kept = root.child().on_cancel(count.clone());
    let drops = Drops::default();
    let value = drops.value();
    let left = move || {
        drop(value);
        count();
    };
    root.child().on_cancel(left).detach();
    assert_eq!(drops.seen(), 1, "it went with its token");
    root.cancel();
    assert_eq!(get(&ran), 1);
    drop(kept);
}

#[test]
fn a_callback_that_panics_stops_no_other() {
    let (ran, count) = counting();
    let root = CancelToken::new();
    let child = root.child();
    let drops = Drops::default();
    for token in [&root, &child, &root, &child] {
        let bomb = drops.bomb("when its callback is over");
        token.on_cancel(|| quiet_panic("in a callback")).detach();
        token.on_cancel(move || drop(bomb)).detach();
        token.on_cancel(count.clone()).detach();
    }
    assert!(root.cancel());
    assert_eq!((get(&ran), drops.seen()), (4, 4));
    root.on_cancel(|| quiet_panic("at once")).detach();
    // Nor does one that panics when it is removed.
    let token = CancelToken::new();
    let bomb = drops.bomb("when its callback is removed");
    assert!(token.on_cancel(move || drop(bomb)).remove());
    assert_eq!(drops.seen(), 5);
}

#[test]
fn callbacks_may_use_their_own_token() {
    within(LIMIT, || {
        let (token, log) = (CancelToken::new(), Log::default());
        let later: Arc<Mutex<Option<Registration>>> = Arc::default();
        let callback = {
            let (token, log, later) = (token.clone(), log.clone(), later.clone());
            move || {
                assert!(!token.cancel());
                assert!(token.child().is_cancelled());
                assert_eq!(token.wait(), CancelReason::Requested);
                log.listen(&token, "at once").detach();
                token.cancel_after(HOUR).unwrap();
                // One callback can still remove a later one.
                assert!(later.lock().unwrap().take().unwrap().remove());
                log.write("first");
            }
        };
        let first = token.on_cancel(callback);
        *later.lock().unwrap() = Some(log.listen(&token, "later"));
        let own: Arc<Mutex<Option<Registration>>> = Arc::default();
        let itself = token.on_cancel({
            let (own, log) = (own.clone(), log.clone());
            move || {
                let own = own.lock().unwrap().take().unwrap();
                log.write(if own.remove() { "removed" } else { "runs" });
            }
        });
        *own.lock().unwrap() = Some(itself);
        assert!(token.cancel());
        assert_eq!(log.take(), ["at once", "first", "runs"]);
        drop(first);
    });
}

#[test]
fn a_callback_may_make_children_of_a_live_ancestor_and_cancel_it() {
    within(LIMIT, || {
        let (root, log) = (CancelToken::new(), Log::default());
        let child = root.child();
        let callback = child.on_cancel({
            let (root, log) = (root.clone(), log.clone());
            move || {
                let sibling = root.child();
                let registration = log.listen(&sibling, "sibling");
                assert!(root.cancel());
                log.write("child");
                drop(registration);
            }
        });
        child.cancel();
        assert_eq!(log.take(), ["sibling", "child"]);
        drop(callback);
    });
}

#[test]
fn a_chain_of_a_hundred_thousand_does_not_recurse() {
    const DEEP: usize = 100_000;
    // A small stack: recursion there ends the process.
    in_a_child("a_chain_of_a_hundred_thousand_does_not_recurse", || {
        let small = thread::Builder::new().stack_size(64 << 10);
        let chain = || {
            let root = CancelToken::new();
            let mut last = root.clone();
            (0..DEEP).for_each(|_| last = last.child());
            (root, last)
        };
        let test = move || {
            let (ran, count) = counting();
            let (root, last) = chain();
            let registration = last.on_cancel(count);
            root.cancel();
            assert!(last.is_cancelled());
            assert_eq!(get(&ran), 1);
            drop((registration, root, last));
            // Live, and from both ends.
            let (root, last) = chain();
            drop((root, last));
            let (root, last) = chain();
            drop(last);
            drop(root);
            // All of them held: dropped from the top, then from the bottom.
            for reverse in [false, true] {
                let root = CancelToken::new();
                let mut all = vec![root];
                (0..DEEP).for_each(|n| all.push(all[n].child()));
                if reverse {
                    all.reverse();
                }
                drop(all);
            }
        };
        small.spawn(test).unwrap().join().unwrap();
    });
}

#[test]
fn tokens_linked_by_callbacks_are_dropped_without_recursion() {
    const DEEP: usize = 100_000;
    in_a_child(
        "tokens_linked_by_callbacks_are_dropped_without_recursion",
        || {
            let small = thread::Builder::new().stack_size(64 << 10);
            let test = || {
                let drops = Drops::default();
                let first = CancelToken::new();
                let mut last = first.clone();
                for _ in 0..DEEP {
                    let (next, counted) = (CancelToken::new(), drops.value());
                    let linked = next.clone();
                    let callback = move || {
                        linked.cancel();
                        drop(counted);
                    };
                    last.on_cancel(callback).detach();
                    last = next;
                }
                drop(last);
                assert_eq!(drops.seen(), 0);
                drop(first);
                assert_eq!(drops.seen(), DEEP, "all before the drop has returned");
            };
            small.spawn(test).unwrap().join().unwrap();
        },
    );
}

#[test]
fn tokens_that_cancel_each_other_do_not_recurse() {
    const DEEP: usize = 100_000;
    in_a_child("tokens_that_cancel_each_other_do_not_recurse", || {
        let small = thread::Builder::new().stack_size(64 << 10);
        let test = || {
            let (ran, count) = counting();
            let mut tokens = vec![CancelToken::new()];
            for n in 0..DEEP {
                let (next, count) = (CancelToken::new(), count.clone());
                let linked = next.clone();
                let callback = move || {
                    assert!(linked.cancel());
                    assert!(
                        linked.is_cancelled(),
                        "whether its callbacks have run or not"
                    );
                    count();
                };
                tokens[n].on_cancel(callback).detach();
                tokens.push(next);
            }
            assert!(tokens[0].cancel());
            assert!(tokens.iter().all(CancelToken::is_cancelled));
            assert_eq!(get(&ran), DEEP, "all before the cancel has returned");
        };
        small.spawn(test).unwrap().join().unwrap();
    });
}

/// A callback that cancels another token finds its callbacks done, a few levels deep.
#[test]
fn callbacks_of_a_token_that_a_callback_cancels_have_run() {
    let (log, tokens) = (Log::default(), [(); 4].map(|()| CancelToken::new()));
    for (n, pair) in tokens.windows(2).enumerate() {
        let (next, log) = (pair[1].clone(), log.clone());
        let callback = move || {
            next.cancel();
            log.write(["first", "second", "third"][n]);
        };
        pair[0].on_cancel(callback).detach();
    }
    tokens[0].cancel();
    assert_eq!(log.take(), ["third", "second", "first"]);
}

/// Tasks are removed from the list of their token in batches, up to the next callback. A closure
/// whose destructor panics does not keep the others of its batch.
#[test]
fn tasks_of_two_pools_and_callbacks_share_a_token() {
    const TASKS: usize = 200;
    struct Closure(Arc<AtomicUsize>, bool);
    impl Drop for Closure {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            if self.1 {
                quiet_panic("in a destructor");
            }
        }
    }
    within(LIMIT, || {
        let pools = [(); 2].map(|()| Pool::builder().workers(0).build().unwrap());
        let (token, log, dropped) = (CancelToken::new(), Log::default(), Arc::default());
        let mut handles = Vec::new();
        let mut registrations = Vec::new();
        for n in 0..TASKS {
            let closure = Closure(Arc::clone(&dropped), n % 41 == 7);
            let task = pools[n / 3 % 2].task(move || drop(closure)).token(&token);
            handles.push(task.submit().unwrap());
            if n % 70 == 69 {
                registrations.push(log.listen(&token, &n.to_string()));
            }
        }
        // Some run before.
        for handle in handles.drain(50..60) {
            let _ = handle.join();
        }
        assert_eq!(get(&dropped), 10);
        token.cancel();
        assert_eq!(log.take(), ["69", "139"]);
        assert_eq!(get(&dropped), TASKS);
        for handle in handles {
            assert!(handle.join().unwrap_err().is_cancelled());
        }
        for pool in pools {
            pool.run_until_stalled();
            let total = pool.task_metrics().total();
            let ended = total.finished + total.panicked + total.cancelled + total.expired;
            assert_eq!(total.submitted, ended);
        }
    });
}

#[test]
fn a_hundred_thousand_children_are_cancelled() {
    const WIDE: usize = 100_000;
    let (ran, count) = counting();
    let root = CancelToken::new();
    let children: Vec<_> = (0..WIDE).map(|_| root.child()).collect();
    let registrations: Vec<_> = children
        .iter()
        .map(|c| c.on_cancel(count.clone()))
        .collect();
    // Half of them go before.
    let mut registrations = registrations.into_iter();
    registrations.by_ref().take(WIDE / 2).for_each(drop);
    root.cancel();
    assert!(children.iter().all(CancelToken::is_cancelled));
    assert_eq!(get(&ran), WIDE / 2);
}

#[test]
fn waiting_ends_with_the_cancellation_or_with_the_time() {
    within(LIMIT, || {
        let token = CancelToken::new();
        let start = Instant::now();
        assert_eq!(token.wait_timeout(Duration::ZERO), None);
        assert_eq!(token.wait_timeout(Duration::from_millis(10)), None);
        assert!(start.elapsed() >= Duration::from_millis(10));
        let child = token.child();
        let waiters = [token.clone(), token.clone(), child.clone(), child]
            .map(|token| thread::spawn(move || (token.wait(), token.wait_timeout(Duration::MAX))));
        thread::sleep(Duration::from_millis(5));
        token.cancel();
        for waiter in waiters {
            let asked = CancelReason::Requested;
            assert_eq!(waiter.join().unwrap(), (asked, Some(asked)));
        }
    });
}

#[test]
fn a_guard_cancels_when_it_is_dropped_or_unwound() {
    let token = CancelToken::new();
    let _ = token.drop_guard().disarm();
    assert!(!token.is_cancelled());
    let guarded = token.child();
    let guard = guarded.drop_guard();
    let unwound = thread::spawn(move || {
        let _guard = guard;
        quiet_panic("out of a block with a guard");
    });
    assert!(unwound.join().is_err());
    assert!(guarded.is_cancelled() && !token.is_cancelled());
    drop(token.drop_guard());
    assert!(token.is_cancelled());
}

/// Counts how often it is woken; panics if configured.
#[derive(Default)]
struct Woken(AtomicUsize, bool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        if self.1 {
            quiet_panic("in a waker");
        }
    }
}

#[test]
fn a_future_is_woken_through_its_last_waker() {
    let token = CancelToken::new();
    let wakers: [Arc<Woken>; 3] = Default::default();
    let poll = |future: &mut std::pin::Pin<&mut filch::cancel::Cancelled>, n: usize| {
        let waker = Waker::from(wakers[n].clone());
        future.as_mut().poll(&mut Context::from_waker(&waker))
    };
    let mut future = pin!(token.child().cancelled());
    let mut dropped = Box::pin(token.cancelled());
    assert!(poll(&mut dropped.as_mut(), 2).is_pending());
    for n in [0, 0, 1, 0, 1] {
        assert!(poll(&mut future, n).is_pending());
    }
    drop(dropped);
    assert_eq!(wakers.each_ref().map(Arc::strong_count), [1, 2, 1]);
    token.cancel();
    assert_eq!(wakers.each_ref().map(|w| get(&w.0)), [0, 1, 0]);
    for _ in 0..2 {
        assert_eq!(poll(&mut future, 0), Poll::Ready(CancelReason::Requested));
    }
    assert_eq!(wakers.each_ref().map(Arc::strong_count), [1, 1, 1]);
    let mut late = pin!(token.cancelled());
    assert!(poll(&mut late, 0).is_ready(), "at the first poll");
}

#[test]
fn a_waker_that_panics_stops_no_other() {
    let token = CancelToken::new();
    let woken = [true, false].map(|panics| Arc::new(Woken(AtomicUsize::new(0), panics)));
    let mut futures = [token.cancelled(), token.cancelled()];
    for (future, woken) in futures.iter_mut().zip(&woken) {
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(pin!(future).poll(&mut cx).is_pending());
    }
    assert!(token.cancel());
    assert_eq!(woken.map(|w| get(&w.0)), [1, 1]);
}

#[test]
fn a_deadline_comes_and_not_early() {
    within(LIMIT, || {
        for millis in [1, 5, 20] {
            let (token, time) = (CancelToken::new(), Duration::from_millis(millis));
            let (child, start) = (token.child(), Instant::now());
            token.cancel_after(time).unwrap();
            assert_eq!(child.wait(), CancelReason::Deadline);
            assert!(start.elapsed() >= time);
        }
        // In the past, at once and in the caller.
        let (token, here) = (CancelToken::new(), thread::current().id());
        let callback = token.on_cancel(move || assert_eq!(thread::current().id(), here));
        token.cancel_at(Instant::now()).unwrap();
        assert_eq!(token.reason(), Some(CancelReason::Deadline));
        drop(callback);
        // Beyond every clock: never.
        let token = CancelToken::new();
        token.cancel_after(Duration::MAX).unwrap();
        assert_eq!(token.wait_timeout(Duration::from_millis(5)), None);
    });
}

#[test]
fn deadlines_come_in_order_and_cancelled_ones_not_at_all() {
    within(LIMIT, || {
        let log = Log::default();
        let busy = busy_timer();
        let base = Instant::now() + Duration::from_millis(20);
        let made = |name: &str, millis: u64| {
            let token = CancelToken::new();
            token
                .on_cancel({
                    let (log, name) = (log.clone(), name.to_owned());
                    move || log.write(&name)
                })
                .detach();
            token
                .cancel_at(base + Duration::from_millis(millis))
                .unwrap();
            token
        };
        let tokens = [("c", 20), ("a", 5), ("b", 10), ("b2", 10), ("b3", 10)];
        let mut tokens = tokens.map(|(name, millis)| made(name, millis));
        // Cancelled by hand: at once, and not again. Dropped: never.
        tokens[3].cancel();
        assert_eq!(log.take(), ["b2"]);
        drop(std::mem::take(&mut tokens[4]));
        let last = made("last", 30);
        drop(busy);
        last.wait();
        until("the callback of the last", || {
            log.0.lock().unwrap().len() == 4
        });
        assert_eq!(log.take(), ["a", "b", "c", "last"]);
    });
}

#[test]
fn an_earlier_deadline_takes_the_place_of_a_later_one() {
    within(LIMIT, || {
        let token = CancelToken::new();
        token.cancel_after(HOUR).unwrap();
        token.cancel_after(Duration::from_millis(5)).unwrap();
        token.cancel_after(HOUR).unwrap();
        assert_eq!(token.wait(), CancelReason::Deadline);
    });
}

#[test]
fn a_parent_s_deadline_reaches_children_when_the_parent_is_gone() {
    within(LIMIT, || {
        let parent = CancelToken::new();
        let child = parent.child();
        parent.cancel_after(Duration::from_millis(5)).unwrap();
        drop(parent);
        assert_eq!(child.wait(), CancelReason::Deadline);
    });
}

#[test]
fn a_callback_that_panics_on_the_timer_stops_no_deadline() {
    within(LIMIT, || {
        let (first, second) = (CancelToken::new(), CancelToken::new());
        first.on_cancel(|| quiet_panic("on the timer")).detach();
        first.cancel_after(Duration::from_millis(2)).unwrap();
        second.cancel_after(Duration::from_millis(4)).unwrap();
        assert_eq!(first.wait(), CancelReason::Deadline);
        assert_eq!(second.wait(), CancelReason::Deadline);
    });
}

/// How many threads of this process are the timer's.
fn timer_threads() -> Option<usize> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    Some(names.filter(|name| name.trim() == "filch-timer").count())
}

#[test]
fn ten_thousand_deadlines_and_few_threads() {
    in_a_child("ten_thousand_deadlines_and_few_threads", || {
        const TOKENS: usize = 10_000;
        let Some(before) = timer_threads() else {
            println!("skipped: the system does not tell");
            return;
        };
        assert_eq!(before, 0, "it starts with the first deadline");
        let (ran, count) = counting();
        let makers = [(); 4].map(|()| {
            let count = count.clone();
            thread::spawn(move || {
                let token = |n: usize| {
                    let token = CancelToken::new();
                    token.on_cancel(count.clone()).detach();
                    // In no order, and some of them in an hour.
                    let time = Duration::from_micros(1 + (n as u64 * 7919) % 20_000);
                    token
                        .cancel_after(if n.is_multiple_of(10) { HOUR } else { time })
                        .unwrap();
                    token
                };
                (0..TOKENS / 4).map(token).collect::<Vec<_>>()
            })
        });
        let tokens = makers.map(|maker| maker.join().unwrap()).concat();
        until("all that are due", || get(&ran) == TOKENS / 10 * 9);
        // One that serves, one that watches it; on a busy machine it may seem stuck for a while,
        // and be relieved.
        let threads = timer_threads().unwrap();
        assert!((1..=4).contains(&threads), "{threads} threads");
        let live = tokens.iter().filter(|token| !token.is_cancelled());
        assert_eq!(live.count(), TOKENS / 10);
    });
}

#[test]
fn a_pending_deadline_does_not_keep_the_process() {
    // The child process ends by itself, with the timer asleep, or this fails by its limit.
    in_a_child("a_pending_deadline_does_not_keep_the_process", || {
        let token = CancelToken::new();
        token.cancel_after(HOUR).unwrap();
        std::mem::forget(token);
    });
}

#[test]
fn threads_that_do_everything_at_once_agree_in_the_end() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 300;
    within(LIMIT, || {
        for round in 0..ROUNDS {
            let root = CancelToken::new();
            let middle = root.child();
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (root, middle) = (root.clone(), middle.clone());
                    thread::spawn(move || one_of_many(round, thread, &root, &middle))
                })
                .collect();
            let ends: Vec<End> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            let won = ends.iter().filter(|end| end.first);
            assert_eq!(won.count(), 1, "one cancels");
            for end in ends {
                assert!(end.tokens.iter().all(CancelToken::is_cancelled));
                assert_eq!(get(&end.ran), end.left, "callbacks that were not removed");
            }
        }
    });
}

/// The report of one thread.
#[derive(Default)]
struct End {
    /// It was the first to cancel.
    first: bool,
    /// How many of its callbacks it has not removed.
    left: usize,
    /// How many of them ran.
    ran: Arc<AtomicUsize>,
    tokens: Vec<CancelToken>,
}

/// Registers, removes, makes children, drops some of them, and cancels.
fn one_of_many(round: usize, thread: usize, root: &CancelToken, middle: &CancelToken) -> End {
    let (ran, count) = counting();
    let mut end = End {
        ran,
        ..End::default()
    };
    for step in 0..20 {
        let parent = if step % 2 == 0 { root } else { middle };
        let child = parent.child();
        let kept = child.on_cancel(count.clone());
        let removed = middle.on_cancel(count.clone());
        if (round + thread * 5) % 20 == step {
            end.first = root.cancel();
            assert!(child.is_cancelled() && middle.is_cancelled() && root.is_cancelled());
        }
        end.left += usize::from(!removed.remove());
        if step % 3 == 0 {
            end.left += usize::from(!kept.remove());
        } else {
            // It runs when the root is cancelled, which one of us is going to do.
            end.left += 1;
            kept.detach();
            end.tokens.push(child);
        }
    }
    end
}

/// A tree of tokens as a list of parents, with what should be true of it.
#[derive(Default)]
struct Model {
    tokens: Vec<Option<CancelToken>>,
    parents: Vec<Option<usize>>,
    cancelled: Vec<bool>,
    ran: Vec<(Arc<AtomicUsize>, usize)>,
}

impl Model {
    fn add(&mut self, parent: Option<usize>) {
        let token = match parent.map(|at| self.tokens[at].as_ref().expect("a living parent")) {
            Some(parent) => parent.child(),
            None => CancelToken::new(),
        };
        self.tokens.push(Some(token));
        self.parents.push(parent);
        self.cancelled
            .push(parent.is_some_and(|at| self.cancelled[at]));
    }

    fn cancel(&mut self, at: usize) {
        let token = self.tokens[at].as_ref().expect("a living token");
        assert_eq!(token.cancel(), !self.cancelled[at]);
        self.cancelled[at] = true;
        // Parents come before their children.
        for below in at + 1..self.tokens.len() {
            self.cancelled[below] |= self.parents[below].is_some_and(|up| self.cancelled[up]);
        }
    }

    fn check(&self) {
        for (token, cancelled) in self.tokens.iter().zip(&self.cancelled) {
            assert!(
                token
                    .as_ref()
                    .is_none_or(|token| token.is_cancelled() == *cancelled)
            );
        }
        for (ran, at) in &self.ran {
            assert_eq!(
                get(ran),
                usize::from(self.cancelled[*at]),
                "callback at {at}"
            );
        }
    }
}

proptest! {
    #[test]
    fn a_tree_does_what_a_list_of_parents_does(
        steps in prop::collection::vec((0_u8..8, any::<prop::sample::Index>()), 0..120),
    ) {
        let mut model = Model::default();
        let mut registrations = Vec::new();
        model.add(None);
        for (step, which) in steps {
            let living: Vec<usize> =
                (0..model.tokens.len()).filter(|at| model.tokens[*at].is_some()).collect();
            let at = if living.is_empty() { usize::MAX } else { living[which.index(living.len())] };
            match step {
                _ if living.is_empty() => model.add(None),
                0 => model.add(None),
                1..4 => model.add(Some(at)),
                4..6 => {
                    let (ran, count) = counting();
                    registrations.push(model.tokens[at].as_ref().unwrap().on_cancel(count));
                    model.ran.push((ran, at));
                }
                6 => model.tokens[at] = None,
                _ => model.cancel(at),
            }
            model.check();
        }
    }
}
