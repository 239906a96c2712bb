//! The metrics of the storage role.

mod channels;
mod engine;
mod rados;

pub(super) use channels::ChannelsCollector;
pub(super) use engine::EngineCollector;
pub(super) use rados::RadosCollector;
