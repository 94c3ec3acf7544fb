//! A source file, split into tokens, comments, paths and test modules.

use super::lexer::{Comment, Kind, Token, lex};
use std::{fmt, ops::Range};

/// One file, taken apart. What is not Rust has lines only.
pub(super) struct Source<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    /// Everything but comments.
    pub(super) tokens: Vec<Token<'a>>,
    /// The tokens outside of test modules.
    pub(super) code: Vec<Token<'a>>,
    pub(super) comments: Vec<Comment<'a>>,
    /// The lines of test modules.
    pub(super) tests: Vec<Range<usize>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(path: &'a str, text: &'a str) -> Self {
        let rust = if path.ends_with(".rs") { text } else { "" };
        let (tokens, comments) = lex(rust);
        let modules = test_modules(&tokens);
        let code = tokens.iter().enumerate();
        let code = code.filter(|(at, _)| !modules.iter().any(|module| module.contains(at)));
        let lines = |module: &Range<usize>| tokens[module.start].line..tokens[module.end - 1].line;
        Self {
            path,
            text,
            code: code.map(|(_, token)| *token).collect(),
            tests: modules.iter().map(lines).collect(),
            tokens,
            comments,
        }
    }

    /// A problem at a line.
    pub(super) fn at(&self, line: usize, problem: impl fmt::Display) -> String {
        format!("{}:{line}: {problem}", self.path)
    }

    pub(super) fn is_test(&self) -> bool {
        ["/tests.rs", "/loom_tests.rs"]
            .iter()
            .any(|end| self.path.ends_with(end))
            || self.path.contains("/tests/")
    }

    pub(super) fn folder(&self) -> &'a str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The module that the file is, from the root down.
    pub(super) fn modules(&self) -> Vec<&'a str> {
        let path = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        let mut modules: Vec<_> = path.split('/').collect();
        if ["mod", "lib"].contains(modules.last().expect("a path has a last part")) {
            modules.pop();
        }
        modules
    }

    /// The paths of more than one name, and the renamings, with the groups of `use` unfolded.
    pub(super) fn paths(&self) -> Vec<NamePath<'a>> {
        let inline = self.bodies(|w| w[0].text == "mod" && w[2].text == "{");
        let mut paths = Vec::new();
        let (mut imported, mut exported) = (false, false);
        for (at, token) in self.code.iter().enumerate() {
            let before = |n: usize| at.checked_sub(n).map_or("", |at| self.code[at].text);
            let after = self.code.get(at + 1).map_or("", |token| token.text);
            let inner =
                before(1) == "::" && !["use", "=", "(", "{", ",", ";", "<"].contains(&before(2));
            if token.text == "use" {
                imported = after != "<";
                exported = imported && ["pub", ")"].contains(&before(1));
            } else if token.text == ";" {
                (imported, exported) = (false, false);
            } else if token.kind == Kind::Name && !inner && ["::", "as"].contains(&after) {
                let from = paths.len();
                unfold(&self.code, at, &[], &mut paths);
                for path in &mut paths[from..] {
                    path.inline = inline.iter().filter(|body| body.contains(&at)).count();
                    path.imported = imported;
                    path.exported = exported;
                }
            }
        }
        paths
    }

    /// From each place where three tokens are a `start` to the end of the braces that follow.
    pub(super) fn bodies(&self, start: impl Fn(&[Token<'a>]) -> bool) -> Vec<Range<usize>> {
        let starts = self.code.windows(3).enumerate().filter(|(_, w)| start(w));
        let body = |(from, _): (usize, _)| {
            let mut at = from;
            loop {
                match self.code.get(at)?.text {
                    "{" => return Some(from..closing(&self.code, at) + 1),
                    ";" => return None,
                    "(" | "[" => at = closing(&self.code, at) + 1,
                    _ => at += 1,
                }
            }
        };
        starts.filter_map(body).collect()
    }

    /// The comments that are not documentation, those on adjacent lines together.
    pub(super) fn comment_blocks(&self) -> Vec<Vec<Comment<'a>>> {
        let mut blocks: Vec<Vec<Comment<'a>>> = Vec::new();
        for &comment in self.comments.iter().filter(|c| !c.is_doc()) {
            match blocks.last_mut().filter(|_| comment.alone) {
                Some(block) if block[block.len() - 1].line + 1 == comment.line => {
                    block.push(comment);
                }
                _ => blocks.push(vec![comment]),
            }
        }
        blocks
    }
}

/// A path such as `crate::engine::Deque`.
pub(super) struct NamePath<'a> {
    pub(super) names: Vec<&'a str>,
    pub(super) alias: Option<&'a str>,
    pub(super) line: usize,
    /// How many modules inside the file it stands in.
    pub(super) inline: usize,
    /// Whether it belongs to a `use`.
    pub(super) imported: bool,
    /// Whether it belongs to a `pub use`.
    pub(super) exported: bool,
}

impl<'a> NamePath<'a> {
    /// The name just below the root of the crate, if the path starts or gets there, in a file that
    /// is `depth` modules deep.
    pub(super) fn below_the_root(&self, depth: usize) -> Option<&'a str> {
        let ups = self
            .names
            .iter()
            .take_while(|name| ["self", "super"].contains(name));
        let supers = ups.clone().filter(|name| **name == "super").count();
        if self.names[0] == "crate" {
            Some(self.names.get(1).unwrap_or(&"crate"))
        } else if supers > 0 && supers >= depth + self.inline {
            Some(self.names.get(ups.count()).unwrap_or(&"crate"))
        } else {
            None
        }
    }

    /// Whether it names something in `places` of one of `crates`, or takes in a module around it.
    pub(super) fn reaches(&self, crates: &[&str], places: &[&[&str]]) -> bool {
        let (first, mut rest) = self.names.split_first().expect("a path has names");
        if let [module @ .., "*" | "self"] = rest {
            rest = module;
        } else if rest.is_empty() {
            return false;
        }
        let touches = |place: &&[&str]| rest.starts_with(place) || place.starts_with(rest);
        crates.contains(first) && places.iter().any(touches)
    }
}

/// Adds the paths that go on from `prefix` at token `at`; returns where they end.
fn unfold<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    prefix: &[&'a str],
    paths: &mut Vec<NamePath<'a>>,
) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut names = prefix.to_vec();
    loop {
        if text(at) == "{" {
            let end = closing(tokens, at);
            at += 1;
            while at < end {
                at = unfold(tokens, at, &names, paths).max(at) + 1; // past the comma
            }
            return end + 1;
        }
        let named = tokens.get(at).is_some_and(|token| token.kind == Kind::Name);
        if named || text(at) == "*" {
            names.push(text(at));
            at += 1;
        }
        if text(at) == "::" && named {
            at += 1;
            continue;
        }
        let alias = (text(at) == "as").then(|| text(at + 1));
        paths.push(NamePath {
            names,
            alias,
            line: tokens[at - 1].line,
            inline: 0,
            imported: false,
            exported: false,
        });
        return at + if alias.is_some() { 2 } else { 0 };
    }
}

/// Where the bracket at `open` is closed.
fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len() - 1
}

/// The modules inside a file that exist only in tests, with their attribute.
fn test_modules(tokens: &[Token<'_>]) -> Vec<Range<usize>> {
    let mut modules = Vec::new();
    for (at, w) in tokens.windows(4).enumerate() {
        if ["#", "[", "cfg", "("] != [w[0].text, w[1].text, w[2].text, w[3].text] {
            continue;
        }
        let end = closing(tokens, at + 1);
        let condition: Vec<_> = tokens[at + 4..end - 1].iter().map(|t| t.text).collect();
        let only_in_tests = match condition[..] {
            ["test"] => true,
            ["all", "(", ref all @ .., ")"] => alternatives_aside(all).any(|word| word == "test"),
            _ => false,
        };
        let mut item = end + 1;
        while tokens.get(item).is_some_and(|token| token.text == "#") {
            item = closing(tokens, item + 1) + 1;
        }
        if let Some([keyword, _, open]) = tokens.get(item..item + 3)
            && (only_in_tests && keyword.text == "mod" && open.text == "{")
        {
            modules.push(at..closing(tokens, item + 2) + 1);
        }
    }
    modules
}

/// The words that stand in no bracket.
fn alternatives_aside<'a>(words: &[&'a str]) -> impl Iterator<Item = &'a str> {
    let mut depth = 0;
    words.iter().copied().filter(move |word| {
        depth += i32::from(*word == "(") - i32::from(*word == ")");
        depth == 0
    })
}
