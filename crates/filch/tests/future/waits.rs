//! Futures and tasks that wait, or take long, in the middle of others: no wake is lost meanwhile.

use crate::support::{Flag, LIMIT, add, counter, get, pool, until, within};
use filch::{
    Pool,
    future::{checkpoint, yield_now},
};
use std::{
    future::poll_fn,
    hint,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Poll, Waker},
    thread,
    time::{Duration, Instant},
};

/// A future that waits for a signal, and then does something.
#[derive(Clone, Default)]
struct Event(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Event {
    fn ring(&self) {
        let wakers = {
            let mut event = self.0.lock().unwrap();
            event.0 = true;
            std::mem::take(&mut event.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    async fn rung(&self) {
        poll_fn(|cx| {
            let mut event = self.0.lock().unwrap();
            if event.0 {
                return Poll::Ready(());
            }
            event.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn is_rung(&self) -> bool {
        self.0.lock().unwrap().0
    }

    fn is_awaited(&self) -> bool {
        !self.0.lock().unwrap().1.is_empty()
    }
}

/// Long enough for every worker that has nothing to do to fall asleep, most likely. (If one does
/// not, a test sees less.)
fn let_others_sleep() {
    thread::sleep(Duration::from_millis(20));
}

/// A future on `pool` that waits for the bell, and what it says then.
fn listener(pool: &Pool, event: &Event) -> Flag {
    let (inside, heard) = (event.clone(), Flag::default());
    let set = heard.clone();
    pool.spawn_future(async move {
        inside.rung().await;
        set.set();
    })
    .detach();
    until("it listens", || event.is_awaited());
    heard
}

/// Calls `busy` in the first poll of a future, on a pool of two workers of which the other one
/// sleeps. It is given a bell and what its listener says; and another bell, whose listener rings
/// the first one after a while.
fn beside_a_sleeper(busy: impl Fn(&Pool, &Event, &Flag, &Event) + Send + Sync + 'static) {
    within(LIMIT, move || {
        let busy = Arc::new(busy);
        for _ in 0..3 {
            let (pool, last, first) = (pool(2), Event::default(), Event::default());
            let heard = listener(&pool, &last);
            let (relay, next) = (first.clone(), last.clone());
            pool.spawn_future(async move {
                relay.rung().await;
                let_others_sleep();
                next.ring();
            })
            .detach();
            until("it listens", || first.is_awaited());
            let (own, busy, inside) = (pool.clone(), busy.clone(), heard.clone());
            let done = Flag::default();
            let set = done.clone();
            pool.spawn_future(async move {
                let_others_sleep();
                busy(&own, &last, &inside, &first);
                inside.wait("another worker comes for the future that was woken");
                set.set();
            })
            .detach();
            done.wait("the long poll ends");
        }
    });
}

#[test]
fn wakes_of_a_helped_future_are_notified_when_the_helper_continues() {
    // The relay is queued here without a notification; it runs here, and wakes the other one, also
    // without one.
    beside_a_sleeper(|_, _, _, first| {
        first.ring();
        filch::yield_now();
    });
}

#[test]
fn wakes_of_a_helped_future_are_notified_after_a_wait() {
    beside_a_sleeper(|_, last, _, first| {
        first.ring();
        filch::block_on(last.rung());
    });
}

#[test]
fn wakes_of_a_future_in_a_checkpoint_are_notified() {
    beside_a_sleeper(|pool, last, _, _| {
        // More of them than a checkpoint runs, each woken by the one before.
        let bells: Vec<_> = (0..40).map(|_| Event::default()).collect();
        for (n, event) in bells.iter().enumerate() {
            let (own, next) = (event.clone(), bells.get(n + 1).unwrap_or(last).clone());
            let waits = async move {
                own.rung().await;
                next.ring();
            };
            pool.spawn_future(waits).detach();
        }
        until("all wait", || bells.iter().all(Event::is_awaited));
        let_others_sleep();
        let (relay, head) = (Event::default(), bells[0].clone());
        let inside = relay.clone();
        pool.spawn_future(async move {
            inside.rung().await;
            // The worker that was woken for this one finds nothing meanwhile.
            let_others_sleep();
            head.ring();
        })
        .detach();
        until("it waits", || relay.is_awaited());
        let_others_sleep();
        thread::scope(|s| {
            s.spawn(|| relay.ring());
        });
        while !bells[0].is_rung() {
            checkpoint();
        }
    });
}

#[test]
fn wakes_of_a_joined_closure_in_a_poll_are_notified() {
    beside_a_sleeper(|_, last, heard, _| {
        let stolen = Flag::default();
        filch::join(
            || {
                stolen.wait("the other worker takes the other half");
                let_others_sleep();
                last.ring();
                heard.wait("a worker takes it");
            },
            || stolen.set(),
        );
    });
}

#[test]
fn wakes_of_a_helped_closure_in_a_poll_are_notified() {
    beside_a_sleeper(|_, last, heard, _| {
        let (event, heard, done) = (last.clone(), heard.clone(), Event::default());
        let end = done.clone();
        filch::spawn(move || {
            let_others_sleep();
            event.ring();
            heard.wait("a worker takes it");
            end.ring();
        });
        filch::block_on(done.rung());
    });
}

#[test]
fn wakes_are_notified_before_a_call_to_another_pool() {
    beside_a_sleeper(|_, last, heard, _| {
        let other = pool(1);
        last.ring();
        other.join(|| heard.wait("a worker takes it"), || ());
    });
    // And what the call wakes.
    beside_a_sleeper(|own, last, heard, _| {
        pool(1).install(|| {
            own.install(|| {
                last.ring();
                heard.wait("a worker takes it");
            });
        });
    });
}

/// Calls `f` with more than half of the stack in use, on the only worker of a pool.
fn on_a_low_stack(f: impl FnOnce() + Send + 'static) {
    fn down(left: u32, f: &mut dyn FnMut()) {
        let frame = [0_u8; 4096];
        hint::black_box(&frame);
        match left {
            0 => f(),
            _ => down(left - 1, f),
        }
        hint::black_box(&frame);
    }
    within(LIMIT, || {
        let stack = 2 << 20;
        let pool = Pool::builder()
            .workers(1)
            .stack_size(stack)
            .build()
            .unwrap();
        let (mut f, done) = (Some(f), Flag::default());
        let set = done.clone();
        pool.spawn(move || {
            let frames = (stack as u32 / 4096) * 5 / 8;
            down(frames, &mut || f.take().expect("once")());
            set.set();
        });
        done.wait("it does not hang");
    });
}

/// Calls `f` isolated, on the only worker of a pool.
fn isolated(f: impl FnOnce() + Send + 'static) {
    within(LIMIT, || {
        let (pool, done) = (pool(1), Flag::default());
        let set = done.clone();
        pool.spawn(move || {
            filch::isolate(f);
            set.set();
        });
        done.wait("it does not hang");
    });
}

fn both_alone(f: impl FnOnce() + Clone + Send + 'static) {
    isolated(f.clone());
    on_a_low_stack(f);
}

#[test]
fn a_wait_alone_runs_what_its_task_has_queued() {
    both_alone(|| {
        let handle = filch::spawn_future(async { 7 });
        assert_eq!(handle.join().unwrap(), 7);
        let nested = filch::block_on(async {
            let handle = filch::spawn_future(async { filch::spawn_future(async { 8 }).await });
            handle.await.unwrap().unwrap()
        });
        assert_eq!(nested, 8);
        let count = counter();
        filch::future::scope(|s| {
            s.spawn(async {
                yield_now().await;
                add(&count);
            });
            s.spawn(async { add(&count) });
        });
        assert_eq!(get(&count), 2);
    });
}

#[test]
fn a_yield_alone_runs_what_its_task_has_queued() {
    both_alone(|| {
        let flag = Flag::default();
        let set = flag.clone();
        filch::block_on(async {
            filch::spawn_future(async move { set.set() }).detach();
            while !flag.is_set() {
                yield_now().await;
            }
        });
    });
}

#[test]
fn isolated_tasks_that_yield_take_turns() {
    both_alone(|| {
        let flag = Flag::default();
        let set = flag.clone();
        filch::block_on(async {
            // The oldest is what the others wait for.
            let first = filch::spawn_future(async move {
                yield_now().await;
                set.set();
            });
            let spinners: Vec<_> = (0..3)
                .map(|_| {
                    let flag = flag.clone();
                    filch::spawn_future(async move {
                        while !flag.is_set() {
                            yield_now().await;
                        }
                    })
                })
                .collect();
            first.await.unwrap();
            for spinner in spinners {
                spinner.await.unwrap();
            }
        });
    });
}

#[test]
fn mail_reaches_isolated_tasks_that_yield() {
    within(LIMIT, || {
        for spinners in [0, 1] {
            let pool = pool(1);
            let (began, called) = (Flag::default(), Flag::default());
            let (begins, seen) = (began.clone(), called.clone());
            pool.spawn(move || {
                filch::isolate(|| {
                    let spin = |seen: Flag| async move {
                        while !seen.is_set() {
                            yield_now().await;
                        }
                    };
                    let others: Vec<_> = (0..spinners)
                        .map(|_| filch::spawn_future(spin(seen.clone())))
                        .collect();
                    begins.set();
                    filch::block_on(spin(seen.clone()));
                    others.into_iter().for_each(|other| other.join().unwrap());
                });
            });
            began.wait("it yields");
            pool.broadcast(|_| called.set());
        }
    });
}

#[test]
fn a_wait_in_two_pools_runs_what_both_may_run() {
    within(LIMIT, || {
        for yields in [false, true] {
            let (a, b, done) = (pool(1), pool(1), Flag::default());
            let (own, set) = (a.clone(), done.clone());
            a.spawn(move || {
                filch::isolate(|| {
                    b.install(|| {
                        let handle = own.install(|| filch::spawn_future(async { 7 }));
                        filch::block_on(async {
                            while yields && !handle.is_finished() {
                                yield_now().await;
                            }
                            assert_eq!(handle.await.unwrap(), 7);
                        });
                    });
                });
                set.set();
            });
            done.wait("it does not hang");
        }
    });
}

#[test]
fn a_self_waking_future_does_not_keep_a_scope_from_its_tasks() {
    isolated(|| {
        let end = Flag::default();
        let spins = end.clone();
        filch::spawn_future(poll_fn(move |cx| {
            if spins.is_set() {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
        .detach();
        // What comes from another thread is not in the queue of this worker.
        filch::scope(|s| {
            thread::scope(|threads| {
                threads.spawn(|| s.spawn(|_| end.set()));
            });
        });
    });
}

filch::task_local! {
    static WHO: &'static str;
}

#[test]
fn helped_tasks_do_not_see_the_locals_of_the_helper() {
    within(LIMIT, || {
        let pool = pool(1);
        let look = || WHO.try_with(|who| *who);
        let handle = pool.spawn_future(WHO.scope("outer", async move {
            let inside = filch::spawn_future(async move { look() });
            assert_eq!(inside.join().unwrap(), None, "a wait runs it here");
            let seen = Arc::new(Mutex::new(Some("not run")));
            let (future, closure) = (seen.clone(), Arc::new(Mutex::new(Some("not run"))));
            let run = closure.clone();
            filch::join(
                move || {
                    filch::spawn_future(async move { *future.lock().unwrap() = look() }).detach();
                },
                || assert_eq!(look(), Some("outer"), "a part of the task"),
            );
            assert_eq!(*seen.lock().unwrap(), None, "a join runs it on the way");
            let task = filch::submit(move || *run.lock().unwrap() = look());
            task.join().unwrap();
            assert_eq!(*closure.lock().unwrap(), None, "a submitted task");
            let other = filch::spawn_future(WHO.scope("inner", async move { look() }));
            assert_eq!(other.join().unwrap(), Some("inner"));
            // Also while another thread reads the value.
            let both = WHO.with(|who| {
                let other = filch::spawn_future(WHO.scope("inner", async move { look() }));
                (*who, other.join().unwrap(), look())
            });
            assert_eq!(both, ("outer", Some("inner"), Some("outer")));
            assert_eq!(filch::block_on(async { look() }), Some("outer"));
            WHO.sync_scope("nested", || assert_eq!(look(), Some("nested")));
            yield_now().await;
            look()
        }));
        assert_eq!(handle.join().unwrap(), Some("outer"));
    });
}

#[test]
fn futures_of_a_guest_without_a_place_go_to_the_pool() {
    within(LIMIT, || {
        let (pool, event, leave) = (pool(1), Event::default(), Flag::default());
        let inside = counter();
        thread::scope(|s| {
            for _ in 0..32 {
                s.spawn(|| {
                    pool.install(|| {
                        add(&inside);
                        leave.wait("all are there");
                    });
                });
            }
            until("all places are taken", || get(&inside) == 32);
            let (rings, rung) = (event.clone(), Flag::default());
            let set = rung.clone();
            let answer = pool.install(|| {
                filch::spawn_future(async move {
                    rings.rung().await;
                    set.set();
                })
                .detach();
                filch::future::scope(|s| s.spawn(async { 7 }).join().unwrap())
            });
            assert_eq!(answer, 7);
            event.ring();
            rung.wait("it outlives the call");
            leave.set();
        });
    });
}

#[test]
fn block_on_in_a_pool_that_has_ended_sleeps() {
    within(LIMIT, || {
        let pool = pool(1);
        let late = pool.clone();
        pool.shutdown();
        let (event, begin) = (Event::default(), Instant::now());
        let rings = event.clone();
        let ringer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(400));
            rings.ring();
        });
        let used = late.install(|| {
            let before = busy_time();
            filch::block_on(event.rung());
            busy_time().saturating_sub(before)
        });
        assert!(begin.elapsed() >= Duration::from_millis(400));
        assert!(used < Duration::from_millis(100), "busy for {used:?}");
        ringer.join().unwrap();
    });
}

/// The CPU time of this thread; zero where it is unknown.
fn busy_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Futures that wake themselves are queued again and again, above the second half
/// of a join.
#[test]
fn a_join_ends_though_its_first_half_leaves_a_self_waking_future() {
    within(LIMIT, || {
        for isolated in [false, true] {
            let pool = pool(1);
            let stop = Arc::new(AtomicBool::new(false));
            let seen = stop.clone();
            let task = move || {
                let yields = async move {
                    while !seen.load(SeqCst) {
                        yield_now().await;
                    }
                };
                filch::join(|| filch::spawn_future(yields).detach(), || 5).1
            };
            let task = move || {
                if isolated {
                    filch::isolate(task)
                } else {
                    task()
                }
            };
            assert_eq!(pool.submit(task).join().unwrap(), 5);
            stop.store(true, SeqCst);
        }
    });
}

/// In isolated waits, a task that yields changes places with the jobs above the mark, even with the
/// second half of a join.
#[test]
fn a_join_finds_its_second_half_though_it_has_changed_places() {
    within(LIMIT, || {
        for _ in 0..20 {
            let pool = pool(1);
            let stop = Arc::new(AtomicBool::new(false));
            let seen = stop.clone();
            let task = move || {
                let (first, second) = (async_channel::bounded(1), async_channel::bounded(1));
                let yields = async move {
                    first.0.send(()).await.unwrap();
                    yield_now().await;
                    second.0.send(()).await.unwrap();
                    while !seen.load(SeqCst) {
                        yield_now().await;
                    }
                };
                filch::isolate(|| {
                    filch::spawn_future(yields).detach();
                    filch::block_on(first.1.recv()).unwrap();
                    let wait = || filch::block_on(second.1.recv()).unwrap();
                    let (_, five) = filch::join(wait, || 5);
                    five + filch::join(|| 1, || 2).1
                })
            };
            assert_eq!(pool.submit(task).join().unwrap(), 7);
            stop.store(true, SeqCst);
        }
    });
}

/// After a shutdown that timed out, the drop of the last handle does not wait either.
#[test]
fn a_limit_of_a_shutdown_is_kept_though_a_future_is_in_a_long_poll() {
    within(LIMIT, || {
        let pool = pool(1);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        pool.spawn_future(async move {
            yield_now().await;
            begin.send(()).unwrap();
            released.recv().unwrap();
        })
        .detach();
        begun.recv().unwrap();
        assert!(!pool.shutdown_timeout(Duration::from_millis(20)));
        release.send(()).unwrap();
    });
}
