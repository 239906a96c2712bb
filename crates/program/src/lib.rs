//! Descriptions of programs, as data: the digest that names a source, the interface of each kind of
//! program, and the budget of a run. Clients describe programs with this crate; `nacre-script` runs
//! them.

mod budget;
mod digest;
mod excerpt;
mod interface;
mod limit;

pub use budget::{
    Budget, DEFAULT_MEMORY_BYTES, DEFAULT_OUTPUT_BYTES, DEFAULT_STEPS, DEFAULT_TIME,
    MAX_SOURCE_BYTES,
};
pub use digest::Digest;
pub use excerpt::{excerpt, line_of};
pub use interface::{Constants, FunctionSpec, Interface, Item};
pub use limit::Limit;
