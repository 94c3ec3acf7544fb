//! Keeps private vocabulary and overlong lines out of the sources and pages.
//!
//! The checks read the comments of the packages, their tests and the benchmarks, the pages in
//! `docs/` and `bench/`, and the texts at the root.

use std::{fs, path::Path};

/// Folders whose comments and pages are checked, besides the sources and tests of every crate.
const FOLDERS: &[&str] = &[
    "docs",
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
    "CONTRIBUTING.md",
    "bench/README.md",
    "compat/README.md",
];

/// Words and phrases that hide which thread, task or worker is meant. `ARCHITECTURE.md` has a
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
    "go home",
    "goes home",
    "seed 000",
    "seed 001",
    "seed 002",
    "seed 003",
    "seed 004",
];

/// The longest line of a comment or a page, in characters. Tables and links may be longer.
const LONGEST: usize = 100;

/// Parts that are not rewritten yet: the start of a path, and how many uses of avoided words, and
/// how many long lines, may be left there at most. Numbers only go down.
const ALLOWED: &[(&str, usize, usize)] = &[];

/// A text that people read: its path, and its lines with their numbers.
struct Text {
    path: String,
    lines: Vec<(usize, String)>,
}

/// What a comment line says, without the marks of a comment.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.starts_with("//")
        .then(|| line.trim_start_matches(['/', '!']))
}

fn texts() -> Vec<Text> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the workspace is there");
    let mut files = vec![];
    for entry in fs::read_dir(root.join("crates")).expect("the crates are there") {
        let package = entry.expect("an entry can be read").path();
        for folder in ["src", "tests"].map(|name| package.join(name)) {
            if folder.is_dir() {
                collect(&folder, &mut files);
            }
        }
    }
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files);
    }
    files.extend(PAGES.iter().map(|name| root.join(name)));
    let read = |path: &std::path::PathBuf| {
        let all = fs::read_to_string(path).expect("a source can be read");
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        let lines = all.lines().enumerate();
        let lines = lines.filter(|(_, line)| !is_code || comment(line).is_some());
        let name = path.strip_prefix(&root).expect("below the root");
        Text {
            path: name.to_string_lossy().replace('\\', "/"),
            lines: lines.map(|(n, line)| (n + 1, line.to_owned())).collect(),
        }
    };
    files.iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
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
        let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !letter(text[..at].chars().next_back()) && !letter(text[at + phrase.len()..].chars().next())
    })
}

/// Uses of avoided words, as `path:line: word`.
fn avoided(text: &Text) -> Vec<String> {
    let found = |(number, line): &(usize, String)| {
        let used = AVOIDED.iter().filter(|phrase| has_phrase(line, phrase));
        used.map(|phrase| format!("{}:{number}: {phrase}", text.path))
            .collect::<Vec<_>>()
    };
    text.lines.iter().flat_map(found).collect()
}

/// Lines that are too long, outside of examples.
fn long(text: &Text) -> Vec<String> {
    let mut example = false;
    let too_long = |(_, line): &&(usize, String)| {
        let said = comment(line).unwrap_or(line).trim_start();
        example ^= said.starts_with("```");
        let exempt = example || said.starts_with('|') || said.starts_with('[');
        line.chars().count() > LONGEST && !exempt
    };
    let lines = text.lines.iter().filter(too_long);
    lines
        .map(|(number, _)| format!("{}:{number}: too long", text.path))
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
    let text = |line: &str| Text {
        path: "a.rs".to_owned(),
        lines: vec![(1, line.to_owned())],
    };
    assert_eq!(avoided(&text("// Nobody wakes it.")), ["a.rs:1: nobody"]);
    assert_eq!(avoided(&text("// Whoever comes by, wakes.")).len(), 2);
    assert!(avoided(&text("// Busybodies and seeds.")).is_empty());
    assert_eq!(long(&text(&"/// long".repeat(20))), ["a.rs:1: too long"]);
    assert!(long(&text(&format!("/// | {} |", "cell".repeat(40)))).is_empty());
    assert!(comment("let nobody = 1;").is_none());
}
