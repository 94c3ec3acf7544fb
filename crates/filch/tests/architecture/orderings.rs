//! Checks that memory orderings have reasons.

use super::{lexer::Kind, source::Source};

/// How far below the end of its comment an ordering may stand, in lines. A compare-and-swap that is
/// formatted over several lines needs seven.
const ORDERING_WINDOW: usize = 8;

/// How a comment refers to a reason that was given before.
const AS_BEFORE: [&str; 3] = ["As above", "as above", "as in"];

/// Every memory ordering has a comment close above it, in the same function, that speaks of it.
pub(super) fn ordering_reasons(sources: &[Source<'_>]) -> Vec<String> {
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
