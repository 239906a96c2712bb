//! A client with only the right to read. Each of its requests is checked against its access rights,
//! as a node does it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_host::{HostTransport, MapRecords};
use nacre_log::{LogEnv, log_call_rule};
use nacre_object::{
    Capabilities, Demand, Error, ListPage, ListRequest, NodeName, Reply, Request, Result, Store,
};
use nacre_registry::{CallRules, Grant, Grants, Maps};

use super::Cluster;

const LOG_RULES: CallRules = CallRules::new(&[log_call_rule]);

/// What somebody has who was granted `r log=LOG`.
pub fn env_of_reader(cluster: &Cluster, log: &str) -> LogEnv {
    let grant: Grant = format!("r log={log}").parse().unwrap();
    let grants: Arc<Grants> = Arc::new([grant].into_iter().collect());
    let judged = |store| Arc::new(Judged { store, grants: grants.clone() });
    let system = judged(Arc::new(cluster.system.clone()));
    LogEnv {
        store: judged(cluster.env.store.clone()),
        views: Arc::new(MapRecords::new(Maps::new(system, Arc::new(cluster.system.clone())))),
        sequencers: Arc::new(TailOnly(cluster.env.sequencers.clone())),
        ..cluster.env.clone()
    }
}

/// A store that carries out what the grants cover.
#[derive(Debug)]
struct Judged {
    store: Arc<dyn Store>,
    grants: Arc<Grants>,
}

impl Judged {
    fn judge(&self, demand: Demand<'_>) -> Result<()> {
        let refused = Error::denied(format!("{demand:?} is not granted"));
        if self.grants.allows(demand, LOG_RULES) { Ok(()) } else { Err(refused) }
    }
}

#[async_trait]
impl Store for Judged {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.judge(Demand::Request(&request))?;
        self.store.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.judge(Demand::List(&request))?;
        self.store.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
}

/// The nodes as a reader sees them. They allow what `nacre_node::guard` allows to a reader.
#[derive(Debug)]
struct TailOnly(Arc<dyn HostTransport>);

#[async_trait]
impl HostTransport for TailOnly {
    async fn ask(
        &self,
        node: &NodeName,
        service: &'static str,
        method: &'static str,
        input: Bytes,
        patience: Duration,
    ) -> Result<Bytes> {
        match method {
            "tail" => self.0.ask(node, service, method, input, patience).await,
            _ => Err(Error::denied(format!("a reader asks no sequencer to {method}"))),
        }
    }
}
