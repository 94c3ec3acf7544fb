//! Futures on the workers of a pool.

mod support;

use filch::{Pool, future::yield_now};
use std::future::pending;
use support::{LIMIT, within};

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

#[test]
fn a_future_is_awaited_and_joined() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            assert_eq!(pool.spawn_future(async { 7 }).join().unwrap(), 7);
            let sum = pool.block_on(async {
                let one = filch::spawn_future(async { 1 });
                let two = filch::spawn_future(async {
                    yield_now().await;
                    2
                });
                one.await.unwrap() + two.await.unwrap()
            });
            assert_eq!(sum, 3);
            let never = pool.spawn_future(pending::<()>());
            never.abort();
            assert!(never.join().unwrap_err().is_cancelled());
            let never = pool.spawn_future(pending::<()>());
            let late = pool.clone();
            pool.shutdown();
            assert!(never.join().unwrap_err().is_cancelled());
            let after = late.spawn_future(async { 3 });
            assert!(after.join().unwrap_err().is_cancelled());
        }
    });
}
