//! The choice between the selections that the selectors made.

/// The selection whose load is nearest to a target; of equally near selections, the first.
///
/// `None` if moving nothing is at least as near to the target. Without this rule, a rank with a
/// single busy unit would send it to another rank at every tick.
pub(crate) fn nearest(sums: &[f64], target: f64) -> Option<usize> {
    let distance = |sum: f64| (sum - target).abs();
    let mut best = None;
    let mut least = distance(0.0);
    for (index, sum) in sums.iter().enumerate() {
        if distance(*sum) < least {
            (best, least) = (Some(index), distance(*sum));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_nearest_to_the_target_wins() {
        // What big_first, small_first, big_small and half ship in section 4.2 of Mantle.
        assert_eq!(nearest(&[58.6, 66.5, 56.3, 53.9], 55.6), Some(2));
        assert_eq!(nearest(&[58.6, 66.5, 53.9], 55.6), Some(2));
        assert_eq!(nearest(&[54.0, 56.0], 55.0), Some(0));
    }

    #[test]
    fn no_unit_moves_if_that_is_nearer_to_the_target() {
        assert_eq!(nearest(&[], 1.0), None);
        assert_eq!(nearest(&[100.0], 50.0), None);
        assert_eq!(nearest(&[100.0], 51.0), Some(0));
        assert_eq!(nearest(&[0.0], 51.0), None);
    }
}
