//! Checks the length of files.

use super::source::Source;

/// The most lines of a file: about 500 is the aim, this is the end.
pub(super) const MOST_LINES: usize = 650;

/// The most lines of a file of tests.
pub(super) const MOST_TEST_LINES: usize = 1200;

/// A file is one idea.
pub(super) fn short_files(sources: &[Source<'_>]) -> Vec<String> {
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
