//! A small program for each public module: a few tasks each, for checkers that make a program a
//! thousand times slower.
//!
//! Each program frees what its tasks borrow as soon as it may, and sends values with destructors
//! through every queue, so that Miri and the sanitizers can see a use after free, a double drop or
//! a leak.

use filch::{
    CancelToken, CurrentWorker, Executor, Fold, Graph, Pool, Priority, Semaphore,
    engine::PerWorker,
    fold,
    fold::{Adaptive, AtTheEnd, Tasks},
    future::{LocalSet, yield_now},
    graph::{Pipeline, SharedPlan},
    time::{self, PausedClock},
};
use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Two workers: one to queue, one to steal.
fn pool() -> Pool {
    #[cfg(filch_canary)]
    canary::set_as_asked();
    Pool::builder().workers(2).spin_rounds(2).build().unwrap()
}

/// The gate asks for a defect with `FILCH_CANARY=name`, and the checker must then report it.
#[cfg(filch_canary)]
mod canary {
    use filch::canary::{Canary, set};

    pub(crate) fn set_as_asked() {
        let canary = match std::env::var("FILCH_CANARY").as_deref() {
            Ok("BlockUse") => Canary::BlockUse,
            Ok("FoldArrive") => Canary::FoldArrive,
            Ok(name) => panic!("{name} is no canary of these programs"),
            Err(_) => return,
        };
        set(Some(canary));
    }
}

/// A counter for tasks that are counted and not borrowed from.
fn counter() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(0))
}

fn add(to: &AtomicUsize) {
    to.fetch_add(1, Ordering::Relaxed);
}

fn read(from: &AtomicUsize) -> usize {
    from.load(Ordering::Relaxed)
}

fn fib(pool: &Pool, n: u32) -> u32 {
    if n < 2 {
        return n;
    }
    let (a, b) = pool.join(|| fib(pool, n - 1), || fib(pool, n - 2));
    a + b
}

#[test]
fn resizes() {
    let pool = Pool::builder().workers(2).max_workers(3).spin_rounds(2);
    let (pool, ran) = (pool.build().unwrap(), counter());
    for workers in [3, 1, 2] {
        let (text, inside) = (String::from("borrowed"), pool.clone());
        pool.scope(|s| {
            s.at_most(2);
            for _ in 0..3 {
                s.spawn(|_| _ = text.len() + read(&ran));
            }
        });
        let (first, second) = (ran.clone(), ran.clone());
        let task = pool.submit(move || {
            filch::spawn(move || add(&first));
            inside.resize(workers).unwrap();
        });
        let future = pool.spawn_future(async move {
            yield_now().await;
            add(&second);
        });
        task.join().unwrap();
        future.join().unwrap();
        assert_eq!(pool.broadcast(Box::new).len(), workers);
    }
    pool.shutdown();
    assert_eq!(read(&ran), 6);
}

#[test]
fn joins() {
    let pool = pool();
    assert_eq!(fib(&pool, 5), 5);
    let text = Box::new(String::from("borrowed"));
    let (length, copy) = pool.join(|| text.len(), || text.clone());
    drop(text);
    assert_eq!((length, copy.as_str()), (8, "borrowed"));
}

fn fib_with(cx: &CurrentWorker, n: u32) -> u32 {
    if n < 2 {
        return n;
    }
    let (a, b) = cx.join(|cx| fib_with(cx, n - 1), |cx| fib_with(cx, n - 2));
    a + b
}

#[test]
fn joins_that_carry_the_worker() {
    let (pool, other) = (pool(), Pool::builder().workers(0).build().unwrap());
    assert_eq!(pool.with(|cx| fib_with(cx, 5)), 5);
    let text = Box::new(String::from("borrowed"));
    let (length, copy) = pool.with(|cx| {
        // A worker that is not the innermost one of its thread, and a scope of it.
        other.install(|| {
            cx.scope(|s| s.spawn(|_| assert_eq!(text.len(), 8)));
            cx.join(|_| text.len(), |cx| (fib_with(cx, 3), text.clone()).1)
        })
    });
    drop(text);
    assert_eq!((length, copy.as_str()), (8, "borrowed"));
}

#[test]
fn calls_on_a_worker_and_on_all() {
    let pool = pool();
    let number = Box::new(5);
    let borrowed = &*number;
    let got = pool.on_worker(move || fib(&Pool::current().unwrap(), *borrowed));
    let all = pool.broadcast(|_worker| *number);
    drop(number);
    assert_eq!((got, all), (5, vec![5, 5]));
}

#[test]
fn scopes_whose_borrows_end_at_once() {
    let pool = pool();
    let mut numbers = vec![1, 2, 3];
    pool.scope(|s| {
        for n in &mut numbers {
            s.spawn(move |s| {
                *n += 1;
                s.spawn(move |_| *n *= 10);
            });
        }
    });
    assert_eq!(numbers, [20, 30, 40]);
    drop(numbers);
    let (number, sum) = (Box::new(5), counter());
    let borrowed = &*number;
    pool.in_place_scope(|s| {
        for _ in 0..2 {
            let sum = sum.clone();
            s.spawn_fifo(move |_| {
                sum.fetch_add(*borrowed, Ordering::Relaxed);
            });
        }
    });
    drop(number);
    assert_eq!(read(&sum), 10);
}

#[test]
fn spawned_tasks_of_all_sizes() {
    let (pool, count) = (pool(), counter());
    for n in 0..3 {
        let (large, number, text) = ([n; 40], count.clone(), String::from("dropped"));
        let count = count.clone();
        pool.spawn(move || {
            assert_eq!(large[39], n);
            filch::spawn(move || {
                assert_eq!(text, "dropped");
                add(&number);
            });
            add(&count);
        });
    }
    pool.shutdown();
    assert_eq!(read(&count), 6);
}

#[test]
fn submitted_tasks() {
    let pool = pool();
    let sum = pool.submit(|| (1..=10).sum::<u32>());
    let urgent = pool
        .task(|| String::from("urgent"))
        .priority(Priority::High);
    let urgent = urgent.submit().unwrap();
    let after = pool.submit_after(&sum, || vec![1]);
    assert_eq!(after.join().unwrap(), [1]);
    assert_eq!(sum.join().unwrap(), 55);
    assert_eq!(urgent.join().unwrap(), "urgent");
    let mut group = pool.group();
    for n in 0..3 {
        group.submit(move || vec![n; 2]);
    }
    assert_eq!(group.try_join_all().unwrap(), [[0, 0], [1, 1], [2, 2]]);
    let (cancelled, detached) = (pool.submit(|| Box::new(1)), pool.submit(|| Box::new(2)));
    cancelled.cancel();
    drop(cancelled.join());
    detached.detach();
}

#[test]
fn graphs_with_values_conditions_and_permits() {
    let pool = pool();
    // Two tasks that run at the same time, and one that reads what both made.
    let meet = Barrier::new(2);
    let graph = Graph::new();
    let list = graph.value("list", || vec![3, 1, 2]);
    let sum = graph.map("sum", list, |list: &Vec<i32>| {
        meet.wait();
        list.iter().sum::<i32>()
    });
    let most = graph.map("most", list, |list: &Vec<i32>| {
        meet.wait();
        *list.iter().max().unwrap()
    });
    let both = graph.map("both", (sum, most), |sum: &i32, most: &i32| (*sum, *most));
    let mut plan = graph.plan().unwrap();
    for _ in 0..2 {
        plan.run_on(&pool).unwrap();
        assert_eq!(plan.take(both), Some((6, 3)));
    }
    let (rounds, limited) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let graph = Graph::new();
    let begin = graph.task("begin", || ());
    let again = graph.condition("again", || {
        add(&rounds);
        usize::from(read(&rounds) == 3)
    });
    begin.precede(again);
    let end = graph.placeholder("end");
    again.precede([again, end]);
    let semaphore = Semaphore::new(1);
    for _ in 0..3 {
        let task = graph.task("limited", || add(&limited));
        task.acquire([&semaphore]).succeed(end);
    }
    graph.plan().unwrap().run_on(&pool).unwrap();
    assert_eq!((read(&rounds), read(&limited)), (3, 3));
}

#[test]
fn graphs_that_grow_while_they_run() {
    let (pool, count) = (pool(), AtomicUsize::new(0));
    let inner = Graph::new();
    inner.linearize([
        inner.task("", || add(&count)),
        inner.task("", || add(&count)),
    ]);
    let graph = Graph::new();
    let module = graph.module("module", inner.plan().unwrap());
    let subflow = graph.subflow("subflow", |sub| {
        sub.linearize([sub.task("", || add(&count)), sub.task("", || add(&count))]);
        sub.subflow("nested", |sub| {
            sub.task("", || add(&count));
        });
    });
    let runtime = graph.runtime("runtime", |rt| {
        rt.spawn(|rt| rt.spawn(|_| add(&count)));
        rt.wait();
        rt.spawn(|_| add(&count));
    });
    let waits = graph.future("future", || async {
        yield_now().await;
        add(&count);
    });
    runtime.succeed([module, subflow]).precede(waits);
    let mut plan = graph.plan().unwrap();
    for _ in 0..2 {
        plan.run_on(&pool).unwrap();
    }
    drop(plan);
    assert_eq!(count.into_inner(), 16);
}

#[test]
fn launched_graphs() {
    let (pool, count) = (pool(), counter());
    let graph = Graph::new();
    let (first, last) = (count.clone(), count.clone());
    let subflow = graph.subflow("subflow", move |sub| {
        let first = first.clone();
        sub.task("", move || add(&first));
    });
    subflow.precede(graph.task("", move || add(&last)));
    let plan = SharedPlan::from(graph.plan().unwrap());
    let runs = [pool.launch(&plan), pool.launch(&plan)];
    let token = CancelToken::new();
    token.cancel();
    assert!(
        pool.launch_with(&plan, &filch::graph::RunOptions::new().cancel(&token))
            .join()
            .unwrap_err()
            .is_cancelled()
    );
    drop(plan);
    let [one, two] = runs;
    drop(one);
    two.join().unwrap();
    pool.shutdown();
    assert_eq!(read(&count), 4);
}

#[test]
fn pipelines() {
    let (pool, mut left, mut seen) = (pool(), 4, Vec::new());
    let mut pipeline = Pipeline::new(|_| {
        left -= 1;
        (left >= 0).then(|| Box::new(left))
    })
    .parallel(|n| Box::new(*n * 10))
    .serial(|n| seen.push(*n));
    assert_eq!(pipeline.run_on(&pool, 2).unwrap().tokens(), 4);
    drop(pipeline);
    assert_eq!(seen, [30, 20, 10, 0]);
}

#[test]
fn futures() {
    let pool = pool();
    let handle = pool.spawn_future(async {
        yield_now().await;
        filch::spawn_future(async { String::from("inner") })
            .await
            .unwrap()
    });
    assert_eq!(handle.join().unwrap(), "inner");
    let cancelled = pool.spawn_future(std::future::pending::<()>());
    let cancel = cancelled.cancel_handle();
    cancel.cancel();
    assert!(cancelled.join().unwrap_err().is_cancelled());
    let sum = pool.block_on(async {
        let mut group = Pool::current().unwrap().future_group();
        for n in 0..3 {
            group.spawn(async move {
                yield_now().await;
                Box::new(n)
            });
        }
        let mut sum = 0;
        while let Some(n) = group.join_next().await {
            sum += *n.unwrap();
        }
        sum + filch::submit(|| 10).await.unwrap()
    });
    assert_eq!(sum, 13);
    // A pool that ends drops what still waits.
    let waits = pool.spawn_future(std::future::pending::<()>());
    pool.shutdown();
    assert!(waits.join().unwrap_err().is_cancelled());
}

#[test]
fn futures_that_borrow_or_stay_on_their_thread() {
    let pool = pool();
    let text = Box::new(String::from("borrowed"));
    let length = pool.future_scope(|s| {
        let length = s.spawn(async {
            yield_now().await;
            text.len()
        });
        length.join().unwrap()
    });
    drop(text);
    let (set, count) = (LocalSet::new(), Rc::new(Cell::new(length)));
    let inside = count.clone();
    let local = set.spawn_local(async move {
        yield_now().await;
        inside.set(inside.get() + 1);
    });
    set.block_on(local).unwrap();
    drop(set);
    assert_eq!(Rc::into_inner(count).unwrap().get(), 9);
}

#[test]
fn folds() {
    let pool = pool();
    let sizes = fold(
        |n: Box<u32>| (0..*n).map(Box::new),
        |n| vec![**n],
        |list, below: Vec<u32>| list.extend(below),
        |list| list,
    );
    let expected = sizes.sequential(Box::new(3));
    assert_eq!(
        sizes.with::<Adaptive>().on(&pool).run(Box::new(3)),
        expected
    );
    assert_eq!(sizes.with::<Tasks>().on(&pool).run(Box::new(3)), expected);
    let edges = &[vec![1, 2], vec![3], vec![3], vec![]];
    let paths = fold(
        |i: usize| edges[i].iter().copied(),
        |i| usize::from(*i == 3),
        |sum, child| *sum += child,
        |sum| sum,
    );
    assert_eq!(paths.memo(|i| *i).on(&pool).run(0), Ok(2));
}

/// Two children at the same time; the last one to end reads what the other one left.
#[test]
fn folds_that_gather_at_the_end() {
    let (pool, meet) = (pool(), Barrier::new(2));
    let both = fold(
        |n: usize| 1..3 * usize::from(n == 0),
        |n| {
            if *n > 0 {
                meet.wait();
            }
            vec![*n]
        },
        |list, below: Vec<usize>| list.extend(below),
        |list| list,
    );
    let plan = both.with::<Tasks<PerWorker, AtTheEnd>>().on(&pool);
    assert_eq!(plan.run(0), [0, 1, 2]);
}

#[test]
fn loops() {
    let pool = pool();
    let words: Vec<String> = (0..12_u32).map(|n| (n * 7 % 12).to_string()).collect();
    let lengths = pool.over(words.clone()).max_chunk(2).map(|word| word.len());
    let mut lengths: Vec<usize> = lengths.collect();
    assert_eq!(lengths.iter().sum::<usize>(), 14);
    pool.over(&mut lengths).max_chunk(2).for_each(|n| *n += 1);
    assert_eq!(pool.over(&lengths).cloned().eager().sum::<usize>(), 26);
    let long = pool.over(&words).max_chunk(2).filter(|word| word.len() > 1);
    assert_eq!(long.to_vec().len(), 2);
    let totals = pool
        .over(0..8_u32)
        .max_chunk(2)
        .inclusive_scan(|a, b| a + b);
    assert_eq!(totals[7], 28);
    let mut sorted = words;
    pool.over(&mut sorted).max_chunk(2).sort();
    assert!(sorted.is_sorted());
    assert_eq!(
        pool.over(&sorted).max_chunk(2).position(|word| word == "5"),
        Some(7)
    );
    let token = CancelToken::new();
    token.cancel();
    assert!(
        pool.over(0..8)
            .cancel(&token)
            .map(Box::new)
            .to_vec()
            .is_err()
    );
}

#[test]
fn executors_of_tasks_without_padding() {
    let executor = Executor::builder()
        .workers(2)
        .build(
            |_worker| 0,
            |task: Box<u32>, cx| {
                *cx.scratch() += 1;
                for n in 0..*task {
                    cx.spawn(Box::new(n));
                }
            },
        )
        .unwrap();
    executor.spawn(Box::new(3)).unwrap();
    executor.spawn_batch([Box::new(0), Box::new(1)]).unwrap();
    assert_eq!(executor.finish().scratch.iter().sum::<u32>(), 8 + 1 + 2);
}

/// The words of a variant without fields are uninitialised but for its tag.
#[cfg(not(filch_plain_words))]
#[test]
fn executors_of_tasks_with_padding() {
    enum Task {
        Count(u8),
        Text(u16, String),
    }
    let executor = Executor::builder()
        .workers(2)
        .build(
            |_worker| 0,
            |task, cx| match task {
                Task::Count(0) => *cx.scratch() += 1,
                Task::Count(n) => {
                    cx.spawn(Task::Count(n - 1));
                    cx.spawn(Task::Text(1, "text".into()));
                }
                Task::Text(n, text) => *cx.scratch() += usize::from(n) * text.len(),
            },
        )
        .unwrap();
    executor.spawn(Task::Count(3)).unwrap();
    assert_eq!(executor.finish().scratch.iter().sum::<usize>(), 13);
}

#[test]
fn limits() {
    let (pool, most, now) = (pool(), AtomicUsize::new(0), AtomicUsize::new(0));
    let [semaphore, a, b] = [1, 1, 2].map(Semaphore::new);
    pool.scope(|s| {
        for _ in 0..2 {
            s.spawn(|_| {
                let permit = semaphore.acquire().unwrap();
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                now.fetch_sub(1, Ordering::Relaxed);
                drop(permit);
                drop(Semaphore::acquire_all([(&a, 1), (&b, 2)]).unwrap());
            });
        }
    });
    pool.block_on(async {
        let first = semaphore.acquire_async().await.unwrap();
        let second = semaphore.acquire_async();
        drop(first);
        drop(second.await.unwrap());
    });
    assert_eq!(read(&most), 1);
}

#[test]
fn cancels() {
    let (pool, token, count) = (pool(), CancelToken::new(), counter());
    let child = token.child();
    let called = count.clone();
    let registration = child.on_cancel(move || add(&called));
    drop(token.on_cancel(|| unreachable!("taken back")));
    let waits = pool.spawn_future({
        let child = child.clone();
        async move { child.cancelled().await }
    });
    thread::scope(|s| {
        s.spawn(|| token.cancel());
        child.wait();
    });
    waits.join().unwrap();
    drop(registration);
    assert_eq!(read(&count), 1);
}

#[test]
fn timers_by_a_paused_clock() {
    let clock = PausedClock::auto();
    let pool = Pool::builder().workers(0).clock(&clock).build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let inside = order.clone();
    pool.block_on(async move {
        let late = filch::spawn_future({
            let order = inside.clone();
            async move {
                time::sleep(Duration::from_secs(2)).await;
                order.lock().unwrap().push("late");
            }
        });
        let never = time::timeout(Duration::from_secs(1), std::future::pending::<()>());
        assert!(never.await.is_err());
        inside.lock().unwrap().push("timeout");
        let mut ticks = time::interval(Duration::from_secs(1));
        ticks.tick().await;
        late.await.unwrap();
    });
    assert_eq!(*order.lock().unwrap(), ["timeout", "late"]);
}

#[test]
fn timers_by_the_real_clock() {
    let (pool, start) = (pool(), Instant::now());
    let token = CancelToken::new();
    token.cancel_after(Duration::from_millis(2)).unwrap();
    pool.block_on(async {
        time::sleep(Duration::from_millis(1)).await;
        token.cancelled().await;
    });
    assert!(start.elapsed() >= Duration::from_millis(2));
    let late = pool.spawn_future(time::sleep(Duration::from_secs(3600)));
    late.cancel();
    assert!(late.join().unwrap_err().is_cancelled());
}
