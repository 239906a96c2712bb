//! The data types of routing: the IO that a rule matches, and the destination to which the rule
//! sends it (sRoute paper, section 3).

mod declared;
mod destination;
mod header;
mod io;
mod object_match;
mod operation;
mod rule;
mod source;
mod span;
pub(crate) mod text;

pub use declared::{Declared, Programs, declare};
pub use destination::{Ask, Choice, Destination, Erasure, Scatter, Take};
pub use header::Header;
pub use io::{Io, Touch, touches, touches_bytes};
pub use nacre_object::{ApplicationName, LayerName, SwitchName};
pub use object_match::{ObjectMatch, Pattern, text_of};
pub use operation::{Operation, Operations};
pub use rule::{Follow, Options, Prepare, Replies, Rule, RuleId, longest_prefix_first};
pub use source::SourceMatch;
pub use span::Span;
