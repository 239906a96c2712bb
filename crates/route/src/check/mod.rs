//! Analysis of a whole rule set before it is installed: header-space analysis (Kazemian, Varghese, McKeown, NSDI 2012)
//! with ranges of bytes.
//!
//! 1. [`witnesses`] finds one object for each combination of rules that some object meets.
//! 2. For each source and operation that rules tell apart, [`trace`] follows the IO through all switches. The ranges
//!    of the rules split it on its way, so every byte is followed.
//! 3. The ways are judged. Each [`Finding`] names an IO and its way.

mod analysis;
mod findings;
mod reads;
mod trace;
mod witnesses;

pub use analysis::check;
pub use findings::{Checked, Finding, FindingKind};
pub use trace::{End, Endpoint, Hop, Network, Reason, Way, trace};
