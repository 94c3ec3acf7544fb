//! Names in error messages: of similar functions, of types, and of values.

/// The most names that a message lists.
const MAX_NAMES: usize = 8;

/// The most characters of a value that a message shows.
const MAX_CHARACTERS: usize = 60;

/// Returns the hint of an error for an unknown function: the names with a similar spelling, or all
/// of them.
pub(crate) fn suggestion<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let near: Vec<&str> = known
        .iter()
        .copied()
        .filter(|other| is_near(name, other))
        .collect();
    match (&near[..], &known[..]) {
        ([], []) => "the registry is empty".into(),
        ([], all) => format!("there are {}", listed(all)),
        (near, _) => format!("did you mean {}?", listed(near)),
    }
}

fn listed(names: &[&str]) -> String {
    let shown = names[..names.len().min(MAX_NAMES)].join(", ");
    match names.len() - names.len().min(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether the names are equal but for case, or differ by at most one edit in three letters.
fn is_near(a: &str, b: &str) -> bool {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let longest = a.chars().count().max(b.chars().count());
    a == b || distance(&a, &b) <= longest / 3
}

/// Returns the Levenshtein distance: how many letters must be inserted, deleted or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    // The distances from the part of `a` that has been read to every prefix of `b`.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (read, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = read + 1;
        for (n, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[n + 1];
            row[n + 1] = changed.min(row[n] + 1).min(row[n + 1] + 1);
        }
    }
    row[b.len()]
}

/// Returns the name of a type without the paths: `Vec<Point>`.
pub(crate) fn type_name<T>() -> String {
    let full = std::any::type_name::<T>();
    let (mut short, mut word) = (String::new(), String::new());
    for c in full.chars() {
        match c {
            // The word was part of a path.
            ':' => word.clear(),
            c if c.is_alphanumeric() || c == '_' => word.push(c),
            other => {
                short += &word;
                word.clear();
                short.push(other);
            }
        }
    }
    short + &word
}

/// Returns a value as JSON, truncated if it is long.
pub(crate) fn excerpt(value: &serde_json::Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn distances() {
        for (a, b, steps) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("square", "square", 0),
            ("sqare", "square", 1),
            ("squrae", "square", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), steps, "{a} and {b}");
            assert_eq!(distance(b, a), steps, "{b} and {a}");
        }
    }

    #[test]
    fn suggestions_name_what_was_meant_or_what_there_is() {
        let known = ["Add", "Divide", "Square"];
        let said = |name| suggestion(name, known.into_iter());
        assert_eq!(said("square"), "did you mean Square?");
        assert_eq!(said("Sqare"), "did you mean Square?");
        assert_eq!(said("ADD"), "did you mean Add?");
        assert_eq!(said("Cube"), "there are Add, Divide, Square");
        assert_eq!(
            suggestion("Cube", std::iter::empty()),
            "the registry is empty"
        );
        let many: Vec<String> = (0..20).map(|n| format!("function number {n}")).collect();
        let said = suggestion("?", many.iter().map(|name| &name[..]));
        assert!(said.ends_with("function number 7 and 12 more"), "{said}");
    }

    #[test]
    fn types_lose_their_paths() {
        assert_eq!(type_name::<(i64, String)>(), "(i64, String)");
        assert_eq!(
            type_name::<BTreeMap<String, Vec<Option<u8>>>>(),
            "BTreeMap<String, Vec<Option<u8>>>"
        );
        assert_eq!(type_name::<()>(), "()");
        assert_eq!(type_name::<&'static [f64]>(), "&[f64]");
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(excerpt(&serde_json::json!([1, "a"])), r#"[1,"a"]"#);
        let cut = excerpt(&"ä".repeat(100).into());
        assert_eq!(cut, format!("\"{}…", "ä".repeat(59)));
    }
}
