//! Folds over trees: what a node comes to, from what its children come to, on all workers.
//!
//! A fold is a way to reach the children of a node and three functions. `init` makes a *heap* for a node when it is
//! entered; `accumulate` adds the result of a child to it, in the order of the children, whichever is done first;
//! `finalize` makes the node's result of it. [`fold`](fn@fold) makes a fold of four closures; [`Fold`] is the trait behind.
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
//! A node is whatever leads to its children, and they are asked for one by one, when their turn comes:
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
//! There may be any number of them, at any depth: open nodes lie on the heap, not on the stack, and nobody waits for
//! anybody inside of anything. A worker that needs what another one is at leaves its whole way through the tree there, and
//! the other goes on with it.
//!
//! # Which when
//!
//! The strategy is a type, so each is compiled for itself: `fold.with::<Tasks>().run(root)`.
//!
//! | strategy | for |
//! |---|---|
//! | [`Adaptive`], the default | anything |
//! | [`Quiet`] | many small folds, while workers sleep |
//! | [`Tasks`] | nodes of microseconds, which wait for one another or for the world outside |
//! | [`Breadth`] | the same, in the order in which nodes are found |
//! | [`Lazy`], [`Each`] with other parts | comparing |
//! | [`Fold::sequential`] | one thread |
//!
//! What backs this: with empty nodes, two workers and 20, four to eight or two children each, [`Adaptive`] takes 2.5 to 3.5 ns a
//! node, and a task for each node more than a hundred. With a microsecond a node or ten, evenly or on average, [`Adaptive`] is
//! within 7 % of the best strategy. The bench suite `fold` has all figures.
//!
//! # Memory
//!
//! [`Lazy`] and [`Fold::sequential`] keep the heap and the iterator of each open node, so as much as the tree is deep; `Lazy`
//! keeps the heap alone of most nodes whose iterators say that the child is the only one. Of many siblings, 16,384 at a time at most are taken out of the iterator to be
//! given away, with their results, so a star of any size takes some hundred kilobytes for each worker. With [`AtTheEnd`] all
//! results of a node's children are kept until the last one is there. [`Each`] makes tasks of all children of a node when it
//! enters the node, of some hundred bytes each: a star of ten million leaves is a gigabyte of tasks.
//!
//! # Panics
//!
//! A panic in any of the functions stops the fold and reaches the caller when everybody has stopped; what there was of
//! nodes, heaps and results is dropped.

mod each;
mod explain;
mod family;
mod functions;
mod lazy;
mod memo;
mod sequence;
mod strategy;
mod team;

pub use explain::{Explained, Visit};
pub use functions::{Fold, Functions, fold};
pub use memo::{CycleError, Memo};
pub use strategy::{
    Adaptive, AtTheEnd, BatchWait, Breadth, Each, EveryKth, EveryPush, Lazy, OnArrival,
    OncePerBatch, Plan, Queue, Quiet, Strategy, Tasks, Wake,
};

/// What the model checker gets to see.
#[cfg(filch_loom)]
#[doc(hidden)]
pub mod model {
    pub use super::family::model::Slots;
}
