//! Exports graphs as text for Graphviz.

use super::{
    build::{Graph, Parts},
    node::{Kind, Node},
    plan::Plan,
};
use crate::semaphore::Semaphore;
use std::fmt::Write;

/// What is drawn: tasks, edges, and limits on groups of tasks.
#[derive(Default)]
pub(super) struct Sketch {
    pub(super) tasks: Vec<Sketched>,
    /// Positions in `tasks`.
    pub(super) edges: Vec<(usize, usize)>,
    /// Limits, with the tasks that share them.
    pub(super) limits: Vec<(String, Vec<usize>)>,
}

/// A task that is drawn.
pub(super) struct Sketched {
    pub(super) name: String,
    pub(super) form: Form,
    /// The graph inside of the task.
    pub(super) inside: Option<Sketch>,
}

/// The shape of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// A placeholder.
    Empty,
    /// A condition chooses among its successors, which do not wait for it: its edges are dashed.
    Condition,
    /// The task contains a graph, or will.
    Graph,
    /// The task is done when an external event has happened.
    Event,
}

impl Form {
    fn attributes(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Empty => ", style=dotted",
            Self::Condition => ", shape=diamond",
            Self::Graph => ", shape=component",
            Self::Event => ", shape=cds",
        }
    }
}

/// Draws a sketch.
pub(super) fn draw(sketch: &Sketch) -> String {
    let mut text = String::from(
        "digraph {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n",
    );
    inside(&mut text, sketch, "t", 1);
    text.push_str("}\n");
    text
}

/// Writes the lines of one graph. `prefix` makes the names of its nodes unique.
fn inside(text: &mut String, sketch: &Sketch, prefix: &str, depth: usize) {
    let indent = "  ".repeat(depth);
    for (number, task) in sketch.tasks.iter().enumerate() {
        let (node, name) = (format!("{prefix}{number}"), escape(&task.name));
        let line = format!("{node} [label=\"{name}\"{}];\n", task.form.attributes());
        match &task.inside {
            None => {
                let _ = write!(text, "{indent}{line}");
            }
            Some(sketch) => {
                let _ = write!(
                    text,
                    "{indent}subgraph cluster_{node} {{\n{indent}  label=\"{name}\";\n{indent}  style=rounded;\n\
                     {indent}  {line}"
                );
                inside(text, sketch, &format!("{node}_"), depth + 1);
                let _ = writeln!(text, "{indent}}}");
            }
        }
    }
    for &(from, to) in &sketch.edges {
        let weak = sketch.tasks[from].form == Form::Condition;
        let style = if weak { " [style=dashed]" } else { "" };
        let _ = writeln!(text, "{indent}{prefix}{from} -> {prefix}{to}{style};");
    }
    for (number, (name, tasks)) in sketch.limits.iter().enumerate() {
        let (node, name) = (format!("{prefix}limit{number}"), escape(name));
        let _ = writeln!(
            text,
            "{indent}{node} [label=\"{name}\", shape=octagon, style=filled, fillcolor=lightgrey];"
        );
        for task in tasks {
            let _ = writeln!(
                text,
                "{indent}{prefix}{task} -> {node} [style=dotted, dir=none, constraint=false];"
            );
        }
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

/// Sketches `parts`, with these edges between the tasks' numbers.
fn sketch(parts: &Parts, edges: impl Iterator<Item = (u32, u32)>) -> Sketch {
    let task = |(index, node): (u32, &Node)| Sketched {
        name: parts.names.of(index),
        form: form(node.kind),
        inside: None,
    };
    // The first record is no task.
    let place = |index: u32| index as usize - 1;
    let mut sketch = Sketch {
        tasks: (1..).zip(&parts.nodes[1..]).map(task).collect(),
        edges: edges.map(|(from, to)| (place(from), place(to))).collect(),
        limits: limits(parts),
    };
    for (index, inner) in &parts.places {
        // No other thread uses the inner plan: a graph or plan that can be drawn does not run.
        if let Some(plan) = inner.take() {
            sketch.tasks[place(*index)].inside = Some(plan.sketch());
            inner.put(plan);
        }
    }
    sketch
}

/// Returns the semaphores, and the tasks that need them.
fn limits(parts: &Parts) -> Vec<(String, Vec<usize>)> {
    let mut found: Vec<(&Semaphore, Vec<usize>)> = Vec::new();
    for (task, semaphore, _) in &parts.semaphores {
        let (number, task) = (semaphore.number(), *task as usize - 1);
        match found.iter_mut().find(|(other, _)| other.number() == number) {
            Some((_, tasks)) if tasks.contains(&task) => {}
            Some((_, tasks)) => tasks.push(task),
            None => found.push((semaphore, vec![task])),
        }
    }
    let named =
        |(semaphore, tasks): (&Semaphore, _)| (format!("at most {}", semaphore.capacity()), tasks);
    found.into_iter().map(named).collect()
}

fn form(kind: Kind) -> Form {
    match kind {
        Kind::Empty => Form::Empty,
        Kind::Plain | Kind::Runtime => Form::Plain,
        Kind::Condition | Kind::MultiCondition => Form::Condition,
        Kind::Subflow | Kind::Module => Form::Graph,
        Kind::Future => Form::Event,
    }
}

impl Graph<'_> {
    /// Returns the graph as text for Graphviz: conditions are diamonds with dashed edges,
    /// placeholders are dotted, modules and subflows that were retained are clusters, and a
    /// semaphore is connected to the tasks that need it.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let graph = Graph::new();
    /// let work = graph.task("work", || ());
    /// let again = graph.condition("again?", || 1);
    /// work.precede(again);
    /// again.precede(work);
    /// let dot = graph.to_dot();
    /// assert!(dot.contains("t0 -> t1;"));
    /// assert!(dot.contains("t1 -> t0 [style=dashed];"));
    /// ```
    #[must_use]
    pub fn to_dot(&self) -> String {
        let parts = self.parts();
        draw(&sketch(&parts, parts.edges.iter().copied()))
    }
}

impl Plan<'_> {
    /// Returns the graph as text for Graphviz, as [`Graph::to_dot`].
    #[must_use]
    pub fn to_dot(&self) -> String {
        draw(&self.sketch())
    }

    fn sketch(&self) -> Sketch {
        sketch(&self.parts, self.edges())
    }

    /// Returns all edges, by the tasks' numbers.
    pub(super) fn edges(&self) -> impl Iterator<Item = (u32, u32)> {
        self.nodes().iter().flat_map(|node| {
            let next = node.leads.all(&self.shape.successors);
            next.map(|edge| (node.index(), edge.to()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, form: Form, inside: Option<Sketch>) -> Sketched {
        Sketched {
            name: name.to_owned(),
            form,
            inside,
        }
    }

    #[test]
    fn graphs_inside_of_tasks_are_clusters() {
        let innermost = Sketch {
            tasks: vec![task("grain", Form::Plain, None)],
            ..Sketch::default()
        };
        let inner = Sketch {
            tasks: vec![
                task("first", Form::Plain, Some(innermost)),
                task("second", Form::Event, None),
            ],
            edges: vec![(0, 1)],
            limits: vec![("one at a time".to_owned(), vec![0, 1])],
        };
        let outer = Sketch {
            tasks: vec![
                task("before", Form::Plain, None),
                task("sub", Form::Graph, Some(inner)),
            ],
            edges: vec![(0, 1)],
            limits: vec![],
        };
        let dot = draw(&outer);
        for line in [
            "  subgraph cluster_t1 {",
            "    t1 [label=\"sub\", shape=component];",
            "    subgraph cluster_t1_0 {",
            "      t1_0_0 [label=\"grain\"];",
            "    t1_0 -> t1_1;",
            "    t1_limit0 [label=\"one at a time\", shape=octagon, style=filled, fillcolor=lightgrey];",
            "    t1_1 -> t1_limit0 [style=dotted, dir=none, constraint=false];",
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
