//! Writes to the cluster log which latency promises were missed, and why.

use std::sync::Arc;
use std::time::Duration;

use nacre::{Cluster, Event, Severity};
use nacre_object::NodeName;
use nacre_slo::{Miss, NodeSlo};

/// How often missed promises are reported. Within this time, all late requests of one tenant to one
/// target become one event, so that they do not fill the log.
const INTERVAL: Duration = Duration::from_secs(10);

/// Reports until it is aborted.
pub(super) async fn report_misses(slo: Arc<NodeSlo>, cluster: Cluster, node: NodeName) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        for miss in slo.take_misses() {
            // If the log does not accept the event, these misses are not reported. Later misses
            // will be.
            let _ = cluster.events().append(event(&miss).node(node.clone())).await;
        }
    }
}

fn event(miss: &Miss) -> Event {
    let Miss { tenant, target, slo_seconds, requests, of_requests, worst_seconds, cause } = miss;
    let text = format!(
        "{requests} of {of_requests} requests of tenant {tenant} to {target} took longer than {:.1} ms, the longest \
         {:.1} ms: {}",
        slo_seconds * 1e3,
        worst_seconds * 1e3,
        cause.describe()
    );
    Event::new(Severity::Warning, text)
        .field("tenant", tenant.as_str())
        .field("target", target.as_str())
}

#[cfg(test)]
mod tests {
    use nacre_slo::MissCause;

    use super::*;

    #[test]
    fn an_event_about_slow_requests_names_tenant_target_and_cause() {
        let miss = Miss {
            tenant: "gold".parse().unwrap(),
            target: "storage.1".parse().unwrap(),
            slo_seconds: 0.02,
            requests: 3,
            of_requests: 1000,
            worst_seconds: 0.0314,
            cause: MissCause::OutsideEnvelope,
        };
        assert_eq!(
            event(&miss).text,
            "3 of 1000 requests of tenant gold to storage.1 took longer than 20.0 ms, the longest 31.4 ms: the tenant \
             asked for more than it was promised"
        );
    }
}
