//! The authority's side: who holds what, who waits, and when a grant ends.

mod core;
mod granted;
mod recent;
#[cfg(test)]
mod tests;

pub use self::core::{Authority, Command, Event, Question};
pub use granted::Granted;
