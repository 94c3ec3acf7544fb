//! Graphs inside tasks get the memory of earlier ones, and nothing else of them.

use crate::graphs::pools;
use crate::support::{LIMIT, quiet_panic, within};
use filch::{
    Graph, Pool, Priority, Semaphore,
    graph::{RunError, RunOptions, RunReport, Subflow, Task},
};
use std::{
    sync::{Arc, Mutex},
    thread,
};

/// What a run has done, in order: all of it is on one thread.
type Log = Arc<Mutex<Vec<String>>>;

fn write(log: &Log, entry: impl Into<String>) {
    log.lock().unwrap().push(entry.into());
}

/// Adds tasks that write their numbers.
fn tasks<'g, const N: usize>(
    flow: &'g Subflow<'static>,
    log: &Log,
    name: &'static str,
) -> [Task<'g, 'static>; N] {
    std::array::from_fn(|number| {
        let log = log.clone();
        flow.task(name, move || write(&log, number.to_string()))
    })
}

/// Builds the graph inside a task.
type Build = fn(&Subflow<'static>, &Log);

/// Graphs that use what a plan may have.
const FLOWS: [(&str, Build); 16] = [
    ("plain", |flow, log| _ = tasks::<6>(flow, log, "")),
    ("named", |flow, log| _ = tasks::<6>(flow, log, "named")),
    ("diamond", |flow, log| {
        let [a, b, c, d] = tasks(flow, log, "diamond");
        a.precede([b, c]);
        d.succeed([b, c]);
        assert_eq!(d.predecessors().count(), 2);
    }),
    ("ordered", |flow, log| {
        for (priority, task) in (0..).zip(tasks::<5>(flow, log, "ordered")) {
            task.priority(priority);
        }
    }),
    ("critical path", |flow, log| {
        flow.critical_path_first();
        let [a, b, c, d] = tasks(flow, log, "");
        a.weight(7).precede(d);
        b.precede(c.weight(9));
    }),
    ("weights", |flow, log| {
        for task in tasks::<4>(flow, log, "") {
            task.weight(3);
        }
    }),
    ("removed", |flow, log| {
        let [a, b, c, d, e] = tasks(flow, log, "removed");
        a.precede([b, c]);
        flow.remove([b, d]);
        c.precede(e);
    }),
    ("condition", |flow, log| {
        let [body, end, never] = tasks(flow, log, "condition");
        let mut laps = 0;
        let again = flow.condition("again?", move || {
            laps += 1;
            usize::from(laps == 3)
        });
        flow.task("start", || ()).precede(body);
        body.precede(again);
        again.precede([body, end]);
        flow.condition("never", || 0).precede(never).succeed(never);
    }),
    ("semaphores", |flow, log| {
        let permits = Semaphore::new(1);
        for task in tasks::<4>(flow, log, "") {
            task.acquire([&permits]);
        }
    }),
    ("values", |flow, log| {
        let log = log.clone();
        let value = flow.value("value", || 5);
        flow.map("use", value, move |value: &i32| {
            write(&log, value.to_string());
        });
    }),
    ("error", |flow, log| {
        let [before, behind, beside] = tasks(flow, log, "error");
        let fails = flow.try_task("fails", || Err::<(), _>("no"));
        before.precede(fails);
        fails.precede(behind);
        beside.succeed(before);
    }),
    ("unnamed error", |flow, log| {
        let [_, behind] = tasks(flow, log, "");
        flow.try_task("", || Err::<(), _>("no")).precede(behind);
    }),
    ("panic", |flow, log| {
        let [before, behind] = tasks(flow, log, "");
        flow.linearize([before, flow.task("panics", || quiet_panic("no")), behind]);
    }),
    ("cycle", |flow, log| {
        let [a, b] = tasks(flow, log, "cycle");
        flow.linearize([a, b, a]);
    }),
    ("nested", |flow, log| {
        let outside = log.clone();
        let inner = flow.subflow("inner", move |inner| {
            inner.retain();
            let log = outside.clone();
            let deep = move |deep: &Subflow<'static>| {
                deep.detach();
                _ = tasks::<3>(deep, &log, "deep");
            };
            inner.subflow("", deep).priority(3);
            _ = tasks::<2>(inner, &outside, "");
        });
        let module = Graph::new();
        let log = log.clone();
        module.task("in the module", move || write(&log, "module"));
        inner.precede(flow.module("module", module.plan().unwrap()));
    }),
    ("many", |flow, log| {
        let all = tasks::<100>(flow, log, "many");
        all.windows(3).for_each(|few| {
            few[0].precede([few[1], few[2]]);
        });
    }),
];

/// Adds to the options of a run.
type Change = fn(RunOptions, &Log) -> RunOptions;

/// Options of a run. All but the first make it special.
const OPTIONS: [(&str, Change); 6] = [
    ("none", |options, _| options),
    ("keep going", |options, _| options.keep_going(true)),
    ("low", |options, _| options.priority(Priority::Low)),
    ("high", |options, _| options.priority(Priority::High)),
    ("one job", |options, _| options.jobs(1)),
    ("progress", |options, log| {
        let log = log.clone();
        options.on_progress(move |at| write(&log, format!("{} of {}", at.done(), at.total())))
    }),
];

fn describe(result: Result<RunReport, RunError>) -> String {
    match result {
        Ok(report) => format!("{} ran", report.ran()),
        Err(error) => {
            let skipped: Vec<_> = error.skipped().collect();
            format!("{error}: {} ran, skipped: {skipped:?}", error.ran())
        }
    }
}

/// Runs a graph inside a task, and returns what has happened.
fn run(pool: &Pool, flow: usize, options: usize, recorded: bool) -> Vec<String> {
    let log = Log::default();
    let graph = Graph::new();
    let (inside, behind) = (log.clone(), log.clone());
    graph
        .subflow("flow", move |sub| FLOWS[flow].1(sub, &inside))
        .precede(graph.task("behind", move || write(&behind, "behind")));
    let mut plan = graph.plan().unwrap();
    plan.record(recorded);
    let options = OPTIONS[options].1(RunOptions::new().on(pool), &log);
    write(&log, describe(plan.run_with(&options)));
    let timeline = plan.timeline();
    for task in timeline.tasks() {
        write(&log, format!("{}: {:?}", task.name(), task.ending()));
    }
    for task in timeline.not_run() {
        write(&log, format!("{}: {:?}", task.name(), task.ending()));
    }
    let log = log.lock().unwrap();
    log.clone()
}

/// Calls `f` on a thread that keeps nothing yet, with a pool on which this thread does everything.
fn on_new_thread<R: Send>(f: impl FnOnce(&Pool) -> R + Send) -> R {
    thread::scope(|scope| {
        let thread = scope.spawn(|| f(&Pool::builder().workers(0).build().unwrap()));
        thread.join().unwrap()
    })
}

#[test]
fn a_graph_has_nothing_of_the_one_before_it() {
    within(LIMIT, || {
        let all = || {
            let flows = 0..FLOWS.len();
            flows.flat_map(|flow| (0..OPTIONS.len()).map(move |options| (flow, options)))
        };
        for (flow, options) in all() {
            let recorded = flow % 2 == 0;
            let alone = on_new_thread(|pool| run(pool, flow, options, recorded));
            on_new_thread(|pool| {
                for before in all() {
                    run(pool, before.0, before.1, !recorded);
                    let after = run(pool, flow, options, recorded);
                    let name =
                        |(flow, options): (usize, usize)| (FLOWS[flow].0, OPTIONS[options].0);
                    let (this, before) = (name((flow, options)), name(before));
                    assert_eq!(after, alone, "{this:?} after {before:?}");
                }
            });
        }
    });
}

/// All graphs at once, three times each, and how many tasks ran and which were skipped.
fn run_all(pool: &Pool, change: Change) -> (u64, Vec<String>) {
    let (log, graph) = (Log::default(), Graph::new());
    let first = graph.placeholder("first");
    // A graph that cannot be run stops all others.
    for (name, build) in FLOWS.iter().filter(|(name, _)| *name != "cycle") {
        for copy in 0..3 {
            let log = log.clone();
            let flow = graph.subflow(format!("{name} {copy}"), move |sub| build(sub, &log));
            first.precede(flow);
            flow.precede(graph.task(format!("behind {name} {copy}"), || ()));
        }
    }
    let options = change(RunOptions::new().on(pool).keep_going(true), &log);
    let error = graph.plan().unwrap().run_with(&options).unwrap_err();
    let mut skipped: Vec<_> = error.skipped().collect();
    skipped.sort_unstable();
    (error.ran(), skipped)
}

#[test]
fn many_graphs_with_options_on_all_pools() {
    within(LIMIT, || {
        for (name, change) in OPTIONS {
            let alone = on_new_thread(|pool| run_all(pool, change));
            for pool in pools() {
                for _ in 0..20 {
                    assert_eq!(run_all(&pool, change), alone, "{name}");
                }
            }
        }
    });
}
