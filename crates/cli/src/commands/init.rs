//! `nacre init`: creates a cluster's folder, with the keys and certificates of its nodes and of its
//! first administrator.

use std::net::TcpListener;
use std::path::Path;

use nacre::{ClusterFile, Keys, Layout};
use nacre_node::free_ports;
use nacre_object::{Error, Result};
use serde_json::json;

use super::up::TargetArguments;
use crate::engine::EngineArgument;
use crate::out::Out;

/// The arguments of `nacre init`
#[derive(Debug, clap::Args)]
pub struct InitArguments {
    #[command(flatten)]
    targets: TargetArguments,
    #[command(flatten)]
    engine: EngineArgument,
    /// Listen with mutual TLS on this address (default: only on Unix sockets). The first node takes
    /// this port, each further node the next one; with port 0 they take any free ports. Repeat the
    /// option to give each node its own address
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Listen with TLS only, not on Unix sockets
    #[arg(long, requires = "listen")]
    tls_only: bool,
}

/// Makes the folder; `nacre up` then runs it.
pub fn run(arguments: &InitArguments, folder: &Path, out: Out) -> Result<()> {
    let engine = &arguments.engine.engine;
    let mut layout = Layout {
        engine: engine.to_entry(),
        storage: arguments.targets.count(engine),
        metadata: arguments.targets.metadata_count(),
        addresses: vec![],
        sockets: !arguments.tls_only,
    };
    layout.addresses = addresses(&arguments.listen, layout.node_count())?;
    let cluster = ClusterFile::draft(folder, &layout)?;
    let admin = match arguments.listen.is_empty() {
        true => None,
        false => Some(Keys::create(&cluster)?.display().to_string()),
    };
    // Write the cluster file last: a folder without this file is not a cluster, so a failed `init`
    // can be repeated.
    cluster.store()?;
    let value = json!({ "cluster": folder.display().to_string(), "admin": admin,
        "nodes": cluster.nodes() });
    out.show(&value, || {
        let shown = folder.display();
        let next = format!("run it with: nacre up --cluster {shown}");
        match &admin {
            Some(admin) => format!(
                "made {shown}; {next}\nthe administrator's identity is {admin}: keep it secret"
            ),
            None => format!("made {shown}; {next}"),
        }
    })
}

/// An address for each of so many nodes.
fn addresses(listen: &[String], nodes: usize) -> Result<Vec<String>> {
    let parsed: Vec<_> = listen.iter().map(|text| host_and_port(text)).collect::<Result<_>>()?;
    match &parsed[..] {
        [] => Ok(vec![]),
        [(host, 0)] => chosen_ports(host, nodes),
        [(host, first)] => (0..nodes)
            .map(|n| match u16::try_from(usize::from(*first) + n) {
                Ok(port) => Ok(format!("{host}:{port}")),
                Err(_) => Err(Error::invalid(format!("{nodes} ports from {first} on would exceed the port number 65535"))),
            })
            .collect(),
        each if each.len() == nodes && each.iter().all(|(_, port)| *port > 0) => {
            Ok(each.iter().map(|(host, port)| format!("{host}:{port}")).collect())
        }
        each => Err(Error::invalid(format!("there are {} addresses for {nodes} nodes", each.len()))
            .hint("give one, or one with a port for each node: the storage targets and the metadata node; \
                   on Ceph the gateways")),
    }
}

pub(crate) fn host_and_port(text: &str) -> Result<(&str, u16)> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.filter(|(host, _)| !host.is_empty()).ok_or_else(|| {
        Error::invalid(format!("{text:?} is not an address")).hint("write HOST:PORT")
    })?;
    if ["0.0.0.0", "[::]"].contains(&host) {
        return Err(Error::invalid(format!("clients cannot connect to the address {host}"))
            .hint("name the address by which clients reach this machine"));
    }
    Ok((host, port))
}

/// Addresses with ports that are free now. Until the nodes start, the system does not give these
/// ports to outgoing connections.
fn chosen_ports(host: &str, count: usize) -> Result<Vec<String>> {
    TcpListener::bind(format!("{host}:0")).map_err(|error| {
        Error::unavailable(format!("cannot listen on {host}: {error}"))
            .hint("name an address of this machine")
    })?;
    let first = free_ports(u16::try_from(count).unwrap_or(u16::MAX))?;
    Ok((first..).take(count).map(|port| format!("{host}:{port}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_gives_consecutive_ports_to_all_nodes() {
        let of = |listen: &[&str]| {
            let listen: Vec<_> = listen.iter().map(|text| (*text).to_owned()).collect();
            addresses(&listen, 2)
        };
        assert_eq!(of(&["h:7000"]).unwrap(), ["h:7000", "h:7001"]);
        assert_eq!(of(&["a:1", "b:2"]).unwrap(), ["a:1", "b:2"]);
        assert!(of(&[]).unwrap().is_empty());
        let free = of(&["127.0.0.1:0"]).unwrap();
        assert!(free[0] != free[1] && !free[0].ends_with(":0"));
        for wrong in
            [&["h:65535"][..], &["h"], &["0.0.0.0:1"], &["a:1", "b:2", "c:3"], &["a:1", "b:0"]]
        {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
