//! `Drift`: the common rule by which the units of a rank change from step to step.
//!
//! In a step of `dt` seconds a rank serves a share `f` of its waiting operations. For a unit with
//! `queue` waiting operations and `rate` arrivals a second, it serves `f · (queue + rate · dt)`
//! operations. This is linear in the unit's values, and `f` is the same for all units of the rank.
//! So the rank stores only the factors of this linear rule, and applies them to a unit when
//! somebody reads the unit.

/// The factors by which the values of a rank's units have changed since the units were last brought
/// up to date.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drift {
    queue_by_queue: f64,
    queue_by_rate: f64,
    counter_by_counter: f64,
    counter_by_recent: f64,
    counter_by_queue: f64,
    counter_by_rate: f64,
    recent_by_recent: f64,
    recent_by_queue: f64,
    recent_by_rate: f64,
}

/// The numbers of a unit that change with time, for reads or for writes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Flow {
    /// Arrivals a second.
    pub rate: f64,
    /// Operations that wait.
    pub queue: f64,
    /// The decayed counter, as of the last sample.
    pub counter: f64,
    /// Operations that were served since the last sample.
    pub recent: f64,
}

impl Drift {
    /// No time has passed.
    pub const NONE: Drift = Drift {
        queue_by_queue: 1.0,
        queue_by_rate: 0.0,
        counter_by_counter: 1.0,
        counter_by_recent: 0.0,
        counter_by_queue: 0.0,
        counter_by_rate: 0.0,
        recent_by_recent: 1.0,
        recent_by_queue: 0.0,
        recent_by_rate: 0.0,
    };

    /// Applies a step of some seconds, in which a share of the waiting operations is served.
    pub fn step(&mut self, seconds: f64, share: f64) {
        let arrived = self.queue_by_rate + seconds;
        self.recent_by_queue += share * self.queue_by_queue;
        self.recent_by_rate += share * arrived;
        self.queue_by_queue *= 1.0 - share;
        self.queue_by_rate = arrived * (1.0 - share);
    }

    /// Samples the counters: each counter loses what has decayed since the last sample, and gains
    /// the operations served since then.
    pub fn sample(&mut self, kept: f64) {
        self.counter_by_counter *= kept;
        self.counter_by_recent = self.counter_by_recent * kept + self.recent_by_recent;
        self.counter_by_queue = self.counter_by_queue * kept + self.recent_by_queue;
        self.counter_by_rate = self.counter_by_rate * kept + self.recent_by_rate;
        self.recent_by_recent = 0.0;
        self.recent_by_queue = 0.0;
        self.recent_by_rate = 0.0;
    }
}

impl Flow {
    /// Brings the numbers up to date.
    pub fn settle(&mut self, drift: &Drift) {
        let Flow { rate, queue, counter, recent } = *self;
        self.queue = drift.queue_by_queue * queue + drift.queue_by_rate * rate;
        self.counter = drift.counter_by_counter * counter
            + drift.counter_by_recent * recent
            + drift.counter_by_queue * queue
            + drift.counter_by_rate * rate;
        self.recent = drift.recent_by_recent * recent
            + drift.recent_by_queue * queue
            + drift.recent_by_rate * rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_at_once_have_the_same_effect_as_one_after_another() {
        let before = Flow { rate: 10.0, queue: 5.0, counter: 7.0, recent: 2.0 };
        let (mut drift, mut at_once, mut one_by_one) = (Drift::NONE, before, before);
        for (number, share) in [0.3, 1.0, 0.0, 0.7, 0.2, 0.9].into_iter().enumerate() {
            drift.step(0.1, share);
            let mut single = Drift::NONE;
            single.step(0.1, share);
            if number % 2 == 1 {
                drift.sample(0.8);
                single.sample(0.8);
            }
            one_by_one.settle(&single);
        }
        at_once.settle(&drift);
        let numbers = |flow: Flow| [flow.queue, flow.counter, flow.recent];
        let pairs = numbers(at_once).into_iter().zip(numbers(one_by_one));
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9), "{at_once:?} {one_by_one:?}");
    }

    #[test]
    fn a_sample_decays_like_a_decayed_counter() {
        let mut counter = crate::DecayedCounter::default();
        let mut flow = Flow { rate: 10.0, ..Flow::default() };
        let kept = (-0.2f64).exp2();
        for second in 1..=20 {
            let mut drift = Drift::NONE;
            drift.step(1.0, 1.0);
            drift.sample(kept);
            flow.settle(&drift);
            counter.add(std::time::Duration::from_secs(second), 10.0);
        }
        let expected = counter.value(std::time::Duration::from_secs(20));
        assert!((flow.counter - expected).abs() < 1e-9, "{} {expected}", flow.counter);
    }
}
