//! Values and their types.

use std::fmt;

/// What a column holds, nil aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// A whole number below 2^53, either sign.
    Int,
    /// A text.
    String,
    /// Any bytes.
    Bytes,
    /// A boolean.
    Bool,
}

impl Base {
    /// Every one.
    pub const ALL: [Base; 4] = [Self::Int, Self::String, Self::Bytes, Self::Bool];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Bool => "bool",
        }
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type {
    /// Besides nil.
    pub base: Base,
    /// Whether nil is among it.
    pub may_be_nil: bool,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.base.as_str(), if self.may_be_nil { "?" } else { "" })
    }
}

/// The value of a column in a row. Strings and bytes are one kind of value here; the type of the
/// column tells them apart.
///
/// Values are ordered as in replies and in scans of tables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Nothing.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text or bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// A text.
    pub fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Bytes(bytes) => {
                f.write_str("'")?;
                for chunk in bytes.utf8_chunks() {
                    chunk.valid().chars().try_for_each(|character| write_shown(f, character))?;
                    write!(f, "{}", chunk.invalid().escape_ascii())?;
                }
                f.write_str("'")
            }
        }
    }
}

/// Writes a character of a string for people to read. The parser reads the written form back as the
/// same character.
fn write_shown(f: &mut fmt::Formatter<'_>, character: char) -> fmt::Result {
    match character.is_ascii() || character.is_control() {
        true => write!(f, "{}", character.encode_utf8(&mut [0; 4]).as_bytes().escape_ascii()),
        false => write!(f, "{character}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_prints_text_as_it_is_and_escapes_other_bytes() {
        for (bytes, shown) in [
            ("grün 日本".as_bytes(), "'grün 日本'"),
            (b"it's \\ \n\0", r"'it\'s \\ \n\x00'"),
            (b"a\xffb\xc3", r"'a\xffb\xc3'"),
            ("\u{85}".as_bytes(), r"'\xc2\x85'"),
        ] {
            assert_eq!(Value::Bytes(bytes.to_vec()).to_string(), shown);
        }
    }
}
