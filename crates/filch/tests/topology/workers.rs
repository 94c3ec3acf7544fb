//! The number of workers by default, and the variable that overrides it.

use crate::{
    fake::{Fake, symmetric},
    support::in_a_child_with,
};
use filch::{Executor, Pool, topology::Topology};
use std::panic;

fn executor_workers(topology: Topology) -> usize {
    let builder = Executor::builder().topology(topology);
    builder.build(|_| (), |_: u8, _| {}).unwrap().workers()
}

#[test]
fn a_quota_decides_on_the_number_of_workers() {
    const NAME: &str = "workers::a_quota_decides_on_the_number_of_workers";
    in_a_child_with(NAME, &[("FILCH_WORKERS", "")], || {
        let fake = Fake::new(&symmetric([1, 1, 1, 4], 1));
        fake.group("/");
        for (max, workers) in [("50000 100000", 1), ("250000 100000", 3), ("max 100000", 4)] {
            fake.write("sys/fs/cgroup/cpu.max", max);
            let pool = Pool::builder().topology(fake.read()).build().unwrap();
            assert_eq!(pool.workers(), workers, "{max}");
            assert_eq!(pool.join(|| 1, || 2), (1, 2));
            assert_eq!(executor_workers(fake.read()), workers, "{max}");
        }
        // A number that the program asks for is taken as it is.
        let pool = Pool::builder()
            .workers(5)
            .topology(fake.read())
            .build()
            .unwrap();
        assert_eq!(pool.workers(), 5);
        // Without a description it is that of the system.
        let pool = Pool::builder().build().unwrap();
        assert_eq!(pool.workers(), Topology::detect().parallelism());
    });
}

#[test]
fn the_variable_overrides_the_machine() {
    const NAME: &str = "workers::the_variable_overrides_the_machine";
    in_a_child_with(NAME, &[("FILCH_WORKERS", " 5 ")], || {
        assert_eq!(Pool::builder().build().unwrap().workers(), 5);
        assert_eq!(
            Pool::builder()
                .topology(Topology::flat(2))
                .build()
                .unwrap()
                .workers(),
            5
        );
        assert_eq!(executor_workers(Topology::flat(2)), 5);
        assert_eq!(Pool::builder().workers(1).build().unwrap().workers(), 1);
        assert_eq!(Pool::global().workers(), 5);
    });
}

#[test]
fn a_bad_variable_is_an_error() {
    const NAME: &str = "workers::a_bad_variable_is_an_error";
    in_a_child_with(NAME, &[("FILCH_WORKERS", "2.5")], || {
        let error = Pool::builder().build().unwrap_err();
        assert!(error.is_config());
        let allowed = format!("from 1 to {}", Pool::MAX_WORKERS);
        let text = error.to_string();
        assert!(
            text.contains("FILCH_WORKERS is \"2.5\"") && text.contains(&allowed),
            "{text}"
        );
        let executor = Executor::builder().build(|_| (), |_: u8, _| {});
        assert!(executor.unwrap_err().to_string().contains("FILCH_WORKERS"));
        // The global pool cannot return an error, unless it is set up; nor is it half started.
        let global = Pool::builder().build_global().unwrap_err();
        assert_eq!(global.to_string(), text);
        panic::set_hook(Box::new(|_| {}));
        let panicked = panic::catch_unwind(|| filch::join(|| 1, || 2)).unwrap_err();
        let panicked = panicked.downcast::<String>().unwrap();
        assert!(
            panicked.contains("the global pool could not be started") && panicked.contains(&text)
        );
        // What the program sets does not depend on the variable.
        assert_eq!(
            Pool::builder().workers(2).build_global().unwrap().workers(),
            2
        );
        assert_eq!(filch::join(|| 1, || 2), (1, 2));
    });
}

#[test]
fn too_many_workers_are_an_error() {
    let error = Pool::builder()
        .workers(100_000)
        .build()
        .unwrap_err()
        .to_string();
    let most = Pool::MAX_WORKERS.to_string();
    assert!(
        error.contains("100000 workers") && error.contains(&most),
        "{error}"
    );
    let executor = Executor::builder().workers(0).build(|_| (), |_: u8, _| {});
    assert!(
        executor
            .unwrap_err()
            .to_string()
            .contains("at least one worker")
    );
    // A machine with more CPUs than a pool has workers is no reason to fail.
    assert_eq!(Pool::builder().workers(0).build().unwrap().workers(), 0);
}
