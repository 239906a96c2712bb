//! The profile of a device: its bandwidth by kind and size of request.

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use super::bandwidth::Bandwidths;
use crate::IoKind;
use crate::limits::MAX_PROFILE_ROWS;

/// What was measured at one size of request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileRow {
    /// The size of each request.
    pub bytes: u64,
    /// The bandwidth of reads of this size, in bytes a second.
    pub read_bytes_per_second: f64,
    /// The bandwidth of writes of this size, in bytes a second.
    pub write_bytes_per_second: f64,
}

impl ProfileRow {
    fn bandwidth(&self, kind: IoKind) -> f64 {
        match kind {
            IoKind::Read => self.read_bytes_per_second,
            IoKind::Write => self.write_bytes_per_second,
        }
    }
}

/// A size that was measured to be faster than a larger size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Dip {
    /// The size.
    pub bytes: u64,
    /// The kind of request.
    pub kind: IoKind,
    /// The measured bandwidth.
    pub measured_bytes_per_second: f64,
    /// The bandwidth that the profile uses: the lowest one measured at this size or any larger
    /// size.
    pub used_bytes_per_second: f64,
}

/// Says how much work a request is for one device.
///
/// **Invariant:** the bandwidth never falls as the size grows, and is never above the measured
/// bandwidth. So the profile never underestimates the work of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Rows", into = "Rows")]
pub struct Profile {
    rows: Vec<ProfileRow>,
    /// By [`IoKind::index`].
    bandwidths: [Bandwidths; 2],
}

/// The JSON form of a profile.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    rows: Vec<ProfileRow>,
}

impl Profile {
    /// Creates a profile of these rows, which must be sorted by size.
    ///
    /// # Errors
    /// `Invalid` if there are no rows or too many, if sizes do not ascend from 1, or if a bandwidth
    /// is not a positive number.
    pub fn new(rows: Vec<ProfileRow>) -> Result<Self> {
        if rows.is_empty() || rows.len() > MAX_PROFILE_ROWS {
            let message = format!("the profile has {} rows", rows.len());
            return Err(
                Error::invalid(message).hint(format!("give from 1 to {MAX_PROFILE_ROWS} rows"))
            );
        }
        let mut last = 0;
        for row in &rows {
            if row.bytes <= last {
                let message =
                    format!("the profile has the size {} after the size {last}", row.bytes);
                return Err(Error::invalid(message).hint("sort the rows by size, from 1 byte on"));
            }
            last = row.bytes;
            for kind in IoKind::ALL {
                check_bandwidth(row, kind)?;
            }
        }
        let bandwidths = IoKind::ALL.map(|kind| {
            let pairs = rows.iter().map(|row| (row.bytes as f64, row.bandwidth(kind)));
            Bandwidths::lower_bound(pairs.collect())
        });
        Ok(Self { rows, bandwidths })
    }

    /// The measured rows.
    pub fn rows(&self) -> &[ProfileRow] {
        &self.rows
    }

    /// The sizes whose measured bandwidth is above what the profile uses.
    pub fn dips(&self) -> Vec<Dip> {
        let of = |kind: IoKind| {
            let used = self.bandwidths[kind.index()].values();
            self.rows.iter().zip(used).filter_map(move |(row, used)| {
                let measured = row.bandwidth(kind);
                (used < measured).then_some(Dip {
                    bytes: row.bytes,
                    kind,
                    measured_bytes_per_second: measured,
                    used_bytes_per_second: used,
                })
            })
        };
        IoKind::ALL.into_iter().flat_map(of).collect()
    }

    /// The work of one request.
    pub fn work_seconds(&self, kind: IoKind, bytes: u64) -> f64 {
        self.bandwidths[kind.index()].work_seconds(bytes)
    }
}

impl TryFrom<Rows> for Profile {
    type Error = Error;

    fn try_from(rows: Rows) -> Result<Self> {
        Self::new(rows.rows)
    }
}

impl From<Profile> for Rows {
    fn from(profile: Profile) -> Self {
        Self { rows: profile.rows }
    }
}

fn check_bandwidth(row: &ProfileRow, kind: IoKind) -> Result<()> {
    let bandwidth = row.bandwidth(kind);
    if bandwidth.is_finite() && bandwidth > 0.0 {
        return Ok(());
    }
    let (bytes, kind) = (row.bytes, kind.as_str());
    Err(Error::invalid(format!(
        "the {kind} bandwidth {bandwidth} at the size {bytes} is not positive"
    ))
    .hint("give a positive number of bytes per second"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: u64, read: f64, write: f64) -> ProfileRow {
        ProfileRow { bytes, read_bytes_per_second: read, write_bytes_per_second: write }
    }

    fn profile() -> Profile {
        let rows = [(1, 0.5, 0.5), (2, 1.0, 0.5), (4, 2.0, 1.0), (6, 3.0, 1.5)];
        Profile::new(rows.map(|(bytes, read, write)| row(bytes, read, write)).to_vec()).unwrap()
    }

    #[test]
    fn the_bandwidth_between_two_sizes_is_interpolated() {
        let works = |kind| (1..=6).map(|bytes| profile().work_seconds(kind, bytes)).collect();
        let (reads, writes): (Vec<_>, Vec<_>) = (works(IoKind::Read), works(IoKind::Write));
        assert_eq!(reads, [2.0; 6]);
        assert_eq!(writes, [2.0, 4.0, 4.0, 4.0, 4.0, 4.0]);
    }

    #[test]
    fn a_request_below_the_first_size_takes_the_time_of_the_first_size() {
        let profile = Profile::new(vec![row(512, 1024.0, 512.0), row(1024, 8192.0, 512.0)]);
        let profile = profile.unwrap();
        assert_eq!(profile.work_seconds(IoKind::Read, 0), 0.5);
        assert_eq!(profile.work_seconds(IoKind::Read, 511), 0.5);
        assert_eq!(profile.work_seconds(IoKind::Write, 1), 1.0);
    }

    #[test]
    fn a_request_above_the_last_size_gets_the_last_bandwidth() {
        assert_eq!(profile().work_seconds(IoKind::Read, 12), 4.0);
        assert_eq!(profile().work_seconds(IoKind::Write, 15), 10.0);
    }

    #[test]
    fn a_dip_lowers_the_bandwidth_of_smaller_sizes_and_raises_none() {
        let rows = vec![row(1, 1.0, 1.0), row(2, 4.0, 1.0), row(4, 3.0, 1.0), row(8, 5.0, 1.0)];
        let profile = Profile::new(rows).unwrap();
        let dip = Dip {
            bytes: 2,
            kind: IoKind::Read,
            measured_bytes_per_second: 4.0,
            used_bytes_per_second: 3.0,
        };
        assert_eq!(profile.dips(), [dip]);
        assert_eq!(profile.work_seconds(IoKind::Read, 2), 2.0 / 3.0);
        assert_eq!(profile.work_seconds(IoKind::Read, 8), 8.0 / 5.0);
        assert_eq!(profile.work_seconds(IoKind::Read, 1), 1.0);
    }

    #[test]
    fn a_rising_profile_has_no_dips() {
        assert_eq!(profile().dips(), []);
    }

    #[test]
    fn invalid_rows_are_refused() {
        let of = |rows: &[ProfileRow]| Profile::new(rows.to_vec()).unwrap_err().to_string();
        assert!(of(&[]).contains("0 rows"));
        assert!(of(&[row(0, 1.0, 1.0)]).contains("the size 0 after the size 0"));
        assert!(of(&[row(2, 1.0, 1.0), row(2, 1.0, 1.0)]).contains("the size 2 after the size 2"));
        for bandwidth in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(of(&[row(1, bandwidth, 1.0)]).contains("read bandwidth"));
            assert!(of(&[row(1, 1.0, bandwidth)]).contains("write bandwidth"));
        }
        assert!(of(&vec![row(1, 1.0, 1.0); MAX_PROFILE_ROWS + 1]).contains("4097 rows"));
    }

    #[test]
    fn json_is_checked_like_rows() {
        let profile = profile();
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
        let error = serde_json::from_str::<Profile>(r#"{"rows": []}"#).unwrap_err();
        assert!(error.to_string().contains("0 rows"), "{error}");
    }
}
