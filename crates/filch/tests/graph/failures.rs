//! Tasks that return errors, what they stop, and what the error of a run says about the rest.

use crate::graphs::pools;
use crate::support::{LIMIT, quiet_panic, within};
use filch::{
    CancelToken, Graph,
    graph::{RunError, RunOptions, TemplateGraph},
};
use std::{
    error::Error,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

#[derive(Debug, PartialEq)]
struct Broken(u32);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "number {} is broken", self.0)
    }
}

impl Error for Broken {}

fn skipped(error: &RunError) -> Vec<String> {
    error.skipped().collect()
}

#[test]
fn an_error_names_its_task_and_is_the_source() {
    for pool in pools() {
        let fails = AtomicBool::new(true);
        let graph = Graph::new();
        let first = graph.task("first", || ());
        let bad = graph.try_task("bad", || match fails.load(Ordering::SeqCst) {
            true => Err(Broken(7)),
            false => Ok(42),
        });
        let after = graph.task("after", || assert!(!fails.load(Ordering::SeqCst)));
        graph.linearize([first, bad, after]);
        let mut plan = graph.plan().unwrap();
        for _ in 0..3 {
            let error = plan.run_on(&pool).unwrap_err();
            assert_eq!(
                error.to_string(),
                "bad failed: number 7 is broken (1 task skipped)"
            );
            assert_eq!(error.source().unwrap().downcast_ref(), Some(&Broken(7)));
            assert_eq!(
                (error.ran(), skipped(&error)),
                (1, vec!["after".to_owned()])
            );
            assert!(!error.is_cancelled() && error.panics().is_empty());
            let failure = error.into_failures().remove(0);
            assert_eq!(failure.task(), "bad");
            assert_eq!(
                *failure.into_error().downcast::<Broken>().unwrap(),
                Broken(7)
            );
        }
        fails.store(false, Ordering::SeqCst);
        assert_eq!(plan.run_on(&pool).unwrap().ran(), 3);
    }
}

#[test]
fn every_kind_of_error_fits() {
    let graph = Graph::new();
    graph.try_task("text", || Err::<(), _>("a text"));
    graph.try_task("string", || Err::<(), _>(String::from("a string")));
    graph.try_task("boxed", || -> Result<(), Box<dyn Error + Send + Sync>> {
        Err("12x".parse::<u32>().unwrap_err())?
    });
    graph.try_task("unit", || Ok::<_, Broken>(()));
    graph
        .placeholder("later")
        .try_work(|| Err::<u8, _>(Broken(1)));
    let options = RunOptions::new().keep_going(true);
    let error = graph.plan().unwrap().run_with(&options).unwrap_err();
    let mut texts: Vec<_> = error.failures().iter().map(ToString::to_string).collect();
    texts.sort_unstable();
    assert_eq!(
        texts,
        [
            "boxed failed: invalid digit found in string",
            "later failed: number 1 is broken",
            "string failed: a string",
            "text failed: a text",
        ]
    );
    assert_eq!((error.ran(), error.skipped().count()), (1, 0));
}

#[test]
fn counts_are_worded_right() {
    for (others, text) in [
        (0, "bad failed: no"),
        (1, "bad failed: no (1 task skipped)"),
        (2, "bad failed: no (2 tasks skipped)"),
    ] {
        let graph = Graph::new();
        let bad = graph.try_task("bad", || Err::<(), _>("no"));
        bad.precede(
            (0..others)
                .map(|_| graph.task("", || ()))
                .collect::<Vec<_>>(),
        );
        let error = graph.plan().unwrap().run().unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

/// `a` fails, or panics; `b` and `d` depend on it, `c` does not.
#[test]
fn keep_going_stops_only_what_depends_on_it() {
    for pool in pools() {
        for panics in [false, true] {
            let ran = Mutex::new(Vec::new());
            let note = |name| ran.lock().unwrap().push(name);
            let graph = Graph::new();
            let a = graph.try_task("a", || match panics {
                true => quiet_panic("no"),
                false => Err::<(), _>("no"),
            });
            let (b, c, d) = (
                graph.task("b", || note("b")),
                graph.task("c", || note("c")),
                graph.task("d", || note("d")),
            );
            let e = graph.task("e", || note("e"));
            a.precede([b, d]);
            c.precede([d, e]);
            let mut plan = graph.plan().unwrap();
            for _ in 0..3 {
                let options = RunOptions::new().on(&pool).keep_going(true);
                let error = plan.run_with(&options).unwrap_err();
                assert_eq!(std::mem::take(&mut *ran.lock().unwrap()), ["c", "e"]);
                assert_eq!(skipped(&error), ["b", "d"]);
                assert_eq!((error.ran(), error.is_cancelled()), (2, false));
                let failed = (error.failures().len(), error.panics().len());
                assert_eq!(failed, if panics { (0, 1) } else { (1, 0) });
            }
        }
    }
}

#[test]
fn keep_going_goes_on_inside_and_around_modules_and_subflows() {
    for pool in pools() {
        let count = AtomicUsize::new(0);
        let add = || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        let inside = Graph::new();
        let bad = inside.try_task("bad", || Err::<(), _>("no"));
        bad.precede(inside.task("behind", add));
        inside.task("beside", add);
        let graph = Graph::new();
        let module = graph.module("module", inside.plan().unwrap());
        module.precede(graph.task("after module", add));
        let subflow = graph.subflow("subflow", move |sub| {
            let bad = sub.try_task("bad", || Err::<(), _>("no"));
            bad.precede(sub.task("behind", add));
            sub.task("beside", add);
        });
        subflow.precede(graph.task("after subflow", add));
        let runtime = graph.runtime("runtime", |rt| rt.spawn(|_| quiet_panic("no")));
        runtime.precede(graph.task("after runtime", add));
        graph.task("apart", add);
        let mut plan = graph.plan().unwrap();
        for _ in 0..3 {
            count.store(0, Ordering::SeqCst);
            let options = RunOptions::new().on(&pool).keep_going(true);
            let error = plan.run_with(&options).unwrap_err();
            assert_eq!(count.load(Ordering::SeqCst), 3);
            let mut failed: Vec<_> = error.failures().iter().map(|f| f.task()).collect();
            failed.sort_unstable();
            assert_eq!(failed, ["module/bad", "subflow/bad"]);
            assert_eq!(error.panics()[0].task(), "runtime");
            let mut skipped = skipped(&error);
            skipped.sort_unstable();
            assert_eq!(
                skipped,
                [
                    "after module",
                    "after runtime",
                    "after subflow",
                    "module",
                    "module/behind",
                    "subflow",
                    "subflow/behind",
                ]
            );
        }
    }
}

#[test]
fn what_conditions_did_not_reach_is_skipped() {
    for pool in pools() {
        let graph = Graph::new();
        let (start, lap) = (graph.task("start", || ()), graph.task("lap", || ()));
        let mut laps = 0;
        let again = graph.condition("again?", move || {
            laps += 1;
            usize::from(laps % 3 == 0)
        });
        let bad = graph.try_task("bad", || Err::<(), _>("no"));
        let end = graph.task("end", || ());
        graph.linearize([start, lap, again]);
        again.precede([lap, bad]);
        bad.precede(end);
        let mut plan = graph.plan().unwrap();
        for _ in 0..3 {
            let error = plan.run_on(&pool).unwrap_err();
            assert_eq!(skipped(&error), ["end"]);
            assert_eq!(error.ran(), 7);
        }
    }
}

#[test]
fn a_launched_run_fails_and_keeps_going() {
    within(LIMIT, || {
        for pool in pools() {
            let ran = Arc::new(AtomicUsize::new(0));
            let (graph, inside) = (Graph::new(), ran.clone());
            graph.try_task("bad", || Err::<(), _>(Broken(3)));
            graph.task("good", move || {
                inside.fetch_add(1, Ordering::SeqCst);
            });
            let options = RunOptions::new().keep_going(true);
            let run = pool.launch_with(graph.plan().unwrap(), &options);
            let error = run.join().unwrap_err();
            assert!(error.failures()[0].error().is::<Broken>());
            assert_eq!((ran.load(Ordering::SeqCst), error.ran()), (1, 1));
        }
    });
}

#[test]
fn a_template_task_that_fails() {
    let graph = TemplateGraph::new();
    let check = graph.try_task("check", |n: &u32| match n {
        0 => Err(Broken(0)),
        n => Ok(*n),
    });
    check.precede(graph.task("use", |_| ()));
    let template = graph.template().unwrap();
    assert_eq!(template.instance(1).run().unwrap().ran(), 2);
    let error = template.instance(0).run().unwrap_err();
    assert_eq!(
        error.to_string(),
        "check failed: number 0 is broken (1 task skipped)"
    );
}

/// The list has the tasks that were ready and those behind them, in a graph of any shape.
#[test]
fn all_that_did_not_run_is_listed() {
    for pool in pools() {
        let cancel = CancelToken::new();
        let ran = Mutex::new(Vec::new());
        let graph = Graph::new();
        let mut layers: Vec<Vec<filch::graph::Task<'_, '_>>> = Vec::new();
        for layer in 0..5 {
            let (ran, cancel) = (&ran, &cancel);
            let tasks: Vec<_> = (0..10)
                .map(|n| {
                    let name = format!("{layer}.{n}");
                    let own = name.clone();
                    graph.task(name, move || {
                        ran.lock().unwrap().push(own.clone());
                        if (layer, n) == (2, 5) {
                            cancel.cancel();
                        }
                    })
                })
                .collect();
            if let Some(before) = layers.last() {
                for (n, task) in tasks.iter().enumerate() {
                    task.succeed([before[n], before[(n + 1) % 10]]);
                }
            }
            layers.push(tasks);
        }
        drop(layers);
        let options = RunOptions::new().on(&pool).cancel(&cancel);
        let error = graph.plan().unwrap().run_with(&options).unwrap_err();
        let mut all = ran.into_inner().unwrap();
        assert_eq!(error.ran() as usize, all.len());
        all.extend(error.skipped());
        all.sort_unstable();
        let expected: Vec<_> = (0..50).map(|n| format!("{}.{}", n / 10, n % 10)).collect();
        assert_eq!(all, expected);
    }
}

#[test]
fn errors_of_launched_runs_may_panic_when_they_are_dropped() {
    #[derive(Debug)]
    struct Bad;
    impl fmt::Display for Bad {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bad")
        }
    }
    impl Error for Bad {}
    impl Drop for Bad {
        fn drop(&mut self) {
            quiet_panic("a destructor")
        }
    }
    within(LIMIT, || {
        for pool in pools() {
            for _ in 0..50 {
                let graph = Graph::new();
                graph.try_task("fails", || Err::<(), _>(Bad));
                drop(pool.launch(graph.plan().unwrap()));
            }
        }
    });
}
