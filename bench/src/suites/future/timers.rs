//! Timers: timeouts that never fire, and sleeps that all do.

use super::sampler;
use crate::{
    countdown::Countdown,
    cpu_time,
    futures::{Filch, Futures, Tokio},
    harness::Case,
    stopwatch::{Sample, Stopwatch},
};
use std::time::{Duration, Instant};

/// A limit that is never reached.
const FAR: Duration = Duration::from_secs(30);

/// All sleeps end between these two times after they began.
const SLEEP: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(700));

/// A system with timers.
pub(super) trait Timers: Futures {
    fn timeout(future: impl Future<Output = ()> + Send) -> impl Future<Output = ()> + Send;

    fn sleep_until(at: Instant) -> impl Future<Output = ()> + Send;
}

impl Timers for Filch {
    #[inline(always)]
    async fn timeout(future: impl Future<Output = ()> + Send) {
        let ended = filch::time::timeout(FAR, future).await;
        ended.expect("the limit is far");
    }

    #[inline(always)]
    fn sleep_until(at: Instant) -> impl Future<Output = ()> + Send {
        filch::time::sleep_until(at)
    }
}

impl Timers for Tokio {
    #[inline(always)]
    async fn timeout(future: impl Future<Output = ()> + Send) {
        let ended = tokio::time::timeout(FAR, future).await;
        ended.expect("the limit is far");
    }

    #[inline(always)]
    fn sleep_until(at: Instant) -> impl Future<Output = ()> + Send {
        tokio::time::sleep_until(at.into())
    }
}

/// A workload with timers.
pub(super) trait TimerLoad: Copy + 'static {
    fn sample<S: Timers>(self, pool: &S::Pool) -> Sample;
}

pub(super) fn systems(case: Case, workers: usize, load: impl TimerLoad) -> Case {
    case.system("filch", sampler_of::<Filch>(workers, load))
        .system("tokio", sampler_of::<Tokio>(workers, load))
}

fn sampler_of<S: Timers>(workers: usize, load: impl TimerLoad) -> impl FnMut() -> Sample {
    sampler::<S>(workers, move |pool| load.sample::<S>(pool))
}

/// One future sets this number of timeouts, one after the other, around a yield.
#[derive(Clone, Copy)]
pub(super) struct Unfired(pub(super) u64);

impl TimerLoad for Unfired {
    fn sample<S: Timers>(self, pool: &S::Pool) -> Sample {
        let (countdown, times) = (Countdown::new(1), self.0);
        let mut watch = Stopwatch::default();
        watch.time(|| {
            S::detach(pool, async move {
                for _ in 0..times {
                    S::timeout(S::yield_now()).await;
                }
                countdown.one();
            });
            countdown.wait();
        });
        watch.sample(self.0)
    }
}

/// This number of futures that sleep once each, for different times. The reading is CPU time, since
/// the futures wait most of the time.
#[derive(Clone, Copy)]
pub(super) struct Sleeps(pub(super) u64);

impl TimerLoad for Sleeps {
    fn sample<S: Timers>(self, pool: &S::Pool) -> Sample {
        let countdown = Countdown::new(self.0);
        let (least, most) = SLEEP;
        let range = (most - least).as_nanos() as u64;
        let before = cpu_time::used();
        for n in 0..self.0 {
            // A sequence without order, the same in every run.
            let extra = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % range;
            S::detach(pool, async move {
                S::sleep_until(Instant::now() + least + Duration::from_nanos(extra)).await;
                countdown.one();
            });
        }
        countdown.wait();
        Sample::new(cpu_time::used() - before, self.0)
    }
}
