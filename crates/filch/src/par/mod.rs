//! Parallel loops over slices, ranges, vectors, other collections, texts and iterators.
//!
//! With `use filch::prelude::*`, collections and ranges have three methods that create a [`Loop`]:
//! [`par`](Par::par) over references, [`par_mut`](ParMut::par_mut) over mutable references,
//! [`into_par`](IntoPar::into_par) over the items themselves. [`over`] does the same without the
//! prelude, for any source: `over(&data)`. The common loops are functions as well:
//! `filch::map(&data, |x| …)`.
//!
//! ```
//! use filch::prelude::*;
//!
//! let data: Vec<u64> = (0..100_000).collect();
//! let even: u64 = data.par().filter(|n| *n % 2 == 0).map(|n| n * n).sum();
//! let mut roots: Vec<u64> = data.par().map(|n| n.isqrt()).collect();
//! roots.par_mut().sort_unstable();
//! assert_eq!((even, roots[0]), (166_661_666_700_000, 0));
//! ```
//!
//! A loop has a *source*, any number of *steps*, and an *end*. Sources and steps are lazy: the end
//! runs the loop, which passes over the items once. There are no intermediate vectors, and the
//! steps cost what they cost in an iterator. A loop without an end does nothing; the compiler warns
//! of it. Settings, such as [`on`](Loop::on) and [`min_chunk`](Loop::min_chunk), may stand anywhere
//! before the end.
//!
//! All operations preserve order, so an operation only has to be associative. A panic in a closure
//! stops the loop and propagates to the caller; every item is dropped exactly once.
//!
//! # Which operation
//!
//! | source | items | how it is split |
//! |---|---|---|
//! | `slice.par()`, of a vector or an array too | `&T` | anywhere |
//! | `slice.par_mut()` | `&mut T` | anywhere |
//! | `vector.into_par()`, `array.into_par()` | `T` | anywhere, in place |
//! | `range.into_par()` | integers | anywhere |
//! | a `VecDeque`, `HashMap`, `BTreeMap`, set, heap, list or `Option` | as of its iterator | the items or references go into a vector first, except for `deque.par()` |
//! | [`text.par_lines()`](ParStr::par_lines), [`par_chars`](ParStr::par_chars), [`par_bytes`](ParStr::par_bytes) | `&str`, `char`, `&u8` | at any byte |
//! | [`iterator.par_bridge()`](ParBridge::par_bridge) | those of the iterator | workers take turns to pull; in no order |
//! | your own [`Producer`], or [`IntoProducer`] | | |
//!
//! | step | the items after it |
//! |---|---|
//! | [`map`](Loop::map), [`cloned`](Loop::cloned), [`copied`](Loop::copied), [`inspect`](Loop::inspect) | one for each |
//! | [`map_init`](Loop::map_init) | one for each, by a function with a scratch value for each worker |
//! | [`filter`](Loop::filter), [`filter_map`](Loop::filter_map), [`flat_map`](Loop::flat_map) | fewer or more; they have no indices any more |
//! | [`enumerate`](Loop::enumerate), [`zip`](Loop::zip), [`chain`](Loop::chain), [`rev`](Loop::rev), [`step_by`](Loop::step_by), [`take`](Loop::take), [`skip`](Loop::skip) | by index, so before those above |
//! | [`chunks`](Loop::chunks), [`windows`](Loop::windows) | slices, as the first step: rows, tiles, neighbours |
//!
//! | to get | end the loop with | how |
//! |---|---|---|
//! | a side effect for every item | [`for_each`](Loop::for_each), [`for_each_init`](Loop::for_each_init); [`fill`](Loop::fill) | only calls |
//! | the items in a vector | [`collect`](Loop::collect), [`to_vec`](Loop::to_vec); [`write_into`](Loop::write_into) an existing slice | each is written to its place; after a `filter`, a vector for each stolen piece, concatenated at the end |
//! | them in a string, map, set, `Result`, `Option` | [`collect`](Loop::collect) | gathered by the workers, inserted by the caller |
//! | two vectors | [`unzip`](Loop::unzip), [`partition`](Loop::partition) | as after a `filter` |
//! | one result of all | [`reduce`](Loop::reduce), [`sum`](Loop::sum), [`product`](Loop::product), [`count`](Loop::count); [`fold`](Loop::fold) if it has another type | a value for each stolen piece, combined in order |
//! | the same bits on any number of workers | [`deterministic`](Loop::deterministic) before `sum`, `reduce` or `fold` | a value for each of at most 1,024 chunks |
//! | the minimum or maximum | [`min`](Loop::min), [`max`](Loop::max), [`min_by_key`](Loop::min_by_key), … | as `reduce` |
//! | the first error, or a result | [`try_for_each`](Loop::try_for_each), [`try_fold`](Loop::try_fold), [`try_reduce`](Loop::try_reduce), `collect::<Result<_, _>>()` | items after it are skipped |
//! | whether or where a condition holds | [`any`](Loop::any), [`all`](Loop::all), [`find_any`](Loop::find_any), [`find_first`](Loop::find_first), [`find_map_first`](Loop::find_map_first), [`position`](Loop::position) | ends early |
//! | prefix sums | [`inclusive_scan`](Loop::inclusive_scan), [`exclusive_scan`](Loop::exclusive_scan) | one pass, a second one over stolen pieces |
//! | sorted items | [`sort`](Loop::sort), stable | runs sorted by the standard library, merged in parallel with a buffer |
//! | sorted numbers | [`sort_unstable`](Loop::sort_unstable) | quicksort in place; with more than 8 workers as `sort` |
//!
//! A scratch value that several loops, scopes or tasks share is a
//! [`WorkerLocal`](crate::sync::WorkerLocal).
//!
//! # When a loop is shared
//!
//! A loop runs on its caller, in blocks of items that take some 16 µs each. After a block the
//! caller checks whether its queue has a job that an idle worker could steal. If not, it queues
//! half of the remaining items; if no worker steals that half, the caller takes it back and
//! continues with it. So a loop without idle workers runs sequentially, an inner loop is not split
//! as long as the outer one has items to share, and splits happen on demand.
//!
//! No worker is woken during the first 15 µs, so a loop over a few thousand numbers costs as much
//! as a sequential one. There are two exceptions, which are shared from the start: a loop with
//! fewer than 16 items for each worker, since each item may take long, and one of more than 2²⁰
//! items, which takes longer than 15 µs whatever they are. If the first of fewer items may take
//! longer than all the others, use [`eager`](Loop::eager); if an item takes next to no time and the
//! loop runs inside others, [`min_chunk`](Loop::min_chunk) saves a few clock reads.
//!
//! Between two blocks there is a checkpoint: urgent tasks, futures that were woken meanwhile and
//! tasks from outside run there, on the stack of the loop. If one of them locks a mutex that the
//! caller of the loop holds, the worker deadlocks; hold a [`sync::Mutex`](crate::sync::Mutex)
//! around such a loop, or no lock.
//!
//! [`Loop::chunking`] takes a [`ChunkingStrategy`] instead: chunks that are cut beforehand, a given
//! number for each worker (three by default) within given bounds, or all of one size.
//!
//! # Progress and cancellation
//!
//! ```
//! use filch::{CancelToken, prelude::*};
//! use std::time::Duration;
//!
//! let token = CancelToken::new();
//! token.cancel_after(Duration::from_millis(20))?;
//! let outcome = (0..u64::MAX)
//!     .into_par()
//!     .progress(|done| println!("{done} numbers"))
//!     .cancel(&token)
//!     .find_first(|n| n.count_ones() == 64);
//! println!("{}", outcome.unwrap_err());           // the loop ended after 12345678 of …: the time is up
//! # Ok::<(), filch::TimerError>(())
//! ```

mod adapt;
mod bridge;
mod checkpoint;
mod chunking;
mod collect;
mod drive;
mod error;
mod extension;
mod first_error;
mod fixed;
mod free;
mod merge;
mod nearly;
mod ops;
mod output;
mod over;
mod owned;
mod pace;
mod producer;
mod quick;
mod scan;
mod search;
mod settings;
mod sort;
mod sources;
mod stage;
mod steps;
#[cfg(all(test, not(filch_loom)))]
mod tests;

pub use adapt::{Chain, ChainIter, Chunks, Enumerate, IndexedSource, Rev, StepBy, Windows, Zip};
pub use bridge::{Bridge, BridgeIter, ParBridge};
pub use chunking::ChunkingStrategy;
pub use collect::FromPar;
pub use error::LoopCancelled;
pub use extension::{IntoPar, Par, ParMut};
pub use fixed::Deterministic;
pub use free::{
    all, any, count, exclusive_scan, fill, filter, find_any, find_first, for_each, for_each_index,
    for_each_mut, inclusive_scan, map, map_into, map_reduce, max, min, reduce, sort, sort_by,
    sort_by_key, sort_unstable, sort_unstable_by, sort_unstable_by_key,
};
pub use over::{Cancellable, Loop, Mode, Plain, over};
pub use owned::OwnedItems;
pub use producer::{ExactProducer, IntoProducer, Producer, RangeInteger};
pub use sources::{Chars, DequeRange, Lines, ParStr};
pub use stage::{
    ChainStage, Cloned, Either, EnumerateStage, Filter, FilterMap, FlatMap, Identity, Inspect,
    ItemStage, LoopStage, Map, MapInit, ZipStage,
};
