//! Translates librados' statuses into errors, each with a hint.

use nacre_object::{Error, ErrorKind};

use crate::cluster::key_search::KeySearch;

/// Negated errnos that decide something.
pub mod status {
    /// `ENOENT`: the object does not exist.
    pub const ABSENT: i32 = -2;
    /// `ENXIO`: the pool does not exist any more. librados does not report this; [`crate::ffi`]
    /// finds it out.
    pub const POOL_GONE: i32 = -6;
    /// `E2BIG`: the operation is larger than allowed. [`crate::ffi`] returns it for operations that
    /// librados would accept.
    pub const TOO_LARGE: i32 = -7;
    /// `EEXIST`: the object exists.
    pub const PRESENT: i32 = -17;
    /// `ERANGE`: the object's version is higher than the asserted one.
    pub const NEWER: i32 = -34;
    /// `EOVERFLOW`: the object's version is lower than the asserted one.
    pub const OLDER: i32 = -75;
    /// `EOVERFLOW` from a method: the OSD dropped its answer and its changes.
    pub const OVERFLOW: i32 = OLDER;
    /// `ETIMEDOUT`: no answer came in time.
    pub const TIMED_OUT: i32 = -110;
    /// `EOPNOTSUPP`: the OSD has no such class or method.
    pub const UNSUPPORTED: i32 = -95;
    /// `EPERM`: this user has no permission, or no client may call this class.
    pub const NOT_PERMITTED: i32 = -1;
    /// `EIO`: the OSD could not read, or could not load a class.
    pub const BROKEN: i32 = -5;
    /// `ESHUTDOWN`: another client has shut this one out (Ceph calls it `EBLOCKLISTED`).
    pub const SHUT_OUT: i32 = -108;
    /// `ENOTCONN`, `ESHUTDOWN`, `ECANCELED`: the connection ended.
    const CUT_OFF: [i32; 3] = [-107, SHUT_OUT, -125];

    /// Whether a change that ended with this status may have happened. It may if librados itself
    /// set the status because no answer came. If an OSD set it, the OSD has refused the change.
    pub fn may_have_happened(status: i32) -> bool {
        status == TIMED_OUT || CUT_OFF.contains(&status)
    }

    /// Whether an OSD returns this status because it lacks a class or a method, cannot load it, or
    /// denies it to this user. An OSD also returns it for a repeated call that an earlier OSD has
    /// already carried out.
    pub fn lacks_class(status: i32) -> bool {
        [UNSUPPORTED, NOT_PERMITTED, BROKEN].contains(&status)
    }
}

/// The error of an operation on an object that ended with a negative status.
pub fn operation_failed(status: i32) -> Error {
    let name = std::io::Error::from_raw_os_error(status.saturating_neg());
    let error = |kind, text: &str| Error::new(kind, format!("{text} ({name})"));
    match status.saturating_neg() {
        2 => error(ErrorKind::NotFound, "no such object"),
        1 | 13 => error(ErrorKind::Denied, "the cluster does not permit this operation").hint(
            "the Ceph user needs: mon 'allow r', osd 'allow rwx pool=POOL'; see `ceph auth get`",
        ),
        6 => error(ErrorKind::Unavailable, "the cluster's pool is gone, with all that was in it")
            .hint(
                "if that was meant, make it anew with `ceph osd pool create` and start nacre again",
            ),
        28 | 122 => error(ErrorKind::Exhausted, "the cluster or the pool's quota is full")
            .hint("remove objects or add OSDs; see `ceph df` and `ceph osd pool get-quota`"),
        7 | 27 | 36 | 90 => {
            error(ErrorKind::Exhausted, "the operation exceeds a limit of the cluster").hint(
                "see osd_max_object_size, osd_max_write_size, osd_max_object_name_len and \
             osd_max_attr_size of the OSDs",
            )
        }
        95 => error(ErrorKind::Unsupported, "the pool does not support this operation")
            .hint("nacre's pool must be replicated: erasure-coded pools keep no maps"),
        5 => error(ErrorKind::Corrupt, "the cluster cannot read the object")
            .hint("see `ceph health detail`"),
        108 => error(ErrorKind::Unavailable, "the cluster has shut this client out")
            .hint("see `ceph osd blocklist ls`; start again"),
        _ => error(ErrorKind::Unavailable, "the cluster does not answer")
            .hint("see `ceph health detail`: an OSD may be down or a placement group inactive"),
    }
}

/// The settings of an attempt to connect.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The configuration, as a person knows it.
    pub conf: &'a str,
    /// The user, without `client.`.
    pub user: &'a str,
    /// Where the configuration says that monitors are.
    pub monitors: String,
    /// The key that the user has.
    pub key: KeySearch,
}

/// The error of a failed connection.
pub fn connection_failed(status: i32, attempt: &Attempt<'_>) -> Error {
    let Attempt { conf, user, .. } = attempt;
    let name = std::io::Error::from_raw_os_error(status.saturating_neg());
    let error = |kind, text: String| Error::new(kind, format!("{text} ({name})"));
    let errno = status.saturating_neg();
    if matches!(errno, 2 | 22) && attempt.monitors.is_empty() {
        return error(ErrorKind::Invalid, format!("{conf} names no monitor"))
            .hint("it needs mon_host = ADDRESS and keyring = PATH");
    }
    match errno {
        1 | 2 | 13 => {
            let (text, hint) = attempt.key.explain(user, conf);
            error(ErrorKind::Denied, text).hint(hint)
        }
        5 | 22 => error(ErrorKind::Invalid, format!("{conf} or its keyring is malformed")).hint(
            "write a section [client.NAME] with a line key = KEY for each user into the keyring",
        ),
        _ => error(ErrorKind::Unavailable, "no monitor of the cluster answers".to_owned())
            .hint(format!("check that mon_host in {conf} is right and that ceph-mon runs there")),
    }
}
