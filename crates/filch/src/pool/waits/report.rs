//! Reports about waits.

use crate::{base::thread, threads::current_worker};
use std::{fmt, sync::Arc, time::Duration};

/// A participant of a wait: a task, a future, a worker or another thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    kind: Kind,
    name: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Task(u64),
    Future(usize),
    Worker(usize),
    Thread,
}

impl Party {
    pub(crate) fn task(id: u64, name: Option<Arc<str>>) -> Self {
        let kind = Kind::Task(id);
        Self { kind, name }
    }

    pub(crate) fn future(address: usize) -> Self {
        let kind = Kind::Future(address);
        Self { kind, name: None }
    }

    /// The calling thread.
    pub(super) fn this_thread() -> Self {
        match current_worker() {
            Some(worker) => Self {
                kind: Kind::Worker(worker),
                name: None,
            },
            None => Self {
                kind: Kind::Thread,
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
    /// use std::sync::mpsc;
    ///
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let (send, receive) = mpsc::channel::<filch::TaskHandle<()>>();
    /// let (report, reported) = mpsc::channel();
    /// let task = move || {
    ///     let myself = receive.recv().unwrap();
    ///     report.send(myself.join().unwrap_err()).unwrap(); // would wait for ever
    /// };
    /// let task = pool.task(task).name("circular").submit().unwrap();
    /// let id = task.id().get();
    /// send.send(task)?;
    /// let error = reported.recv()?;
    /// assert_eq!(error.cycle().unwrap().parties()[0].task_id(), Some(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn task_id(&self) -> Option<u64> {
        match self.kind {
            Kind::Task(id) => Some(id),
            _ => None,
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.name) {
            (Kind::Task(_), Some(name)) => write!(f, "task `{name}`"),
            (Kind::Task(id), None) => write!(f, "task {id}"),
            (Kind::Future(address), _) => write!(f, "future {address:#x}"),
            (Kind::Worker(worker), _) => write!(f, "worker {worker}"),
            (Kind::Thread, Some(name)) => write!(f, "thread `{name}`"),
            (Kind::Thread, None) => f.write_str("a thread without a name"),
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
    /// use std::sync::mpsc;
    ///
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let (send, receive) = mpsc::channel::<filch::TaskHandle<()>>();
    /// let (report, reported) = mpsc::channel();
    /// let task = move || {
    ///     let myself = receive.recv().unwrap();
    ///     report.send(myself.join().unwrap_err()).unwrap(); // would wait for ever
    /// };
    /// let task = pool.task(task).name("circular").submit().unwrap();
    /// send.send(task)?;
    /// let error = reported.recv()?;
    /// let parties = error.cycle().unwrap().parties();
    /// assert_eq!(parties.len(), 1);
    /// assert_eq!(parties[0].to_string(), "task `circular`");
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
