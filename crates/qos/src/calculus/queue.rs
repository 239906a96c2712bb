//! A queue that flows of several priorities share.

use super::{RateBurst, Service};

/// A flow at a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    /// The most work that it brings.
    pub bucket: RateBurst,
    /// Lower numbers are served first. Requests of equal priority are served in the order of
    /// arrival.
    pub priority: usize,
}

/// The longest delay of each flow; `None` if there is no bound.
///
/// Flows of equal priority count as one flow. It gets the service that flows of higher priority
/// leave over.
pub fn queue_delays(service: Service, flows: &[Flow]) -> Vec<Option<f64>> {
    let mut order: Vec<_> = (0..flows.len()).collect();
    order.sort_by_key(|at| flows[*at].priority);
    let mut delays = vec![None; flows.len()];
    let mut before = RateBurst::default();
    for equals in order.chunk_by(|one, other| flows[*one].priority == flows[*other].priority) {
        let own = equals.iter().fold(RateBurst::default(), |sum, at| sum.plus(flows[*at].bucket));
        let delay = service.left_over(before).and_then(|left| left.delay(own));
        for at in equals {
            delays[*at] = delay;
        }
        before = before.plus(own);
    }
    delays
}
