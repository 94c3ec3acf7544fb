//! Checks where `unsafe` may stand, and the words and names of safety comments.

use super::{
    lexer::{Comment, Kind, lex},
    source::Source,
};
use std::collections::HashSet;

/// `unsafe` stands only in the files of `list`, each of which says that it expects it.
pub(super) fn fenced_unsafe(sources: &[Source<'_>], list: &[&str]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        let first = source.tokens.iter().find(|t| t.text == "unsafe");
        let listed = list.contains(&source.path);
        let expected = source
            .tokens
            .windows(3)
            .any(|w| ["expect", "(", "unsafe_code"] == [w[0].text, w[1].text, w[2].text]);
        let problem = match first {
            Some(_) if !listed => "`unsafe` outside the files that may use it",
            Some(_) if !expected => "`unsafe` without `expect(unsafe_code, reason = ..)`",
            None if listed => "no `unsafe` any more; take the file off the list UNSAFE_FILES",
            _ => continue,
        };
        let line = first.map_or(1, |token| token.line);
        broken.push(source.at(line, problem));
    }
    let gone = |path: &&&str| sources.iter().all(|source| source.path != **path);
    for path in list.iter().filter(gone) {
        broken.push(format!("{path}:1: on the list UNSAFE_FILES, but gone"));
    }
    broken
}

/// The words that a safety argument has at least: with fewer it names no premise.
const FEWEST_WORDS: usize = 7;

/// A safety argument names its premise, and does not refer to another argument instead.
pub(super) fn safety_premises(sources: &[Source<'_>]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        for block in source.comment_blocks() {
            let start = block.iter().position(|c| c.body().starts_with("SAFETY:"));
            let Some(start) = start else { continue };
            let argument: Vec<&str> = block[start..]
                .iter()
                .flat_map(|comment| comment.body().split_whitespace())
                .skip(1)
                .collect();
            let problem = match argument[..] {
                ["as", "above" | "above:" | "above," | "above.", ..] => {
                    "name the premise, not where it was named before"
                }
                _ if argument.len() < FEWEST_WORDS => "name the premise in a sentence",
                _ => continue,
            };
            broken.push(source.at(block[start].line, problem));
        }
    }
    broken
}

/// What a safety argument names in back-quotes is in the code of the file or of its neighbours.
pub(super) fn safety_names(sources: &[Source<'_>]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        let known: HashSet<&str> = sources
            .iter()
            .filter(|other| other.folder() == source.folder())
            .filter(|other| !other.is_test() || other.path == source.path)
            .flat_map(|other| other.code.iter().map(|token| token.text))
            .collect();
        let tests: HashSet<&str> = source.tokens.iter().map(|token| token.text).collect();
        for block in source.comment_blocks() {
            let start = block.iter().position(|c| c.body().starts_with("SAFETY:"));
            let Some(start) = start else { continue };
            for (line, name) in quoted_names(&block[start..]) {
                let Some(name) = name else {
                    broken.push(source.at(line, "a back-quote is not closed"));
                    continue;
                };
                let in_tests = source.tests.iter().any(|lines| lines.contains(&line));
                if known.contains(name) || in_tests && tests.contains(name) {
                    continue;
                }
                let problem = format!("no code here has the `{name}` of this safety argument");
                broken.push(source.at(line, problem));
            }
        }
    }
    broken
}

/// The identifiers between back-quotes with their lines; `None` for a quote that does not end.
fn quoted_names<'a>(block: &[Comment<'a>]) -> Vec<(usize, Option<&'a str>)> {
    /// Words of the language, and traits that are argued about without being mentioned elsewhere.
    const PLAIN: &str = "as async await break const continue crate dyn else enum extern false fn for \
                         if impl in let loop match mod move mut pub raw ref return self Self static \
                         struct super trait true type unsafe use where while \
                         Copy Send Sized Sync Unpin";
    let mut names = Vec::new();
    let mut open = false;
    for comment in block {
        for (part, text) in comment.body().split('`').enumerate() {
            open ^= part > 0;
            if !open {
                continue;
            }
            for token in lex(text).0 {
                let parameter = token.text.len() == 1 && token.text < "a";
                let plain = PLAIN.split_whitespace().any(|word| word == token.text);
                if token.kind == Kind::Name && !plain && !parameter {
                    names.push((comment.line, Some(token.text)));
                }
            }
        }
    }
    if open {
        names.push((block[0].line, None));
    }
    names
}
