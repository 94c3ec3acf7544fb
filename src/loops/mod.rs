//! Loops over slices, ranges and vectors.
//!
//! [`over`] takes what to loop over, its methods say how and what: `over(&data).min_chunk(1024).map(|x| …)`. The common
//! ones are functions as well: `filch::map(&data, |x| …)`. Order is kept everywhere: it is enough for an operation to be
//! associative. A panic in a closure stops the loop and reaches the caller, and nothing is dropped twice or not at all.
//!
//! ```
//! use filch::loops::over;
//!
//! let data: Vec<u64> = (0..100_000).collect();
//! let even = over(&data).filter(|n| *n % 2 == 0);
//! let sum: u64 = over(&data).sum();
//! let mut roots = over(&data).map(|n| n.isqrt());
//! filch::sort_unstable(&mut roots);
//! assert_eq!((even.len(), sum, roots[0]), (50_000, 4_999_950_000, 0));
//! ```
//!
//! # Which when
//!
//! | you want | take | it does |
//! |---|---|---|
//! | something done with every item | [`for_each`], [`for_each_mut`], [`for_each_index`], [`fill`] | nothing but call |
//! | a result for every item | [`map`]; [`map_into`] if there is a place for them | writes each to its place, no copies afterwards |
//! | some of the items, or of the results | [`filter`], [`Loop::filter_map`] | one vector a piece, put together at the end |
//! | one result of all | [`reduce`], [`map_reduce`], [`Loop::sum`], [`count`]; [`Loop::fold`] if it has another type | one value a piece |
//! | the least or greatest | [`min`], [`max`], [`Loop::min_by_key`], … | as `reduce` |
//! | to know whether or where | [`any`], [`all`], [`find_any`]; [`find_first`], [`Loop::position`] | ends early |
//! | running totals | [`inclusive_scan`], [`exclusive_scan`] | one pass, a second over what others did |
//! | order | [`sort`]; [`sort_unstable`] for numbers | runs of the standard library, merged in parallel |
//! | rows, tiles, blocks | `over(&mut pixels).chunks(width)` | slices as items |
//! | two at a time; places | [`Loop::zip`], [`Loop::indexed`] | |
//!
//! # When a loop is shared
//!
//! A loop runs on its caller, in blocks of items that take some 16 µs each. After a block the caller looks whether its
//! queue has anything for a hungry worker. If not, half of what is left goes there; if nobody takes it, the caller goes on
//! with it as if nothing had been. So a loop that nobody helps with is a loop in sequence, a loop inside of a loop is not
//! cut up as long as the outer one has something to share, and cuts are made where somebody needs them.
//!
//! Nobody is woken for the first 15 µs: a loop over a few thousand numbers costs what it costs in sequence. If there are
//! fewer than 16 items for each worker, all are shared from the start, since each may take long. If the first of many
//! items may take longer than all the others, say [`eager`](Loop::eager); if an item takes next to no time and the loop
//! runs inside of others, [`min_chunk`](Loop::min_chunk) saves a few looks at the clock.
//!
//! Between two blocks there is a [`checkpoint`](crate::checkpoint): futures that were woken meanwhile run there, on the
//! stack of the loop, so don't hold a lock around a loop that they want too.
//!
//! [`Loop::chunking`] takes a [`ChunkingStrategy`] instead: chunks that are cut beforehand, three for each worker.
//!
//! # Progress and cancellation
//!
//! ```
//! use filch::{CancelToken, loops::over};
//! use std::time::Duration;
//!
//! let token = CancelToken::new();
//! token.cancel_after(Duration::from_millis(20))?;
//! let outcome = over(0..u64::MAX)
//!     .progress(|done| println!("{done} numbers"))
//!     .cancel(&token)
//!     .find_first(|n| n.count_ones() == 64);
//! println!("{}", outcome.unwrap_err());           // the loop ended after 12345678 of …: the time is up
//! # Ok::<(), filch::TimerError>(())
//! ```

mod adapt;
mod checkpoint;
mod chunking;
mod drive;
mod error;
mod free;
mod merge;
mod ops;
mod output;
mod over;
mod owned;
mod pace;
mod pieces;
mod scan;
mod search;
mod sort;
#[cfg(all(test, not(filch_loom)))]
mod tests;

pub use adapt::{Chunks, Cloned, Indexed, Zip};
pub use chunking::ChunkingStrategy;
pub use error::LoopCancelled;
pub use free::{
    all, any, count, exclusive_scan, fill, filter, find_any, find_first, for_each, for_each_index,
    for_each_mut, inclusive_scan, map, map_into, map_reduce, max, min, reduce, sort, sort_by,
    sort_by_key, sort_unstable, sort_unstable_by, sort_unstable_by_key,
};
pub use over::{Cancellable, Loop, Mode, Plain, over};
pub use owned::Owned;
pub use pieces::{Pieces, Source};
