//! Parallel loops over a range of numbers, as tasks.
//!
//! The loop is a run inside its task (see `heap_run`), so the task is suspended meanwhile. Each
//! task of that run, a *part*, takes a block of numbers from a cursor that all of them share, and
//! then chooses itself. So what holds between the tasks of a graph holds between the blocks:
//! strands end when the run is stopped, and give way to urgent work.

use super::{
    build::{Graph, Task},
    context::TaskContext,
    error::TaskFault,
    heap_run::Inside,
    nested::run_inside,
    node::{Release, TaskKind},
    plan::PartsBox,
    spare, spare_parts,
    value::Value,
};
use crate::base::{
    sync::{AtomicUsize, Ordering},
    thread,
};
use std::{
    borrow::Cow,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Target duration of a block, in nanoseconds. A block costs some ten: the cursor, the clock, and
/// the checks between two tasks.
const TARGET_BLOCK_NANOS: u64 = 16_000;

/// Number of blocks for each worker that are left over, so that no worker waits long for the last
/// one.
const LEFT_PER_WORKER: usize = 2;

/// Hands out a range, block by block.
struct IndexBlocks {
    range: Range<usize>,
    workers: usize,
    /// How many numbers have been handed out.
    taken: AtomicUsize,
    /// How many numbers a block has, unless few are left.
    block_len: AtomicUsize,
}

impl IndexBlocks {
    fn new(range: Range<usize>, workers: usize) -> Self {
        Self {
            block_len: AtomicUsize::new(1),
            range,
            workers,
            taken: AtomicUsize::new(0),
        }
    }

    fn next(&self) -> Option<Range<usize>> {
        thread::point();
        let (all, mut len) = (self.range.len(), 0);
        // Relaxed: an estimate.
        let usual = self.block_len.load(Ordering::Relaxed);
        // Relaxed, twice: the numbers are all that is handed over.
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                let left = all - taken;
                len = usual.min(left / (LEFT_PER_WORKER * self.workers)).max(1);
                (left > 0).then(|| taken + len)
            });
        let begin = self.range.start + taken.ok()?;
        Some(begin..begin + len)
    }

    /// Adapts the length after a block of `len` numbers has taken `nanos`.
    fn adjust(&self, len: usize, nanos: u64) {
        let next = (len as u64).saturating_mul(TARGET_BLOCK_NANOS) / nanos.max(1);
        let next = usize::try_from(next).unwrap_or(usize::MAX);
        let next = next.clamp(1, len.saturating_mul(2));
        // Relaxed, twice: an estimate.
        if self.block_len.load(Ordering::Relaxed) != next {
            self.block_len.store(next, Ordering::Relaxed);
        }
    }
}

/// Runs a loop inside the running task. `make` makes what each part calls with its blocks, and then
/// with `None`.
fn run_parts<'env, P>(
    cx: &TaskContext<'_, '_, '_>,
    range: Range<usize>,
    workers: usize,
    mut make: impl FnMut() -> P,
) -> Release
where
    P: FnMut(Option<Range<usize>>) + Send + 'env,
{
    let parts = workers.min(range.len());
    let blocks = Arc::new(IndexBlocks::new(range, workers));
    let graph = Graph::<'env>::from_parts(PartsBox::default());
    let start = graph.placeholder("");
    for _ in 0..parts {
        let (blocks, mut call) = (blocks.clone(), make());
        let part = graph.add_with("".into(), TaskKind::Condition, move |_| {
            let Some(block) = blocks.next() else {
                call(None);
                return Release::One(1);
            };
            let (len, began) = (block.len(), thread::nanos());
            call(Some(block));
            blocks.adjust(len, thread::nanos().saturating_sub(began));
            Release::One(0)
        });
        start.precede(part);
        part.precede(part);
    }
    let mut plan = spare_parts::take_plan(&mut graph.into_parts());
    if let Err(error) = spare::check(&mut plan) {
        cx.run.record_fault(cx.index(), TaskFault::Graph(error));
        return Release::Failed;
    }
    run_inside(cx, plan, Inside::Parts, None)
}

/// Returns how many workers may take part in a loop: the caller of the run may be one more.
fn workers(cx: &TaskContext<'_, '_, '_>) -> usize {
    cx.context.pool().live_workers() + 1
}

/// The results of the blocks of a reduction.
struct Partials<T> {
    /// The results, each with its block, in ascending order. Neighbours are combined, so there are
    /// not more of them than gaps: one for each part.
    results: Vec<(Range<usize>, T)>,
    /// How many parts have not ended.
    unfinished_parts: usize,
}

/// The results of a reduction, which its parts share.
struct SharedPartials<T>(Mutex<Partials<T>>);

impl<T> SharedPartials<T> {
    fn new(parts: usize) -> Self {
        Self(Mutex::new(Partials {
            results: Vec::new(),
            unfinished_parts: parts,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Partials<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the result of a block, combined with those of its neighbours.
    fn add(&self, mut block: Range<usize>, mut result: T, combine: impl Fn(T, T) -> T) {
        loop {
            let mut partials = self.lock();
            let results = &mut partials.results;
            let at = results.partition_point(|(other, _)| other.start < block.start);
            let joins = |at: usize, before: bool| match (results.get(at), before) {
                (Some((other, _)), true) => other.end == block.start,
                (Some((other, _)), false) => other.start == block.end,
                (None, _) => false,
            };
            let is_before = at > 0 && joins(at - 1, true);
            if !is_before && !joins(at, false) {
                return results.insert(at, (block, result));
            }
            let (other, of_other) = results.remove(at - usize::from(is_before));
            // `combine` is user code.
            drop(partials);
            (block, result) = if is_before {
                (other.start..block.end, combine(of_other, result))
            } else {
                (block.start..other.end, combine(result, of_other))
            };
        }
    }

    /// Ends a part. Returns the result of the loop if it was the last one.
    fn end_part(&self) -> Option<T> {
        let mut partials = self.lock();
        partials.unfinished_parts -= 1;
        let is_last = partials.unfinished_parts == 0;
        let last = partials.results.pop_if(|_| is_last);
        last.map(|(_, result)| result)
    }
}

impl<'env> Graph<'env> {
    /// Adds a task that calls `body` for each number of a range, on all workers. Its successors
    /// wait for all of them. No worker is occupied by the wait.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let squares: Vec<_> = (0..100).map(|_| AtomicU32::new(0)).collect();
    /// let graph = filch::Graph::new();
    /// let fill = graph.for_each("fill", 0..100, |n| {
    ///     squares[n].store((n * n) as u32, Ordering::Relaxed);
    /// });
    /// fill.precede(graph.task("after", || assert_eq!(squares[9].load(Ordering::Relaxed), 81)));
    /// assert_eq!(graph.plan()?.run()?.ran(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If `body` panics, the task has panicked. When the run is stopped, the loop ends before its
    /// next block of numbers, which takes some microseconds. A range that is known only when the
    /// task runs is the loop of a [subflow](Self::subflow).
    #[doc(alias = "for_each_index")]
    pub fn for_each(
        &self,
        name: impl Into<Cow<'static, str>>,
        range: Range<usize>,
        body: impl Fn(usize) + Send + Sync + 'env,
    ) -> Task<'_, 'env> {
        let task = self.add(name.into());
        self.set_for_each(task, range, body);
        task
    }

    /// Makes a task a [loop](Self::for_each).
    pub(super) fn set_for_each(
        &self,
        task: Task<'_, 'env>,
        range: Range<usize>,
        body: impl Fn(usize) + Send + Sync + 'env,
    ) {
        let body = Arc::new(body);
        self.set(task.index(), TaskKind::Loop, move |cx| {
            if range.is_empty() {
                return Release::All;
            }
            run_parts(cx, range.clone(), workers(cx), || {
                let body = body.clone();
                move |block: Option<Range<usize>>| block.into_iter().flatten().for_each(&*body)
            })
        });
    }

    /// Adds a task that combines what `map` returns for each number of a range, on all workers, to
    /// one [value](Self::value). No worker is occupied while its successors wait for it.
    ///
    /// The results are combined in the order of the numbers, so `combine` need not be commutative.
    /// It has to be associative, and `identity` has to make a value that changes nothing: which
    /// numbers are combined first depends on the workers.
    ///
    /// ```
    /// let words = ["to", "be", "or", "not"];
    /// let graph = filch::Graph::new();
    /// let text = graph.reduce("text", 0..4, String::new, |n| words[n].to_owned(), |a, b| a + &b);
    /// let length = graph.map("length", text, |text: &String| text.len());
    /// let mut plan = graph.plan()?;
    /// plan.run()?;
    /// assert_eq!(plan.take(text).as_deref(), Some("tobeornot"));
    /// assert_eq!(plan.take(length), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Panics, and a run that is stopped, are as in [`for_each`](Self::for_each); then there is no
    /// value.
    #[doc(alias = "transform_reduce")]
    pub fn reduce<T: Send + Sync + 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        range: Range<usize>,
        identity: impl Fn() -> T + Send + Sync + 'env,
        map: impl Fn(usize) -> T + Send + Sync + 'env,
        combine: impl Fn(T, T) -> T + Send + Sync + 'env,
    ) -> Value<T> {
        let task = self.add(name.into());
        self.set_reduce(task, range, identity, map, combine)
    }

    /// Makes a task a [reduction](Self::reduce).
    pub(super) fn set_reduce<T: Send + Sync + 'static>(
        &self,
        task: Task<'_, 'env>,
        range: Range<usize>,
        identity: impl Fn() -> T + Send + Sync + 'env,
        map: impl Fn(usize) -> T + Send + Sync + 'env,
        combine: impl Fn(T, T) -> T + Send + Sync + 'env,
    ) -> Value<T> {
        let (value, slot) = self.output(task);
        let functions = Arc::new((identity, map, combine));
        self.set(task.index(), TaskKind::Loop, move |cx| {
            if range.is_empty() {
                drop(slot.replace(Some(functions.0())));
                return Release::All;
            }
            let workers = workers(cx);
            let parts = workers.min(range.len());
            let partials = Arc::new(SharedPartials::new(parts));
            run_parts(cx, range.clone(), workers, || {
                let (functions, partials) = (functions.clone(), partials.clone());
                let slot = slot.clone();
                move |block: Option<Range<usize>>| {
                    let (identity, map, combine) = &*functions;
                    if let Some(block) = block {
                        let result = block.clone().map(map).fold(identity(), combine);
                        partials.add(block, result, combine);
                    } else if let Some(result) = partials.end_part() {
                        drop(slot.replace(Some(result)));
                    }
                }
            })
        });
        value
    }
}
