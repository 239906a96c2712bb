//! Prepares a program's source for Ceph's class `lua` by replacing the operator `..`.
//!
//! `a .. b` becomes `a << _nacre_concat << b`. For `<<`, Lua calls a metamethod of `stock.lua`,
//! which joins the operands as Luau does. Luau has no `<<`, so the program itself contains none. In
//! Lua 5.3 the precedence of `<<` is next below that of `..`, and concatenation is associative. So
//! every expression keeps its meaning.

/// The string that replaces `..` between the operands.
const JOIN: &str = " << _nacre_concat << ";
/// The name in the operators that replace `..`. No program uses this name by chance.
const NAME: &str = "_nacre_concat";

/// Prepares a source; `None` if the source itself uses that name.
pub(crate) fn stock_source(source: &str) -> Option<String> {
    if source.contains(NAME) {
        return None;
    }
    let mut rewritten = String::with_capacity(source.len());
    let mut rest = source;
    while !rest.is_empty() {
        let length = token_length(rest);
        let (token, behind) = rest.split_at(length);
        rewritten.push_str(if token == ".." { JOIN } else { token });
        rest = behind;
    }
    Some(rewritten)
}

/// Length of the first token of a source: a comment, a string, dots, or one other character.
fn token_length(source: &str) -> usize {
    let bytes = source.as_bytes();
    match bytes[0] {
        b'-' if source.starts_with("--") => comment_length(source),
        b'[' => long_bracket_length(source).unwrap_or(1),
        quote @ (b'\'' | b'"') => quoted_length(bytes, quote),
        b'.' => bytes.iter().take_while(|byte| **byte == b'.').count(),
        _ => source.chars().next().map_or(1, char::len_utf8),
    }
}

fn comment_length(source: &str) -> usize {
    let (dashes, text) = source.split_at(2);
    let long = text.starts_with('[').then(|| long_bracket_length(text)).flatten();
    let length = long.unwrap_or_else(|| text.find('\n').unwrap_or(text.len()));
    dashes.len() + length
}

/// Length of `[[…]]`, `[=[…]=]` and so on; `None` for a bracket of another kind.
fn long_bracket_length(source: &str) -> Option<usize> {
    let level = source[1..].bytes().take_while(|byte| *byte == b'=').count();
    if source.as_bytes().get(1 + level) != Some(&b'[') {
        return None;
    }
    let end = format!("]{}]", "=".repeat(level));
    Some(source.find(&end).map_or(source.len(), |at| at + end.len()))
}

fn quoted_length(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_concatenation_operator_is_replaced() {
        for (source, rewritten) in [
            ("return a .. b..c", "return a  << _nacre_concat <<  b << _nacre_concat << c"),
            ("f(...) t.x = 1.5 u[1] = {...}", "f(...) t.x = 1.5 u[1] = {...}"),
            (r#"'a..b\'..' "\\" .. "..""#, r#"'a..b\'..' "\\"  << _nacre_concat <<  "..""#),
            ("-- a..b\nx..y --[[ .. \n .. ]]", "-- a..b\nx << _nacre_concat << y --[[ .. \n .. ]]"),
            ("[==[ ..]] ]==]..[[..]]", "[==[ ..]] ]==] << _nacre_concat << [[..]]"),
            (
                "t[a..b] --[=[ .. ]=] ..",
                "t[a << _nacre_concat << b] --[=[ .. ]=]  << _nacre_concat << ",
            ),
            ("'ü' .. '日本", "'ü'  << _nacre_concat <<  '日本"),
            ("'", "'"),
            ("'\\", "'\\"),
        ] {
            assert_eq!(stock_source(source).as_deref(), Some(rewritten), "{source}");
        }
        assert_eq!(stock_source("_nacre_concat = 1"), None);
    }
}
