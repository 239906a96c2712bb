//! What a node tells its keeper of layouts: what all nodes counted, and what engine it has.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nacre::{CallsSeen, ClusterFile, LayoutObserver, LifeOfNode, RadosOptions, Sessions};
use nacre_object::Result;
use nacre_rados::{Survey, examine};
use nacre_tuner::{Fingerprint, OwnEngine};

use crate::calls::gather_calls;
use crate::ceph_gateway::CephGateway;

/// What keeps the node's objects.
#[derive(Debug)]
pub(crate) enum Keeping {
    /// This folder.
    Folder(PathBuf),
    /// OSDs.
    Osds(Osds),
}

/// The OSDs of a Ceph cluster.
#[derive(Debug)]
pub(crate) struct Osds {
    gateway: Arc<CephGateway>,
    options: RadosOptions,
    /// What they were when the survey came to this. To ask each what it is takes a connection.
    known: Mutex<Option<(Survey, Fingerprint)>>,
}

impl Osds {
    pub fn new(gateway: Arc<CephGateway>, options: RadosOptions) -> Self {
        Self { gateway, options, known: Mutex::default() }
    }

    async fn fingerprint(&self) -> Option<Fingerprint> {
        let survey = self.gateway.osds.latest()?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, fingerprint)) = known.filter(|(of, _)| *of == survey) {
            return Some(fingerprint);
        }
        let examination = examine(self.options.clone()).await.ok()?;
        let fingerprint = Fingerprint::of_ceph(&survey, &examination.osds);
        let now = Some((survey, fingerprint.clone()));
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Some(fingerprint)
    }
}

/// A node's view of the others.
#[derive(Debug)]
pub(crate) struct NodeObserver {
    pub sessions: Sessions,
    pub file: ClusterFile,
    pub keeping: Keeping,
}

#[async_trait]
impl LayoutObserver for NodeObserver {
    async fn calls(&self) -> Vec<(LifeOfNode, BTreeMap<String, CallsSeen>)> {
        let gathered = gather_calls(&self.sessions, &self.file).await.into_iter();
        let answered = gathered.filter_map(|(node, calls)| Some((node, calls.ok()?)));
        answered.map(|(node, calls)| ((node, calls.incarnation), calls.classes)).collect()
    }

    async fn engine(&self) -> Option<Fingerprint> {
        match &self.keeping {
            Keeping::Folder(folder) => Fingerprint::of_folder(folder).ok(),
            Keeping::Osds(osds) => osds.fingerprint().await,
        }
    }

    async fn own_engine(&self) -> Result<OwnEngine> {
        match &self.keeping {
            Keeping::Folder(folder) => OwnEngine::beside_folder(folder).await,
            Keeping::Osds(osds) => OwnEngine::beside_ceph(osds.options.clone()).await,
        }
    }
}
