//! `Dialect`: the two ways to write a policy.

/// The first line of a policy in the Ceph dialect.
const CEPH_DIRECTIVE: &str = "--!mantle";

/// The way a policy is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// A chunk that sets hooks, as in the Mantle paper.
    Hooks,
    /// A chunk that returns the targets, as in Ceph. Its first line is `--!mantle`.
    Ceph,
}

impl Dialect {
    /// The dialect of a source.
    pub fn of(source: &str) -> Self {
        let first = source.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
        match first.trim() == CEPH_DIRECTIVE {
            true => Self::Ceph,
            false => Self::Hooks,
        }
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::Ceph => "ceph",
        }
    }

    /// The source without the line that tells its dialect.
    pub(crate) fn without_directive(self, source: &str) -> &str {
        match self {
            Self::Hooks => source,
            Self::Ceph => source.split_once('\n').map_or("", |(_, rest)| rest),
        }
    }
}
