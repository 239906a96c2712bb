//! Requests to Ceph: the map of a file system, the loads that its ranks report, the cluster log,
//! and policy objects.
//!
//! librados reaches the monitors and the metadata pool. It cannot send commands to metadata servers
//! (MDS), so those go through the command `ceph tell`.

use std::process::Stdio;
use std::time::Duration;

use nacre_balance::RankLoad;
use nacre_object::{Error, ErrorKind, Result};
use nacre_rados::{Administrator, PoolObjects, RadosOptions};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::fragments::{meta_load_of, rates_of};

/// How long to wait for `ceph tell`. A running server answers within a second, and on a busy
/// machine within several seconds.
const TELL_TIMEOUT: Duration = Duration::from_secs(20);
/// How many lines of the cluster log are searched. The monitors keep 10,000 lines.
const LOG_LINES: u32 = 1000;
/// A rank writes this into the cluster log when its policy fails. Ceph 12 to 18 use the same words.
const FAILED: &str = "mantle failed for balancer=";
/// A failure that begins like this is no fault of the policy: the rank could not read the policy
/// within half a tick. In this tick the rank runs Ceph's own balancer. In the next one it reads the
/// policy again.
const NOT_READ_IN_TIME: &str = "(110)";
/// Rank 0 writes this into the cluster log when it has loaded another policy.
const LOADED: &str = "mantle balancer version changed: ";

/// A CephFS file system.
#[derive(Debug)]
pub struct CephFs {
    administrator: Administrator,
    options: RadosOptions,
    name: String,
    /// The metadata pool, in which the MDSs look for policies.
    pub pool: PoolObjects,
}

/// The file system as the monitors know it.
#[derive(Debug)]
pub struct FsMap {
    /// The object that holds the active policy; empty for Ceph's own balancer.
    pub balancer: String,
    /// The ranks, in order.
    pub ranks: Vec<Rank>,
    /// Whether ranks balance by themselves; `None` in versions of Ceph that always do.
    pub balance_automate: Option<bool>,
    /// Which ranks take part, in hexadecimal; `None` in versions of Ceph where all do.
    pub rank_mask: Option<String>,
}

/// A rank, and the MDS that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// The MDS's name.
    pub mds: String,
    /// As `up:active`.
    pub state: String,
    /// The version of Ceph that the MDS runs; empty if the monitors do not know it.
    pub ceph_version: String,
}

/// The reports of ranks about a policy in the cluster log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Whether rank 0 has loaded the policy.
    pub is_loaded: bool,
    /// The first failure of each rank to run it, as `mds.1 (mds.b): (22) Invalid argument`.
    pub failures: Vec<String>,
}

impl CephFs {
    /// Connects to a cluster and finds a file system by its name. Without a name it takes the only
    /// file system of the cluster.
    ///
    /// # Errors
    /// `NotFound` if there is no such file system; the error lists the existing ones.
    pub async fn open(options: RadosOptions, name: Option<String>) -> Result<Self> {
        #[derive(Deserialize)]
        struct Listed {
            name: String,
            metadata_pool: String,
        }
        let connected = Administrator::connect(options.clone()).await;
        let administrator = connected.map_err(|error| match error.kind() {
            ErrorKind::Invalid => error.hint("write --ceph /path/ceph.conf"),
            _ => error,
        })?;
        let mut listed: Vec<Listed> = read(administrator.ask(json!({ "prefix": "fs ls" })).await?)?;
        let names = listed.iter().map(|fs| fs.name.as_str()).collect::<Vec<_>>().join(", ");
        let at = match &name {
            Some(name) => listed.iter().position(|fs| fs.name == *name),
            None => (listed.len() == 1).then_some(0),
        };
        let Some(at) = at else {
            let text = match name {
                Some(name) => format!("the cluster has no file system {name}"),
                None => "the cluster does not have exactly one file system".to_owned(),
            };
            return Err(Error::not_found(text).hint(format!("choose one with --fs: {names}")));
        };
        let Listed { name, metadata_pool } = listed.swap_remove(at);
        let pool = administrator.pool(&metadata_pool).await?;
        Ok(Self { administrator, options, name, pool })
    }

    /// The file system's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks for the map.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn map(&self) -> Result<FsMap> {
        let get = json!({ "prefix": "fs get", "fs_name": self.name });
        let map = self.administrator.ask(get).await?;
        let metadata = self.administrator.ask(json!({ "prefix": "mds metadata" })).await?;
        map_of(&map["mdsmap"], &metadata)
    }

    /// Makes all ranks run the policy in an object. The empty name stands for Ceph's own balancer.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn set_balancer(&self, object: &str) -> Result<()> {
        self.set("balancer", object).await
    }

    /// Sets a setting of the file system, as `balance_automate`.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn set(&self, setting: &str, value: &str) -> Result<()> {
        let command =
            json!({ "prefix": "fs set", "fs_name": self.name, "var": setting, "val": value });
        self.administrator.ask(command).await.map(drop)
    }

    /// The reports in the cluster log about the policy in an object.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn reports(&self, object: &str) -> Result<Reports> {
        let command = json!({
            "prefix": "log last", "num": LOG_LINES, "level": "info", "channel": "cluster",
        });
        Ok(reports_of(&read::<Vec<LogLine>>(self.administrator.ask(command).await?)?, object))
    }

    /// The time from one decision of the ranks to the next (`mds_bal_interval`).
    ///
    /// # Errors
    /// As [`CephFs::loads`].
    pub async fn tick(&self, map: &FsMap) -> Result<Duration> {
        let answer = self.tell(map, 0, &["config", "get", "mds_bal_interval"]).await?;
        let seconds = answer["mds_bal_interval"].as_str().and_then(|text| text.parse().ok());
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| {
            Error::corrupt(format!("the MDS gave an unreadable mds_bal_interval: {answer}"))
        })
    }

    /// The loads of all ranks, as rank 0 knows them from their latest heartbeats.
    ///
    /// # Errors
    /// `Unsupported` if the command `ceph` is not installed; `Unavailable` if rank 0 does not
    /// answer.
    pub async fn loads(&self, map: &FsMap) -> Result<Vec<RankLoad>> {
        loads_of(&self.tell(map, 0, &["dump", "loads"]).await?, map)
    }

    /// Sends a command to the MDS of a rank.
    ///
    /// # Errors
    /// As [`CephFs::loads`].
    pub async fn tell(&self, map: &FsMap, rank: usize, words: &[&str]) -> Result<Value> {
        let Some(rank) = map.ranks.get(rank) else {
            return Err(Error::unavailable(format!("no MDS serves rank {rank} of {}", self.name)));
        };
        let target = format!("mds.{}", rank.mds);
        let mut command = Command::new("ceph");
        if let Some(conf) = &self.options.conf {
            command.arg("--conf").arg(conf);
        }
        command.args(["--id", &self.options.user, "--format", "json", "tell", &target]).args(words);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let said = tokio::time::timeout(TELL_TIMEOUT, command.output()).await.map_err(|_| {
            Error::unavailable(format!("{target} did not answer within {TELL_TIMEOUT:?}"))
        })?;
        let said = said.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::unsupported(
                "the command `ceph`, which sends requests to MDSs, is not installed",
            )
            .hint("install it, in Debian the package ceph-common"),
            _ => Error::unavailable(format!("the command `ceph` cannot be run: {error}")),
        })?;
        if !said.status.success() {
            let text = String::from_utf8_lossy(&said.stderr);
            let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
            let text = format!("{target} does not answer: {}", last.unwrap_or("no reason given"));
            return Err(Error::unavailable(text).hint("see `ceph fs status` or `ceph health`"));
        }
        document(&String::from_utf8_lossy(&said.stdout))
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value)
        .map_err(|error| Error::corrupt(format!("the monitors' answer cannot be parsed: {error}")))
}

/// Parses the output of an MDS. Ceph writes `-inf` or `nan` for numbers that are not finite; JSON
/// has no such numbers.
fn document(text: &str) -> Result<Value> {
    let mut text = text.to_owned();
    for word in ["-inf", "inf", "-nan", "nan"] {
        text = text.replace(&format!(":{word}"), ":null");
    }
    serde_json::from_str(&text)
        .map_err(|error| Error::corrupt(format!("the MDS's answer is not JSON: {error}")))
}

fn map_of(map: &Value, metadata: &Value) -> Result<FsMap> {
    let Some(infos) = map["info"].as_object() else {
        return Err(Error::corrupt("the monitors' answer has no list of MDSs"));
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version_of = |mds: &str| {
        let known = metadata.as_array()?.iter().find(|known| known["name"] == mds)?;
        Some(text(&known["ceph_version_short"]))
    };
    // A standby-replay MDS has the same number as the rank that it follows.
    let serves = |info: &&Value| {
        info["rank"].as_i64().is_some_and(|rank| rank >= 0) && info["state"] != "up:standby-replay"
    };
    let mut ranks: Vec<_> = infos.values().filter(serves).collect();
    ranks.sort_by_key(|info| info["rank"].as_i64());
    let rank = |info: &Value| {
        let mds = text(&info["name"]);
        let ceph_version = version_of(&mds).unwrap_or_default();
        Rank { mds, state: text(&info["state"]), ceph_version }
    };
    Ok(FsMap {
        balancer: text(&map["balancer"]),
        ranks: ranks.into_iter().map(rank).collect(),
        balance_automate: map["flags_state"]["balance_automate"].as_bool(),
        rank_mask: map["bal_rank_mask"].as_str().map(str::to_owned),
    })
}

fn loads_of(dump: &Value, map: &FsMap) -> Result<Vec<RankLoad>> {
    let loads = &dump["mds_load"];
    let load = |(number, rank): (usize, &Rank)| {
        let load = &loads[format!("mds.{number}")];
        let value = |name: &str| load[name].as_f64().unwrap_or_default();
        RankLoad {
            node: format!("mds.{}", rank.mds),
            auth: meta_load_of(&rates_of(&load["auth_dirfrags"])),
            all: meta_load_of(&rates_of(&load["all_dirfrags"])),
            cpu: value("cpu_load"),
            queue: value("queue_length"),
            requests: value("request_rate"),
            ..RankLoad::default()
        }
    };
    match loads {
        Value::Object(_) => Ok(map.ranks.iter().enumerate().map(load).collect()),
        _ => Err(Error::corrupt("the MDS reports no loads")),
    }
}

/// A line of the cluster log.
#[derive(Debug, Deserialize)]
struct LogLine {
    /// As `mds.b`.
    #[serde(default)]
    name: String,
    /// As `mds.1`.
    #[serde(default)]
    rank: String,
    #[serde(default)]
    message: String,
}

fn reports_of(lines: &[LogLine], object: &str) -> Reports {
    let mut reports = Reports::default();
    let mut failed = vec![];
    for line in lines {
        if let Some((_, loaded)) = line.message.split_once(LOADED) {
            reports.is_loaded |= loaded.trim() == object;
        }
        let reason = line.message.split_once(FAILED).and_then(|(_, rest)| {
            rest.strip_prefix(object)?.strip_prefix(" : ").map(str::to_owned)
        });
        let reason = reason.filter(|reason| !reason.starts_with(NOT_READ_IN_TIME));
        if let Some(reason) = reason.filter(|_| !failed.contains(&&line.rank)) {
            failed.push(&line.rank);
            reports.failures.push(format!("{} ({}): {reason}", line.rank, line.name));
        }
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rank: &str, message: &str) -> LogLine {
        LogLine { name: "mds.x".into(), rank: rank.into(), message: message.into() }
    }

    #[test]
    fn reports_have_the_first_failure_of_each_rank_and_no_slow_reads_of_the_policy() {
        let failed =
            "using old balancer; mantle failed for balancer=p.v1.ab : (22) Invalid argument";
        let lines = [
            line("mds.0", "mantle balancer version changed: p.v1.ab"),
            line("mds.1", failed),
            line("mds.1", failed),
            line("mds.0", "mantle failed for balancer=p.v1.abc : (2) No such file"),
            line("mds.0", "mantle failed for balancer=p.v1.ab : (110) Connection timed out"),
        ];
        let reports = reports_of(&lines, "p.v1.ab");
        assert!(reports.is_loaded);
        assert_eq!(reports.failures, ["mds.1 (mds.x): (22) Invalid argument"]);
        assert!(!reports_of(&lines, "p.v1.abc").is_loaded);
    }

    #[test]
    fn loads_are_weighed_as_cephfs_weighs_them() {
        let map = map_of(
            &json!({ "balancer": "", "info": {
                "gid_2": { "name": "a", "rank": 1, "state": "up:active" },
                "gid_1": { "name": "b", "rank": 0, "state": "up:active" },
                "gid_3": { "name": "c", "rank": -1, "state": "up:standby" },
            } }),
            &json!([{ "name": "b", "ceph_version_short": "16.2.15" }, { "name": "a" }]),
        );
        let map = map.unwrap();
        assert_eq!(map.ranks.iter().map(|rank| rank.mds.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!((map.ranks[0].ceph_version.as_str(), map.balance_automate), ("16.2.15", None));
        let dump = document(
            r#"{"mds_load":{"mds.0":{"request_rate":7,"cpu_load":1.5,"all_dirfrags":{"Decay Counters":[
               {"value":1,"halflife":-inf},{"value":2,"halflife":-inf},{"value":3,"halflife":nan},
               {"value":4,"halflife":5},{"value":5,"halflife":5}]}},"mds.1":{}}}"#,
        );
        let loads = loads_of(&dump.unwrap(), &map).unwrap();
        assert_eq!((loads[0].all, loads[0].requests, loads[1].all), (36.0, 7.0, 0.0));
    }
}
