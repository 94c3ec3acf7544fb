//! Text and numbers in a drawing.

use std::{
    fmt::{self, Write},
    time::Duration,
};

/// Returns the distance between two ticks of the axis: about ten of them, at round times.
pub(super) fn step(wall: Duration) -> Duration {
    let wanted = wall.as_nanos() / 10;
    let mut step = 1_u128;
    while step < wanted {
        let leading = step / 10_u128.pow(step.ilog10());
        // 1, 2, 5, 10, …
        step = if leading == 2 { step / 2 * 5 } else { step * 2 };
    }
    if wall.is_zero() {
        return Duration::ZERO;
    }
    Duration::from_nanos(u64::try_from(step).unwrap_or(u64::MAX))
}

/// Returns `text`, cut to at most `most` characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Writes text escaped for XML.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\n' => f.write_char('\n')?,
                // Characters that XML cannot represent.
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                other if other.is_control() => f.write_char(' ')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_round_marks() {
        let step = |micros| step(Duration::from_micros(micros));
        assert_eq!(step(0), Duration::ZERO);
        assert_eq!(step(10), Duration::from_micros(1));
        assert_eq!(step(11), Duration::from_micros(2));
        assert_eq!(step(35), Duration::from_micros(5));
        assert_eq!(step(9_000), Duration::from_millis(1));
        assert_eq!(step(12_345_678), Duration::from_secs(2));
    }

    #[test]
    fn names_are_text_and_nothing_else() {
        let text = Escaped("<a href=\"b\">&\u{0}\u{1b}é").to_string();
        assert_eq!(text, "&lt;a href=&quot;b&quot;&gt;&amp;  é");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
