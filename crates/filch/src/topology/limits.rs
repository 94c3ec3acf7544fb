//! What the process may use of the machine.

use super::{cgroup::Groups, cpu_set::CpuSet, files::Files};
use crate::base::{host::IS_HOSTED, sys::cores};
use std::{path::Path, thread::available_parallelism};

/// The CPUs that the process may use, and for how much of the time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limits {
    /// Not empty.
    pub(super) allowed: CpuSet,
    /// In CPUs.
    pub(super) quota: Option<f64>,
}

impl Limits {
    /// Reads the limits below a root. `affinity` is the set of CPUs of the calling thread, if that
    /// is known without the files. `None` if they do not say on which CPUs a thread may run.
    pub(super) fn read(files: Files<'_>, affinity: Option<CpuSet>) -> Option<Self> {
        let affinity = affinity.or_else(|| affinity_in(files))?;
        let within = |cpus: CpuSet, limit: CpuSet| match cpus.intersection(&limit) {
            // A limit that leaves nothing is not that of this process, since it runs.
            none if none.is_empty() => cpus,
            some => some,
        };
        let groups = Groups::read(files);
        let allowed = groups.cpu_sets().into_iter().fold(affinity, within);
        (!allowed.is_empty()).then(|| Self {
            allowed,
            quota: groups.quota(),
        })
    }

    /// The number of threads that can run at the same time, at least 1. A part of a CPU counts as
    /// one: with 2.5 CPUs, two threads would leave a fifth of the time unused.
    pub(super) fn parallelism(&self) -> usize {
        let cpus = self.allowed.len();
        let quota = self.quota.map_or(cpus, |quota| quota.ceil() as usize);
        cpus.min(quota).max(1)
    }
}

/// Returns the CPUs of the process as a file says.
fn affinity_in(files: Files<'_>) -> Option<CpuSet> {
    let status = files.read("proc/self/status")?;
    let line = { status.lines() }.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuSet::parse(line).filter(|cpus| !cpus.is_empty())
}

/// Returns the CPUs that this thread may use; of a pinned worker, those that it could use before.
pub(super) fn affinity() -> Option<CpuSet> {
    let cpus = cores::allowed()?;
    Some(cpus.into_iter().collect()).filter(|cpus: &CpuSet| !cpus.is_empty())
}

/// Whether the files of the system that this runs on can be read.
pub(super) const HAS_FILES: bool = cfg!(all(target_os = "linux", not(miri)));

/// Returns the number of workers by default: as [`Topology::parallelism`] for this machine, but
/// without reading its structure.
///
/// [`Topology::parallelism`]: super::Topology::parallelism
pub(crate) fn default_workers() -> usize {
    if HAS_FILES && let Some(limits) = Limits::read(Files::new(Path::new("/")), affinity()) {
        return limits.parallelism();
    }
    available()
}

/// Returns the number of CPUs that the standard library reports.
pub(super) fn available() -> usize {
    match IS_HOSTED {
        true => 1,
        false => available_parallelism().map_or(1, usize::from),
    }
}
