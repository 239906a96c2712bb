//! The node's side: serves hosted state machines, takes them over and hands them over.

mod forwarding;
mod hand_over;
mod host;
mod hosting;
mod proposal;
mod slot;
mod takeover;

pub use forwarding::{ClientRouting, FORWARD_PATIENCE, Forward};
pub use hand_over::HAND_OVER_PATIENCE;
pub use host::{BUSY_AFTER, Host, Looks};
pub use hosting::{CommandOf, EventOf, FoundOf, Hosting, NameOf};
pub use proposal::{PausedMachine, propose_while_serving};
pub use slot::{Look, NotReady, Slot};
