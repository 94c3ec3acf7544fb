//! Large graphs: tasks in clusters, and large clusters as one node.

use super::{Drawing, escape};
use filch::graph::Description;
use std::collections::{BTreeMap, HashMap};

/// The outermost graph in clusters.
pub(super) struct Clusters<'a> {
    graph: &'a Description,
    /// The names of the clusters and the positions of their tasks, in the order in which they
    /// occur.
    clusters: Vec<(&'a str, Vec<usize>)>,
    /// The cluster of each task; `None` for tasks inside others.
    cluster_of: Vec<Option<usize>>,
    max_listed: usize,
}

impl<'a> Clusters<'a> {
    pub(super) fn new(
        graph: &'a Description,
        name_of: fn(&str) -> &str,
        max_listed: usize,
    ) -> Self {
        let mut clusters: Vec<(&str, Vec<usize>)> = Vec::new();
        let mut numbers = HashMap::new();
        let cluster_of = graph.tasks.iter().enumerate().map(|(at, task)| {
            if task.inside.is_some() {
                return None;
            }
            let name = name_of(&task.name);
            let cluster = *numbers.entry(name).or_insert_with(|| {
                clusters.push((name, Vec::new()));
                clusters.len() - 1
            });
            clusters[cluster].1.push(at);
            Some(cluster)
        });
        let cluster_of = cluster_of.collect();
        Self {
            graph,
            clusters,
            cluster_of,
            max_listed,
        }
    }

    pub(super) fn draw(&self, drawing: &mut Drawing<'_>) {
        for (number, (name, tasks)) in self.clusters.iter().enumerate() {
            let name = escape(name);
            if self.is_single_node(number) {
                let count = tasks.len();
                drawing.line(
                    1,
                    format_args!(
                        "c{number} [label=\"{name}\\n{count} tasks\", shape=box3d, style=filled, fillcolor=lightgrey];"
                    ),
                );
                continue;
            }
            if let [only] = tasks[..] {
                drawing.task(only, 1);
                continue;
            }
            drawing.line(1, format_args!("subgraph cluster_{number} {{"));
            drawing.line(2, format_args!("label=\"{name}\";"));
            drawing.line(2, format_args!("style=rounded;"));
            tasks.iter().for_each(|&task| drawing.task(task, 2));
            drawing.line(1, format_args!("}}"));
        }
        self.edges(drawing);
    }

    /// Writes the edges; those with the same ends as one.
    fn edges(&self, drawing: &mut Drawing<'_>) {
        let mut merged: BTreeMap<(String, String), usize> = BTreeMap::new();
        for &(from, to) in &self.graph.edges {
            let (Some(first), Some(second)) = (self.cluster_of[from], self.cluster_of[to]) else {
                continue;
            };
            if !self.is_single_node(first) && !self.is_single_node(second) {
                drawing.edge(from, to, 1);
            } else if first != second {
                let ends = (self.node(from, first), self.node(to, second));
                *merged.entry(ends).or_default() += 1;
            }
        }
        for ((from, to), count) in merged {
            drawing.line(1, format_args!("{from} -> {to} [label=\"{count}\"];"));
        }
    }

    /// Whether the cluster is drawn as one node.
    fn is_single_node(&self, cluster: usize) -> bool {
        self.clusters[cluster].1.len() > self.max_listed.max(1)
    }

    /// Returns the node that stands for a task of this cluster.
    fn node(&self, task: usize, cluster: usize) -> String {
        match self.is_single_node(cluster) {
            true => format!("c{cluster}"),
            false => format!("t{task}"),
        }
    }
}
