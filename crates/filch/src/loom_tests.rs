//! Support for the model checks of the production code under loom.
//!
//! `RUSTFLAGS="--cfg filch_loom" cargo test --release -p filch --lib`
//!
//! The models are the modules `loom_tests` of the code that they check. Each protocol has canaries:
//! the same model with one fence, wake or step of the protocol removed from the production code,
//! which loom must find. The switch for that is global, so [`model`] and [`caught`] run one model
//! at a time. (Two at a time took 158 s on two cores, one at a time 93.)
//!
//! Models of three threads are bounded to a few preemptive switches. `FILCH_LOOM=long` allows one
//! more and takes minutes.
#![expect(unsafe_code, reason = "a cell whose accesses loom checks")]

use crate::base::canary::{self, Canary};
use loom::{cell::UnsafeCell, model::Builder};
use std::{
    env,
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, PoisonError},
};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Explores `f` exhaustively, or up to `preemptions` preemptive switches where that is too much.
fn explore(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 100_000;
    builder.check(f);
}

/// Checks that the code without a defect passes.
pub(crate) fn model(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    canary::set(None);
    explore(preemptions, f);
}

/// Checks that loom finds `defect`.
pub(crate) fn caught(
    defect: Canary,
    preemptions: Option<usize>,
    f: impl Fn() + Sync + Send + 'static,
) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    canary::set(Some(defect));
    let result = panic::catch_unwind(AssertUnwindSafe(|| explore(preemptions, f)));
    canary::set(None);
    assert!(result.is_err(), "loom did not find the defect {defect:?}");
}

/// The number of preemptive switches for a large model.
pub(crate) fn long_run(short: usize, long: usize) -> Option<usize> {
    Some(match env::var("FILCH_LOOM") {
        Ok(value) if value == "long" => long,
        _ => short,
    })
}

/// Data that a protocol publishes: a plain cell, so that loom reports unordered accesses.
#[derive(Default)]
pub(crate) struct Data(UnsafeCell<usize>);

// SAFETY: the protocols under test order the accesses; loom reports those that are not ordered.
unsafe impl Sync for Data {}

impl Data {
    /// Adds `n` and returns the sum.
    pub(crate) fn add(&self, n: usize) -> usize {
        self.0.with_mut(|data| {
            // SAFETY: loom panics in `with_mut` unless this access is ordered after all others.
            let data = unsafe { &mut *data };
            *data += n;
            *data
        })
    }

    pub(crate) fn set(&self, value: usize) {
        // SAFETY: loom panics in `with_mut` unless this access is ordered after all others.
        self.0.with_mut(|data| unsafe { *data = value });
    }

    pub(crate) fn get(&self) -> usize {
        // SAFETY: loom panics in `with` unless this access is ordered after all writes.
        self.0.with(|data| unsafe { *data })
    }
}
