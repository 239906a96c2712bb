//! Remembers for a while which OSDs have a class, and which lack it.
//!
//! The answer is stored under a placement seed (see `cluster/placement_seed.rs`). One OSD serves
//! all objects of a seed, so the client asks that OSD once for all of them, and never mixes up the
//! answers of two OSDs.

use std::time::Duration;

use crate::cluster::placement_seed::PlacementSeed;
use crate::recent_set::RecentSet;

/// Which OSDs have a class, as far as it is known.
#[derive(Debug, Default)]
pub struct ClassOffers {
    offered: RecentSet,
    lacking: RecentSet,
}

/// Whether an OSD has a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offering {
    /// It had it lately.
    Offered,
    /// The OSD lacked the class lately, or denied it to this client.
    Lacking,
    /// No OSD was asked lately.
    Unknown,
}

impl ClassOffers {
    /// Whether the OSD of a seed has the class.
    pub fn of(&self, seed: PlacementSeed, now: Duration) -> Offering {
        if self.lacking.holds(seed, now) {
            Offering::Lacking
        } else if self.offered.holds(seed, now) {
            Offering::Offered
        } else {
            Offering::Unknown
        }
    }

    /// Stores a finding of now, and returns it.
    pub fn note(&self, seed: PlacementSeed, found: Offering, now: Duration) -> Offering {
        match found {
            Offering::Offered => self.offered.note(seed, now),
            Offering::Lacking => self.lacking.note(seed, now),
            Offering::Unknown => {}
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recent_set::VALIDITY;

    #[test]
    fn a_used_class_stays_known_and_a_removed_one_is_noticed() {
        let offers = ClassOffers::default();
        let (seed, other) = ("data/a", "data/b");
        let [seed, other] = [seed, other].map(|name| PlacementSeed::of(&name.parse().unwrap()));
        let began = Duration::from_secs(100);
        assert_eq!(offers.of(seed, began), Offering::Unknown);
        offers.note(seed, Offering::Offered, began);
        offers.note(seed, Offering::Offered, began + VALIDITY / 2);
        assert_eq!(offers.of(seed, began + VALIDITY), Offering::Offered);
        assert_eq!(offers.of(other, began), Offering::Unknown);
        offers.note(seed, Offering::Lacking, began + VALIDITY);
        assert_eq!(offers.of(seed, began + VALIDITY), Offering::Lacking);
        assert_eq!(offers.of(seed, began + VALIDITY * 2), Offering::Unknown);
    }
}
