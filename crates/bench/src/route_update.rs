//! `route-update`: the bytes that the control of routes costs: for a change of rules, and for the
//! statistics that the controller reads. The baseline is what the sRoute paper reports for a flow.
//!
//! A flow is one object with a rule of its own. The nodes count the bytes of all sessions, so each
//! message counts once, whoever sends it. From what the cluster's sessions carry during a change,
//! the bench subtracts what they carry without one in the same time. So the result includes
//! everything that the command does: it reads the rules, commits the new ones, tells all nodes, and
//! asks until the nodes apply them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use nacre::{Cluster, RoleName};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{NODE_SERVICE, NodeReport, ROUTE_SERVICE};
use nacre_object::{Error, NodeName, ObjectId, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;
use crate::route_recover::nacre;
use crate::scratch::{self, ScratchCluster};

const TARGETS: usize = 3;
/// Flows whose rules change. The rules of an application have 64 KiB at most.
const RULES: usize = 900;
/// Flows that the switches count. A switch counts 256 objects at most.
const COUNTED: usize = 540;
const PROGRAM: &str = "observer";
/// A control program that gets the counts of all flows in each run, and makes no rules.
const SOURCE: &str = "settings = { objects = \"data/counted*\" }\nfunction control(cluster)\nend\n";
/// The time between two requests for statistics in the paper, and here.
const EVERY: Duration = Duration::from_secs(1);
/// What the paper reports: the bytes of a change for a flow (section 5.2), and the fewest bytes of
/// statistics for a flow and second (sections 5.2 and 5.3; the most are 456).
const PAPER_UPDATE_BYTES: f64 = 418.0;
const PAPER_STATISTICS_BYTES: f64 = 302.0;
/// How long a node may take to answer.
const NODE_TIME: Duration = Duration::from_secs(10);
/// The shortest time over which bytes a second are measured: several requests for statistics.
const LEAST_SPAN: Duration = Duration::from_secs(5);
/// How often a flow's object is read, so that its counts have more than one digit.
const READS: usize = 20;
const RECEIVED: &str = "nacre_session_received_bytes_total ";
const SENT: &str = "nacre_session_sent_bytes_total ";

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let measured = measure(setup, folder.path(), &cluster).await;
    cluster.stop().await;
    let [update, statistics] = measured?;
    let name = format!("a change of the rules of {RULES} flows, {TARGETS} switches, a flow");
    let of = ("route-update", name, "B");
    let paper = ("the paper", PAPER_UPDATE_BYTES);
    report(Figure::new(of, Better::Lower, update, paper).aiming_at(1.0));
    let name = format!("statistics of {COUNTED} flows every {EVERY:?}, a flow and second");
    let of = ("route-update", name, "B");
    let paper = ("the paper", PAPER_STATISTICS_BYTES);
    report(Figure::new(of, Better::Lower, statistics, paper).aiming_at(1.0));
    Ok(())
}

/// The bytes of a change for a flow, and of statistics for a flow and second.
async fn measure(setup: &Setup, folder: &Path, cluster: &ScratchCluster) -> Result<[f64; 2]> {
    let client = cluster.client().await?;
    let traffic = Traffic::of(cluster, &client).await?;
    let (mut updates, mut statistics) = (vec![], vec![]);
    put_rules(setup, folder, "least-loaded").await?;
    for _ in 0..setup.rounds {
        for choice in ["random", "least-loaded"] {
            updates.push(update(setup, folder, &traffic, choice).await? / RULES as f64);
        }
    }
    nacre(setup, folder, &["route", "rm", "flows"]).await?;
    read_flows(&client).await?;
    put_program(setup, folder).await?;
    let span = setup.span.max(LEAST_SPAN);
    for _ in 0..setup.rounds {
        let idle = traffic.rate(span).await?;
        nacre(setup, folder, &["route", "start", PROGRAM, "--every", "1"]).await?;
        // The switches count objects only once the controller has asked for them.
        read_flows(&client).await?;
        let counted = counted_flows(cluster, &client).await?;
        if counted != COUNTED {
            let text = format!("the switches count {counted} of {COUNTED} flows");
            return Err(Error::corrupt(text));
        }
        let running = traffic.rate(span).await?;
        nacre(setup, folder, &["route", "stop", PROGRAM]).await?;
        statistics.push((running - idle) / COUNTED as f64);
    }
    Ok([median(updates), median(statistics)])
}

/// The bytes of one change of all rules, beyond what sessions carry anyway.
async fn update(setup: &Setup, folder: &Path, traffic: &Traffic, choice: &str) -> Result<f64> {
    let clock = SystemClock::default();
    let (began, before) = (clock.monotonic(), traffic.bytes().await?);
    put_rules(setup, folder, choice).await?;
    let (took, after) = (clock.monotonic() - began, traffic.bytes().await?);
    let idle = traffic.rate(took).await?;
    Ok((after - before) as f64 - idle * took.as_secs_f64())
}

/// Puts a rule for each flow, and returns when the rules are in force.
async fn put_rules(setup: &Setup, folder: &Path, choice: &str) -> Result<()> {
    let mut text = "nacre routes 1\napplication flows on every\n".to_owned();
    for flow in 0..RULES {
        text += &format!("  * r data/flow{flow} -> one storage.0,storage.1 {choice}\n");
    }
    let rules = folder.join("rules");
    write(&rules, &text).await?;
    nacre(setup, folder, &["route", "put", &rules.to_string_lossy()]).await.map(drop)
}

async fn put_program(setup: &Setup, folder: &Path) -> Result<()> {
    let path = folder.join("observer.lua");
    write(&path, SOURCE).await?;
    let (id, path) = (format!("control/{PROGRAM}"), path.to_string_lossy().into_owned());
    nacre(setup, folder, &["program", "put", &id, &path, "--activate"]).await.map(drop)
}

async fn write(path: &Path, text: &str) -> Result<()> {
    let written = tokio::fs::write(path, text).await;
    written.map_err(|error| Error::unavailable(format!("cannot write {}: {error}", path.display())))
}

/// Writes the object of each counted flow, and reads it some times.
async fn read_flows(client: &Cluster) -> Result<()> {
    let use_flow = |flow: usize| async move {
        let id: ObjectId = format!("data/counted{flow}").parse()?;
        let object = client.object(&id).await?;
        object.write_full(Bytes::from_static(b"flow")).await?;
        for _ in 0..READS {
            object.read(0, 4).await?;
        }
        Ok::<_, Error>(())
    };
    try_join_all((0..COUNTED).map(use_flow)).await.map(drop)
}

/// How many flows the switches count.
async fn counted_flows(cluster: &ScratchCluster, client: &Cluster) -> Result<usize> {
    let mut counted = 0;
    for entry in cluster.supervisor.cluster().with_role(RoleName::Storage) {
        let input = Bytes::from_static(b"[\"data/counted*\"]");
        let answer = ask(client, &entry.node_name()?, ROUTE_SERVICE, "statistics", input).await?;
        // For each target of the node.
        let by_target: BTreeMap<String, serde_json::Value> = parsed(&answer)?;
        let flows = |target: &serde_json::Value| target["objects"].as_array().map_or(0, Vec::len);
        counted += by_target.values().map(flows).sum::<usize>();
    }
    Ok(counted)
}

async fn ask(
    client: &Cluster,
    node: &NodeName,
    service: &'static str,
    method: &'static str,
    input: Bytes,
) -> Result<Bytes> {
    client.log_env().sequencers.ask(node, service, method, input, NODE_TIME).await
}

fn parsed<T: serde::de::DeserializeOwned>(answer: &[u8]) -> Result<T> {
    serde_json::from_slice(answer)
        .map_err(|error| Error::corrupt(format!("the answer of a node cannot be read: {error}")))
}

/// Reads the counters of all nodes.
struct Traffic {
    /// Where the nodes' metrics are.
    metrics: Vec<SocketAddr>,
}

impl Traffic {
    async fn of(cluster: &ScratchCluster, client: &Cluster) -> Result<Self> {
        let mut metrics = vec![];
        for entry in cluster.supervisor.cluster().nodes() {
            let answer =
                ask(client, &entry.node_name()?, NODE_SERVICE, "status", Bytes::new()).await?;
            metrics.push(parsed::<NodeReport>(&answer)?.metrics);
        }
        Ok(Self { metrics })
    }

    /// The bytes that the sessions of all nodes have received and sent.
    async fn bytes(&self) -> Result<u64> {
        let pages = try_join_all(self.metrics.iter().map(|address| page(*address))).await?;
        pages.iter().try_fold(0, |sum, page| Ok(sum + value(page, RECEIVED)? + value(page, SENT)?))
    }

    /// The bytes a second during some time from now on.
    async fn rate(&self, span: Duration) -> Result<f64> {
        let clock = SystemClock::default();
        let (began, before) = (clock.monotonic(), self.bytes().await?);
        tokio::time::sleep(span).await;
        let (ended, after) = (clock.monotonic(), self.bytes().await?);
        Ok((after - before) as f64 / (ended - began).as_secs_f64())
    }
}

/// The page with a node's metrics.
async fn page(address: SocketAddr) -> Result<String> {
    let read = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").await?;
        let mut page = String::new();
        stream.read_to_string(&mut page).await?;
        Ok(page)
    };
    read.await.map_err(|error: std::io::Error| {
        Error::unavailable(format!("the metrics at {address} cannot be read: {error}"))
    })
}

/// The value of a counter without labels.
fn value(page: &str, name: &str) -> Result<u64> {
    let found = page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.ok_or_else(|| Error::corrupt(format!("a node's metrics lack {}", name.trim())))
}
