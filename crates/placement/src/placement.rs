//! Weighted rendezvous hashing.
//!
//! For every object, each target gets a pseudo-random number, its *draw*. The target with the
//! highest draw holds the object (Thaler, Ravishankar: "Using name-based mappings to increase hit
//! rates", 1998). The draw is `−weight / ln(uniform)`, so a target wins in proportion to its weight
//! (Schindelhauer, Schomaker: "Weighted distributed hash tables", 2005).
//!
//! **Invariant:** a target's draw depends only on its name, its weight and the object. So if a
//! target is added or removed or its weight changes, only objects that this target wins or loses
//! move.
//!
//! **Invariant:** the draw is the same on every machine: the hash has a fixed definition, and the
//! logarithm is computed in software. The test vectors in `tests/placements.txt` guard this.

use nacre_object::{Error, ObjectName, PoolName, Request, Result, TargetName};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The most targets of one placement. Each look-up of an object computes a draw for every target,
/// so their number is limited.
pub const MAX_TARGETS: usize = 256;

/// A storage target and its share.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its name; renaming it moves its objects.
    pub name: TargetName,
    /// How much the target holds relative to the others: a positive number, such as its size.
    pub weight: f64,
}

impl Target {
    /// A target of weight 1.
    pub fn new(name: TargetName) -> Self {
        Self { name, weight: 1.0 }
    }
}

/// Computes which target holds an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    targets: Vec<Target>,
    /// The hash of each target's name.
    seeds: Vec<u64>,
}

impl Placement {
    /// Makes a placement over these targets. Their order does not matter.
    ///
    /// # Errors
    /// `Invalid` if there are no targets or more than [`MAX_TARGETS`], if two have the same name,
    /// or if a weight is not a positive number.
    pub fn new(targets: Vec<Target>) -> Result<Self> {
        if targets.is_empty() || targets.len() > MAX_TARGETS {
            return Err(Error::invalid(format!("the placement has {} targets", targets.len()))
                .hint(format!("use 1 to {MAX_TARGETS}")));
        }
        for (i, target) in targets.iter().enumerate() {
            if !target.weight.is_normal() || target.weight < 0.0 {
                let text = format!(
                    "the weight {} of target {} is not possible",
                    target.weight, target.name
                );
                return Err(Error::invalid(text).hint("use a positive number"));
            }
            if targets[..i].iter().any(|other| other.name == target.name) {
                return Err(Error::invalid(format!("two targets have the name {}", target.name))
                    .hint("give each target its own name"));
            }
        }
        let seeds = targets.iter().map(|target| xxh3_64(target.name.as_str().as_bytes())).collect();
        Ok(Self { targets, seeds })
    }

    /// The targets, in the order given.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Returns the target that holds objects with this placement key
    /// ([`ObjectName::placement_key`](nacre_object::ObjectName::placement_key)).
    pub fn locate(&self, pool: &PoolName, placement_key: &str) -> &TargetName {
        &self.targets[self.locate_index(pool, placement_key)].name
    }

    /// The target that holds an object.
    pub fn locate_object(&self, pool: &PoolName, object: &ObjectName) -> &TargetName {
        self.locate(pool, object.placement_key())
    }

    /// Refuses a request to `target` that copies data from an object on another target.
    ///
    /// # Errors
    /// `Unsupported`; the error names both targets.
    pub fn check_sources(&self, request: &Request, target: &TargetName) -> Result<()> {
        let object = &request.header.object;
        for op in &request.ops {
            let Some(source) = op.source() else { continue };
            let other = self.locate_object(&object.pool, source);
            if other != target {
                let text =
                    format!("{source} is on target {other}, but its copy would be on {target}");
                return Err(Error::unsupported(text)
                    .during(op.name())
                    .on(object)
                    .hint("give both names the same part in braces, such as {a} in {a}x and {a}y: such objects share a target"));
            }
        }
        Ok(())
    }

    /// As [`Placement::locate`]: which of [`Placement::targets`].
    pub fn locate_index(&self, pool: &PoolName, placement_key: &str) -> usize {
        let pool = xxh3_64(pool.as_str().as_bytes());
        let object = xxh3_64_with_seed(placement_key.as_bytes(), pool).to_le_bytes();
        let mut best = 0;
        let mut highest = f64::NEG_INFINITY;
        for (i, (target, seed)) in self.targets.iter().zip(&self.seeds).enumerate() {
            let drawn = -target.weight / libm::log(unit(xxh3_64_with_seed(&object, *seed)));
            // Equal draws are practically impossible. In such a case the name decides, so that the
            // order of targets does not matter.
            if drawn > highest || (drawn == highest && target.name < self.targets[best].name) {
                (best, highest) = (i, drawn);
            }
        }
        best
    }
}

/// Turns a hash into a number greater than 0 and less than 1.
fn unit(hash: u64) -> f64 {
    /// How many bits of the hash are used. A double has 53 bits of precision. One of them is left
    /// for the added 0.5, which keeps the number above 0 and below 1.
    const BITS: u32 = 52;
    ((hash >> (u64::BITS - BITS)) as f64 + 0.5) / (1_u64 << BITS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(weights: &[(&str, f64)]) -> Vec<Target> {
        let target = |(name, weight): &(&str, f64)| Target {
            name: TargetName::new(name).unwrap(),
            weight: *weight,
        };
        weights.iter().map(target).collect()
    }

    #[test]
    fn the_lowest_and_highest_hash_give_numbers_between_0_and_1() {
        assert!(unit(0) > 0.0 && unit(u64::MAX) < 1.0);
        assert!(libm::log(unit(0)).is_finite() && libm::log(unit(u64::MAX)) < 0.0);
    }

    #[test]
    fn a_placement_over_impossible_targets_is_refused() {
        for wrong in [
            &[][..],
            &[("a", 1.0), ("a", 2.0)],
            &[("a", 0.0)],
            &[("a", -1.0)],
            &[("a", f64::NAN)],
            &[("a", f64::INFINITY)],
        ] {
            let error = Placement::new(targets(wrong)).unwrap_err();
            assert_eq!(error.kind(), nacre_object::ErrorKind::Invalid, "{wrong:?}");
        }
        let many: Vec<_> = (0..=MAX_TARGETS).map(|i| format!("t{i}")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), 1.0)).collect();
        assert!(Placement::new(targets(&many)).is_err());
        assert!(Placement::new(targets(&many[1..])).is_ok());
    }
}
