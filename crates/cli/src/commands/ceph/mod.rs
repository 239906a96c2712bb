//! `nacre ceph`: the commands with which the administrator of a Ceph cluster prepares it for nacre.

mod check;
mod forget;
mod install;
mod lacks;
mod library;

use nacre::ClusterFile;
use nacre_object::{Error, Result};
use nacre_rados::RadosOptions;

use crate::engine::Engine;
use crate::out::Out;

/// Check and prepare a Ceph cluster
#[derive(Debug, clap::Subcommand)]
pub enum CephCommand {
    /// Report what nacre needs and a Ceph cluster lacks, and how to add it; exit status 1 if
    /// something is missing
    Check(check::CheckArguments),
    /// Install nacre's object class in the folder from which the OSDs of this host load it
    Install(install::InstallArguments),
    /// Remove a node whose machine or folder is gone for good, so that no command waits for it
    Forget(forget::ForgetArguments),
}

/// Runs one of them.
pub async fn run(
    command: CephCommand,
    cluster_file: impl FnOnce() -> Result<ClusterFile>,
    out: Out,
) -> Result<()> {
    match command {
        CephCommand::Check(arguments) => check::run(arguments, out).await,
        CephCommand::Install(arguments) => install::run(arguments, out).await,
        CephCommand::Forget(arguments) => forget::run(arguments, &cluster_file()?, out).await,
    }
}

/// The cluster that an `--engine` names.
fn options_of(engine: &Engine) -> Result<RadosOptions> {
    match engine {
        Engine::Ceph(entry) => entry.parse(),
        Engine::Embedded => Err(Error::invalid("the embedded engine is not a Ceph cluster")
            .hint("write --engine ceph:/path/ceph.conf")),
    }
}
