//! A small call from outside beside a long parallel iterator: it starts within a few items, not
//! when the iterator has ended.

use rayon::{ThreadPoolBuilder, prelude::*};
use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

const ITEMS: usize = 400;

/// The maximum number of items that the thread which serves the call may start first; filch's
/// documentation of lanes derives it.
const FIRST: usize = 9;

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

#[test]
fn a_small_install_starts_beside_a_long_iterator() {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (calls, items) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|s| {
        s.spawn(|| {
            pool.install(|| {
                (0..ITEMS)
                    .into_par_iter()
                    .for_each(|_| item(&calls, &items));
            });
        });
        while items.load(SeqCst) < ITEMS / 8 {
            thread::yield_now();
        }
        calls.store(1, SeqCst);
        let first = pool.install(|| match AT_CALL.get() {
            (1, before) => STARTED.get() - before,
            // This thread has started no item since the call.
            _ => 0,
        });
        assert!(first <= FIRST, "{first} items started first");
    });
    assert_eq!(items.load(SeqCst), ITEMS);
}
