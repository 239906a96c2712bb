//! `DecayedCounter`: a sum in which old amounts count less.

use std::time::Duration;

use crate::limits::DEFAULT_HALF_LIFE;

/// A sum whose value halves with every half-life. CephFS counts the popularity of directories in
/// the same way.
///
/// Times are readings of a monotonic clock. A reading before the last one counts as the last one.
#[derive(Debug, Clone, PartialEq)]
pub struct DecayedCounter {
    half_life: Duration,
    /// The sum as it was at `updated`.
    sum: f64,
    updated: Duration,
}

impl DecayedCounter {
    /// A counter that starts at 0 and halves in each `half_life`. If `half_life` is zero, the
    /// counter drops to 0 as soon as time advances.
    pub fn with_half_life(half_life: Duration) -> Self {
        Self { half_life, sum: 0.0, updated: Duration::ZERO }
    }

    /// Adds an amount. One that is not finite is ignored.
    pub fn add(&mut self, now: Duration, amount: f64) {
        let sum = self.value(now) + amount;
        if sum.is_finite() {
            self.sum = sum;
            self.updated = self.updated.max(now);
        }
    }

    /// The sum as it is now.
    pub fn value(&self, now: Duration) -> f64 {
        let elapsed = now.saturating_sub(self.updated);
        if elapsed.is_zero() {
            return self.sum;
        }
        if self.half_life.is_zero() {
            return 0.0;
        }
        let half_lives = elapsed.as_secs_f64() / self.half_life.as_secs_f64();
        self.sum * (-half_lives).exp2()
    }
}

impl Default for DecayedCounter {
    fn default() -> Self {
        Self::with_half_life(DEFAULT_HALF_LIFE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_counter_halves_with_each_half_life() {
        let mut counter = DecayedCounter::default();
        counter.add(SECOND, 8.0);
        let after = |seconds: u32| counter.value(SECOND + SECOND * seconds);
        assert_eq!((after(0), after(5), after(10), after(15)), (8.0, 4.0, 2.0, 1.0));
        assert!((after(1) - 6.964).abs() < 0.001);
    }

    #[test]
    fn a_recent_amount_counts_more_than_an_old_one() {
        let mut counter = DecayedCounter::with_half_life(SECOND);
        counter.add(Duration::ZERO, 4.0);
        counter.add(SECOND, 4.0);
        assert_eq!(counter.value(SECOND * 2), 3.0);
    }

    #[test]
    fn a_steady_rate_gives_a_steady_value() {
        let mut counter = DecayedCounter::default();
        let mut values = vec![];
        for tick in 0..1200 {
            counter.add(SECOND / 10 * tick, 1.0);
            values.push(counter.value(SECOND / 10 * tick));
        }
        // Ten a second for ever: about rate * half-life / ln 2.
        assert!((values[1199] - 72.6).abs() < 0.1, "{}", values[1199]);
        assert!((values[1199] - values[1099]).abs() < 0.001);
    }

    #[test]
    fn an_earlier_clock_reading_counts_as_the_last_and_an_infinite_amount_is_ignored() {
        let mut counter = DecayedCounter::with_half_life(SECOND);
        counter.add(SECOND * 10, 2.0);
        counter.add(SECOND * 9, 2.0);
        counter.add(SECOND * 10, f64::NAN);
        counter.add(SECOND * 10, f64::INFINITY);
        assert_eq!(counter.value(SECOND * 8), 4.0);
        assert_eq!(counter.value(Duration::MAX), 0.0);
    }

    #[test]
    fn a_counter_without_a_half_life_forgets_at_once() {
        let mut counter = DecayedCounter::with_half_life(Duration::ZERO);
        counter.add(SECOND, 2.0);
        assert_eq!((counter.value(SECOND), counter.value(SECOND * 2)), (2.0, 0.0));
    }
}
