//! Calls of one function with many values.

use crate::{CallError, Registry, Value, handle, registry::Function};
use filch::{Pool, TaskHandle, is_cancelled};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    mem,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

/// Tasks per worker into which the values are divided: enough to balance values that take longer,
/// few enough that the cost of a task does not matter.
const CHUNKS_PER_WORKER: usize = 3;

/// A few consecutive values, and the index of the first one.
struct Chunk {
    first: usize,
    values: Vec<Value>,
}

impl Registry {
    /// Calls `function` with each of `values`; returns the results in the order of the values.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(2).build()?;
    /// let squares: Vec<i64> = registry.map(&pool, "Square", [1, 2, 3])?;
    /// assert_eq!(squares, [1, 4, 9]);
    ///
    /// let error = registry.map::<i64>(&pool, "Square", ["one"]).unwrap_err();
    /// assert_eq!(error.item(), Some(0));
    /// assert_eq!(
    ///     error.to_string(),
    ///     r#"value 0: Square takes i64, not "one": invalid type: string "one", expected i64"#
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// That of the first value that failed, as [`CallHandle::join`](crate::CallHandle::join)
    /// returns it; or when there is no such function. When this returns, no call runs any more.
    pub fn map<R: DeserializeOwned + Send + 'static>(
        &self,
        pool: &Pool,
        function: &str,
        values: impl IntoIterator<Item = impl Serialize>,
    ) -> Result<Vec<R>, CallError> {
        let function = self.function(function)?;
        let chunks = chunks(function, pool, values)?;
        let mapped = in_chunks(pool, function, chunks, |function, chunk| {
            let mut results = Vec::with_capacity(chunk.values.len());
            for (place, value) in (chunk.first..).zip(chunk.values) {
                check_cancelled(function)?;
                let result = function
                    .run(&value)
                    .and_then(|result| handle::value(function, &result));
                results.push(result.map_err(|error| error.at(place))?);
            }
            Ok(results)
        })?;
        Ok(mapped.into_iter().flatten().collect())
    }

    /// Combines `values` by `function`, which takes two: `f(f(a, b), f(c, d))`. The function must
    /// be *associative*, since the values are grouped to suit the workers; their order is kept.
    ///
    /// Returns `None` for no values; a single one is the result itself.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder()
    ///     .function("Append", |(a, b): (String, String)| a + &b)
    ///     .build()?;
    /// let pool = Pool::builder().workers(2).build()?;
    /// let words = ["to ", "steal ", "small ", "things"];
    /// let text: Option<String> = registry.reduce(&pool, "Append", words)?;
    /// assert_eq!(text.as_deref(), Some("to steal small things"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`map`](Self::map); the [item](CallError::item) is the index of the second of the two
    /// values, or of the first in the group that was the second.
    pub fn reduce<R: DeserializeOwned>(
        &self,
        pool: &Pool,
        function: &str,
        values: impl IntoIterator<Item = impl Serialize>,
    ) -> Result<Option<R>, CallError> {
        let function = self.function(function)?;
        let chunks = chunks(function, pool, values)?;
        let places: Vec<usize> = chunks.iter().map(|chunk| chunk.first).collect();
        let folded = in_chunks(pool, function, chunks, |function, chunk| {
            fold(function, (chunk.first..).zip(chunk.values))
        })?;
        let groups: Vec<_> = places
            .into_iter()
            .zip(folded.into_iter().flatten())
            .collect();
        let last = submit(pool, function, move |function| {
            fold(function, groups.into_iter())
        });
        match join(function, last)? {
            Some(result) => handle::value(function, &result).map(Some),
            None => Ok(None),
        }
    }
}

/// Returns the values as JSON, in about as many chunks as tasks are wanted.
fn chunks(
    function: &Function,
    pool: &Pool,
    values: impl IntoIterator<Item = impl Serialize>,
) -> Result<Vec<Chunk>, CallError> {
    let written = |(place, value)| {
        serde_json::to_value(value)
            .map_err(|error| CallError::unwritable(function.name().to_string(), error).at(place))
    };
    let values = values.into_iter().enumerate().map(written);
    let mut values = values.collect::<Result<Vec<Value>, _>>()?.into_iter();
    let length = values
        .len()
        .div_ceil(pool.workers().max(1) * CHUNKS_PER_WORKER);
    let mut chunks = Vec::new();
    let mut first = 0;
    while values.len() > 0 {
        let values: Vec<Value> = values.by_ref().take(length).collect();
        let next = first + values.len();
        chunks.push(Chunk { first, values });
        first = next;
    }
    Ok(chunks)
}

/// Folds values, with their indices, from left to right.
fn fold(
    function: &Function,
    mut values: impl Iterator<Item = (usize, Value)>,
) -> Result<Option<Value>, CallError> {
    let Some((_, mut folded)) = values.next() else {
        return Ok(None);
    };
    for (place, value) in values {
        check_cancelled(function)?;
        let pair = Value::Array(vec![folded, value]);
        folded = function.run(&pair).map_err(|error| error.at(place))?;
    }
    Ok(Some(folded))
}

/// Returns an error in a chunk that was cancelled: an earlier one has failed, and the result of
/// this one is not read.
fn check_cancelled(function: &Function) -> Result<(), CallError> {
    match is_cancelled() {
        true => Err(CallError::stopped(function.name())),
        false => Ok(()),
    }
}

/// Runs a task for each chunk; returns all results in order, or the first error in order.
fn in_chunks<T: Send + 'static>(
    pool: &Pool,
    function: &Arc<Function>,
    chunks: Vec<Chunk>,
    work: impl Fn(&Function, Chunk) -> Result<T, CallError> + Copy + Send + 'static,
) -> Result<Vec<T>, CallError> {
    let tasks: Vec<_> = chunks
        .into_iter()
        .map(|chunk| submit(pool, function, move |function| work(function, chunk)))
        .collect();
    let mut tasks = tasks.into_iter();
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(task) = tasks.next() {
        match join(function, task) {
            Ok(result) => results.push(result),
            Err(error) => {
                tasks
                    .as_slice()
                    .iter()
                    .flatten()
                    .for_each(|task| _ = task.cancel());
                // Their results and the panics of their destructors are discarded.
                tasks.flatten().for_each(|task| discard(task.join()));
                discard(results);
                return Err(error);
            }
        }
    }
    Ok(results)
}

/// Submits a task with the name of the function. The error is that of a pool that refused it.
fn submit<T: Send + 'static>(
    pool: &Pool,
    function: &Arc<Function>,
    work: impl FnOnce(&Function) -> T + Send + 'static,
) -> Result<TaskHandle<T>, CallError> {
    let (name, shared) = (function.name(), function.clone());
    let task = pool.task(move || work(&shared)).name(name.clone());
    task.submit()
        .map_err(|refusal| CallError::refused(name, refusal.map(drop), None))
}

fn join<T>(
    function: &Function,
    task: Result<TaskHandle<Result<T, CallError>>, CallError>,
) -> Result<T, CallError> {
    let result = task?.join();
    result.unwrap_or_else(|error| Err(CallError::task(function.name(), error)))
}

/// Drops results, whose destructors are user code and may panic. The destructor of a payload may
/// panic as well: that second payload is leaked.
fn discard<T>(value: T) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(value)))
        && let Err(another) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload)))
    {
        mem::forget(another);
    }
}
