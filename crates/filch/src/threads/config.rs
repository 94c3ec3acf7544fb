//! The settings of the threads of a group.

use crate::{
    base::{error::BuildError, host::IS_HOSTED, unwind},
    topology::{Topology, WorkerPlaces, default_workers},
};
use std::{
    env,
    ffi::OsStr,
    fmt,
    ops::Range,
    sync::{Arc, OnceLock},
};

/// The environment variable that sets the number of workers where the program does not.
pub(crate) const WORKERS_VARIABLE: &str = "FILCH_WORKERS";

type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// Called on every worker's own thread, before its first and after its last task.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) on_start: Option<Hook>,
    pub(crate) on_exit: Option<Hook>,
}

impl Hooks {
    pub(crate) fn start(&self, worker: usize) {
        if let Some(hook) = &self.on_start {
            hook(worker);
        }
    }

    pub(crate) fn exit(&self, worker: usize) {
        if let Some(hook) = &self.on_exit {
            hook(worker);
        }
    }
}

/// Names, stacks, hooks and CPUs of the threads of a group.
#[derive(Clone, Default)]
pub(crate) struct ThreadConfig {
    pub(crate) workers: Option<usize>,
    /// How many workers there may be later, if the program has set it.
    pub(crate) max_workers: Option<usize>,
    pub(crate) name: Option<Arc<dyn Fn(usize) -> String + Send + Sync>>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) hooks: Hooks,
    /// The CPUs of the workers, if these are pinned.
    pub(crate) places: Option<Arc<WorkerPlaces>>,
}

impl ThreadConfig {
    /// The same for other threads than workers, with numbers from `first` on. Without a name
    /// function their names are `prefix` and a number from zero on.
    pub(crate) fn named(&self, prefix: &'static str, first: usize) -> Self {
        let mut config = self.clone();
        config
            .name
            .get_or_insert_with(|| Arc::new(move |number| format!("{prefix}-{}", number - first)));
        config
    }

    /// The number of workers, at most `max`: what the program has set, else the environment
    /// variable, else as many as can run at the same time, on the machine `topology` if it is
    /// given.
    pub(super) fn workers(
        &self,
        topology: Option<&Topology>,
        max: usize,
    ) -> Result<usize, BuildError> {
        match self.workers {
            Some(workers) if workers > max => Err(BuildError::config(format!(
                "{workers} workers are too many; ask for at most {max}"
            ))),
            Some(workers) => Ok(workers),
            // The callers and the host run the tasks.
            None if IS_HOSTED => Ok(0),
            None => {
                let max = self.max_workers.map_or(max, |most| most.clamp(1, max));
                match workers_in(env::var_os(WORKERS_VARIABLE).as_deref(), max)? {
                    Some(workers) => Ok(workers),
                    None => Ok(topology
                        .map_or_else(default_workers, Topology::parallelism)
                        .min(max)),
                }
            }
        }
    }

    /// How many workers there may be, at most `max`, if there are `workers` at the start: as many,
    /// unless the program has set more.
    pub(super) fn max_workers(&self, workers: usize, max: usize) -> Result<usize, BuildError> {
        match self.max_workers {
            None => Ok(workers),
            Some(most) if workers == 0 => Err(BuildError::config(format!(
                "without workers at the start there are never any; ask for a worker, or leave out \
                 the maximum of {most}"
            ))),
            Some(most) if !(workers..=max).contains(&most) => Err(BuildError::config(format!(
                "a maximum of {most} workers is impossible with {workers} at the start; ask for \
                 {workers} to {max}"
            ))),
            Some(most) => Ok(most),
        }
    }

    /// Returns the names of the threads with these numbers. All of them are computed before the
    /// first thread is started, because the function is user code.
    pub(crate) fn thread_names(&self, numbers: Range<usize>) -> Result<Vec<String>, BuildError> {
        numbers.map(|number| self.thread_name(number)).collect()
    }

    fn thread_name(&self, number: usize) -> Result<String, BuildError> {
        let Some(name) = &self.name else {
            return Ok(format!("filch-{number}"));
        };
        let name = unwind::contain(|| name(number)).map_err(|payload| {
            let error = BuildError::init(number, "name function", &payload);
            unwind::discard(payload);
            error
        })?;
        // The names of the system end at the first NUL.
        if name.contains('\0') {
            return Err(BuildError::config(format!(
                "{name:?} is no name for the thread of worker {number}; leave out the NUL character"
            )));
        }
        Ok(name)
    }
}

/// The number of threads that can run at the same time, as it was at the first call. The system
/// takes microseconds to answer.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(default_workers)
}

/// Returns the number of workers in the environment variable, if it is set.
fn workers_in(variable: Option<&OsStr>, max: usize) -> Result<Option<usize>, BuildError> {
    let Some(value) = variable.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.to_str().map(str::trim);
    match text.and_then(|text| text.parse().ok()) {
        _ if text == Some("") => Ok(None),
        Some(workers) if (1..=max).contains(&workers) => Ok(Some(workers)),
        _ => Err(BuildError::config(format!(
            "{WORKERS_VARIABLE} is {value:?}; set it to a number of workers from 1 to {max}, or unset it"
        ))),
    }
}

impl fmt::Debug for ThreadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadConfig")
            .field("workers", &self.workers)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::workers_in;
    use std::ffi::OsStr;

    #[test]
    fn the_variable_is_read_and_checked() {
        let workers = |text: &str| workers_in(Some(OsStr::new(text)), 16_382);
        assert_eq!(workers_in(None, 100).unwrap(), None);
        assert_eq!(workers("").unwrap(), None);
        assert_eq!(workers("  ").unwrap(), None);
        assert_eq!(workers(" 3 ").unwrap(), Some(3));
        assert_eq!(workers("16382").unwrap(), Some(16_382));
        for bad in ["0", "-1", "many", "1.5", "16383", "99999999999999999999"] {
            let error = workers(bad).unwrap_err();
            let text = error.to_string();
            assert!(error.is_config() && text.contains(bad), "{text}");
            assert!(text.contains("FILCH_WORKERS") && text.contains("from 1 to 16382"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_no_text_is_an_error() {
        use std::os::unix::ffi::OsStrExt;
        let error = workers_in(Some(OsStr::from_bytes(b"\xff4")), 100).unwrap_err();
        assert!(error.to_string().contains("FILCH_WORKERS"), "{error}");
    }
}
