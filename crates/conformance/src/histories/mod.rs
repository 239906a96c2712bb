//! Histories of concurrent clients, and checks that must hold for every history.
//!
//! A workload only records its calls and their answers in a [`Recorder`]. Afterwards a checker
//! judges the history, without knowing the workload. A [`Model`] says what a single client would
//! see. [`check`] looks for an order of the calls in which the model gives the recorded answers;
//! each call takes effect at some time between its begin and its end. If there is no such order,
//! the history is not linearizable.
//!
//! **Invariant:** a call without an answer (a lost reply, a timeout) is *unknown*: it may have
//! happened, may happen at any later time, or never. Only [`Recorder::never_happened`] removes a
//! call from the history. It may be used only after an error which guarantees that the call never
//! happens.

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
