//! Empty tasks, submitted one by one.
//!
//! The clock runs from the first submission until the last result has arrived or, for detached
//! tasks, until a shared counter reaches zero. Each system runs a case once before anything is
//! counted, so its caches of memory are filled.

mod blocking;
mod cancel;
mod inside;

use crate::{
    countdown::Countdown,
    harness::{Case, Config},
    pin::{self, Placement},
    pools,
    stopwatch::{Sample, Stopwatch},
    submits::{
        AsyncExecutor, Bounded, Everything, Filch, Named, Pending, Plain, Prioritised, RayonMpsc,
        RayonOneshot, Spawned, Submits, Threadpool, Tokio, Turns, WithToken,
    },
};
use std::{sync::Barrier, thread};

/// The maximum number of pending tasks in the case `bounded`.
const CAPACITY: usize = 1024;

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let tasks = config.pick(100_000, 1_000_000);
    let (one, four) = (Load::new(1, tasks), Load::new(4, tasks));
    let mut cases = Vec::new();
    let mut add = |name, build: &dyn Fn(Case, usize) -> Case| {
        for workers in config.workers(&[1, 2]) {
            let case = Case::new(name, workers, config).rounds(1, config.pick(5, 9));
            cases.push(build(case, workers));
        }
    };
    add("results_1", &|case, workers| results(case, workers, one));
    add("results_4", &|case, workers| results(case, workers, four));
    add("detached_1", &|case, workers| detached(case, workers, one));
    add("detached_4", &|case, workers| detached(case, workers, four));
    add("priorities", &|case, workers| {
        case.system("filch", sampler::<Filch<Turns>>(workers, one))
            .system("filch-plain", sampler::<Filch<Plain>>(workers, one))
            .system("rayon-mpsc", sampler::<RayonMpsc>(workers, one))
            .system("rayon-oneshot", sampler::<RayonOneshot>(workers, one))
    });
    add("inside", &|case, workers| {
        inside::systems(case, workers, tasks)
    });
    add("builder", &|case, workers| {
        case.system("filch", sampler::<Filch<Everything>>(workers, one))
            .system("filch-name", sampler::<Filch<Named>>(workers, one))
            .system(
                "filch-priority",
                sampler::<Filch<Prioritised>>(workers, one),
            )
            .system("filch-token", sampler::<Filch<WithToken>>(workers, one))
            .system("filch-plain", sampler::<Filch<Plain>>(workers, one))
            .system("rayon-mpsc", sampler::<RayonMpsc>(workers, one))
    });
    add("bounded", &|case, workers| bounded(case, workers, one));
    let queued = config.pick(20_000, 100_000);
    add("cancel_token", &|case, workers| {
        cancel::by_token(case, workers, queued)
    });
    add("cancel_handle", &|case, workers| {
        cancel::by_handle(case, workers, queued)
    });
    add("blocking", &|case, workers| {
        blocking::empty(case, workers, tasks / 100)
    });
    add("blocking_sleeps", &|case, workers| {
        blocking::sleeps(case, workers, 256)
    });
    cases
}

fn results(case: Case, workers: usize, load: Load) -> Case {
    case.system("filch", sampler::<Filch<Plain>>(workers, load))
        .system("rayon-mpsc", sampler::<RayonMpsc>(workers, load))
        .system("rayon-oneshot", sampler::<RayonOneshot>(workers, load))
        .system("threadpool", sampler::<Threadpool>(workers, load))
        .system("tokio", sampler::<Tokio>(workers, load))
        .system("async-executor", sampler::<AsyncExecutor>(workers, load))
}

fn detached(case: Case, workers: usize, load: Load) -> Case {
    let load = load.wait(Wait::ForTheCount);
    case.system("filch", sampler::<Filch<Plain>>(workers, load))
        .system("filch-spawn", sampler::<Filch<Spawned>>(workers, load))
        .system("rayon", sampler::<RayonMpsc>(workers, load))
        .system("threadpool", sampler::<Threadpool>(workers, load))
        .system("tokio", sampler::<Tokio>(workers, load))
        .system("async-executor", sampler::<AsyncExecutor>(workers, load))
}

/// Other systems have no bound: the submitting thread takes a result before each submission at the
/// limit.
fn bounded(case: Case, workers: usize, load: Load) -> Case {
    let window = load.wait(Wait::Window(CAPACITY as u64));
    case.system("filch", sampler::<Filch<Bounded<CAPACITY>>>(workers, load))
        .system("filch-window", sampler::<Filch<Plain>>(workers, window))
        .system("rayon-mpsc", sampler::<RayonMpsc>(workers, window))
        .system("rayon-oneshot", sampler::<RayonOneshot>(workers, window))
        .system("threadpool", sampler::<Threadpool>(workers, window))
        .system("tokio", sampler::<Tokio>(workers, window))
        .system("async-executor", sampler::<AsyncExecutor>(workers, window))
}

/// The number of tasks, and how they are submitted.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// One submitter is the main thread; several are separate threads.
    submitters: u64,
    /// The total number of tasks.
    tasks: u64,
    wait: Wait,
}

/// How a submitting thread waits for its tasks.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// For their results, after all were submitted.
    ForEach,
    /// For their results, with at most this number pending at the same time.
    Window(u64),
    /// Not at all; the main thread waits for a shared counter.
    ForTheCount,
}

impl Load {
    fn new(submitters: u64, tasks: u64) -> Self {
        Self {
            submitters,
            tasks,
            wait: Wait::ForEach,
        }
    }

    fn wait(self, wait: Wait) -> Self {
        Self { wait, ..self }
    }

    /// The number of tasks per thread.
    fn share(self) -> u64 {
        self.tasks / self.submitters
    }

    fn sample<S: Submits>(self, pool: &S::Pool) -> Sample {
        let mut watch = Stopwatch::default();
        let done = match self.wait {
            Wait::ForEach => crowd(&mut watch, self.submitters, || {
                submit_all::<S>(pool, self.share())
            }),
            Wait::Window(width) => crowd(&mut watch, self.submitters, || {
                submit_some::<S>(pool, self.share(), width)
            }),
            Wait::ForTheCount => count_down::<S>(&mut watch, pool, self),
        };
        assert_eq!(done, self.tasks, "not every task ran once");
        watch.sample(self.tasks)
    }
}

/// Takes samples with a pool that is started, and used once, for the first of them.
fn sampler<S: Submits>(workers: usize, load: Load) -> impl FnMut() -> Sample {
    sampling::<S>(workers, move |pool| load.sample::<S>(pool))
}

fn sampling<S: Submits>(
    workers: usize,
    sample: impl Fn(&S::Pool) -> Sample,
) -> impl FnMut() -> Sample {
    pools::used(move || S::pool(workers), sample, S::settle)
}

/// An empty task, whose result proves that it ran.
#[inline(always)]
fn empty() -> u64 {
    1
}

fn submit_all<S: Submits>(pool: &S::Pool, tasks: u64) -> u64 {
    let mut pending = S::pending(pool);
    (0..tasks).for_each(|_| pending.submit(empty));
    pending.finish()
}

fn submit_some<S: Submits>(pool: &S::Pool, tasks: u64, width: u64) -> u64 {
    let mut pending = S::pending(pool);
    let mut done = 0;
    for task in 0..tasks {
        if task >= width {
            done += pending.next();
        }
        pending.submit(empty);
    }
    done + pending.finish()
}

fn count_down<S: Submits>(watch: &mut Stopwatch, pool: &S::Pool, load: Load) -> u64 {
    let countdown = Countdown::new(load.tasks);
    let submit = || {
        (0..load.share()).for_each(|_| S::detach(pool, || countdown.one()));
        load.share()
    };
    if load.submitters == 1 {
        return watch.time(|| {
            let submitted = submit();
            countdown.wait();
            submitted
        });
    }
    let submitted = crowd(watch, load.submitters, submit);
    watch.time(|| countdown.wait());
    submitted
}

/// Times `each` on this number of threads at once, and returns the sum of their results. A single
/// submitter is the caller; the `n`-th of several runs on the `n`-th core after that of the main
/// thread.
fn crowd(watch: &mut Stopwatch, threads: u64, each: impl Fn() -> u64 + Sync) -> u64 {
    if threads == 1 {
        return watch.time(each);
    }
    let (gate, each) = (Barrier::new(threads as usize + 1), &each);
    thread::scope(|scope| {
        let start = |n| {
            let gate = &gate;
            scope.spawn(move || {
                Placement::Pinned.place_worker(pin::cores().len() + n);
                gate.wait();
                gate.wait();
                each()
            })
        };
        let crowd: Vec<_> = (0..threads as usize).map(start).collect();
        // The barrier is passed twice: when all threads have started, and to release them.
        gate.wait();
        watch.time(|| {
            gate.wait();
            let results = crowd.into_iter().map(|thread| thread.join());
            results.map(|result| result.expect("checked there")).sum()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, Load, Wait};
    use crate::submits::{
        AsyncExecutor, Bounded, Everything, Filch, Named, Pending, Plain, Prioritised, RayonMpsc,
        RayonOneshot, Spawned, Submits, Threadpool, Tokio, Turns, WithToken,
    };

    /// Submits every number; the square of each must return once.
    fn squares<S: Submits>(pool: &S::Pool) {
        let mut pending = S::pending(pool);
        let mut sum = 0;
        for n in 0..1000_u64 {
            pending.submit(move || n * n);
            if n >= 700 {
                sum += pending.next();
            }
        }
        assert_eq!(sum + pending.finish(), 332_833_500);
    }

    fn on<S: Submits>() {
        for workers in [1, 2] {
            let pool = S::pool(workers);
            squares::<S>(&pool);
            for submitters in [1, 4] {
                for wait in [Wait::ForEach, Wait::Window(30), Wait::ForTheCount] {
                    let _ = Load::new(submitters, 1000).wait(wait).sample::<S>(&pool);
                    S::settle(&pool);
                }
            }
        }
    }

    #[test]
    fn every_task_runs_once_on_filch() {
        on::<Filch<Plain>>();
        on::<Filch<Turns>>();
        on::<Filch<Named>>();
        on::<Filch<Prioritised>>();
        on::<Filch<WithToken>>();
        on::<Filch<Everything>>();
        on::<Filch<Spawned>>();
        on::<Filch<Bounded<CAPACITY>>>();
        on::<Filch<Bounded<10>>>();
    }

    #[test]
    fn every_task_runs_once_on_the_others() {
        on::<RayonMpsc>();
        on::<RayonOneshot>();
        on::<Threadpool>();
        on::<Tokio>();
        on::<AsyncExecutor>();
    }
}
