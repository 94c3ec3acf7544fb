//! Tasks that may return errors.

use super::{
    build::{Graph, Task},
    node::{Release, TaskKind},
};
use std::{borrow::Cow, error::Error};

impl<'env> Graph<'env> {
    /// Adds a task that may return an error, of any type that is an error or becomes one: also a
    /// text, or a boxed error. What it returns otherwise is dropped.
    ///
    /// An error stops the run as a panic does: no more tasks are released, and the
    /// [`RunError`](super::RunError) names the task and contains the error. With
    /// [`RunOptions::keep_going`](super::RunOptions::keep_going) it stops only the tasks that
    /// depend on this one.
    ///
    /// ```
    /// use std::{error::Error, fs, io};
    ///
    /// let graph = filch::Graph::new();
    /// let read = graph.try_task("read", || fs::read_to_string("no such file"));
    /// read.precede(graph.task("use", || unreachable!()));
    /// let error = graph.plan()?.run().unwrap_err();
    ///
    /// assert_eq!(error.failures()[0].task(), "read");
    /// let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    /// assert_eq!(cause.unwrap().kind(), io::ErrorKind::NotFound);
    /// assert_eq!(error.skipped().collect::<Vec<_>>(), ["use"]);
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    pub fn try_task<T, E>(
        &self,
        name: impl Into<Cow<'static, str>>,
        work: impl FnMut() -> Result<T, E> + Send + 'env,
    ) -> Task<'_, 'env>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.add(name.into()).try_work(work)
    }
}

impl<'env> Task<'_, 'env> {
    /// Sets the work of the task, which may return an error as that of [`Graph::try_task`], and
    /// drops its previous work.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let check = graph.placeholder("check");
    /// check.try_work(|| if 2 + 2 == 4 { Ok(()) } else { Err("the world has changed") });
    /// assert_eq!(graph.plan()?.run()?.ran(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_work<T, E>(self, mut work: impl FnMut() -> Result<T, E> + Send + 'env) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.graph
            .set(self.index(), TaskKind::Plain, move |cx| match work() {
                Ok(_) => Release::All,
                Err(error) => cx.run.task_failed(cx.index(), error.into()),
            });
        self
    }
}
