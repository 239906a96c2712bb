//! `OwnCeph`: a Ceph cluster that the bench starts with the repository's `scripts/ceph-cluster`.
//! The OSDs keep their data in given folders, or in the folder of the cluster. The bench restarts them
//! to change their queue of operations.
//!
//! **Invariant:** once an `OwnCeph` has been dropped, every daemon has ended and the cluster's
//! folder is gone.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use futures::future::try_join_all;
use nacre_object::{Error, Result};
use nacre_rados::RadosOptions;
use rustix::process::{Pid, Signal, kill_process};

use super::DISK_BYTES;
use crate::tool;

/// The size of an OSD's block file. The rest of its disk is for the file system's own tables.
const BLOCK_BYTES: u64 = DISK_BYTES / 4 * 3;

/// The arguments with which an OSD measures its capacity, from Ceph's documentation of mClock:
/// bytes in all, the size of a write, the size of an object, and the number of objects.
const CAPACITY_BENCH: [&str; 4] = ["12288000", "4096", "4194304", "100"];
/// The settings for the measured capacity. Ceph uses one of them, depending on the device.
const CAPACITY_SETTINGS: [&str; 2] =
    ["osd_mclock_max_capacity_iops_hdd", "osd_mclock_max_capacity_iops_ssd"];

/// The queue of operations of an OSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpQueue {
    /// The weighted priority queue, the default of Ceph 16.
    Wpq,
    /// Ceph's mClock, the default since Ceph 17.
    Mclock,
}

impl OpQueue {
    /// The settings of an OSD with this queue. All other settings have their defaults.
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Wpq => &[("osd_op_queue", "wpq")],
            Self::Mclock => &[
                ("osd_op_queue", "mclock_scheduler"),
                // mClock gives clients most of an OSD's capacity.
                ("osd_mclock_profile", "high_client_ops"),
                // One queue orders all operations of an OSD. Ceph's documentation recommends this
                // for disks: several queues of an OSD do not coordinate.
                ("osd_op_num_shards", "1"),
                ("osd_op_num_threads_per_shard", "5"),
                // The capacity is measured once by `measure_capacity`. An OSD that measures its
                // capacity at each start takes 20 s, and sometimes does not boot afterwards.
                ("osd_mclock_skip_benchmark", "true"),
            ],
        }
    }
}

/// A running Ceph cluster.
#[derive(Debug)]
pub(crate) struct OwnCeph {
    script: PathBuf,
    folder: PathBuf,
    /// How many OSDs there are.
    osds: usize,
    /// The process of `ceph-cluster up --hold`. It stops the cluster when the bench ends it.
    process: Child,
    queue: Cell<OpQueue>,
}

impl OwnCeph {
    /// Runs the script, which starts a cluster of `osds` OSDs in a folder of `base`. Each OSD keeps its
    /// data on one of the `disks`; without disks, in the folder of the cluster. The OSDs load nacre's
    /// class if it is in `classes`. [`ready`](Self::ready) waits until the cluster serves.
    ///
    /// # Errors
    /// `NotFound` if there is no such script.
    pub fn start(
        script: &Path,
        base: &Path,
        osds: usize,
        disks: &[PathBuf],
        classes: &Path,
    ) -> Result<Self> {
        let folder = base.join("ceph");
        let mut command = Command::new(script);
        command.args(["up", "--hold", "--store", "bluestore", "--osds", &osds.to_string()]);
        command.arg("--folder").arg(&folder);
        if !disks.is_empty() {
            command.arg("--set").arg(format!("bluestore_block_size={BLOCK_BYTES}"));
            command.arg("--osd-folders").args(disks);
        }
        if classes.join("libcls_nacre.so").is_file() {
            command.arg("--class-dir").arg(classes);
        }
        // The script has its own process group, so Ctrl-C reaches only the bench. The bench then
        // ends the script.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let process = command.spawn().map_err(|cause| {
            Error::not_found(format!("cannot run {}: {cause}", script.display()))
                .hint("name the repository's script: --ceph-cluster scripts/ceph-cluster")
        })?;
        let (script, queue) = (script.to_owned(), Cell::new(OpQueue::Wpq));
        Ok(Self { script, folder, osds, process, queue })
    }

    /// Waits until the cluster serves.
    ///
    /// # Errors
    /// `Unavailable` if the cluster does not start; the script has printed why.
    pub async fn ready(&mut self) -> Result<()> {
        let out = self.process.stdout.take();
        let is_ready = tokio::task::spawn_blocking(move || out.is_some_and(says_something)).await;
        match is_ready {
            Ok(true) => Ok(()),
            _ => Err(Error::unavailable("the Ceph cluster did not start")),
        }
    }

    /// Measures the capacity of all OSDs at the same time, and sets it for mClock.
    ///
    /// # Errors
    /// `Unavailable` if an OSD does not answer.
    pub async fn measure_capacity(&self) -> Result<()> {
        let measure = |osd| async move {
            let mut command = tokio::process::Command::from(self.ceph());
            command.args(["tell", &format!("osd.{osd}"), "bench"]).args(CAPACITY_BENCH);
            let output = command.kill_on_drop(true).output().await;
            output.map_err(|cause| Error::unavailable(format!("ceph: {cause}")))
        };
        for (osd, output) in try_join_all((0..self.osds).map(measure)).await?.iter().enumerate() {
            let answer = serde_json::from_slice::<serde_json::Value>(&output.stdout).ok();
            let iops = answer.and_then(|answer| answer["iops"].as_f64());
            let iops =
                iops.ok_or_else(|| Error::unavailable("an OSD did not tell its capacity"))?;
            for key in CAPACITY_SETTINGS {
                self.configure(&["set", &format!("osd.{osd}"), key, &iops.to_string()])?;
            }
        }
        Ok(())
    }

    /// The options with which a client reaches the cluster.
    pub fn options(&self) -> RadosOptions {
        RadosOptions { conf: Some(self.conf()), ..RadosOptions::default() }
    }

    /// Gives all OSDs this queue, unless they have it already. Returns whether the OSDs were
    /// restarted. The call blocks, because an OSD could outlive the cluster if the call ended
    /// half-way.
    ///
    /// # Errors
    /// `Unavailable` if an OSD does not start.
    pub fn queue_as(&self, queue: OpQueue) -> Result<bool> {
        if self.queue.get() == queue {
            return Ok(false);
        }
        for (key, _) in self.queue.get().settings() {
            self.configure(&["rm", "osd", key])?;
        }
        for (key, value) in queue.settings() {
            self.configure(&["set", "osd", key, value])?;
        }
        self.each_osd("kill")?;
        // Tell the monitors that the OSDs have ended. Otherwise they notice it only by missing
        // heartbeats.
        let osds = (0..self.osds).map(|osd| osd.to_string());
        tool::run(self.ceph().args(["osd", "down"]).args(osds))?;
        self.each_osd("start")?;
        self.queue.set(queue);
        Ok(true)
    }

    /// Runs a command of the script for each OSD.
    fn each_osd(&self, what: &str) -> Result<()> {
        for osd in 0..self.osds {
            let mut command = Command::new(&self.script);
            command.arg(what).arg("--folder").arg(&self.folder).arg(format!("osd.{osd}"));
            tool::run(&mut command)?;
        }
        Ok(())
    }

    fn configure(&self, arguments: &[&str]) -> Result<()> {
        tool::run(self.ceph().arg("config").args(arguments)).map(drop)
    }

    fn ceph(&self) -> Command {
        let mut command = Command::new("ceph");
        command.arg("-c").arg(self.conf());
        command
    }

    fn conf(&self) -> PathBuf {
        self.folder.join("ceph.conf")
    }
}

impl Drop for OwnCeph {
    fn drop(&mut self) {
        // A signal ends the script. Its standard input stays open meanwhile, because the script
        // would take the end of its input as a second request to end.
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        // This wait ends, because the script waits for its daemons only up to its own deadlines.
        let _ = self.process.wait();
    }
}

/// Waits until the script reports that the cluster runs, and returns true; or returns false if the
/// script ends without a report.
fn says_something(out: ChildStdout) -> bool {
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).is_ok_and(|bytes| bytes > 0)
}
