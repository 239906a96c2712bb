//! The role that CONTRIBUTING.md shows: it answers `ping`, and counts.

use std::sync::Arc;

use crate::classes::ClassService;
use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use nacre::{Cluster, ClusterFile, RoleName};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result, Unlimited};
use nacre_registry::{Need, Right};
use nacre_telemetry::Counter;
use nacre_wire::{Caller, Service};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{JoinContext, Offer, OfferedService, OpenContext, OpenedRole, Role, RunningRole};
use crate::metrics::Metrics;
use crate::metrics::page::{Page, plain};

const ROLE: Role = Role {
    name: RoleName::Metadata,
    open: |_| async { Ok(Box::new(Ping) as Box<dyn OpenedRole>) }.boxed(),
};

/// Before it joins: it keeps nothing.
struct Ping;

#[async_trait]
impl OpenedRole for Ping {
    async fn join(
        self: Box<Self>,
        _: &JoinContext<'_>,
        offer: &mut Offer<'_>,
    ) -> Result<Arc<dyn RunningRole>> {
        let pings = Arc::new(Counter::default());
        offer.metrics(PingMetrics(Arc::clone(&pings)));
        offer.guarded_service("ping", Arc::new(PingService(pings)), need_to_ping);
        Ok(Arc::new(RunningPing))
    }
}

/// A running role. It has no background tasks, so nothing has to end.
#[derive(Debug)]
struct RunningPing;

impl RunningRole for RunningPing {}

struct PingService(Arc<Counter>);

#[async_trait]
impl Service for PingService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "ping" => {
                self.0.add(1);
                Ok(input)
            }
            _ => Err(Error::unsupported(format!("a ping has no method {method:?}"))),
        }
    }
}

/// A caller that may read a map may also ping about it.
fn need_to_ping<'a>(_: &str, input: &'a [u8]) -> Result<Need<'a>> {
    let map = std::str::from_utf8(input).map_err(|_| Error::invalid("not UTF-8"))?;
    Ok(Need::Map { right: Right::Read, map })
}

#[derive(Debug)]
struct PingMetrics(Arc<Counter>);

impl Collector for PingMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        Page(encoder).counter(plain("pings", "Pings answered"), self.0.get())
    }
}

fn caller() -> Caller {
    Caller { standing: Arc::new(Unlimited::local()), session: 1, client_name: String::new() }
}

#[tokio::test]
async fn a_role_offers_its_service_its_required_right_and_its_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let file = ClusterFile::create(folder.path(), 1).unwrap();
    let entry = file.with_role(ROLE.name).next().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let classes = ClassService::new(Arc::clone(&clock)).unwrap();
    let context = OpenContext { file: &file, entry, classes: &classes, clock: &clock };
    let opened = (ROLE.open)(context).await.unwrap();
    assert!(opened.target().is_none());

    let cluster = Cluster::reach(&file).unwrap();
    let record = nacre::Node {
        name: entry.node_name().unwrap(),
        roles: vec![],
        address: String::new(),
        incarnation: 1,
        started_at_micros: 1,
        up: true,
    };
    let joining =
        JoinContext { cluster: &cluster, record: &record, classes: &classes, clock: &clock };
    let mut metrics = Metrics::default();
    let mut offer = Offer::new(&mut metrics);
    let running = opened.join(&joining, &mut offer).await.unwrap();
    let (stack, services) = offer.into_services();
    assert!(stack.is_none());
    let [OfferedService { name: "ping", service, admission: Some(admission) }] = &services[..]
    else {
        panic!("the role offers one service, ping, with a need");
    };
    assert!(matches!(admission("ping", b"m"), Ok(Need::Map { right: Right::Read, map: "m" })));
    let answer = service.ask(&caller(), "ping", Bytes::from("m")).await.unwrap();
    assert_eq!(answer, "m");
    assert!(metrics.text().unwrap().contains("nacre_pings_total 1"));
    running.withdraw();
    running.close().await;
}
