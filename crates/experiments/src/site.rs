//! The engine that is measured: an embedded engine in a scratch folder, or a pool of a Ceph
//! cluster.

use std::path::Path;

use bytes::Bytes;
use nacre_object::{ObjectId, ObjectName, Op, OpResult, Result};
use nacre_rados::{PlainClient, RadosOptions};
use nacre_tuner::{Fingerprint, OwnEngine, Workbench};

/// The engine that an experiment measures.
pub struct Site {
    engine: OwnEngine,
    /// A plain librados client; `None` for the embedded engine.
    plain: Option<PlainClient>,
}

impl Site {
    /// An embedded engine in a scratch folder inside `base`, so the figure measures the disk of
    /// `base`.
    ///
    /// # Errors
    /// `Unavailable` if `base` cannot be written.
    pub fn embedded(base: &Path) -> Result<Self> {
        Ok(Self { engine: OwnEngine::embedded(base)?, plain: None })
    }

    /// A Ceph cluster.
    ///
    /// # Errors
    /// The errors of connecting to the cluster.
    pub async fn on_ceph(options: RadosOptions) -> Result<Self> {
        let engine = OwnEngine::on_ceph(options.clone()).await?;
        let pool = engine.bench().pool().to_string();
        let plain = Some(PlainClient::connect(options, &pool).await?);
        Ok(Self { engine, plain })
    }

    /// Identifies the engine and its machine in reports.
    pub fn fingerprint(&self) -> &Fingerprint {
        self.engine.fingerprint()
    }

    /// The objects of this run that experiments have not removed.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn left(&self) -> Result<Vec<ObjectName>> {
        self.engine.bench().objects().await
    }

    pub(crate) fn handle(&self) -> SiteHandle {
        SiteHandle { bench: self.engine.bench().clone(), plain: self.plain.clone() }
    }
}

/// The part of a site that workers use.
#[derive(Clone)]
pub(crate) struct SiteHandle {
    pub bench: Workbench,
    plain: Option<PlainClient>,
}

impl SiteHandle {
    /// Appends to the byte stream of an object in the engine's cheapest way. On Ceph this is
    /// `rados_aio_append`. nacre's own append costs more there, because it returns the offset of
    /// the new bytes and has to look it up.
    pub async fn append(&self, object: &ObjectId, data: Bytes) -> Result<()> {
        match &self.plain {
            Some(plain) => plain.append(object.name.as_str(), data).await,
            None => self.submit(object, vec![Op::Append { data }]).await.map(drop),
        }
    }

    /// One transaction.
    pub async fn submit(&self, object: &ObjectId, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        self.bench.submit(object, ops).await
    }
}
