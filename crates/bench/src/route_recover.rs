//! `route-recover`: how long a read waits after SIGKILL of the object's node, if routing rules have
//! sent the object's bytes to another node.
//!
//! A route program sends each write on the node to another node. For each object the node then
//! makes a rule that sends reads there, too, and keeps this rule only in memory. When the node
//! restarts, it asks the other node which bytes it has, and reads of these bytes wait for the
//! answer.

use std::path::Path;
use std::time::Duration;

use futures::future::try_join_all;
use nacre::Cluster;
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, ObjectId, Result};
use nacre_route::limits::MAX_RULES;
use tokio::process::Command;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;
use crate::scratch::{self, ScratchCluster};

/// The number of rules that send reads to the other node. A switch has 100,000 rules at most. One
/// rule names the program, and each write in flight reserves two.
const RULES: usize = MAX_RULES - 1_000;
const WRITERS: usize = 128;
const HOME: &str = "storage.0";
const AWAY: &str = "storage.1";
/// How long new rules may take to be in force.
const PATIENCE: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_millis(100);
const AIM_SECONDS: f64 = 3.0;
/// What the sRoute paper reports for about as many rules (section 5.1).
const PAPER_SECONDS: f64 = 30.0;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), 2, &setup.program).await?;
    let measured = measure(setup, folder.path(), &cluster).await;
    cluster.stop().await;
    let [without, with] = measured?;
    let name = format!("restart with {RULES} rules of a program, until a routed read is answered");
    let of = ("route-recover", name, "s");
    report(Figure::new(of.clone(), Better::Lower, with, ("the aim", AIM_SECONDS)).aiming_at(1.0));
    report(Figure::new(of.clone(), Better::Lower, with, ("paper, 100,000 rules", PAPER_SECONDS)));
    report(Figure::new(of, Better::Lower, with, ("no rules", without)));
    Ok(())
}

/// The seconds until a read is answered after SIGKILL: without rules, and with them.
async fn measure(setup: &Setup, folder: &Path, cluster: &ScratchCluster) -> Result<[f64; 2]> {
    let client = cluster.client().await?;
    let objects = objects_of_home(&client)?;
    let last = objects
        .last()
        .ok_or_else(|| Error::not_found(format!("no object belongs to the target {HOME}")))?;
    client.pool("data").await?.object(last.name.as_str())?.write(0, "at home").await?;
    let without = restarts(cluster, &client, last, setup.rounds).await?;
    put_rules(setup, folder).await?;
    wait_for_rules(setup, folder, &client, last).await?;
    for some in objects.chunks(WRITERS) {
        try_join_all(some.iter().map(|object| write(&client, object))).await?;
    }
    let routed = routed_objects(setup, folder).await?;
    if routed != RULES as u64 {
        return Err(Error::corrupt(format!(
            "only {routed} of {RULES} objects were sent to {AWAY}"
        )));
    }
    Ok([without, restarts(cluster, &client, last, setup.rounds).await?])
}

/// Objects that belong to the target [`HOME`], as many as there are rules.
fn objects_of_home(client: &Cluster) -> Result<Vec<ObjectId>> {
    let mut objects = Vec::with_capacity(RULES);
    for number in 0_u64.. {
        let object: ObjectId = format!("data/o{number}").parse()?;
        if client.locate(&object).as_str() == HOME {
            objects.push(object);
        }
        if objects.len() == RULES {
            break;
        }
    }
    Ok(objects)
}

async fn write(client: &Cluster, object: &ObjectId) -> Result<()> {
    client.pool("data").await?.object(object.name.as_str())?.write(0, "routed").await
}

/// Puts and activates a program that sends each write to [`AWAY`], and puts a rule that names the
/// program.
async fn put_rules(setup: &Setup, folder: &Path) -> Result<()> {
    let (program, rules) = (folder.join("away.lua"), folder.join("rules"));
    let source = format!(
        "destinations = {{ \"target {AWAY}\" }}\nfunction route(io)\n  return \"target {AWAY}\"\nend\n"
    );
    let text = format!(
        "nacre routes 1\napplication bench on {HOME}\n  * w data/o* -> program away follow\n"
    );
    for (path, content) in [(&program, source), (&rules, text)] {
        tokio::fs::write(path, content).await.map_err(|error| {
            Error::unavailable(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    let program = program.to_string_lossy().into_owned();
    nacre(setup, folder, &["program", "put", "route/away", &program, "--activate"]).await?;
    nacre(setup, folder, &["route", "put", &rules.to_string_lossy()]).await.map(drop)
}

/// Waits until the node sends the writes of an object to [`AWAY`].
async fn wait_for_rules(
    setup: &Setup,
    folder: &Path,
    client: &Cluster,
    object: &ObjectId,
) -> Result<()> {
    let clock = SystemClock::default();
    let began = clock.monotonic();
    loop {
        write(client, object).await?;
        if routed_objects(setup, folder).await? > 0 {
            return Ok(());
        }
        if clock.monotonic() - began > PATIENCE {
            return Err(Error::unavailable(format!(
                "the node does not apply the rules within {PATIENCE:?}"
            )));
        }
        tokio::time::sleep(REST).await;
    }
}

/// How many objects of the target [`HOME`] have bytes on another target.
async fn routed_objects(setup: &Setup, folder: &Path) -> Result<u64> {
    let status = nacre(setup, folder, &["route", "status", "--json"]).await?;
    let status: serde_json::Value = serde_json::from_str(&status)
        .map_err(|error| Error::corrupt(format!("the status of routes cannot be read: {error}")))?;
    let of_home = status.as_array().and_then(|all| all.iter().find(|one| one["target"] == HOME));
    Ok(of_home.and_then(|one| one["routed_objects"].as_u64()).unwrap_or(0))
}

/// Runs the `nacre` program, and returns what it prints.
pub(crate) async fn nacre(setup: &Setup, folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(&setup.program);
    command.args(arguments).arg("--cluster").arg(folder.join("cluster"));
    let output = command.output().await;
    let output = output
        .map_err(|error| Error::unavailable(format!("the command nacre cannot be run: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::unavailable(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// The median of the seconds from SIGKILL until a read of the object is answered.
async fn restarts(
    cluster: &ScratchCluster,
    client: &Cluster,
    object: &ObjectId,
    rounds: usize,
) -> Result<f64> {
    let clock = SystemClock::default();
    let mut seconds = vec![];
    for _ in 0..rounds {
        let began = clock.monotonic();
        cluster.supervisor.kill(HOME, false).await?;
        let read = client.pool("data").await?.object(object.name.as_str())?.read(0, 6).await?;
        if read.is_empty() {
            return Err(Error::corrupt("the object has lost its bytes").on(object));
        }
        seconds.push((clock.monotonic() - began).as_secs_f64());
        cluster.supervisor.up(HOME).await?;
    }
    Ok(median(seconds))
}
