//! The jobs of a node: one folder for each role.
//!
//! A node goes through [`ROLES`] in order and opens the roles that `cluster.json` gives it. Each
//! role returns what the rest of the node needs: its services and the rights that they require, its
//! metrics, its part of the node's report, and a handle that ends it.

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
    CEPH_POOLS_SERVICE, DamageReport, PlacePool, RadosReport, RefusalReport, SLO_SERVICE,
    STORAGE_SERVICE, ScrubReport, StorageReport, StrayReport, WatchRequest,
};

/// All roles, in the order in which a node opens them. Storage comes first, because the other roles
/// may read data on the target that it opens.
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
