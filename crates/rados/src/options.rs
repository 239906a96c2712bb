//! The Ceph cluster, user and pool to use: `ceph:/path/ceph.conf?user=NAME&pool=NAME`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use nacre_object::{Error, Result};

/// The Ceph user, if no other is named.
const STANDARD_USER: &str = "admin";
/// The RADOS pool that holds nacre's pools if no other is named.
const STANDARD_POOL: &str = "nacre";
/// How long a client waits for a monitor before it takes the monitor for dead. An election of
/// monitors takes at most 5 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);
/// How long an operation may take. Ceph replaces a failed OSD after up to 20 s of missed
/// heartbeats, and operations wait for the replacement.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(40);

/// How to reach a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RadosOptions {
    /// The cluster's configuration file, which names the monitors and the keyring. With `None`,
    /// librados looks for a file as every Ceph client does (`$CEPH_CONF`, `/etc/ceph/ceph.conf`,
    /// `~/.ceph/config`).
    pub conf: Option<PathBuf>,
    /// The cephx user, without `client.`.
    pub user: String,
    /// The RADOS pool that holds nacre's pools, each a namespace of it.
    pub pool: String,
    /// How long to wait for the monitors at the start.
    pub connect_timeout: Duration,
    /// How long an operation waits for its OSD before it is `Unavailable`.
    pub operation_timeout: Duration,
}

impl RadosOptions {
    /// The prefix of the option `--engine` for Ceph.
    pub const PREFIX: &str = "ceph:";
}

impl Default for RadosOptions {
    fn default() -> Self {
        Self {
            conf: None,
            user: STANDARD_USER.to_owned(),
            pool: STANDARD_POOL.to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
            operation_timeout: OPERATION_TIMEOUT,
        }
    }
}

impl fmt::Display for RadosOptions {
    /// As it is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        if let Some(conf) = &self.conf {
            write!(f, "{}", conf.display())?;
        }
        write!(f, "?user={}&pool={}", self.user, self.pool)
    }
}

impl FromStr for RadosOptions {
    type Err = Error;

    /// Parses `ceph:[PATH][?user=NAME][&pool=NAME]`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::invalid(format!("{text:?} does not name a Ceph cluster: {what}"))
                .hint("write ceph:/path/ceph.conf?user=NAME&pool=NAME; every part may be left out")
        };
        let rest = text.strip_prefix(Self::PREFIX).ok_or_else(|| wrong("it lacks ceph:"))?;
        let (path, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let conf = (!path.is_empty()).then(|| PathBuf::from(path));
        let mut options = Self { conf, ..Self::default() };
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            if value.is_empty() || value.contains('\0') {
                return Err(wrong(&format!("{key} has no value")));
            }
            match key {
                "user" => options.user = value.to_owned(),
                "pool" => options.pool = value.to_owned(),
                _ => return Err(wrong(&format!("{key:?} is not a setting"))),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RadosOptions {
        text.parse().unwrap()
    }

    #[test]
    fn every_part_of_a_cluster_option_may_be_left_out() {
        assert_eq!(parse("ceph:"), RadosOptions::default());
        let conf = Some(PathBuf::from("/a/ceph.conf"));
        assert_eq!(
            parse("ceph:/a/ceph.conf"),
            RadosOptions { conf: conf.clone(), ..Default::default() }
        );
        let all = parse("ceph:/a/ceph.conf?user=nacre&pool=fast");
        assert_eq!((all.conf, all.user.as_str(), all.pool.as_str()), (conf, "nacre", "fast"));
    }

    #[test]
    fn a_printed_cluster_option_can_be_parsed() {
        for text in ["ceph:", "ceph:/a/ceph.conf", "ceph:/a/ceph.conf?user=nacre&pool=fast"] {
            assert_eq!(parse(&parse(text).to_string()), parse(text));
        }
    }

    #[test]
    fn an_unknown_setting_is_refused() {
        for text in ["embedded", "ceph:/a?user", "ceph:/a?user=", "ceph:/a?usr=x", "ceph:/a?="] {
            assert!(text.parse::<RadosOptions>().is_err(), "{text}");
        }
    }
}
