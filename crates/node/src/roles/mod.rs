//! What a node does: one folder a role.
//!
//! A node goes through [`ROLES`] in order and opens those that `cluster.json` gives it. A role hands back all
//! that the rest of the node learns of it: the services it offers and who may ask them, its metrics, its part of the
//! node's report, and how it ends.

#[cfg(test)]
mod example_tests;
mod metadata;
mod role;
mod storage;

pub(crate) use role::{
    Admission, JoinContext, Offer, OfferedService, OpenContext, OpenedRole, Role, RunningRole,
    open_roles,
};
pub use storage::{
    DamageReport, RadosReport, RefusalReport, SLO_SERVICE, STORAGE_SERVICE, ScrubReport,
    StorageReport, StrayReport, WatchRequest,
};

/// Every role there is, in the order in which a node takes them up. Storage comes first: the target that it opens may
/// keep what the others read.
pub(crate) const ROLES: [Role; 2] = [storage::ROLE, metadata::ROLE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_that_a_clusters_file_can_name_has_an_implementation() {
        for name in nacre::RoleName::ALL {
            assert_eq!(ROLES.iter().filter(|role| role.name == name).count(), 1, "{name:?}");
        }
    }
}
