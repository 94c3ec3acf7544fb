//! Parallel loops over slices, ranges and vectors.
//!
//! With `use filch::prelude::*`, slices, vectors, arrays and ranges have three methods that create
//! a [`Loop`]: [`par`](Par::par) over references, [`par_mut`](ParMut::par_mut) over mutable
//! references, [`into_par`](IntoPar::into_par) over the items themselves. The methods of the loop
//! configure and run it: `data.par().min_chunk(1024).map(|x| …)`. [`over`] does the same without
//! the prelude, for any source: `over(&data)`. The common loops are functions as well:
//! `filch::map(&data, |x| …)`.
//!
//! All operations preserve order, so an operation only has to be associative. A panic in a closure
//! stops the loop and propagates to the caller; every item is dropped exactly once.
//!
//! ```
//! use filch::prelude::*;
//!
//! let data: Vec<u64> = (0..100_000).collect();
//! let even = data.par().filter(|n| *n % 2 == 0);
//! let sum: u64 = data.par().sum();
//! let mut roots = data.par().map(|n| n.isqrt());
//! roots.par_mut().sort_unstable();
//! assert_eq!((even.len(), sum, roots[0]), (50_000, 4_999_950_000, 0));
//! ```
//!
//! A loop is not a lazy iterator: the first operation runs it. `map` returns a vector, not
//! something to chain; [`map_reduce`](Loop::map_reduce), [`filter_map`](Loop::filter_map) and
//! [`fold`](Loop::fold) do two steps in one pass.
//!
//! # Which operation
//!
//! | to get | use | how |
//! |---|---|---|
//! | a side effect for every item | [`for_each`], [`for_each_mut`], [`for_each_index`], [`fill`] | only calls |
//! | a result for every item | [`map`]; [`map_into`] into an existing slice | each is written to its place, without later copies |
//! | some of the items, or of the results | [`filter`], [`Loop::filter_map`] | a vector for each stolen piece, concatenated at the end |
//! | one result of all | [`reduce`], [`map_reduce`], [`Loop::sum`], [`count`]; [`Loop::fold`] if it has another type | a value for each stolen piece, combined in order |
//! | the minimum or maximum | [`min`], [`max`], [`Loop::min_by_key`], … | as `reduce` |
//! | whether or where a condition holds | [`any`], [`all`], [`find_any`]; [`find_first`], [`Loop::position`] | ends early |
//! | prefix sums | [`inclusive_scan`], [`exclusive_scan`] | one pass, a second one over stolen pieces |
//! | sorted items | [`sort`]; [`sort_unstable`] for numbers | runs sorted by the standard library, merged in parallel |
//! | rows, tiles, blocks | `pixels.par_mut().chunks(width)` | slices as items |
//! | pairs; indices | [`Loop::zip`], [`Loop::indexed`] | |
//!
//! # When a loop is shared
//!
//! A loop runs on its caller, in blocks of items that take some 16 µs each. After a block the
//! caller checks whether its queue has a job that an idle worker could steal. If not, it queues
//! half of the remaining items; if no worker steals that half, the caller takes it back and
//! continues with it. So a loop without idle workers runs sequentially, an inner loop is not split
//! as long as the outer one has items to share, and splits happen on demand.
//!
//! No worker is woken during the first 15 µs: a loop over a few thousand numbers costs as much as a
//! sequential one. With fewer than 16 items for each worker, all are shared from the start, since
//! each may take long. If the first of many items may take longer than all the others, use
//! [`eager`](Loop::eager); if an item takes next to no time and the loop runs inside of others,
//! [`min_chunk`](Loop::min_chunk) saves a few clock reads.
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
mod fixed;
mod free;
mod merge;
mod nearly;
mod ops;
mod output;
mod over;
mod owned;
mod pace;
mod pieces;
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
pub use owned::Owned;
pub use pieces::{ExactPieces, IntoPieces, Pieces};
pub use sources::{Chars, Lines, ParStr, TwoSlices};
pub use stage::{
    Both, Cloned, Either, Filter, FilterMap, FlatMap, Inspect, ItemStage, Items, Map, MapInit,
    OneOf, Second, Stage,
};
