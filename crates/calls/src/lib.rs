//! Encodes calls of classes and decodes their replies: rows of Brados classes, batches of requests,
//! and scripts that come with a call.
//!
//! A client that calls classes needs only this crate, not the compiler or the VM.

mod batch;
mod channels;
mod eval;
mod tuple;
mod value;

pub use batch::{
    BATCH_SUFFIX, Batch, MAX_BATCH_REQUESTS, Progress, decode_answers, encode_batch,
    encode_batch_with, refusal,
};
pub use channels::{ENQUEUE, NOTIFY, REMOVE_OBJECT, is_enqueue};
pub use eval::{EVAL_BUFFERLIST, EVAL_JSON, EvalRequest, LUA_CLASS};
pub use tuple::{
    OutputRows, Undecodable, decode_reply, decode_request, encode_request, put_request,
    read_request,
};
pub use value::{Base, Type, Value};

/// The method of every Brados class that moves an object's rows into the layout of the class.
pub const MIGRATE_METHOD: &str = "layout_migrate";

/// The most columns of a collection. One call of Lua packs or unpacks a row, so all values of the
/// row are on Lua's stack at once.
pub const MAX_COLUMNS: usize = 32;
/// The greatest absolute value of an integer. Luau stores numbers as doubles, which are exact only
/// up to 2^53.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;
