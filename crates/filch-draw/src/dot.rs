//! Exports graphs as text for Graphviz.

use filch::graph::{DescribedTask, Description, TaskKind};
use std::fmt::{self, Write};

/// The deepest indentation, in levels of nesting. Graphs may be nested a hundred thousand deep, and
/// lines that are as long as that are of no use.
const MAX_INDENT: usize = 16;

/// Returns a graph as text for Graphviz: conditions are diamonds with dashed edges, placeholders
/// are dotted, modules and subflows that were retained are clusters, and a semaphore is connected
/// to the tasks that need it.
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
    let mut drawing = Drawing {
        graph,
        text: String::from(
            "digraph {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n",
        ),
    };
    drawing.graphs(&contents(graph));
    drawing.text.push_str("}\n");
    drawing.text
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
            let weak = is_condition(&graph.tasks[from]);
            let style = if weak { " [style=dashed]" } else { "" };
            self.line(depth, format_args!("t{from} -> t{to}{style};"));
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
