//! `DevCluster`: a Ceph cluster that the script `scripts/ceph-cluster` starts. The script keeps the
//! cluster running as long as a pipe from this process is open.
//!
//! **Invariant:** however this process ends, the kernel closes the pipe. The script then stops
//! every daemon and removes the cluster's folder.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use nacre_object::{Error, Result};
use nacre_rados::RadosOptions;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// What the script says once the cluster serves.
const UP: &str = "a Ceph cluster runs";

/// A cluster that lives as long as this value.
#[derive(Debug)]
pub(super) struct DevCluster {
    holder: Child,
    /// Made and removed by the script.
    folder: PathBuf,
}

impl DevCluster {
    /// Starts a cluster with `ranks` ranks, the given settings (`key=value`), and one OSD that
    /// keeps objects in memory.
    ///
    /// # Errors
    /// `Unavailable` if the cluster does not start. The script prints the reason on standard error.
    pub async fn start(script: &Path, ranks: usize, settings: &[String]) -> Result<Self> {
        let failed = |why: String| {
            Error::unavailable(format!("{} cannot be run: {why}", script.display()))
                .hint("name the repository's scripts/ceph-cluster with --ceph-cluster")
        };
        let folder = unused_folder();
        let mut command = Command::new(script);
        command.arg("up").arg("--folder").arg(&folder);
        command.args(["--osds", "1", "--mds", &ranks.to_string(), "--hold"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().map_err(|error| failed(error.to_string()))?;
        let output = holder.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        let cluster = Self { holder, folder };
        // What it installs may say something first.
        let mut lines = BufReader::new(output).lines();
        while let Some(line) = lines.next_line().await.map_err(|error| failed(error.to_string()))? {
            if line.contains(UP) {
                return Ok(cluster);
            }
        }
        Err(failed("the cluster did not come up".to_owned()))
    }

    /// How clients reach it.
    pub fn options(&self) -> RadosOptions {
        let conf = self.folder.join("ceph.conf");
        RadosOptions { conf: Some(conf), ..RadosOptions::default() }
    }

    /// Stops the cluster, and waits until the script has ended.
    ///
    /// # Errors
    /// `Unavailable` if the script fails.
    pub async fn end(mut self) -> Result<()> {
        drop(self.holder.stdin.take());
        match self.holder.wait().await {
            Ok(status) if status.success() => Ok(()),
            ended => {
                Err(Error::unavailable(format!("the script did not stop the cluster: {ended:?}")))
            }
        }
    }
}

/// A folder that no other cluster of this process or of others has.
fn unused_folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("nacre-cephfs-{}-{number}", std::process::id()))
}
