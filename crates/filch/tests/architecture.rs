//! The rules of the source tree, checked by reading it.
//!
//! Each check is a function from sources to the places that break its rule, and each is shown a
//! small bad example as well: a check that reports nothing there is broken itself.

#[path = "architecture/cycles.rs"]
mod cycles;
#[path = "architecture/lists.rs"]
mod lists;

use cycles::cycles;
use lists::{CYCLES, UNSAFE_FILES};
use std::{
    collections::{HashMap, HashSet},
    fmt, fs,
    ops::Range,
    path::Path,
};

/// The layers from the bottom up. A module names modules of lower layers and itself, nothing else;
/// so modules of one layer don't know each other.
const LAYERS: &[&[&str]] = &[
    &["base"],
    &["engine"],
    &["observe"],
    &["threads"],
    &["semaphore", "cancel", "clock"],
    &["pool"],
    &["task"],
    &[
        "executor", "fork", "submit", "graph", "future", "fold", "time", "rehearse", "sync",
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

/// The files that may name atomics of `std` or of the model checker: the door, and the switch of the
/// deliberate defects, which must work the same way under the model checker.
const ATOMIC_FILES: &[&str] = &["src/base/sync.rs", "src/base/canary.rs"];

/// Where threads of `std` may wait: the door, who directs rehearsals, the timer's thread, those who only ask.
const WAITING_FILES: &str = "src/base/thread/mod.rs src/base/thread/directed.rs \
    src/rehearse/mod.rs src/rehearse/director.rs src/threads/timer/mod.rs \
    src/threads/config.rs";

/// How far below the end of its comment an ordering may stand, in lines. A compare-and-swap that is
/// formatted over several lines needs seven.
const ORDERING_WINDOW: usize = 8;

/// How a comment refers to a reason that was given before.
const AS_BEFORE: [&str; 3] = ["As above", "as above", "as in"];

/// The most lines of a file: about 500 is the aim, this is the end.
const MOST_LINES: usize = 650;

/// The most lines of a file of tests.
const MOST_TEST_LINES: usize = 1200;

#[test]
fn layers_point_one_way() {
    holds(layers);
}

#[test]
fn the_engine_has_no_clock_thread_environment_or_output() {
    holds(pure_engine);
}

#[test]
fn unsafe_is_fenced() {
    holds(|sources| fenced_unsafe(sources, UNSAFE_FILES));
}

#[test]
fn atomics_come_through_one_door() {
    holds(one_door);
}

#[test]
fn threads_wait_through_one_door() {
    holds(one_way_to_wait);
}

#[test]
fn names_in_safety_comments_exist() {
    holds(safety_names);
}

#[test]
fn orderings_have_reasons() {
    holds(ordering_reasons);
}

#[test]
fn files_do_not_use_one_another_in_circles() {
    holds(|sources| cycles(sources, CYCLES));
}

#[test]
fn files_are_short() {
    holds(short_files);
}

/// Modules name only what is in a layer below them.
fn layers(sources: &[Source<'_>]) -> Vec<String> {
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
    format!("`{module}` is in no layer; add it to the table LAYERS in tests/architecture.rs")
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
fn pure_engine(sources: &[Source<'_>]) -> Vec<String> {
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

/// `unsafe` stands only in the files of `list`, each of which says that it expects it.
fn fenced_unsafe(sources: &[Source<'_>], list: &[&str]) -> Vec<String> {
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

/// Atomics are named in one place, so that the model checker can take it over.
fn one_door(sources: &[Source<'_>]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources.iter().filter(|s| !s.is_test()) {
        if ATOMIC_FILES.contains(&source.path) {
            continue;
        }
        for path in source.paths() {
            if path.reaches(&["std", "core", "loom"], &[&["sync", "atomic"]])
                || path.names[0] == "atomic_maybe_uninit"
            {
                let problem = format!(
                    "`{}` goes around the door; use crate::base::sync, or name the items that \
                     are wanted if no atomic is",
                    path.names.join("::")
                );
                broken.push(source.at(path.line, problem));
            }
        }
    }
    broken
}

/// Whoever waits, wakes or yields does it where a rehearsal can direct it.
fn one_way_to_wait(sources: &[Source<'_>]) -> Vec<String> {
    let waits = ["current", "park", "park_timeout", "sleep", "yield_now"].map(|f| ["thread", f]);
    let waits: Vec<&[&str]> = waits.iter().map(|path| &path[..]).collect();
    let mut broken = Vec::new();
    let may_not = |s: &&Source<'_>| !s.is_test() && !WAITING_FILES.contains(s.path);
    for source in sources.iter().filter(may_not) {
        for path in source
            .paths()
            .iter()
            .filter(|p| p.reaches(&["std"], &waits))
        {
            let names = path.names.join("::");
            let problem = format!("`{names}` goes around the door; use crate::base::thread");
            broken.push(source.at(path.line, problem));
        }
    }
    broken
}

/// What a safety argument names in back-quotes is in the code of the file or of its neighbours.
fn safety_names(sources: &[Source<'_>]) -> Vec<String> {
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

/// Every memory ordering has a comment close above it, in the same function, that speaks of it.
fn ordering_reasons(sources: &[Source<'_>]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources.iter().filter(|s| !s.is_test()) {
        let blocks = source.comment_blocks();
        let functions = source.bodies(|w| w[0].text == "fn" && w[1].kind == Kind::Name);
        let debugs = source.bodies(|w| w[0].text == "Debug" && w[1].text == "for");
        for (at, w) in source.code.windows(3).enumerate() {
            let (ordering, line) = (w[2].text, w[2].line);
            let words = reasons_for(ordering);
            if w[0].text != "Ordering" || w[1].text != "::" || words.is_empty() {
                continue;
            }
            if debugs.iter().any(|body| body.contains(&at)) {
                continue; // a snapshot for people; nothing is concluded from it
            }
            let function = functions.iter().filter(|body| body.contains(&at));
            let top = function.map(|body| source.code[body.start].line).max();
            let reasoned = blocks.iter().any(|block| {
                let (first, last) = (block[0].line, block[block.len() - 1].line);
                let near = last <= line && line - last <= ORDERING_WINDOW;
                let here = top.is_none_or(|top| first >= top);
                let says = |word| block.iter().any(|comment| comment.body().contains(word));
                near && here && (words.iter().copied().any(says) || AS_BEFORE.into_iter().any(says))
            });
            if !reasoned {
                let problem = format!(
                    "`Ordering::{ordering}` without a reason in the {ORDERING_WINDOW} lines above"
                );
                broken.push(source.at(line, problem));
            }
        }
        for path in source.paths() {
            let bare = path.names.windows(2).any(|w| {
                let any = w[1] == "*" && !path.names.contains(&"cmp");
                w[0] == "Ordering" && (any || !reasons_for(w[1]).is_empty())
            });
            if path.imported && bare {
                broken.push(source.at(path.line, "write `Ordering::` at each use"));
            }
        }
    }
    broken
}

/// The words of which a reason for `ordering` has one; none for what is no memory ordering.
///
/// A reason for a weak ordering is none for a strong one. `Relaxed` may be the second ordering of a
/// compare-and-swap, which the reason for the first one covers.
fn reasons_for(ordering: &str) -> &'static [&'static str] {
    match ordering {
        "Relaxed" => &["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"],
        "Acquire" => &["Acquire", "AcqRel"],
        "Release" => &["Release", "AcqRel"],
        "AcqRel" => &["Acquire", "Release", "AcqRel"],
        "SeqCst" => &["SeqCst"],
        _ => &[],
    }
}

/// A file is one idea.
fn short_files(sources: &[Source<'_>]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        let lines = source.text.lines().count();
        let most = if source.is_test() {
            MOST_TEST_LINES
        } else {
            MOST_LINES
        };
        if lines > most {
            broken.push(source.at(lines, format!("more than {most} lines; split it")));
        }
    }
    broken
}

/// Runs `check` over the sources of the library.
fn holds(check: impl Fn(&[Source<'_>]) -> Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    read_folder(root, "src", &mut files);
    assert!(
        files.iter().any(|(path, _)| path == "src/lib.rs"),
        "the sources were not found"
    );
    let files: Vec<_> = files.iter().map(|(p, t)| (&p[..], &t[..])).collect();
    let broken = found(check, &files);
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// What `check` finds in files that are given as path and text.
fn found(check: impl Fn(&[Source<'_>]) -> Vec<String>, files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<_> = files.iter().map(|(p, t)| Source::new(p, t)).collect();
    check(&sources)
}

fn read_folder(root: &Path, folder: &str, files: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(root.join(folder)).expect("the folder can be read");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("the folder can be read").file_name())
        .collect();
    names.sort();
    for name in names {
        let path = format!("{folder}/{}", name.to_str().expect("file names are UTF-8"));
        if root.join(&path).is_dir() {
            read_folder(root, &path, files);
        } else {
            let text = fs::read_to_string(root.join(&path)).expect("sources are UTF-8");
            files.push((path, text));
        }
    }
}

/// One file, taken apart. What is not Rust has lines only.
struct Source<'a> {
    path: &'a str,
    text: &'a str,
    /// Everything but comments.
    tokens: Vec<Token<'a>>,
    /// The tokens outside of test modules.
    code: Vec<Token<'a>>,
    comments: Vec<Comment<'a>>,
    /// The lines of test modules.
    tests: Vec<Range<usize>>,
}

impl<'a> Source<'a> {
    fn new(path: &'a str, text: &'a str) -> Self {
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
    fn at(&self, line: usize, problem: impl fmt::Display) -> String {
        format!("{}:{line}: {problem}", self.path)
    }

    fn is_test(&self) -> bool {
        ["/tests.rs", "/loom_tests.rs"]
            .iter()
            .any(|end| self.path.ends_with(end))
            || self.path.contains("/tests/")
    }

    fn folder(&self) -> &'a str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The module that the file is, from the root down.
    fn modules(&self) -> Vec<&'a str> {
        let path = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        let mut modules: Vec<_> = path.split('/').collect();
        if ["mod", "lib"].contains(modules.last().expect("a path has a last part")) {
            modules.pop();
        }
        modules
    }

    /// The paths of more than one name, and the renamings, with the groups of `use` unfolded.
    fn paths(&self) -> Vec<NamePath<'a>> {
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
    fn bodies(&self, start: impl Fn(&[Token<'a>]) -> bool) -> Vec<Range<usize>> {
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
    fn comment_blocks(&self) -> Vec<Vec<Comment<'a>>> {
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
struct NamePath<'a> {
    names: Vec<&'a str>,
    alias: Option<&'a str>,
    line: usize,
    /// How many modules inside of the file it stands in.
    inline: usize,
    /// Whether it belongs to a `use`.
    imported: bool,
    /// Whether it belongs to a `pub use`.
    exported: bool,
}

impl<'a> NamePath<'a> {
    /// The name just below the root of the crate, if the path starts or gets there, in a file that
    /// is `depth` modules deep.
    fn below_the_root(&self, depth: usize) -> Option<&'a str> {
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
    fn reaches(&self, crates: &[&str], places: &[&[&str]]) -> bool {
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

/// The modules inside of a file that exist only in tests, with their attribute.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Name,
    Sign,
    Literal,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    line: usize,
    kind: Kind,
}

#[derive(Clone, Copy)]
struct Comment<'a> {
    text: &'a str,
    line: usize,
    /// No code before it on its line.
    alone: bool,
}

impl<'a> Comment<'a> {
    fn is_doc(&self) -> bool {
        ["///", "//!", "/**", "/*!"]
            .iter()
            .any(|doc| self.text.starts_with(doc))
    }

    fn body(&self) -> &'a str {
        self.text.trim_start_matches(['/', '*']).trim()
    }
}

/// Takes Rust apart, as far as these checks need.
fn lex(text: &str) -> (Vec<Token<'_>>, Vec<Comment<'_>>) {
    let (mut tokens, mut comments) = (Vec::new(), Vec::new());
    let (mut rest, mut line, mut last_code) = (text, 1, 0);
    while let Some(first) = rest.chars().next() {
        let comment = comment_length(rest);
        let (length, kind) = if let Some(length) = comment {
            (length, None)
        } else if first.is_whitespace() {
            (first.len_utf8(), None)
        } else if let Some(length) = literal_length(rest) {
            (length, Some(Kind::Literal))
        } else if first.is_alphabetic() || first == '_' {
            (name_length(rest), Some(Kind::Name))
        } else if rest.starts_with("::") {
            (2, Some(Kind::Sign))
        } else {
            (first.len_utf8(), Some(Kind::Sign))
        };
        let (text, tail) = rest.split_at(length);
        if comment.is_some() {
            let alone = last_code != line;
            comments.push(Comment { text, line, alone });
        }
        if let Some(kind) = kind {
            tokens.push(Token { text, line, kind });
        }
        line += text.matches('\n').count();
        if kind.is_some() {
            last_code = line;
        }
        rest = tail;
    }
    (tokens, comments)
}

fn comment_length(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        let step = match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => 1,
            [b'*', b'/', ..] => -1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
        if depth == 0 {
            return Some(at);
        }
    }
    Some(rest.len())
}

/// Strings, characters, numbers and lifetimes.
fn literal_length(rest: &str) -> Option<usize> {
    let prefix = usize::from(rest.starts_with(['b', 'c']));
    let body = &rest[prefix..];
    if let Some(raw) = body.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", &raw[..hashes]);
            let content = prefix + 1 + hashes + 1;
            let length = rest[content..].find(&end).map(|at| at + end.len());
            return Some(length.map_or(rest.len(), |length| content + length));
        }
    }
    if body.starts_with('"') {
        return Some(prefix + quoted_length(body, '"'));
    }
    if let Some(inside) = body.strip_prefix('\'') {
        let mut characters = inside.chars();
        let (first, second) = (characters.next(), characters.next());
        return Some(if first == Some('\\') || second == Some('\'') {
            prefix + quoted_length(body, '\'')
        } else {
            prefix + 1 + name_length(inside)
        });
    }
    rest.starts_with(|c: char| c.is_ascii_digit())
        .then(|| name_length(rest))
}

/// The length of what `quote` opens and closes, with escapes inside.
fn quoted_length(body: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in body.char_indices().skip(1) {
        if character == quote && !escaped {
            return at + 1;
        }
        escaped = character == '\\' && !escaped;
    }
    body.len()
}

fn name_length(rest: &str) -> usize {
    let prefix = if rest.starts_with("r#") { 2 } else { 0 };
    let end = rest[prefix..].find(|c: char| !c.is_alphanumeric() && c != '_');
    end.map_or(rest.len(), |end| prefix + end)
}

/// Every check is seen to fail on a bad example, and to let a good one pass.
mod canaries {
    use super::*;

    /// `check` reports exactly the places in `expected`, each given as `path:line: ` and a word.
    #[track_caller]
    fn reports(
        check: impl Fn(&[Source<'_>]) -> Vec<String>,
        files: &[(&str, &str)],
        expected: &[(&str, &str)],
    ) {
        let broken = found(check, files);
        let as_expected = broken.len() == expected.len()
            && expected.iter().all(|(place, word)| {
                let here =
                    |line: &String| line.starts_with(&format!("{place}: ")) && line.contains(word);
                broken.iter().any(here)
            });
        assert!(as_expected, "expected {expected:?}, found {broken:#?}");
    }

    #[test]
    fn circles_of_files() {
        let files = [
            ("src/graph/mod.rs", "mod a; mod b; mod c; pub use a::A;"),
            // Through a re-export, an imported module, and a path in the code.
            ("src/graph/a.rs", "use super::b; pub struct A;"),
            ("src/graph/b.rs", "fn f() { crate::graph::c::g(); }"),
            (
                "src/graph/c.rs",
                "use crate::graph::A; use std::fmt; pub fn g() {}",
            ),
        ];
        let circle = [("src/graph/a.rs:1", "graph::a, graph::b, graph::c")];
        reports(|sources| cycles(sources, &[]), &files, &circle);
        reports(|sources| cycles(sources, &[("graph", 2)]), &files, &circle);
        reports(|sources| cycles(sources, &[("graph", 3)]), &files, &[]);
        let lower = found(|sources| cycles(sources, &[("graph", 4)]), &files);
        assert!(lower[0].contains("lower its number to 3"), "{lower:?}");
        let straight = [
            ("src/graph/mod.rs", "mod a; mod b; pub use b::B;"),
            (
                "src/graph/a.rs",
                "use super::{B, b::C}; use crate::graph::b;",
            ),
            (
                "src/graph/b.rs",
                "pub struct B; pub struct C; mod tests { use super::super::a; }",
            ),
        ];
        reports(|sources| cycles(sources, &[]), &straight, &[]);
    }

    #[test]
    fn an_upward_name_is_reported() {
        let nested = "use crate::{\n    base::rng::Rng,\n    threads::{self, ThreadGroup},\n};";
        reports(
            layers,
            &[("src/engine/a.rs", nested)],
            &[
                ("src/engine/a.rs:3", "below `threads`"),
                ("src/engine/a.rs:3", "below `threads`"),
            ],
        );
        let inline = "fn f() {\n    crate::observe::Counters::new(1);\n}";
        reports(
            layers,
            &[("src/base/a.rs", inline)],
            &[("src/base/a.rs:2", "`observe`")],
        );
        let climbing = "mod inner { use super::super::super::executor::Executor; }";
        reports(
            layers,
            &[("src/observe/a.rs", climbing)],
            &[("src/observe/a.rs:1", "`executor`")],
        );
        let renamed = "use crate as all;\nuse crate::*;";
        reports(
            layers,
            &[("src/threads/mod.rs", renamed)],
            &[
                ("src/threads/mod.rs:1", "whole root"),
                ("src/threads/mod.rs:2", "whole root"),
            ],
        );
    }

    #[test]
    fn neighbours_and_strangers_are_reported() {
        let aid = (
            "src/semaphore/mod.rs",
            "pub(crate) use crate::cancel::CancelToken;",
        );
        reports(layers, &[aid], &[("src/semaphore/mod.rs:1", "one layer")]);
        let face = (
            "src/fork/join.rs",
            "use crate::{engine::Core, graph::Plan};",
        );
        reports(layers, &[face], &[("src/fork/join.rs:1", "one layer")]);
        let stranger = ("src/util/mod.rs", "");
        reports(
            layers,
            &[stranger],
            &[("src/util/mod.rs:1", "add it to the table LAYERS")],
        );
        let caller = ("src/threads/mod.rs", "use crate::util::helper;");
        reports(
            layers,
            &[caller],
            &[("src/threads/mod.rs:1", "add it to the table LAYERS")],
        );
    }

    #[test]
    fn a_re_export_counts_as_its_module() {
        let root = (
            "src/lib.rs",
            "pub use executor::{Executor, Builder as Maker};",
        );
        let user = (
            "src/threads/mod.rs",
            "use crate::Executor;\nuse crate::Maker;",
        );
        reports(
            layers,
            &[root, user],
            &[
                ("src/threads/mod.rs:1", "`executor`"),
                ("src/threads/mod.rs:2", "`executor`"),
            ],
        );
        let above = (
            "src/executor/mod.rs",
            "use crate::{Executor, threads::ThreadGroup, executor::x};",
        );
        reports(layers, &[root, above], &[]);
    }

    #[test]
    fn comments_strings_and_test_modules_are_no_names() {
        let text = r###"
            //! See [`Executor`](crate::Executor) and `crate::threads`.
            /* use crate::threads; /* nested */ use crate::executor; */
            const A: &str = "use crate::crew; \" crate::crew";
            const B: &str = r#"unsafe { " crate::thread_group }"#;
            const C: [char; 3] = ['"', '\'', '\u{7b}'];
            fn f<'a>(x: &'a u8) -> &'a u8 { x }
            #[cfg(all(not(filch_loom), test))]
            #[rustfmt::skip]
            mod tests { use crate::threads::ThreadGroup; use std::{thread, sync::atomic::AtomicU8}; }
        "###;
        let file = [("src/engine/a.rs", text)];
        reports(layers, &file, &[]);
        reports(pure_engine, &file, &[]);
        reports(one_door, &file, &[]);
        reports(|sources| fenced_unsafe(sources, &[]), &file, &[]);
        let not_a_test = "#[cfg(any(test, loom))]\nmod a { use crate::threads::ThreadGroup; }";
        reports(
            layers,
            &[("src/engine/a.rs", not_a_test)],
            &[("src/engine/a.rs:2", "`threads`")],
        );
    }

    #[test]
    fn an_engine_with_a_clock_is_reported() {
        let bad = "use std::{\n    time::{Duration, Instant},\n    sync::Arc,\n};\nuse std::time;\n\
                   fn f() {\n    std::thread::yield_now();\n    println!();\n}\nuse std::io::*;";
        reports(
            pure_engine,
            &[("src/engine/a.rs", bad), ("src/threads/a.rs", bad)],
            &[
                ("src/engine/a.rs:2", "Instant"),
                ("src/engine/a.rs:5", "std::time"),
                ("src/engine/a.rs:7", "std::thread"),
                ("src/engine/a.rs:8", "println!"),
                ("src/engine/a.rs:10", "std::io"),
            ],
        );
        for place in ["time::SystemTime", "env::var", "fs::File", "net", "time::*"] {
            let text = format!("use ::std::{place};");
            let file = [("src/engine/a.rs", &text[..])];
            reports(
                pure_engine,
                &file,
                &[("src/engine/a.rs:1", "the engine uses")],
            );
        }
    }

    #[test]
    fn unfenced_unsafe_is_reported() {
        let check = |sources: &[Source<'_>]| fenced_unsafe(sources, &["src/a.rs", "src/b.rs"]);
        let bare = "fn f() {\n    unsafe { g() }\n}";
        let fenced = "#![expect(\n    unsafe_code,\n    reason = \"x\"\n)]\nunsafe fn f() {}";
        reports(
            check,
            &[("src/a.rs", fenced), ("src/b.rs", bare), ("src/c.rs", bare)],
            &[
                ("src/b.rs:2", "without `expect"),
                ("src/c.rs:2", "outside the files"),
            ],
        );
        reports(
            check,
            &[("src/a.rs", "// unsafe")],
            &[
                ("src/a.rs:1", "no `unsafe` any more"),
                ("src/b.rs:1", "gone"),
            ],
        );
    }

    #[test]
    fn a_wait_around_the_door_is_reported() {
        let waits = "use std::{fmt, thread};\nuse std::thread::{Builder, park};";
        let files = [("src/pool/a.rs", waits), ("src/rehearse/mod.rs", waits)];
        let found = [("src/pool/a.rs:1", "thread"), ("src/pool/a.rs:2", "park")];
        reports(one_way_to_wait, &files, &found);
    }

    #[test]
    fn a_second_door_is_reported() {
        let nested = "use std::{\n    fmt,\n    sync::{\n        Arc,\n        atomic::AtomicU8,\n    },\n};";
        let inline = "static A: core::sync::atomic::AtomicU8 = x;\nuse std::sync;";
        let loom = "use loom::sync::atomic::fence;\nuse atomic_maybe_uninit::AtomicMaybeUninit;";
        let files = [
            ("src/engine/a.rs", nested),
            ("src/threads/a.rs", inline),
            ("src/fork/a.rs", loom),
            ("src/base/sync.rs", nested),
            ("src/base/canary.rs", nested),
            ("src/engine/deque/tests.rs", nested),
        ];
        reports(
            one_door,
            &files,
            &[
                ("src/engine/a.rs:5", "AtomicU8"),
                ("src/threads/a.rs:1", "AtomicU8"),
                ("src/threads/a.rs:2", "std::sync"),
                ("src/fork/a.rs:1", "fence"),
                ("src/fork/a.rs:2", "AtomicMaybeUninit"),
            ],
        );
    }

    #[test]
    fn a_stale_name_in_a_safety_comment_is_reported() {
        let text = "
            // `elsewhere` is not in a safety argument.
            fn f(&mut self) {
                // SAFETY: `slot` is at most `mask`, so `(mask + 1) * STRIDE` of `Owner::vanish`
                // is fine; `T: Send`, `&mut self`, `0x1f` and `gone` too. `only_in_a_comment`
                unsafe { slot(mask, STRIDE, Owner) }
            }
            // only_in_a_comment
            #[cfg(test)]
            mod tests {
                // SAFETY: `tested` exists here.
                fn tested() {}
            }
            // SAFETY: `tested` exists only in tests.
        ";
        let prose = ("src/engine/a.md", "gone vanish");
        let far = ("src/threads/b.rs", "fn gone() {}");
        let missing = [
            ("src/engine/a.rs:4", "`vanish`"),
            ("src/engine/a.rs:5", "`only_in_a_comment`"),
            ("src/engine/a.rs:14", "`tested`"),
            ("src/engine/a.rs:5", "`gone`"),
        ];
        reports(
            safety_names,
            &[("src/engine/a.rs", text), prose, far],
            &missing,
        );
        let near = ("src/engine/b.rs", "fn gone() {}");
        reports(
            safety_names,
            &[("src/engine/a.rs", text), near],
            &missing[..3],
        );
        let open = ("src/engine/a.rs", "// SAFETY: as\n// in `f\nfn f() {}");
        reports(
            safety_names,
            &[open],
            &[("src/engine/a.rs:1", "not closed")],
        );
    }

    #[test]
    fn an_ordering_without_a_reason_is_reported() {
        let text = "
            /// Relaxed: documentation gives no reason.
            fn f() {
                a.load(Ordering::Relaxed);
                // Because it is so.
                a.load(Ordering::Acquire);
            }
            // Relaxed: of another function.
            fn g(x: [u8; 3]) {
                a.load(atomic::Ordering::Relaxed);
                // Relaxed: a hint, which is
                // no reason for the next line but one.
                a.load(Ordering::Relaxed);
                a.store(1, Ordering::SeqCst);
                // Release: pairs with the acquire in `h`. Filler follows.
                1;\n2;\n3;\n4;\n5;\n6;\n7;\n a.store(1, Ordering::Release);
                a.store(2, Ordering::Release);
            }
            use std::sync::atomic::Ordering::{Relaxed, Release};
            use std::cmp::Ordering::*;
        ";
        let at = |line: usize| format!("src/engine/a.rs:{line}");
        reports(
            ordering_reasons,
            &[("src/engine/a.rs", text)],
            &[
                (&at(4), "Relaxed"),
                (&at(6), "Acquire"),
                (&at(10), "Relaxed"),
                (&at(14), "SeqCst"),
                (&at(24), "Release"),
                (&at(26), "write `Ordering::`"),
                (&at(26), "write `Ordering::`"),
            ],
        );
    }

    #[test]
    fn a_reason_is_accepted() {
        let text = "
            fn f() {
                // AcqRel: hands on what was seen.
                a.compare_exchange(
                    b,
                    c,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                a.load(Ordering::Acquire); // Acquire: pairs with the release in `g`.
                // As above.
                a.load(Ordering::SeqCst);
                a.cmp(b) == Ordering::Less;
            }
            impl fmt::Debug for A {
                fn fmt(&self) { self.a.load(Ordering::Relaxed) }
            }
            #[cfg(test)]
            mod tests { fn f() { a.load(Ordering::Relaxed); } }
        ";
        reports(ordering_reasons, &[("src/engine/a.rs", text)], &[]);
    }

    #[test]
    fn a_long_file_is_reported() {
        let (long, longer) = (
            "\n".repeat(MOST_LINES + 1),
            "\n".repeat(MOST_TEST_LINES + 1),
        );
        let files = [
            ("src/engine/a.rs", &long[..]),
            ("src/engine/tests.rs", &long[..]),
            ("src/threads/tests.rs", &longer[..]),
            ("src/threads/crew.md", &long[1..]),
        ];
        reports(
            short_files,
            &files,
            &[
                ("src/engine/a.rs:651", "split it"),
                ("src/threads/tests.rs:1201", "split it"),
            ],
        );
    }
}
