//! What a class is asked, as shares, and how far that is from what it was asked before.

use std::collections::BTreeMap;

use nacre_class::CallsSeen;
use serde::{Deserialize, Serialize};

/// The share of each method and size, by powers of two; together 1, or nothing at all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Mix(BTreeMap<String, Vec<f64>>);

impl Mix {
    /// The mix of what was seen.
    pub fn of(seen: &CallsSeen) -> Self {
        let all = seen.requests().max(1) as f64;
        let asked = seen.methods.iter().filter(|(_, method)| method.requests > 0);
        let shares = asked.map(|(name, method)| {
            let sizes = method.sizes.iter().map(|count| *count as f64 / all);
            (name.clone(), sizes.collect())
        });
        Self(shares.collect())
    }

    /// How much of one would have to be asked otherwise to come to the other: 0 if they are the same, 1
    /// if they have nothing in common (the total variation distance).
    pub fn distance(&self, other: &Self) -> f64 {
        let methods =
            self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        let nothing = vec![];
        let differences = methods.map(|name| {
            let [one, other] = [&self.0, &other.0].map(|mix| mix.get(name).unwrap_or(&nothing));
            let share = |sizes: &[f64], at: usize| sizes.get(at).copied().unwrap_or_default();
            let sizes = 0..one.len().max(other.len());
            sizes.map(|at| (share(one, at) - share(other, at)).abs()).sum::<f64>()
        });
        differences.sum::<f64>() / 2.0
    }
}

#[cfg(test)]
mod tests {
    use nacre_class::MethodSeen;

    use super::*;

    fn mix(methods: &[(&str, &[u64])]) -> Mix {
        let method = |(name, sizes): &(&str, &[u64])| {
            let seen = MethodSeen {
                requests: sizes.iter().sum(),
                sizes: sizes.to_vec(),
                ..MethodSeen::default()
            };
            ((*name).to_owned(), seen)
        };
        Mix::of(&CallsSeen { methods: methods.iter().map(method).collect(), met: 0 })
    }

    #[test]
    fn the_distance_is_what_is_asked_otherwise() {
        let base = mix(&[("get", &[3]), ("put", &[0, 1])]);
        for (other, distance) in [
            (mix(&[("get", &[6]), ("put", &[0, 2])]), 0.0),
            (mix(&[("get", &[1]), ("put", &[0, 1])]), 0.25),
            (mix(&[("get", &[3]), ("put", &[0, 0, 1])]), 0.25),
            (mix(&[("drop", &[1])]), 1.0),
        ] {
            assert_eq!(base.distance(&other), distance, "{other:?}");
            assert_eq!(other.distance(&base), distance, "{other:?}");
        }
    }
}
