//! Plans a request by the rules of a switch: the whole request goes to one destination, or it is
//! split, or it is refused.

mod join;
mod split;

pub use join::{PieceReply, join};
pub(crate) use split::part_of;
pub use split::{Piece, Plan, plan};
