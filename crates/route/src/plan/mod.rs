//! Plans a request by the rules of a switch: sends the whole request to one destination, splits it,
//! or refuses it.

mod join;
mod split;

pub use join::{PieceReply, join};
pub(crate) use split::part_of;
pub use split::{Piece, PieceOps, Plan, plan};
