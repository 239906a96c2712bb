//! Rows in the map whose key is one number.

use super::encoding::quoted;
use super::runtime::Runtime;
use crate::limits::MAX_INTEGER;

/// The key of a row whose key is one number.
pub(super) struct IntKey {
    /// The prefix of all keys of its table.
    pub prefix: String,
    /// The number, as it is spelled.
    pub number: String,
}

impl IntKey {
    /// The first arguments of `map_get_int` and its like, which make the key.
    pub fn arguments(&self) -> String {
        format!("{}, {}", quoted(self.prefix.as_bytes()), self.number)
    }

    /// A Lua expression for the whole key.
    pub fn text(&self, runtime: &mut Runtime) -> String {
        let (make, number) = (runtime.need("hex_key"), &self.number);
        let behind = |sign: char| quoted(format!("{}{sign}", self.prefix).as_bytes());
        let (plus, minus) = (behind('p'), behind('m'));
        format!(
            "({number} >= 0 and {make}({plus}, {number}) or {make}({minus}, {number} + {}))",
            MAX_INTEGER + 1
        )
    }
}
