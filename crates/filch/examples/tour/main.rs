//! A walk through filch: which worker runs what, what is stolen, what idle workers do.
//!
//! `cargo run --release --example tour`

mod timeline;

use filch::{
    Executor, Graph, Pool, Priority,
    engine::WakePolicy,
    future::yield_now,
    observe::Histogram,
    time::{self, PausedClock},
};
use std::{
    hint,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};
use timeline::Timeline;

fn main() {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("filch, on {cores} cores\n");
    an_uneven_tree(cores.clamp(2, 8));
    work_from_outside();
    a_panic_and_a_shutdown();
    asleep();
    fork_and_join(cores);
    submitted_tasks(cores);
    a_graph(cores);
    futures(cores);
    println!(
        "\nThe same scheduler, step by step, on as many workers as you like:\n  \
         cargo run --release --example simulate -- --curve"
    );
}

/// About `micros` microseconds of work that the compiler cannot remove.
fn work(micros: u64) {
    let end = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < end {
        hint::spin_loop();
    }
}

/// One task spawns all others; the tree is lopsided, so the other workers must steal.
fn an_uneven_tree(workers: usize) {
    println!(
        "1. A lopsided tree on {workers} workers. One task starts it all; the others steal.\n"
    );
    struct Node {
        size: u32,
    }
    let timeline = Arc::new(Timeline::new(workers));
    let executor = Executor::builder()
        .workers(workers)
        .observer(timeline.clone())
        .build(
            |_| 0_u32, // nodes seen by each worker
            |node: Node, cx| {
                *cx.scratch() += 1;
                work(20);
                // Four fifths to the left, the rest to the right.
                let left = (node.size - 1) * 4 / 5;
                for size in [left, node.size - 1 - left] {
                    if size > 0 {
                        cx.spawn(Node { size });
                    }
                }
            },
        )
        .expect("the settings are good");
    let start = Instant::now();
    executor.spawn(Node { size: 5_000 }).expect("open");
    let summary = executor.finish();
    let elapsed = start.elapsed();
    print!("{}", timeline.draw(start, elapsed));
    let total = summary.metrics.total();
    let ideal = Duration::from_micros(20 * total.executed);
    println!(
        "\n   {} tasks of 20 µs in {elapsed:.1?}: {:.2} times one worker's time",
        total.executed,
        ideal.as_secs_f64() / elapsed.as_secs_f64()
    );
    println!(
        "   {} steals brought {} more tasks along; each worker's share: {:?}\n",
        total.stolen, total.moved, summary.scratch
    );
    for line in summary.metrics.to_string().lines() {
        println!("   {line}");
    }
}

/// Threads that are no workers, and a million small tasks.
fn work_from_outside() {
    println!("\n2. A million small tasks, and what one costs.\n");
    let run = |name: &str, spawn: &dyn Fn(&Executor<u32, u64>)| {
        let executor = Executor::builder()
            .wake(WakePolicy::EveryPush)
            .build(
                |_| 0_u64,
                |n: u32, cx| {
                    *cx.scratch() += 1;
                    for _ in 0..n {
                        cx.spawn(0);
                    }
                },
            )
            .expect("the settings are good");
        let start = Instant::now();
        spawn(&executor);
        let sum: u64 = executor.finish().scratch.iter().sum();
        let nanos = start.elapsed().as_nanos() as f64 / sum as f64;
        println!("   {name:<42} {nanos:>6.1} ns each");
    };
    run("spawned by one task, into its own queue", &|executor| {
        executor.spawn(1_000_000).expect("open");
    });
    run("from outside, in batches of 256", &|executor| {
        for _ in 0..1_000_000 / 256 {
            executor.spawn_batch(vec![0; 256]).expect("open");
        }
    });
    run("from outside, one by one", &|executor| {
        for _ in 0..1_000_000 {
            executor.spawn(0).expect("open");
        }
    });
}

fn a_panic_and_a_shutdown() {
    println!("\n3. A task panics; a thousand others are queued behind it.\n");
    let executor = Executor::builder()
        .workers(2)
        .build(
            |_| 0_u32,
            |n: u32, cx| {
                if n == 0 {
                    // As `panic!`, without the message on the terminal.
                    std::panic::resume_unwind(Box::new("the first task"));
                }
                *cx.scratch() += 1;
            },
        )
        .expect("the settings are good");
    executor
        .spawn_batch((0..=1_000).collect::<Vec<_>>())
        .expect("open");
    let error = executor.try_finish().expect_err("one task panicked");
    println!("   join says: {error}");
    let ran: u32 = error.into_summary().scratch.iter().sum();
    println!("   and {ran} of 1000 others have run.");

    let executor = Executor::builder()
        .workers(2)
        .build(
            |_| 0_u32,
            |_: u32, cx| {
                work(50);
                *cx.scratch() += 1;
            },
        )
        .expect("the settings are good");
    executor
        .spawn_batch((0..1_000).collect::<Vec<_>>())
        .expect("open");
    thread::sleep(Duration::from_millis(5));
    let summary = executor.shutdown_now().expect("no task panicked");
    println!(
        "   Shut down after 5 ms: {} have run, {} come back.",
        summary.scratch.iter().sum::<u32>(),
        summary.not_run.len()
    );
}

/// Idle workers do not poll.
fn asleep() {
    println!("\n4. Nothing to do for 300 ms.\n");
    let executor = Executor::builder()
        .workers(8)
        .build(
            |_| (),
            |reply: mpsc::Sender<Instant>, _| {
                reply.send(Instant::now()).expect("the main thread waits");
            },
        )
        .expect("the settings are good");
    thread::sleep(Duration::from_millis(50));
    let before = executor.metrics().total().parks;
    thread::sleep(Duration::from_millis(300));
    let parks = executor.metrics().total().parks - before;
    println!("   8 workers fell asleep {parks} times meanwhile: they sleep until there is work.");
    let (send, receive) = mpsc::channel();
    let spawned = Instant::now();
    executor.spawn(send).expect("open");
    let started = receive.recv().expect("the task runs");
    println!(
        "   The next task started {:.0?} after its spawn.",
        started - spawned
    );
}

/// Any closure, borrowing from the stack; the caller is one of the workers.
fn fork_and_join(cores: usize) {
    println!("\n5. Fork and join, on a pool.\n");
    fn fibonacci(n: u32) -> u64 {
        if n < 2 {
            return u64::from(n);
        }
        let (a, b) = filch::join(|| fibonacci(n - 1), || fibonacci(n - 2));
        a + b
    }
    // With the calling thread there is one worker for each core.
    let pool = Pool::builder()
        .workers(cores.saturating_sub(1).max(1))
        .build()
        .expect("the settings are good");
    let joins = 1_346_268.0; // calls of `join` in fibonacci(30)
    let start = Instant::now();
    let value = pool.install(|| fibonacci(30));
    let nanos = start.elapsed().as_nanos() as f64 / joins;
    let stolen = pool.metrics().total().stolen;
    println!(
        "   fibonacci(30) = {value}: 1.3 million joins, {nanos:.1} ns each, {stolen} of them stolen"
    );

    let mut squares = vec![0_u64; 100_000];
    pool.scope(|s| {
        for (chunk, part) in squares.chunks_mut(10_000).enumerate() {
            s.spawn(move |_| {
                for (i, square) in part.iter_mut().enumerate() {
                    let n = (chunk * 10_000 + i) as u64;
                    *square = n * n;
                }
            });
        }
    });
    let sum: u64 = squares.iter().sum();
    println!(
        "   100,000 squares, written by 10 tasks that borrow their part of one vector: sum {sum}"
    );
}

/// Tasks with a handle, a priority, and a way to be called off.
fn submitted_tasks(cores: usize) {
    println!("\n6. Submitted tasks: a flood of unimportant ones, and one that cannot wait.\n");
    let pool = Pool::builder()
        .workers(cores)
        .task_latencies(true)
        .build()
        .expect("the settings are good");
    let mut flood = pool.group();
    for n in 0..5_000_u64 {
        let task = flood.task(move || {
            work(100);
            n
        });
        task.priority(Priority::Low)
            .submit()
            .expect("there is room");
    }
    let start = Instant::now();
    let urgent = pool.task(Instant::now).priority(Priority::Critical);
    let urgent = urgent.submit().expect("there is room");
    while !urgent.is_finished() {
        thread::yield_now(); // joining it would run it right here
    }
    let waited = urgent.join().expect("it does not panic") - start;
    println!("   behind 5,000 Low tasks of 100 µs a Critical one waited {waited:.0?}");
    flood.cancel_all();
    let ran = flood.join_all().iter().filter(|task| task.is_ok()).count();
    println!(
        "   then the rest was called off: {ran} had run, {} never will\n",
        5_000 - ran
    );
    for line in pool.task_metrics().to_string().lines() {
        println!("   {line}");
    }
}

/// Futures beside everything else, and time that a test need not wait for.
fn futures(cores: usize) {
    println!("\n8. Futures, on the same workers.\n");
    let pool = Pool::builder()
        .workers(cores)
        .build()
        .expect("the settings are good");
    let start = Instant::now();
    let mut group = pool.future_group();
    for n in 0..10_000_u64 {
        group.spawn(async move {
            yield_now().await;
            n
        });
    }
    let ended = pool.block_on(group.join_all());
    let sum: u64 = ended.into_iter().map(|n| n.expect("none panics")).sum();
    println!(
        "   10,000 futures that yield once, sum {sum}: {:.1?}",
        start.elapsed()
    );

    // Every worker computes for 50 ms, and a future has something to do every millisecond.
    let jobs: Vec<_> = (0..cores)
        .map(|_| {
            pool.submit(|| {
                for _ in 0..1_000 {
                    work(50);
                    filch::checkpoint(); // about a nanosecond if no future is ready
                }
            })
        })
        .collect();
    let ticks = pool.spawn_future(async {
        let (mut interval, mut late) = (time::interval(Duration::from_millis(1)), Histogram::new());
        for _ in 0..40 {
            late.add(interval.tick().await.elapsed());
        }
        late.p50()
    });
    let late = ticks.join().expect("it does not panic");
    println!(
        "   a ticker beside long tasks with checkpoints: half of its ticks late by less than {late:.0?}"
    );
    jobs.into_iter()
        .for_each(|job| job.join().expect("it does not panic"));

    let (clock, start) = (PausedClock::auto(), Instant::now());
    let builder = Pool::builder().workers(0).clock(&clock); // all on this thread
    let pool = builder.build().expect("the settings are good");
    pool.block_on(async {
        let report = filch::spawn_future(time::sleep(Duration::from_secs(7 * 86_400)));
        let late = time::timeout(Duration::from_secs(86_400), report).await;
        assert!(late.is_err(), "it takes a week");
    });
    println!(
        "   a timeout of a day on a paused clock took {:.0?}",
        start.elapsed()
    );
}

/// Tasks that wait for others, and a record of one run of them.
fn a_graph(cores: usize) {
    println!("\n7. A graph: what must be done before what.\n");
    let pool = Pool::builder()
        .workers(cores.saturating_sub(1).max(1))
        .build()
        .expect("the settings are good");
    let graph = Graph::new();
    let fetch = graph.task("fetch", || work(300));
    let unpack = graph.task("unpack", || work(200));
    let parts: Vec<_> = (1..=4_u64)
        .map(|n| graph.task(format!("compile {n}"), move || work(200 * n)))
        .collect();
    let link = graph.task("link", || work(300));
    let check = graph.task("check", || work(400));
    fetch.precede(unpack);
    unpack.precede(parts.iter().copied());
    unpack.precede(check);
    link.succeed(parts);
    let mut plan = graph.plan().expect("no circles");
    plan.run_on(&pool).expect("nothing panics"); // once to warm up
    plan.record(true);
    plan.run_on(&pool).expect("nothing panics");
    for line in plan.timeline().to_string().lines() {
        println!("   {line}");
    }
}
