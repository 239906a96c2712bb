//! The holder of a grant: decides what the client may still do under it.

use std::time::Duration;

use crate::policy::Time;

/// Why a holder may do nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The lease has run out: the holder has not heard from its authority for too long. It may
    /// continue if it hears later that its grant still stands.
    Lease,
    /// The holder has done as many operations as it may.
    Quota,
    /// The holder has ended the grant itself.
    Ended,
}

/// A grant, as its holder sees it.
///
/// **Invariant:** after [`Holder::end`] the holder does nothing more under the grant, so the count
/// of operations that it reports to the authority is final.
#[derive(Debug, Clone)]
pub struct Holder {
    number: u64,
    until: Time,
    /// The latest time that the holder has read from its clock. A clock that jumps back therefore
    /// extends no lease.
    latest: Time,
    operations: u64,
    quota: u64,
    has_ended: bool,
}

impl Holder {
    /// Begins a grant with this number. The client sent its request at `sent`; the lease lasts
    /// `lease`, counted from then.
    pub fn new(number: u64, sent: Time, lease: Duration, quota: Option<u64>) -> Self {
        let (operations, has_ended, quota) = (0, false, quota.unwrap_or(u64::MAX));
        Self { number, until: sent + lease, latest: sent, operations, quota, has_ended }
    }

    /// The number of the grant.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Operations that were done.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Permits up to `count` operations now. Returns the number permitted, which is at least one
    /// unless `count` is 0.
    ///
    /// # Errors
    /// See [`Over`].
    pub fn take(&mut self, now: Time, count: u64) -> Result<u64, Over> {
        if self.has_ended {
            return Err(Over::Ended);
        }
        if !self.is_live(now) {
            return Err(Over::Lease);
        }
        let left = self.quota.saturating_sub(self.operations);
        if left == 0 {
            return Err(Over::Quota);
        }
        let taken = count.min(left);
        self.operations += taken;
        Ok(taken)
    }

    /// Whether the holder has done as many operations as it may.
    pub fn is_spent(&self) -> bool {
        self.operations >= self.quota
    }

    /// Counts operations that the authority did when it gave the grant.
    pub fn count(&mut self, operations: u64) {
        self.operations += operations;
    }

    /// Whether the lease lasts.
    pub fn is_live(&mut self, now: Time) -> bool {
        self.latest = self.latest.max(now);
        !self.has_ended && self.latest < self.until
    }

    /// Renews the lease. The authority answered that the grant stands; the holder sent the request
    /// at `sent`.
    pub fn renew(&mut self, sent: Time, lease: Duration) {
        self.until = self.until.max(sent + lease);
    }

    /// Ends it; returns how many operations were done.
    pub fn end(&mut self) -> u64 {
        self.has_ended = true;
        self.operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn holder(quota: Option<u64>) -> Holder {
        Holder::new(7, ms(1000), ms(300), quota)
    }

    #[test]
    fn a_lease_counts_from_before_the_request_was_sent() {
        let mut holder = holder(None);
        assert_eq!(holder.take(ms(1299), 5), Ok(5));
        assert_eq!(holder.take(ms(1300), 1), Err(Over::Lease));
        assert_eq!((holder.number(), holder.operations()), (7, 5));
    }

    #[test]
    fn a_holder_continues_when_it_hears_late_that_its_grant_stands() {
        let mut holder = holder(None);
        assert_eq!(holder.take(ms(1400), 1), Err(Over::Lease));
        holder.renew(ms(1350), ms(300));
        assert_eq!(holder.take(ms(1649), 1), Ok(1));
        // A late answer to an earlier request does not shorten the lease.
        holder.renew(ms(1000), ms(300));
        assert_eq!(holder.take(ms(1649), 1), Ok(1));
    }

    #[test]
    fn a_clock_that_jumps_back_extends_no_lease() {
        let mut holder = holder(None);
        assert_eq!(holder.take(ms(1300), 1), Err(Over::Lease));
        assert_eq!(holder.take(ms(1100), 1), Err(Over::Lease));
    }

    #[test]
    fn a_quota_is_never_exceeded() {
        let mut holder = holder(Some(5));
        assert_eq!(holder.take(ms(1000), 3), Ok(3));
        assert!(!holder.is_spent());
        assert_eq!(holder.take(ms(1000), 3), Ok(2));
        assert!(holder.is_spent());
        assert_eq!(holder.take(ms(1000), 3), Err(Over::Quota));
    }

    #[test]
    fn an_ended_grant_stays_ended() {
        let mut holder = holder(None);
        holder.take(ms(1000), 3).unwrap();
        assert_eq!(holder.end(), 3);
        holder.renew(ms(1200), ms(300));
        assert_eq!(holder.take(ms(1200), 1), Err(Over::Ended));
    }
}
