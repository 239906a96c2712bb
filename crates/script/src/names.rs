//! Finds in a source the names that it uses without defining them, and constructs of Lua 5.3 that
//! Luau lacks. The check of a program reports both.
//!
//! The search reads tokens, not syntax. A name that is declared or assigned anywhere in the source
//! counts as defined everywhere. So the search may miss an undefined name, but never reports a
//! defined one.

use std::collections::HashSet;

/// A name that a source reads and does not define: a global, or a field of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeName {
    /// The line, 1-based.
    pub line: u32,
    /// The column, 1-based and in characters.
    pub column: u32,
    /// The global.
    pub global: String,
    /// Its field, if one is named.
    pub field: Option<String>,
}

impl FreeName {
    /// The name as it is written.
    pub fn path(&self) -> String {
        match &self.field {
            Some(field) => format!("{}.{field}", self.global),
            None => self.global.clone(),
        }
    }
}

/// A construct that Lua 5.3 has and Luau lacks, or that has another meaning in Luau.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignConstruct {
    /// The line, 1-based.
    pub line: u32,
    /// The column, 1-based and in characters.
    pub column: u32,
    /// What the construct is, and what to write instead.
    pub advice: &'static str,
}

const KEYWORDS: &[&str] = &[
    "and", "break", "continue", "do", "else", "elseif", "end", "export", "false", "for",
    "function", "if", "in", "local", "nil", "not", "or", "repeat", "return", "then", "true",
    "type", "until", "while",
];

/// Operators of several characters, the longest first.
const OPERATORS: &[&str] = &[
    "...", "..=", "//=", "<<", ">>", "//", "==", "~=", "<=", ">=", "->", "::", "..", "+=", "-=",
    "*=", "/=", "%=", "^=",
];

/// Tokens that stand for a construct of Lua 5.3, each with what to write instead.
const FOREIGN: &[(&str, &str)] = &[
    ("<<", "Luau has no `<<`; write bit32.lshift(a, n), on 32 bits"),
    (">>", "Luau has no `>>`; write bit32.rshift(a, n), on 32 bits"),
    ("&", "Luau has no `&`; write bit32.band(a, b), on 32 bits"),
    ("~", "Luau has no `~`; write bit32.bxor(a, b) or bit32.bnot(a), on 32 bits"),
];
const BITWISE_OR: &str = "Luau has no `|`; write bit32.bor(a, b), on 32 bits";
const GOTO: &str = "Luau has no `goto`; write a loop with `continue` or `break`";
const ZERO_DIVISION: &str = "in Luau `// 0` is infinite or not a number, where Lua 5.3 fails for integers; test for 0 first";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    line: u32,
    column: u32,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Name,
    Keyword,
    Number,
    Text,
    Sign,
}

impl Token<'_> {
    fn is(&self, text: &str) -> bool {
        self.text == text && matches!(self.kind, Kind::Keyword | Kind::Sign)
    }
}

/// The names that a source reads and does not define, each position once.
pub fn free_names(source: &str) -> Vec<FreeName> {
    let tokens = tokens(source);
    let own = own_names(&tokens);
    let mut names = vec![];
    for (at, token) in tokens.iter().enumerate() {
        if token.kind != Kind::Name || own.contains(token.text) || !is_read(&tokens, at) {
            continue;
        }
        let field = match &tokens[at + 1..] {
            [dot, field, ..] if dot.is(".") && field.kind == Kind::Name => {
                Some(field.text.to_owned())
            }
            _ => None,
        };
        let global = token.text.to_owned();
        names.push(FreeName { line: token.line, column: token.column, global, field });
    }
    names
}

/// Constructs of Lua 5.3 in a source, in their order.
pub fn foreign_constructs(source: &str) -> Vec<ForeignConstruct> {
    let tokens = tokens(source);
    let mut found = vec![];
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        let is_before = |kind| next.is_some_and(|next| next.kind == kind);
        let advice = match token.kind {
            Kind::Sign if token.text == "//" && next.is_some_and(|next| next.text == "0") => {
                Some(ZERO_DIVISION)
            }
            // In types it is an alternative.
            Kind::Sign if token.text == "|" && is_before(Kind::Number) => Some(BITWISE_OR),
            Kind::Sign => {
                FOREIGN.iter().find(|(sign, _)| *sign == token.text).map(|(_, advice)| *advice)
            }
            Kind::Name if token.text == "goto" && is_before(Kind::Name) => Some(GOTO),
            _ => None,
        };
        if let Some(advice) = advice {
            found.push(ForeignConstruct { line: token.line, column: token.column, advice });
        }
    }
    found
}

/// Whether a name is read here, and is not the name of a field or key.
fn is_read(tokens: &[Token<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    let is_field =
        before.is_some_and(|before| [".", ":", "::", "->"].iter().any(|sign| before.is(sign)));
    !is_field && !is_key(tokens, at)
}

/// Whether a name is a key of a table (`{ name = …`) or of a table type (`{ name: …`).
fn is_key(tokens: &[Token<'_>], at: usize) -> bool {
    let follows = at
        .checked_sub(1)
        .is_some_and(|before| ["{", ",", ";"].iter().any(|sign| tokens[before].is(sign)));
    let is_named = match &tokens[at + 1..] {
        [sign, ..] if sign.is("=") => true,
        // `{ object:method(…` reads the object.
        [sign, _, after, ..] if sign.is(":") => !after.is("("),
        _ => false,
    };
    follows && is_named && innermost_bracket(&tokens[..at]) == Some("{")
}

/// The bracket that is open at the end of some tokens.
fn innermost_bracket<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let mut closed = 0;
    for token in tokens.iter().rev().filter(|token| token.kind == Kind::Sign) {
        match token.text {
            ")" | "]" | "}" => closed += 1,
            "(" | "[" | "{" if closed > 0 => closed -= 1,
            "(" | "[" | "{" => return Some(token.text),
            _ => {}
        }
    }
    None
}

/// Every name that the source declares or assigns.
fn own_names<'a>(tokens: &[Token<'a>]) -> HashSet<&'a str> {
    let mut own = HashSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        if token.is("local") || token.is("for") || token.is("type") {
            declared(&tokens[at + 1..], &["=", "in"], &mut own);
        } else if token.is("function") {
            own.extend(next.filter(|next| next.kind == Kind::Name).map(|next| next.text));
            let open = tokens[at..].iter().position(|token| token.is("("));
            declared(&tokens[at + open.unwrap_or(0)..], &[")"], &mut own);
        } else if token.kind == Kind::Name
            && next.is_some_and(|next| next.is("=") || next.is(","))
            && is_read(tokens, at)
            && (next.is_some_and(|next| next.is("=")) || is_assigned_later(&tokens[at..]))
        {
            own.insert(token.text);
        }
    }
    own
}

/// Whether `a, b, c` is followed by `=`.
fn is_assigned_later(tokens: &[Token<'_>]) -> bool {
    let mut rest = tokens.iter().skip_while(|token| token.kind == Kind::Name || token.is(","));
    rest.next().is_some_and(|token| token.is("="))
}

/// Collects a list of declared names. It ends at one of `ends`, or at a token that continues no
/// list of names.
fn declared<'a>(tokens: &[Token<'a>], ends: &[&str], own: &mut HashSet<&'a str>) {
    for (at, token) in tokens.iter().enumerate() {
        if ends.iter().any(|end| token.is(end)) || token.is("function") {
            return;
        }
        let follows_name = at > 0 && tokens[at - 1].kind == Kind::Name;
        if token.kind == Kind::Name && follows_name || token.kind == Kind::Keyword && at > 0 {
            return;
        }
        if token.kind == Kind::Name {
            own.insert(token.text);
        }
    }
}

fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = vec![];
    let (mut rest, mut line, mut column) = (source, 1, 1);
    while let Some(first) = rest.chars().next() {
        let (length, kind) = next_token(rest, first);
        let (text, behind) = rest.split_at(length);
        if let Some(kind) = kind {
            let is_keyword =
                kind == Kind::Name && KEYWORDS.contains(&text) && !is_plain_type(text, behind);
            let kind = if is_keyword { Kind::Keyword } else { kind };
            found.push(Token { text, line, column, kind });
        }
        match text.rfind('\n') {
            Some(last) => {
                line += text.matches('\n').count() as u32;
                column = text[last + 1..].chars().count() as u32 + 1;
            }
            None => column += text.chars().count() as u32,
        }
        rest = behind;
    }
    found
}

/// `type` is a function, unless a name follows: `type Name = …`.
fn is_plain_type(text: &str, behind: &str) -> bool {
    let next = behind.trim_start_matches([' ', '\t']).chars().next();
    text == "type" && !next.is_some_and(|next| next.is_alphabetic() || next == '_')
}

/// The length in bytes of the source's first token, and its kind; `None` for blanks and comments.
fn next_token(source: &str, first: char) -> (usize, Option<Kind>) {
    if let Some(text) = source.strip_prefix("--") {
        let long = text.starts_with('[').then(|| long_bracket_bytes(text)).flatten();
        return (2 + long.unwrap_or_else(|| text.find('\n').unwrap_or(text.len())), None);
    }
    match first {
        _ if first.is_whitespace() => (first.len_utf8(), None),
        '"' | '\'' | '`' => (quoted_bytes(source.as_bytes()), Some(Kind::Text)),
        '[' => match long_bracket_bytes(source) {
            Some(length) => (length, Some(Kind::Text)),
            None => (1, Some(Kind::Sign)),
        },
        _ if first.is_ascii_digit() => {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            let length = source.find(|c| !is_part(c)).unwrap_or(source.len());
            // `1..x` joins.
            (source[..length].find("..").unwrap_or(length).max(1), Some(Kind::Number))
        }
        _ if first.is_alphabetic() || first == '_' => {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            (source.find(|c| !is_part(c)).unwrap_or(source.len()), Some(Kind::Name))
        }
        _ => {
            let operator = OPERATORS.iter().find(|operator| source.starts_with(**operator));
            (operator.map_or(first.len_utf8(), |operator| operator.len()), Some(Kind::Sign))
        }
    }
}

/// Of `[[…]]`, `[=[…]=]` and so on; `None` if it is a bracket of another kind.
fn long_bracket_bytes(source: &str) -> Option<usize> {
    let level = source[1..].bytes().take_while(|byte| *byte == b'=').count();
    if source.as_bytes().get(1 + level) != Some(&b'[') {
        return None;
    }
    let end = format!("]{}]", "=".repeat(level));
    Some(source.find(&end).map_or(source.len(), |at| at + end.len()))
}

fn quoted_bytes(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == bytes[0] => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        free_names(source).iter().map(FreeName::path).collect()
    }

    #[test]
    fn a_name_declared_anywhere_in_a_source_counts_as_defined() {
        for (source, expected) in [
            ("local a, b = 1 return a + b + c", &["c"][..]),
            ("function f(x, ...) return x + y end f(1)", &["y"]),
            ("local function g(x) return g(x - 1) end", &[]),
            ("for i, v in ipairs(t) do print(i, v) end", &["ipairs", "t", "print"]),
            ("for n = 1, last do use(n) end", &["last", "use"]),
            ("a, b = b, a", &[]),
            (
                "x = { load = 1, [key] = io.open, f = function(p) return p end }",
                &["key", "io.open"],
            ),
            ("return s:rep(2) .. t.x.y", &["s", "t.x"]),
            ("-- load\n--[[ io ]] return 'os' .. [[debug]]", &[]),
            ("type Pair = { a: number } local p: Pair = make() return type(p)", &["make", "type"]),
            ("local add = function(a: number, b: number?): number return a + b end", &[]),
            ("function m.add(self) return self.x end", &[]),
            ("call(a, b)", &["call", "a", "b"]),
            ("local x\nlocal y = z", &["z"]),
            ("local x print(x)", &["print"]),
            ("x += 1", &["x"]),
            ("return { object:method(), 1 }", &["object"]),
            ("return 1..n", &["n"]),
        ] {
            assert_eq!(paths(source), expected, "{source}");
        }
    }

    #[test]
    fn a_name_has_its_line_and_column() {
        let names = free_names("local ü = 'ä'\n\treturn load('x')");
        assert_eq!((names[0].line, names[0].column), (2, 9));
    }

    #[test]
    fn constructs_of_lua_53_are_found_with_what_to_write_instead() {
        for (source, advice) in [
            ("return a << 2", "lshift"),
            ("return a >> 2", "rshift"),
            ("return a & b", "band"),
            ("return a | 7", "bor"),
            ("return a ~ b", "bxor"),
            ("return ~a", "bnot"),
            ("goto done", "continue"),
            ("return n // 0", "infinite"),
        ] {
            let found = foreign_constructs(source);
            assert_eq!(found.len(), 1, "{source}");
            assert!(found[0].advice.contains(advice), "{source}: {}", found[0].advice);
        }
        for source in
            ["return a ~= b", "local x: number | nil = 1", "-- a & b", "return goto_", "x //= 2"]
        {
            assert!(foreign_constructs(source).is_empty(), "{source}");
        }
    }

    #[test]
    fn fuzz_sources_of_which_names_are_read() {
        let samples = [b"local a, b = {x = 1} function f(c) return a.b .. 'x' end".to_vec()];
        nacre_fuzz::fuzz(env!("CARGO_MANIFEST_DIR"), "names", &samples, |input| {
            let Ok(source) = std::str::from_utf8(input) else { return false };
            free_names(source);
            foreign_constructs(source);
            true
        });
    }
}
