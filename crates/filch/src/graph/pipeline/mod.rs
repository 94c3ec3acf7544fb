//! Pipelines: many tokens that pass through the same stages, in order where it matters.

mod end;
mod entrance;
mod erased;
mod error;
mod report;
mod run;
mod source;
mod stop;
mod task;

pub use error::{PipelineError, StagePanic};
pub use report::PipelineReport;
pub use source::Flow;

use super::options::RunOptions;
use crate::pool::{Pool, on_current};
use erased::{ErasedSource, ErasedStage, ParallelStage, SerialStage, SourceStage};
use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc};
use stop::StopFlags;

/// Tokens that pass through stages. A source produces them one by one; serial stages process them
/// one at a time and in order; parallel stages process many at once.
///
/// `T` is the output of the last stage so far, and the input of the next one. The output of the
/// final stage is dropped. The closures may borrow everything that outlives the pipeline.
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
/// A parallel stage must not change state that it shares with itself:
///
/// ```compile_fail
/// use filch::graph::Pipeline;
///
/// let mut sum = 0;
/// Pipeline::new(|_| Some(1)).parallel(|n| sum += n);
/// ```
///
/// A token that waits for its turn occupies no worker. Nothing is allocated for a token, except for
/// those that are [deferred](Flow::defer).
#[doc(alias("DataPipeline", "ScalablePipeline"))]
pub struct Pipeline<'env, T> {
    source: Box<dyn ErasedSource + 'env>,
    stages: Vec<Box<dyn ErasedStage + 'env>>,
    /// The names of all stages, including the source.
    names: Vec<Option<String>>,
    output: PhantomData<fn() -> T>,
}

impl<'env, T: Send + 'env> Pipeline<'env, T> {
    /// Creates a pipeline that begins with `source`, which produces one token at a time, and
    /// returns `None` when there are no more.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    ///
    /// let mut lines = "one\ntwo".lines();
    /// let mut source = Pipeline::new(|_| lines.next());
    /// assert_eq!(source.run(1)?.tokens(), 2);
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    #[must_use]
    pub fn new(source: impl FnMut(&mut Flow) -> Option<T> + Send + 'env) -> Self {
        Self {
            source: Box::new(SourceStage::new(source)),
            stages: Vec::new(),
            names: vec![None],
            output: PhantomData,
        }
    }

    /// Adds a stage that processes one token at a time, in order.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    ///
    /// let mut numbers = 0..100;
    /// let mut written = vec![];
    /// Pipeline::new(|_| numbers.next())
    ///     .parallel(|n| n * 2)
    ///     .serial(|n| written.push(n)) // in the order of the source, so a `Vec` is enough
    ///     .run(8)?;
    /// assert!(written.is_sorted());
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    #[must_use]
    pub fn serial<U: Send + 'env>(
        self,
        stage: impl FnMut(T) -> U + Send + 'env,
    ) -> Pipeline<'env, U> {
        self.stage(Stage::serial(stage))
    }

    /// Adds a stage that processes any number of tokens at once.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let mut words = ["to", "be", "or", "not"].into_iter();
    /// let letters = AtomicUsize::new(0);
    /// Pipeline::new(|_| words.next())
    ///     .parallel(|word| letters.fetch_add(word.len(), Ordering::Relaxed)) // on several workers
    ///     .run(4)?;
    /// assert_eq!(letters.into_inner(), 9);
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    #[must_use]
    pub fn parallel<U: Send + 'env>(
        self,
        stage: impl Fn(T) -> U + Send + Sync + 'env,
    ) -> Pipeline<'env, U> {
        self.stage(Stage::parallel(stage))
    }

    /// Adds a stage that was created before.
    ///
    /// ```
    /// use filch::graph::{Pipeline, Stage};
    ///
    /// fn doubled<'a>() -> Stage<'a, u64> {
    ///     Stage::parallel(|n| 2 * n).named("double")
    /// }
    /// let mut sum = 0;
    /// Pipeline::new(|flow| (flow.token() < 4).then_some(flow.token()))
    ///     .stage(doubled())
    ///     .serial(|n| sum += n)
    ///     .run(2)?;
    /// assert_eq!(sum, 12);
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    #[must_use]
    pub fn stage<U: Send + 'env>(mut self, stage: Stage<'env, T, U>) -> Pipeline<'env, U> {
        self.stages.push(stage.erased);
        self.names.push(stage.name);
        Pipeline {
            source: self.source,
            stages: self.stages,
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
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::panic::resume_unwind;
    ///
    /// let mut pipeline = Pipeline::new(|_| Some("text"))
    ///     .named("read")
    ///     .serial(|_| resume_unwind(Box::new("full disk")))
    ///     .named("write");
    /// let error = pipeline.run(1).unwrap_err();
    /// assert!(error.to_string().starts_with("stage 1 (write) panicked"));
    /// ```
    #[must_use]
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        if let Some(last) = self.names.last_mut() {
            *last = Some(name.into().into_owned());
        }
        self
    }

    /// Returns the number of stages, including the source.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    ///
    /// let pipeline = Pipeline::new(|_| Some(1)).parallel(|n| n + 1).serial(|n| println!("{n}"));
    /// assert_eq!(pipeline.stage_count(), 3);
    /// ```
    #[must_use]
    pub fn stage_count(&self) -> usize {
        self.names.len()
    }

    /// Runs the pipeline on the [current pool](crate::Pool#the-current-pool), with at most `lines`
    /// tokens in flight. Returns when all of them have passed the last stage. The calling thread
    /// works on it too.
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
    /// Returns an error when a stage panics: then no more tokens are produced, and those in flight
    /// are dropped; the error contains all the panics. Also when tokens are [deferred](Flow::defer)
    /// in a cycle, or wait for a token that never appears: then those in flight finish first. Also
    /// when `lines` is zero.
    pub fn run(&mut self, lines: usize) -> Result<PipelineReport, PipelineError> {
        on_current(|context| run::run(self.parts(&StopFlags::default()), lines, context))
    }

    /// Like [`run`](Self::run), on the given pool.
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
        pool.enter_worker(|context| run::run(self.parts(&StopFlags::default()), lines, context))
    }

    /// Like [`run`](Self::run) with options: the pool, the number of runs, a token that cancels it.
    /// When the run is [cancelled](RunOptions::cancel), the stages that are running finish; no
    /// others are started, and the tokens in flight are dropped.
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
    /// As [`run`](Self::run); also when it was cancelled before all tokens had passed the last
    /// stage.
    pub fn run_with(
        &mut self,
        lines: usize,
        options: &RunOptions,
    ) -> Result<PipelineReport, PipelineError> {
        options.enter_worker(|context| {
            let mut tokens = 0;
            for _ in 0..options.count() {
                let stop = Arc::new(StopFlags::default());
                let _registration = options.register_cancel(&stop);
                match run::run(self.parts(&stop), lines, context) {
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
    fn parts<'p>(&'p mut self, stop: &'p StopFlags) -> run::PipelineParts<'p, 'env> {
        run::PipelineParts {
            source: &mut self.source,
            stages: &self.stages,
            names: &self.names,
            stop,
        }
    }
}

impl<'env, T> Pipeline<'env, T> {
    /// Returns the same pipeline without the type of its output.
    fn erase_output(self) -> Pipeline<'env, ()> {
        Pipeline {
            source: self.source,
            stages: self.stages,
            names: self.names,
            output: PhantomData,
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

/// A stage of a [`Pipeline`], created before it is added to one.
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
    erased: Box<dyn ErasedStage + 'env>,
    name: Option<String>,
    types: PhantomData<fn(T) -> U>,
}

impl<'env, T: Send + 'env, U: Send + 'env> Stage<'env, T, U> {
    /// Creates a stage that processes one token at a time, in order.
    ///
    /// ```
    /// use filch::graph::{Pipeline, Stage};
    ///
    /// let mut total = 0;
    /// let running_sum = Stage::serial(|n: u64| { total += n; total }); // has a state
    /// let mut numbers = 1..=4;
    /// let mut sums = vec![];
    /// Pipeline::new(|_| numbers.next()).stage(running_sum).serial(|sum| sums.push(sum)).run(2)?;
    /// assert_eq!(sums, [1, 3, 6, 10]);
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    #[must_use]
    pub fn serial(stage: impl FnMut(T) -> U + Send + 'env) -> Self {
        Self {
            erased: Box::new(SerialStage::new(stage)),
            name: None,
            types: PhantomData,
        }
    }

    /// Creates a stage that processes any number of tokens at once.
    ///
    /// ```
    /// use filch::graph::{Pipeline, Stage};
    ///
    /// let parse = Stage::parallel(|text: &str| text.parse::<u32>().unwrap_or(0));
    /// let mut texts = ["1", "x", "3"].into_iter();
    /// let mut numbers = vec![];
    /// Pipeline::new(|_| texts.next()).stage(parse).serial(|n| numbers.push(n)).run(2)?;
    /// assert_eq!(numbers, [1, 0, 3]);
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    #[must_use]
    pub fn parallel(stage: impl Fn(T) -> U + Send + Sync + 'env) -> Self {
        Self {
            erased: Box::new(ParallelStage::new(stage)),
            name: None,
            types: PhantomData,
        }
    }
}

impl<T, U> Stage<'_, T, U> {
    /// Names the stage, for errors.
    ///
    /// ```
    /// use filch::graph::Stage;
    ///
    /// let stage = Stage::serial(|text: String| text.len()).named("measure");
    /// assert!(format!("{stage:?}").contains("measure"));
    /// ```
    #[must_use]
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into().into_owned());
        self
    }

    /// Whether the stage processes one token at a time.
    ///
    /// ```
    /// use filch::graph::Stage;
    ///
    /// assert!(Stage::serial(|n: u32| n + 1).is_serial());
    /// assert!(!Stage::parallel(|n: u32| n + 1).is_serial());
    /// ```
    #[must_use]
    pub fn is_serial(&self) -> bool {
        self.erased.is_serial()
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
