//! Model checks of the production code under loom, for submitted tasks and futures. The others are
//! in the modules `loom_tests` of the library.
//!
//! `RUSTFLAGS="--cfg filch_loom" cargo test --release --test loom`
//!
//! Every suite has its canaries: the same model with one fence, one wake or one step of the protocol
//! taken out of the production code, which loom must find. The switch for that is global, so the tests
//! run one after the other, in [`model`] and [`caught`].
//!
//! Models of three threads are bounded to few preemptive switches; `FILCH_LOOM=long` lets them have one
//! more and takes minutes.
#![cfg(filch_loom)]

use filch::base::canary::{self, Canary};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, PoisonError},
};

#[path = "loom/submit.rs"]
mod submit;
#[path = "loom/task.rs"]
mod task;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Explores `f` exhaustively, or up to `preemptions` preemptive switches where that is too much.
fn explore(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 100_000;
    builder.check(f);
}

/// The healthy code passes.
fn model(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    canary::set(None);
    explore(preemptions, f);
}

/// The code with `defect` does not.
fn caught(defect: Canary, preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    canary::set(Some(defect));
    let result = panic::catch_unwind(AssertUnwindSafe(|| explore(preemptions, f)));
    canary::set(None);
    assert!(result.is_err(), "loom did not notice the defect {defect:?}");
}

/// The number of preemptive switches for a large model.
fn long_run(short: usize, long: usize) -> Option<usize> {
    Some(match std::env::var("FILCH_LOOM") {
        Ok(value) if value == "long" => long,
        _ => short,
    })
}
