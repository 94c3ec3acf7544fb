//! What users read and search: the README, the guide, the names of other libraries.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether the repository is here, and not only the published package.
fn has_repository() -> bool {
    root().join("docs/guide").is_dir()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the Rust code blocks of a page, each without its indentation. A block without a language
/// is one, as for rustdoc.
fn code_blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    // The indentation, whether it is Rust, and the text.
    let mut open: Option<(usize, bool, String)> = None;
    for line in page.lines() {
        let text = line.trim_start();
        let (indent, fence) = (line.len() - text.len(), text.strip_prefix("```"));
        match (&mut open, fence) {
            (None, None) => {}
            (None, Some(language)) => {
                let is_rust = ["", "rust"].contains(&language);
                open = Some((indent, is_rust, String::new()));
            }
            (Some(_), Some(_)) => {
                let block = open.take().filter(|(_, is_rust, _)| *is_rust);
                blocks.extend(block.map(|(.., block)| block));
            }
            (Some((indent, _, block)), None) => {
                block.push_str(line.get(*indent..).unwrap_or(""));
                block.push('\n');
            }
        }
    }
    blocks
}

/// Returns the pages of the guide, with their paths.
fn guide() -> Vec<(String, String)> {
    pages("docs/guide")
}

/// Returns the pages of a folder, with their paths.
fn pages(folder: &str) -> Vec<(String, String)> {
    let pages = fs::read_dir(root().join(folder)).unwrap();
    let pages = pages.map(|page| page.unwrap().path());
    pages
        .map(|page| {
            (
                page.display().to_string(),
                fs::read_to_string(&page).unwrap(),
            )
        })
        .collect()
}

#[test]
fn packages_have_the_licence_texts() {
    if !has_repository() {
        return;
    }
    for package in fs::read_dir(root().join("crates")).unwrap() {
        let package = package.unwrap().path();
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let path = package.join(licence);
            assert!(read(&path) == read(licence), "{}", path.display());
        }
    }
}

/// The doc tests compile and run the blocks as they are (`guide` in `lib.rs`). With a `main` of
/// their own, and without hidden lines, they are what a reader pastes.
#[test]
fn snippets_of_the_readme_compile_when_pasted() {
    if !has_repository() {
        return;
    }
    let blocks = code_blocks(&read("README.md"));
    assert!(blocks.len() >= 5, "{} blocks", blocks.len());
    for block in blocks {
        assert!(block.contains("fn main()"), "no main in\n{block}");
        assert!(!has_hidden_lines(&block), "hidden lines in\n{block}");
    }
}

#[test]
fn snippets_of_the_guide_have_no_hidden_lines() {
    if !has_repository() {
        return;
    }
    for (name, page) in guide() {
        for block in code_blocks(&page) {
            assert!(
                !has_hidden_lines(&block),
                "{name}: hidden lines in\n{block}"
            );
            let question_mark = block.contains("?;") || block.contains("?\n");
            assert!(
                !question_mark || block.contains("fn main() ->"),
                "{name}: `?` without a function that returns an error in\n{block}"
            );
        }
    }
}

/// Whether there are lines that rustdoc hides, and other viewers show.
fn has_hidden_lines(block: &str) -> bool {
    block
        .lines()
        .any(|line| line == "#" || line.starts_with("# "))
}

/// The most lines of the README.
const README_LINES: usize = 200;

/// The most lines of a decision: one page.
const DECISION_LINES: usize = 60;

/// The most rows of a table in a decision. Longer tables are in `bench/results`.
const DECISION_ROWS: usize = 7;

/// Returns what is wrong with the form of a decision: status, date and choice first, on one page.
fn decision_errors(page: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let lines: Vec<&str> = page.lines().collect();
    let first_words = |number: usize| lines.get(number).copied().unwrap_or("");
    if !first_words(0).starts_with("# 00") {
        errors.push("the first line is not the number and the decision".to_owned());
    }
    if !first_words(2).starts_with("Status: ") || !first_words(2).contains(", 20") {
        errors.push("the third line is not the status and the date".to_owned());
    }
    if !first_words(4).starts_with("**Choice.**") {
        errors.push("the choice is not the first paragraph".to_owned());
    }
    if lines.len() > DECISION_LINES {
        errors.push(format!("{} lines, at most {DECISION_LINES}", lines.len()));
    }
    for table in lines.split(|line| !line.starts_with('|')) {
        let rows = table.len().saturating_sub(2);
        if rows > DECISION_ROWS {
            errors.push(format!("a table of {rows} rows, at most {DECISION_ROWS}"));
        }
    }
    errors
}

#[test]
fn decisions_have_one_form_and_one_page() {
    if !has_repository() {
        return;
    }
    let decisions = pages("docs/decisions").into_iter();
    let mut errors = Vec::new();
    for (name, page) in decisions.filter(|(name, _)| !name.ends_with("README.md")) {
        errors.extend(
            decision_errors(&page)
                .into_iter()
                .map(|e| format!("{name}: {e}")),
        );
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn canary_a_bad_decision_is_reported() {
    let good = "# 0001: A\n\nStatus: accepted, 2026-11-15.\n\n**Choice.** B.\n";
    assert_eq!(decision_errors(good), [""; 0]);
    assert_eq!(decision_errors("**Question.** B?\n").len(), 3);
    assert_eq!(
        decision_errors(&format!("{good}{}", "text\n".repeat(56))).len(),
        1
    );
    assert_eq!(
        decision_errors(&format!("{good}{}", "| row |\n".repeat(10))).len(),
        1
    );
}

#[test]
fn the_readme_is_short_and_lists_the_guide() {
    if !has_repository() {
        return;
    }
    let (readme, index) = (read("README.md"), read("docs/guide/README.md"));
    let lines = readme.lines().count();
    assert!(
        lines <= README_LINES,
        "{lines} lines, at most {README_LINES}"
    );
    for (name, page) in guide() {
        assert!(page.starts_with("# "), "{name} does not begin with a title");
        let file = Path::new(&name).file_name().unwrap().to_str().unwrap();
        assert!(
            readme.contains(&format!("(docs/guide/{file})")),
            "README.md has no link to {file}"
        );
        assert!(
            file == "README.md" || index.contains(&format!("]({file})")),
            "docs/guide/README.md has no link to {file}"
        );
    }
}

#[test]
fn every_page_of_the_guide_is_compiled() {
    if !has_repository() {
        return;
    }
    let library = read("crates/filch/src/lib.rs");
    for (name, page) in guide() {
        let file = Path::new(&name)
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        assert!(
            code_blocks(&page).is_empty() || library.contains(&format!("docs/guide/{file}")),
            "{file} is not in `guide` of lib.rs"
        );
    }
}

/// Names that users of rayon, tokio and Taskflow search for.
const FOREIGN_NAMES: [&str; 57] = [
    // rayon
    "par_iter",
    "par_iter_mut",
    "into_par_iter",
    "par_bridge",
    "par_chunks",
    "par_chunks_mut",
    "par_windows",
    "par_sort",
    "par_sort_unstable_by_key",
    "ParallelIterator",
    "IntoParallelIterator",
    "FromParallelIterator",
    "with_min_len",
    "reduce_with",
    "map_with",
    "collect_into_vec",
    "install",
    "ThreadPool",
    "ThreadPoolBuilder",
    "num_threads",
    "current_num_threads",
    "current_thread_index",
    "build_global",
    "in_place_scope",
    "spawn_fifo",
    // tokio
    "Runtime",
    "worker_threads",
    "block_on",
    "spawn_blocking",
    "block_in_place",
    "JoinHandle",
    "abort",
    "abort_all",
    "abort_handle",
    "abort_on_drop",
    "AbortHandle",
    "AbortOnDropHandle",
    "JoinError",
    "JoinSet",
    "select",
    "sleep",
    "timeout",
    "interval",
    "yield_now",
    "LocalSet",
    "spawn_local",
    "task_local",
    "CancellationToken",
    // Taskflow
    "Taskflow",
    "emplace",
    "Executor::run",
    "corun",
    "dependent_async",
    "composed_of",
    "ObserverInterface",
    "dump",
    "DataPipeline",
];

#[test]
fn names_of_other_libraries_are_found() {
    let mut sources = String::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources += &fs::read_to_string(path).unwrap();
            }
        }
    }
    let aliases: Vec<&str> = sources
        .lines()
        .filter(|line| line.trim_start().starts_with("#[doc(alias"))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .collect();
    let is_item = |name: &str| {
        [
            "pub fn ",
            "pub async fn ",
            "pub struct ",
            "pub trait ",
            "    fn ",
        ]
        .iter()
        .any(|kind| {
            let item = format!("{kind}{name}");
            let mut found = sources.match_indices(&item);
            found.any(|(at, _)| sources[at + item.len()..].starts_with(['(', '<', ' ', ';']))
        })
    };
    let missing: Vec<_> = FOREIGN_NAMES
        .iter()
        .filter(|name| !aliases.contains(name) && !is_item(name))
        .collect();
    assert!(missing.is_empty(), "no item and no alias: {missing:?}");
}

/// Cargo resolves the target dependencies of a dependency whether their `cfg` holds or not, so
/// whatever is there is in the lock file of every user. Dev-dependencies are not.
#[test]
fn the_model_checker_is_in_no_users_lock_file() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let (mut section, mut found) = (String::new(), false);
    for line in manifest.unwrap().lines() {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if line.starts_with("loom") {
            found = true;
            assert!(section.contains("dev-dependencies"), "{line} in {section}");
        }
    }
    assert!(found, "loom is a dev-dependency");
}
