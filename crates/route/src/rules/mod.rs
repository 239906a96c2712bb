//! The rules of one switch, and how an IO finds its rule.

mod prefix_map;
mod range_index;
mod slot;
mod table;

pub use prefix_map::PrefixMap;
pub use table::{Placement, RuleTable, Segment};
