//! The number of a trace or a span.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id of a trace or of a span; 0 means none. It is written as 16 hexadecimal digits, also in
/// JSON: many JSON readers convert numbers to doubles, which cannot hold 64 bits.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub struct Id(pub u64);

impl Id {
    /// No trace, or no parent.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A text that is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id is 16 hexadecimal digits")
    }
}

impl std::error::Error for NotAnId {}

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or(NotAnId)
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for Id {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Self, NotAnId> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_parsed_only_from_its_written_form() {
        for id in [Id(1), Id(u64::MAX), Id::NONE] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "1", "+000000000000001", "00000000000000001", "000000000000000g"] {
            assert_eq!(text.parse::<Id>(), Err(NotAnId), "{text:?}");
        }
    }
}
