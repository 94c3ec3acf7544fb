//! A lexer for Rust, as far as the checks need it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    Sign,
    Literal,
}

#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy)]
pub(super) struct Comment<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
    /// No code before it on its line.
    pub(super) alone: bool,
}

impl<'a> Comment<'a> {
    pub(super) fn is_doc(&self) -> bool {
        ["///", "//!", "/**", "/*!"]
            .iter()
            .any(|doc| self.text.starts_with(doc))
    }

    pub(super) fn body(&self) -> &'a str {
        self.text.trim_start_matches(['/', '*']).trim()
    }
}

/// Takes Rust apart, as far as these checks need.
pub(super) fn lex(text: &str) -> (Vec<Token<'_>>, Vec<Comment<'_>>) {
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
