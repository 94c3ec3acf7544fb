//! Futures that belong together: scopes, groups, local sets; and values that go with them.

use crate::support::{Flag, LIMIT, panic_of, pool, quiet_panic, within};
use filch::future::{FutureGroup, LocalGroup, LocalSet, scope, spawn_local, yield_now};
use std::{
    cell::{Cell, RefCell},
    future::{pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
    thread,
};

#[test]
fn scoped_futures_borrow() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            let mut numbers = vec![1; 100];
            let seen = AtomicUsize::new(0);
            let sum = pool.future_scope(|s| {
                let handles: Vec<_> = numbers
                    .iter_mut()
                    .map(|n| {
                        let seen = &seen;
                        s.spawn(async move {
                            yield_now().await;
                            *n += 1;
                            seen.fetch_add(1, SeqCst);
                            &*n
                        })
                    })
                    .collect();
                let mut sum = 0;
                for (at, handle) in handles.into_iter().enumerate() {
                    match at % 2 {
                        0 => sum += handle.join().unwrap(),
                        _ => drop(handle),
                    }
                }
                sum
            });
            assert_eq!(
                (sum, seen.into_inner()),
                (100, 100),
                "also those that were not joined"
            );
            assert_eq!(numbers, [2; 100]);
        }
    });
}

#[test]
fn a_scope_spawns_inside_of_its_futures() {
    within(LIMIT, || {
        let pool = pool(1);
        let count = AtomicUsize::new(0);
        pool.future_scope(|s| {
            let count = &count;
            s.spawn(async move {
                for _ in 0..10 {
                    let inner = s.spawn(async move {
                        count.fetch_add(1, SeqCst);
                    });
                    inner.await.unwrap();
                }
            });
        });
        assert_eq!(count.into_inner(), 10);
    });
}

#[test]
fn a_panic_in_a_scope_cancels_the_rest() {
    within(LIMIT, || {
        let pool = pool(1);
        struct Counted<'a>(&'a AtomicUsize);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let dropped = AtomicUsize::new(0);
        let what = panic_of(|| {
            pool.future_scope(|s| {
                for _ in 0..10 {
                    let counted = Counted(&dropped);
                    s.spawn(async move {
                        let _counted = counted;
                        pending::<()>().await;
                    });
                }
                quiet_panic("in the scope");
            });
        });
        assert_eq!((what, dropped.into_inner()), ("in the scope", 10));
        // A panic of a future is its handle's.
        let error = pool.future_scope(|s| s.spawn(async { quiet_panic("inside") }).join());
        assert!(error.unwrap_err().is_panic());
        // One that is cancelled is gone when the scope ends.
        let text = String::from("borrowed");
        pool.future_scope(|s| {
            let stuck = s.spawn(async {
                pending::<()>().await;
                text.len()
            });
            stuck.cancel();
            assert!(stuck.join().unwrap_err().is_cancelled());
        });
    });
}

#[test]
fn a_scope_on_a_pool_that_ends() {
    within(LIMIT, || {
        let pool = pool(1);
        let late = pool.clone();
        pool.shutdown();
        let text = String::from("borrowed");
        late.future_scope(|s| {
            let handle = s.spawn(async { text.len() });
            assert!(handle.join().unwrap_err().is_cancelled());
        });
    });
}

#[test]
fn scopes_in_tasks_and_without_a_pool() {
    within(LIMIT, || {
        let pool = pool(1);
        let sum = pool.submit(|| {
            let numbers = [1, 2, 3];
            scope(|s| {
                let handles: Vec<_> = numbers
                    .iter()
                    .map(|n| s.spawn(async move { n * 2 }))
                    .collect();
                filch::block_on(async {
                    let mut sum = 0;
                    for handle in handles {
                        sum += handle.await.unwrap();
                    }
                    sum
                })
            })
        });
        assert_eq!(sum.join().unwrap(), 12);
        assert_eq!(scope(|s| s.spawn(async { 5 }).join().unwrap()), 5);
    });
}

#[test]
fn a_group_gives_each_result_once() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            let mut group = pool.future_group();
            for n in 0..100 {
                group.spawn(async move {
                    for _ in 0..n % 5 {
                        yield_now().await;
                    }
                    if n == 50 {
                        quiet_panic("fifty");
                    }
                    n
                });
            }
            let stuck = group.spawn(pending());
            stuck.cancel();
            let results = pool.block_on(group.join_all());
            let mut values: Vec<i32> = results
                .iter()
                .filter_map(|r| r.as_ref().ok().copied())
                .collect();
            values.sort_unstable();
            assert_eq!(values, (0..100).filter(|n| *n != 50).collect::<Vec<_>>());
            let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
            assert_eq!(errors.iter().filter(|e| e.is_panic()).count(), 1);
            assert_eq!(errors.iter().filter(|e| e.is_cancelled()).count(), 1);
            assert!(group.is_empty());
            assert!(pool.block_on(group.join_next()).is_none());
        }
    });
}

#[test]
fn a_group_that_is_dropped_cancels_the_rest() {
    within(LIMIT, || {
        let pool = pool(1);
        let held = Arc::new(());
        let mut group = FutureGroup::new();
        pool.block_on(async {
            for _ in 0..10 {
                let held = held.clone();
                group.spawn(async move {
                    let _held = held;
                    pending::<()>().await;
                });
            }
        });
        assert_eq!(group.len(), 10);
        drop(group);
        crate::support::until("all are dropped", || Arc::strong_count(&held) == 1);
        let (mut group, done) = (pool.future_group(), Flag::default());
        let set = done.clone();
        group.spawn(async move { set.set() });
        group.detach_all();
        drop(group);
        done.wait("detached futures go on");
    });
}

#[test]
fn a_group_gives_what_is_done_without_a_wait() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            let mut group = pool.future_group();
            assert!(group.try_join_next().is_none(), "it is empty");
            // More than the budget of a poll.
            for n in 0..1000 {
                group.spawn(async move { n });
            }
            let never = group.spawn(pending());
            let results = pool.block_on(async {
                let mut results = Vec::new();
                while results.len() < 1000 {
                    while let Some(result) = group.try_join_next() {
                        results.push(result.unwrap());
                    }
                    yield_now().await;
                }
                results
            });
            assert_eq!(results.iter().sum::<usize>(), 499_500);
            assert!(group.try_join_next().is_none() && group.len() == 1);
            pool.block_on(group.shutdown());
            assert!(group.is_empty() && never.is_finished());
        }
    });
}

#[test]
fn a_group_of_local_futures_gives_each_result_once() {
    within(LIMIT, || {
        let held = Rc::new(Cell::new(0));
        let set = LocalSet::new();
        set.block_on(async {
            let mut group = LocalGroup::new();
            for n in 0..500 {
                let held = held.clone();
                group.spawn_local(async move {
                    if n % 3 == 0 {
                        yield_now().await;
                    }
                    if n % 5 == 0 {
                        quiet_panic("a fifth");
                    }
                    held.set(held.get() + 1);
                    n
                });
            }
            let (mut values, mut panics) = (Vec::new(), 0);
            while let Some(result) = group.join_next().await {
                match result {
                    Ok(n) => values.push(n),
                    Err(error) => panics += usize::from(error.is_panic()),
                }
            }
            values.sort_unstable();
            values.dedup();
            assert_eq!((values.len(), panics, held.get()), (400, 100, 400));
        });
        let mut group = LocalGroup::new();
        group.spawn_local_on(&set, async { 7 });
        let kept = held.clone();
        group.spawn_local_on(&set, async move {
            let _kept = kept;
            pending().await
        });
        assert_eq!(set.block_on(group.join_next()).unwrap().unwrap(), 7);
        assert_eq!((group.len(), Rc::strong_count(&held)), (1, 2));
        drop(group);
        assert_eq!((set.len(), Rc::strong_count(&held)), (0, 1));
        // A set that ends ends its futures, and the group reports it.
        let mut group = LocalGroup::new();
        group.spawn_local_on(&set, pending::<()>());
        drop(set);
        let result = group.try_join_next().unwrap();
        assert!(result.unwrap_err().is_cancelled());
        assert!(filch::block_on(group.join_all()).is_empty());
    });
}

#[test]
fn local_futures_stay_on_their_thread() {
    within(LIMIT, || {
        let set = LocalSet::new();
        let (log, home) = (Rc::new(RefCell::new(Vec::new())), thread::current().id());
        let pool = pool(1);
        let total = set.block_on(async {
            let handles: Vec<_> = (0..5)
                .map(|n| {
                    let (log, pool) = (log.clone(), pool.clone());
                    spawn_local(async move {
                        // Woken by a worker of a pool.
                        let there = pool.spawn_future(async move { n }).await.unwrap();
                        assert_eq!(thread::current().id(), home);
                        yield_now().await;
                        log.borrow_mut().push(there);
                        there
                    })
                })
                .collect();
            let mut total = 0;
            for handle in handles {
                total += handle.await.unwrap();
            }
            total
        });
        assert_eq!((total, log.borrow().len(), set.len()), (10, 5, 0));
    });
}

#[test]
fn local_futures_panic_are_cancelled_and_dropped() {
    within(LIMIT, || {
        let held = Rc::new(());
        let set = LocalSet::new();
        let polls = Rc::new(Cell::new(0));
        let kept = held.clone();
        let waiting = set.spawn_local(async move {
            let _kept = kept;
            pending::<()>().await;
        });
        set.block_on(async {
            let bad = spawn_local(async { quiet_panic("here") });
            assert!(bad.await.unwrap_err().is_panic());
            let never = spawn_local(pending::<()>());
            yield_now().await;
            never.cancel();
            assert!(never.is_finished());
            assert!(never.await.unwrap_err().is_cancelled());
            let count = polls.clone();
            spawn_local(poll_fn(move |_| {
                count.set(count.get() + 1);
                Poll::<()>::Pending
            }))
            .detach();
            for _ in 0..10 {
                yield_now().await;
            }
            // One that wakes itself for ever stops no other.
            spawn_local(async {
                loop {
                    yield_now().await;
                }
            })
            .detach();
            spawn_local(async {}).await.unwrap();
        });
        assert_eq!(polls.get(), 1, "it was not woken");
        assert_eq!(set.len(), 3);
        drop(set);
        assert_eq!(Rc::strong_count(&held), 1);
        assert!(waiting.is_finished());
        let outside = catch_unwind(AssertUnwindSafe(|| drop(spawn_local(async {}))));
        assert!(outside.is_err(), "there is no set");
    });
}

#[test]
fn a_local_future_spawns_when_it_is_dropped() {
    struct Spawns(Rc<Cell<u32>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let count = self.0.clone();
            self.0.set(self.0.get() + 1);
            drop(spawn_local(async move { count.set(100) }));
        }
    }
    let count = Rc::new(Cell::new(0));
    let (set, spawns) = (LocalSet::new(), Spawns(count.clone()));
    set.spawn_local(async move {
        let _spawns = spawns;
        pending::<()>().await;
    })
    .detach();
    set.block_on(yield_now());
    drop(set);
    assert_eq!(count.get(), 1);
}

filch::task_local! {
    static NAME: &'static str;
    static DEPTH: u32;
}

#[test]
fn task_local_values_go_with_their_future() {
    within(LIMIT, || {
        let pool = pool(2);
        let handles: Vec<_> = ["a", "b", "c", "d"]
            .into_iter()
            .map(|name| {
                pool.spawn_future(NAME.scope(name, async move {
                    for _ in 0..100 {
                        assert_eq!(NAME.get(), name);
                        yield_now().await;
                    }
                    let inner = NAME.scope("inner", async { NAME.get() }).await;
                    assert_eq!((inner, NAME.get()), ("inner", name));
                    let spawned = filch::spawn_future(async { NAME.try_with(|_| ()) });
                    assert_eq!(spawned.await.unwrap(), None, "not inherited");
                    DEPTH.sync_scope(1, || DEPTH.sync_scope(2, || DEPTH.get()))
                }))
            })
            .collect();
        for handle in handles {
            assert_eq!(handle.join().unwrap(), 2);
        }
        // A panic leaves nothing behind.
        let bad = pool.spawn_future(NAME.scope("bad", async { quiet_panic("with a name") }));
        assert!(bad.join().unwrap_err().is_panic());
        for seen in pool.broadcast(|_| NAME.try_with(|_| ())) {
            assert_eq!(seen, None);
        }
    });
}
