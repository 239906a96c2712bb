//! Analyses a whole set of rules before it is installed. The method is header-space analysis
//! (Kazemian, Varghese, McKeown, NSDI 2012), extended by ranges of bytes.
//!
//! 1. [`witnesses`] finds one object for each combination of rules that match a common object.
//! 2. For each source and operation that the rules distinguish, [`trace`] follows an IO through all
//!    switches. Where rules divide the IO into ranges, it follows each range, so no byte is missed.
//! 3. The analysis judges the paths. Each [`Finding`] names an IO and its path.

mod analysis;
mod findings;
mod reads;
mod trace;
mod witnesses;

pub use analysis::check;
pub use findings::{Checked, Finding, FindingKind};
pub use trace::{End, Endpoint, Hop, Network, Reason, Way, trace};
