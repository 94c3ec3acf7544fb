//! The latch wakes its waiter.

use super::CountdownLatch;
use crate::{
    base::canary::Canary,
    loom_tests::{caught, model},
};
use loom::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

fn wait_for_two() {
    let latch = Arc::new(CountdownLatch::new(2));
    let data = Arc::new(AtomicUsize::new(0));
    let threads = [(); 2].map(|()| {
        let (latch, data) = (latch.clone(), data.clone());
        thread::spawn(move || {
            data.fetch_add(1, Ordering::Relaxed);
            latch.count_down();
        })
    });
    latch.wait();
    assert_eq!(
        data.load(Ordering::Relaxed),
        2,
        "open before all threads have counted down"
    );
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_waiter_is_woken() {
    model(Some(3), wait_for_two);
}

#[test]
fn canary_latch_without_a_wake() {
    caught(Canary::LatchWake, Some(3), wait_for_two);
}
