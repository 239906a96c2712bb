//! What becomes of one request under the rules of a switch: it goes one way, or is split, or is refused.

mod join;
mod split;

pub use join::{PieceReply, join};
pub(crate) use split::part_of;
pub use split::{Piece, Plan, plan};
