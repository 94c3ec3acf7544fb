//! Work from outside beside long parallel iterators: it starts within a few items, not when the
//! iterator has ended. A small call of rayon's, and tasks and futures of filch on the same workers.

use filch::{Pool, Priority};
use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};
use std::{
    cell::Cell,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

const ITEMS: usize = 400;

/// The maximum number of items that the thread which serves a call or a Normal task may start
/// first; filch's documentation of lanes derives it, and the next one.
const NORMAL: usize = 9;

/// The same for urgent tasks and futures.
const URGENT: usize = 2;

/// One test at a time: they fill the machine.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    static STARTED: Cell<usize> = const { Cell::new(0) };
    static AT_CALL: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// An item of 300 µs. It records how many items this thread had started when call `calls` was made.
fn item(calls: &AtomicUsize, items: &AtomicUsize) {
    let call = calls.load(SeqCst);
    if AT_CALL.get().0 != call {
        AT_CALL.set((call, STARTED.get()));
    }
    STARTED.set(STARTED.get() + 1);
    items.fetch_add(1, SeqCst);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(300) {
        std::hint::spin_loop();
    }
}

/// Counts the items that this thread has started since the call.
fn started_since_call() -> usize {
    match AT_CALL.get() {
        (1, before) => STARTED.get() - before,
        // This thread has started no item since the call.
        _ => 0,
    }
}

/// Not `par_bridge`: rayon takes one item after the other there, and calls nothing of its core in
/// between.
type Iterate = fn(&(dyn Fn() + Sync));

const ITERATORS: [(&str, Iterate); 4] = [
    ("for_each", |item| {
        (0..ITEMS).into_par_iter().for_each(|_| item());
    }),
    ("map and collect", |item| {
        let numbers: Vec<usize> = (0..ITEMS).collect();
        let odd = numbers.par_iter().map(|n| {
            item();
            2 * n + 1
        });
        assert_eq!(odd.collect::<Vec<_>>().len(), ITEMS);
    }),
    ("fold and reduce", |item| {
        let count = |sum: usize, _| {
            item();
            sum + 1
        };
        let folded = (0..ITEMS).into_par_iter().fold(|| 0, count);
        assert_eq!(folded.reduce(|| 0, |a, b| a + b), ITEMS);
    }),
    ("chunks and filter", |item| {
        let numbers: Vec<usize> = (0..ITEMS).collect();
        let even = |chunk: &&[usize]| {
            chunk.iter().for_each(|_| item());
            chunk[0].is_multiple_of(2)
        };
        assert_eq!(numbers.par_chunks(1).filter(even).count(), ITEMS / 2);
    }),
];

/// Calls `probe` beside an iterator, with the workers as rayon and as filch know them. Returns what
/// it returns.
fn beside(iterate: Iterate, probe: impl Fn(&ThreadPool, &Pool) -> usize) -> usize {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let workers = pool.install(Pool::current);
    let workers = workers.expect("rayon's threads are filch's workers");
    let (calls, items) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let first = thread::scope(|s| {
        s.spawn(|| pool.install(|| iterate(&|| item(&calls, &items))));
        // A thread that has slept is not stopped soon after.
        while items.load(SeqCst) < ITEMS / 8 {
            thread::sleep(Duration::from_millis(1));
        }
        calls.store(1, SeqCst);
        probe(&pool, &workers)
    });
    assert_eq!(items.load(SeqCst), ITEMS);
    first
}

/// Checks that `probe` returns at most `bound` beside each iterator.
fn beside_each(bound: usize, probe: impl Fn(&ThreadPool, &Pool) -> usize) {
    let _one_at_a_time = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, iterate) in ITERATORS {
        // With both cores busy the system may stop the caller between its mark and the call, for
        // some milliseconds: then items are counted that started before the call was there. So the
        // fewest of several calls count.
        let mut least = usize::MAX;
        for _ in 0..10 {
            least = least.min(beside(iterate, &probe));
            if least <= bound {
                break;
            }
        }
        assert!(least <= bound, "beside {name} {least} items started first");
    }
}

#[test]
fn a_small_install_starts_beside_a_long_iterator() {
    beside_each(NORMAL, |pool, _| pool.install(started_since_call));
}

/// Submits a task, and lets a worker run it.
fn submit_at(priority: Priority) -> impl Fn(&ThreadPool, &Pool) -> usize {
    move |_, workers| {
        let (send, receive) = mpsc::channel();
        let task = workers.task(move || send.send(started_since_call()).unwrap());
        task.priority(priority).submit().unwrap().detach();
        receive.recv().unwrap()
    }
}

#[test]
fn critical_and_high_tasks_start_within_an_item() {
    beside_each(URGENT, submit_at(Priority::Critical));
    beside_each(URGENT, submit_at(Priority::High));
}

#[test]
fn a_normal_task_starts_within_a_few_items() {
    beside_each(NORMAL, submit_at(Priority::Normal));
}

#[test]
fn a_future_starts_within_an_item() {
    beside_each(URGENT, |_, workers| {
        let (send, receive) = mpsc::channel();
        let first = async move { send.send(started_since_call()).unwrap() };
        workers.spawn_future(first).detach();
        receive.recv().unwrap()
    });
}
