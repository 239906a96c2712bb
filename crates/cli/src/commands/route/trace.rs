//! `nacre route trace`: which rule sends the bytes of one IO where.

use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, RoleName, Sessions};
use nacre_node::{CopyWay, ROUTE_SERVICE, RouteWay};
use nacre_object::{Error, ObjectId, Result};
use nacre_route::{Io, Operation};

use crate::out::{Out, printable, table};

/// A node answers this in a moment.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the switch of the object's home; on Ceph, the gateway that routes.
pub(super) async fn trace(file: &ClusterFile, cluster: &Cluster, io: &str, out: Out) -> Result<()> {
    let Io { object, operation, .. } = Io::parse(io)?;
    let sessions = Sessions::new(file)?;
    let answer = match file.engine() {
        None => ask(&sessions, &home(file, cluster, &object)?, io).await?,
        Some(_) => ask_router(file, &sessions, io).await?,
    };
    let ways: Vec<RouteWay> = serde_json::from_slice(&answer)
        .map_err(|cause| Error::corrupt(format!("the node's answer cannot be read: {cause}")))?;
    out.show(&ways, || {
        let row = |way: &RouteWay| {
            let why = match (&way.rule, way.is_made) {
                (None, _) => "no rule".to_owned(),
                (Some(rule), false) => match &way.program {
                    Some(program) => format!("{}, by {}", printable(rule), printable(program)),
                    None => printable(rule),
                },
                (Some(_), true) => "reads follow a write".to_owned(),
            };
            let why = match way.waypoints.as_slice() {
                [] => why,
                passed => format!("through {}: {why}", printable(&passed.join(", "))),
            };
            vec![
                way.span.clone().unwrap_or_else(|| "no bytes".to_owned()),
                destination(way, operation),
                way.object.as_deref().map_or_else(|| "-".to_owned(), printable),
                way.application.as_deref().map_or_else(|| "-".to_owned(), printable),
                why,
            ]
        };
        let rows: Vec<_> = ways.iter().map(row).collect();
        table(&["bytes", "node", "object", "application", "why"], &rows)
    })
}

/// The node that holds an object.
fn home(file: &ClusterFile, cluster: &Cluster, object: &ObjectId) -> Result<String> {
    let target = cluster.locate(object);
    let mut nodes = file.with_role(RoleName::Storage);
    let node = nodes.find(|node| node.target().is_ok_and(|name| name == target));
    let node = node.ok_or_else(|| Error::not_found(format!("no node has the target {target}")))?;
    Ok(node.name.clone())
}

async fn ask(sessions: &Sessions, node: &str, io: &str) -> Result<Bytes> {
    let input = Bytes::copy_from_slice(io.as_bytes());
    sessions.session(node)?.ask(ROUTE_SERVICE, "trace", input, NODE_TIMEOUT).await
}

/// Asks one gateway after the other, because only one of them routes.
async fn ask_router(file: &ClusterFile, sessions: &Sessions, io: &str) -> Result<Bytes> {
    let mut failure = Error::not_found("the cluster has no gateway");
    for node in file.with_role(RoleName::Storage) {
        match ask(sessions, &node.name, io).await {
            Ok(answer) => return Ok(answer),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The node of a way; for scattered IO, also the targets that the rule names.
fn destination(way: &RouteWay, operation: Operation) -> String {
    if way.copies.is_empty() {
        return printable(&way.destination);
    }
    let target = |copy: &CopyWay| {
        let state = if copy.is_current { "current" } else { "no current copy" };
        format!("{} ({state})", printable(&copy.target))
    };
    if operation == Operation::Read {
        let targets: Vec<_> = way.copies.iter().map(target).collect();
        return format!("one of {}", targets.join(", "));
    }
    let home = way.destination.split(' ').next();
    let others = way.copies.iter().filter(|copy| Some(copy.target.as_str()) != home);
    let all = [printable(&way.destination)].into_iter().chain(others.map(target));
    all.collect::<Vec<_>>().join(", then ")
}
