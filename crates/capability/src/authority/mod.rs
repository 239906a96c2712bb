//! The authority's side: decides which clients hold capabilities, which clients wait, and when a
//! grant ends.

mod core;
mod granted;
mod recent_requests;
#[cfg(test)]
mod tests;

pub use self::core::{Authority, Command, Event, Question};
pub use granted::Granted;
