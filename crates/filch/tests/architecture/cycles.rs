//! Finds files that use one another in a circle.
//!
//! A file uses another one if a path in its code leads there. Names that a module re-exports lead
//! to the file that defines them, and a re-export itself is no use: `mod.rs` may list what its
//! children define, and children may use what `mod.rs` defines.

use super::source::{NamePath, Source};
use std::collections::{BTreeMap, HashMap};

/// How often a name may be re-exported on the way to its definition.
const MOST_EXPORTS: usize = 8;

/// The modules of the crate, by their paths from the root.
struct Modules<'a> {
    files: BTreeMap<Vec<&'a str>, &'a Source<'a>>,
    /// Where a re-exported name leads: by the module and the name.
    exports: HashMap<(Vec<&'a str>, &'a str), Vec<&'a str>>,
}

impl<'a> Modules<'a> {
    fn new(sources: &'a [Source<'a>]) -> Self {
        let files = sources
            .iter()
            .filter(|s| s.path.ends_with(".rs") && !s.is_test())
            .map(|source| (source.modules(), source))
            .collect();
        let mut modules = Self {
            files,
            exports: HashMap::new(),
        };
        let mut exports = HashMap::new();
        for (home, source) in &modules.files {
            for path in source.paths().iter().filter(|path| path.exported) {
                if let Some(mut names) = modules.path_from_root(home, path) {
                    names.pop_if(|last| *last == "self");
                    let name = path.alias.or(names.last().copied());
                    exports.insert((home.clone(), name.expect("a path has names")), names);
                }
            }
        }
        modules.exports = exports;
        modules
    }

    /// The names from the root down that `path` stands for in the module `home`; `None` if it leads
    /// to another crate, or to an item of the file itself.
    fn path_from_root(&self, home: &[&'a str], path: &NamePath<'a>) -> Option<Vec<&'a str>> {
        let mut names = &path.names[..];
        let mut from: Vec<&str> = match names[0] {
            "crate" => Vec::new(),
            "self" | "super" => home.to_vec(),
            child => {
                let module = [home, &[child]].concat();
                return self
                    .files
                    .contains_key(&module)
                    .then(|| [home, names].concat());
            }
        };
        while let [first @ ("crate" | "self" | "super"), rest @ ..] = names {
            if *first == "super" {
                from.pop();
            }
            names = rest;
        }
        Some([from, names.to_vec()].concat())
    }

    /// The module whose file defines what `names` lead to.
    fn defining(&self, names: &[&'a str], exports: usize) -> Option<Vec<&'a str>> {
        let depths = (0..=names.len()).rev();
        let depth = { depths }.find(|&depth| self.files.contains_key(&names[..depth]))?;
        let (module, rest) = names.split_at(depth);
        let exported = rest
            .first()
            .and_then(|name| self.exports.get(&(module.to_vec(), *name)));
        match exported {
            Some(target) if exports < MOST_EXPORTS => {
                self.defining(&[target, &rest[1..]].concat(), exports + 1)
            }
            _ => Some(module.to_vec()),
        }
    }

    /// The modules that each one uses, as positions in `files`.
    fn uses(&self) -> Vec<Vec<usize>> {
        let position: HashMap<_, _> = self.files.keys().zip(0..).collect();
        let used = |(home, source): (&Vec<&'a str>, &&'a Source<'a>)| {
            let paths = source.paths();
            let paths = paths
                .iter()
                .filter(|path| !path.exported && path.inline == 0);
            let modules = paths
                .filter_map(|path| self.path_from_root(home, path))
                .filter_map(|names| self.defining(&names, 0))
                .filter(|module| module != home);
            let mut used: Vec<usize> = modules.map(|module| position[&module]).collect();
            used.sort_unstable();
            used.dedup();
            used
        };
        self.files.iter().map(used).collect()
    }
}

/// The strongly connected components of more than one node (Tarjan's algorithm).
fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    struct Search<'a> {
        edges: &'a [Vec<usize>],
        number: Vec<Option<usize>>,
        lowest: Vec<usize>,
        open: Vec<usize>,
        visited: usize,
        found: Vec<Vec<usize>>,
    }
    impl Search<'_> {
        fn visit(&mut self, node: usize) {
            (self.number[node], self.lowest[node]) = (Some(self.visited), self.visited);
            self.visited += 1;
            self.open.push(node);
            for &next in &self.edges[node] {
                match self.number[next] {
                    None => {
                        self.visit(next);
                        self.lowest[node] = self.lowest[node].min(self.lowest[next]);
                    }
                    Some(number) if self.open.contains(&next) => {
                        self.lowest[node] = self.lowest[node].min(number);
                    }
                    Some(_) => {}
                }
            }
            if self.number[node] == Some(self.lowest[node]) {
                let from = self.open.iter().position(|&other| other == node);
                let mut component = self.open.split_off(from.expect("the node is open"));
                if component.len() > 1 {
                    component.sort_unstable();
                    self.found.push(component);
                }
            }
        }
    }
    let mut search = Search {
        edges,
        number: vec![None; edges.len()],
        lowest: vec![0; edges.len()],
        open: Vec::new(),
        visited: 0,
        found: Vec::new(),
    };
    for node in 0..edges.len() {
        if search.number[node].is_none() {
            search.visit(node);
        }
    }
    search.found
}

/// Circles of more files than `allowed` gives to their module, and modules with more circles than
/// that: none where a module is not listed. Also numbers in `allowed` that are larger than needed.
pub(super) fn cycles(sources: &[Source<'_>], allowed: &[(&str, usize, usize)]) -> Vec<String> {
    let modules = Modules::new(sources);
    let all: Vec<_> = modules.files.iter().collect();
    let mut broken = Vec::new();
    // The size of the largest circle of a module, and the number of its circles.
    let mut found: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for component in components(&modules.uses()) {
        let home = all[component[0]].0.first().copied().unwrap_or_default();
        let limit = allowed.iter().find(|(module, ..)| *module == home);
        let (most_files, most_circles) =
            limit.map_or((0, 0), |(_, files, circles)| (*files, *circles));
        let (size, circles) = found.entry(home).or_default();
        *size = component.len().max(*size);
        *circles += 1;
        let names: Vec<_> = component.iter().map(|&at| all[at].0.join("::")).collect();
        let names = names.join(", ");
        let problem = if component.len() > most_files {
            format!(
                "{} files use one another in a circle, at most {most_files} are allowed in \
                 `{home}`: {names}",
                component.len()
            )
        } else if *circles > most_circles {
            format!("more than {most_circles} circles in `{home}`: {names}")
        } else {
            continue;
        };
        broken.push(all[component[0]].1.at(1, problem));
    }
    for (module, most_files, most_circles) in allowed {
        let (size, circles) = found.get(module).copied().unwrap_or_default();
        if size < *most_files || circles < *most_circles {
            broken.push(format!(
                "`{module}` has {circles} circles of up to {size} files; lower its numbers to these"
            ));
        }
    }
    broken
}
