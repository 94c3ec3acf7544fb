//! Checks that atomics and waits are used through one module each.

use super::source::Source;

/// The files that may name atomics of `std` or of the model checker: the door, and the switch of
/// the deliberate defects, which must work the same way under the model checker.
const ATOMIC_FILES: &[&str] = &["src/base/sync.rs", "src/base/canary.rs"];

/// The files that may wait with threads of `std`: the door, the director of rehearsals, the timer's
/// thread, and the configuration, which only reads.
const WAITING_FILES: &str = "src/base/thread/mod.rs src/base/thread/directed.rs \
    src/base/thread/blocking.rs src/rehearse/mod.rs src/rehearse/director.rs src/threads/timer/mod.rs \
    src/threads/config.rs";

/// Atomics are named in one place, so that the model checker can take it over.
pub(super) fn one_door(sources: &[Source<'_>]) -> Vec<String> {
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

/// Times are of one type, since that of `std` has no clock on some targets.
pub(super) fn one_clock(sources: &[Source<'_>]) -> Vec<String> {
    let mut broken = Vec::new();
    let may_not = |s: &&Source<'_>| !s.is_test() && s.path != "src/base/instant.rs";
    for source in sources.iter().filter(may_not) {
        let instants = source.paths();
        let instants = instants.iter();
        for path in instants.filter(|p| p.reaches(&["std"], &[&["time", "Instant"]])) {
            let names = path.names.join("::");
            let problem = format!("`{names}` has no clock on some targets; use crate::base");
            broken.push(source.at(path.line, problem));
        }
    }
    broken
}

/// Threads wait, wake and yield where a rehearsal can direct them.
pub(super) fn one_way_to_wait(sources: &[Source<'_>]) -> Vec<String> {
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
