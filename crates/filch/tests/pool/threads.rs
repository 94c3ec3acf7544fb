//! Which threads do the work of a pool: its own, those that others start, the one that builds it;
//! and what other threads do not run.

use crate::support::{Flag, LIMIT, panic_of, pool, quiet_panic, within};
use filch::{Pool, PoolThread, current_worker};
use std::{
    io,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

#[test]
fn a_call_on_a_worker_leaves_the_callers_thread() {
    within(LIMIT, || {
        let pool = pool(2);
        let here = thread::current().id();
        let seen = Mutex::new(vec![]);
        let answer = pool.on_worker(|| {
            filch::scope(|s| {
                for _ in 0..100 {
                    s.spawn(|_| {
                        seen.lock()
                            .unwrap()
                            .push((thread::current().id(), current_worker()));
                    });
                }
            });
            assert!(current_worker().unwrap() < 2);
            // On a worker it is right here.
            let there = thread::current().id();
            pool.on_worker(|| assert_eq!(thread::current().id(), there));
            42
        });
        assert_eq!(answer, 42);
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.len(), 100);
        assert!(
            seen.iter()
                .all(|(id, worker)| *id != here && worker.is_some())
        );
    });
}

#[test]
fn a_call_on_a_worker_panics_here() {
    let pool = pool(1);
    assert_eq!(
        panic_of(|| pool.on_worker(|| quiet_panic("there"))),
        "there"
    );
    assert_eq!(pool.on_worker(|| 1), 1);
}

#[test]
fn without_threads_the_caller_is_all_there_is() {
    let here = thread::current().id();
    let alone = pool(0);
    assert_eq!(alone.on_worker(|| thread::current().id()), here);
    let mut ran = None;
    alone.in_place_scope(|s| s.spawn(|_| ran = Some(thread::current().id())));
    assert_eq!(ran, Some(here));
    let ended = pool(1);
    ended.clone().shutdown();
    assert_eq!(ended.on_worker(|| thread::current().id()), here);
    let mut calls = 0;
    ended.in_place_scope(|s| s.spawn(|_| calls += 1));
    assert_eq!(calls, 1);
}

#[test]
fn two_pools_of_one_worker_that_call_each_other() {
    fn bounce(to: &Pool, back: &Pool, times: u32) -> u32 {
        match times {
            0 => 0,
            _ => to.on_worker(|| bounce(back, to, times - 1) + 1),
        }
    }
    within(LIMIT, || assert_eq!(bounce(&pool(1), &pool(1), 40), 40));
}

#[test]
fn a_guest_that_calls_on_a_worker_is_not_one() {
    within(LIMIT, || {
        let pool = pool(1);
        let here = thread::current().id();
        let there = pool.install(|| pool.on_worker(|| thread::current().id()));
        assert_ne!(there, here);
    });
}

#[test]
fn a_scope_in_place_spawns_from_everywhere() {
    within(LIMIT, || {
        let (pool, other) = (pool(2), pool(1));
        let (ran, here) = (AtomicUsize::new(0), thread::current().id());
        let count = |_: &filch::Scope<'_>| {
            assert_ne!(thread::current().id(), here);
            ran.fetch_add(1, Ordering::Relaxed);
        };
        let result = pool.in_place_scope(|s| {
            assert_eq!((thread::current().id(), current_worker()), (here, None));
            for _ in 0..100 {
                s.spawn(count);
                s.spawn_fifo(count);
                s.spawn(|s| s.spawn(count));
            }
            other.on_worker(|| s.spawn(count));
            s.spawn_broadcast(|s, worker| {
                assert_eq!(current_worker(), Some(worker));
                count(s);
            });
            "done"
        });
        assert_eq!((result, ran.into_inner()), ("done", 303));
    });
}

#[test]
fn a_scope_in_place_that_spawns_nothing_returns() {
    within(LIMIT, || assert_eq!(pool(1).in_place_scope(|_| 1), 1));
}

#[test]
fn a_scope_in_place_finishes_before_it_panics() {
    within(LIMIT, || {
        let (pool, ran) = (pool(2), AtomicUsize::new(0));
        let result = panic_of(|| {
            pool.in_place_scope(|s| {
                for _ in 0..50 {
                    s.spawn(|_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                }
                quiet_panic("here");
            });
        });
        assert_eq!((result, ran.into_inner()), ("here", 50));
        let result = panic_of(|| {
            pool.in_place_scope(|s| s.spawn(|_| quiet_panic("there")));
        });
        assert_eq!(result, "there");
    });
}

#[test]
fn a_worker_in_a_scope_of_another_pool_works_for_its_own() {
    within(LIMIT, || {
        // The only worker of `a` waits for a task of `b` that waits for a task of `a`.
        let (a, b) = (pool(1), pool(1));
        let mut answer = 0;
        a.on_worker(|| b.in_place_scope(|s| s.spawn(|_| answer = a.on_worker(|| 7))));
        assert_eq!(answer, 7);
    });
}

#[test]
fn detached_broadcasts_reach_every_worker() {
    within(LIMIT, || {
        let (told, panics) = mpsc::channel();
        let pool = Pool::builder()
            .workers(3)
            .on_panic(move |_| told.send(()).unwrap())
            .build()
            .unwrap();
        let (send, receive) = mpsc::channel();
        let again = send.clone();
        pool.spawn_broadcast(move |worker| send.send((worker, current_worker())).unwrap());
        pool.on_worker(|| {
            filch::spawn_broadcast(move |worker| again.send((worker, current_worker())).unwrap());
        });
        let mut calls: Vec<_> = receive.iter().collect();
        calls.sort_unstable();
        assert_eq!(
            calls,
            [0, 0, 1, 1, 2, 2].map(|worker| (worker, Some(worker)))
        );
        pool.spawn_broadcast(|_| quiet_panic("told"));
        assert_eq!(panics.iter().take(3).count(), 3);
        let alone = self::pool(0);
        let (send, receive) = mpsc::channel();
        alone.spawn_broadcast(move |worker| send.send(worker).unwrap());
        drop(alone);
        assert_eq!(receive.iter().collect::<Vec<_>>(), [0]);
    });
}

#[test]
fn yielding_to_the_own_queue() {
    assert!(!filch::yield_local() && !filch::has_local_tasks());
    let pool = pool(1);
    pool.on_worker(|| {
        let order = Arc::new(Mutex::new(vec![]));
        for n in 0..3 {
            let order = order.clone();
            filch::spawn(move || order.lock().unwrap().push(n));
        }
        assert!(filch::has_local_tasks());
        assert!(filch::yield_local() && filch::yield_local() && filch::yield_local());
        assert!(!filch::yield_local() && !filch::has_local_tasks());
        assert_eq!(*order.lock().unwrap(), [2, 1, 0]);
        // What was sent to this worker counts too.
        let order = order.clone();
        filch::spawn_broadcast(move |worker| order.lock().unwrap().push(worker + 10));
        assert!(filch::yield_local());
    });
}

#[test]
fn isolated_code_yields_only_to_what_it_has_queued() {
    pool(1).on_worker(|| {
        filch::spawn(|| ());
        filch::isolate(|| {
            assert!(!filch::yield_local());
            filch::spawn(|| ());
            assert!(filch::yield_local() && !filch::yield_local());
        });
        assert!(filch::yield_local());
    });
}

#[test]
fn threads_of_others_may_start_late_and_borrow() {
    within(LIMIT, || {
        let ended = AtomicUsize::new(0);
        let sum = thread::scope(|s| {
            let mut waiting: Vec<PoolThread> = vec![];
            let pool = Pool::builder()
                .workers(3)
                .name(|worker| format!("borrowed-{worker}"))
                .stack_size(1 << 20)
                .build_on(|thread| {
                    waiting.push(thread);
                    Ok(())
                })
                .unwrap();
            let (send, receive) = mpsc::channel();
            pool.spawn(move || send.send(current_worker()).unwrap());
            for thread in waiting {
                assert_eq!(thread.name(), format!("borrowed-{}", thread.worker()));
                assert_eq!(thread.stack_size(), Some(1 << 20));
                s.spawn(|| {
                    thread.run();
                    assert_eq!(current_worker(), None);
                    ended.fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(receive.recv().unwrap().is_some());
            pool.broadcast(|worker| worker).iter().sum::<usize>()
        });
        assert_eq!((sum, ended.into_inner()), (3, 3));
    });
}

#[test]
fn dropping_a_pool_on_threads_of_others_does_not_wait() {
    within(LIMIT, || {
        let mut threads = vec![];
        let pool = Pool::builder()
            .workers(1)
            .build_on(|thread| {
                threads.push(thread::spawn(|| thread.run()));
                Ok(())
            })
            .unwrap();
        let (barrier, ran) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..5 {
            let (barrier, ran) = (barrier.clone(), ran.clone());
            pool.spawn(move || {
                if ran.fetch_add(1, Ordering::Relaxed) == 0 {
                    barrier.wait();
                }
            });
        }
        drop(pool);
        barrier.wait();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(ran.load(Ordering::Relaxed), 5);
    });
}

#[test]
fn a_thread_that_cannot_be_found_sends_the_others_home() {
    within(LIMIT, || {
        let mut threads = vec![];
        let error = Pool::builder()
            .workers(3)
            .build_on(|thread| {
                if thread.worker() == 2 {
                    return Err(io::Error::other("no more"));
                }
                threads.push(thread::spawn(|| thread.run()));
                Ok(())
            })
            .unwrap_err();
        assert!(error.is_thread() && error.to_string().contains("no more"));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_start_hook_that_panics_on_a_foreign_thread_is_reported() {
    within(LIMIT, || {
        let (told, panics) = mpsc::channel();
        let pool = Pool::builder()
            .workers(1)
            .on_start(|_| quiet_panic("start"))
            .on_panic(move |payload| told.send(payload.downcast_ref::<&str>().copied()).unwrap())
            .build_on(|thread| thread::Builder::new().spawn(|| thread.run()).map(drop))
            .unwrap();
        assert_eq!(panics.recv(), Ok(Some("start")));
        assert_eq!(pool.on_worker(|| 1), 1, "it works all the same");
    });
}

#[test]
fn the_thread_that_builds_a_pool_as_its_first_worker() {
    within(LIMIT, || {
        let mut threads = vec![];
        let pool = Pool::builder()
            .workers(2)
            .with_current_thread()
            .on_start(|worker| assert_eq!(worker, 1, "not on this thread"))
            .build_on(|thread| {
                threads.push(thread::spawn(|| thread.run()));
                Ok(())
            })
            .unwrap();
        assert_eq!((threads.len(), current_worker()), (1, Some(0)));
        let here = thread::current().id();
        assert_eq!(pool.on_worker(|| thread::current().id()), here);
        assert_eq!(filch::join(|| 1, || 2), (1, 2));
        let ids = pool.broadcast(|_| thread::current().id());
        assert!(ids[0] == here && ids[1] != here);
        let again = Pool::builder().with_current_thread().build().unwrap_err();
        assert!(again.is_config(), "{again}");
        // The other one takes what is in its queue while it does something else.
        let (send, receive) = mpsc::channel();
        for _ in 0..10 {
            let send = send.clone();
            filch::spawn(move || send.send(current_worker()).unwrap());
        }
        assert!(receive.iter().take(10).all(|worker| worker == Some(1)));
        // And ends when the pool is dropped here, after everything that is queued.
        for _ in 0..10 {
            let send = send.clone();
            filch::spawn(move || send.send(current_worker()).unwrap());
        }
        drop(pool);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        drop(send);
        assert_eq!(receive.iter().count(), 10);
        // This thread stands in a pool of its own now.
        assert_eq!(filch::join(|| 1, || 2), (1, 2));
        filch::scope(|s| s.spawn(|_| assert_eq!(current_worker(), Some(0))));
        assert_eq!(filch::broadcast(|worker| worker), [0]);
    });
}

#[test]
fn a_pool_of_only_the_thread_that_builds_it() {
    within(LIMIT, || {
        let pool = Pool::builder()
            .workers(1)
            .with_current_thread()
            .build()
            .unwrap();
        let (send, receive) = mpsc::channel();
        pool.spawn(move || send.send(()).unwrap());
        assert!(receive.try_recv().is_err(), "not before it gives way");
        assert!(filch::yield_now());
        assert_eq!(receive.try_recv(), Ok(()));
        // From elsewhere, while it waits.
        let elsewhere = pool.clone();
        let other = thread::spawn(move || elsewhere.on_worker(current_worker));
        while !other.is_finished() {
            filch::yield_now();
        }
        assert_eq!(other.join().unwrap(), Some(0));
        let (send, receive) = mpsc::channel();
        pool.spawn(move || send.send(()).unwrap());
        drop(pool);
        assert_eq!(receive.try_recv(), Ok(()), "no other thread would run it");
        assert!(
            Pool::builder()
                .workers(0)
                .with_current_thread()
                .build()
                .is_err()
        );
    });
}

#[test]
fn the_most_workers_of_a_pool_are_known() {
    let too_many = Pool::builder().workers(Pool::MAX_WORKERS + 1);
    let refused = too_many.build_on(|_| unreachable!("it is refused before"));
    assert!(refused.unwrap_err().is_config());
}

#[test]
fn a_thread_that_stayed_in_a_pool_goes_on_while_the_pool_ends() {
    let once = || {
        let pool = Pool::builder().workers(3).with_current_thread();
        let pool = pool.build().unwrap();
        let (send, receive) = mpsc::channel();
        for _ in 0..20 {
            let send = send.clone();
            filch::spawn(move || filch::spawn(move || send.send(()).unwrap()));
        }
        drop(pool);
        // Nothing of this may be counted among the tasks that the pool waits for.
        let mut places = [0; 20];
        filch::scope(|s| {
            for place in &mut places {
                s.spawn(move |_| *place = 1);
            }
        });
        assert_eq!(places, [1; 20]);
        drop(send);
        assert_eq!(receive.iter().count(), 20, "all that was spawned before");
    };
    within(LIMIT, move || {
        for _ in 0..50 {
            thread::spawn(once).join().unwrap();
        }
    });
}

#[test]
fn a_shutdown_inside_of_the_pool_by_way_of_another_does_not_wait() {
    within(LIMIT, || {
        let (p, q) = (pool(1), pool(1));
        let (started, release) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (inside, waits) = mpsc::channel();
        let (other, first, last) = (q.clone(), started.clone(), release.clone());
        p.spawn(move || {
            inside.send(0).unwrap();
            let sum = other.install(|| {
                filch::scope(|s| {
                    s.spawn(|_| {
                        first.wait();
                        last.wait();
                    });
                    // The worker of the other pool has it; this one waits for it, and checks
                    // its box meanwhile.
                    first.wait();
                });
                1
            });
            inside.send(sum).unwrap();
        });
        // The only worker of `p` must not run the job of the broadcast before that task.
        assert_eq!(waits.recv(), Ok(0));
        // The only worker of `p` is in the middle of a task of `q`.
        assert_eq!(p.broadcast(|_| q.clone().shutdown()), [()]);
        assert!(waits.try_recv().is_err());
        release.wait();
        assert_eq!(waits.recv(), Ok(1));
        q.shutdown();
    });
}

/// Calls `f`, which must panic because a worker has no thread, and says which.
#[track_caller]
fn missing<R>(f: impl FnOnce() -> R) -> usize {
    let payload = panic::catch_unwind(AssertUnwindSafe(f)).err();
    let payload = payload.expect("a worker is missing");
    let text = payload.downcast_ref::<String>().expect("a text").clone();
    assert!(text.contains("has no thread"), "{text}");
    let number = text.split(' ').nth(1).unwrap();
    number.parse().unwrap()
}

#[test]
fn a_broadcast_to_a_worker_whose_thread_was_dropped_panics() {
    within(LIMIT, || {
        let mut kept = vec![];
        let pool = Pool::builder()
            .workers(2)
            .build_on(|thread| match thread.worker() {
                0 => thread::Builder::new().spawn(|| thread.run()).map(drop),
                _ => {
                    kept.push(thread);
                    Ok(())
                }
            })
            .unwrap();
        let calls = AtomicUsize::new(0);
        let count = |worker| {
            assert_eq!(worker, 0);
            calls.fetch_add(1, Ordering::Relaxed);
        };
        thread::scope(|s| {
            // What waits already when it is dropped does not wait any more.
            let waits = s.spawn(|| missing(|| pool.broadcast(count)));
            while calls.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            drop(kept);
            assert_eq!(waits.join().unwrap(), 1);
        });
        assert_eq!(missing(|| pool.broadcast(count)), 1);
        assert_eq!(missing(|| pool.install(|| filch::broadcast(count))), 1);
        let spawned = || pool.scope(|s| s.spawn_broadcast(|_, worker| count(worker)));
        assert_eq!(missing(spawned), 1);
        assert_eq!(calls.into_inner(), 4, "the other one was called each time");
        assert_eq!(pool.on_worker(current_worker), Some(0));
    });
}

#[test]
fn without_a_thread_of_the_pool_the_caller_is_all_there_is() {
    within(LIMIT, || {
        let mut kept = vec![];
        let pool = Pool::builder()
            .workers(2)
            .build_on(|thread| {
                kept.push(thread);
                Ok(())
            })
            .unwrap();
        thread::scope(|s| {
            let waits = s.spawn(|| pool.on_worker(|| thread::current().id()));
            // Until it waits, or at least most often.
            thread::sleep(Duration::from_millis(20));
            kept.clear();
            waits.join().unwrap();
        });
        let here = thread::current().id();
        assert_eq!(pool.on_worker(|| thread::current().id()), here);
        let mut seen = None;
        pool.in_place_scope(|s| s.spawn(|_| seen = Some(thread::current().id())));
        assert_eq!(seen, Some(here));
        assert!(missing(|| pool.broadcast(|_| ())) < 2);
    });
}

#[test]
fn a_pool_goes_on_without_the_thread_that_built_it() {
    within(LIMIT, || {
        let (end, ended) = mpsc::channel();
        let builder = Pool::builder().workers(2).with_current_thread();
        let builder = builder.on_exit(move |worker| end.send(worker).unwrap());
        let build = move || {
            let pool = builder.build().unwrap();
            assert_eq!(pool.broadcast(|worker| worker), [0, 1]);
            pool
        };
        let pool = thread::spawn(build).join().unwrap();
        assert_eq!(missing(|| pool.broadcast(|_| ())), 0);
        assert_eq!(pool.on_worker(current_worker), Some(1));
        drop(pool);
        assert_eq!(ended.recv(), Ok(1), "the other thread ends");

        let build = || Pool::builder().workers(1).with_current_thread().build();
        let pool = thread::spawn(build).join().unwrap().unwrap();
        let here = thread::current().id();
        assert_eq!(pool.on_worker(|| thread::current().id()), here);
        assert_eq!(missing(|| pool.broadcast(|_| ())), 0);
    });
}

/// Lets the only worker of a pool end, while `call` waits for a worker. Returns what it returns.
fn called_while_the_thread_ends<R: Send>(call: impl FnOnce(&Pool) -> R + Send) -> R {
    let (send, receive) = mpsc::channel();
    let (end, may_end) = mpsc::channel::<()>();
    let builds = thread::spawn(move || {
        let pool = Pool::builder().workers(1).with_current_thread().build();
        send.send(pool.unwrap()).unwrap();
        may_end.recv().unwrap();
    });
    let pool = receive.recv().unwrap();
    thread::scope(|s| {
        let waits = s.spawn(|| call(&pool));
        // Until it waits, or at least most often.
        thread::sleep(Duration::from_millis(20));
        end.send(()).unwrap();
        builds.join().unwrap();
        waits.join().unwrap()
    })
}

#[test]
fn calls_that_wait_for_the_only_worker_return_when_its_thread_ends() {
    within(LIMIT, || {
        let worked = called_while_the_thread_ends(|pool| {
            pool.on_worker(|| {
                let (a, b) = filch::join(|| 1, || 2);
                let submitted = filch::submit(|| 3).join().unwrap();
                let slept = filch::block_on(async {
                    filch::time::sleep(Duration::from_millis(1)).await;
                    4
                });
                let mut scoped = 0;
                filch::scope(|s| s.spawn(|_| scoped = 5));
                let mut sorted: Vec<u32> = (0..5000).rev().collect();
                filch::par::over(&mut sorted).sort();
                a + b + submitted + slept + scoped + u32::from(sorted.is_sorted())
            })
        });
        assert_eq!(worked, 16);
        let panicked = called_while_the_thread_ends(|pool| missing(|| pool.broadcast(|_| ())));
        assert_eq!(panicked, 0);
        let scoped = called_while_the_thread_ends(|pool| {
            let mut ran = false;
            pool.in_place_scope(|s| s.spawn(|_| ran = true));
            ran
        });
        assert!(scoped);
        let result = called_while_the_thread_ends(|pool| pool.submit(|| 7).join());
        assert_eq!(result.unwrap(), 7);
    });
}

/// A thread that was a worker waits for something else after its pool was dropped; the pool still
/// ends.
#[test]
fn a_pool_ends_while_its_former_thread_waits() {
    within(LIMIT, || {
        thread::spawn(|| {
            let (exited, has_exited) = mpsc::channel();
            let pool = Pool::builder()
                .workers(2)
                .on_exit(move |_| exited.send(()).unwrap_or_default())
                .with_current_thread()
                .build()
                .unwrap();
            let (go, wait) = mpsc::channel::<()>();
            let (begun, has_begun) = mpsc::channel();
            pool.spawn(move || {
                begun.send(()).unwrap();
                wait.recv().unwrap();
            });
            has_begun.recv().unwrap();
            drop(pool);
            filch::block_on(filch::time::sleep(Duration::from_millis(5)));
            go.send(()).unwrap();
            // The other worker has left.
            has_exited.recv().unwrap();
        })
        .join()
        .unwrap();
    });
}

/// What `on_worker` promises holds also while other threads from outside work for the pool: one of
/// them, which waits, must not take the call.
#[test]
fn calls_on_workers_are_not_taken_by_guests() {
    within(LIMIT, || {
        let pool = pool(1);
        let own: Vec<_> = pool.broadcast(|_| thread::current().id());
        for _ in 0..20 {
            let (begun, end) = (Flag::default(), Flag::default());
            thread::scope(|threads| {
                threads.spawn(|| {
                    pool.join(
                        || begun.wait("the other half on the worker"),
                        || {
                            begun.set();
                            end.wait("the call, or the time that it has");
                        },
                    );
                });
                begun.wait("both halves");
                let call = threads.spawn(|| pool.on_worker(|| thread::current().id()));
                thread::sleep(Duration::from_millis(10));
                end.set();
                assert!(own.contains(&call.join().unwrap()));
            });
        }
    });
}
