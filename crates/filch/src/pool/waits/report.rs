//! Reports about waits.

use super::event::EventKind;
use crate::{base::thread, threads::current_worker};
use std::{fmt, sync::Arc, time::Duration};

/// A participant of a wait: a task, a future, a worker or another thread; or what a wait is for: a
/// run of a graph, a scope, the other half of a join, a call on a worker, a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    kind: PartyKind,
    name: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PartyKind {
    Task(u64),
    Future(usize),
    Worker(usize),
    Thread,
    /// With the waiter that holds it up, in a cycle.
    Event(EventKind, Option<Box<Party>>),
}

impl Party {
    pub(crate) fn task(id: u64, name: Option<Arc<str>>) -> Self {
        let kind = PartyKind::Task(id);
        Self { kind, name }
    }

    pub(crate) fn future(address: usize) -> Self {
        let kind = PartyKind::Future(address);
        Self { kind, name: None }
    }

    pub(super) fn event(kind: EventKind) -> Self {
        let kind = PartyKind::Event(kind, None);
        Self { kind, name: None }
    }

    /// Adds the waiter that holds it up, if it is an event.
    pub(super) fn held_up_by(mut self, waiter: Option<&Self>) -> Self {
        if let PartyKind::Event(_, by) = &mut self.kind {
            *by = waiter.cloned().map(Box::new);
        }
        self
    }

    /// The calling thread.
    pub(super) fn this_thread() -> Self {
        match current_worker() {
            Some(worker) => Self {
                kind: PartyKind::Worker(worker),
                name: None,
            },
            None => Self {
                kind: PartyKind::Thread,
                name: thread::current().name().map(Arc::from),
            },
        }
    }

    /// The name of the task or thread, if it has one.
    ///
    /// ```
    /// # use std::{sync::mpsc, thread};
    /// # let pool = filch::Pool::builder().workers(1).build()?;
    /// # let ((end, wait), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
    /// # let slow = move || { begin.send(()).unwrap(); wait.recv().unwrap(); };
    /// # let slow = pool.task(slow).name("slow").submit().unwrap();
    /// # begun.recv()?;
    /// # let joiner = thread::Builder::new().name("joiner".into()).spawn(move || slow.join().unwrap())?;
    /// let wait = loop {
    ///     // The thread `joiner` joins the task `slow`, which runs.
    ///     match filch::waits().pop() {
    ///         Some(wait) => break wait,
    ///         None => thread::yield_now(),
    ///     }
    /// };
    /// assert_eq!(wait.subject().name(), Some("slow"));
    /// # end.send(()).unwrap();
    /// # joiner.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The [number](crate::TaskId::get) of the task, if it is one.
    ///
    /// ```
    /// # use std::{sync::mpsc, thread};
    /// # let pool = filch::Pool::builder().workers(1).build()?;
    /// # let ((end, wait), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
    /// # let slow = move || { begin.send(()).unwrap(); wait.recv().unwrap(); };
    /// # let slow = pool.submit(slow);
    /// # begun.recv()?;
    /// let id = slow.id().get();
    /// let joiner = thread::spawn(move || slow.join().unwrap());
    /// while !filch::waits().iter().any(|wait| wait.subject().task_id() == Some(id)) {
    ///     thread::yield_now(); // the thread does not wait yet
    /// }
    /// # end.send(()).unwrap();
    /// # joiner.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn task_id(&self) -> Option<u64> {
        match self.kind {
            PartyKind::Task(id) => Some(id),
            _ => None,
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.name) {
            (PartyKind::Task(_), Some(name)) => write!(f, "task `{name}`"),
            (PartyKind::Task(id), None) => write!(f, "task {id}"),
            (PartyKind::Future(address), _) => write!(f, "future {address:#x}"),
            (PartyKind::Worker(worker), _) => write!(f, "worker {worker}"),
            (PartyKind::Thread, Some(name)) => write!(f, "thread `{name}`"),
            (PartyKind::Thread, None) => f.write_str("a thread without a name"),
            (PartyKind::Event(kind, by), _) => {
                f.write_str(match kind {
                    EventKind::Run => "a run of a graph",
                    EventKind::Scope => "a scope",
                    EventKind::Half => "the other half of a join",
                    EventKind::Call => "a call on a worker",
                    EventKind::Lock | EventKind::SharedLock | EventKind::AnyLock => "a lock",
                })?;
                by.as_ref().map_or(Ok(()), |by| write!(f, " ({by})"))
            }
        }
    }
}

/// A wait in progress: from [`waits`](super::waits).
#[derive(Clone, Debug)]
pub struct Wait {
    waiter: Party,
    subject: Party,
    waited: Duration,
}

impl Wait {
    pub(super) fn new(waiter: Party, subject: Party, waited: Duration) -> Self {
        Self {
            waiter,
            subject,
            waited,
        }
    }

    /// The waiter: the innermost task that the waiting thread runs, else the thread.
    ///
    /// ```
    /// # use std::{sync::mpsc, thread};
    /// # let pool = filch::Pool::builder().workers(1).build()?;
    /// # let ((end, wait), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
    /// # let slow = move || { begin.send(()).unwrap(); wait.recv().unwrap(); };
    /// # let slow = pool.task(slow).name("slow").submit().unwrap();
    /// # begun.recv()?;
    /// # let joiner = thread::Builder::new().name("joiner".into()).spawn(move || slow.join().unwrap())?;
    /// let wait = loop {
    ///     // The thread `joiner` joins the task `slow`, which runs.
    ///     match filch::waits().pop() {
    ///         Some(wait) => break wait,
    ///         None => thread::yield_now(),
    ///     }
    /// };
    /// assert_eq!(wait.waiter().name(), Some("joiner"));
    /// # end.send(()).unwrap();
    /// # joiner.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn waiter(&self) -> &Party {
        &self.waiter
    }

    /// What the waiter waits for.
    ///
    /// ```
    /// # use std::{sync::mpsc, thread};
    /// # let pool = filch::Pool::builder().workers(1).build()?;
    /// # let ((end, wait), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
    /// # let slow = move || { begin.send(()).unwrap(); wait.recv().unwrap(); };
    /// # let slow = pool.task(slow).name("slow").submit().unwrap();
    /// # begun.recv()?;
    /// # let joiner = thread::Builder::new().name("joiner".into()).spawn(move || slow.join().unwrap())?;
    /// let wait = loop {
    ///     // The thread `joiner` joins the task `slow`, which runs.
    ///     match filch::waits().pop() {
    ///         Some(wait) => break wait,
    ///         None => thread::yield_now(),
    ///     }
    /// };
    /// assert_eq!(wait.subject().to_string(), "task `slow`");
    /// # end.send(()).unwrap();
    /// # joiner.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn subject(&self) -> &Party {
        &self.subject
    }

    /// How long the waiter has waited, not counting the microseconds before it first slept.
    ///
    /// ```
    /// # use std::{sync::mpsc, thread};
    /// # let pool = filch::Pool::builder().workers(1).build()?;
    /// # let ((end, wait), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
    /// # let slow = move || { begin.send(()).unwrap(); wait.recv().unwrap(); };
    /// # let slow = pool.task(slow).name("slow").submit().unwrap();
    /// # begun.recv()?;
    /// # let joiner = thread::Builder::new().name("joiner".into()).spawn(move || slow.join().unwrap())?;
    /// use std::time::Duration;
    ///
    /// // Waits of more than a millisecond, as a program would report them after some seconds.
    /// let stuck = loop {
    ///     let long = filch::waits().into_iter().find(|wait| wait.waited() > Duration::from_millis(1));
    ///     match long {
    ///         Some(wait) => break wait,
    ///         None => thread::yield_now(),
    ///     }
    /// };
    /// assert!(stuck.to_string().contains("waits for task `slow`"));
    /// # end.send(()).unwrap();
    /// # joiner.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiter, subject) = (&self.waiter, &self.subject);
        write!(f, "{waiter} waits for {subject} ({:?})", self.waited)
    }
}

/// Waits that depend on each other in a cycle.
#[derive(Clone, Debug)]
pub struct Cycle {
    parties: Vec<Party>,
}

impl Cycle {
    pub(super) fn new(parties: Vec<Party>) -> Self {
        Self { parties }
    }

    /// Each of these cannot continue before the next one has ended, and the last one not before the
    /// first.
    ///
    /// ```
    /// use std::sync::{Arc, Barrier, mpsc};
    ///
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let (both, (report, reported)) = (Arc::new(Barrier::new(2)), mpsc::channel());
    /// let start = |name| {
    ///     let (send, other) = mpsc::channel::<filch::TaskHandle<()>>();
    ///     let (both, report) = (both.clone(), report.clone());
    ///     let task = move || {
    ///         both.wait();
    ///         if let Err(error) = other.recv().unwrap().join() {
    ///             report.send(error).unwrap();
    ///         }
    ///     };
    ///     (send, pool.task(task).name(name).submit().unwrap())
    /// };
    /// let ((to_left, left), (to_right, right)) = (start("left"), start("right"));
    /// to_left.send(right)?; // each joins the other
    /// to_right.send(left)?;
    ///
    /// let error = reported.recv()?;
    /// let mut names: Vec<_> = error.cycle().unwrap().parties().iter().map(|party| party.name()).collect();
    /// names.sort_unstable();
    /// assert_eq!(names, [Some("left"), Some("right")]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn parties(&self) -> &[Party] {
        &self.parties
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.parties.split_first() else {
            return Ok(());
        };
        write!(f, "{first} waits for ")?;
        for party in rest {
            write!(f, "{party}, which waits for ")?;
        }
        match rest {
            [] => f.write_str("itself"),
            _ => write!(f, "{first}"),
        }
    }
}
