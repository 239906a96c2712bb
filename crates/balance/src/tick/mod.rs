//! The inputs and the result of a decision, as plain data that can be stored and replayed.

mod decision;
mod inputs;
mod mode;
mod rank_load;
mod state;
mod unit;

pub use decision::{Decision, LogLine, Move};
pub use inputs::Inputs;
pub(crate) use inputs::check_unit_count;
pub use mode::Mode;
pub use rank_load::RankLoad;
pub use state::State;
pub use unit::Unit;
