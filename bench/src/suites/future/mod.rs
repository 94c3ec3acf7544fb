//! Futures: spawned, joined, woken.
//!
//! Each system runs a case once before anything is counted. Messages are sent through a
//! [`Mailbox`], which is the same for all systems.

mod messages;
pub(crate) mod pending;
mod recursion;
mod timers;
mod yields;

use crate::{
    countdown::Countdown,
    futures::{AsyncExecutor, Filch, Futures, FuturesPool, StaticAsyncExecutor, Tokio},
    harness::{Case, Config},
    pools,
    stopwatch::{Sample, Stopwatch},
};

/// A workload of a given number of operations.
trait Load: Copy + 'static {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample;
}

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let tasks = config.pick(20_000, 100_000);
    let mut cases = Vec::new();
    let mut add = |name, build: &dyn Fn(Case, usize) -> Case| {
        for workers in config.workers(&[1, 2]) {
            let case = Case::new(name, workers, config).rounds(1, config.pick(5, 9));
            cases.push(build(case, workers));
        }
    };
    add("outside", &|case, n| all(case, n, Outside(tasks)));
    add("by_task", &|case, n| all(case, n, ByTask(tasks)));
    add("join", &|case, n| all(case, n, Join(tasks)));
    add("join_busy", &|case, n| {
        fair(case, n, yields::JoinBusy(tasks / 20))
    });
    add("yield", &|case, n| all(case, n, yields::Yield(tasks / 100)));
    add("ping_pong", &|case, n| {
        all(case, n, messages::PingPong(tasks))
    });
    add("chain", &|case, n| all(case, n, Chain(tasks)));
    add("recurse", &|case, n| {
        all(case, n, recursion::Recurse::new(config.pick(100, 300)))
    });
    add("fan_out", &|case, n| {
        all(case, n, recursion::FanOut::new(config.pick(100, 300)))
    });
    add("tree", &|case, n| {
        all(case, n, recursion::Tree(config.pick(13, 16)))
    });
    add("ring", &|case, n| all(case, n, messages::Ring(tasks / 200)));
    add("fan_in", &|case, n| {
        all(case, n, messages::FanIn(tasks / 50))
    });
    add("timeout", &|case, n| {
        timers::systems(case, n, timers::Unfired(tasks))
    });
    add("sleeps", &|case, n| {
        timers::systems(case.rounds(1, 1), n, timers::Sleeps(tasks * 10))
    });
    for (name, bytes, words) in [
        ("pending", pending::Bytes::Heap, 1),
        ("pending_resident", pending::Bytes::Resident, 1),
        ("pending_two_words", pending::Bytes::Resident, 2),
        ("pending_left", pending::Bytes::Left, 2),
    ] {
        add(name, &|case, workers| {
            let what = pending::Measured { bytes, words };
            pending::systems(case.rounds(1, 1), workers, tasks, what)
        });
    }
    cases
}

fn all(case: Case, workers: usize, load: impl Load) -> Case {
    fair(case, workers, load).system("futures-pool", sampler_of::<FuturesPool>(workers, load))
}

/// The systems without those that poll a self-waking future again and again before any other.
fn fair(case: Case, workers: usize, load: impl Load) -> Case {
    case.system("filch", sampler_of::<Filch>(workers, load))
        .system("tokio", sampler_of::<Tokio>(workers, load))
        .system("async-executor", sampler_of::<AsyncExecutor>(workers, load))
        .system(
            "async-static",
            sampler_of::<StaticAsyncExecutor>(workers, load),
        )
}

fn sampler_of<S: Futures>(workers: usize, load: impl Load) -> impl FnMut() -> Sample {
    sampler::<S>(workers, move |pool| load.sample::<S>(pool))
}

fn sampler<S: Futures>(
    workers: usize,
    sample: impl Fn(&S::Pool) -> Sample,
) -> impl FnMut() -> Sample {
    pools::used(move || S::pool(workers), sample, |_| ())
}

/// An empty future, whose result proves that it ran.
async fn empty() -> u64 {
    1
}

/// This number of futures, spawned by the main thread. It waits for a shared counter.
#[derive(Clone, Copy)]
struct Outside(u64);

impl Load for Outside {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let countdown = Countdown::new(self.0);
        let mut watch = Stopwatch::default();
        watch.time(|| {
            (0..self.0).for_each(|_| S::detach(pool, async { countdown.one() }));
            countdown.wait();
        });
        watch.sample(self.0)
    }
}

/// The same, spawned by a future.
#[derive(Clone, Copy)]
struct ByTask(u64);

impl Load for ByTask {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let (countdown, tasks) = (Countdown::new(self.0), self.0);
        let spawner = S::spawner(pool);
        let mut watch = Stopwatch::default();
        watch.time(|| {
            S::detach(pool, async move {
                (0..tasks).for_each(|_| S::detach_inside(&spawner, async { countdown.one() }));
            });
            countdown.wait();
        });
        watch.sample(self.0)
    }
}

/// This number of futures, spawned and then awaited by the main thread.
#[derive(Clone, Copy)]
struct Join(u64);

impl Load for Join {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let mut watch = Stopwatch::default();
        let done = watch.time(|| spawn_and_join::<S>(pool, self.0));
        assert_eq!(done, self.0, "not every future ran once");
        watch.sample(self.0)
    }
}

fn spawn_and_join<S: Futures>(pool: &S::Pool, tasks: u64) -> u64 {
    let handles: Vec<_> = (0..tasks).map(|_| S::spawn(pool, empty())).collect();
    S::block_on(pool, async {
        let mut sum = 0;
        for handle in handles {
            sum += S::result(handle).await;
        }
        sum
    })
}

/// A chain of futures, each spawned by the previous one.
#[derive(Clone, Copy)]
struct Chain(u64);

impl Load for Chain {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let end = Countdown::new(1);
        let (spawner, left) = (S::spawner(pool), self.0);
        let mut watch = Stopwatch::default();
        watch.time(|| {
            S::detach(pool, async move { link::<S>(&spawner, left - 1, end) });
            end.wait();
        });
        watch.sample(self.0)
    }
}

fn link<S: Futures>(spawner: &S::Spawner, left: u64, end: &'static Countdown) {
    if left == 0 {
        return end.one();
    }
    let next = spawner.clone();
    S::detach_inside(spawner, async move { link::<S>(&next, left - 1, end) });
}

#[cfg(test)]
mod tests {
    use super::{
        ByTask, Chain, Join, Load, Outside,
        messages::{FanIn, PingPong, Ring},
        recursion::{FanOut, Recurse, Tree},
        yields::{JoinBusy, Yield},
    };
    use crate::futures::{AsyncExecutor, Filch, Futures, FuturesPool, StaticAsyncExecutor, Tokio};

    fn on<S: Futures>() {
        fn load<S: Futures>(pool: &S::Pool, load: impl Load) {
            let _ = load.sample::<S>(pool);
        }
        for workers in [1, 2] {
            let pool = S::pool(workers);
            load::<S>(&pool, Outside(100));
            load::<S>(&pool, ByTask(100));
            load::<S>(&pool, Join(100));
            load::<S>(&pool, Yield(10));
            load::<S>(&pool, PingPong(100));
            load::<S>(&pool, Chain(1000));
            load::<S>(&pool, Recurse::new(10));
            load::<S>(&pool, FanOut::new(10));
            load::<S>(&pool, Tree(5));
            load::<S>(&pool, Ring(3));
            load::<S>(&pool, FanIn(10));
        }
    }

    fn while_others_yield<S: Futures>() {
        for workers in [1, 2] {
            let _ = JoinBusy(10).sample::<S>(&S::pool(workers));
        }
    }

    #[test]
    fn every_load_ends_on_every_system() {
        on::<Filch>();
        on::<Tokio>();
        on::<AsyncExecutor>();
        on::<StaticAsyncExecutor>();
        on::<FuturesPool>();
    }

    #[test]
    fn futures_are_polled_while_others_yield() {
        while_others_yield::<Filch>();
        while_others_yield::<Tokio>();
        while_others_yield::<AsyncExecutor>();
        while_others_yield::<StaticAsyncExecutor>();
    }
}
