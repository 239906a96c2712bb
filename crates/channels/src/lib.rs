//! Delivers the messages that objects send.
//!
//! A request of a Brados class may send messages: to have its object removed, its watchers
//! notified, or a method of another object called (`nacre_brados::delivery`). The request's own
//! transaction stores the message in the object under a number. Afterwards a courier delivers it;
//! every process that runs methods has one.
//!
//! - Before a request that may send runs, the courier stores a *mark* of its object in a *ledger*,
//!   an object of the system pool ([`SendingLayer`]). The mark stays until the object has sent
//!   nothing for a while, so a busy object is marked only once. Every courier reads the ledgers
//!   from time to time. So it finds the objects of processes that died, and delivers their
//!   messages.
//! - After the request, the courier reads the object's messages, delivers them in order, and
//!   *settles* them: it removes them from the sender. Two couriers may do so at the same time.
//! - One transaction on the receiver makes the call and stores a note that the message was
//!   received. A message with a note is not delivered again. So the call is made once, even if
//!   requests or replies are lost or repeated.
//! - A message that can never be delivered is kept in the sender as a dead letter and reported to
//!   the cluster log. A message that may succeed later is tried for an hour, while messages to
//!   others go on. An operator can have a dead letter delivered again ([`resend`]).
//! - A receiver removes its notes of senders whose messages are settled. Otherwise the notes would
//!   grow forever.
//!
//! **Invariants:**
//! - A message is acknowledged with the request that sent it, delivered afterwards, and never lost:
//!   it waits, was delivered, or is a dead letter.
//! - Messages of one sender to one receiver are received in the order of their numbers.
//! - A delivered call has the rights of the entity whose request sent it, and no others. A mark
//!   names that entity, and only nodes can make marks.

mod call_rule;
mod class;
mod courier;
mod delivery;
mod format;
mod inbox;
mod ledger;
mod limits;
mod marks;
mod message;
mod outbox;
mod page;
mod resend;
mod round;
mod schedule;
mod sending_layer;
mod stats;
mod sweep;

pub use call_rule::channels_call_rule;
pub use class::channels_class;
pub use courier::{Courier, CourierContext};
pub use limits::Pace;
pub use message::WaitingMessage;
pub use outbox::{DeadMessage, OutboxPage, read_outbox};
pub use resend::{DeadLetters, resend};
pub use sending_layer::{SendingLayer, Sends};
pub use stats::DeliveryStats;
