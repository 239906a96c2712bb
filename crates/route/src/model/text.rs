//! Splits a line of a rule file into words, and escapes names with spaces and stars.

use nacre_object::{Error, Result};

/// The characters that a backslash makes literal.
const SPECIAL: [char; 5] = ['*', '\\', ' ', '#', '"'];

/// Escapes a string for a line of a rule file: spaces, stars, and characters that begin a comment.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if c.is_control() || (c.is_whitespace() && c != ' ') => {
                escaped.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
            }
            c => {
                if SPECIAL.contains(&c) {
                    escaped.push('\\');
                }
                escaped.push(c);
            }
        }
    }
    escaped
}

/// Splits a word at its stars, and removes the backslashes. A word without a star gives one piece.
///
/// # Errors
/// `Invalid` if a backslash precedes a character that needs no escape.
pub fn split_at_stars(word: &str) -> Result<Vec<String>> {
    let mut pieces = vec![String::new()];
    let mut chars = word.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '*' => {
                pieces.push(String::new());
                continue;
            }
            '\\' => escaped(&mut chars).ok_or_else(|| wrong_escape(word))?,
            c => c,
        };
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
    }
    Ok(pieces)
}

fn escaped(chars: &mut std::str::Chars<'_>) -> Option<char> {
    match chars.next()? {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'u' => {
            let (digits, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
            *chars = rest.chars();
            char::from_u32(u32::from_str_radix(digits, 16).ok()?)
        }
        c => SPECIAL.contains(&c).then_some(c),
    }
}

fn wrong_escape(word: &str) -> Error {
    Error::invalid(format!("{word:?} has a backslash before a character that needs none"))
        .hint("write \\\\ for a backslash, \\* for a star and \"\\ \" for a space")
}

/// Removes the backslashes of a word that must not contain a star.
///
/// # Errors
/// As [`split_at_stars`]; `Invalid` if there is a star.
pub fn unescape(word: &str) -> Result<String> {
    let mut pieces = split_at_stars(word)?;
    match pieces.len() {
        1 => Ok(pieces.swap_remove(0)),
        _ => Err(Error::invalid(format!("{word:?} stands for several objects"))
            .hint("name one object here, and write \\* for a star in its name")),
    }
}

/// Splits a line into words at spaces without a backslash before them. A `#` at the start of a word
/// ends the line.
pub fn words(line: &str) -> Vec<&str> {
    let mut words = vec![];
    let mut start = None;
    let mut is_escaped = false;
    for (at, c) in line.char_indices() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        if c == '#' && start.is_none() {
            return words;
        }
        match (c.is_whitespace(), start) {
            (true, Some(from)) => {
                words.push(&line[from..at]);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
        is_escaped = c == '\\';
    }
    words.extend(start.map(|from| &line[from..]));
    words
}
