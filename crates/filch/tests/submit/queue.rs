//! Submitted tasks on their way: priorities, affinity, capacity.

use crate::support::{Drops, Flag, LIMIT, pool, until, within};
use filch::{Affinity, Pool, PoolBuilder, Priority, TaskHandle, TaskOverflow};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

/// A pool of one worker, which is busy until `go` is called; and the order in which tasks ran.
struct Jam {
    pool: Pool,
    go: Flag,
    order: Arc<Mutex<Vec<u32>>>,
}

impl Jam {
    fn new() -> Self {
        Self::on(pool(1))
    }

    fn on(pool: Pool) -> Self {
        let (begun, go) = (Flag::default(), Flag::default());
        let (begun_too, go_too) = (begun.clone(), go.clone());
        pool.spawn(move || {
            begun_too.set();
            go_too.wait("the end of the jam");
        });
        begun.wait("the jam");
        let order = Arc::default();
        Self { pool, go, order }
    }

    fn submit(&self, n: u32, priority: Priority) -> TaskHandle<()> {
        let order = self.order.clone();
        let task = self.pool.task(move || order.lock().unwrap().push(n));
        task.priority(priority).submit().unwrap()
    }

    /// Lets the tasks run, and says in which order they did.
    fn order(self) -> Vec<u32> {
        self.go.set();
        self.pool.shutdown();
        std::mem::take(&mut *self.order.lock().unwrap())
    }
}

#[test]
fn a_critical_task_starts_before_a_flood_of_low_ones() {
    let jam = Jam::new();
    for n in 0..500 {
        jam.submit(n, Priority::Low).detach();
    }
    jam.submit(1000, Priority::Critical).detach();
    let order = jam.order();
    assert_eq!(order.len(), 501);
    assert_eq!(order[0], 1000, "it is the next task that starts");
}

#[test]
fn urgent_tasks_come_first() {
    let jam = Jam::new();
    for (n, priority) in Priority::ALL.into_iter().enumerate() {
        jam.submit(n as u32, priority).detach();
    }
    assert_eq!(jam.order(), [3, 2, 1, 0]);
}

#[test]
fn a_critical_task_gets_past_low_ones_that_a_worker_has_queued_itself() {
    within(LIMIT, || {
        let pool = pool(1);
        let (order, told) = mpsc::channel();
        let root = pool.submit(move || {
            for n in 0..200 {
                let order = order.clone();
                let task = filch::task(move || order.send(n).unwrap());
                task.priority(Priority::Low).submit().unwrap().detach();
            }
            let task = filch::task(move || order.send(1000).unwrap());
            let task = task.priority(Priority::Critical);
            task.submit().unwrap().detach();
        });
        until("it is done", || root.is_finished());
        assert_eq!(told.recv(), Ok(1000));
        assert_eq!(told.iter().count(), 200);
    });
}

#[test]
fn a_low_task_runs_although_high_ones_never_end() {
    within(LIMIT, || {
        /// A task that submits itself anew.
        fn again(stop: Flag) {
            if !stop.is_set() {
                let task = filch::task(move || again(stop)).priority(Priority::High);
                task.submit().unwrap().detach();
            }
        }
        for workers in [1, 2] {
            let pool = pool(workers);
            let (stop, ran) = (Flag::default(), Flag::default());
            for _ in 0..8 {
                let stop = stop.clone();
                let task = pool.task(move || again(stop)).priority(Priority::High);
                task.submit().unwrap().detach();
            }
            let ran_too = ran.clone();
            let low = pool.task(move || ran_too.set()).priority(Priority::Low);
            low.submit().unwrap().detach();
            ran.wait("the low task");
            stop.set();
        }
    });
}

#[test]
fn a_priority_can_be_changed_while_the_task_waits() {
    let jam = Jam::new();
    let low = jam.submit(0, Priority::Low);
    let normal = jam.submit(1, Priority::Normal);
    let high = jam.submit(2, Priority::High);
    assert!(low.set_priority(Priority::Critical), "up");
    assert!(high.set_priority(Priority::Low), "down");
    assert!(normal.set_priority(Priority::Normal), "nothing changes");
    assert_eq!(low.priority(), Priority::Critical);
    let pool = jam.pool.clone();
    assert_eq!(jam.order(), [0, 1, 2]);
    assert!(!low.set_priority(Priority::Low), "too late");
    let metrics = pool.task_metrics();
    let finished = Priority::ALL.map(|priority| metrics.of(priority).finished);
    assert_eq!(finished, [1, 1, 0, 1], "it counts for what it was last");
}

#[test]
fn a_priority_can_be_changed_back_and_forth_from_any_thread() {
    within(LIMIT, || {
        let pool = pool(2);
        for round in 0..50 {
            let ran = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    let ran = ran.clone();
                    pool.submit(move || ran.fetch_add(1, SeqCst))
                })
                .collect();
            thread::scope(|s| {
                for offset in 0..2 {
                    let tasks = &tasks;
                    s.spawn(move || {
                        for (n, task) in tasks.iter().enumerate() {
                            task.set_priority(Priority::ALL[(n + offset + round) % 4]);
                        }
                    });
                }
            });
            tasks.into_iter().for_each(|task| {
                task.join().unwrap();
            });
            assert_eq!(ran.load(SeqCst), 20, "each ran once");
        }
        let total = pool.task_metrics().total();
        assert_eq!((total.submitted, total.finished), (1000, 1000));
    });
}

#[test]
fn tasks_run_on_the_worker_that_they_are_meant_for() {
    within(LIMIT, || {
        let pool = pool(4);
        let mut at_home = 0;
        for n in 0..80 {
            // So that all workers are asleep again.
            thread::sleep(Duration::from_millis(2));
            let worker = n % 4;
            let task = pool.task(filch::current_worker);
            let task = task.affinity(Affinity::Worker(worker));
            let ran_on = task.submit().unwrap().join().unwrap();
            at_home += u32::from(ran_on == Some(worker));
        }
        // By chance it would be 20.
        assert!(at_home >= 40, "only {at_home} of 80 ran at home");
        let anywhere = pool.task(|| ()).affinity(Affinity::Node(0));
        anywhere.submit().unwrap().join().unwrap();
    });
}

#[test]
fn a_task_whose_worker_is_stuck_runs_elsewhere() {
    within(LIMIT, || {
        let pool = pool(2);
        let (stuck, where_to) = mpsc::channel();
        let go = Flag::default();
        let go_too = go.clone();
        let sitting = pool.submit(move || {
            stuck.send(filch::current_worker().unwrap()).unwrap();
            go_too.wait("the end");
        });
        let busy = where_to.recv().unwrap();
        let task = pool.task(filch::current_worker);
        let task = task.affinity(Affinity::Worker(busy)).submit().unwrap();
        assert_eq!(task.join().unwrap(), Some(1 - busy));
        go.set();
        sitting.join().unwrap();
    });
}

#[test]
fn tasks_that_are_cancelled_behind_a_jam_leave_the_others_in_order() {
    // Enough that their tickets are removed from all queues, while one in each stays.
    let jam = Jam::new();
    let home = |task| Pool::task(&jam.pool, task).affinity(Affinity::Worker(0));
    let ran = Flag::default();
    for round in 0..2_000 {
        if round == 1_000 {
            Priority::ALL
                .into_iter()
                .enumerate()
                .for_each(|(n, priority)| {
                    jam.submit(n as u32, priority).detach();
                });
        }
        for priority in Priority::ALL {
            assert!(jam.submit(9, priority).cancel());
        }
        assert!(
            home(|| unreachable!("it is cancelled"))
                .submit()
                .unwrap()
                .cancel()
        );
    }
    let ran_too = ran.clone();
    let last = jam.pool.task(move || ran_too.set());
    last.affinity(Affinity::Worker(0))
        .submit()
        .unwrap()
        .detach();
    let pool = jam.pool.clone();
    assert_eq!(jam.order(), [3, 2, 1, 0]);
    assert!(ran.is_set());
    let total = pool.task_metrics().total();
    assert_eq!((total.cancelled, total.finished), (10_000, 5));
    assert!(
        pool.metrics().total().executed < 9_000,
        "most tickets were taken out before a worker came across them"
    );
}

#[test]
fn a_place_that_does_not_exist_is_an_error() {
    let drops = Drops::default();
    let pool = pool(2);
    let value = drops.value();
    let task = pool.task(move || drop(value)).affinity(Affinity::Worker(7));
    let refused = task.submit().unwrap_err();
    assert!(refused.is_misplaced() && !refused.is_full() && !refused.is_closed());
    assert_eq!(
        refused.to_string(),
        "there is no worker 7; the workers are 0 to 1"
    );
    assert_eq!(drops.seen(), 0);
    refused.into_inner()();
    let refused = pool.task(|| ()).affinity(Affinity::Node(1)).submit();
    assert_eq!(
        refused.unwrap_err().to_string(),
        "no worker is pinned to node 1; the nodes of the workers are 0"
    );
    let alone = crate::support::pool(0);
    let refused = alone.task(|| ()).affinity(Affinity::Worker(0)).submit();
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("no workers of its own")
    );
}

fn limited(workers: usize, tasks: usize, overflow: TaskOverflow) -> Pool {
    let builder: PoolBuilder = Pool::builder().workers(workers);
    let builder = builder.task_capacity(tasks).overflow(overflow);
    builder.build().unwrap()
}

#[test]
fn a_pool_without_room_for_a_task_cannot_be_built() {
    let error = Pool::builder().task_capacity(0).build().unwrap_err();
    assert!(error.is_config());
}

#[test]
fn a_full_pool_refuses_and_gives_the_closure_back() {
    let drops = Drops::default();
    let jam = Jam::on(limited(1, 2, TaskOverflow::Refuse));
    let queued = [
        jam.submit(0, Priority::Normal),
        jam.submit(1, Priority::Low),
    ];
    let value = drops.value();
    let refused = jam.pool.task(move || drop(value)).submit().unwrap_err();
    assert!(refused.is_full());
    assert_eq!(drops.seen(), 0);
    drop(refused);
    assert_eq!(drops.seen(), 1);
    let handle = jam.pool.submit(|| ());
    let error = handle.join().unwrap_err();
    assert!(error.is_refused() && error.to_string().contains("no room"));
    // A task that is cancelled makes room.
    assert!(queued[0].cancel());
    let again = jam.submit(3, Priority::High);
    assert!(jam.pool.task(|| ()).try_submit().unwrap_err().is_full());
    // One that is joined too, since it runs.
    again.join().unwrap();
    let pool = jam.pool.clone();
    jam.submit(4, Priority::High).detach();
    assert_eq!(jam.order(), [3, 4, 1]);
    let total = pool.task_metrics().total();
    assert_eq!((total.submitted, total.refused, total.cancelled), (4, 3, 1));
}

#[test]
fn a_full_pool_blocks_until_there_is_room() {
    within(LIMIT, || {
        let jam = Jam::on(limited(1, 1, TaskOverflow::Block));
        let first = jam.submit(0, Priority::Normal);
        let in_time = jam
            .pool
            .task(|| ())
            .submit_timeout(Duration::from_millis(5));
        assert!(in_time.unwrap_err().is_full());
        let (pool, entered) = (jam.pool.clone(), Flag::default());
        let entered_too = entered.clone();
        let other = thread::spawn(move || {
            let task = pool.submit(|| 5);
            entered_too.set();
            task.join().unwrap()
        });
        thread::sleep(Duration::from_millis(5));
        assert!(!entered.is_set());
        assert!(first.cancel(), "makes room");
        entered.wait("the other submission");
        assert_eq!(other.join().unwrap(), 5);
        let in_time = jam.pool.task(|| 6).submit_timeout(LIMIT).unwrap();
        assert_eq!(in_time.join().unwrap(), 6);
        jam.order();
    });
}

#[test]
fn a_full_pool_runs_the_task_in_the_caller() {
    let jam = Jam::on(limited(1, 1, TaskOverflow::RunInCaller));
    jam.submit(0, Priority::Normal).detach();
    let here = thread::current().id();
    let task = jam
        .pool
        .task(|| (thread::current().id(), filch::current_task().is_some()));
    let task = task.priority(Priority::Low).submit().unwrap();
    assert!(task.is_finished());
    assert_eq!(task.join().unwrap(), (here, true));
    let bad = jam
        .pool
        .submit(|| crate::support::quiet_panic("in the caller"));
    assert!(bad.join().unwrap_err().is_panic(), "the caller goes on");
    assert!(jam.pool.task(|| ()).try_submit().unwrap_err().is_full());
    let total = jam.pool.task_metrics().total();
    assert_eq!((total.submitted, total.inlined, total.refused), (3, 2, 1));
    jam.order();
}

#[test]
fn a_worker_that_waits_for_room_makes_it() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let pool = limited(workers, 1, TaskOverflow::Block);
            let sum = pool.install(|| {
                let tasks: Vec<_> = (0..50_u32).map(|n| filch::submit(move || n)).collect();
                tasks
                    .into_iter()
                    .map(|task| task.join().unwrap())
                    .sum::<u32>()
            });
            assert_eq!(sum, 1225);
            // From outside too, even if no other thread is there to make room.
            let tasks: Vec<_> = (0..50_u32).map(|n| pool.submit(move || n)).collect();
            let sum: u32 = tasks.into_iter().map(|task| task.join().unwrap()).sum();
            assert_eq!(sum, 1225);
            // And where the worker may not run what is in the way.
            let sum = pool.install(|| {
                filch::isolate(|| {
                    let tasks: Vec<_> = (0..5_u32).map(|n| filch::submit(move || n)).collect();
                    tasks
                        .into_iter()
                        .map(|task| task.join().unwrap())
                        .sum::<u32>()
                })
            });
            assert_eq!(sum, 10);
        }
    });
}

#[test]
fn tasks_that_want_room_don_t_wait_for_each_other() {
    // Tasks that wait for room run others, which need room too, while threads from outside wait.
    within(LIMIT, || {
        for capacity in [1, 2] {
            let pool = limited(2, capacity, TaskOverflow::Block);
            let sum = Arc::new(AtomicUsize::new(0));
            thread::scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| {
                        for _ in 0..200 {
                            let sum = sum.clone();
                            let task = pool.submit(move || {
                                let nested = filch::submit(|| filch::submit(|| 1).join().unwrap());
                                sum.fetch_add(nested.join().unwrap(), SeqCst);
                            });
                            task.detach();
                        }
                    });
                }
            });
            pool.shutdown();
            assert_eq!(sum.load(SeqCst), 800);
        }
    });
}

#[test]
fn submissions_can_be_awaited() {
    within(LIMIT, || {
        let jam = Jam::on(limited(1, 1, TaskOverflow::Refuse));
        let first = jam.submit(0, Priority::Normal);
        let mut cx = Context::from_waker(Waker::noop());
        let mut second = jam.pool.task(|| 2).submit_async();
        let mut third = jam.pool.task(|| 3).submit_async();
        assert!(Pin::new(&mut second).poll(&mut cx).is_pending());
        assert!(Pin::new(&mut third).poll(&mut cx).is_pending());
        // Waiters come first.
        first.cancel();
        assert!(jam.pool.task(|| ()).try_submit().unwrap_err().is_full());
        drop(second);
        let Poll::Ready(third) = Pin::new(&mut third).poll(&mut cx) else {
            panic!("the one before it has gone")
        };
        let third = third.unwrap();
        jam.order();
        assert_eq!(third.join().unwrap(), 3);
        // Without workers, the thread that polls makes room.
        let alone = limited(0, 1, TaskOverflow::Refuse);
        let first = alone.submit(|| 1);
        let mut second = alone.task(|| 2).submit_async();
        let Poll::Ready(second) = Pin::new(&mut second).poll(&mut cx) else {
            panic!("there is no other thread to wait for")
        };
        assert!(first.is_finished());
        assert_eq!(second.unwrap().join().unwrap(), 2);
    });
}

/// Four threads submit, each in its own way, to a pool with little room.
fn crowd(overflow: TaskOverflow, submit: fn(&Pool, &Arc<AtomicUsize>) -> Option<TaskHandle<()>>) {
    const EACH: usize = 2_000;
    within(LIMIT, move || {
        let pool = limited(2, 8, overflow);
        let ran = Arc::new(AtomicUsize::new(0));
        let accepted: usize = thread::scope(|s| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    s.spawn(|| {
                        let tasks: Vec<_> = (0..EACH).filter_map(|_| submit(&pool, &ran)).collect();
                        let accepted = tasks.len();
                        tasks.into_iter().for_each(|task| task.join().unwrap());
                        accepted
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(ran.load(SeqCst), accepted, "each ran once");
        let total = pool.task_metrics().total();
        assert_eq!(
            (total.submitted, total.finished),
            (accepted as u64, accepted as u64)
        );
        assert_eq!(total.submitted + total.refused, 4 * EACH as u64);
        if overflow != TaskOverflow::Refuse {
            assert_eq!(accepted, 4 * EACH, "nothing is refused");
        }
        // All the room is there again.
        let jam = Jam::on(pool.clone());
        let other = Jam::on(pool);
        for n in 0..8 {
            jam.pool.task(move || n).try_submit().unwrap().detach();
        }
        assert!(jam.pool.task(|| ()).try_submit().is_err());
        jam.go.set();
        other.go.set();
    });
}

fn count(ran: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let ran = ran.clone();
    move || {
        ran.fetch_add(1, SeqCst);
    }
}

#[test]
fn nothing_is_lost_when_many_block() {
    crowd(TaskOverflow::Block, |pool, ran| {
        Some(pool.submit(count(ran)))
    });
}

#[test]
fn nothing_is_lost_when_many_are_refused() {
    crowd(TaskOverflow::Refuse, |pool, ran| {
        pool.task(count(ran)).submit().ok()
    });
}

#[test]
fn nothing_is_lost_when_many_run_their_own() {
    crowd(TaskOverflow::RunInCaller, |pool, ran| {
        Some(pool.submit(count(ran)))
    });
}

#[test]
fn nothing_is_lost_when_many_await_room() {
    crowd(TaskOverflow::Block, |pool, ran| {
        let mut submission = pool.task(count(ran)).submit_async();
        let woken = Arc::new(Unpark(AtomicBool::new(false), thread::current()));
        let waker = Waker::from(woken.clone());
        loop {
            match Pin::new(&mut submission).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(task) => return Some(task.unwrap()),
                Poll::Pending => {
                    while !woken.0.swap(false, SeqCst) {
                        thread::park();
                    }
                }
            }
        }
    });
}

#[test]
fn nothing_is_lost_when_many_wait_for_a_while() {
    crowd(TaskOverflow::Block, |pool, ran| {
        Some(pool.task(count(ran)).submit_timeout(LIMIT).unwrap())
    });
}

struct Unpark(AtomicBool, thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
        self.1.unpark();
    }
}

#[test]
fn a_pool_that_closes_ends_all_waits() {
    within(LIMIT, || {
        let jam = Jam::on(limited(1, 1, TaskOverflow::Block));
        jam.submit(0, Priority::Normal).detach();
        let pool = jam.pool.clone();
        let blocked = thread::spawn(move || pool.submit(|| 1).join());
        thread::sleep(Duration::from_millis(5));
        jam.order();
        // Let in before the pool was closed, or refused after.
        match blocked.join().unwrap() {
            Ok(one) => assert_eq!(one, 1),
            Err(error) => assert!(error.is_refused(), "{error}"),
        }
    });
}
