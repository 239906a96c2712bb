//! `Selector`: the built-in ways to choose units.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Orders;

/// A built-in way to choose units for a target load (Mantle, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selector {
    /// The biggest first, until the target is reached.
    BigFirst,
    /// The smallest first, until the target is reached.
    SmallFirst,
    /// The biggest, the smallest, the second biggest and so on, until the target is reached.
    BigSmall,
    /// The first half, in the order of the units.
    Half,
    /// The bigger half.
    BigHalf,
    /// The smaller half.
    SmallHalf,
}

impl Selector {
    /// Every selector.
    pub const ALL: [Selector; 6] = [
        Self::BigFirst,
        Self::SmallFirst,
        Self::BigSmall,
        Self::Half,
        Self::BigHalf,
        Self::SmallHalf,
    ];

    /// Its name, as policies write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BigFirst => "big_first",
            Self::SmallFirst => "small_first",
            Self::BigSmall => "big_small",
            Self::Half => "half",
            Self::BigHalf => "big_half",
            Self::SmallHalf => "small_half",
        }
    }

    /// The selector of a name. `big` and `small` are other names of `big_first` and `small_first`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "big" => Some(Self::BigFirst),
            "small" => Some(Self::SmallFirst),
            _ => Self::ALL.into_iter().find(|selector| selector.as_str() == name),
        }
    }

    /// The units that the selector chooses, as indexes of `loads`. A selector that stops at the
    /// target chooses units until the sum of their loads is at least the target. Units of equal
    /// load keep their order.
    pub fn choose(self, loads: &[f64], target: f64) -> Vec<usize> {
        Orders::new(loads).choose(self, |_| true, target)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directory fragments of Mantle, section 3.3.
    const FRAGMENTS: [f64; 8] = [12.7, 13.3, 13.3, 14.6, 15.7, 13.5, 13.7, 14.6];
    const TARGET: f64 = 55.6;

    fn chosen(selector: Selector) -> Vec<f64> {
        let chosen = selector.choose(&FRAGMENTS, TARGET);
        chosen.into_iter().map(|index| FRAGMENTS[index]).collect()
    }

    #[test]
    fn each_selector_chooses_the_units_that_the_mantle_paper_lists() {
        for (selector, fragments, sum) in [
            (Selector::BigFirst, &[15.7, 14.6, 14.6, 13.7][..], 58.6),
            (Selector::SmallFirst, &[12.7, 13.3, 13.3, 13.5, 13.7], 66.5),
            (Selector::BigSmall, &[15.7, 12.7, 14.6, 13.3], 56.3),
            (Selector::Half, &[12.7, 13.3, 13.3, 14.6], 53.9),
            (Selector::BigHalf, &[15.7, 14.6, 14.6, 13.7], 58.6),
            (Selector::SmallHalf, &[12.7, 13.3, 13.3, 13.5], 52.8),
        ] {
            assert_eq!(chosen(selector), fragments, "{selector}");
            let shipped: f64 = chosen(selector).iter().sum();
            assert!((shipped - sum).abs() < 1e-9, "{selector} ships {shipped}");
        }
    }

    #[test]
    fn a_selector_has_the_names_that_the_mantle_paper_uses() {
        assert_eq!(Selector::named("big"), Some(Selector::BigFirst));
        assert_eq!(Selector::named("small"), Some(Selector::SmallFirst));
        for selector in Selector::ALL {
            assert_eq!(Selector::named(selector.as_str()), Some(selector));
        }
        assert_eq!(Selector::named("biggest"), None);
    }

    #[test]
    fn a_selector_of_few_units_takes_each_at_most_once() {
        for selector in Selector::ALL {
            for count in 0..6 {
                let loads: Vec<_> = (0..count).map(f64::from).collect();
                let mut chosen = selector.choose(&loads, 1e9);
                chosen.sort_unstable();
                chosen.dedup();
                let is_half = selector.as_str().ends_with("half");
                let expected = if is_half { loads.len() / 2 } else { loads.len() };
                assert_eq!(chosen.len(), expected, "{selector} of {count}");
            }
        }
    }

    #[test]
    fn a_selector_takes_no_unit_for_a_target_of_0() {
        assert!(Selector::BigFirst.choose(&FRAGMENTS, 0.0).is_empty());
    }
}
