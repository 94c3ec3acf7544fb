//! filch
pub mod crew;
pub mod engine;
pub mod executor;
pub mod ground;
pub mod observe;
#[cfg(all(feature = "simulate", not(filch_loom)))]
pub mod simulate;

pub use crew::current_worker;
pub use executor::Executor;
pub use ground::{
    error::{BuildError, Refused},
    rng::Rng,
};
