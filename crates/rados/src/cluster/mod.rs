//! The Ceph cluster: how it is reached, what its monitors know, and where it keeps an object.

pub(crate) mod administrator;
pub(crate) mod connection;
pub(crate) mod examination;
pub(crate) mod failure;
pub(crate) mod fencing;
pub(crate) mod key_search;
pub(crate) mod location;
pub(crate) mod osd_counters;
pub(crate) mod osd_map;
pub(crate) mod placement_seed;
pub(crate) mod plain_client;
pub(crate) mod primaries;
