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
//! let json = filch_draw::json(&plan.timeline()); // for other programs
//! assert!(json.starts_with("{"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`charts`] draws curves of any numbers, for example of benchmarks.
//!
//! For large graphs, [`Dot`] draws the critical path only, or clusters of tasks.
//!
//! The library gives [descriptions](filch::graph::Description) and
//! [timelines](filch::graph::Timeline) as plain data, so other drawings need nothing of this crate.

mod chart;
mod dot;
mod json;
mod svg;

pub use chart::{Axis, Chart, charts};
pub use dot::{Dot, dot, prefix};
pub use json::json;
pub use svg::svg;
