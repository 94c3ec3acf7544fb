//! The tests that run as WebAssembly; `run.mjs` loads them. Empty on other targets.
#![cfg(all(target_family = "wasm", target_os = "unknown"))]
#![expect(unsafe_code, reason = "functions that JavaScript provides and calls")]
#![allow(missing_docs, reason = "a test")]

use filch::{
    CancelToken, Executor, Fold, Graph, Plan, Pool, Semaphore,
    graph::Pipeline,
    host,
    prelude::*,
    time::{self, Instant},
};
use filch_web::{Promise, PromiseError};
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

#[link(wasm_import_module = "tests")]
unsafe extern "C" {
    /// A promise that is fulfilled with this text after some milliseconds.
    safe fn later(address: *const u8, length: usize, milliseconds: u32, token: u32);
    /// A promise that is rejected.
    safe fn rejected(token: u32);
    /// A promise that is fulfilled with a value of each kind.
    safe fn value(kind: u32, token: u32);
    /// The number of turns so far.
    safe fn turns() -> u32;
    /// Prints the name of a test that has passed.
    safe fn passed(address: *const u8, length: usize);
}

const TWENTY: Duration = Duration::from_millis(20);

#[unsafe(no_mangle)]
extern "C" fn start() {
    // Works before there is a clock.
    let early = Pool::builder().build().unwrap();
    assert_eq!(early.workers(), 0);
    assert_eq!(early.join(|| 1, || 2), (1, 2));
    assert_eq!(early.install(|| (0..1000_u32).par().sum::<u32>()), 499_500);
    assert!(
        CancelToken::new()
            .cancel_after(TWENTY)
            .unwrap_err()
            .to_string()
            .contains("no host")
    );
    filch_web::start(Pool::builder()).unwrap();
    assert!(filch_web::start(Pool::builder()).is_err());
}

/// What returns before the page is asked for anything.
#[unsafe(no_mangle)]
extern "C" fn run_blocking() {
    fn case(name: &str, test: impl FnOnce()) {
        test();
        passed(name.as_ptr(), name.len());
    }
    case("the global pool has no threads", || {
        assert_eq!(Pool::global().workers(), 0);
    });
    case("threads are refused with a reason", || {
        let error = Pool::builder().workers(2).build().unwrap_err();
        assert!(
            error.is_config() && error.to_string().contains("filch-web"),
            "{error}"
        );
        let executor = Executor::builder().workers(1).build(|_| (), |_: u32, _| ());
        assert!(executor.unwrap_err().to_string().contains("filch-web"));
        assert!(Pool::builder().future_workers(1).build().is_err());
    });
    case("joins and scopes", || {
        fn fib(n: u32) -> u32 {
            if n < 2 {
                return n;
            }
            let (a, b) = filch::join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        assert_eq!(fib(16), 987);
        let mut parts = [0; 4];
        filch::scope(|s| {
            for (number, part) in parts.iter_mut().enumerate() {
                s.spawn(move |_| *part = number);
            }
        });
        assert_eq!(parts, [0, 1, 2, 3]);
    });
    case("loops and sorts", || {
        let mut data: Vec<u32> = (0..10_000).map(|n| n * 7919 % 10_007).collect();
        let sum: u32 = data.par().map(|n| n % 3).sum();
        assert_eq!(sum, data.iter().map(|n| n % 3).sum::<u32>());
        filch::sort(&mut data);
        assert!(data.is_sorted());
        assert_eq!(data.par().position(|&n| n == data[77]), Some(77));
    });
    case("folds", || {
        let nodes = filch::fold(
            |n: u32| (0..2 * n.min(1)).map(move |_| n - 1),
            |_| 1_u32,
            |sum, child: u32| *sum += child,
            |sum| sum,
        );
        assert_eq!(nodes.run(10), 2047);
    });
    case("graphs and pipelines", || {
        let notes = Mutex::new(Vec::new());
        let order = &notes;
        let graph = Graph::new();
        let [a, b, c] =
            ["a", "b", "c"].map(|name| graph.task(name, move || order.lock().unwrap().push(name)));
        a.precede([b, c]);
        b.precede([c]);
        let mut plan = graph.plan().unwrap();
        assert_eq!(plan.run().unwrap().ran(), 3);
        drop(plan);
        assert_eq!(notes.into_inner().unwrap(), ["a", "b", "c"]);
        let (mut numbers, mut written) = (0..20, Vec::new());
        let pipeline = Pipeline::new(|_| numbers.next()).parallel(|n| n * 2);
        pipeline.serial(|n| written.push(n)).run(4).unwrap();
        assert_eq!(written[19], 38);
    });
    case("submitted tasks", || {
        let tasks: Vec<_> = (0..10).map(|n| filch::submit(move || n * n)).collect();
        let squares: Vec<i32> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
        assert_eq!(squares[9], 81);
        let late = filch::task(|| 1).timeout(Duration::ZERO).submit().unwrap();
        assert!(late.join().unwrap_err().is_deadline());
    });
    case("waits serve the timers", || {
        let start = Instant::now();
        Pool::global().block_on(time::sleep(TWENTY));
        assert!(start.elapsed() >= TWENTY);
        let token = CancelToken::new();
        token.cancel_after(TWENTY).unwrap();
        assert!(token.wait_timeout(Duration::from_secs(60)).is_some());
        assert!(start.elapsed() >= 2 * TWENTY);
        let semaphore = Semaphore::new(1);
        let _held = semaphore.acquire().unwrap();
        assert!(semaphore.acquire_timeout(TWENTY).unwrap_err().is_timeout());
        assert!(start.elapsed() >= 3 * TWENTY);
        host::run_timers();
    });
}

async fn sleeps() {
    let start = Instant::now();
    let begin = turns();
    time::sleep(TWENTY).await;
    assert!(start.elapsed() >= TWENTY);
    // The page had its turn meanwhile.
    assert!(turns() > begin);
    let never = std::future::pending::<()>();
    assert!(time::timeout(TWENTY, never).await.is_err());
    let mut interval = time::interval(Duration::from_millis(5));
    let first = interval.tick().await;
    interval.tick().await;
    assert_eq!(interval.tick().await - first, Duration::from_millis(10));
    let token = CancelToken::new();
    token.cancel_after(TWENTY).unwrap();
    token.cancelled().await;
}

async fn promises() {
    let text = "text of the page: é";
    let answer = Promise::new(|token| later(text.as_ptr(), text.len(), 5, token));
    assert_eq!(answer.await.unwrap(), text.as_bytes());
    let error: PromiseError = Promise::new(|token| rejected(token)).await.unwrap_err();
    assert_eq!(error.to_string(), "Error: on purpose");
    let kinds = [&b"\x01\x02"[..], &b"\x03"[..], b"", br#"{"a":[1]}"#];
    for (kind, expected) in (0..).zip(kinds) {
        assert_eq!(
            Promise::new(|token| value(kind, token)).await.unwrap(),
            expected
        );
    }
    // The promise is settled after the future is dropped.
    drop(Promise::new(|token| {
        later(text.as_ptr(), text.len(), 1, token);
    }));
    time::sleep(TWENTY).await;
    // Two at a time, in any order.
    let wait = |time| Promise::new(move |token| later(text.as_ptr(), 4, time, token));
    let (slow, fast) = (filch::spawn_future(wait(20)), filch::spawn_future(wait(1)));
    assert_eq!(slow.await.unwrap().unwrap(), fast.await.unwrap().unwrap());
}

/// Takes about a millisecond.
fn work() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1) {
        std::hint::spin_loop();
    }
}

/// A chain of tasks that take a millisecond each.
fn chain(tasks: usize, ran: &Arc<AtomicUsize>) -> Plan<'static> {
    let graph = Graph::new();
    let links: Vec<_> = (0..tasks)
        .map(|_| {
            let ran = ran.clone();
            graph.task("link", move || {
                work();
                ran.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    for pair in links.windows(2) {
        pair[0].precede([pair[1]]);
    }
    graph.plan().unwrap()
}

async fn graphs_in_turns() {
    let (begin, ran) = (turns(), Arc::new(AtomicUsize::new(0)));
    let report = Pool::global().launch(chain(50, &ran)).await.unwrap();
    assert_eq!((report.ran(), ran.load(Ordering::Relaxed)), (50, 50));
    // 50 ms of work in turns of 5 ms.
    assert!(turns() - begin >= 5, "{}", turns() - begin);
}

async fn tasks_in_turns() {
    let begin = turns();
    let tasks: Vec<_> = (0..50)
        .map(|n| filch::submit(move || (work(), n).1))
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await.unwrap();
    }
    assert_eq!(sum, 1225);
    assert!(turns() - begin >= 5, "{}", turns() - begin);
}

async fn semaphores() {
    let semaphore = Arc::new(Semaphore::new(1));
    let (held, waits) = (semaphore.acquire_async().await.unwrap(), semaphore.clone());
    let waiter = filch::spawn_future(async move { waits.acquire_async().await.unwrap().units() });
    time::sleep(Duration::from_millis(1)).await;
    assert!(!waiter.is_finished());
    drop(held);
    assert_eq!(waiter.await.unwrap(), 1);
}

#[unsafe(no_mangle)]
extern "C" fn run_futures(token: u32) {
    filch_web::reply(token, async {
        let name = |name: &str| passed(name.as_ptr(), name.len());
        sleeps().await;
        name("sleeps, timeouts and intervals");
        promises().await;
        name("promises");
        graphs_in_turns().await;
        name("a launched graph leaves the page its turns");
        tasks_in_turns().await;
        name("submitted tasks leave the page their turns");
        semaphores().await;
        name("semaphores");
        Ok::<_, Infallible>("all passed")
    });
}

#[unsafe(no_mangle)]
extern "C" fn fails(token: u32) {
    filch_web::reply(token, async { Err::<&str, _>("as it should") });
}

/// # Safety
/// As `take_bytes`.
#[unsafe(no_mangle)]
unsafe extern "C" fn echo(token: u32, address: *mut u8, length: usize) {
    // SAFETY: `run.mjs` passes the address and length that `write` returned, once for each call.
    let bytes = unsafe { filch_web::take_bytes(address, length) };
    filch_web::reply(token, async move { Ok::<_, Infallible>(bytes) });
}

/// Ends the program with a message.
#[unsafe(no_mangle)]
extern "C" fn wait_for_ever() {
    filch::block_on(std::future::pending::<()>());
}
