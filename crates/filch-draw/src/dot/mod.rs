//! Exports graphs as text for Graphviz.

mod clusters;

use clusters::Clusters;
use filch::graph::{DescribedTask, Description, TaskEnding, TaskKind, Timeline};
use std::{
    collections::BTreeSet,
    fmt::{self, Write},
};

/// The deepest indentation, in levels of nesting. Graphs may be nested a hundred thousand deep, and
/// lines that are as long as that are of no use.
const MAX_INDENT: usize = 16;

const HEAD: &str =
    "digraph {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n";

/// Returns a graph as text for Graphviz: conditions are diamonds with dashed edges, placeholders
/// are dotted, modules and subflows that were retained are clusters, and a semaphore is connected
/// to the tasks that need it. [`Dot`] has options.
///
/// ```
/// use filch::Graph;
///
/// let graph = Graph::new();
/// let work = graph.task("work", || ());
/// let again = graph.condition("again?", || 1);
/// work.precede(again);
/// again.precede(work);
/// let dot = filch_draw::dot(&graph.describe());
/// assert!(dot.contains("t0 -> t1;"));
/// assert!(dot.contains("t1 -> t0 [style=dashed];"));
/// ```
///
/// # Panics
/// When a position in the description is not that of a task, or a task is inside a later one.
/// The descriptions of the library are correct.
#[must_use]
pub fn dot(graph: &Description) -> String {
    Dot::new(graph).draw()
}

/// A graph for Graphviz, with options: only its critical path, or clusters of tasks. As [`dot`]
/// without any.
///
/// ```
/// use filch_draw::Dot;
///
/// let graph = filch::Graph::new();
/// graph.linearize([graph.task("cc a.c", || ()), graph.task("link a", || ())]);
/// let description = graph.describe();
/// assert_eq!(Dot::new(&description).draw(), filch_draw::dot(&description));
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Dot<'a> {
    graph: &'a Description,
    critical: Option<&'a Timeline>,
    cluster_of: Option<fn(&str) -> &str>,
    max_listed: usize,
}

impl<'a> Dot<'a> {
    /// Starts with a whole graph.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.task("work", || ());
    /// let dot = filch_draw::Dot::new(&graph.describe()).draw();
    /// assert!(dot.contains("t0 [label=\"work\"];"));
    /// ```
    pub fn new(graph: &'a Description) -> Self {
        Self {
            graph,
            critical: None,
            cluster_of: None,
            max_listed: usize::MAX,
        }
    }

    /// Draws only the critical path of a recorded run, with the time that each of its tasks took.
    /// A task that ran several times in a loop is drawn once. The path has no clusters.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let graph = filch::Graph::new();
    /// let (read, parse) = (graph.task("read", || ()), graph.task("parse", || ()));
    /// graph.linearize([read, parse]);
    /// read.precede(graph.task("list", || ()));
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "read", 0, at(0)..at(2)),
    ///     TaskTime::new(2, "parse", 0, at(2)..at(9)),
    ///     TaskTime::new(3, "list", 1, at(2)..at(3)),
    /// ];
    /// let timeline = Timeline::new(2, tasks, [(1, 2), (1, 3)]); // or `plan.timeline()`
    /// let dot = filch_draw::Dot::new(&graph.describe()).critical_path(&timeline).draw();
    /// assert!(dot.contains("t0 -> t1;") && dot.contains("parse\\n7.0ms"));
    /// assert!(!dot.contains("list"));
    /// ```
    pub fn critical_path(mut self, timeline: &'a Timeline) -> Self {
        self.critical = Some(timeline);
        self
    }

    /// Draws the tasks of the outermost graph in clusters: those for whose names `cluster_of`
    /// returns the same text, for example [`prefix`]. Graphs inside tasks are not drawn.
    ///
    /// ```
    /// use filch_draw::{Dot, prefix};
    ///
    /// let graph = filch::Graph::new();
    /// graph.task("net/tcp", || ()).precede(graph.task("net/http", || ()));
    /// let dot = Dot::new(&graph.describe()).clusters(prefix).draw();
    /// assert!(dot.contains("subgraph cluster_0 {") && dot.contains("label=\"net\";"));
    /// ```
    pub fn clusters(mut self, cluster_of: fn(&str) -> &str) -> Self {
        self.cluster_of = Some(cluster_of);
        self
    }

    /// Draws a cluster with more tasks than this as a single node with their number. Edges
    /// between two clusters become one, with their number.
    ///
    /// ```
    /// use filch_draw::{Dot, prefix};
    ///
    /// let graph = filch::Graph::new();
    /// let link = graph.task("link", || ());
    /// for n in 0..2_000 {
    ///     graph.task(format!("cc {n}.c"), || ()).precede(link);
    /// }
    /// let description = graph.describe();
    /// let dot = Dot::new(&description).clusters(prefix).max_listed(20).draw();
    /// assert!(dot.contains("c1 [label=\"cc\\n2000 tasks\""));
    /// assert!(dot.contains("c1 -> t0 [label=\"2000\"];"));
    /// assert!(dot.lines().count() < 20);
    /// ```
    pub fn max_listed(mut self, tasks: usize) -> Self {
        self.max_listed = tasks;
        self
    }

    /// Returns the text.
    ///
    /// ```
    /// let dot = filch_draw::Dot::new(&filch::Graph::new().describe()).draw();
    /// assert!(dot.starts_with("digraph {") && dot.ends_with("}\n"));
    /// ```
    ///
    /// # Panics
    /// As [`dot`].
    #[must_use]
    pub fn draw(&self) -> String {
        let mut drawing = Drawing {
            graph: self.graph,
            text: String::from(HEAD),
        };
        match (self.critical, self.cluster_of) {
            (Some(timeline), _) => drawing.critical_path(timeline),
            (None, Some(cluster_of)) => {
                Clusters::new(self.graph, cluster_of, self.max_listed).draw(&mut drawing);
            }
            (None, None) => drawing.graphs(&contents(self.graph)),
        }
        drawing.text.push_str("}\n");
        drawing.text
    }
}

/// Returns the part of a name that tasks of the same kind share, for [`Dot::clusters`]: up to the
/// first `/`, `:` or space, and without digits at its end.
///
/// ```
/// use filch_draw::prefix;
///
/// assert_eq!(prefix("net/tcp/listen"), "net");
/// assert_eq!(prefix("cc main.c"), "cc");
/// assert_eq!(prefix("tile17"), "tile");
/// assert_eq!(prefix("42"), "42");
/// ```
#[must_use]
pub fn prefix(name: &str) -> &str {
    let end = name.find(['/', ':', ' ']).filter(|end| *end > 0);
    let first = &name[..end.unwrap_or(name.len())];
    match first.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "" => first,
        kind => kind,
    }
}

/// What is drawn in one graph: positions in the lists of the description.
#[derive(Clone, Default)]
struct Contents {
    tasks: Vec<usize>,
    edges: Vec<usize>,
    limits: Vec<usize>,
}

/// Returns the contents of the outermost graph, and then of the graph inside each task.
fn contents(graph: &Description) -> Vec<Contents> {
    let position = |inside: Option<usize>| inside.map_or(0, |task| task + 1);
    let mut contents = vec![Contents::default(); graph.tasks.len() + 1];
    for (task, described) in graph.tasks.iter().enumerate() {
        assert!(
            position(described.inside) <= task,
            "task {task} stands before the task that contains it"
        );
        contents[position(described.inside)].tasks.push(task);
    }
    for (edge, &(from, _)) in graph.edges.iter().enumerate() {
        contents[position(graph.tasks[from].inside)]
            .edges
            .push(edge);
    }
    for (number, limit) in graph.limits.iter().enumerate() {
        let mut graphs = limit.tasks.iter().map(|&task| graph.tasks[task].inside);
        let first = graphs.next().flatten();
        // Outermost, if it is shared by tasks of several graphs.
        let inside = first.filter(|_| graphs.all(|other| other == first));
        contents[position(inside)].limits.push(number);
    }
    contents
}

struct Drawing<'a> {
    graph: &'a Description,
    text: String,
}

impl Drawing<'_> {
    /// Writes all graphs, each inside its task.
    fn graphs(&mut self, contents: &[Contents]) {
        // The graphs around the current place, with the next task of each; a loop and not a
        // recursion, which would overflow the stack.
        let mut open = vec![(0, contents[0].tasks.iter())];
        while let Some((graph, tasks)) = open.last_mut() {
            let (graph, next) = (*graph, tasks.next());
            let depth = open.len();
            match next {
                None => {
                    open.pop();
                    self.connections(&contents[graph], depth);
                    if graph > 0 {
                        self.line(depth - 1, format_args!("}}"));
                    }
                }
                Some(&task) if contents[task + 1].tasks.is_empty() => self.task(task, depth),
                Some(&task) => {
                    let name = escape(&self.graph.tasks[task].name);
                    self.line(depth, format_args!("subgraph cluster_t{task} {{"));
                    self.line(depth + 1, format_args!("label=\"{name}\";"));
                    self.line(depth + 1, format_args!("style=rounded;"));
                    self.task(task, depth + 1);
                    open.push((task + 1, contents[task + 1].tasks.iter()));
                }
            }
        }
    }

    /// Writes the tasks of the critical path, and the edges between them.
    fn critical_path(&mut self, timeline: &Timeline) {
        // The tasks of the outermost graph come first in a description, in the order of their
        // numbers, which begin at 1.
        let position = |index: u32| (index as usize).wrapping_sub(1);
        let (mut drawn, mut edges) = (BTreeSet::new(), BTreeSet::new());
        let mut before = None;
        for task in timeline.critical_path() {
            let at = position(task.index());
            if drawn.insert(at) {
                let tasks = timeline.tasks().iter();
                let spans = tasks
                    .filter(|other| (other.index(), other.run()) == (task.index(), task.run()));
                let (times, took) = spans.fold((0, std::time::Duration::ZERO), |sum, span| {
                    let took = span.completed().saturating_sub(span.start());
                    (sum.0 + 1, sum.1 + took)
                });
                let name = escape(task.name());
                let often = if times > 1 {
                    format!(", {times} times")
                } else {
                    String::new()
                };
                let kind = self.graph.tasks.get(at).map_or("", attributes);
                let colour = match task.ending() {
                    TaskEnding::Failed => ", color=red",
                    _ => "",
                };
                self.line(
                    1,
                    format_args!("t{at} [label=\"{name}\\n{took:.1?}{often}\"{kind}{colour}];"),
                );
            }
            if let Some(before) = before.replace(at)
                && edges.insert((before, at))
            {
                self.edge(before, at, 1);
            }
        }
    }

    /// Writes an edge between two tasks.
    fn edge(&mut self, from: usize, to: usize, depth: usize) {
        let weak = self.graph.tasks.get(from).is_some_and(is_condition);
        let style = if weak { " [style=dashed]" } else { "" };
        self.line(depth, format_args!("t{from} -> t{to}{style};"));
    }

    fn line(&mut self, depth: usize, line: fmt::Arguments<'_>) {
        let indent = "  ".repeat(depth.min(MAX_INDENT));
        let _ = writeln!(self.text, "{indent}{line}");
    }

    fn task(&mut self, number: usize, depth: usize) {
        let task = &self.graph.tasks[number];
        let (name, attributes) = (escape(&task.name), attributes(task));
        self.line(
            depth,
            format_args!("t{number} [label=\"{name}\"{attributes}];"),
        );
    }

    /// Writes the edges and the limits of a graph.
    fn connections(&mut self, contents: &Contents, depth: usize) {
        let graph = self.graph;
        for &edge in &contents.edges {
            let (from, to) = graph.edges[edge];
            self.edge(from, to, depth);
        }
        for &number in &contents.limits {
            let limit = &graph.limits[number];
            self.line(
                depth,
                format_args!(
                    "tlimit{number} [label=\"at most {}\", shape=octagon, style=filled, fillcolor=lightgrey];",
                    limit.permits
                ),
            );
            for task in &limit.tasks {
                self.line(
                    depth,
                    format_args!(
                        "t{task} -> tlimit{number} [style=dotted, dir=none, constraint=false];"
                    ),
                );
            }
        }
    }
}

/// Whether its successors do not wait for it: its edges are dashed.
fn is_condition(task: &DescribedTask) -> bool {
    matches!(task.kind, TaskKind::Condition | TaskKind::MultiCondition)
}

/// Returns how the kind of a task is shown.
fn attributes(task: &DescribedTask) -> &'static str {
    match task.kind {
        TaskKind::Empty => ", style=dotted",
        TaskKind::Condition | TaskKind::MultiCondition => ", shape=diamond",
        TaskKind::Subflow | TaskKind::Module => ", shape=component",
        TaskKind::Future => ", shape=cds",
        _ => "",
    }
}

/// Escapes a name for use between quotes.
fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push(' '),
            other if other.is_control() => {}
            // Graphviz reads entities in labels.
            '&' => escaped.push_str("&amp;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use filch::graph::DescribedLimit;

    fn task(name: &str, kind: TaskKind, inside: Option<usize>) -> DescribedTask {
        DescribedTask {
            name: name.to_owned(),
            kind,
            inside,
        }
    }

    #[test]
    fn graphs_inside_of_tasks_are_clusters() {
        let graph = Description {
            tasks: vec![
                task("before", TaskKind::Plain, None),
                task("sub", TaskKind::Module, None),
                task("first", TaskKind::Plain, Some(1)),
                task("second", TaskKind::Future, Some(1)),
                task("grain", TaskKind::Plain, Some(2)),
            ],
            edges: vec![(0, 1), (2, 3)],
            limits: vec![DescribedLimit {
                permits: 1,
                tasks: vec![2, 3],
            }],
        };
        let dot = dot(&graph);
        for line in [
            "  subgraph cluster_t1 {",
            "    t1 [label=\"sub\", shape=component];",
            "    subgraph cluster_t2 {",
            "      t4 [label=\"grain\"];",
            "    t2 -> t3;",
            "    tlimit0 [label=\"at most 1\", shape=octagon, style=filled, fillcolor=lightgrey];",
            "    t3 -> tlimit0 [style=dotted, dir=none, constraint=false];",
            "  t0 -> t1;",
        ] {
            assert!(dot.lines().any(|found| found == line), "{line} in\n{dot}");
        }
        let (open, close) = (dot.matches('{').count(), dot.matches('}').count());
        assert_eq!((open, close), (3, 3));
    }

    #[test]
    fn names_cannot_break_out() {
        assert_eq!(escape("a\"b\\c\nd\u{0}<e>&"), "a\\\"b\\\\c\\nd<e>&amp;");
    }
}
