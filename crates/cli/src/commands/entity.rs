//! `nacre entity …`: manages which entities may connect, and what each of them may do.
//!
//! A command that changes an entity succeeds only when every node has confirmed the change.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Subcommand;
use futures::future::join_all;
use nacre::{Cluster, ClusterFile, Entity, Error, Grant, Grants, Keys, Result, Sessions};
use nacre_clock::{Clock, SystemClock};
use nacre_node::NODE_SERVICE;
use nacre_object::{EntityName, ErrorKind, TenantName};
use serde_json::json;

use crate::listing::{Limit, Listing};
use crate::out::{Out, utc};

/// How long a node may take to say that a change is in force.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// What grants look like.
const GRANTS: &str = "\
Grants:
  admin                                     everything, entities included
  RIGHTS pool=POOL [prefix=PREFIX]          objects whose names start so, with rights r, w, x
  x pool=POOL class=CLASS [method=METHOD] [prefix=PREFIX]
                                            calls of one class
  r map=MAP, rw map=MAP                     a map; d deletes the whole map
  rw program=KIND/NAME                      a program: w puts and activates it
  a log=LOG                                 a producer: appends, and reads nothing
  r log=LOG                                 a reader: reads and follows
  rw log=LOG                                both, and trims, seals and creates; d removes the log
  x service=SERVICE [method=METHOD]         a service of nodes, as node.status
  r events                                  the cluster log
RIGHTS are letters: r reads, w writes, x calls methods, a appends, d deletes the whole.
MAP, KIND/NAME and LOG may end in '*'. docs/grants.md says what each grant opens.";

/// Manage entities: who may connect, and what each may do
#[derive(Debug, Subcommand)]
#[command(after_help = GRANTS)]
pub enum EntityCommand {
    /// Add an entity that may connect, and write its identity file; needs the cluster's folder
    Add {
        name: EntityName,
        /// A right of the entity, for example 'rw pool=data'; may be repeated (see
        /// `nacre entity --help`)
        #[arg(long = "grant", value_name = "GRANT")]
        grants: Vec<Grant>,
        /// The tenant as which the entity's requests are counted and promised a latency
        #[arg(long, default_value = "default")]
        tenant: TenantName,
        /// Write the identity to this file [default: NAME.json]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// List entities with their grants
    #[command(alias = "list")]
    Ls(Limit),
    /// Give an entity further grants
    Grant {
        name: EntityName,
        #[arg(required = true)]
        grants: Vec<Grant>,
    },
    /// Take grants from an entity
    Ungrant {
        name: EntityName,
        #[arg(required = true)]
        grants: Vec<Grant>,
    },
    /// Count an entity's requests as those of another tenant
    Tenant { name: EntityName, tenant: TenantName },
    /// Refuse an entity from now on, and end its sessions
    #[command(alias = "rm")]
    Revoke { name: EntityName },
}

/// Runs one of them.
pub async fn run(command: EntityCommand, file: &ClusterFile, out: Out) -> Result<()> {
    let entities = Cluster::reach(file)?.entities();
    let (name, epoch) = match command {
        EntityCommand::Ls(limit) => {
            return list(entities.list().await?, limit, out);
        }
        EntityCommand::Add { name, grants, tenant, out: to } => {
            return add(file, name, grants, tenant, to, out).await;
        }
        EntityCommand::Grant { name, grants } => {
            let more = |entity: &mut Entity| {
                grants.iter().for_each(|grant| entity.grants.add(grant.clone()));
                Ok(())
            };
            (name.clone(), entities.change(&name, more).await?)
        }
        EntityCommand::Ungrant { name, grants } => {
            let less = |entity: &mut Entity| {
                grants.iter().try_for_each(|grant| take_back(&name, &mut entity.grants, grant))
            };
            (name.clone(), entities.change(&name, less).await?)
        }
        EntityCommand::Tenant { name, tenant } => {
            let other = |entity: &mut Entity| {
                entity.tenant = tenant.clone();
                Ok(())
            };
            (name.clone(), entities.change(&name, other).await?)
        }
        EntityCommand::Revoke { name } => (name.clone(), entities.revoke(&name).await?),
    };
    in_force(file, epoch).await?;
    out.show(&json!({ "entity": name.as_str(), "epoch": epoch }), || {
        format!("{name}: in force on every node")
    })
}

fn take_back(name: &EntityName, grants: &mut Grants, grant: &Grant) -> Result<()> {
    match grants.remove(grant) {
        true => Ok(()),
        false => Err(Error::not_found(format!("{name} has no grant '{grant}'"))
            .hint("list its grants with `nacre entity ls`")),
    }
}

async fn add(
    file: &ClusterFile,
    name: EntityName,
    grants: Vec<Grant>,
    tenant: TenantName,
    to: Option<PathBuf>,
    out: Out,
) -> Result<()> {
    let to = to.unwrap_or_else(|| PathBuf::from(format!("{name}.json")));
    let identity = Keys::of(file).issue(file, &name, &to)?;
    let entity = Entity {
        tenant,
        fingerprint: identity.fingerprint(),
        grants: grants.into_iter().collect(),
        created_at_micros: SystemClock::default().now_micros(),
    };
    let added = Cluster::reach(file)?.entities().add(&name, &entity).await;
    let epoch = added.map_err(|error| match error.kind() {
        // The entity may have been added, and this file is the only copy of its key.
        ErrorKind::Unavailable => error.hint(format!(
            "see with `nacre entity ls` whether {name} is known: its identity is {}",
            to.display()
        )),
        // Nobody knows this certificate: the file would only mislead.
        _ => {
            let _ = std::fs::remove_file(&to);
            error
        }
    })?;
    in_force(file, epoch).await?;
    let shown = to.display().to_string();
    out.show(&json!({ "entity": name.as_str(), "identity": shown, "epoch": epoch }), || {
        format!("{name} connects with {shown}: nacre --identity {shown} …")
    })
}

fn list(entities: Vec<(EntityName, Entity)>, limit: Limit, out: Out) -> Result<()> {
    let grants = |entity: &Entity| entity.grants.iter().map(Grant::to_string).collect::<Vec<_>>();
    let document = |(name, entity): &(EntityName, Entity)| {
        json!({ "entity": name.as_str(), "tenant": entity.tenant.as_str(),
                "grants": grants(entity), "created_at_micros": entity.created_at_micros })
    };
    let row = |(name, entity): &(EntityName, Entity)| {
        let since = utc(entity.created_at_micros);
        vec![vec![name.to_string(), entity.tenant.to_string(), since, grants(entity).join("; ")]]
    };
    let header = &["entity", "tenant", "since", "grants"];
    Listing::table(out, limit, header).all(entities, document, row)
}

/// Waits until every node uses the map of entities at this epoch or a later one.
///
/// # Errors
/// `Unavailable`, with the names of the nodes that have not confirmed it.
async fn in_force(file: &ClusterFile, epoch: u64) -> Result<()> {
    let sessions = Sessions::new(file)?;
    let asked = file.nodes().iter().map(|node| {
        let sessions = &sessions;
        async move {
            let session = sessions.session(&node.name)?;
            let epoch = Bytes::from(epoch.to_string());
            session.query(NODE_SERVICE, "entities", epoch, NODE_TIMEOUT).await.map(drop)
        }
    });
    let answers = join_all(asked).await;
    let lagging: Vec<_> = file
        .nodes()
        .iter()
        .zip(answers)
        .filter_map(|(node, answer)| Some(format!("{} ({})", node.name, answer.err()?.message())))
        .collect();
    if lagging.is_empty() {
        return Ok(());
    }
    let text = format!(
        "the change is stored, but these nodes have not confirmed it: {}",
        lagging.join(", ")
    );
    Err(Error::unavailable(text).hint(
        "check these nodes with `nacre status`: a node that is down applies the change when it \
         starts, but a node that is cut off from the others still works without it",
    ))
}
