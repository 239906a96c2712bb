//! What calls of classes carry: the rows of requests and replies of Brados classes, many requests as one batch, and
//! a script that comes with its call.
//!
//! Clients encode calls and decode replies with this crate. They need neither the compiler nor the VM for it.

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

/// Columns of a collection: a row is packed and unpacked by one call, whose values lie on Lua's
/// stack.
pub const MAX_COLUMNS: usize = 32;
/// The greatest whole number, either sign: numbers of Luau are doubles, and from 2^53 on a sum may be
/// rounded to it.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;
