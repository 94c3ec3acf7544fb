//! Folds over trees: a value computed bottom-up, on all workers.
//!
//! A fold is four functions. `children` returns the children of a node. `init` creates an
//! accumulator when a node is entered. `accumulate` adds the result of a child to it,
//! in the order of the children, not of their completion. `finalize` converts it to the node's
//! result. [`fold`](fn@fold) makes a fold of four closures; [`Fold`] is the underlying trait.
//!
//! ```
//! use filch::{Fold, fold};
//!
//! enum Expression {
//!     Number(f64),
//!     Sum(Vec<Expression>),
//!     Product(Vec<Expression>),
//! }
//! use Expression::{Number, Product, Sum};
//!
//! let expression = Sum(vec![Number(1.0), Product(vec![Number(2.0), Number(3.0)]), Number(4.0)]);
//! let value = fold(
//!     |e: &Expression| match e {
//!         Number(_) => &[][..],
//!         Sum(parts) | Product(parts) => parts,
//!     },
//!     |e| match e {
//!         Number(value) => (*value, false),
//!         Sum(_) => (0.0, false),
//!         Product(_) => (1.0, true),
//!     },
//!     |(value, is_product), part| if *is_product { *value *= part } else { *value += part },
//!     |(value, _)| value,
//! );
//! assert_eq!(value.run(&expression), 11.0);
//! ```
//!
//! # Trees
//!
//! A node is any value from which its children can be computed. They are requested one by one, when
//! they are needed:
//!
//! | the tree is | a node is | the children are, for example |
//! |---|---|---|
//! | borrowed | a reference | `\|n: &Node\| &n.children` |
//! | owned, and taken apart | a value | `\|n: Node\| n.children` |
//! | a list of edges | an index | `\|i: usize\| edges[i].iter().copied()` |
//! | generated | what describes it | `\|n: u32\| (0..n).map(move \|k\| n - k - 1)` |
//! | a chain | anything | `\|n: u32\| n.checked_sub(1)`: an `Option` |
//! | a graph with shared nodes | any of these | the same, with [`Fold::memo`] |
//!
//! There may be any number of children, at any depth: open nodes are on the heap, not on the stack,
//! and no worker blocks on another in a fold. A worker that needs a result that another
//! worker is computing leaves its traversal state there, and the other worker continues with it.
//!
//! # Which strategy
//!
//! The strategy is a type, so each is compiled separately: `fold.with::<Tasks>().run(root)`.
//!
//! | strategy | for |
//! |---|---|
//! | [`Adaptive`], the default | anything |
//! | [`FewWakes`] | many small folds: wakes at most one sleeping worker for each part that a worker traverses |
//! | [`Tasks`] | nodes of microseconds that wait for one another or for external events |
//! | [`Tasks<Shared>`](Tasks) | the same, in the order in which nodes are found |
//! | [`Tasks<Q>`](Tasks) | the same, in the order of a [queue strategy](crate::engine::Strategy) of the program |
//! | [`Fold::sequential`] | one thread |
//!
//! Measured with two workers: [`Adaptive`] takes 2.5 to 3.5 ns for an empty node, in trees with two
//! to twenty children a node; [`Tasks`] takes more than 100 ns. With nodes of 1 or 10 µs, constant
//! or random, [`Adaptive`] is within 7 % of the best strategy. The bench suite `fold` has all
//! figures.
//!
//! # Memory
//!
//! [`Adaptive`] and [`Fold::sequential`] store the accumulator and the iterator of each open node,
//! so memory is proportional to the depth. `Adaptive` stores only the accumulator of most nodes
//! whose iterators report that the child is the only one. Of many siblings, at most 16,384 at a
//! time are taken out of the iterator to be offered, with their results, so a node with any number
//! of leaves takes some hundred kilobytes for each worker. With [`AtTheEnd`] all results of a
//! node's children are stored until the last one is there. [`Tasks`] makes tasks of all children of
//! a node when it enters the node, of some hundred bytes each: a node with ten million leaves takes
//! a gigabyte of tasks.
//!
//! # Panics
//!
//! A panic in any of the functions stops the fold and propagates to the caller when all workers
//! have stopped; the remaining nodes, accumulators and results are dropped.

mod adaptive;
mod definition;
mod explain;
mod family;
mod functions;
mod help;
mod memo;
mod queued;
mod schemes;
mod strategy;
mod tasks;
mod team;

pub use definition::{Fold, FoldStrategy, Memo, Runner};
pub use explain::{Explained, Visit};
pub use functions::{Functions, fold};
pub use memo::CycleError;
pub use strategy::{Adaptive, AtTheEnd, FewWakes, OnArrival, Tasks};
