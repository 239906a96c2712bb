//! Delivering what objects send.
//!
//! A request of a Brados class may send: have its object removed, its watchers notified, a method of
//! another object called (`nacre_brados::delivery`). The message is stored in the object by the request's
//! own transaction, numbered; a courier, one a process that runs methods, delivers it afterwards.
//!
//! - Before a request that may send is carried out, its object is *marked* in a ledger, durably
//!   ([`SendingLayer`]). A mark stays until nothing was sent for a while, so a busy object pays for it once.
//!   Every courier goes over the ledgers from time to time: messages of who died are delivered by another.
//! - After it, the courier looks into the object, delivers in order, and settles with the sender what is
//!   done. Two couriers may do so at once.
//! - A call of another object and the note that this message was received are one transaction there; a
//!   message that was noted is done. So it is carried out once, whatever is lost or repeated.
//! - What can never be delivered is kept in the sender as a dead letter and told in the cluster log; what
//!   may pass is tried again for an hour, while messages to others go on. An operator has a dead letter
//!   delivered again once its reason is gone ([`resend`]).
//! - A receiver forgets senders whose messages are settled, without which it would grow for ever.
//!
//! **Invariants.** A message is acknowledged with the request that sent it, delivered after, and never
//! forgotten: it waits, or was delivered, or is a dead letter. Messages of one sender to one receiver are
//! received in the order of their numbers. A delivered call has the rights of whose request sent it, and no
//! others: nodes vouch for that by their marks, which nobody else can make.

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
pub use courier::{Courier, Surroundings};
pub use limits::Pace;
pub use message::WaitingMessage;
pub use outbox::{DeadMessage, OutboxPage, read_outbox};
pub use resend::{DeadLetters, resend};
pub use sending_layer::{SendingLayer, Sends};
pub use stats::DeliveryStats;
