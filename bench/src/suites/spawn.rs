//! Spawned tasks, in scopes and detached.
//!
//! In scopes, each task increments a counter of its worker, and the sum is checked.

use super::{board::Board, work::fork_case};
use crate::{
    countdown::Countdown,
    forks::{Filch, REST, Rayon, Seq, Spawns, sampler},
    harness::{Case, Config},
    pin::Placement,
    pools,
    stopwatch::{Sample, Stopwatch},
    tally,
};
use std::{hint::black_box, thread};

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let tasks = config.pick(200_000, 1_000_000);
    let levels = config.pick(17, 19);
    let board = Board::new(config.pick(9, 11));
    let mut cases = scopes(config, "scope_spawn", Scoped::Flat(tasks));
    cases.extend(scopes(config, "scope_nested", Scoped::Nested(levels)));
    cases.extend(scopes(config, "nqueens_scope", Scoped::Queens(board)));
    let rounds = config.pick(20_000, 200_000);
    for (name, tasks) in [("scope_1", 1), ("scope_4", 4), ("scope_8", 8)] {
        cases.extend(scopes(config, name, Scoped::Small { tasks, rounds }));
    }
    for workers in config.fork_workers() {
        cases.push(detached(workers, tasks, config));
    }
    let outside = scopes(config, "outside_scope", Scoped::Outside(tasks));
    cases.extend(outside.into_iter().map(|case| {
        let workers = case.workers();
        case.system("rayon-in-place", in_place(workers, tasks))
    }));
    cases
}

/// The workloads with scopes. An operation is a task; of `Small`, a scope.
#[derive(Clone, Copy, Debug)]
enum Scoped {
    /// This number of tasks in one scope, opened by a worker.
    Flat(u64),
    /// This number of tasks in each of many scopes, which a worker opens one after the other.
    Small { tasks: u64, rounds: u64 },
    /// The same as `Flat`, opened from outside.
    Outside(u64),
    /// Two tasks in each scope, each of which opens another scope, down to this number of levels.
    Nested(u32),
    /// A task for each queen that is placed, all in one scope; tasks that complete a solution are
    /// counted.
    Queens(Board),
}

fn scopes(config: &Config, name: &'static str, work: Scoped) -> Vec<Case> {
    let case = |workers| {
        fork_case(name, workers, config)
            .system(
                "filch",
                sampler::<Filch>(workers, move |pool| sample::<Filch>("filch", pool, work)),
            )
            .system(
                "rayon",
                sampler::<Rayon>(workers, move |pool| sample::<Rayon>("rayon", pool, work)),
            )
            .system(
                "seq",
                sampler::<Seq>(workers, move |pool| sample::<Seq>("seq", pool, work)),
            )
    };
    config.fork_workers().into_iter().map(case).collect()
}

fn sample<S: Spawns>(system: &str, pool: &S::Pool, work: Scoped) -> Sample {
    let mut watch = Stopwatch::default();
    watch.time(|| match work {
        Scoped::Flat(tasks) => S::enter(pool, move || S::scope(|scope| flat::<S>(scope, tasks))),
        Scoped::Small { tasks, rounds } => S::enter(pool, move || {
            for _ in 0..rounds {
                S::scope(|scope| flat::<S>(scope, tasks));
            }
        }),
        Scoped::Outside(tasks) => S::outside(pool, |scope| flat::<S>(scope, tasks)),
        Scoped::Nested(levels) => S::enter(pool, move || nested::<S>(levels)),
        Scoped::Queens(board) => S::outside(pool, |scope| queens::<S>(scope, board)),
    });
    let (counted, ops) = match work {
        Scoped::Flat(tasks) | Scoped::Outside(tasks) => (tasks, tasks),
        Scoped::Small { tasks, rounds } => (tasks * rounds, rounds),
        Scoped::Nested(levels) => ((2 << levels) - 1, (2 << levels) - 2),
        Scoped::Queens(board) => board.count(),
    };
    tally::check(system, S::tally(pool), counted);
    watch.sample(ops)
}

fn flat<S: Spawns>(scope: &S::Scope<'_>, tasks: u64) {
    for task in 0..tasks {
        S::spawn(scope, move |_| {
            black_box(task);
            tally::one();
        });
    }
}

fn nested<S: Spawns>(levels: u32) {
    tally::one();
    if levels > 0 {
        S::scope(|scope| {
            S::spawn(scope, move |_| nested::<S>(levels - 1));
            S::spawn(scope, move |_| nested::<S>(levels - 1));
        });
    }
}

fn queens<'scope, S: Spawns>(scope: &S::Scope<'scope>, board: Board) {
    if board.is_full() {
        tally::one();
    }
    for next in board.next() {
        S::spawn(scope, move |scope| queens::<S>(scope, next));
    }
}

/// `in_place_scope`: the closure runs on the caller, which spawns and then sleeps.
fn in_place(workers: usize, tasks: u64) -> impl FnMut() -> Sample {
    sampler::<Rayon>(workers, move |pool| {
        let mut watch = Stopwatch::default();
        watch.time(|| pool.in_place_scope(|scope| flat::<Rayon>(scope, tasks)));
        tally::check("rayon-in-place", Rayon::tally(pool), tasks);
        watch.sample(tasks)
    })
}

/// Detached tasks, spawned by a thread that is not a worker. All systems have as many threads as
/// workers.
fn detached(workers: usize, tasks: u64, config: &Config) -> Case {
    let filch = {
        let mut pool = None;
        move || {
            let pool = pool.get_or_insert_with(|| pools::filch(workers, 0));
            count_down(tasks, |countdown| pool.spawn(move || countdown.one()))
        }
    };
    let rayon = {
        let mut pool = None;
        move || {
            let start = || pools::build_rayon(pools::rayon(workers, Placement::Pinned));
            let pool = pool.get_or_insert_with(start);
            count_down(tasks, |countdown| pool.spawn(move || countdown.one()))
        }
    };
    Case::new("outside_spawn", workers, config)
        .system("filch", filch)
        .system("rayon", rayon)
        .system("seq", move || count_down(tasks, Countdown::one))
}

/// Spawns `tasks` tasks, and waits for them.
fn count_down(tasks: u64, mut spawn: impl FnMut(&'static Countdown)) -> Sample {
    thread::sleep(REST);
    let countdown = Countdown::new(tasks);
    let mut watch = Stopwatch::default();
    watch.time(|| {
        (0..tasks).for_each(|_| spawn(countdown));
        countdown.wait();
    });
    watch.sample(tasks)
}

#[cfg(test)]
mod tests {
    use super::{Scoped, detached, in_place, sample};
    use crate::{
        forks::{Filch, Rayon, Seq, Spawns},
        harness::Config,
        suites::board::Board,
    };

    #[test]
    fn every_task_runs_once() {
        fn on<S: Spawns>(system: &str) {
            for workers in [1, 2, 5] {
                let pool = S::pool(workers);
                for work in [
                    Scoped::Flat(2000),
                    Scoped::Outside(2000),
                    Scoped::Nested(8),
                    Scoped::Small {
                        tasks: 4,
                        rounds: 300,
                    },
                    Scoped::Queens(Board::new(7)),
                ] {
                    let _ = sample::<S>(system, &pool, work);
                }
            }
        }
        on::<Seq>("seq");
        on::<Filch>("filch");
        on::<Rayon>("rayon");
        let _ = in_place(2, 2000)();
        detached(2, 2000, &Config::default()).run();
    }
}
