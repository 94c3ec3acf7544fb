//! The files that describe a machine, below a root.

use super::cpu_set::CpuSet;
use std::{
    fs::File,
    io::Read,
    path::{Component, Path, PathBuf},
    str::FromStr,
};

/// The longest file that is read, in bytes. The longest of a real machine is the list of its
/// mounts, which has a few hundred bytes for each.
const MAX_BYTES: u64 = 4 << 20;

/// The length up to which the contents of a file are quoted, in characters.
const QUOTED: usize = 40;

/// The folder that stands for `/`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files<'r> {
    root: &'r Path,
}

impl<'r> Files<'r> {
    pub(super) fn new(root: &'r Path) -> Self {
        Self { root }
    }

    /// Returns the contents of a file, or `None` if it is not there, cannot be read, is too long or
    /// is no text.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.path_below_root(path)?).ok()?;
        let length = file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        (length < MAX_BYTES as usize).then_some(text)
    }

    /// Returns the path of a file, or `None` if it would lead out of the root.
    fn path_below_root(&self, path: &str) -> Option<PathBuf> {
        let path = Path::new(path.trim_start_matches('/'));
        let is_below = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        // A NUL is an error of the system's calls, which `open` reports.
        is_below.then(|| self.root.join(path))
    }

    /// Returns the number in a file.
    pub(super) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.trim().parse().ok()
    }

    /// Returns the list of CPUs (or nodes) in a file.
    ///
    /// # Errors
    /// What is wrong with the file, for people.
    pub(super) fn list(&self, path: &str) -> Result<CpuSet, String> {
        let Some(text) = self.read(path) else {
            return Err(format!("{path} cannot be read"));
        };
        let quoted = || text.trim().chars().take(QUOTED).collect::<String>();
        CpuSet::parse(&text).ok_or_else(|| format!("{path} is no list of CPUs: {:?}", quoted()))
    }
}
