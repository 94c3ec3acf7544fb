//! Keeps private vocabulary and overlong lines out of the sources and pages.
//!
//! The checks read the comments of the packages with their tests, examples and benchmarks, the
//! string literals of sources and examples, the pages in `docs/` and `bench/`, and the texts at the
//! root.

#[path = "architecture/lexer.rs"]
#[allow(dead_code, reason = "the architecture tests use all of it")]
mod lexer;

use lexer::{Kind, lex};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders whose comments and pages are checked, besides the sources, tests and examples of every
/// crate.
const FOLDERS: &[&str] = &[
    "docs",
    "bench/examples",
    "bench/src",
    "bench/tests",
    "bench/results",
    "compat/bench/src",
    "compat/check/src",
    "compat/rayon-core/src",
];

/// Single pages that are checked.
const PAGES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "bench/README.md",
    "compat/README.md",
];

/// Words and phrases that hide which thread, task or worker is meant, and verbs that hide what it
/// does (notify and request, check, search, poll and visit say it). `ARCHITECTURE.md` has a
/// glossary.
const AVOIDED: &[&str] = &[
    "somebody",
    "nobody",
    "whoever",
    "everybody",
    "anybody",
    "those who",
    "so many",
    "come by",
    "comes by",
    "come to",
    "comes to",
    "came to",
    "go home",
    "goes home",
    "tell",
    "tells",
    "told",
    "telling",
    "look",
    "looks",
    "looked",
    "looking",
    "seed 000",
    "seed 001",
    "seed 002",
    "seed 003",
    "seed 004",
];

/// The longest line of a comment or a page, in characters. Tables and definitions of links may be
/// longer.
const LONGEST: usize = 100;

/// Parts that are not rewritten yet: the start of a path, and how many uses of avoided words, and
/// how many long lines, may be left there at most. Numbers only go down.
const ALLOWED: &[(&str, usize, usize)] = &[];

/// A text that people read.
struct Text {
    path: String,
    lines: Vec<Line>,
}

/// A line of a page, of a comment or of a string literal.
struct Line {
    number: usize,
    /// What people read of it: without the code beside it, and the marks of a comment.
    said: String,
    /// The characters of the whole line. Zero if its length does not matter.
    length: usize,
}

impl Text {
    fn new(path: &str, text: &str) -> Self {
        let mut lines = if path.ends_with(".rs") {
            code_lines(text, has_printed_texts(path))
        } else {
            let line = |(n, line): (usize, &str)| Line {
                number: n + 1,
                said: line.to_owned(),
                length: line.chars().count(),
            };
            text.lines().enumerate().map(line).collect()
        };
        lines.sort_by_key(|line| line.number);
        Self {
            path: path.to_owned(),
            lines,
        }
    }
}

/// Whether users read the string literals of the file.
fn has_printed_texts(path: &str) -> bool {
    path.contains("/src/") || path.contains("/examples/")
}

/// The comments of a source, and its string literals if they are `printed`.
fn code_lines(text: &str, printed: bool) -> Vec<Line> {
    let (tokens, comments) = lex(text);
    let whole: Vec<&str> = text.lines().collect();
    let mut lines = Vec::new();
    for comment in comments {
        for (number, said) in (comment.line..).zip(comment.text.lines()) {
            lines.push(Line {
                number,
                said: said.trim_start_matches(['/', '!']).to_owned(),
                length: whole[number - 1].chars().count(),
            });
        }
    }
    let literals = tokens.iter().filter(|token| token.kind == Kind::Literal);
    for literal in literals.filter(|_| printed) {
        // A line that ends with a backslash is one with the next; a literal may begin with one.
        let mut goes_on = true;
        for (number, said) in (literal.line..).zip(literal.text.lines()) {
            let starts = !goes_on;
            goes_on = said.ends_with('\\') && said != "\"\\";
            let length = said.chars().count();
            lines.push(Line {
                number,
                said: said.to_owned(),
                length: if starts && !goes_on { length } else { 0 },
            });
        }
    }
    lines
}

fn texts() -> Vec<Text> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the workspace is there");
    let mut files = vec![];
    for entry in fs::read_dir(root.join("crates")).expect("the crates are there") {
        let package = entry.expect("an entry can be read").path();
        for folder in ["src", "tests", "examples"].map(|name| package.join(name)) {
            if folder.is_dir() {
                collect(&folder, &mut files);
            }
        }
    }
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files);
    }
    files.extend(PAGES.iter().map(|name| root.join(name)));
    let read = |path: &PathBuf| {
        let all = fs::read_to_string(path).expect("a source can be read");
        let name = path.strip_prefix(&root).expect("below the root");
        Text::new(&name.to_string_lossy().replace('\\', "/"), &all)
    };
    files.iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "md") {
            files.push(path);
        }
    }
    files.sort();
}

/// Whether `text` contains `phrase` as whole words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let text = text.to_lowercase();
    text.match_indices(phrase).any(|(at, _)| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !letter(text[..at].chars().next_back()) && !letter(text[at + phrase.len()..].chars().next())
    })
}

/// Uses of avoided words, as `path:line: word`.
fn avoided(text: &Text) -> Vec<String> {
    let found = |line: &Line| {
        let used = AVOIDED
            .iter()
            .filter(|phrase| has_phrase(&line.said, phrase));
        used.map(|phrase| format!("{}:{}: {phrase}", text.path, line.number))
            .collect::<Vec<_>>()
    };
    text.lines.iter().flat_map(found).collect()
}

/// Whether the line is `[name]: address`, which cannot be wrapped.
fn is_link_definition(line: &str) -> bool {
    let definition = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "));
    definition.is_some_and(|(name, address)| !name.contains(']') && !address.contains(' '))
}

/// Lines that are too long, outside of examples.
fn long(text: &Text) -> Vec<String> {
    let mut example = false;
    let too_long = |line: &&Line| {
        let said = line.said.trim_start();
        example ^= said.starts_with("```");
        let exempt = example || said.starts_with('|') || is_link_definition(said);
        line.length > LONGEST && !exempt
    };
    let lines = text.lines.iter().filter(too_long);
    lines
        .map(|line| format!("{}:{}: too long", text.path, line.number))
        .collect()
}

/// Checks every text, with an allowance for the parts of [`ALLOWED`].
fn check(find: impl Fn(&Text) -> Vec<String>, allowance: impl Fn(&(&str, usize, usize)) -> usize) {
    let texts = texts();
    let mut left: Vec<_> = ALLOWED
        .iter()
        .map(|part| (part.0, allowance(part)))
        .collect();
    let mut bad = vec![];
    for text in &texts {
        let mut found = find(text);
        if let Some((_, left)) = left
            .iter_mut()
            .find(|(part, _)| text.path.starts_with(part))
        {
            let forgiven = found.len().min(*left);
            *left -= forgiven;
            found.drain(..forgiven);
        }
        bad.append(&mut found);
    }
    assert!(bad.is_empty(), "{} places:\n{}", bad.len(), bad.join("\n"));
    let unused: Vec<_> = left.iter().filter(|(_, left)| *left > 0).collect();
    assert!(
        unused.is_empty(),
        "lower these allowances by the number: {unused:?}"
    );
}

#[test]
fn comments_and_pages_use_the_words_of_the_field() {
    check(avoided, |part| part.1);
}

#[test]
fn comments_and_pages_have_short_lines() {
    check(long, |part| part.2);
}

#[test]
fn canary_the_checks_find_what_they_look_for() {
    let text = |line: &str| Text::new("crates/a/src/a.rs", line);
    let nobody = ["crates/a/src/a.rs:1: nobody"];
    let too_long = ["crates/a/src/a.rs:1: too long"];
    assert_eq!(avoided(&text("// Nobody wakes it.")), nobody);
    assert_eq!(avoided(&text("f(); // Nobody wakes it.")), nobody);
    assert_eq!(avoided(&text("f(\"nobody wakes it\");")), nobody);
    assert_eq!(avoided(&text("// Whoever comes by, wakes.")).len(), 2);
    assert!(avoided(&text("// Busybodies and seeds.")).is_empty());
    assert!(avoided(&text("let nobody = 1;")).is_empty());
    assert!(avoided(&text("// `looks_sorted` may be wrong.")).is_empty());
    assert_eq!(avoided(&text("// It tells a worker to look.")).len(), 2);
    assert_eq!(long(&text(&"/// long".repeat(20))), too_long);
    assert!(long(&text(&format!("/// | {} |", "cell".repeat(40)))).is_empty());
    let address = "page/".repeat(30);
    assert!(long(&text(&format!("/// [name]: {address}"))).is_empty());
    assert_eq!(
        long(&text(&format!("/// [name]({address}) says why."))).len(),
        1
    );
    let printed = |line: &str| text(&format!("f(\"\\\n{line}\");"));
    assert_eq!(long(&printed(&"help".repeat(30))).len(), 1);
    assert!(long(&printed(&format!("{}\\\n", "help".repeat(30)))).is_empty());
    let page = Text::new("README.md", "# Title\n\nNobody wakes it.\n");
    assert_eq!(avoided(&page), ["README.md:3: nobody"]);
}
