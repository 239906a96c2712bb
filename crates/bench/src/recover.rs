//! `recover`: how long clients cannot write to a log after a process that the log needs was killed.
//! It reports two times. The detection time is from SIGKILL until the supervisor notices. The
//! recovery time is from then until each writer has an acknowledgement for a record that it sent
//! after the kill.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use nacre::{Log, RoleName};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};

use crate::append::new_log;
use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load;
use crate::load::median;
use crate::scratch::{self, ScratchCluster};

const WRITERS: usize = 16;
const RECORD_BYTES: usize = 128;
const TARGETS: usize = 3;
/// The least number of kills of each kind, whatever `--rounds` says: a maximum needs some.
const MIN_KILLS: usize = 10;
/// Load before a kill.
const LOAD: Duration = Duration::from_millis(300);
/// What is aimed at, in milliseconds.
const AIM_MILLIS: f64 = 1000.0;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let log = new_log(&cluster.client().await?, "recovering").await?;
    for (role, what) in [(RoleName::Metadata, "the sequencer"), (RoleName::Storage, "a target")] {
        if !setup.wants(what) {
            continue;
        }
        let victim = cluster.supervisor.cluster().with_role(role).next();
        let victim = victim
            .ok_or_else(|| Error::not_found(format!("the cluster has no node for {what}")))?;
        let (mut detection, mut recovery) = (vec![], vec![]);
        for _ in 0..MIN_KILLS.max(setup.rounds) {
            let (detected, recovered) = kill(&cluster, &log, &victim.name).await?;
            detection.push(detected.as_secs_f64() * 1e3);
            recovery.push(recovered.as_secs_f64() * 1e3);
        }
        show(what, "detection", detection, report);
        show(what, "recovery after detection", recovery, report);
    }
    cluster.stop().await;
    Ok(())
}

fn show(what: &str, part: &str, millis: Vec<f64>, report: &mut dyn FnMut(Figure)) {
    let kills = millis.len();
    let worst = millis.iter().copied().fold(0.0, f64::max);
    for (of, ours) in [("p50", median(millis)), ("max", worst)] {
        let name = format!("{what} killed {kills} times, {part}, {of}");
        let aim = ("the aim", AIM_MILLIS);
        report(Figure::new(("recover", name, "ms"), Better::Lower, ours, aim).aiming_at(1.0));
    }
}

/// Kills a node under load and waits until it serves again; detection and recovery.
async fn kill(cluster: &ScratchCluster, log: &Log, node: &str) -> Result<(Duration, Duration)> {
    let clock = Arc::new(SystemClock::default());
    append(log, LOAD).await?;
    let begin = clock.monotonic();
    cluster.supervisor.kill(node, false).await?;
    let detected = clock.monotonic();
    let record = vec![7; RECORD_BYTES];
    try_join_all((0..WRITERS).map(|_| log.append(&record))).await?;
    let recovered = clock.monotonic();
    cluster.supervisor.up(node).await?;
    Ok((detected - begin, recovered - detected))
}

async fn append(log: &Log, span: Duration) -> Result<()> {
    let outcome = load::run(WRITERS, span, |_| {
        let log = log.clone();
        move |_| {
            let log = log.clone();
            async move { log.append([7; RECORD_BYTES]).await.map(drop) }
        }
    });
    outcome.await.map(drop)
}
