//! The folders of a cluster's storage targets, and the identity of each.
//!
//! A target must not start with an empty folder, or with the folder of another target: it would
//! answer `not found` for lost objects. So each folder has an identity: a [record](record) of the
//! cluster's id, the target's name and the target's id. `cluster.json` has the same ids. A node
//! compares the two before it opens the folder, and serves nothing if they differ ([`Refusal`]).
//!
//! | when | what happens |
//! | --- | --- |
//! | a cluster is made | [`create`]: the identities of all folders, then `cluster.json` |
//! | a node starts | [`TargetFolder::refusal`], then the engine opens, then [`TargetFolder::opened`] |
//! | an operator accepts a loss | [`forget`]: a new identity for the empty folder, then `cluster.json` |
//!
//! **Invariant:** `cluster.json` names an id only after the folder's record of that id is durable.
//! A crash before that leaves records in folders without data. The next attempt replaces these
//! records.
//!
//! Each folder also has a copy of `cluster.json`, from which an operator can restore a lost one.

mod create;
mod folder;
mod forget;
mod record;
mod refusal;
#[cfg(test)]
mod tests;
mod unique_id;

pub(crate) use create::create;
pub use folder::{TargetFolder, damaged_target_files};
pub(crate) use folder::{
    refuse_left_out_targets, refuse_targets_without_cluster, restore_cluster_file,
};
pub(crate) use forget::{check_forgettable, forget};
pub(crate) use unique_id::UniqueId;
