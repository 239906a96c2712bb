//! Analysis of a whole rule set before it is installed: header-space analysis (Kazemian, Varghese,
//! McKeown, NSDI 2012), extended by ranges of bytes.
//!
//! 1. [`witnesses`] finds one object for each combination of rules that match a common object.
//! 2. For each source and operation that the rules distinguish, [`trace`] follows an IO through all
//!    switches. The ranges of the rules split the IO on its way, so every byte is followed.
//! 3. The analysis judges the paths. Each [`Finding`] names an IO and its path.

mod analysis;
mod findings;
mod reads;
mod trace;
mod witnesses;

pub use analysis::check;
pub use findings::{Checked, Finding, FindingKind};
pub use trace::{End, Endpoint, Hop, Network, Reason, Way, trace};
