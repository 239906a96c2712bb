//! The bandwidth of one kind of request, by size.

/// Bandwidths at some sizes, in ascending order of size.
///
/// **Invariant:** there is at least one bandwidth, and all are positive and finite.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bandwidths(Vec<(f64, f64)>);

impl Bandwidths {
    /// Creates the table from pairs of bytes and bytes per second, which the caller has checked.
    ///
    /// If a larger size has a lower bandwidth, all smaller sizes get that bandwidth too. So the
    /// table is never above the measured bandwidth.
    pub(super) fn lower_bound(mut pairs: Vec<(f64, f64)>) -> Self {
        let mut least = f64::INFINITY;
        for (_, bandwidth) in pairs.iter_mut().rev() {
            least = least.min(*bandwidth);
            *bandwidth = least;
        }
        Self(pairs)
    }

    /// The bandwidth at each size, as it is used.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|(_, bandwidth)| *bandwidth)
    }

    /// The work of a request of this size, in seconds.
    ///
    /// Between two sizes the bandwidth is interpolated linearly. A request smaller than the first
    /// size takes as long as the first size. A request larger than the last size gets the bandwidth
    /// of the last size.
    pub(super) fn work_seconds(&self, bytes: u64) -> f64 {
        let bytes = bytes as f64;
        let above = self.0.partition_point(|(size, _)| *size <= bytes);
        let Some((low_size, low)) = above.checked_sub(1).map(|below| self.0[below]) else {
            let (size, bandwidth) = self.0[0];
            return size / bandwidth;
        };
        let bandwidth = match self.0.get(above) {
            Some((high_size, high)) => {
                low + (high - low) * (bytes - low_size) / (high_size - low_size)
            }
            None => low,
        };
        bytes / bandwidth
    }
}
