//! Reads the description of a machine.

use super::{
    cpu_set::CpuSet,
    files::Files,
    limits::{HAS_FILES, Limits, affinity, available},
    machine::Topology,
    structure::{Structure, memory},
};
use std::path::Path;

impl Topology {
    /// Describes the machine that this program runs on.
    ///
    /// On Linux it reads `/sys` and `/proc`, several files for each CPU, which takes milliseconds
    /// on large machines: keep the result. Elsewhere the machine is [flat](Self::flat).
    ///
    /// ```
    /// let topology = filch::topology::Topology::detect();
    /// assert!(topology.cpus().len() >= topology.allowed().len());
    /// ```
    #[must_use]
    pub fn detect() -> Self {
        if HAS_FILES {
            return Self::read(Files::new(Path::new("/")), affinity());
        }
        let cpus: CpuSet = (0..available()).collect();
        let note = "flat: this system does not describe its CPUs".to_owned();
        Self::flat_with(&cpus, None, within(None, &cpus), vec![note])
    }

    /// Reads the description of a machine from files below `root`: the folders `sys` and `proc` of
    /// Linux, or a copy of the files that matter. The allowed CPUs are those of `proc/self/status`.
    ///
    /// Files that are missing or make no sense are no error. What they would have said is left out,
    /// at worst everything but the number of CPUs, and [`notes`](Self::notes) says so.
    ///
    /// ```
    /// use filch::topology::Topology;
    ///
    /// # if cfg!(all(target_os = "linux", not(miri))) {
    /// let topology = Topology::read_from("/");
    /// assert_eq!(topology.cpus(), Topology::detect().cpus());
    /// # }
    /// ```
    #[must_use]
    pub fn read_from(root: impl AsRef<Path>) -> Self {
        Self::read(Files::new(root.as_ref()), None)
    }

    fn read(files: Files<'_>, affinity: Option<CpuSet>) -> Self {
        let limits = Limits::read(files, affinity);
        let online = files.list("sys/devices/system/cpu/online");
        let online = online.and_then(|cpus| match cpus.is_empty() {
            true => Err("no CPU is online".to_owned()),
            false => Ok(cpus),
        });
        let structure = online
            .clone()
            .and_then(|cpus| Structure::read(files, &cpus));
        match structure {
            Ok(structure) => {
                let cpus = online.unwrap_or_default();
                structure.into_topology(within(limits, &cpus))
            }
            Err(problem) => {
                // The allowed CPUs are known to exist.
                let known = limits.as_ref().map(|limits| limits.allowed.clone());
                let cpus = online.ok().or(known);
                let cpus = cpus.unwrap_or_else(|| (0..available()).collect());
                let note = format!("flat: {problem}");
                Self::flat_with(&cpus, memory(files), within(limits, &cpus), vec![note])
            }
        }
    }
}

/// Restricts the limits to CPUs that exist.
fn within(limits: Option<Limits>, cpus: &CpuSet) -> Limits {
    let quota = limits.as_ref().and_then(|limits| limits.quota);
    let allowed = limits.map(|limits| limits.allowed.intersection(cpus));
    let allowed = allowed.filter(|allowed| !allowed.is_empty());
    Limits {
        allowed: allowed.unwrap_or_else(|| cpus.clone()),
        quota,
    }
}
