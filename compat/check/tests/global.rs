//! The global pool and process exit: each case in a separate process.

use rayon_core::{ThreadPoolBuilder, current_num_threads, join, spawn};
use std::{
    env,
    process::{Command, Output},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Runs only the test `name` of this file, with the environment variables.
fn alone(name: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            name,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env_remove("RAYON_NUM_THREADS")
        .env_remove("RAYON_RS_NUM_CPUS")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn passes(name: &str, variables: &[(&str, &str)]) {
    let output = alone(name, variables);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn the_environment_says_how_many() {
    passes("three_threads", &[("RAYON_NUM_THREADS", "3")]);
    passes("three_threads", &[("RAYON_RS_NUM_CPUS", "3")]);
    passes(
        "three_threads",
        &[
            ("RAYON_NUM_THREADS", "nonsense"),
            ("RAYON_RS_NUM_CPUS", "3"),
        ],
    );
    passes("a_thread_for_each_core", &[("RAYON_NUM_THREADS", "0")]);
    passes("a_thread_for_each_core", &[]);
}

#[test]
#[ignore = "run by `the_environment_says_how_many`"]
fn three_threads() {
    assert_eq!(current_num_threads(), 3);
    let pool = ThreadPoolBuilder::new().build().unwrap();
    assert_eq!(pool.current_num_threads(), 3);
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    assert_eq!(
        pool.current_num_threads(),
        2,
        "the program has the last word"
    );
}

#[test]
#[ignore = "run by `the_environment_says_how_many`"]
fn a_thread_for_each_core() {
    assert_eq!(
        current_num_threads(),
        thread::available_parallelism().unwrap().get()
    );
}

#[test]
fn the_global_pool_is_set_up_once() {
    passes("set_up_once", &[("RAYON_NUM_THREADS", "7")]);
    passes("set_up_late", &[]);
    passes("set_up_with_this_thread", &[]);
}

#[test]
#[ignore = "run by `the_global_pool_is_set_up_once`"]
fn set_up_once() {
    let (send, starts) = mpsc::channel();
    ThreadPoolBuilder::new()
        .num_threads(2)
        .start_handler(move |index| send.send(index).unwrap())
        .build_global()
        .unwrap();
    assert_eq!(current_num_threads(), 2);
    assert_eq!(join(|| 1, || 2), (1, 2));
    assert_eq!(starts.iter().take(2).sum::<usize>(), 1);
    assert!(ThreadPoolBuilder::new().build_global().is_err());
    assert_eq!(current_num_threads(), 2);
}

#[test]
#[ignore = "run by `the_global_pool_is_set_up_once`"]
fn set_up_late() {
    join(|| (), || ());
    let error = ThreadPoolBuilder::new()
        .num_threads(2)
        .build_global()
        .unwrap_err();
    assert!(error.to_string().contains("already"), "{error}");
}

#[test]
#[ignore = "run by `the_global_pool_is_set_up_once`"]
fn set_up_with_this_thread() {
    ThreadPoolBuilder::new()
        .num_threads(2)
        .use_current_thread()
        .build_global()
        .unwrap();
    assert_eq!(rayon_core::current_thread_index(), Some(0));
    let here = thread::current().id();
    assert!(
        join(|| thread::current().id(), || ()).0 == here,
        "the current thread is a thread of the pool"
    );
    let there = thread::spawn(rayon_core::current_thread_index)
        .join()
        .unwrap();
    assert_eq!(there, None);
    let index = thread::spawn(|| join(rayon_core::current_thread_index, || ()).0);
    assert_eq!(
        index.join().unwrap(),
        Some(1),
        "the other thread has to run it"
    );
}

#[test]
fn an_unhandled_panic_aborts_the_process() {
    for name in ["panics_in_a_spawn", "panics_in_the_handler"] {
        let output = alone(name, &[]);
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("aborting"), "{text}");
    }
}

#[test]
#[ignore = "run by `an_unhandled_panic_aborts_the_process`"]
fn panics_in_a_spawn() {
    spawn(|| panic!("detached"));
    thread::sleep(Duration::from_secs(30));
}

#[test]
#[ignore = "run by `an_unhandled_panic_aborts_the_process`"]
fn panics_in_the_handler() {
    let pool = ThreadPoolBuilder::new()
        .panic_handler(|_| panic!("again"))
        .build()
        .unwrap();
    pool.spawn(|| panic!("detached"));
    thread::sleep(Duration::from_secs(30));
}
