//! Checks the names of types.

use super::{lexer::Kind, source::Source};
use std::collections::BTreeMap;

/// A name stands for one type, so that a search for it finds that type. Associated types have the
/// name that their trait gives them, and tests their own names.
pub(super) fn unique_types(sources: &[Source<'_>], shared: &[&str]) -> Vec<String> {
    let mut definitions: BTreeMap<&str, Vec<(&Source<'_>, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        for (name, line) in types(source) {
            definitions.entry(name).or_default().push((source, line));
        }
    }
    let mut broken = Vec::new();
    for (name, places) in definitions {
        let [(first, line), others @ ..] = &places[..] else {
            continue;
        };
        if shared.contains(&name) {
            continue;
        }
        for (source, other) in others {
            let problem = format!("`{name}` is also defined in {}:{line}", first.path);
            broken.push(source.at(*other, problem));
        }
    }
    broken
}

/// The types that a file defines, with their lines.
fn types<'a>(source: &Source<'a>) -> Vec<(&'a str, usize)> {
    let bodies = source.bodies(|w| ["impl", "trait"].contains(&w[0].text));
    let mut found = Vec::new();
    for (at, pair) in source.code.windows(2).enumerate() {
        let [keyword, name] = pair else { continue };
        let is_definition = match keyword.text {
            "struct" | "enum" | "union" | "trait" => true,
            "type" => !bodies.iter().any(|body| body.contains(&at)),
            _ => false,
        };
        if is_definition && name.kind == Kind::Name {
            found.push((name.text, name.line));
        }
    }
    found
}
