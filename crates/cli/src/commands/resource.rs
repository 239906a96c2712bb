//! `nacre resource …`: shared resources, whose methods are those of their file types.

use std::path::PathBuf;

use clap::Subcommand;
use nacre::{
    Cluster, ProgramId, ProgramKind, Resource, ResourceName, ResourceStat, native_file_type,
};
use nacre_object::{Error, NodeName, ProgramName, Result};
use serde_json::{Value, json};

use crate::input::read_text;
use crate::listing::{Limit, Listing, line};
use crate::out::Out;
use crate::reader::while_read;

/// Work with shared resources, such as a sequencer or a lock: named state that one node serves at a
/// time
#[derive(Debug, Subcommand)]
pub enum ResourceCommand {
    /// Create a resource of a file type, which gives it its state and methods
    Create {
        /// The resource's path, such as /seq/orders
        resource: ResourceName,
        /// The file type: an active program filetype/TYPE, or a type that is compiled into nacre
        #[arg(long = "type", value_name = "TYPE")]
        file_type: ProgramName,
    },
    /// List the resources
    #[command(alias = "list")]
    Ls(Limit),
    /// Show a resource: its file type, its node and its methods
    Stat { resource: ResourceName },
    /// Call a method; prints its output in JSON
    Call {
        resource: ResourceName,
        /// A method of the resource's file type
        method: String,
        /// The input in JSON (default: null)
        #[arg(
            long,
            value_name = "JSON",
            conflicts_with = "input_file",
            allow_hyphen_values = true
        )]
        input: Option<String>,
        /// Read the input from a file; `-` is standard input
        #[arg(long, value_name = "FILE")]
        input_file: Option<PathBuf>,
        /// How many times to call the method, one call after another
        #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        repeat: u64,
    },
    /// Print the stored state, now and after each change, until interrupted
    Watch { resource: ResourceName },
    /// Print the node that serves a resource
    Locate { resource: ResourceName },
    /// Move a resource to another node; clients can use it meanwhile
    Move {
        resource: ResourceName,
        /// The node, as `nacre status` names it
        node: NodeName,
    },
    /// Remove a resource with its state
    #[command(alias = "remove")]
    Rm { resource: ResourceName },
}

/// Runs one of them.
pub async fn run(command: ResourceCommand, cluster: &Cluster, out: Out) -> Result<()> {
    use ResourceCommand as C;
    let resources = cluster.resources();
    match command {
        C::Create { resource, file_type } => create(cluster, &resource, file_type).await,
        C::Ls(limit) => Listing::lines(out, limit).all(
            resources.list().await?,
            |name| json!({ "resource": name.as_str() }),
            |name| line(name.as_str()),
        ),
        C::Stat { resource } => {
            let stat = resources.open(&resource).await?.stat().await?;
            out.show(&stat, || stat_text(&stat, out))
        }
        C::Call { resource, method, input, input_file, repeat } => {
            let input = match (input, input_file) {
                (Some(text), _) => parsed(&text)?,
                (None, Some(path)) => parsed(&read_text(&path)?)?,
                (None, None) => Value::Null,
            };
            let resource = resources.open(&resource).await?;
            let called = call(&resource, &method, &input, repeat, out).await;
            resource.release().await;
            called
        }
        C::Watch { resource } => while_read(watch(cluster, &resource, out)).await,
        C::Locate { resource } => {
            let node = resources.open(&resource).await?.stat().await?.node;
            out.show(&json!({ "node": node }), || node.clone())
        }
        C::Move { resource, node } => resources.open(&resource).await?.move_to(&node).await,
        C::Rm { resource } => resources.remove(&resource).await,
    }
}

/// Calls a method `repeat` times. If no other client uses the resource, and its file type allows
/// it, this client gets the resource's capability and runs further calls itself.
async fn call(
    resource: &Resource,
    method: &str,
    input: &Value,
    repeat: u64,
    out: Out,
) -> Result<()> {
    for _ in 0..repeat {
        let output = resource.call(method, input.clone()).await?;
        out.show(&output, || output.to_string())?;
    }
    Ok(())
}

async fn create(cluster: &Cluster, name: &ResourceName, file_type: ProgramName) -> Result<()> {
    let program = ProgramId::new(ProgramKind::FileType, file_type.clone());
    let is_native = native_file_type(file_type.as_str()).is_some();
    if !is_native && cluster.programs().active(&program).await?.is_none() {
        let hint = format!("put and activate one: nacre program put {program} FILE --activate");
        return Err(Error::not_found(format!("{program} has no active version")).hint(hint));
    }
    cluster.resources().create(name, file_type).await
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|cause| {
        Error::invalid(format!("the input is not JSON: {cause}"))
            .hint("a string has quotes: --input '\"text\"'")
    })
}

async fn watch(cluster: &Cluster, name: &ResourceName, out: Out) -> Result<()> {
    let mut changes = cluster.resources().watch(name);
    let mut shown = None;
    loop {
        let stored = cluster.resources().stored(name).await?;
        let version = stored.as_ref().map_or(0, |stored| stored.version);
        if shown.replace(version) != Some(version) {
            let state = stored.map_or(Value::Null, |stored| stored.state);
            out.show(&json!({ "version": version, "state": state }), || {
                format!("{version} {state}")
            })?;
        }
        changes.next().await?;
    }
}

fn stat_text(stat: &ResourceStat, out: Out) -> String {
    let ResourceStat { node, epoch, file_type, type_version, survival, version, .. } = stat;
    let size = out.size(stat.state_bytes as u64);
    let capability = match (&stat.capability, &stat.capability_program) {
        (None, _) => "none: each call is a round trip".to_owned(),
        (Some(mode), None) => format!("{mode}, by best effort"),
        (Some(mode), Some(program)) => format!("{mode}, by capability/{program}"),
    };
    let method = |(name, writes): &(String, bool)| match writes {
        true => format!("{name} (writes)"),
        false => name.clone(),
    };
    let methods = stat.methods.iter().map(method).collect::<Vec<_>>().join(", ");
    let holder = |(entity, is_exclusive): &(String, bool)| match is_exclusive {
        true => format!("{entity} (exclusive)"),
        false => format!("{entity} (shared)"),
    };
    let holders = match &stat.holders[..] {
        [] => "nobody".to_owned(),
        holders => holders.iter().map(holder).collect::<Vec<_>>().join(", "),
    };
    format!(
        "file type  {file_type}, version {type_version}, {survival}\nnode       {node}, since epoch {epoch}\n\
         state      {size}, changed {version} times\nmethods    {methods}\n\
         capability {capability}\nheld by    {holders}"
    )
}
