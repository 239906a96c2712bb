//! Ids that no two clusters or targets share.

use std::fmt;
use std::str::FromStr;

use nacre_clock::Random;
use serde::{Deserialize, Serialize};

/// How many hexadecimal digits an id has.
const DIGITS: usize = 32;

/// The id of a cluster or of a storage target: 128 random bits, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct UniqueId(u128);

impl UniqueId {
    /// An id that nothing else has.
    pub fn fresh() -> Self {
        // Draw two seeds from the operating system, because one has only 64 bits.
        let half = || u128::from(Random::from_system().next_u64());
        Self(half() << 64 | half())
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl From<UniqueId> for String {
    fn from(id: UniqueId) -> Self {
        id.to_string()
    }
}

impl FromStr for UniqueId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(id) if is_hexadecimal && text.len() == DIGITS => Ok(Self(id)),
            _ => Err(format!("{text:?} is not an id: an id has {DIGITS} hexadecimal digits")),
        }
    }
}

impl TryFrom<String> for UniqueId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_be_parsed_and_anything_else_is_refused() {
        let id = UniqueId::fresh();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(id, UniqueId::fresh());
        for wrong in ["", "12", "+0000000000000000000000000000012", &"g".repeat(DIGITS)] {
            assert!(wrong.parse::<UniqueId>().is_err(), "{wrong:?}");
        }
    }
}
