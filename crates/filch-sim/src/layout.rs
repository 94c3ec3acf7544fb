//! Readable JSON: short values on one line, long ones split over several.

use serde::Serialize;

/// The maximum length of a line, in bytes.
const WIDTH: usize = 100;

/// Returns `value` as JSON, with fields in the order of the type.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    let compact = serde_json::to_string(value).expect("plain data with text for keys");
    let mut text = String::new();
    lay_out(&compact, 0, &mut text);
    text
}

/// Writes one JSON value, given without white space, at a depth of `indent`.
fn lay_out(value: &str, indent: usize, into: &mut String) {
    let nested = value.starts_with(['{', '[']);
    if !nested || value.len() + indent <= WIDTH {
        into.push_str(value);
        return;
    }
    let numbers = value.starts_with('[') && !value.contains(['{', '"']);
    let (open, close) = (&value[..1], &value[value.len() - 1..]);
    into.push_str(open);
    let mut line = WIDTH;
    for (index, part) in parts(&value[1..value.len() - 1]).into_iter().enumerate() {
        if index > 0 {
            into.push(',');
        }
        // Lists of numbers fill their lines; every other value gets a line of its own.
        if numbers && line + part.len() + 2 <= WIDTH {
            into.push(' ');
            line += part.len() + 2;
        } else {
            into.push('\n');
            into.push_str(&" ".repeat(indent + 2));
            line = indent + 2 + part.len();
        }
        match key(part) {
            Some(colon) => {
                into.push_str(&part[..=colon]);
                into.push(' ');
                lay_out(&part[colon + 1..], indent + 2, into);
            }
            None => lay_out(part, indent + 2, into),
        }
    }
    into.push('\n');
    into.push_str(&" ".repeat(indent));
    into.push_str(close);
}

/// Returns the members of an object or a list, given without its brackets.
fn parts(inside: &str) -> Vec<&str> {
    let (mut depth, mut begin) = (0, 0);
    let mut found = Vec::new();
    scan(inside, |at, byte| {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                found.push(&inside[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        true
    });
    if begin < inside.len() {
        found.push(&inside[begin..]);
    }
    found
}

/// Returns the position of the colon of `"key":value` if `part` is a member of an object.
fn key(part: &str) -> Option<usize> {
    let mut colon = None;
    if part.starts_with('"') {
        scan(part, |at, byte| {
            if byte == b':' {
                colon = Some(at);
            }
            colon.is_none()
        });
    }
    colon
}

/// Calls `each` for every byte outside of a string, until it returns false.
fn scan(json: &str, mut each: impl FnMut(usize, u8) -> bool) {
    let (mut in_text, mut escaped) = (false, false);
    for (at, byte) in json.bytes().enumerate() {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte == b'"' {
            in_text = true;
        } else if !each(at, byte) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn long_values_are_broken_up_and_stay_the_same() {
        let value = json!({
            "text": "a \"quoted\" comma, a {brace} and a backslash \\",
            "numbers": (0..100).collect::<Vec<_>>(),
            "nested": [{"a": vec![1; 60]}, {"b": {}}, {"c": []}, "x"],
        });
        let text = to_json(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.lines().count() > 5);
        assert!(text.lines().all(|line| line.len() <= WIDTH + 2), "{text}");
    }

    #[test]
    fn short_values_stay_on_their_line() {
        assert_eq!(to_json(&json!({"a": [1, 2]})), r#"{"a":[1,2]}"#);
    }
}
