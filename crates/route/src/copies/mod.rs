//! Copies of objects for reads (*scatter routing*, sRoute paper, sections 2 and 5.2): which copies
//! are current, and which of them serves a read. The switch that routes an object's IO uses it.
//!
//! A rule such as `* r data/hot/* -> one storage.0,storage.1 least-loaded` lets reads of an object
//! go to copies. All IO of an object passes one switch, so this switch alone decides which copies
//! are current. If nodes keep the objects, it is the switch of the object's home; on Ceph, that of
//! one gateway.
//!
//! # Protocol
//!
//! 1. [`Copies::read`]: a read arrives. It goes home, or to a target with a current copy. The
//!    answer may also say at which targets the runtime has to make copies.
//! 2. [`Copies::change_began`]: something arrives that may change the object. From this moment on
//!    no read goes to a copy of it. The runtime sends the change to the engine only afterwards.
//! 3. [`Copies::change_ended`]: the engine has executed the change, or never will. An engine that
//!    only has not answered may still execute it.
//! 4. [`Copies::made`]: a copy is complete. It becomes current only if no change began since the
//!    switch ordered it.
//!
//! A rule such as `* rw data/hot/* -> all storage.0,storage.1` also applies plain writes to the
//! copies, so that they stay current. [`updates`] has the protocol.
//!
//! Each copy has a [`CopyTag`], which is never used twice, and the writes of a copy are numbered
//! ([`CopyWrite`]). A node applies them in this order, and serves a read only from the copy and the
//! state that the switch names ([`CopyState`]). So a late or repeated message can make a copy
//! useless, but never makes a read return other bytes than those of the named state.
//!
//! # Invariants
//!
//! - A current copy has the bytes that the object has at its home, until a change or update begins.
//! - After a restart, a switch knows no copy, so all reads go home.
//! - While a change is in flight, the switch orders no copies of its object.

mod choice;
mod head;
mod messages;
mod missed;
mod of_object;
mod stored;
mod targets;
mod tracker;
mod update;
mod updates;

pub use head::{CopyData, CopyHead, CopyState, CopyStep, CopyTag, CopyWrite};
pub use messages::{
    CopySettings, CopySummary, CopyToDrop, MadeCopy, MakeFailure, Making, PlannedRead, ReadFailure,
    ReadFrom,
};
pub use missed::Missed;
pub use stored::{COPIED_CLASS, CopyDrop, copied_class};
pub use tracker::Copies;
pub use update::{CopyUpdate, Update, UpdateEnd, UpdateFailure};
