//! Checks that modules use only the layers below them, and what the engine may use.

use super::source::Source;
use std::collections::HashMap;

/// The layers from the bottom up. A module names modules of lower layers and itself, nothing else;
/// so modules of one layer don't know each other.
const LAYERS: &[&[&str]] = &[
    &["base"],
    &["topology"],
    &["engine"],
    &["observe"],
    &["threads"],
    &["semaphore", "cancel", "clock"],
    &["pool"],
    &["task"],
    &[
        "executor", "fork", "submit", "graph", "future", "fold", "time", "rehearse", "sync", "host",
    ],
    // On `fork`, which is its base, and `future`, for its checkpoint.
    &["par"],
    &["prelude"],
];

/// What the engine does without: time, waiting and the outside world come in as parameters.
/// `Duration` is a number and stays allowed.
const NOT_IN_THE_ENGINE: &[&[&str]] = &[
    &["time", "Instant"],
    &["time", "SystemTime"],
    &["thread"],
    &["env"],
    &["fs"],
    &["io"],
    &["net"],
];

/// Modules name only what is in a layer below them.
pub(super) fn layers(sources: &[Source<'_>]) -> Vec<String> {
    let rank = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    let exports = root_exports(sources);
    let mut broken = Vec::new();
    let modules = sources.iter().filter(|s| s.path.ends_with(".rs"));
    for source in modules.filter(|s| !s.is_test()) {
        let modules = source.modules();
        let Some(&home) = modules.first() else {
            continue; // the root, which names everything
        };
        let Some(own) = rank(home) else {
            broken.push(source.at(1, unknown(home)));
            continue;
        };
        for path in source.paths() {
            let Some(name) = path.below_the_root(modules.len()) else {
                continue;
            };
            let module = match exports.get(name) {
                Some(module) if rank(name).is_none() => module,
                _ => name,
            };
            let problem = match rank(module) {
                _ if module == home => continue,
                Some(other) if other < own => continue,
                Some(other) if other == own => {
                    format!("`{home}` and `{module}` are in one layer and must not know each other")
                }
                Some(_) => format!("`{home}` is below `{module}` and must not know it"),
                None if ["*", "self", "crate"].contains(&module) => {
                    format!("`{home}` takes in the whole root; name the module")
                }
                None => unknown(module),
            };
            broken.push(source.at(path.line, problem));
        }
    }
    broken
}

fn unknown(module: &str) -> String {
    format!("`{module}` is in no layer; add it to the table LAYERS in tests/architecture/layers.rs")
}

/// What the root re-exports, and the module that it comes from.
fn root_exports<'a>(sources: &[Source<'a>]) -> HashMap<&'a str, &'a str> {
    let roots = sources.iter().filter(|s| s.path == "src/lib.rs");
    let mut exports = HashMap::new();
    for path in roots.flat_map(Source::paths).filter(|p| p.imported) {
        let mut names = path.names;
        names.retain(|name| !["crate", "self"].contains(name));
        if let [module, .., last] = names[..] {
            exports.insert(path.alias.unwrap_or(last), module);
        }
    }
    exports.remove("*");
    exports
}

/// The engine neither asks for the time nor waits nor talks.
pub(super) fn pure_engine(sources: &[Source<'_>]) -> Vec<String> {
    const TALK: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];
    let mut broken = Vec::new();
    for source in sources.iter().filter(|s| !s.is_test()) {
        if source.modules().first() != Some(&"engine") {
            continue;
        }
        for path in source.paths() {
            if path.reaches(&["std", "core"], NOT_IN_THE_ENGINE) {
                let names = path.names.join("::");
                broken.push(source.at(path.line, format!("the engine uses `{names}`")));
            }
        }
        for pair in source.code.windows(2) {
            if TALK.contains(&pair[0].text) && pair[1].text == "!" {
                let name = pair[0].text;
                broken.push(source.at(pair[0].line, format!("the engine uses `{name}!`")));
            }
        }
    }
    broken
}
