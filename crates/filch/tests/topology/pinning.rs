//! Pinned workers on the machine at hand.

use crate::support::{LIMIT, in_a_child_with, within};
use filch::{
    Executor, Pool,
    topology::{PinOrder, Pinning, Topology},
};
use std::fs;

/// Returns the CPUs of this thread, as the system lists them.
fn own_cpus() -> Option<String> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = { status.lines() }.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

/// Returns the machine if threads can be pinned on it, and says so if not.
pub(crate) fn machine() -> Option<Topology> {
    let topology = Topology::detect();
    let can_pin = || {
        Pool::builder()
            .workers(1)
            .pin(Pinning::Core)
            .build()
            .map(drop)
    };
    match (own_cpus(), can_pin()) {
        (Some(_), Ok(())) => Some(topology),
        (None, _) => {
            println!("SKIPPED: this system does not list the CPUs of a thread");
            None
        }
        (_, Err(error)) if cfg!(target_os = "linux") => {
            // A sandbox may forbid the call; nothing else is an excuse.
            let text = error.to_string();
            assert!(text.contains("the system did not pin"), "{text}");
            println!("SKIPPED: this system does not pin threads: {text}");
            None
        }
        (_, Err(error)) => {
            println!("SKIPPED: {error}");
            None
        }
    }
}

fn cpus_of_workers(pool: &Pool) -> Vec<String> {
    pool.broadcast(|_| own_cpus().unwrap())
}

#[test]
fn workers_stay_on_their_cpus() {
    within(LIMIT, || {
        let Some(topology) = machine() else { return };
        let before = own_cpus();
        for pinning in [Pinning::Core, Pinning::L3, Pinning::Node] {
            for order in [PinOrder::Compact, PinOrder::Spread] {
                let pool = Pool::builder()
                    .workers(3)
                    .pin(pinning.clone())
                    .pin_order(order);
                let pool = pool.build().unwrap();
                let places = topology.place(3, &pinning, order).unwrap();
                let expected = [0, 1, 2].map(|worker| places.cpus(worker).to_string());
                assert_eq!(cpus_of_workers(&pool), expected);
                assert_eq!(pool.join(|| 1, || 2), (1, 2));
            }
        }
        let list: Vec<usize> = topology.allowed().iter().collect();
        let pool = Pool::builder()
            .pin(Pinning::List(list.clone()))
            .build()
            .unwrap();
        assert_eq!(pool.workers(), list.len(), "as many as in the list");
        let expected: Vec<String> = list.iter().map(usize::to_string).collect();
        assert_eq!(cpus_of_workers(&pool), expected);
        assert_eq!(own_cpus(), before, "the caller is as it was");
    });
}

#[test]
fn workers_that_join_later_have_the_cpus_of_their_numbers() {
    within(LIMIT, || {
        let Some(topology) = machine() else { return };
        let before = own_cpus();
        let pool = Pool::builder().workers(1).max_workers(3);
        let pool = pool.pin(Pinning::Core).build().unwrap();
        let places = topology.place(3, &Pinning::Core, PinOrder::Compact);
        let places = places.unwrap();
        let expected = [0, 1, 2].map(|worker| places.cpus(worker).to_string());
        pool.resize(2).unwrap();
        assert_eq!(cpus_of_workers(&pool), expected[..2]);
        // By a thread that is pinned itself.
        let inside = pool.clone();
        pool.on_worker(move || inside.resize(3).unwrap());
        assert_eq!(cpus_of_workers(&pool), expected);
        assert_eq!(own_cpus(), before, "the caller is as it was");
        // Each number needs a CPU of a list.
        let first = topology.allowed().iter().next().unwrap();
        let pool = Pool::builder()
            .max_workers(2)
            .pin(Pinning::List(vec![first]));
        let error = pool.build().unwrap_err().to_string();
        assert!(
            error.contains("only 1 CPU") && error.contains("2 workers"),
            "{error}"
        );
    });
}

#[test]
fn a_hook_runs_on_the_pinned_thread() {
    within(LIMIT, || {
        let Some(topology) = machine() else { return };
        let first = topology.allowed().iter().next().unwrap();
        let check = move |_| assert_eq!(own_cpus(), Some(first.to_string()));
        let pool = Pool::builder()
            .pin(Pinning::List(vec![first]))
            .on_start(check);
        assert_eq!(pool.build().unwrap().workers(), 1);
        let executor = Executor::builder().pin(Pinning::List(vec![first]));
        let executor = executor.build(|_| own_cpus(), |_: u8, _| {}).unwrap();
        assert_eq!(executor.finish().scratch, [Some(first.to_string())]);
    });
}

#[test]
fn threads_that_are_not_pinned_keep_their_cpus() {
    within(LIMIT, || {
        if machine().is_none() {
            return;
        }
        let all = own_cpus().unwrap();
        let pool = Pool::builder()
            .workers(2)
            .future_workers(1)
            .pin(Pinning::Core)
            .build()
            .unwrap();
        pool.install(|| assert_eq!(own_cpus().as_ref(), Some(&all), "a guest"));
        let free = Pool::builder().workers(2).build().unwrap();
        assert_eq!(cpus_of_workers(&free), [all.clone(), all]);
    });
}

#[test]
fn a_pool_that_a_pinned_worker_builds_is_as_any_other() {
    const NAME: &str = "pinning::a_pool_that_a_pinned_worker_builds_is_as_any_other";
    in_a_child_with(NAME, &[("FILCH_WORKERS", "")], || {
        let Some(topology) = machine() else { return };
        let all = own_cpus().unwrap();
        let first = topology.allowed().iter().next().unwrap();
        let pinned = Pool::builder()
            .pin(Pinning::List(vec![first]))
            .build()
            .unwrap();
        let expected = topology.clone();
        pinned.on_worker(move || {
            assert_eq!(own_cpus(), Some(first.to_string()));
            let again = Topology::detect();
            assert_eq!(again, expected, "the machine is the same from here");
            let inner = Pool::builder().build().unwrap();
            assert_eq!(inner.workers(), expected.parallelism());
            assert!(cpus_of_workers(&inner).iter().all(|cpus| *cpus == all));
            let last = expected.allowed().iter().last().unwrap();
            let inner = Pool::builder()
                .pin(Pinning::List(vec![last]))
                .build()
                .unwrap();
            assert_eq!(cpus_of_workers(&inner), [last.to_string()]);
            // Two levels down.
            inner.on_worker(|| {
                let innermost = Pool::builder().workers(1).build().unwrap();
                assert_eq!(cpus_of_workers(&innermost), [all]);
            });
            assert_eq!(Pool::global().workers(), expected.parallelism());
        });
    });
}

#[test]
fn bad_pinning_is_an_error_and_changes_nothing() {
    within(LIMIT, || {
        let topology = Topology::detect();
        let before = own_cpus();
        let allowed = topology.allowed();
        let error = |list: Vec<usize>| {
            let builder = Pool::builder().pin(Pinning::List(list));
            builder.build().unwrap_err().to_string()
        };
        if !cfg!(target_os = "linux") {
            assert!(error(vec![0]).contains("does not pin threads"));
            return;
        }
        let text = error(vec![60_000]);
        assert!(
            text.contains("CPU 60000") && text.contains(&allowed.to_string()),
            "{text}"
        );
        let first = allowed.iter().next().unwrap();
        let text = error(vec![first, first]);
        assert!(
            text.contains(&format!("CPU {first} ")) && text.contains("once"),
            "{text}"
        );
        assert!(error(vec![]).contains("no CPU in the list"));
        let few = Pool::builder().workers(2).pin(Pinning::List(vec![first]));
        assert!(few.build().unwrap_err().to_string().contains("2 workers"));
        // Threads that others start cannot be pinned.
        let other = Pool::builder().workers(1).pin(Pinning::Core);
        let text = other.build_on(|_| unreachable!()).unwrap_err().to_string();
        assert!(text.contains("pin the threads yourself"), "{text}");
        let other = Pool::builder()
            .workers(1)
            .pin(Pinning::Core)
            .with_current_thread();
        assert!(other.build().unwrap_err().is_config());
        // A machine that has more CPUs than this one: the system refuses.
        if machine().is_some() {
            let larger = Pool::builder().topology(Topology::flat(8_000));
            let larger = larger.pin(Pinning::List(vec![first, 7_999])).build();
            let text = larger.unwrap_err().to_string();
            assert!(
                text.contains("worker 1") && text.contains("CPU 7999"),
                "{text}"
            );
        }
        assert_eq!(own_cpus(), before);
        assert_eq!(
            Pool::builder()
                .workers(0)
                .pin(Pinning::None)
                .build()
                .unwrap()
                .workers(),
            0
        );
    });
}
