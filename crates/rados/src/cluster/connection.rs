//! Connects to a cluster: loads librados, finds ceph.conf and the key, and asks the monitors.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use nacre_object::{Error, Result};

use crate::RadosOptions;
use crate::cluster::failure::{Attempt, connection_failed, operation_failed};
use crate::cluster::key_search::{KeySearch, KeySettings};
use crate::ffi::{Cluster, IoContext, Library};
use crate::in_flight::{LIBRADOS_BYTES, LIBRADOS_OPERATIONS};

/// Connects to a cluster. Waits for the monitors for at most the `connect_timeout` of the options.
///
/// # Errors
/// `Unsupported` without librados; `Invalid`, `Denied` or `Unavailable`. Each error says what to
/// check.
pub fn connect(options: &RadosOptions) -> Result<Arc<Cluster>> {
    let library = Library::load()?;
    let conf = options.conf.as_ref().map_or_else(
        || "Ceph's usual configuration (/etc/ceph/ceph.conf)".to_owned(),
        |path| path.display().to_string(),
    );
    let cluster = Cluster::new(library, &c_string(options.user.as_bytes())?).map_err(|status| {
        let name = std::io::Error::from_raw_os_error(status.saturating_neg());
        Error::unavailable(format!(
            "librados cannot make the client client.{} ({name})",
            options.user
        ))
    })?;
    let file = options.conf.as_ref().map(|path| c_string(path.as_os_str().as_bytes()));
    let read = cluster.read_configuration(file.transpose()?.as_deref());
    read.map_err(|status| unreadable(status, &conf, options))?;
    let failed = |status| connection_failed(status, &attempt(&cluster, &conf, &options.user));
    for (option, limit) in [
        (c"client_mount_timeout", options.connect_timeout),
        (c"rados_mon_op_timeout", options.operation_timeout),
        (c"rados_osd_op_timeout", options.operation_timeout),
    ] {
        set_number(&cluster, option, limit.as_secs().max(1)).map_err(failed)?;
    }
    for (option, bound) in [
        (c"objecter_inflight_ops", LIBRADOS_OPERATIONS),
        (c"objecter_inflight_op_bytes", LIBRADOS_BYTES),
    ] {
        set_number(&cluster, option, bound as u64).map_err(failed)?;
    }
    cluster.connect().map_err(failed)?;
    Ok(Arc::new(cluster))
}

/// Opens a namespace of the pool that the options name.
///
/// # Errors
/// `NotFound` if there is no such pool. The error says how to create it.
pub fn open(
    cluster: &Arc<Cluster>,
    options: &RadosOptions,
    namespace: &str,
) -> Result<Arc<IoContext>> {
    let pool = &options.pool;
    match IoContext::open(cluster.clone(), pool, namespace) {
        Ok(context) => Ok(Arc::new(context)),
        Err(-2) => Err(Error::not_found(format!("the Ceph cluster has no pool {pool}")).hint(
            format!("make it: ceph osd pool create {pool} && ceph osd pool application enable {pool} nacre"),
        )),
        Err(status) => Err(operation_failed(status)),
    }
}

/// The error for a configuration that librados cannot read. librados itself hardly says why.
fn unreadable(status: i32, conf: &str, options: &RadosOptions) -> Error {
    let read = options.conf.as_ref().map(std::fs::read);
    let name = std::io::Error::from_raw_os_error(status.saturating_neg());
    let text = match read {
        Some(Err(error)) => format!("{conf} cannot be read: {error}"),
        Some(Ok(_)) => format!("{conf} is not a configuration file of Ceph ({name})"),
        None => format!("{conf} cannot be read ({name})"),
    };
    Error::invalid(text).hint("write --engine ceph:/path/ceph.conf")
}

/// The settings with which a client failed to connect.
fn attempt<'a>(cluster: &Cluster, conf: &'a str, user: &'a str) -> Attempt<'a> {
    let setting = |option| cluster.get(option).unwrap_or_default();
    let [key, keyfile, keyring] = [c"key", c"keyfile", c"keyring"].map(setting);
    let settings = KeySettings { key, keyfile, keyring };
    let key = KeySearch::new(user, &settings, |file| std::fs::read(file));
    Attempt { conf, user, monitors: setting(c"mon_host"), key }
}

fn set_number(cluster: &Cluster, option: &CStr, number: u64) -> Result<(), i32> {
    let digits = CString::new(number.to_string()).unwrap_or_default();
    cluster.set(option, &digits)
}

fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| {
        Error::invalid("a name in the --engine option contains a zero byte")
            .hint("write ceph:/path/ceph.conf?user=NAME&pool=NAME")
    })
}
