//! `Permits`: which direct reads a node serves. The homes of the bytes give and revoke the permits.

use std::time::Duration;

use nacre_object::{Error, ObjectId, Result};

use super::message::{PermitAsk, covers};
use crate::fast_hash::FastHashMap;
use crate::limits::{DIRECT_LEASE, MAX_PERMITS};
use crate::model::Span;

/// The permits at a node that keeps routed bytes, by the object that keeps them. An object has one
/// permit at most: a new permit replaces the former.
#[derive(Debug, Default)]
pub struct Permits {
    all: FastHashMap<ObjectId, Given>,
}

#[derive(Debug)]
struct Given {
    home_target: String,
    object: ObjectId,
    spans: Vec<(u64, u64)>,
    token: u64,
    until: Duration,
}

impl Permits {
    /// Gives a permit. It lasts for [`DIRECT_LEASE`] from `now` on.
    ///
    /// # Errors
    /// `Exhausted` if there are too many permits; `Invalid`.
    pub fn give(&mut self, now: Duration, ask: PermitAsk) -> Result<()> {
        let (object, kept_in) = (ask.object.parse()?, ask.kept_in.parse::<ObjectId>()?);
        if self.all.len() >= MAX_PERMITS && !self.all.contains_key(&kept_in) {
            self.all.retain(|_, given| given.until > now);
            if self.all.len() >= MAX_PERMITS {
                return Err(Error::exhausted(format!("the node has given {MAX_PERMITS} permits")));
            }
        }
        let (spans, token) = (ask.spans, ask.token);
        let until = now.saturating_add(DIRECT_LEASE);
        let given = Given { home_target: ask.home_target, object, spans, token, until };
        self.all.insert(kept_in, given);
        Ok(())
    }

    /// Checks that a client may read these bytes of `object`, which `kept_in` keeps.
    ///
    /// # Errors
    /// `Stale` if there is no such permit now.
    pub fn check(
        &self,
        now: Duration,
        (object, kept_in): (&ObjectId, &ObjectId),
        token: u64,
        span: Span,
    ) -> Result<()> {
        let given = self.all.get(kept_in).filter(|given| {
            given.token == token
                && given.object == *object
                && now < given.until
                && covers(&given.spans, span)
        });
        given.map(drop).ok_or_else(|| {
            Error::stale("the node has no permit for this direct read")
                .on(object)
                .hint("read through the object's home")
        })
    }

    /// Ends the permits for bytes that this object keeps.
    pub fn revoke(&mut self, kept_in: &ObjectId) {
        self.all.remove(kept_in);
    }

    /// Ends the permits that a home has given, because it has started anew.
    pub fn revoke_all_of(&mut self, home_target: &str) {
        self.all.retain(|_, given| given.home_target != home_target);
    }
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;

    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn given(token: u64, home_target: &str) -> PermitAsk {
        PermitAsk {
            home_target: home_target.to_owned(),
            term: 1,
            object: "data/x".to_owned(),
            kept_in: "nacre.routed/x".to_owned(),
            spans: vec![(0, 10)],
            token,
        }
    }

    fn check(permits: &Permits, now: Duration, token: u64, start: u64, end: u64) -> bool {
        let (object, kept_in) = ("data/x".parse().unwrap(), "nacre.routed/x".parse().unwrap());
        let checked =
            permits.check(now, (&object, &kept_in), token, Span::new(start, end).unwrap());
        assert!(checked.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Stale));
        checked.is_ok()
    }

    #[test]
    fn a_permit_allows_its_bytes_to_clients_with_its_token_until_its_lease_ends() {
        let mut permits = Permits::default();
        assert!(!check(&permits, NOW, 7, 0, 10));
        permits.give(NOW, given(7, "storage.0")).unwrap();
        assert!(check(&permits, NOW, 7, 0, 10) && check(&permits, NOW, 7, 3, 4));
        assert!(!check(&permits, NOW, 8, 0, 10), "another token");
        assert!(!check(&permits, NOW, 7, 5, 11), "bytes outside of it");
        let other = ("data/y".parse().unwrap(), "nacre.routed/x".parse().unwrap());
        assert!(permits.check(NOW, (&other.0, &other.1), 7, Span::new(0, 1).unwrap()).is_err());
        assert!(!check(&permits, NOW + DIRECT_LEASE, 7, 0, 10), "the lease has ended");
    }

    #[test]
    fn a_permit_ends_when_it_is_replaced_or_revoked_or_its_home_starts_anew() {
        let mut permits = Permits::default();
        permits.give(NOW, given(7, "storage.0")).unwrap();
        permits.give(NOW, given(8, "storage.0")).unwrap();
        assert!(!check(&permits, NOW, 7, 0, 1) && check(&permits, NOW, 8, 0, 1));
        permits.revoke_all_of("storage.1");
        assert!(check(&permits, NOW, 8, 0, 1));
        permits.revoke_all_of("storage.0");
        assert!(!check(&permits, NOW, 8, 0, 1));
        permits.give(NOW, given(9, "storage.0")).unwrap();
        permits.revoke(&"nacre.routed/x".parse().unwrap());
        assert!(!check(&permits, NOW, 9, 0, 1));
    }

    #[test]
    fn permits_are_bounded_and_those_that_ended_make_room() {
        let mut permits = Permits::default();
        let numbered = |number: usize| PermitAsk {
            kept_in: format!("nacre.routed/{number}"),
            ..given(1, "storage.0")
        };
        for number in 0..MAX_PERMITS {
            permits.give(NOW, numbered(number)).unwrap();
        }
        let full = permits.give(NOW, numbered(MAX_PERMITS)).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::Exhausted);
        permits.give(NOW, numbered(0)).unwrap();
        permits.give(NOW + DIRECT_LEASE, numbered(MAX_PERMITS)).unwrap();
    }
}
