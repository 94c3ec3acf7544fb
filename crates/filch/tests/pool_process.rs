//! What a pool is to the whole process: the global pool, processor time, memory.
//!
//! Each test measures the process or changes something that it has once, so they run one after the
//! other, and not with those of other files.

mod support;

use filch::Pool;
use std::{
    fs,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use support::{LIMIT, in_a_child, pool, quiet_panic, until, within};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_global_pool_is_set_up_once() {
    let _alone = alone();
    within(LIMIT, || {
        let failing = Pool::builder()
            .workers(1)
            .on_start(|_| std::panic::resume_unwind(Box::new("no start")))
            .build_global();
        assert!(failing.unwrap_err().is_init(), "a failure is no start");
        let global = Pool::builder().workers(3).build_global().unwrap();
        assert_eq!(global.workers(), 3);
        let again = Pool::builder().workers(2).build_global().unwrap_err();
        assert!(again.is_config(), "{again}");
        assert!(again.to_string().contains("already"), "{again}");
        assert_eq!(Pool::global().workers(), 3);
        // The free functions use it, unless they are called on another pool.
        assert_eq!(filch::broadcast(|worker| worker), [0, 1, 2]);
        let current = || Pool::current().unwrap().workers();
        assert_eq!(filch::join(current, current), (3, 3));
        assert_eq!(filch::scope(|_| current()), 3);
        assert_eq!(pool(1).install(|| filch::scope(|_| current())), 1);
        let (send, receive) = std::sync::mpsc::channel();
        filch::spawn(move || send.send(current()).unwrap());
        assert_eq!(receive.recv_timeout(LIMIT), Ok(3));
    });
}

/// Processor time of the process so far, in ticks of a hundredth of a second.
fn ticks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in brackets, may have spaces in it; user and system time are the 12th and 13th
    // after.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[test]
fn an_idle_pool_uses_no_processor_time() {
    let _alone = alone();
    let pool = pool(4);
    let work = || pool.scope(|s| (0..1_000).for_each(|_| s.spawn(|_| ())));
    work();
    let Some(before) = ticks() else {
        println!("skipped: the system does not tell");
        return;
    };
    // The work is seen by this clock at all.
    until("the clock moves", || {
        work();
        ticks().is_some_and(|now| now > before)
    });
    thread::sleep(Duration::from_millis(50));
    let before = ticks().unwrap();
    thread::sleep(Duration::from_millis(300));
    let used = ticks().unwrap() - before;
    assert!(used < 2, "{used} hundredths of a second in 300 ms");
}

#[test]
fn a_pool_that_was_resized_uses_no_processor_time() {
    let _alone = alone();
    if ticks().is_none() {
        println!("skipped: the system does not tell");
        return;
    }
    let pool = Pool::builder().workers(2).max_workers(4).build().unwrap();
    let threads_before = threads().unwrap();
    for workers in [4, 1, 3, 1, 4, 2] {
        pool.resize(workers).unwrap();
        pool.scope(|s| (0..1_000).for_each(|_| s.spawn(|_| ())));
    }
    until("the threads end", || threads() == Some(threads_before));
    thread::sleep(Duration::from_millis(50));
    let before = ticks().unwrap();
    thread::sleep(Duration::from_millis(300));
    let used = ticks().unwrap() - before;
    assert!(used < 2, "{used} hundredths of a second in 300 ms");
}

/// Memory of the process that is in use, in bytes.
fn resident() -> Option<usize> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

#[test]
fn a_stream_of_tasks_from_one_worker_to_another_needs_no_more_memory() {
    const TASKS: usize = 400_000;
    const AHEAD: usize = 200;
    let _alone = alone();
    within(LIMIT, || {
        let pool = pool(1);
        let ran = Arc::new(AtomicUsize::new(0));
        // This thread spawns and never runs what it spawned; the worker does.
        let stream = || {
            let start = ran.load(Ordering::SeqCst);
            for n in 0..TASKS {
                let task = ran.clone();
                filch::spawn(move || _ = task.fetch_add(1, Ordering::SeqCst));
                while start + n > ran.load(Ordering::SeqCst) + AHEAD {
                    thread::yield_now();
                }
            }
        };
        pool.install(|| {
            stream();
            let Some(before) = resident() else {
                println!("skipped: the system does not tell");
                return;
            };
            stream();
            let more = resident().unwrap().saturating_sub(before);
            assert!(
                more < 8 << 20,
                "{more} bytes more for {TASKS} tasks, {AHEAD} at a time"
            );
        });
    });
}

/// Threads of the process.
fn threads() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("Threads:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// In a process of its own, since the variable is read when a pool is built.
#[test]
fn a_wrong_barrier_variable_is_an_error() {
    let name = "a_wrong_barrier_variable_is_an_error";
    if std::env::var_os("FILCH_BARRIER").is_none_or(|value| value != "membarier") {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--test-threads=1"])
            .env("FILCH_BARRIER", "membarier")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    }
    for error in [
        Pool::builder().workers(1).build().unwrap_err(),
        filch::Executor::builder()
            .workers(1)
            .build(|_| (), |_: u8, _| {})
            .unwrap_err(),
    ] {
        let expected = r#"FILCH_BARRIER is "membarier"; set it to "fence", or unset it"#;
        assert!(error.is_config());
        assert_eq!(error.to_string(), expected);
    }
}

/// In a process of its own, since other tests start threads too.
#[test]
fn a_pool_that_cannot_be_built_leaves_no_thread() {
    in_a_child(
        "a_pool_that_cannot_be_built_leaves_no_thread",
        pools_that_cannot_be_built,
    );
}

fn pools_that_cannot_be_built() {
    let Some(before) = threads() else {
        println!("skipped: the system does not tell");
        return;
    };
    let last_panics = |worker: usize| match worker {
        0..3 => format!("w{worker}"),
        _ => quiet_panic("no name"),
    };
    let named = |name: fn(usize) -> String| Pool::builder().workers(4).name(name);
    for _ in 0..10 {
        let error = named(last_panics).build().unwrap_err();
        assert!(error.is_init(), "{error}");
        assert!(error.to_string().contains("no name"), "{error}");
        // Those that are kept for futures have the last numbers.
        let dedicated = Pool::builder().workers(3).future_workers(1);
        let error = dedicated.name(last_panics).build().unwrap_err();
        assert!(error.is_init(), "{error}");
        let error = named(|worker| format!("w{worker}\0")).build().unwrap_err();
        assert!(error.is_config(), "{error}");
        assert!(error.to_string().contains("NUL"), "{error}");
        let error = filch::Executor::builder()
            .workers(4)
            .name(last_panics)
            .build(|_| (), |(): (), _| {})
            .unwrap_err();
        assert!(error.is_init(), "{error}");
        let error = named(|worker| format!("w{worker}"))
            .build_on(|thread| {
                if thread.worker() == 3 {
                    quiet_panic("no thread");
                }
                thread::Builder::new().spawn(|| thread.run()).map(drop)
            })
            .unwrap_err();
        assert!(error.is_init(), "{error}");
        assert!(error.to_string().contains("no thread"), "{error}");
    }
    // Threads of `build_on` are not joined. A leak would leave ten more or thirty.
    until("all threads have ended", || {
        threads().is_some_and(|now| now <= before)
    });
}
