//! Both ends of the protocol together, over real sockets, with faults between them.

mod bounds;
mod conformance;
mod deadlines;
mod harness;
mod hostile;
mod identity;
mod linearizability;
mod link;
mod namespaces;
mod ordering;
mod protocol;
mod proxy;
mod python;
mod raw;
mod reconnect;
mod refusals;
mod second_session;
mod watches;
