//! Futures that yield repeatedly.

use super::{Load, spawn_and_join};
use crate::{
    countdown::Countdown,
    futures::Futures,
    stopwatch::{Sample, Stopwatch},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Futures in the case `yield`.
const YIELDERS: u64 = 200;

/// Futures that yield while others are spawned from outside.
const BUSY: u64 = 8;

/// Each of [`YIELDERS`] futures yields this number of times.
#[derive(Clone, Copy)]
pub(super) struct Yield(pub(super) u64);

impl Load for Yield {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let (countdown, times) = (Countdown::new(YIELDERS), self.0);
        let mut watch = Stopwatch::default();
        watch.time(|| {
            for _ in 0..YIELDERS {
                S::detach(pool, async move {
                    for _ in 0..times {
                        S::yield_now().await;
                    }
                    countdown.one();
                });
            }
            countdown.wait();
        });
        watch.sample(YIELDERS * times)
    }
}

/// This number of futures, spawned and awaited by the main thread while [`BUSY`] futures are always
/// ready.
#[derive(Clone, Copy)]
pub(super) struct JoinBusy(pub(super) u64);

impl Load for JoinBusy {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let (begun, ended) = (Countdown::new(BUSY), Countdown::new(BUSY));
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..BUSY {
            let stop = stop.clone();
            S::detach(pool, async move {
                begun.one();
                // Relaxed: the flag publishes no data.
                while !stop.load(Ordering::Relaxed) {
                    S::yield_now().await;
                }
                ended.one();
            });
        }
        begun.wait();
        let mut watch = Stopwatch::default();
        let done = watch.time(|| spawn_and_join::<S>(pool, self.0));
        // Relaxed: the flag publishes no data.
        stop.store(true, Ordering::Relaxed);
        ended.wait();
        assert_eq!(done, self.0, "not every future ran once");
        watch.sample(self.0)
    }
}
