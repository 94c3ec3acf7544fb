//! Errors: small, with predicates, and with the refused tasks inside.

use super::unwind::{self, Payload};
use std::{error::Error, fmt};

/// Why something could not be built.
///
/// ```
/// use filch::Executor;
///
/// let error = Executor::<u32>::builder()
///     .workers(0)
///     .build(|_| (), |_, _| {})
///     .unwrap_err();
/// assert!(error.is_config());
/// assert!(error.to_string().contains("at least one worker"));
/// ```
#[derive(Debug)]
pub struct BuildError {
    kind: BuildErrorKind,
}

#[derive(Debug)]
enum BuildErrorKind {
    Config(String),
    Thread {
        worker: usize,
        source: std::io::Error,
    },
    Init {
        worker: usize,
        /// What panicked.
        what: &'static str,
        message: String,
    },
}

impl BuildError {
    /// An invalid setting: `what` names it, and says what to do about it.
    ///
    /// ```
    /// use filch::BuildError;
    ///
    /// fn check(buckets: usize) -> Result<(), BuildError> {
    ///     match buckets {
    ///         0 => Err(BuildError::config("no buckets: ask for at least one")),
    ///         _ => Ok(()),
    ///     }
    /// }
    /// assert!(check(0).unwrap_err().is_config());
    /// ```
    #[must_use]
    pub fn config(what: impl Into<String>) -> Self {
        Self {
            kind: BuildErrorKind::Config(what.into()),
        }
    }

    pub(crate) fn thread(worker: usize, source: std::io::Error) -> Self {
        Self {
            kind: BuildErrorKind::Thread { worker, source },
        }
    }

    /// Reports that `what` panicked for a worker, with this payload.
    pub(crate) fn init(worker: usize, what: &'static str, payload: &Payload) -> Self {
        Self {
            kind: BuildErrorKind::Init {
                worker,
                what,
                message: unwind::message(payload).to_owned(),
            },
        }
    }

    /// Whether a setting is invalid.
    ///
    /// ```
    /// let error = filch::Pool::builder().name(|_| "a\0b".into()).workers(1).build().unwrap_err();
    /// assert!(error.is_config());
    /// ```
    #[must_use]
    pub fn is_config(&self) -> bool {
        matches!(self.kind, BuildErrorKind::Config(_))
    }

    /// Whether the system refused a thread.
    ///
    /// ```
    /// use std::io::{Error, ErrorKind};
    ///
    /// let none_left = |_| Err(Error::from(ErrorKind::OutOfMemory));
    /// let error = filch::Pool::builder().workers(1).build_on(none_left).unwrap_err();
    /// assert!(error.is_thread());
    /// ```
    #[must_use]
    pub fn is_thread(&self) -> bool {
        matches!(self.kind, BuildErrorKind::Thread { .. })
    }

    /// Whether the initialiser of a worker, its start hook, its name function or its start function
    /// panicked.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).on_start(|_| panic!("no licence"));
    /// let error = pool.build().unwrap_err();
    /// assert!(error.is_init() && error.to_string().contains("no licence"));
    /// ```
    #[must_use]
    pub fn is_init(&self) -> bool {
        matches!(self.kind, BuildErrorKind::Init { .. })
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            BuildErrorKind::Config(what) => f.write_str(what),
            BuildErrorKind::Thread { worker, source } => write!(
                f,
                "could not start the thread of worker {worker}: {source}; ask for fewer workers or a smaller stack"
            ),
            BuildErrorKind::Init {
                worker,
                what,
                message,
            } => write!(
                f,
                "the {what} of worker {worker} panicked: {message}; no task was run"
            ),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            BuildErrorKind::Thread { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A refused submission. It contains the task, or the whole batch: nothing is lost.
///
/// ```
/// use filch::Executor;
///
/// let executor = Executor::builder().workers(1).build(|_| (), |_: u32, _| {}).unwrap();
/// let handle = executor.handle();
/// executor.finish();
/// let refused = handle.spawn(7).unwrap_err();
/// assert!(refused.is_closed());
/// assert_eq!(refused.into_inner(), 7);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Refused<T> {
    tasks: T,
    reason: Reason,
}

/// The last bit of [`Reason::NoNode`].
const LAST_NODE: usize = 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Closed,
    Full,
    /// There is no such worker; `workers` is their number.
    NoWorker {
        asked: usize,
        workers: usize,
    },
    /// No worker is on such a node; the others are bits of `nodes`, where the last stands for all
    /// higher ones.
    NoNode {
        asked: usize,
        nodes: u64,
    },
    /// The task has a deadline, and the timer has no thread.
    NoTimer,
    /// The task needs units of a semaphore that never has them.
    NoUnits,
}

impl<T> Refused<T> {
    pub(crate) fn closed(tasks: T) -> Self {
        Self {
            tasks,
            reason: Reason::Closed,
        }
    }

    pub(crate) fn full(tasks: T) -> Self {
        Self {
            tasks,
            reason: Reason::Full,
        }
    }

    pub(crate) fn no_worker(tasks: T, asked: usize, workers: usize) -> Self {
        let reason = Reason::NoWorker { asked, workers };
        Self { tasks, reason }
    }

    pub(crate) fn no_node(tasks: T, asked: usize, nodes: &[usize]) -> Self {
        let bits = nodes.iter().map(|&node| 1 << node.min(LAST_NODE));
        let nodes = bits.fold(0, |all: u64, bit: u64| all | bit);
        let reason = Reason::NoNode { asked, nodes };
        Self { tasks, reason }
    }

    pub(crate) fn no_timer(tasks: T) -> Self {
        Self {
            tasks,
            reason: Reason::NoTimer,
        }
    }

    pub(crate) fn no_units(tasks: T) -> Self {
        Self {
            tasks,
            reason: Reason::NoUnits,
        }
    }

    /// Returns the same refusal, with the task replaced by `f(task)`.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(0).task_capacity(1).build()?;
    /// let first = pool.submit(|| 1);
    /// let refused = pool.task(|| 2).try_submit().unwrap_err().map(|task| task());
    /// assert!(refused.is_full());
    /// assert_eq!(refused.into_inner(), 2);
    /// # first.detach();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Refused<U> {
        Refused {
            tasks: f(self.tasks),
            reason: self.reason,
        }
    }

    /// Whether it was refused because the executor or pool takes no more work: it was joined, shut
    /// down or dropped.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| (), |_: u32, _| {})?;
    /// let handle = executor.handle();
    /// executor.finish();
    /// assert!(handle.spawn(1).unwrap_err().is_closed());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn is_closed(&self) -> bool {
        self.reason == Reason::Closed
    }

    /// Whether it was refused because the queue is full; the same call may succeed later.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(0).task_capacity(1).build()?;
    /// let first = pool.submit(|| 1);
    /// assert!(pool.task(|| 2).try_submit().unwrap_err().is_full());
    /// # first.detach();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn is_full(&self) -> bool {
        self.reason == Reason::Full
    }

    /// Whether it was refused because it was meant for a worker or a node that does not exist.
    ///
    /// ```
    /// use filch::Affinity;
    ///
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let refused = pool.task(|| 1).affinity(Affinity::Worker(7)).try_submit().unwrap_err();
    /// assert!(refused.is_misplaced());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn is_misplaced(&self) -> bool {
        matches!(self.reason, Reason::NoWorker { .. } | Reason::NoNode { .. })
    }

    /// Whether it was refused because the semaphore is closed, or has fewer units than the task
    /// needs.
    ///
    /// ```
    /// use filch::{Executor, Permit, Semaphore};
    ///
    /// let small = Semaphore::new(10);
    /// let executor = Executor::builder().workers(1).build(|_| (), |_: Permit<'static>, _| {})?;
    /// let refused = executor.spawn_when(&small, 11, |permit| permit).unwrap_err();
    /// assert!(refused.is_unavailable());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn is_unavailable(&self) -> bool {
        self.reason == Reason::NoUnits
    }

    /// The refused task or batch.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| (), |_: &str, _| {})?;
    /// let handle = executor.handle();
    /// executor.finish();
    /// let task = handle.spawn("report").unwrap_err().into_inner();
    /// assert_eq!(task, "report"); // for another executor, or a later attempt
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn into_inner(self) -> T {
        self.tasks
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = |n: usize| n.saturating_sub(1);
        match self.reason {
            Reason::Closed => {
                f.write_str("no more tasks are accepted after the end; take the task back with into_inner")
            }
            Reason::Full => f.write_str(
                "the queue is full; take the task back with into_inner and try again later",
            ),
            Reason::NoWorker { asked, workers: 0 } => write!(
                f,
                "there is no worker {asked}: the pool has no workers of its own; let the task run anywhere"
            ),
            Reason::NoWorker { asked, workers } => write!(
                f,
                "there is no worker {asked}; the workers are 0 to {}",
                last(workers)
            ),
            Reason::NoNode { asked, nodes } => {
                write!(f, "no worker is pinned to node {asked}; the nodes of the workers are")?;
                let numbers = (0..=LAST_NODE).filter(|node| nodes >> node & 1 == 1);
                for (i, node) in numbers.enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    let more = if node == LAST_NODE { " and above" } else { "" };
                    write!(f, "{comma} {node}{more}")?;
                }
                Ok(())
            }
            Reason::NoUnits => f.write_str(
                "the semaphore is closed or has fewer units than the task needs; ask for fewer, or for those of another one",
            ),
            Reason::NoTimer => f.write_str(
                "the thread for deadlines could not be started; end other threads and try again, or leave the deadline out",
            ),
        }
    }
}

impl<T> Error for Refused<T> {}
