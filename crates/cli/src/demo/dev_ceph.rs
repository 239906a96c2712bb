//! Controls a development Ceph cluster for the demo: finds the daemons to kill, kills them, and
//! starts them again.
//!
//! It uses only tools that an operator has: `ceph`, and the repository's `scripts/ceph-cluster`.

use std::path::{Path, PathBuf};

use nacre_object::{Error, ObjectId, Result};
use serde_json::Value;
use tokio::process::Command;

/// The RADOS pool of development clusters.
const RADOS_POOL: &str = "nacre";

/// A cluster that `scripts/ceph-cluster` runs.
#[derive(Debug, Clone)]
pub struct DevCeph {
    /// The script.
    program: PathBuf,
    /// Where the cluster lives.
    folder: PathBuf,
}

impl DevCeph {
    /// The cluster in `folder`, run by `program`.
    pub fn new(program: &Path, folder: &Path) -> Self {
        Self { program: program.to_owned(), folder: folder.to_owned() }
    }

    /// The OSD that serves an object now, as `osd.N`.
    ///
    /// # Errors
    /// `Unavailable` if the cluster does not answer.
    pub async fn primary(&self, object: &ObjectId) -> Result<String> {
        let (pool, name) = (object.pool.as_str(), object.name.as_str());
        let map = self.ask(&["osd", "map", RADOS_POOL, name, pool]).await?;
        let osd = map["acting_primary"].as_u64().ok_or_else(|| senseless("osd map"))?;
        Ok(format!("osd.{osd}"))
    }

    /// The monitor that leads, as `mon.X`.
    ///
    /// # Errors
    /// As [`DevCeph::primary`].
    pub async fn leader(&self) -> Result<String> {
        let status = self.ask(&["quorum_status"]).await?;
        let leader = status["quorum_leader_name"].as_str();
        Ok(format!("mon.{}", leader.ok_or_else(|| senseless("quorum_status"))?))
    }

    /// The epoch of Ceph's map in which an OSD came up; `None` if it is down.
    ///
    /// # Errors
    /// As [`DevCeph::primary`].
    pub async fn up_since(&self, osd: &str) -> Result<Option<u64>> {
        let map = self.ask(&["osd", "dump"]).await?;
        let osds = map["osds"].as_array().ok_or_else(|| senseless("osd dump"))?;
        let is_up = |one: &&Value| format!("osd.{}", one["osd"]) == osd && one["up"] == 1;
        Ok(osds.iter().find(is_up).and_then(|one| one["up_from"].as_u64()))
    }

    /// Ends a daemon with SIGKILL.
    ///
    /// # Errors
    /// `Unavailable` if that fails.
    pub async fn kill(&self, daemon: &str) -> Result<()> {
        self.run("kill", daemon).await
    }

    /// Starts it again.
    ///
    /// # Errors
    /// As [`DevCeph::kill`].
    pub async fn start(&self, daemon: &str) -> Result<()> {
        self.run("start", daemon).await
    }

    async fn run(&self, what: &str, daemon: &str) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg(what).arg("--folder").arg(&self.folder).arg(daemon);
        output(command).await.map(drop)
    }

    async fn ask(&self, question: &[&str]) -> Result<Value> {
        let mut command = Command::new("ceph");
        command.arg("-c").arg(self.folder.join("ceph.conf")).args(question).args(["-f", "json"]);
        serde_json::from_slice(&output(command).await?).map_err(|_| senseless(question[0]))
    }
}

async fn output(mut command: Command) -> Result<Vec<u8>> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let failed = |why: String| {
        Err(Error::unavailable(format!("the command {name} failed: {}", why.trim()))
            .hint("check --ceph-cluster, and that ceph-common is installed"))
    };
    match command.kill_on_drop(true).output().await {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => failed(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => failed(error.to_string()),
    }
}

fn senseless(question: &str) -> Error {
    Error::unavailable(format!("the answer of `ceph {question}` cannot be read"))
}
