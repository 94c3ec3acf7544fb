//! Pipelines: many tokens on their way through the same stages, in order where it matters.

mod error;
mod link;
mod run;
mod source;
mod station;

pub use error::{PipelineError, StagePanic};
pub use source::Flow;

/// What the model checker gets to see.
#[cfg(filch_loom)]
#[doc(hidden)]
pub mod model {
    pub use super::station::model::Station;
}

use super::options::RunOptions;
use crate::{
    base::sync::{AtomicU32, Ordering},
    cancel::{CancelReason, OnCancel},
    pool::{Pool, on_current},
};
use link::{Feeder, Link, Parallel, Serial, Source};
use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc};

/// Tokens that go through stages: a source makes them one by one, serial stages see them one at a time and in order,
/// parallel stages see many at once.
///
/// `T` is what comes out of the last stage so far; the next stage takes it. What the last one puts out is dropped. The
/// closures may borrow everything that outlives the pipeline.
///
/// ```
/// use filch::graph::Pipeline;
///
/// let text = "every line goes\nin capital letters\nto the end";
/// let mut lines = text.lines();
/// let mut out = String::new();
/// let report = Pipeline::new(|_flow| lines.next())       // one at a time
///     .parallel(|line: &str| line.to_uppercase())        // as many at once as there are workers
///     .serial(|line| out += &(line + "\n"))              // one at a time, in order
///     .run(8)?;                                          // at most eight on their way
/// assert_eq!(out, "EVERY LINE GOES\nIN CAPITAL LETTERS\nTO THE END\n");
/// assert_eq!(report.tokens(), 3);
/// # Ok::<(), filch::graph::PipelineError>(())
/// ```
///
/// Types must fit together:
///
/// ```compile_fail
/// use filch::graph::Pipeline;
///
/// Pipeline::new(|_| Some(1_u32)).serial(|text: String| text.len());
/// ```
///
/// and a parallel stage must not change what it shares with itself:
///
/// ```compile_fail
/// use filch::graph::Pipeline;
///
/// let mut sum = 0;
/// Pipeline::new(|_| Some(1)).parallel(|n| sum += n);
/// ```
///
/// No worker is held while a token waits for its turn. Nothing is allocated for a token, but for those that
/// are [deferred](Flow::defer).
pub struct Pipeline<'env, T> {
    source: Box<dyn Source + 'env>,
    links: Vec<Box<dyn Link + 'env>>,
    /// Of all stages, the source included.
    names: Vec<Option<String>>,
    output: PhantomData<fn() -> T>,
}

impl<'env, T: Send + 'env> Pipeline<'env, T> {
    /// A pipeline that begins with `source`, which makes one token at a time, and `None` when there are no
    /// more.
    #[must_use]
    pub fn new(source: impl FnMut(&mut Flow) -> Option<T> + Send + 'env) -> Self {
        Self {
            source: Box::new(Feeder::new(source)),
            links: Vec::new(),
            names: vec![None],
            output: PhantomData,
        }
    }

    /// Adds a stage that one token at a time goes through, in order.
    #[must_use]
    pub fn serial<U: Send + 'env>(
        self,
        stage: impl FnMut(T) -> U + Send + 'env,
    ) -> Pipeline<'env, U> {
        self.stage(Stage::serial(stage))
    }

    /// Adds a stage that any number of tokens are in at once.
    #[must_use]
    pub fn parallel<U: Send + 'env>(
        self,
        stage: impl Fn(T) -> U + Send + Sync + 'env,
    ) -> Pipeline<'env, U> {
        self.stage(Stage::parallel(stage))
    }

    /// Adds a stage that was made before.
    #[must_use]
    pub fn stage<U: Send + 'env>(mut self, stage: Stage<'env, T, U>) -> Pipeline<'env, U> {
        self.links.push(stage.link);
        self.names.push(stage.name);
        Pipeline {
            source: self.source,
            links: self.links,
            names: self.names,
            output: PhantomData,
        }
    }

    /// Adds stages that are chosen at run time.
    ///
    /// ```
    /// use filch::graph::{Pipeline, Stage};
    ///
    /// let recipe = "+*+";
    /// let mut numbers = 0..3;
    /// let mut results = vec![];
    /// let stages = recipe.chars().map(|sign| match sign {
    ///     '+' => Stage::parallel(|n| n + 1),
    ///     _ => Stage::serial(|n| n * 10),
    /// });
    /// Pipeline::new(|_| numbers.next()).stages(stages).serial(|n| results.push(n)).run(2)?;
    /// assert_eq!(results, [11, 21, 31]);
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    #[must_use]
    pub fn stages(self, stages: impl IntoIterator<Item = Stage<'env, T>>) -> Self {
        stages.into_iter().fold(self, Self::stage)
    }
}

impl<T> Pipeline<'_, T> {
    /// Names the stage that was added last, for errors.
    #[must_use]
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        if let Some(last) = self.names.last_mut() {
            *last = Some(name.into().into_owned());
        }
        self
    }

    /// How many stages there are, the source included.
    #[must_use]
    pub fn stage_count(&self) -> usize {
        self.names.len()
    }

    /// Runs it on the pool that the caller works for, else on the global one, with at most `lines` tokens on their
    /// way at the same time. Returns when all of them are through. The calling thread works too.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    ///
    /// let mut left = 3;
    /// let mut pipeline = Pipeline::new(|_| {
    ///     left = if left == 0 { 3 } else { left - 1 };
    ///     (left > 0).then_some(left)
    /// });
    /// assert_eq!(pipeline.run(2)?.tokens(), 2);
    /// assert_eq!(pipeline.run(1)?.tokens(), 3); // again
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    ///
    /// # Errors
    /// When a stage panics: no more tokens are made then, and those on their way are dropped; the error
    /// tells all the panics. When tokens are [deferred](Flow::defer) in a
    /// circle or in vain: those on their way come to their end first. When there are no lines.
    pub fn run(&mut self, lines: usize) -> Result<PipelineReport, PipelineError> {
        on_current(|context| run::run(self.parts(&Halt::default()), lines, context))
    }

    /// [`run`](Self::run) on a certain pool.
    ///
    /// ```
    /// use filch::{Pool, graph::Pipeline};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let report = Pipeline::new(|flow| (flow.token() < 100).then_some(())).run_on(&pool, 4)?;
    /// assert_eq!(report.tokens(), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_on(&mut self, pool: &Pool, lines: usize) -> Result<PipelineReport, PipelineError> {
        pool.enter_worker(|context| run::run(self.parts(&Halt::default()), lines, context))
    }

    /// [`run`](Self::run) with everything that can be chosen about it: the pool, how often, who may stop it. What is
    /// [cancelled](RunOptions::cancel) comes to the end of the stages that are running; no others are begun, and the
    /// tokens that are on their way are dropped.
    ///
    /// ```
    /// use filch::{CancelToken, graph::{Pipeline, RunOptions}};
    ///
    /// let token = CancelToken::new();
    /// let mut endless = Pipeline::new(|flow| Some(flow.token()))
    ///     .serial(|n| if n == 100 { token.cancel(); });
    /// let error = endless.run_with(4, &RunOptions::new().cancel(&token)).unwrap_err();
    /// assert!(error.is_cancelled());
    /// assert!(error.finished() >= 100);
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); also when it was cancelled before all tokens were through.
    pub fn run_with(
        &mut self,
        lines: usize,
        options: &RunOptions,
    ) -> Result<PipelineReport, PipelineError> {
        options.enter_worker(|context| {
            let mut tokens = 0;
            for _ in 0..options.count() {
                let halt = Arc::new(Halt::default());
                let _obeys = options.obey(&halt);
                match run::run(self.parts(&halt), lines, context) {
                    Ok(report) => tokens += report.tokens,
                    Err(mut error) => {
                        error.finished += tokens;
                        return Err(error);
                    }
                }
            }
            Ok(PipelineReport { tokens })
        })
    }
}

impl<'env, T> Pipeline<'env, T> {
    fn parts<'p>(&'p mut self, halt: &'p Halt) -> run::Parts<'p, 'env> {
        run::Parts {
            source: &mut self.source,
            links: &self.links,
            names: &self.names,
            halt,
        }
    }
}

impl<T> fmt::Debug for Pipeline<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("stages", &self.stage_count())
            .finish()
    }
}

/// A stage of a [`Pipeline`], made before it is known where it goes.
///
/// ```
/// use filch::graph::{Pipeline, Stage};
///
/// let double: Stage<'_, u32> = Stage::parallel(|n| 2 * n).named("double");
/// assert!(!double.is_serial());
/// Pipeline::new(|flow| (flow.token() < 5).then_some(1)).stage(double).run(2)?;
/// # Ok::<(), filch::graph::PipelineError>(())
/// ```
pub struct Stage<'env, T, U = T> {
    link: Box<dyn Link + 'env>,
    name: Option<String>,
    types: PhantomData<fn(T) -> U>,
}

impl<'env, T: Send + 'env, U: Send + 'env> Stage<'env, T, U> {
    /// A stage that one token at a time goes through, in order.
    #[must_use]
    pub fn serial(stage: impl FnMut(T) -> U + Send + 'env) -> Self {
        Self {
            link: Box::new(Serial::new(stage)),
            name: None,
            types: PhantomData,
        }
    }

    /// A stage that any number of tokens are in at once.
    #[must_use]
    pub fn parallel(stage: impl Fn(T) -> U + Send + Sync + 'env) -> Self {
        Self {
            link: Box::new(Parallel::new(stage)),
            name: None,
            types: PhantomData,
        }
    }
}

impl<T, U> Stage<'_, T, U> {
    /// Names the stage, for errors.
    #[must_use]
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into().into_owned());
        self
    }

    /// Whether one token at a time goes through it.
    #[must_use]
    pub fn is_serial(&self) -> bool {
        self.link.is_serial()
    }
}

impl<T, U> fmt::Debug for Stage<'_, T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("name", &self.name)
            .field("serial", &self.is_serial())
            .finish()
    }
}

/// What a run of a [`Pipeline`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineReport {
    tokens: u64,
}

impl PipelineReport {
    /// How many tokens came through.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }
}

/// Why the strands of a run are to end.
#[derive(Debug, Default)]
struct Halt(AtomicU32);

const FAILED: u32 = 1;
const CANCELLED: u32 = 2;

impl Halt {
    #[inline(always)]
    fn is_set(&self) -> bool {
        // Relaxed: the sooner the better, but nothing depends on it.
        self.0.load(Ordering::Relaxed) != 0
    }

    fn fail(&self) {
        // Relaxed: as in `is_set`.
        self.0.fetch_or(FAILED, Ordering::Relaxed);
    }

    fn cancel(&self) {
        // Relaxed: as in `is_set`.
        self.0.fetch_or(CANCELLED, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        // Relaxed: as in `is_set`.
        self.0.load(Ordering::Relaxed) & CANCELLED != 0
    }
}

/// A token that the run obeys has been cancelled.
impl OnCancel for Halt {
    fn on_cancel(self: Arc<Self>, _: CancelReason) {
        self.cancel();
    }
}
