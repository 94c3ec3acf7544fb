//! The machine that the workers run on: its nodes, caches and cores, and what the process may use.
//!
//! [`Topology::detect`] reads it from the system, and `Display` prints it as a tree:
//!
//! ```
//! use filch::topology::Topology;
//!
//! let topology = Topology::detect();
//! println!("{topology}");
//! assert!(topology.parallelism() >= 1);
//! ```
//!
//! On a machine with two sockets that prints
//!
//! ```text
//! machine: 32 CPUs, 16 cores, 2 L3 groups, 2 nodes
//! ├─ node 0, package 0: 62.8 GiB, distances 10 21
//! │  └─ L3 0: 8 cores with 2 threads, CPUs 0-7,16-23
//! └─ node 1, package 1: 63.0 GiB, distances 21 10
//!    └─ L3 1: 8 cores with 2 threads, CPUs 8-15,24-31
//! allowed: CPUs 0-31, quota 2.5 CPUs, so 3 workers by default
//! ```
//!
//! A pool has as many workers by default as [`Topology::parallelism`] says. With
//! [`PoolBuilder::pin`](crate::PoolBuilder::pin) they stay on their cores, caches or nodes:
//!
//! ```
//! use filch::{Pool, topology::Pinning};
//!
//! # if cfg!(all(target_os = "linux", not(miri))) {
//! let pool = Pool::builder().workers(2).pin(Pinning::Core).build()?;
//! assert_eq!(pool.join(|| 1, || 2), (1, 2));
//! # }
//! # Ok::<(), filch::BuildError>(())
//! ```
//!
//! [`Topology::read_from`] reads the description of another machine, from a copy of its files.

mod cgroup;
mod cpu_set;
mod describe;
mod distance;
mod files;
mod limits;
mod machine;
mod pinning;
mod read;
mod structure;

pub use cpu_set::CpuSet;
pub use distance::Distance;
pub(crate) use limits::default_workers;
pub use machine::{Cpu, Node, Topology};
pub use pinning::{PinOrder, Pinning, WorkerPlaces};
