//! The file format in which people write rules: the network, the grants, and the rules of each
//! switch, one item per line.

mod parse;
mod print;
mod routes;
mod stored;
mod topology;

pub use routes::{Grant, Insertion, Routes};
pub use stored::{
    APPLICATION_PREFIX, CONTROL_PREFIX, NamedPrograms, StoredApplication, StoredInsertion,
};
pub use topology::{Location, Topology};
