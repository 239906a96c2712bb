//! `Role`: one job of a node, from its start to its end.
//!
//! 1. [`Role::open`] opens the role's data, before the node has joined a cluster.
//! 2. The node makes a client of the cluster ([`Cluster`]). The client uses the
//!    [targets](OpenedRole::target) of the node's roles without a session.
//! 3. [`OpenedRole::join`] starts the role's background tasks, and returns the services for the
//!    node to offer.
//! 4. When the node stops, each role [withdraws](RunningRole::withdraw). The node leaves the
//!    registry and answers the requests that are in flight. Then each role
//!    [closes](RunningRole::close).

use std::fmt;
use std::sync::Arc;

use crate::classes::ClassService;
use async_trait::async_trait;
use futures::future::BoxFuture;
use nacre::{Cluster, ClusterFile, NodeEntry, RoleName};
use nacre_clock::Clock;
use nacre_object::{Error, Result, Stack, TargetName};
use nacre_placement::PlacedTarget;
use nacre_registry::Need;
use nacre_wire::Service;
use prometheus_client::collector::Collector;

use super::ROLES;
use crate::metrics::Metrics;
use crate::node_service::NodeReport;

/// One job that a node may have.
pub(crate) struct Role {
    /// How `cluster.json` names it.
    pub name: RoleName,
    /// Opens the role's data.
    pub open: for<'a> fn(OpenContext<'a>) -> Opening<'a>,
}

/// A role that is being opened.
pub(crate) type Opening<'a> = BoxFuture<'a, Result<Box<dyn OpenedRole>>>;

/// What a role can use when it is opened.
#[derive(Clone, Copy)]
pub(crate) struct OpenContext<'a> {
    /// The cluster's file.
    pub file: &'a ClusterFile,
    /// The node, as the file has it.
    pub entry: &'a NodeEntry,
    /// The classes of this node.
    pub classes: &'a ClassService,
    /// Time.
    pub clock: &'a Arc<dyn Clock>,
}

/// A role before it joins the cluster.
#[async_trait]
pub(crate) trait OpenedRole: Send {
    /// The target that the role opened on this node; `None` if it opened none.
    fn target(&self) -> Option<PlacedTarget> {
        None
    }

    /// Joins the cluster: starts the role's background tasks, and returns the services for the node
    /// to offer.
    ///
    /// # Errors
    /// The errors of the role. The node then does not start.
    async fn join(
        self: Box<Self>,
        node: &JoinContext<'_>,
        offer: &mut Offer<'_>,
    ) -> Result<Arc<dyn RunningRole>>;
}

/// What a role can use when it joins the cluster.
pub(crate) struct JoinContext<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The node, as it registers.
    pub record: &'a nacre::Node,
    /// The classes of this node.
    pub classes: &'a ClassService,
    /// Time.
    pub clock: &'a Arc<dyn Clock>,
}

/// The services and metrics that the roles of a node let it offer.
pub(crate) struct Offer<'a> {
    /// The path of other processes' requests to the node's objects.
    pub stack: Option<Stack>,
    /// The targets whose messages this node delivers.
    pub delivers: Vec<TargetName>,
    /// Whether no other process serves these targets.
    pub is_alone: bool,
    services: Vec<OfferedService>,
    metrics: &'a mut Metrics,
}

/// The right that a request to a service requires, computed from its method and input.
pub(crate) type Admission = for<'a> fn(&str, &'a [u8]) -> Result<Need<'a>>;

/// A service of the wire.
pub(crate) struct OfferedService {
    pub name: &'static str,
    pub service: Arc<dyn Service>,
    /// `None` means that the grant for the service itself, by its name, is enough.
    pub admission: Option<Admission>,
}

impl<'a> Offer<'a> {
    /// Nothing yet.
    pub fn new(metrics: &'a mut Metrics) -> Self {
        Self { stack: None, delivers: vec![], is_alone: false, services: vec![], metrics }
    }

    /// Offers a service. Callers with the grant for the service may use it.
    pub fn service(&mut self, name: &'static str, service: Arc<dyn Service>) {
        self.services.push(OfferedService { name, service, admission: None });
    }

    /// Offers a service whose requests require the right that `admission` computes.
    pub fn guarded_service(
        &mut self,
        name: &'static str,
        service: Arc<dyn Service>,
        admission: Admission,
    ) {
        self.services.push(OfferedService { name, service, admission: Some(admission) });
    }

    /// Adds metrics.
    pub fn metrics(&mut self, collector: impl Collector) {
        self.metrics.add(collector);
    }

    /// The services.
    pub fn into_services(self) -> (Option<Stack>, Vec<OfferedService>) {
        (self.stack, self.services)
    }
}

/// A role at work.
#[async_trait]
pub(crate) trait RunningRole: Send + Sync + fmt::Debug {
    /// Adds the role's part to the node's report.
    fn report(&self, _report: &mut NodeReport) {}

    /// Why it does not do its job, if it does not.
    fn refusal(&self) -> Option<&Error> {
        None
    }

    /// Returns once the reason why this role refuses to serve may be gone. Never returns if the
    /// role serves.
    async fn until_mended(&self) {
        std::future::pending().await
    }

    /// Stops activities that must not continue while the node leaves the cluster.
    fn withdraw(&self) {}

    /// Stops everything else. No request is in flight any more.
    async fn close(&self) {}
}

/// Opens the roles that a node has.
///
/// # Errors
/// Those of the roles.
pub(crate) async fn open_roles(context: OpenContext<'_>) -> Result<Vec<Box<dyn OpenedRole>>> {
    let mut opened = vec![];
    for role in ROLES.iter().filter(|role| context.entry.has(role.name)) {
        opened.push((role.open)(context).await?);
    }
    Ok(opened)
}
