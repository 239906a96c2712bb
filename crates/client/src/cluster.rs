//! `Cluster`: the handle through which a client reaches everything that a cluster has.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use nacre_capability::NoPrograms;
use nacre_clock::{Clock, SystemClock};
use nacre_host::{HostNodes, HostTransport, MapRecords};
use nacre_log::{
    BRADOS_CLASS, Batching, LogEnv, LogName, PROGRAM_CLASS, Patience, Reconfiguration,
};
use nacre_object::{
    Error, Locate, ObjectId, PoolName, ProgramName, Result, Store, TargetName, Watch,
};
use nacre_placement::{PlacedStore, PlacedTarget};
use nacre_registry::{Entities, Events, Maps, Nodes, ProgramId, ProgramKind, Programs};
use nacre_resource::Resources;
use nacre_slo::Slos;

use crate::class_versions::ProgramVersions;
use crate::cluster_file::ClusterFile;
use crate::hooks::hooks;
use crate::pools::{PoolRecord, Pools};
use crate::sessions::{ConnectOptions, Sessions};
use crate::{Log, LogOptions, Object, Pool};

/// The pools of a new cluster.
const DEFAULT_POOLS: [&str; 2] = ["data", "log"];
/// How many objects a new log is striped over if a Ceph cluster keeps the data. They are enough
/// that the OSDs of a small cluster share the work, and few enough that sealing them is quick.
const CEPH_COLUMNS: u32 = 8;
/// The source of the program that implements the log's storage interface, in this release.
pub const LOG_PROGRAM_SOURCE: &str = include_str!("../../../programs/class/log.lua");
/// The same interface as relations, as this release has it.
pub const LOG_BRADOS_SOURCE: &str = include_str!("../../../programs/class/log.brados");

/// The sources of programs that every node of this release contains, so that no node must read them
/// from the store.
pub const OWN_SOURCES: &[&str] = &[LOG_PROGRAM_SOURCE, LOG_BRADOS_SOURCE];

/// The program that is the log's storage interface.
pub fn log_program() -> ProgramId {
    let name = PROGRAM_CLASS.parse().expect("a literal");
    ProgramId::new(ProgramKind::Class, name)
}

/// A cluster: pools of objects, and the maps, programs and logs kept in them. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    store: Arc<PlacedStore>,
    maps: Maps,
    programs: Programs,
    events: Events,
    nodes: Nodes,
    pools: Pools,
    logs: LogEnv,
    resources: Resources,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("store", &self.store).finish_non_exhaustive()
    }
}

/// How logs use the targets there are.
#[derive(Debug, Clone, Copy)]
pub struct LogUse {
    /// How many objects of each target a new log is striped over. The creator of a log may choose
    /// another number.
    pub columns: u32,
    /// How records share calls.
    pub batching: Batching,
}

impl LogUse {
    /// For targets that are each one disk.
    pub fn of_disks() -> Self {
        Self { columns: 1, batching: Batching::default() }
    }

    /// For a Ceph cluster that this client reaches through `ways` gateways.
    pub fn of_ceph(ways: usize) -> Self {
        Self { columns: CEPH_COLUMNS.div_ceil(ways as u32), batching: Batching::LARGE }
    }
}

/// The parts from which a [`Cluster`] is assembled.
pub struct Parts {
    /// The storage targets.
    pub targets: Vec<PlacedTarget>,
    /// The transport to the nodes that host sequencers.
    pub sequencers: Arc<dyn HostTransport>,
    /// The nodes that host sequencers.
    pub sequencer_nodes: Arc<dyn HostNodes>,
    /// How new logs use the targets.
    pub logs: LogUse,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl Cluster {
    /// Connects to the cluster of this folder, which `nacre up` runs. The client opens connections
    /// when it needs them, so this call succeeds even while nodes are down.
    ///
    /// # Errors
    /// `NotFound` with what to do if there is no cluster in the folder; `Invalid` if its file is
    /// malformed.
    pub async fn connect(folder: impl AsRef<Path>) -> Result<Self> {
        Self::reach(&ClusterFile::read(folder.as_ref())?)
    }

    /// Connects from any computer to the cluster that an identity file names, as the entity of that
    /// file. The client opens connections when it needs them.
    ///
    /// # Errors
    /// `NotFound` if there is no such file; `Invalid` if it is malformed.
    pub async fn connect_as(identity: impl AsRef<Path>) -> Result<Self> {
        Self::reach(&ClusterFile::of_identity(identity)?)
    }

    /// Connects to the cluster of these nodes. Needs a tokio runtime.
    ///
    /// # Errors
    /// `Invalid` if these nodes cannot form a cluster.
    pub fn reach(file: &ClusterFile) -> Result<Self> {
        Self::reach_with(file, &ConnectOptions::default())
    }

    /// As [`Cluster::reach`], with options for the connections.
    ///
    /// # Errors
    /// As [`Cluster::reach`].
    pub fn reach_with(file: &ClusterFile, connect: &ConnectOptions) -> Result<Self> {
        let sessions = Sessions::with(file, connect)?;
        let cluster = Self::assemble(sessions.parts(&[], Arc::new(SystemClock::default()))?)?;
        sessions.find_neighbours_in(&cluster.nodes);
        Ok(cluster)
    }

    /// Assembles a cluster from parts that the caller has made: targets with stores of any kind,
    /// and transports to nodes. Nodes and tests use it.
    ///
    /// # Errors
    /// `Invalid` if the targets cannot form a placement.
    pub fn assemble(parts: Parts) -> Result<Self> {
        let store = Arc::new(PlacedStore::new(parts.targets)?);
        let as_store: Arc<dyn Store> = store.clone();
        let as_watch: Arc<dyn Watch> = store.clone();
        let maps = Maps::new(Arc::clone(&as_store), Arc::clone(&as_watch));
        let clock = parts.clock;
        let hooks = hooks(Arc::clone(&clock));
        let programs = Programs::new(maps.clone(), Arc::clone(&clock), hooks);
        let (transport, hosts) =
            (Arc::clone(&parts.sequencers), Arc::clone(&parts.sequencer_nodes));
        let resources = Resources::new(maps.clone(), transport, hosts, clock);
        let logs = LogEnv {
            store: Arc::clone(&as_store),
            placement: store.clone(),
            views: Arc::new(MapRecords::new(maps.clone())),
            sequencers: parts.sequencers,
            nodes: parts.sequencer_nodes,
            policies: Arc::new(NoPrograms),
            classes: Arc::new(ProgramVersions::new(programs.clone())),
            patience: Patience::default(),
            batching: parts.logs.batching,
            columns: parts.logs.columns,
        };
        Ok(Self {
            events: Events::new(as_store, as_watch),
            nodes: Nodes::new(maps.clone()),
            pools: Pools::new(maps.clone()),
            store,
            maps,
            programs,
            logs,
            resources,
        })
    }

    /// A handle to this cluster whose logs combine records into calls as `batching` says.
    #[must_use]
    pub fn batching(&self, batching: Batching) -> Self {
        let mut cluster = self.clone();
        cluster.logs.batching = batching;
        cluster
    }

    /// Its targets as one store.
    pub fn store(&self) -> &Arc<PlacedStore> {
        &self.store
    }

    /// Service metadata.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// Versioned policy.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The cluster log.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The entities that may connect, and what each may do.
    pub fn entities(&self) -> Entities {
        Entities::new(self.maps.clone())
    }

    /// The node registry.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The shared resources.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The tail latencies that tenants were promised.
    pub fn slos(&self) -> Slos {
        Slos::new(self.maps.clone())
    }

    /// What the client of a log needs.
    pub fn log_env(&self) -> &LogEnv {
        &self.logs
    }

    /// A pool.
    ///
    /// # Errors
    /// `NotFound` with the pools there are; `Unavailable`.
    pub async fn pool(&self, name: &str) -> Result<Pool> {
        let name = PoolName::new(name)?;
        self.pools.check(&name).await?;
        Ok(Pool::on_targets(self.store.clone(), name))
    }

    /// An object of an existing pool; the object itself need not exist.
    ///
    /// # Errors
    /// As [`Cluster::pool`].
    pub async fn object(&self, id: &ObjectId) -> Result<Object> {
        self.pool(id.pool.as_str()).await?.object(id.name.as_str())
    }

    /// Which target holds an object, whether it exists or not.
    pub fn locate(&self, id: &ObjectId) -> TargetName {
        self.store.locate(id)
    }

    /// The pools, by name.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn pools(&self) -> Result<Vec<PoolName>> {
        self.pools.list().await
    }

    /// Makes a pool. It is no error if the pool exists already.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn create_pool(&self, name: &PoolName) -> Result<()> {
        self.pools.create(name, &PoolRecord::default()).await
    }

    /// Adds the record of a pool that lies in a RADOS pool of its own. The gateways must know of
    /// the RADOS pool already. It is no error if the pool exists already.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn create_pool_in(&self, name: &PoolName, rados_pool: &str) -> Result<()> {
        let record = PoolRecord { rados_pool: Some(rados_pool.to_owned()) };
        self.pools.create(name, &record).await
    }

    /// What is recorded about each pool.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt` if a record is malformed.
    pub async fn pool_records(&self) -> Result<BTreeMap<PoolName, PoolRecord>> {
        self.pools.records().await
    }

    /// Makes the pools of a new cluster: `data` for objects, and `log` for the objects of logs.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn create_default_pools(&self) -> Result<()> {
        for name in DEFAULT_POOLS {
            self.create_pool(&PoolName::new(name)?).await?;
        }
        Ok(())
    }

    /// Removes a pool that holds no objects.
    ///
    /// # Errors
    /// `Conflict` if it holds objects; `NotFound`; `Unavailable`.
    pub async fn remove_pool(&self, name: &PoolName) -> Result<()> {
        let pool = self.pool(name.as_str()).await?;
        if !pool.list(None, "", 1).await?.names.is_empty() {
            return Err(nacre_object::Error::conflict(format!("pool {name} holds objects"))
                .hint(format!("see them with `nacre object ls {name}`")));
        }
        self.pools.remove(name).await
    }

    /// Makes a log.
    ///
    /// # Errors
    /// `Exists`; `Invalid` for a bad name, or for a class that cannot store logs; `NotFound` if the
    /// pool or class does not exist; `Unavailable`.
    pub async fn create_log(&self, name: &str, options: LogOptions) -> Result<Log> {
        let name = LogName::new(name)?;
        self.pools.check(&options.pool).await?;
        match options.class.as_str() {
            PROGRAM_CLASS => self.install_unless_there(&log_program(), LOG_PROGRAM_SOURCE).await?,
            BRADOS_CLASS => {
                let program = ProgramId::new(ProgramKind::Class, options.class.as_str().parse()?);
                self.install_unless_there(&program, LOG_BRADOS_SOURCE).await?;
            }
            _ => {}
        }
        self.check_log_class(&options.class).await?;
        self.logs.classes.refresh(&options.class).await?;
        Log::create(self.logs.clone(), name, options).await
    }

    /// Puts and activates a program of the standard library, unless a version of it is active.
    pub(crate) async fn install_unless_there(
        &self,
        program: &ProgramId,
        source: &str,
    ) -> Result<()> {
        if self.programs.active(program).await?.is_none() {
            let version = self.programs.put(program, source).await?;
            self.programs.activate(program, version).await?;
        }
        Ok(())
    }

    /// A log.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable`.
    pub async fn log(&self, name: &str) -> Result<Log> {
        let log = Log::open(self.logs.clone(), LogName::new(name)?).await?;
        // From now on this client's calls name the version of the class that is active now.
        self.logs.classes.refresh(log.view().class()).await?;
        Ok(log)
    }

    /// Lets a `capability` program decide which client holds the capability of a log's sequencer,
    /// for how long, and which client is next. With `None` the default policy decides,
    /// [`BestEffort`](nacre_capability::BestEffort). The present holder keeps the capability if the
    /// program would grant it to that client.
    ///
    /// # Errors
    /// `NotFound` if there is no such log, or no version of the program is active; `Unavailable`.
    pub async fn set_log_capability(&self, log: &str, program: Option<ProgramName>) -> Result<()> {
        let log = self.log(log).await?;
        if let Some(program) = &program {
            self.check_capability_program(program).await?;
        }
        log.reconfigure(Reconfiguration::Capability(program)).await.map(drop)
    }

    /// Checks that a capability program can decide for a log.
    ///
    /// # Errors
    /// `NotFound` if no version of it is active; `Unavailable`.
    pub async fn check_capability_program(&self, name: &ProgramName) -> Result<()> {
        self.check_active(&ProgramId::new(ProgramKind::Capability, name.clone())).await
    }

    /// Lets an `slo` program order the requests to each target; `None` means the built-in order.
    /// Nodes use the active version of the program. No waiting request is lost when the version
    /// changes.
    ///
    /// # Errors
    /// `NotFound` if no version of the program is active; `Unavailable`.
    pub async fn set_slo_order(&self, program: Option<ProgramName>) -> Result<()> {
        if let Some(name) = &program {
            self.check_active(&ProgramId::new(ProgramKind::Slo, name.clone())).await?;
        }
        self.slos().set_order(program.as_ref()).await
    }

    async fn check_active(&self, program: &ProgramId) -> Result<()> {
        match self.programs.active(program).await? {
            Some(_) => Ok(()),
            None => Err(Error::not_found(format!("{program} has no active version")).hint(
                format!("put and activate one: nacre program put {program} FILE --activate"),
            )),
        }
    }

    /// Removes a log and all its records. Existing handles to the log then find nothing, even if a
    /// log of the same name is made later.
    ///
    /// # Errors
    /// `NotFound` if there is no such log, or if the log's class has no active version: only the
    /// class can remove the log's objects. After `Unavailable` the log may be partly removed;
    /// another call removes the rest.
    pub async fn remove_log(&self, name: &str) -> Result<()> {
        let name = LogName::new(name)?;
        let known = self.logs.views.last(&name).await?.filter(|view| !view.is_buried());
        if let Some(view) = known {
            let there = self.active_log_class(view.class()).await;
            there.map_err(|error| {
                error.hint(format!(
                    "put and activate the class of the log, then remove the log; if class/{} never stored logs, \
                     put the source of class/log under that name",
                    view.class()
                ))
            })?;
            // Learn the active version of the class, because `Log::remove` names it in its calls to
            // the log's objects. A node that lacks this version then reads it from the store.
            self.logs.classes.refresh(view.class()).await?;
        }
        Log::remove(self.logs.clone(), name).await
    }

    /// The logs, by name.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn logs(&self) -> Result<Vec<LogName>> {
        self.logs.views.names().await
    }
}
