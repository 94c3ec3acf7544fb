//! filch
pub mod crew;
pub mod engine;
pub mod executor;
pub mod ground;
pub mod observe;

pub use crew::current_worker;
pub use executor::Executor;
pub use ground::{
    error::{BuildError, Refused},
    rng::Rng,
};
