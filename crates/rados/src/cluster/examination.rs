//! Examines a cluster for everything that decides how well nacre runs on it.

use serde::Serialize;

use nacre_object::{Error, Result};

use crate::classes::survey::{OsdClasses, PROBE_POOL, Surveyor};
use crate::cluster::osd_map::{OsdMap, OsdMetadata, OsdState, PoolState};
use crate::ffi::Cluster;
use crate::{RadosOptions, cluster::connection};

/// A cluster, examined.
#[derive(Debug, Clone, Serialize)]
pub struct Examination {
    /// The RADOS pool for nacre's pools; `None` if it does not exist.
    pub pool: Option<PoolFacts>,
    /// The OSDs, by number.
    pub osds: Vec<OsdFacts>,
}

/// The pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolFacts {
    /// Whether it keeps whole copies.
    pub is_replicated: bool,
    /// How many.
    pub size: u32,
    /// Without how many nothing is served.
    pub min_size: u32,
}

/// An OSD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OsdFacts {
    /// Its number.
    pub osd: i32,
    /// Whether it serves.
    pub is_up: bool,
    /// Where it runs, or ran last.
    pub host: String,
    /// The OSD's version of Ceph.
    pub ceph_version: String,
    /// The OSD's object store: `bluestore`, `memstore`.
    pub object_store: String,
    /// The settings that matter; `None` if the OSD did not return them.
    pub settings: Option<OsdSettings>,
    /// The OSD's classes, if it serves and the pool exists.
    pub classes: Option<OsdClasses>,
}

/// Settings of an OSD, as they are in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OsdSettings {
    /// `osd_class_load_list`: the classes it loads.
    pub load_list: String,
    /// `osd_class_default_list`: the classes that every client with `x` may call.
    pub default_list: String,
    /// `osd_max_write_op_reply_len`: the longest answer to a change that it lets through.
    pub max_reply_bytes: u64,
}

/// Examines the cluster that the options name. The pool in the options need not exist.
///
/// # Errors
/// The reason why a client cannot connect to the cluster.
pub async fn examine(options: RadosOptions) -> Result<Examination> {
    let asked = tokio::task::spawn_blocking(move || facts(&options)).await;
    let (mut examination, survey) = asked.unwrap_or_else(|error| {
        Err(Error::unavailable(format!("the operation was interrupted: {error}")).hint("try again"))
    })?;
    if let Some((targets, context)) = survey {
        let survey = targets.ask(&context).await;
        for facts in &mut examination.osds {
            facts.classes = survey.osds.iter().find(|osd| osd.osd == facts.osd).copied();
        }
    }
    Ok(examination)
}

type Asking = (crate::classes::survey::Targets, std::sync::Arc<crate::ffi::IoContext>);

/// Asks monitors and OSDs, and waits. Also returns the objects by which to survey the OSDs'
/// classes.
fn facts(options: &RadosOptions) -> Result<(Examination, Option<Asking>)> {
    let cluster = connection::connect(options)?;
    let map = OsdMap::ask(&cluster)?;
    let metadata = OsdMetadata::ask_all(&cluster)?;
    let facts = map.osds.iter().map(|osd| facts_of(osd, &metadata, &cluster)).collect();
    let pool = map.pools.iter().find(|pool| pool.name == options.pool).map(pool_facts);
    let asking = match &pool {
        Some(pool) if pool.is_replicated => {
            let context = connection::open(&cluster, options, PROBE_POOL)?;
            Some((Surveyor::default().find(&cluster, options)?, context))
        }
        _ => None,
    };
    Ok((Examination { pool, osds: facts }, asking))
}

fn pool_facts(pool: &PoolState) -> PoolFacts {
    PoolFacts { is_replicated: pool.is_replicated(), size: pool.size, min_size: pool.min_size }
}

fn facts_of(osd: &OsdState, metadata: &[OsdMetadata], cluster: &Cluster) -> OsdFacts {
    let said = metadata.iter().find(|said| said.id == osd.id);
    let settings = osd.is_up().then(|| settings_of(osd.id, cluster)).flatten();
    OsdFacts {
        osd: osd.id,
        is_up: osd.is_up(),
        host: said.map(|said| said.hostname.clone()).unwrap_or_default(),
        ceph_version: said.map(|said| said.ceph_version.clone()).unwrap_or_default(),
        object_store: said.map(|said| said.object_store.clone()).unwrap_or_default(),
        settings,
        classes: None,
    }
}

/// The settings of an OSD. Not every user may read them.
fn settings_of(osd: i32, cluster: &Cluster) -> Option<OsdSettings> {
    let setting = |name: &str| {
        let command = serde_json::json!({ "prefix": "config get", "var": name, "format": "json" });
        let answer = cluster.ask_osd(osd, &command.to_string()).ok()?;
        let answer: serde_json::Value = serde_json::from_slice(&answer).ok()?;
        Some(answer.get(name)?.as_str()?.to_owned())
    };
    Some(OsdSettings {
        load_list: setting("osd_class_load_list")?,
        default_list: setting("osd_class_default_list")?,
        max_reply_bytes: setting("osd_max_write_op_reply_len")?.parse().ok()?,
    })
}
