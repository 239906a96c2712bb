//! `start`: how long a new cluster takes to start, from `nacre up` in an empty folder to the first
//! answered request. It also measures the memory of the idle cluster.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nacre::Cluster;
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};
use tokio::process::{Child, Command};
use tokio::time;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;
use crate::scratch;

/// A cluster that does not serve after this has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two attempts to reach a cluster that is still starting.
const ASK_AGAIN: Duration = Duration::from_millis(2);
/// After this time a started cluster is idle.
const IDLE_AFTER: Duration = Duration::from_secs(2);
const AIM_SECONDS: f64 = 1.0;
const AIM_MIB: f64 = 150.0;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let (mut seconds, mut mib) = (vec![], vec![]);
    for _ in 0..setup.rounds {
        let folder = scratch::folder(&setup.folder)?;
        let (started, memory) = once(&setup.program, &folder.path().join("cluster")).await?;
        seconds.push(started.as_secs_f64());
        mib.push(memory);
    }
    let of = ("start", "cold start to the first served request", "s");
    let aim = ("the aim", AIM_SECONDS);
    report(Figure::new(of, Better::Lower, median(seconds), aim).aiming_at(1.0));
    let of = ("start", "idle memory of all processes, shared pages once", "MiB");
    let aim = ("the aim", AIM_MIB);
    report(Figure::new(of, Better::Lower, median(mib), aim).aiming_at(1.0));
    Ok(())
}

/// Starts a cluster. Returns the time until its first answer, and the memory of the idle cluster in
/// MiB.
async fn once(program: &Path, folder: &Path) -> Result<(Duration, f64)> {
    let clock = SystemClock::default();
    let begin = clock.monotonic();
    let mut up = Command::new(program)
        .arg("up")
        .arg("--cluster")
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            Error::unavailable(format!("cannot run {}: {error}", program.display()))
        })?;
    let served = time::timeout(PATIENCE, served(folder)).await;
    served.map_err(|_| Error::unavailable("the cluster did not answer in time"))?;
    let started = clock.monotonic() - begin;
    time::sleep(IDLE_AFTER).await;
    let memory = memory_mib(&up)?;
    // The nodes end when the pipe from their supervisor closes.
    up.kill()
        .await
        .map_err(|error| Error::unavailable(format!("`nacre up` cannot be ended: {error}")))?;
    Ok((started, memory))
}

async fn served(folder: &Path) {
    loop {
        if first_request(folder).await.is_ok() {
            return;
        }
        time::sleep(ASK_AGAIN).await;
    }
}

async fn first_request(folder: &Path) -> Result<()> {
    let cluster = Cluster::connect(folder).await?;
    cluster.object(&"data/first".parse()?).await?.write_full("served").await
}

/// Proportional set sizes of the supervisor and its nodes: pages they share are counted once.
fn memory_mib(up: &Child) -> Result<f64> {
    let unreadable =
        || Error::unavailable("cannot read the memory use of `nacre up` from the kernel");
    let pid = up.id().ok_or_else(unreadable)?;
    let read = |path: String| std::fs::read_to_string(path).map_err(|_| unreadable());
    let mut pids = vec![pid.to_string()];
    // The kernel lists each child process under the thread that started it.
    for thread in
        std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| unreadable())?.flatten()
    {
        let children = read(thread.path().join("children").display().to_string())?;
        pids.extend(children.split_whitespace().map(str::to_owned));
    }
    let mut kib = 0.0;
    for pid in pids {
        let rollup = read(format!("/proc/{pid}/smaps_rollup"))?;
        let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let pss = pss.and_then(|pss| pss.trim().strip_suffix("kB"));
        kib += pss.and_then(|pss| pss.trim().parse::<f64>().ok()).ok_or_else(unreadable)?;
    }
    Ok(kib / 1024.0)
}
