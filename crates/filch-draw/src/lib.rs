//! Pictures of the task graphs of [filch], and of their runs: which task waits for which, and which
//! task ran when and on which worker.
//!
//! ```
//! use filch::Graph;
//!
//! let graph = Graph::new();
//! let (compile, test) = (graph.task("compile", || ()), graph.task("test", || ()));
//! compile.precede(test);
//! let mut plan = graph.plan()?;
//!
//! let dot = filch_draw::dot(&plan.describe()); // for Graphviz
//! assert!(dot.contains(r#"t0 [label="compile"];"#) && dot.contains("t0 -> t1;"));
//!
//! plan.record(true);
//! plan.run()?;
//! let svg = filch_draw::svg(&plan.timeline()); // for a browser
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The library gives [descriptions](filch::graph::Description) and
//! [timelines](filch::graph::Timeline) as plain data, so other drawings need nothing of this crate.

mod dot;
mod svg;

pub use dot::dot;
pub use svg::svg;
