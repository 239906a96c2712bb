//! Injected time and seeded randomness: nothing below the runtime reads either by itself.

mod random;
mod time;

pub use random::Random;
pub use time::{Clock, ManualClock, SystemClock};
