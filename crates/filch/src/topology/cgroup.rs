//! The control groups of the process: where they are, and their limits on CPUs.
//!
//! A process is in one group of version 2, and in one of each controller of version 1; a machine
//! may have both. A group is a folder below the mount of its hierarchy. Limits hold for everything
//! below, so those of all ancestors count as far as they are mounted: a container may have its own
//! group as the root of the mount.

use super::{cpu_set::CpuSet, files::Files};

/// The longest path of a group, in bytes: longer ones are none of Linux.
const MAX_PATH: usize = 4096;

/// A hierarchy of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hierarchy {
    /// Version 2, with all controllers.
    Unified,
    /// Version 1, with this controller among others.
    Controller(&'static str),
}

/// Converts CPU time per period to a number of CPUs. Zero is no limit: Linux does not accept it.
fn in_cpus(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// A mounted hierarchy.
struct Mount {
    /// Whether it is of version 2.
    is_unified: bool,
    /// The controllers of version 1, separated by commas, with other options among them.
    options: String,
    /// The group that is mounted.
    group: String,
    /// Where it is mounted.
    folder: String,
}

impl Mount {
    fn new(is_unified: bool, options: &str, folder: &str) -> Self {
        Self {
            is_unified,
            options: options.to_owned(),
            group: "/".to_owned(),
            folder: folder.to_owned(),
        }
    }

    /// Reads a line of the list of mounts: see `proc_pid_mountinfo(5)`.
    fn parse(line: &str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let (mut place, mut kind) = (place.split(' ').skip(3), kind.split(' '));
        let is_unified = match kind.next()? {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        Some(Self {
            is_unified,
            options: kind.nth(1).unwrap_or_default().to_owned(),
            group: unescape(place.next()?),
            folder: unescape(place.next()?),
        })
    }

    fn is_of(&self, hierarchy: Hierarchy) -> bool {
        match hierarchy {
            Hierarchy::Unified => self.is_unified,
            Hierarchy::Controller(name) => {
                !self.is_unified && self.options.split(',').any(|option| option == name)
            }
        }
    }

    /// Returns the rest of the path of a group that is at or below the mounted one.
    fn below<'g>(&self, group: &'g str) -> Option<&'g str> {
        let rest = group.strip_prefix(self.group.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_end_matches('/'))
    }
}

/// Replaces the octal codes for spaces and the like.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, plain)| {
        text.replace(code, plain)
    })
}

/// The groups of the process.
pub(super) struct Groups<'r> {
    files: Files<'r>,
    mounts: Vec<Mount>,
    /// The lines of the file that lists the groups: number, controllers, path.
    lines: String,
}

impl<'r> Groups<'r> {
    pub(super) fn read(files: Files<'r>) -> Self {
        let mounts = match files.read("proc/self/mountinfo") {
            Some(text) => text.lines().filter_map(Mount::parse).collect(),
            // The usual places.
            None => vec![
                Mount::new(true, "", "/sys/fs/cgroup"),
                Mount::new(false, "cpu", "/sys/fs/cgroup/cpu"),
                Mount::new(false, "cpuset", "/sys/fs/cgroup/cpuset"),
            ],
        };
        let lines = files.read("proc/self/cgroup").unwrap_or_default();
        Self {
            files,
            mounts,
            lines,
        }
    }

    /// Returns the CPUs of the groups: each set is a limit.
    pub(super) fn cpu_sets(&self) -> Vec<CpuSet> {
        let lists = [
            (Hierarchy::Unified, "cpuset.cpus.effective"),
            (Hierarchy::Controller("cpuset"), "cpuset.effective_cpus"),
            (Hierarchy::Controller("cpuset"), "cpuset.cpus"),
        ];
        let paths = lists
            .into_iter()
            .flat_map(|(hierarchy, list)| self.files_of(hierarchy, list));
        // An empty one is that of a group without the controller.
        paths
            .filter_map(|path| self.files.list(&path).ok())
            .filter(|cpus| !cpus.is_empty())
            .collect()
    }

    /// Returns the least CPU time that a group or an ancestor may use, as a number of CPUs.
    pub(super) fn quota(&self) -> Option<f64> {
        let unified = self.files_of(Hierarchy::Unified, "cpu.max");
        let unified = unified.filter_map(|path| {
            let text = self.files.read(&path)?;
            let mut words = text.split_ascii_whitespace();
            // Without a limit the first word is `max`.
            let quota = words.next()?.parse().ok()?;
            in_cpus(quota, words.next()?.parse().ok()?)
        });
        let quotas = self.files_of(Hierarchy::Controller("cpu"), "cpu.cfs_quota_us");
        let periods = self.files_of(Hierarchy::Controller("cpu"), "cpu.cfs_period_us");
        let separate = quotas.zip(periods).filter_map(|(quota, period)| {
            // Without a limit the quota is -1.
            in_cpus(self.files.number(&quota)?, self.files.number(&period)?)
        });
        unified.chain(separate).min_by(f64::total_cmp)
    }

    /// Returns the path of the group in `hierarchy`; the root if it is not listed.
    fn path(&self, hierarchy: Hierarchy) -> &str {
        let is_of = |line: &str| match hierarchy {
            Hierarchy::Unified => line.starts_with("0::"),
            Hierarchy::Controller(name) => {
                let mut controllers = line.split(':').nth(1).unwrap_or_default().split(',');
                controllers.any(|other| other == name)
            }
        };
        let line = self.lines.lines().find(|line| is_of(line));
        let path = line.and_then(|line| line.splitn(3, ':').nth(2));
        path.filter(|path| path.len() < MAX_PATH).unwrap_or("/")
    }

    /// Returns the paths of the files with this name in the folders of the group in `hierarchy`
    /// and of its ancestors, as far as they are mounted.
    fn files_of(&self, hierarchy: Hierarchy, name: &str) -> impl Iterator<Item = String> {
        let path = self.path(hierarchy);
        let mut mounts = self.mounts.iter().filter(|mount| mount.is_of(hierarchy));
        let first = mounts.clone().next();
        let mount = mounts.find(|mount| mount.below(path).is_some()).or(first);
        // A group that is not below the mount is that of another namespace: the mount is all that
        // the process sees.
        let rest = mount.and_then(|mount| mount.below(path)).unwrap_or("");
        let ends = rest.match_indices('/').map(|(at, _)| at);
        let file = |mount: &Mount, end| {
            let folder = mount.folder.trim_end_matches('/');
            format!("{folder}{}/{name}", &rest[..end])
        };
        let all = |mount| ends.chain([rest.len()]).map(move |end| file(mount, end));
        let paths: Vec<String> = mount.map(all).into_iter().flatten().collect();
        paths.into_iter()
    }
}
