//! `CephFsTrial`: a workload on some ranks under a balancer. Each round has a cluster of its own.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use nacre_balance::translate;
use nacre_cephfs::{CephFs, CephFsClient, FsMap, RankCounters};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};
use nacre_rados::Expected;

use super::clients::{Worker, in_thread, root};
use super::dev_cluster::DevCluster;
use super::operations::{Directories, Operation, directories_of, operations_of};
use super::report::{Latency, TrialRound};
use crate::policies::{NEVER, PolicyPlan};
use crate::workloads::{ENTRIES_BEFORE_FRAGMENTS, Workload};

/// The time between two decisions of a rank. Ceph's default of 10 s is made for jobs that take
/// minutes. One second would be too short: a rank may take half a tick, in whole seconds, to read a
/// policy.
const TICK_SECONDS: u32 = 2;
/// The half-life of the counters of directories: half of a tick, as usual in Ceph.
const HALF_LIFE_SECONDS: u32 = 1;
/// How often a rank checks whether a tick is over.
const LOOK_SECONDS: u32 = 1;
/// Directory entries that a client of Ceph keeps unless told otherwise.
const CLIENT_CACHE: f64 = 16_384.0;
/// How often the counters of the ranks are read.
const SAMPLE: Duration = Duration::from_millis(500);
/// How often to check whether the ranks have loaded a policy.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long the ranks may take to load a policy, or to hand over placed directories.
const DEADLINE: Duration = Duration::from_secs(60);
/// Once no rank has handed a directory over for this long, the directories are where they belong.
const PLACED: Duration = Duration::from_secs(3);

/// What balances the ranks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Balancer {
    /// Ceph's own balancer.
    OfCeph,
    /// A policy that `nacre balancer cephfs push` would push.
    Policy(PolicyPlan),
}

/// On which ranks the directories are at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// All on the first rank.
    FirstRank,
    /// Assigned to the ranks in turn, and pinned there.
    Pinned,
    /// Distributed by Ceph, by a hash of each directory.
    Hashed,
}

/// A workload on some ranks.
#[derive(Debug, Clone)]
pub(super) struct CephFsTrial {
    pub name: String,
    pub ranks: usize,
    pub clients: usize,
    pub workload: fn(usize, u64) -> Workload,
    pub placement: Placement,
    pub balancer: Balancer,
    /// The number of steps at the beginning of each job during which no balancer runs.
    pub quiet_steps: usize,
}

/// How a trial is carried out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conditions<'a> {
    pub script: &'a Path,
    pub scale_down: u32,
    pub seed: u64,
}

impl CephFsTrial {
    /// A trial on which nothing but `balancer` moves directories.
    pub fn new(
        ranks: usize,
        clients: usize,
        workload: fn(usize, u64) -> Workload,
        balancer: Balancer,
    ) -> Self {
        let name = match balancer {
            _ if ranks == 1 => "one rank".to_owned(),
            Balancer::OfCeph => format!("Ceph's own balancer, {ranks} ranks"),
            Balancer::Policy(policy) => format!("{}, {ranks} ranks", policy.name),
        };
        let placement = Placement::FirstRank;
        Self { name, ranks, clients, workload, placement, balancer, quiet_steps: 0 }
    }

    /// Runs one round. Returns its result and the version of Ceph.
    ///
    /// # Errors
    /// `Unavailable` if the cluster does not start or an operation fails; `Fault` if a rank cannot
    /// run the policy.
    pub async fn round(&self, conditions: Conditions<'_>) -> Result<(TrialRound, String)> {
        let settings = settings(conditions.scale_down);
        let cluster = DevCluster::start(conditions.script, self.ranks, &settings).await?;
        let round = self.on(&cluster, conditions).await;
        let ended = cluster.end().await;
        let round = round?;
        ended.map(|()| round)
    }

    async fn on(
        &self,
        cluster: &DevCluster,
        conditions: Conditions<'_>,
    ) -> Result<(TrialRound, String)> {
        let Conditions { scale_down, seed, .. } = conditions;
        let workload = (self.workload)(self.clients, seed);
        let directories = Directories::of(&workload.units);
        let jobs: Vec<_> =
            workload.jobs.iter().map(|job| operations_of(job, &directories, scale_down)).collect();
        let site = Site::open(cluster).await?;
        let all = directories_of(&workload.jobs, &directories);
        site.prepare(all, self.placement, self.ranks).await?;
        let first = if self.quiet_steps > 0 { Balancer::Policy(NEVER) } else { self.balancer };
        site.switch_to(first).await?;
        if self.placement != Placement::FirstRank {
            site.await_placed().await?;
        }
        let before = site.counters().await?;
        let mut workers = site.workers(self.clients, scale_down, seed).await?;
        let clock = SystemClock::default();
        let began = clock.monotonic();
        let end = jobs.iter().map(Vec::len).max().unwrap_or(0);
        let mut samples = vec![];
        let steps = [0..self.quiet_steps, self.quiet_steps..end];
        for steps in steps.into_iter().filter(|steps| !steps.is_empty()) {
            if steps.start > 0 {
                site.switch_to(self.balancer).await?;
            }
            let working = work(workers, &jobs, steps);
            tokio::pin!(working);
            workers = loop {
                tokio::select! {
                    done = &mut working => break done?,
                    () = tokio::time::sleep(SAMPLE) => {
                        samples.push((clock.monotonic() - began, site.counters().await?));
                    }
                }
            };
        }
        let seconds = (clock.monotonic() - began).as_secs_f64();
        let after = site.counters().await?;
        site.check_policy().await?;
        let latencies: Vec<_> = workers.iter().map(|worker| worker.latencies().to_vec()).collect();
        in_thread(move || {
            drop(workers);
            Ok(())
        })
        .await?;
        let since = |counters: Vec<RankCounters>| -> Vec<RankCounters> {
            counters.into_iter().zip(&before).map(|(now, then)| now.since(*then)).collect()
        };
        let round = TrialRound {
            seconds,
            operations: latencies.iter().map(Vec::len).sum::<usize>() as u64,
            latency: Latency::of(latencies.concat()),
            ranks: since(after),
            samples: samples
                .into_iter()
                .map(|(at, counters)| (at.as_secs_f64(), since(counters)))
                .collect(),
        };
        let version = site.map.ranks.first().map(|rank| rank.ceph_version.clone());
        Ok((round, version.unwrap_or_default()))
    }
}

/// The Ceph settings of a round's cluster. The Mantle paper's tick of 10 s, and the 50,000 entries
/// after which a directory is divided, are scaled down.
pub(super) fn settings(scale_down: u32) -> Vec<String> {
    let entries = (ENTRIES_BEFORE_FRAGMENTS / f64::from(scale_down)).round();
    vec![
        format!("mds_bal_interval={TICK_SECONDS}"),
        format!("mds_tick_interval={LOOK_SECONDS}"),
        format!("mds_decay_halflife={HALF_LIFE_SECONDS}"),
        format!("mds_bal_fragment_interval={LOOK_SECONDS}"),
        format!("mds_bal_split_size={entries}"),
        "mds_bal_split_bits=3".to_owned(),
    ]
}

/// What a policy loses on CephFS.
///
/// # Errors
/// `Invalid` if it cannot be translated.
pub(super) fn losses_of(policy: PolicyPlan) -> Result<Vec<String>> {
    Ok(translate(policy.name, 1, &policy.source()?)?.losses)
}

/// Every client carries out these steps of its job.
async fn work(
    workers: Vec<Worker>,
    jobs: &[Vec<Vec<Operation>>],
    steps: Range<usize>,
) -> Result<Vec<Worker>> {
    let clients = workers.into_iter().zip(jobs).map(|(mut worker, job)| {
        let operations = job[steps.start.min(job.len())..steps.end.min(job.len())].concat();
        in_thread(move || worker.carry_out(&operations).map(|()| worker))
    });
    try_join_all(clients).await
}

/// A file system, and a client that asks its ranks for their counters.
struct Site {
    fs: CephFs,
    cluster: nacre_rados::RadosOptions,
    map: FsMap,
    asker: Arc<CephFsClient>,
}

impl Site {
    async fn open(cluster: &DevCluster) -> Result<Self> {
        let options = cluster.options();
        let fs = CephFs::open(options.clone(), None).await?;
        let map = fs.map().await?;
        if map.balance_automate == Some(false) {
            fs.set("balance_automate", "true").await?;
        }
        let (name, own) = (fs.name().to_owned(), options.clone());
        let asker = in_thread(move || CephFsClient::mount(&own, &name, &[])).await?;
        Ok(Self { fs, cluster: options, map, asker: Arc::new(asker) })
    }

    /// Creates the directories with a separate client, which then unmounts. If it stayed mounted,
    /// the ranks would have to revoke its capabilities during the round.
    async fn prepare(
        &self,
        directories: Vec<String>,
        placement: Placement,
        ranks: usize,
    ) -> Result<()> {
        let (options, name) = (self.cluster.clone(), self.fs.name().to_owned());
        in_thread(move || {
            let client = CephFsClient::mount(&options, &name, &[])?;
            for (at, directory) in directories.iter().enumerate() {
                let path = root(directory);
                client.make_directories(&path)?;
                // Ceph hands over no empty directory.
                if placement != Placement::FirstRank {
                    client.create(&format!("{path}/placed"))?;
                }
                match (placement, directory.rsplit_once('/')) {
                    (Placement::FirstRank, _) => {}
                    (Placement::Pinned, _) => client.pin(&path, at % ranks)?,
                    (Placement::Hashed, Some((parent, _))) => client.distribute(&root(parent))?,
                    (Placement::Hashed, None) => client.distribute("/")?,
                }
            }
            Ok(())
        })
        .await
    }

    /// Makes the ranks run a balancer, and waits until rank 0 has loaded its policy. Does nothing
    /// on a single rank, which has nothing to balance.
    async fn switch_to(&self, balancer: Balancer) -> Result<()> {
        if self.map.ranks.len() == 1 {
            return Ok(());
        }
        let Balancer::Policy(policy) = balancer else {
            return self.fs.set_balancer("").await;
        };
        let source = translate(policy.name, 1, &policy.source()?)?.source;
        let object = format!("{}.lua", policy.short.replace(' ', "_"));
        self.fs.pool.write(&object, Expected::Anything, Bytes::from(source)).await?;
        self.fs.set_balancer(&object).await?;
        let clock = SystemClock::default();
        let end = clock.monotonic() + DEADLINE;
        while !self.fs.reports(&object).await?.is_loaded {
            if clock.monotonic() >= end {
                let text = format!("rank 0 did not load {object} within {DEADLINE:?}");
                return Err(Error::unavailable(text));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Fails if a rank could not run the policy that is active.
    async fn check_policy(&self) -> Result<()> {
        let active = self.fs.map().await?.balancer;
        let failures = self.fs.reports(&active).await?.failures;
        match failures.first() {
            None => Ok(()),
            Some(failure) => {
                Err(Error::invalid(format!("the policy {active} failed on {failure}")))
            }
        }
    }

    /// Waits until the ranks have handed over the directories that are placed on other ranks.
    async fn await_placed(&self) -> Result<()> {
        let clock = SystemClock::default();
        let end = clock.monotonic() + DEADLINE;
        let (mut exported, mut since) = (0, clock.monotonic());
        loop {
            let counters = self.counters().await?;
            let now = counters.iter().map(|rank| rank.exported_subtrees).sum::<u64>();
            if now != exported {
                (exported, since) = (now, clock.monotonic());
            }
            if exported > 0 && clock.monotonic() > since + PLACED {
                return Ok(());
            }
            if clock.monotonic() > end {
                return Err(Error::unavailable(
                    "the ranks have not migrated the directories to their places in time",
                ));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// What each rank has counted.
    async fn counters(&self) -> Result<Vec<RankCounters>> {
        let asker = Arc::clone(&self.asker);
        let ranks: Vec<_> = self.map.ranks.iter().map(|rank| rank.mds.clone()).collect();
        in_thread(move || ranks.iter().map(|mds| asker.counters(mds)).collect()).await
    }

    /// Mounts the file system once for each client. The cache of a client is scaled down like its
    /// job.
    async fn workers(&self, clients: usize, scale_down: u32, seed: u64) -> Result<Vec<Worker>> {
        let cache = (CLIENT_CACHE / f64::from(scale_down)).ceil();
        let mount = |number| {
            let (options, name) = (self.cluster.clone(), self.fs.name().to_owned());
            let settings = [("client_cache_size", cache.to_string())];
            in_thread(move || {
                let client = CephFsClient::mount(&options, &name, &settings)?;
                Ok(Worker::new(client, number, seed))
            })
        };
        try_join_all((0..clients).map(mount)).await
    }
}
