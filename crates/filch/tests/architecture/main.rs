//! The rules of the source tree, checked by reading it.
//!
//! Each check is a function from sources to the places that break its rule, and each is shown a
//! small bad example as well: a check that reports nothing there is broken itself.

mod canaries;
mod cycles;
mod layers;
mod length;
mod lexer;
mod lists;
mod names;
mod orderings;
mod safety;
mod source;
mod sync;

use cycles::cycles;
use layers::{layers, pure_engine};
use length::{short_files, short_functions};
use lists::{CYCLES, LONG_FUNCTIONS, SHARED_NAMES, UNSAFE_FILES};
use names::unique_types;
use orderings::ordering_reasons;
use safety::{fenced_unsafe, safety_names, safety_premises};
use source::Source;
use std::{fs, path::Path};
use sync::{one_clock, one_door, one_way_to_wait};

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
fn times_are_of_one_type() {
    holds(one_clock);
}

#[test]
fn names_in_safety_comments_exist() {
    holds(safety_names);
}

#[test]
fn safety_comments_name_their_premises() {
    holds(safety_premises);
    holds_in_the_workspace(safety_premises);
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
fn type_names_are_unique() {
    holds(|sources| unique_types(sources, SHARED_NAMES));
}

#[test]
fn files_are_short() {
    holds(short_files);
}

#[test]
fn functions_are_short() {
    holds(|sources| short_functions(sources, LONG_FUNCTIONS));
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

/// Runs `check` over the code of all packages with their tests and examples, if the repository is
/// here and not only the published package.
fn holds_in_the_workspace(check: impl Fn(&[Source<'_>]) -> Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["crates", "bench", "compat"] {
        if root.join(folder).is_dir() {
            read_folder(&root, folder, &mut files);
        }
    }
    let files = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let files: Vec<_> = files.map(|(p, t)| (&p[..], &t[..])).collect();
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
            if name != "target" {
                read_folder(root, &path, files);
            }
        } else if [".rs", ".md"].iter().any(|end| path.ends_with(end)) {
            let text = fs::read_to_string(root.join(&path)).expect("sources are UTF-8");
            files.push((path, text));
        }
    }
}
