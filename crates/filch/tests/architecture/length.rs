//! Checks the length of files and functions.

use super::{lexer::Kind, source::Source};

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

/// The most lines of a function, from its name to its closing brace.
pub(super) const MOST_FUNCTION_LINES: usize = 70;

/// A function fits on a page. `longer` lists exceptions, each as a path, a name and its most lines.
pub(super) fn short_functions(
    sources: &[Source<'_>],
    longer: &[(&str, &str, usize)],
) -> Vec<String> {
    let mut broken = Vec::new();
    let mut used = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        for body in source.bodies(|w| w[0].text == "fn" && w[1].kind == Kind::Name) {
            let name = source.code[body.start + 1];
            let lines = source.code[body.end - 1].line - name.line + 1;
            let exception = longer
                .iter()
                .find(|(path, function, _)| (*path, *function) == (source.path, name.text));
            let most = exception.map_or(MOST_FUNCTION_LINES, |(.., most)| *most);
            if lines > most {
                let problem = format!(
                    "`{}` has {lines} lines, at most {most}; split it",
                    name.text
                );
                broken.push(source.at(name.line, problem));
            }
            if let Some(exception) = exception
                && lines > MOST_FUNCTION_LINES
            {
                used.push(exception);
            }
        }
    }
    for exception in longer.iter().filter(|exception| !used.contains(exception)) {
        let (path, name, _) = exception;
        broken.push(format!(
            "{path}:1: `{name}` is no exception any more; take it off the list"
        ));
    }
    broken
}
