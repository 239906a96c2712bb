//! The benches by name, and what they run with.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use nacre_node::LocalCluster;
use nacre_object::{Error, Result};
use nacre_rados::RadosOptions;
use tokio::sync::OnceCell;

use crate::{
    Figure, append, balance_sequencers, balancer_model, balancer_tick, brados_call, brados_choose,
    brados_compile, brados_corfu, brados_scale, brados_stripes, call, ceph_append, ceph_call,
    handover, migrate, object, propagate, read, recover, route_caches, route_direct, route_recover,
    route_replicas, route_switch, route_tail, route_update, scale, sequencer, sequencer_caps,
    slo_decide, slo_keep, slo_overhead, slo_place, start, thesis, watch,
};

/// Objects to which `scale` fills a pool by default: about half a minute of writes.
pub const DEFAULT_SCALE_OBJECTS: u64 = 100_000;
/// GiB to which `scale` fills a pool by default: about half a minute of writes.
pub const DEFAULT_SCALE_POOL_GIB: u64 = 1;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bench {
    /// Durable log appends through the wire.
    Append,
    /// Random reads of a log.
    Read,
    /// Objects: durable writes, reads and map sets, in process and through the wire.
    Object,
    /// Methods in Luau beside native ops.
    Call,
    /// The class generated from a Brados program beside one written by hand.
    BradosCall,
    /// The log on the class generated from relations beside the native one.
    BradosCorfu,
    /// Brados programs from source to class.
    BradosCompile,
    /// Point operations on a table of many rows beside one of few.
    BradosScale,
    /// A Brados program on several objects beside the same on one.
    BradosStripes,
    /// The layouts that the tuner chooses beside the best there are.
    BradosChoose,
    /// Positions from a sequencer.
    Sequencer,
    /// Positions issued by a client that is alone.
    SequencerCaps,
    /// A sequencer that moves from node to node.
    Migrate,
    /// A balancer's decision.
    BalancerTick,
    /// The balancing simulator beside a real cluster.
    BalancerModel,
    /// Busy sequencers on one node beside the same spread by a policy.
    BalanceSequencers,
    /// A scheduler's decision.
    SloDecide,
    /// Targets for many tenants.
    SloPlace,
    /// The layer that keeps latency promises, while it limits no tenant.
    SloOverhead,
    /// Promised latencies while a tenant bursts.
    SloKeep,
    /// Which tenants estimators admit, and the load that follows.
    SloAdmit,
    /// IO through a switch with rules.
    RouteSwitch,
    /// A switch with many rules after its node was killed.
    RouteRecover,
    /// A cache divided among tenants beside one for all.
    RouteCaches,
    /// Reads of objects with copies beside reads of the objects alone.
    RouteReplicas,
    /// Reads of routed bytes where they are beside reads through the home.
    RouteDirect,
    /// The tail latency of a target in a burst, with and without routing.
    RouteTail,
    /// The bytes that a change of rules and statistics cost.
    RouteUpdate,
    /// The time until an activated program runs on all subscribers.
    Propagate,
    /// The time until a commit of a map reaches all watchers.
    Watch,
    /// How long clients cannot write to a log after a process was killed.
    Recover,
    /// Many clients, objects and bytes, compared with few.
    Scale,
    /// A cluster's start, and its memory.
    Start,
    /// How long the machine takes to wake a thread.
    Handover,
}

impl Bench {
    /// Every bench, in the order of the README's table.
    pub const ALL: [Bench; 34] = [
        Self::Append,
        Self::Read,
        Self::Object,
        Self::Call,
        Self::BradosCall,
        Self::BradosCorfu,
        Self::BradosCompile,
        Self::BradosScale,
        Self::BradosStripes,
        Self::BradosChoose,
        Self::Sequencer,
        Self::SequencerCaps,
        Self::Migrate,
        Self::BalancerTick,
        Self::BalancerModel,
        Self::BalanceSequencers,
        Self::SloDecide,
        Self::SloPlace,
        Self::SloOverhead,
        Self::SloKeep,
        Self::SloAdmit,
        Self::RouteSwitch,
        Self::RouteRecover,
        Self::RouteCaches,
        Self::RouteReplicas,
        Self::RouteDirect,
        Self::RouteTail,
        Self::RouteUpdate,
        Self::Propagate,
        Self::Watch,
        Self::Recover,
        Self::Scale,
        Self::Start,
        Self::Handover,
    ];

    /// The benches that also run on a Ceph cluster.
    pub const ON_CEPH: [Bench; 12] = [
        Self::Append,
        Self::Call,
        Self::BradosCall,
        Self::BradosCorfu,
        Self::BradosStripes,
        Self::BradosChoose,
        Self::SloKeep,
        Self::SloAdmit,
        Self::RouteCaches,
        Self::RouteReplicas,
        Self::RouteTail,
        Self::Propagate,
    ];

    /// Its name on the command line and in its figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Read => "read",
            Self::Object => "object",
            Self::Call => "call",
            Self::BradosCall => "brados-call",
            Self::BradosCorfu => "brados-corfu",
            Self::BradosCompile => "brados-compile",
            Self::BradosScale => "brados-scale",
            Self::BradosStripes => "brados-stripes",
            Self::BradosChoose => "brados-choose",
            Self::Sequencer => "sequencer",
            Self::SequencerCaps => "sequencer-caps",
            Self::Migrate => "migrate",
            Self::BalancerTick => "balancer-tick",
            Self::BalancerModel => "balancer-model",
            Self::BalanceSequencers => "balance-sequencers",
            Self::SloDecide => "slo-decide",
            Self::SloPlace => "slo-place",
            Self::SloOverhead => "slo-overhead",
            Self::SloKeep => "slo-keep",
            Self::SloAdmit => "slo-admit",
            Self::RouteSwitch => "route-switch",
            Self::RouteRecover => "route-recover",
            Self::RouteCaches => "route-caches",
            Self::RouteReplicas => "route-replicas",
            Self::RouteDirect => "route-direct",
            Self::RouteTail => "route-tail",
            Self::RouteUpdate => "route-update",
            Self::Propagate => "propagate",
            Self::Watch => "watch",
            Self::Recover => "recover",
            Self::Scale => "scale",
            Self::Start => "start",
            Self::Handover => "handover",
        }
    }
}

impl FromStr for Bench {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|bench| bench.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("there is no bench {text:?}"))
                .hint(format!("choose one of {names}"))
        })
    }
}

/// How to measure.
#[derive(Debug)]
pub struct Setup {
    /// Where the scratch folders are made: the disk that is measured.
    pub folder: PathBuf,
    /// The `nacre` program, to run nodes with.
    pub program: PathBuf,
    /// The Ceph cluster to measure on, rather than on nodes of its own.
    pub ceph: Option<RadosOptions>,
    /// The repository's `scripts/ceph-cluster`, for benches that need a Ceph cluster of their own.
    pub ceph_cluster: Option<PathBuf>,
    /// A cluster in this process whose data is in the Ceph cluster. The first bench that needs it
    /// creates it.
    pub in_process: OnceCell<LocalCluster>,
    /// How long each side is measured in a round.
    pub span: Duration,
    /// How many times each side is measured. The medians count.
    pub rounds: usize,
    /// Measure only figures whose names hold this; empty for all.
    pub only: String,
    /// Objects that `scale` grows a pool to.
    pub objects: u64,
    /// Bytes that `scale` grows a pool to.
    pub pool_bytes: u64,
}

impl Setup {
    /// How to measure a figure of a paper on nodes.
    pub fn figure(folder: PathBuf, program: PathBuf, span: Duration, rounds: usize) -> Self {
        Self {
            folder,
            program,
            ceph: None,
            ceph_cluster: None,
            in_process: OnceCell::new(),
            span,
            rounds,
            only: String::new(),
            objects: DEFAULT_SCALE_OBJECTS,
            pool_bytes: DEFAULT_SCALE_POOL_GIB << 30,
        }
    }

    /// The script that starts Ceph clusters.
    ///
    /// # Errors
    /// `Invalid` if the user named none.
    pub(crate) fn ceph_script(&self) -> Result<&Path> {
        self.ceph_cluster.as_deref().ok_or_else(|| {
            Error::invalid("this bench starts a Ceph cluster of its own")
                .hint("say how: --ceph-cluster scripts/ceph-cluster")
        })
    }

    /// Where nacre's class for OSDs lies, if it is built: beside the `nacre` command.
    pub(crate) fn class_folder(&self) -> &Path {
        self.program.parent().unwrap_or(Path::new("/"))
    }

    /// Whether a figure of this name is to be measured.
    pub(crate) fn wants(&self, figure: &str) -> bool {
        figure.contains(&self.only)
    }

    /// A cluster in this process whose data is in a Ceph cluster.
    ///
    /// # Errors
    /// As [`LocalCluster::ceph`].
    pub(crate) async fn in_process(&self, options: &RadosOptions) -> Result<LocalCluster> {
        let connecting = || LocalCluster::ceph(options.clone());
        self.in_process.get_or_try_init(connecting).await.cloned()
    }

    /// Closes what benches have left open, including benches that failed or were dropped.
    pub async fn close(&self) {
        if let Some(cluster) = self.in_process.get() {
            cluster.close().await;
        }
    }
}

/// Runs a bench and reports each figure as soon as it is known.
///
/// # Errors
/// `Unavailable` if the software of a baseline is missing, with what to install; any error of the
/// measured operations.
pub async fn run(bench: Bench, setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    if let Some(options) = &setup.ceph {
        return match bench {
            Bench::Append => ceph_append::run(setup, options, report).await,
            Bench::Call => ceph_call::run(setup, options, report).await,
            Bench::BradosCall => brados_call::run_on_ceph(setup, options, report).await,
            Bench::BradosCorfu => brados_corfu::run_on_ceph(setup, options, report).await,
            Bench::BradosStripes => brados_stripes::run_on_ceph(setup, options, report).await,
            Bench::BradosChoose => brados_choose::run_on_ceph(setup, options, report).await,
            Bench::SloKeep => slo_keep::run_on_ceph(setup, report).await,
            Bench::SloAdmit => thesis::run_on_ceph(setup, report).await,
            Bench::RouteCaches => route_caches::run_on_ceph(setup, report).await,
            Bench::RouteReplicas => route_replicas::run_on_ceph(setup, report).await,
            Bench::RouteTail => route_tail::run_on_ceph(setup, report).await,
            Bench::Propagate => propagate::run_on_ceph(setup, options, report).await,
            other => Err(Error::unsupported(format!("{} is not measured on Ceph", other.name()))
                .hint("leave --engine out")),
        };
    }
    match bench {
        Bench::Append => append::run(setup, report).await,
        Bench::Read => read::run(setup, report).await,
        Bench::Object => object::run(setup, report).await,
        Bench::Call => call::run(setup, report).await,
        Bench::BradosCall => brados_call::run(setup, report).await,
        Bench::BradosCorfu => brados_corfu::run(setup, report).await,
        Bench::BradosCompile => brados_compile::run(setup, report),
        Bench::BradosScale => brados_scale::run(setup, report).await,
        Bench::BradosStripes => brados_stripes::run(setup, report).await,
        Bench::BradosChoose => brados_choose::run(setup, report).await,
        Bench::Sequencer => sequencer::run(setup, report).await,
        Bench::SequencerCaps => sequencer_caps::run(setup, report).await,
        Bench::Migrate => migrate::run(setup, report).await,
        Bench::BalancerTick => balancer_tick::run(setup, report),
        Bench::BalancerModel => balancer_model::run(setup, report).await,
        Bench::BalanceSequencers => balance_sequencers::run(setup, report).await,
        Bench::SloDecide => slo_decide::run(setup, report),
        Bench::SloPlace => slo_place::run(setup, report),
        Bench::SloOverhead => slo_overhead::run(setup, report).await,
        Bench::SloKeep => slo_keep::run(setup, report).await,
        Bench::SloAdmit => thesis::run(setup, report).await,
        Bench::RouteSwitch => route_switch::run(setup, report).await,
        Bench::RouteRecover => route_recover::run(setup, report).await,
        Bench::RouteCaches => route_caches::run(setup, report).await,
        Bench::RouteReplicas => route_replicas::run(setup, report).await,
        Bench::RouteDirect => route_direct::run(setup, report).await,
        Bench::RouteTail => route_tail::run(setup, report).await,
        Bench::RouteUpdate => route_update::run(setup, report).await,
        Bench::Propagate => propagate::run(setup, report).await,
        Bench::Watch => watch::run(setup, report).await,
        Bench::Recover => recover::run(setup, report).await,
        Bench::Scale => scale::run(setup, report).await,
        Bench::Start => start::run(setup, report).await,
        Bench::Handover => handover::run(setup, report),
    }
}
