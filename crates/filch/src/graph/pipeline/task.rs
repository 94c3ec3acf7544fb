//! Pipelines as tasks of a graph.
//!
//! The task is suspended while the pipeline runs. Its strands are jobs of the pool as those of
//! other pipelines, but no worker waits for them: the last one ends the task, as the last strand of
//! a run inside a task does (see `heap_run`).
#![expect(
    unsafe_code,
    reason = "a pipeline in a block that its task owns and its strands use"
)]

use super::{Pipeline, end::conclude, error::PipelineErrorKind, run::PipelineRun, stop::StopFlags};
use crate::{
    base::unwind,
    graph::{
        build::{Graph, Task},
        context::{AfterReturn, TaskContext},
        control::SendOrder,
        error::{RunOutcome, TaskPanic},
        heap_run::{self, EndedInside},
        node::{Release, TaskKind},
        run::GraphRun,
        task_failure::TaskFailure,
    },
    pool::context::WorkerContext,
};
use std::{borrow::Cow, ptr::NonNull, sync::Arc};

/// A pipeline that is the task of a graph, and its run.
struct PipelineBlock<'env> {
    pipeline: Pipeline<'env, ()>,
    lines: usize,
    /// The flags of the current run, and its registration that sets them when the run of the graph
    /// is stopped.
    stop: Arc<StopFlags>,
    key: Option<u64>,
    /// `None` while the task is not suspended. It borrows from the other fields, which are not
    /// changed meanwhile.
    run: Option<PipelineRun<'env, 'env>>,
}

/// The block, owned by the closure of the task.
///
/// While the task is suspended the block belongs to the strands of the pipeline: the closure is not
/// called again before the task is done, and the plan is not dropped before its run is over.
struct OwnedBlock<'env>(NonNull<PipelineBlock<'env>>);

// SAFETY: a pipeline is `Send`, and one thread at a time uses the block, except for its run, which
// is `Sync`.
unsafe impl Send for OwnedBlock<'_> {}

impl Drop for OwnedBlock<'_> {
    fn drop(&mut self) {
        // SAFETY: the pointer is from a box, and the task is not suspended, so nothing else uses
        // it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The suspended task that a run of a pipeline belongs to.
#[derive(Clone, Copy)]
pub(super) struct PipelineTask {
    /// It counts the pipeline as pending, so it is alive.
    enclosing: *const GraphRun<'static>,
    index: u32,
    /// Alive as long as the run of the graph.
    block: NonNull<PipelineBlock<'static>>,
}

impl PipelineTask {
    pub(super) fn run(&self) -> &GraphRun<'static> {
        // SAFETY: the run counts the pipeline as pending until `end`.
        unsafe { &*self.enclosing }
    }

    /// Ends the pipeline, and the task.
    ///
    /// # Safety
    /// All strands of the run have ended, and this is called once.
    pub(super) unsafe fn end(self, context: &WorkerContext<'_, '_>) {
        unwind::or_abort(|| {
            // SAFETY: all strands have ended, and the task is suspended, so only this thread uses
            // the block.
            let block = unsafe { &mut *self.block.as_ptr() };
            let ended = EndedInside {
                run: self.enclosing,
                index: self.index,
                jobs: 1,
                finished: Some(self.conclude(block, context)),
            };
            // SAFETY: the run counts the pipeline as pending until this call. Neither the block nor
            // the run is used below.
            let over = unsafe { heap_run::end_inside(ended, context) };
            if let Some(over) = over {
                // SAFETY: `end_inside` has returned the run: the pipeline was its last pending job.
                unsafe { heap_run::finish(over, context) };
            }
        });
    }

    /// Returns whether the pipeline has finished.
    fn conclude(
        &self,
        block: &mut PipelineBlock<'static>,
        context: &WorkerContext<'_, '_>,
    ) -> bool {
        let run = self.run();
        if let Some(key) = block.key.take() {
            run.control().unregister_on_stop(key);
        }
        let left = block.run.take().expect("it is over now").into_left(context);
        let pipeline = &mut block.pipeline;
        let result = conclude(left, &mut pipeline.source, &pipeline.names, context);
        let Err(error) = result else {
            return true;
        };
        let text = error.to_string();
        let mut outcome = RunOutcome::default();
        match error.kind {
            PipelineErrorKind::Panics(panics) => {
                let panics = panics.into_iter().map(|panic| {
                    let number = panic.stage;
                    let task = panic.name.unwrap_or_else(|| format!("stage {number}"));
                    let payload = panic.payload;
                    TaskPanic { task, payload }
                });
                outcome.panics.extend(panics);
            }
            PipelineErrorKind::Cancelled => outcome.incomplete = true,
            PipelineErrorKind::Deferred(_)
            | PipelineErrorKind::NoLines
            | PipelineErrorKind::TooManyLines => outcome.failures.push(TaskFailure {
                task: "source".into(),
                error: text.into(),
            }),
        }
        run.add_inner(context, self.index, Err(Box::new(outcome)))
    }
}

impl<'env> Graph<'env> {
    /// Adds a task that runs a [`Pipeline`] with at most `lines` tokens in flight. Its successors
    /// wait until all tokens have passed the last stage. No worker is occupied by the wait.
    ///
    /// ```
    /// use filch::{Graph, graph::Pipeline};
    /// use std::sync::Mutex;
    ///
    /// let (mut lines, out) = ("to be\nor not".lines(), Mutex::new(String::new()));
    /// let copy = Pipeline::new(|_| lines.next())
    ///     .parallel(str::to_uppercase)
    ///     .serial(|line| out.lock().unwrap().push_str(&line));
    /// let graph = Graph::new();
    /// let copied = graph.pipeline("copy", 4, copy);
    /// copied.precede(graph.task("after", || assert_eq!(*out.lock().unwrap(), "TO BEOR NOT")));
    /// assert_eq!(graph.plan()?.run()?.ran(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If a stage panics, the run fails, with the name of the stage or its number: `copy/stage 1`.
    /// So it does with an error if tokens are deferred in a cycle, or `lines` is zero. When the run
    /// is stopped, stages that are running finish, and the tokens in flight are dropped. A limit of
    /// [jobs](crate::graph::RunOptions::jobs) does not count the stages.
    #[doc(alias = "composed_of")]
    pub fn pipeline<T: Send + 'env>(
        &self,
        name: impl Into<Cow<'static, str>>,
        lines: usize,
        pipeline: Pipeline<'env, T>,
    ) -> Task<'_, 'env> {
        let task = self.add(name.into());
        self.set_pipeline(task, lines, pipeline);
        task
    }

    /// Makes a task a [`pipeline`](Self::pipeline).
    pub(in crate::graph) fn set_pipeline<T: Send + 'env>(
        &self,
        task: Task<'_, 'env>,
        lines: usize,
        pipeline: Pipeline<'env, T>,
    ) {
        let block = Box::new(PipelineBlock {
            pipeline: pipeline.erase_output(),
            lines,
            stop: Arc::default(),
            key: None,
            run: None,
        });
        let block = OwnedBlock(NonNull::from(Box::leak(block)));
        self.set(task.index(), TaskKind::Pipeline, move |cx| {
            begin(cx, &block)
        });
    }
}

/// Prepares the run of a pipeline, which begins when the closure of the task has returned.
fn begin(cx: &TaskContext<'_, '_, '_>, owned: &OwnedBlock<'_>) -> Release {
    let task = PipelineTask {
        enclosing: std::ptr::from_ref(cx.run).cast(),
        index: cx.index(),
        block: owned.0.cast(),
    };
    let block = task.block.as_ptr();
    // SAFETY: the task is not suspended, so only this thread uses the block.
    unsafe { (*block).stop = Arc::default() };
    // SAFETY: only this thread uses the block. The run borrows what the field points to; it is not
    // changed before the run is over, and the block is freed with the plan.
    let pipeline = unsafe { &(*block).pipeline };
    // SAFETY: as for `pipeline`: the flags are not replaced before the run is over.
    let stop = unsafe { &(*block).stop };
    // SAFETY: the task is not suspended, so only this thread uses the block.
    let lines = unsafe { (*block).lines };
    match PipelineRun::new(&*pipeline.source, &pipeline.stages, stop, lines) {
        Ok(mut run) => {
            run.set_task(task);
            // SAFETY: only this thread uses the block, and the field is `None`, so no run is
            // dropped.
            unsafe { (*block).run = Some(run) };
        }
        Err(error) => return cx.run.task_failed(task.index, error.to_string().into()),
    }
    let start = move |cx: &TaskContext<'_, '_, '_>| start(cx, task);
    cx.after_return(AfterReturn::Call(Box::new(start)));
    Release::Deferred
}

/// Begins the run of a pipeline.
fn start(cx: &TaskContext<'_, '_, '_>, task: PipelineTask) {
    cx.run.add_pending(cx.context);
    // SAFETY: no strand is queued yet, so only this thread uses the block.
    let block = unsafe { &mut *task.block.as_ptr() };
    block.key = cx.control().register_on_stop(block.stop.clone());
    if block.key.is_none() {
        block.stop.cancel();
    }
    let run = block.run.as_ref().expect("`begin` has made it");
    run.set_entrances();
    let job = run.first_job();
    // The run, and the block, may be gone when the job has been queued.
    match cx.run.keeps_jobs(cx.context) {
        true => cx.context.push(job, cx.run.placement()),
        false => cx.control().send(job, SendOrder::Released),
    }
}
