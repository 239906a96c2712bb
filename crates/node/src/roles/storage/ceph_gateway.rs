//! A node's connection to the Ceph cluster that stores the objects, and what the node knows about
//! that Ceph cluster.

use std::sync::Arc;

use nacre::Cluster;
use nacre_clock::Clock;
use nacre_object::NodeName;
use nacre_rados::RadosEngine;

use super::ceph_pulse::CephPulse;
use super::osd_survey::OsdSurvey;
use super::report::RadosReport;
use super::target::StorageTarget;

/// The engine, and the tasks that observe the Ceph cluster behind it.
#[derive(Debug)]
pub(super) struct CephGateway {
    pub engine: RadosEngine,
    pub osds: OsdSurvey,
    pub pulse: CephPulse,
}

impl CephGateway {
    /// The gateway of a node whose objects Ceph keeps. Needs a tokio runtime.
    pub fn of(
        storage: &StorageTarget,
        cluster: &Cluster,
        node: &NodeName,
        clock: &Arc<dyn Clock>,
    ) -> Option<Arc<Self>> {
        let engine = storage.rados.clone()?;
        let osds = OsdSurvey::start(engine.clone(), cluster.clone(), node.clone());
        let (store, clock) = (storage.placed().stack.as_store(), Arc::clone(clock));
        let pulse = CephPulse::start(store, cluster.clone(), node.clone(), clock);
        Some(Arc::new(Self { engine, osds, pulse }))
    }

    /// This gateway's part of the node's report.
    pub fn report(&self) -> RadosReport {
        let counts = self.engine.osd_counts();
        RadosReport {
            by_nacre: counts.by_plugin,
            by_cls_lua: counts.by_stock,
            long_answers: counts.long_answers,
            long_answer_methods: self.engine.long_answers(),
            silent_since_micros: self.pulse.silent_since_micros(),
        }
    }
}
