//! Fencing: one client of a Ceph cluster shuts another one out.
//!
//! A client that takes over the work of another client must be sure that no operation of the
//! other client has an effect any more, not even one that is still on its way. Ceph's OSDs refuse
//! the operations of a client whose address is in the blocklist of the cluster's map. An OSD
//! applies a map before it serves a client that has that map. So once a client has waited for the
//! map with the new entry, every OSD that serves the client afterwards refuses the other client.

use nacre_object::{Error, ErrorKind, Result};
use serde_json::json;

use crate::cluster::failure::{operation_failed, status};
use crate::ffi::Cluster;

/// The cluster refuses the connection for one year. A client that is shut out ends at its next
/// operation, so only a process that was paused for longer could use the connection again. The
/// cluster's map keeps one address for each such client.
const EXPIRES_SECONDS: f64 = 365.0 * 86_400.0;

/// The address by which the cluster knows a connection. Each connection has its own.
pub fn address(cluster: &Cluster) -> Result<String> {
    cluster.addresses().map_err(operation_failed)
}

/// Shuts the connection with this address out, and waits for the cluster's new map.
pub fn shut_out(cluster: &Cluster, address: &str) -> Result<()> {
    let command = json!({
        "prefix": "osd blocklist",
        "blocklistop": "add",
        "addr": address,
        "expire": EXPIRES_SECONDS,
    });
    let refused = |refusal: crate::ffi::Refusal| match refusal.status {
        -13 | -1 => Error::denied("the Ceph user may not shut out another client").hint(
            "allow it: ceph auth caps client.USER mon 'allow r, allow command \"osd blocklist\"' …",
        ),
        status => operation_failed(status),
    };
    cluster.ask_for_reason(&command.to_string()).map_err(refused)?;
    cluster.wait_for_latest_map().map_err(operation_failed)
}

/// Whether an operation failed because another client has shut this one out.
pub fn is_shut_out(error: &Error) -> bool {
    let refused = operation_failed(status::SHUT_OUT);
    error.kind() == ErrorKind::Unavailable && error.message() == refused.message()
}
