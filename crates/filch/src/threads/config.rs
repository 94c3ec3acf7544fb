//! The settings of the threads of a group.

use crate::base::{error::BuildError, unwind};
use std::{
    fmt,
    ops::Range,
    sync::{Arc, OnceLock},
    thread,
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

/// Names, stacks and hooks of the threads of a group.
#[derive(Clone, Default)]
pub(crate) struct ThreadConfig {
    pub(crate) workers: Option<usize>,
    pub(crate) name: Option<Arc<dyn Fn(usize) -> String + Send + Sync>>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) hooks: Hooks,
}

impl ThreadConfig {
    /// The number of workers, at most `max`: what the program has set, else the environment
    /// variable, else one for each core that the process may use.
    pub(crate) fn workers(&self, max: usize) -> Result<usize, BuildError> {
        let workers = match self.workers {
            Some(workers) => workers,
            None => workers_from(std::env::var(WORKERS_VARIABLE).ok().as_deref())?,
        };
        if workers > max {
            return Err(BuildError::config(format!(
                "{workers} workers are too many; ask for at most {max}"
            )));
        }
        Ok(workers)
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

/// The number of cores that the process may use, as it was at the first call. The system takes
/// microseconds to answer.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

fn workers_from(variable: Option<&str>) -> Result<usize, BuildError> {
    match variable.map(str::trim) {
        None | Some("") => Ok(thread::available_parallelism().map_or(1, usize::from)),
        Some(text) => match text.parse() {
            Ok(workers) if workers > 0 => Ok(workers),
            _ => Err(BuildError::config(format!(
                "{WORKERS_VARIABLE} is {text:?}; set it to a number of workers of at least 1, or unset it"
            ))),
        },
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
    use super::workers_from;

    #[test]
    fn the_variable_is_read_and_checked() {
        assert_eq!(workers_from(Some(" 3 ")).unwrap(), 3);
        assert!(workers_from(None).unwrap() >= 1);
        assert!(workers_from(Some("")).unwrap() >= 1);
        for bad in ["0", "-1", "many", "1.5"] {
            let error = workers_from(Some(bad)).unwrap_err();
            assert!(
                error.is_config() && error.to_string().contains(bad),
                "{error}"
            );
        }
    }
}
