//! Histories of concurrent clients, and what must be true of them whatever the clients did.
//!
//! A workload writes into a [`Recorder`] what it asks and what it hears, and judges nothing. The
//! checkers here judge the history afterwards and know nothing of the workload: a [`Model`] says
//! what one client at a time would see, and [`check`] finds an order of the calls, each at some
//! moment between its begin and its end, in which the model answers what the clients heard. If
//! there is none the history is not linearizable.
//!
//! **Invariant:** a call without an answer (a lost reply, a timeout) is *unknown*: it may have
//! happened, may happen at any later time, or never. Only [`Recorder::never_happened`] takes a call
//! out of the history, and only for an error that promises so.

mod linearizable;
mod log_checks;
mod map_model;
mod object_model;
mod recorder;

pub use linearizable::{Model, check};
pub use log_checks::{Cell, LogAnswer, LogCall, check_log};
pub use map_model::{MapAnswer, MapCall, MapModel};
pub use object_model::{ObjectAnswer, ObjectCall, ObjectModel};
pub use recorder::{Operation, Recorder, Ticket};
