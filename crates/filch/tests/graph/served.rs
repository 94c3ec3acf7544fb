//! Runs that were launched while the only worker is inside a tree, a loop or a fold: between two
//! leaves of it, one task of a run at a time.

use crate::support::{LIMIT, within};
use filch::{
    Fold, Graph, Pool, Priority,
    graph::{Pipeline, RunOptions},
    par::over,
};
use std::{
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

const LEAVES: usize = 150;

/// More than the leaves, and enough sources for long blocks.
const TASKS: usize = 4000;

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Leaf,
    Task,
}

/// What the worker has begun, in order.
#[derive(Clone, Default)]
struct Steps(Arc<Mutex<Vec<Step>>>);

impl Steps {
    fn begin(&self, step: Step, time: Duration) {
        self.0.lock().unwrap().push(step);
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    fn leaf(&self) {
        self.begin(Step::Leaf, Duration::from_micros(250));
    }

    fn task(&self) {
        self.begin(Step::Task, Duration::ZERO);
    }

    /// How many tasks ran between the leaves, and the most of them in a row.
    fn between_leaves(&self) -> (usize, usize) {
        let steps = self.0.lock().unwrap();
        let last = steps.iter().rposition(|&step| step == Step::Leaf);
        let gaps = steps[..last.unwrap()].split(|&step| step == Step::Leaf);
        // What ran before the first leaf did not interrupt anything.
        let counts = gaps.skip(1).map(<[_]>::len);
        counts.fold((0, 0), |(sum, max), n| (sum + n, max.max(n)))
    }
}

type Load = fn(&Steps);

const LOADS: [(&str, Load); 4] = [
    ("join tree", |steps| tree(steps, LEAVES)),
    ("unwinding joins", |steps| chain(steps, LEAVES)),
    ("loop", |steps| over(0..LEAVES).for_each(|_| steps.leaf())),
    ("fold", |steps| {
        let fold = filch::fold(
            |n: usize| (0..n).collect::<Vec<_>>(),
            |n: &usize| {
                if *n == 0 {
                    steps.leaf();
                }
            },
            |_: &mut (), ()| (),
            |()| (),
        );
        fold.run(8); // 128 leaves
    }),
];

fn tree(steps: &Steps, n: usize) {
    if n == 1 {
        return steps.leaf();
    }
    filch::join(|| tree(steps, n / 2), || tree(steps, n - n / 2));
}

fn chain(steps: &Steps, n: usize) {
    if n > 0 {
        filch::join(|| chain(steps, n - 1), || steps.leaf());
    }
}

type Build = fn(&Graph<'static>, &Steps);

fn add_chain(graph: &Graph<'static>, steps: &Steps) {
    let mut last = None;
    for _ in 0..TASKS {
        let steps = steps.clone();
        let task = graph.task("task", move || steps.task());
        if let Some(last) = last.replace(task) {
            task.succeed([last]);
        }
    }
}

fn add_wide(graph: &Graph<'static>, steps: &Steps) {
    for _ in 0..TASKS {
        let steps = steps.clone();
        graph.task("task", move || steps.task());
    }
}

/// One task that releases all others, which join in one.
fn add_star(graph: &Graph<'static>, steps: &Steps) {
    let (first, last) = (graph.task("first", || ()), graph.task("last", || ()));
    for _ in 0..TASKS {
        let steps = steps.clone();
        let task = graph.task("task", move || steps.task());
        task.succeed([first]);
        task.precede(last);
    }
}

fn add_limited(graph: &Graph<'static>, steps: &Steps) {
    let add = |_| {
        let steps = steps.clone();
        graph.task("task", move || steps.task())
    };
    graph.limit((0..TASKS).map(add).collect::<Vec<_>>(), 1);
}

fn add_subflow(graph: &Graph<'static>, steps: &Steps) {
    let steps = steps.clone();
    graph.subflow("subflow", move |inner| {
        for _ in 0..TASKS {
            let steps = steps.clone();
            inner.task("task", move || steps.task());
        }
    });
}

fn add_pipeline(graph: &Graph<'static>, steps: &Steps) {
    let steps = steps.clone();
    let pipeline = Pipeline::new(|flow| (flow.token() < TASKS as u64).then_some(()))
        .parallel(move |()| steps.task());
    graph.pipeline("pipeline", 3, pipeline);
}

const GRAPHS: [(&str, Build); 6] = [
    ("chain", add_chain),
    ("wide", add_wide),
    ("star", add_star),
    ("semaphore", add_limited),
    ("subflow", add_subflow),
    ("pipeline", add_pipeline),
];

/// Launches a graph beside a load on the only worker, and returns `between_leaves`.
fn launch_beside(load: Load, build: Build, priority: Priority) -> (usize, usize) {
    within(LIMIT, move || {
        let pool = Pool::builder().workers(1).build().unwrap();
        let steps = Steps::default();
        let (begin, begun) = mpsc::channel();
        let (inside, graph) = (steps.clone(), Graph::new());
        build(&graph, &steps);
        let plan = graph.plan().unwrap();
        pool.spawn(move || {
            begin.send(()).unwrap();
            load(&inside);
        });
        begun.recv().unwrap();
        let options = RunOptions::new().priority(priority);
        let (end, ended) = mpsc::channel();
        let run = pool.launch_with(plan, &options);
        // A thread that joins it would work on it too.
        run.on_done(move |_| end.send(()).unwrap());
        ended.recv().unwrap();
        pool.shutdown();
        steps.between_leaves()
    })
}

#[test]
fn a_leaf_serves_one_task_of_a_launched_run() {
    // Normal tasks have turns by the clock. If the thread loses its core there, several turns fall
    // between the same two leaves: at most one for each of the checkpoints there.
    let most = 16;
    for (load_name, load) in LOADS {
        for (name, build) in GRAPHS {
            let (served, in_a_row) = launch_beside(load, build, Priority::Normal);
            assert!(
                served >= 3 && in_a_row <= most,
                "{name} beside {load_name}: {served} tasks between leaves, up to {in_a_row} in a row"
            );
        }
    }
}

#[test]
fn a_leaf_serves_a_few_tasks_of_an_urgent_run() {
    // A checkpoint serves 15, and a tree of joins has up to 16 of them between two leaves.
    let most = 16 * 15;
    for (load_name, load) in LOADS {
        for (name, build) in GRAPHS {
            let (served, in_a_row) = launch_beside(load, build, Priority::High);
            assert!(
                served >= 3 && in_a_row <= most,
                "{name} beside {load_name}: {served} tasks between leaves, up to {in_a_row} in a row"
            );
        }
    }
}
