//! The network links that requests pass. Admission treats each link as two queues.
//!
//! Each direction of a link is a queue that does one second of work a second. A request passes the
//! client's link, the node's link and the target, and then both links back. A link whose speed is
//! not known has no queues.
//!
//! On the embedded engine a target is a node, so its requests pass the link of that node. On Ceph a
//! request may pass any gateway, and so any node's link.

use nacre_object::{NodeName, Result, TargetName, TenantName};
use nacre_qos::{
    ArrivalCurve, Estimator, IoKind, Link, LinkDirection, Queue, QueueFlow, RateBurst, WorkArrival,
    WorkTrace,
};
use nacre_wire::limits::PART_BYTES;

use crate::limits::LINK_LAG_SECONDS;
use crate::records::SloState;
use crate::traffic::{Spread, Traffic, without_sizes};

/// Targets on Ceph have names with this prefix.
const OSD_PREFIX: &str = "osd.";

/// The queues of an admission: the targets, and the directions of links.
#[derive(Debug)]
pub(crate) struct Queues<'a> {
    targets: Vec<&'a TargetName>,
    links: Vec<LinkQueue<'a>>,
    blocking_seconds: Vec<f64>,
}

/// One direction of a link.
#[derive(Debug)]
struct LinkQueue<'a> {
    end: End<'a>,
    direction: LinkDirection,
    link: Link,
}

/// The owner of a link: a node, or the client of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End<'a> {
    Node(&'a NodeName),
    Client(&'a TenantName),
}

impl LinkQueue<'_> {
    fn name(&self) -> String {
        let direction = match (self.end, self.direction) {
            (End::Node(_), LinkDirection::Out) | (End::Client(_), LinkDirection::In) => "in",
            (End::Node(_), LinkDirection::In) | (End::Client(_), LinkDirection::Out) => "out",
        };
        match self.end {
            End::Node(node) => node_link(node, direction),
            End::Client(tenant) => format!("the client link of {tenant}, {direction}"),
        }
    }

    /// How long a message may wait for a part of another message that the link is already sending.
    fn blocking_seconds(&self) -> f64 {
        self.link.messages_seconds(1, PART_BYTES as u64) + LINK_LAG_SECONDS
    }
}

/// The name of a direction of a node's link: `in` is the direction in which the node receives.
fn node_link(node: &NodeName, direction: &str) -> String {
    format!("the link of {node}, {direction}")
}

/// The name of the direction in which a node receives. Promises store this name in
/// [`PromisedFlow::target`](crate::PromisedFlow::target).
pub(crate) fn received_by(node: &NodeName) -> String {
    node_link(node, "in")
}

/// The name of the direction in which a node sends.
pub(crate) fn sent_by(node: &NodeName) -> String {
    node_link(node, "out")
}

impl<'a> Queues<'a> {
    /// The queues of the targets and links in `state`. `newcomer` is a client that asks for a
    /// promise, with its link.
    pub(crate) fn new(state: &'a SloState, newcomer: Option<(&'a TenantName, Link)>) -> Self {
        let is_newcomer = |tenant: &TenantName| newcomer.is_some_and(|(new, _)| new == tenant);
        let nodes = state.links.iter().map(|(node, link)| (End::Node(node), *link));
        let clients = state.promises.iter().filter(|(tenant, _)| !is_newcomer(tenant));
        let clients =
            clients.filter_map(|(tenant, promise)| Some((tenant, promise.client_link()?)));
        let clients = clients.chain(newcomer).map(|(tenant, link)| (End::Client(tenant), link));
        let links = nodes.chain(clients).flat_map(|(end, link)| {
            [LinkDirection::Out, LinkDirection::In].map(|direction| LinkQueue {
                end,
                direction,
                link,
            })
        });
        Self {
            targets: state.profiles.keys().collect(),
            links: links.collect(),
            blocking_seconds: state.profiles.values().map(|one| one.blocking_seconds()).collect(),
        }
    }

    /// All queues: the targets first.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        let targets = self.targets.iter().zip(&self.blocking_seconds);
        let targets = targets.map(|(target, blocking_seconds)| Queue {
            name: target.to_string(),
            blocking_seconds: *blocking_seconds,
        });
        let links = self
            .links
            .iter()
            .map(|link| Queue { name: link.name(), blocking_seconds: link.blocking_seconds() });
        targets.chain(links).collect()
    }

    /// The index of the queue with this name.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        let target = self.targets.iter().position(|target| target.as_str() == name);
        target.or_else(|| {
            let link = self.links.iter().position(|link| link.name() == name)?;
            Some(self.targets.len() + link)
        })
    }

    /// Whether the queue with this index is a direction of a link.
    pub(crate) fn is_link(&self, queue: usize) -> bool {
        queue >= self.targets.len()
    }

    /// The paths of a tenant's requests, each from the client to a target and back. A path is a
    /// list of indices into `flows`.
    pub(crate) fn legs(&self, tenant: &TenantName, flows: &[QueueFlow]) -> Vec<Vec<usize>> {
        let flow_at = |queue| flows.iter().position(|flow| flow.queue == queue);
        let at_link = |end: Option<End<'_>>, direction| {
            let is_it = |link: &LinkQueue<'_>| Some(link.end) == end && link.direction == direction;
            flow_at(self.targets.len() + self.links.iter().position(is_it)?)
        };
        let client = Some(End::Client(tenant));
        let mut legs = vec![];
        for (flow, target) in flows
            .iter()
            .enumerate()
            .filter_map(|(flow, traffic)| Some((flow, self.targets.get(traffic.queue)?)))
        {
            for node in self.nodes_before(target) {
                let leg = [
                    at_link(client, LinkDirection::Out),
                    at_link(node, LinkDirection::Out),
                    Some(flow),
                    at_link(node, LinkDirection::In),
                    at_link(client, LinkDirection::In),
                ];
                legs.push(leg.into_iter().flatten().collect());
            }
        }
        legs
    }

    /// The nodes whose links a request to a target may pass. If no such link is known, returns a
    /// single `None`.
    fn nodes_before(&self, target: &TargetName) -> Vec<Option<End<'a>>> {
        let nodes = self.links.iter().filter(|link| link.direction == LinkDirection::Out);
        let nodes = nodes.map(|link| link.end).filter(|end| match end {
            End::Node(node) => is_before(node, target),
            End::Client(_) => false,
        });
        let nodes: Vec<_> = nodes.map(Some).collect();
        if nodes.is_empty() { vec![None] } else { nodes }
    }

    /// The traffic of a tenant at each link that it passes. `at_targets` is its traffic at targets.
    ///
    /// # Errors
    /// `Unsupported` if the sizes of the requests are not known; the errors of the trace.
    pub(crate) fn link_flows(
        &self,
        tenant: &TenantName,
        traffic: &Traffic<'_>,
        at_targets: &[QueueFlow],
    ) -> Result<Vec<QueueFlow>> {
        let mut flows = vec![];
        for (at, link) in self.links.iter().enumerate() {
            let has_traffic = |target: &TargetName| {
                at_targets.iter().any(|flow| self.targets.get(flow.queue) == Some(&target))
            };
            let behind: Vec<_> = match link.end {
                End::Client(client) if client == tenant => self.targets.clone(),
                End::Client(_) => continue,
                End::Node(node) => {
                    let behind = self.targets.iter().copied();
                    behind.filter(|target| is_before(node, target) && has_traffic(target)).collect()
                }
            };
            if behind.is_empty() {
                continue;
            }
            let queue = self.targets.len() + at;
            flows.push(QueueFlow { queue, curve: self.curve(link, traffic, &behind)? });
        }
        Ok(flows)
    }

    /// The arrival curve at a link. `behind` are the targets whose requests pass the link.
    fn curve(
        &self,
        link: &LinkQueue<'_>,
        traffic: &Traffic<'_>,
        behind: &[&TargetName],
    ) -> Result<ArrivalCurve> {
        let part = behind.len() as f64 / self.targets.len() as f64;
        let work = |kind: IoKind, bytes| link.link.work_seconds(link.direction, kind, bytes);
        match traffic {
            Traffic::Rate(rate, spread) => {
                let seconds = work(rate.kind, rate.bytes);
                let part = if *spread == Spread::Even { part } else { 1.0 };
                ArrivalCurve::lower_envelope(&[RateBurst {
                    rate: seconds * rate.per_second * part,
                    burst_seconds: seconds * f64::from(rate.burst),
                }])
            }
            Traffic::Trace { trace, estimator, .. } => {
                let mut arrivals = vec![];
                for record in &trace.records {
                    let target = traffic.target_of(record)?;
                    let (is_behind, factor) = match estimator {
                        Estimator::PerTarget | Estimator::Uniform => {
                            (target.is_none_or(|target| behind.contains(&&target)), 1.0)
                        }
                        Estimator::Optimistic => (true, part),
                        Estimator::Pessimistic => (true, 1.0),
                    };
                    if is_behind {
                        let work_seconds = work(record.kind, record.bytes) * factor;
                        let at_seconds = record.at.as_secs_f64();
                        arrivals.push(WorkArrival { at_seconds, work_seconds });
                    }
                }
                let duration = trace.records.last().map_or(0.0, |last| last.at.as_secs_f64());
                ArrivalCurve::of_trace(&WorkTrace::new(arrivals, duration)?)
            }
            Traffic::Curves(_) => Err(without_sizes(&link.name())),
        }
    }
}

/// Whether requests to a target may pass the link of a node.
fn is_before(node: &NodeName, target: &TargetName) -> bool {
    node.as_str() == target.as_str() || target.as_str().starts_with(OSD_PREFIX)
}

#[cfg(test)]
mod tests {
    use nacre_qos::scheduler::{Commits, DeviceLimits, KindLimits};
    use nacre_qos::{Profile, ProfileRow};

    use super::*;
    use crate::slos::decide;
    use crate::{Ask, Outcome, Promise, Rate, StoredProfile};

    const MEBIBYTE: u64 = 1 << 20;
    const GIGABIT: f64 = 125e6;

    /// Targets that read and write 400 MB a second.
    fn state(links: &[(&str, f64)]) -> SloState {
        let row =
            ProfileRow { bytes: 4096, read_bytes_per_second: 4e8, write_bytes_per_second: 4e8 };
        let limits = KindLimits { requests: 4, bytes: 64 << 10 };
        let stored = StoredProfile {
            profile: Profile::new(vec![row]).unwrap(),
            outstanding: DeviceLimits { reads: limits, writes: limits },
            commits: Commits::Singly,
            fingerprint: String::new(),
            uncertainty: 0.0,
            measured_at_micros: 0,
        };
        let targets = ["storage.0", "storage.1"];
        let profiles = targets.map(|target| (TargetName::new(target).unwrap(), stored.clone()));
        let links = links
            .iter()
            .map(|(node, speed)| (NodeName::new(*node).unwrap(), Link::new(*speed).unwrap()));
        SloState { profiles: profiles.into(), links: links.collect(), ..SloState::default() }
    }

    /// Asks for 60 reads of a mebibyte a second at each of two targets. They take a sixth of a
    /// target's time, and somewhat more than half of the time of a link of 1 Gbit/s.
    fn ask<'a>(tenant: &str, client_link: Option<f64>) -> Ask<'a> {
        let rate = Rate { kind: IoKind::Read, bytes: MEBIBYTE, per_second: 120.0, burst: 1 };
        Ask {
            tenant: TenantName::new(tenant).unwrap(),
            slo_seconds: 0.5,
            violation: None,
            percentile: 99.0,
            traffic: Traffic::Rate(rate, Spread::Even),
            client_link: client_link.map(|speed| Link::new(speed).unwrap()),
            replaces: false,
        }
    }

    fn admitted(state: &mut SloState, ask: &Ask<'_>) -> Promise {
        let (outcome, changes) = decide(state, ask).unwrap();
        let Outcome::Admitted(promise) = outcome else { panic!("{outcome:?}") };
        assert!(!changes.is_empty());
        state.promises.insert(ask.tenant.clone(), promise.clone());
        promise
    }

    fn refusal(state: &SloState, ask: &Ask<'_>) -> String {
        match decide(state, ask).unwrap().0 {
            Outcome::Refused(refusal) => refusal.to_string(),
            Outcome::Admitted(promise) => panic!("{promise:?}"),
        }
    }

    #[test]
    fn a_slow_link_refuses_a_tenant_that_a_fast_one_admits() {
        let slow = state(&[("storage.0", GIGABIT / 10.0)]);
        let said = refusal(&slow, &ask("gold", None));
        assert!(said.contains("the link of storage.0, out would have"), "{said}");
        let mut fast = state(&[("storage.0", GIGABIT)]);
        let promise = admitted(&mut fast, &ask("gold", None));
        let node = NodeName::new("storage.0").unwrap();
        let (sent, received) = (promise.bucket_sent_by(&node), promise.bucket_received_by(&node));
        // The link carries 125e6 bytes a second. The node gets 60 reads a second, of 1 MiB
        // each. For each read, `Link::work_seconds` counts 200 bytes for headers in either
        // direction. It also counts 1.1 times the data for the reply, which the node sends, and
        // 0.025 times the data for the acknowledgements, which the node receives.
        assert!((sent.unwrap().rate - 0.5537).abs() < 1e-3, "{sent:?}");
        assert!((received.unwrap().rate - 0.0127).abs() < 1e-3, "{received:?}");
    }

    #[test]
    fn tenants_share_a_link() {
        let mut state = state(&[("storage.0", GIGABIT), ("storage.1", GIGABIT)]);
        admitted(&mut state, &ask("one", None));
        let said = refusal(&state, &ask("two", None));
        assert!(said.contains("the link of storage.1, out would have 110"), "{said}");
    }

    #[test]
    fn the_link_of_a_client_carries_the_requests_to_all_targets() {
        let said = refusal(&state(&[]), &ask("gold", Some(GIGABIT)));
        assert!(said.contains("the client link of gold, in would have 110"), "{said}");
        let promise = admitted(&mut state(&[]), &ask("gold", Some(10.0 * GIGABIT)));
        assert_eq!(promise.client_link_bytes_per_second, Some(10.0 * GIGABIT));
        assert_eq!(promise.flows.len(), 4);
    }

    #[test]
    fn the_latency_bound_covers_the_target_and_the_links() {
        let at_targets = admitted(&mut state(&[]), &ask("gold", None)).bound_seconds;
        let mut links = state(&[("storage.0", GIGABIT), ("storage.1", GIGABIT)]);
        let with_links = admitted(&mut links, &ask("gold", None)).bound_seconds;
        // A mebibyte takes 9.2 ms on the link.
        assert!(with_links > at_targets + 9.2e-3, "{with_links} and {at_targets}");
        let present = crate::present_bounds(&links).unwrap();
        let present = present[&ask("gold", None).tenant].bound_seconds.unwrap();
        assert!((present - with_links).abs() < 1e-9, "{present} and {with_links}");
    }

    #[test]
    fn a_refusal_names_the_link_that_alone_exceeds_the_latency() {
        let links = state(&[("storage.0", GIGABIT / 4.0)]);
        let few = Rate { kind: IoKind::Read, bytes: MEBIBYTE, per_second: 20.0, burst: 1 };
        let traffic = Traffic::Rate(few, Spread::Even);
        let said = refusal(&links, &Ask { slo_seconds: 0.03, traffic, ..ask("gold", None) });
        assert!(said.contains("mostly at the link of storage.0, out"), "{said}");
    }

    #[test]
    fn a_stochastic_promise_over_a_link_is_refused() {
        let violation = Some(0.001);
        let links = state(&[("storage.0", GIGABIT)]);
        let error = decide(&links, &Ask { violation, ..ask("gold", None) }).unwrap_err();
        assert!(error.to_string().contains("links"), "{error}");
        admitted(&mut state(&[]), &Ask { violation, ..ask("gold", None) });
    }

    #[test]
    fn a_promise_made_with_other_links_must_be_made_again() {
        let mut state = state(&[]);
        admitted(&mut state, &ask("one", None));
        state.links.insert("storage.0".parse().unwrap(), Link::GIGABIT);
        let error = decide(&state, &ask("two", None)).unwrap_err();
        assert!(error.to_string().contains("other targets or links"), "{error}");
    }

    #[test]
    fn a_cluster_without_links_stores_nothing_about_links() {
        let mut state = state(&[]);
        let epoch = crate::placement_epoch(state.profiles.keys());
        assert_eq!(state.placement_epoch(), epoch);
        let promise = admitted(&mut state, &ask("gold", None));
        let written = serde_json::to_string(&promise).unwrap();
        assert!(promise.flows.len() == 2 && !written.contains("link"), "{written}");
        assert_eq!(state.link_settings(&"storage.0".parse().unwrap()), None);
    }

    #[test]
    fn a_watched_curve_is_refused_on_a_link_because_request_sizes_are_unknown() {
        let state = state(&[("storage.0", GIGABIT)]);
        let line = RateBurst { rate: 0.1, burst_seconds: 0.1 };
        let curve = ArrivalCurve::lower_envelope(&[line]).unwrap();
        let of = |target: &str| {
            let curves = [(TargetName::new(target).unwrap(), curve.clone())].into();
            decide(&state, &Ask { traffic: Traffic::Curves(curves), ..ask("gold", None) })
        };
        assert!(of("storage.0").unwrap_err().to_string().contains("the link of storage.0"));
        of("storage.1").unwrap();
    }

    #[test]
    fn a_node_is_told_what_tenants_were_promised_only_while_promises_are_enforced() {
        use nacre_qos::scheduler::Share;
        let mut state = state(&[("storage.0", GIGABIT)]);
        admitted(&mut state, &ask("gold", None));
        let (node, gold) = ("storage.0".parse().unwrap(), ask("gold", None).tenant);
        assert!(state.link_settings(&node).unwrap().tenants.is_empty());
        state.is_enforced = true;
        let settings = state.link_settings(&node).unwrap();
        assert!(matches!(settings.tenants[&gold].sent, Share::Promised { .. }));
    }

    #[test]
    fn on_ceph_a_request_may_pass_the_link_of_any_gateway() {
        let on_nodes = state(&[("gateway.0", GIGABIT), ("gateway.1", GIGABIT)]);
        let profile = on_nodes.profiles.values().next().unwrap().clone();
        let osds = [(TargetName::new("osd.0").unwrap(), profile)];
        let mut state = SloState { profiles: osds.into(), ..on_nodes };
        let half = Rate { kind: IoKind::Read, bytes: MEBIBYTE, per_second: 60.0, burst: 1 };
        let ask = Ask { traffic: Traffic::Rate(half, Spread::Even), ..ask("gold", None) };
        let promise = admitted(&mut state, &ask);
        assert_eq!(promise.flows.len(), 5);
    }
}
