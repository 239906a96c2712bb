//! Gives all placement groups of a RADOS pool the same primary OSD, and takes that back.
//!
//! RADOS has *overrides* of CRUSH for single placement groups (`pg-upmap`): a list of OSDs whose
//! first one is the primary. An override that begins with the chosen OSD moves at most one copy of
//! the group. The pool keeps its CRUSH rule, its size and its failure domains. The monitors drop an
//! override that violates the rule, or names an OSD that is out; then CRUSH places the group again.
//! Ceph's balancer leaves groups with an override alone.
//!
//! Decisions ([`PoolPlacement::plan`]) are apart from the commands ([`Administrator`]).

use std::collections::BTreeMap;

use nacre_object::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Administrator;

/// Overrides exist since this release. The monitors refuse them while older clients may connect.
const FIRST_RELEASE: &str = "luminous";
/// The releases before it that a cluster may still admit.
const EARLIER_RELEASES: [&str; 11] = [
    "",
    "argonaut",
    "bobtail",
    "cuttlefish",
    "dumpling",
    "emperor",
    "firefly",
    "giant",
    "hammer",
    "jewel",
    "kraken",
];

/// The overrides of one placement group. Both lists are empty if CRUSH alone places it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// The OSDs that keep the group, the primary first (`pg-upmap`).
    pub osds: Vec<i32>,
    /// OSDs of which one replaces another (`pg-upmap-items`): the replaced one, and its successor.
    pub replaced: Vec<(i32, i32)>,
}

/// A placement group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlacement {
    /// Its name, as `7.1f`.
    pub group: String,
    /// The OSDs that should keep it, the primary first.
    pub up: Vec<i32>,
    /// Its overrides.
    pub overrides: Overrides,
}

/// What places the groups of a RADOS pool at present.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolPlacement {
    /// The name of the pool.
    pub pool: String,
    /// How many copies it keeps.
    pub size: u32,
    /// Whether Ceph changes the number of groups by itself: `on`, `warn` or `off`. Empty in
    /// releases without that.
    pub autoscale_mode: String,
    /// Its groups.
    pub groups: Vec<GroupPlacement>,
    /// For each OSD, the failure domain that the pool's rule never uses twice for one group.
    domains: BTreeMap<i32, i64>,
    osds: BTreeMap<i32, OsdState>,
    oldest_client: String,
}

/// How far a change of primaries is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrimaryProgress {
    /// Placement groups of the pool.
    pub groups: usize,
    /// Of these, the ones with the right primary in the monitors' map.
    pub mapped: usize,
    /// Of these, the ones that their primary serves with all copies in place.
    pub clean: usize,
}

impl PrimaryProgress {
    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.clean == self.groups
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OsdState {
    osd: i32,
    up: u8,
    #[serde(rename = "in")]
    is_in: u8,
    primary_affinity: f64,
}

#[derive(Debug, Deserialize)]
struct OsdDump {
    pools: Vec<PoolState>,
    osds: Vec<OsdState>,
    #[serde(default)]
    pg_upmap: Vec<GroupOsds>,
    #[serde(default)]
    pg_upmap_items: Vec<GroupItems>,
    #[serde(default)]
    require_min_compat_client: String,
}

#[derive(Debug, Deserialize)]
struct PoolState {
    pool: i64,
    pool_name: String,
    size: u32,
    crush_rule: i64,
    pg_num: u32,
    #[serde(default)]
    pg_autoscale_mode: String,
}

#[derive(Debug, Deserialize)]
struct GroupOsds {
    pgid: String,
    osds: Vec<i32>,
}

#[derive(Debug, Deserialize)]
struct GroupItems {
    pgid: String,
    mappings: Vec<Replaced>,
}

#[derive(Debug, Deserialize)]
struct Replaced {
    from: i32,
    to: i32,
}

#[derive(Debug, Deserialize)]
struct PgMap {
    up: Vec<i32>,
}

#[derive(Debug, Deserialize)]
struct CrushRule {
    rule_id: i64,
    steps: Vec<CrushStep>,
}

#[derive(Debug, Deserialize)]
struct CrushStep {
    #[serde(default, rename = "type")]
    kind: String,
}

#[derive(Debug, Deserialize)]
struct OsdTree {
    nodes: Vec<TreeNode>,
}

#[derive(Debug, Deserialize)]
struct TreeNode {
    id: i64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    children: Vec<i64>,
}

/// What an OSD says about a group that it serves.
#[derive(Debug, Deserialize)]
struct GroupState {
    state: String,
    up: Vec<i32>,
    acting: Vec<i32>,
}

impl PoolPlacement {
    /// For each group, the OSDs that shall keep it so that `osd` is the primary of all.
    ///
    /// # Errors
    /// `Unavailable` if the OSD does not serve, or a group lacks copies; `Unsupported` if the
    /// cluster's settings do not allow it. Each error says what to change.
    pub fn plan(&self, osd: i32) -> Result<BTreeMap<String, Vec<i32>>> {
        self.check(osd)?;
        let planned = |group: &GroupPlacement| {
            if group.up.len() < self.size as usize {
                let text = format!(
                    "the placement group {} has only {} of {} copies",
                    group.group,
                    group.up.len(),
                    self.size
                );
                return Err(Error::unavailable(text)
                    .hint("see `ceph health detail`; move the pool when all OSDs serve again"));
            }
            Ok((group.group.clone(), self.led_by(osd, &group.up)))
        };
        self.groups.iter().map(planned).collect()
    }

    fn check(&self, osd: i32) -> Result<()> {
        if EARLIER_RELEASES.contains(&self.oldest_client.as_str()) {
            return Err(Error::unsupported(
                "the Ceph cluster admits clients that know no overrides of placement",
            )
            .hint(format!("ceph osd set-require-min-compat-client {FIRST_RELEASE}")));
        }
        let serves = |state: &&OsdState| state.up != 0 && state.is_in != 0;
        let Some(state) = self.osds.get(&osd).filter(serves) else {
            return Err(Error::unavailable(format!("osd.{osd} does not serve"))
                .hint("see `ceph osd tree`: the OSD must be up and in"));
        };
        if state.primary_affinity < 1.0 {
            let text = format!("osd.{osd} must not be the primary of all placement groups");
            return Err(
                Error::unsupported(text).hint(format!("ceph osd primary-affinity osd.{osd} 1"))
            );
        }
        Ok(())
    }

    /// The OSDs with `osd` in front. If it kept no copy, it replaces the OSD of its own failure
    /// domain, or else the last one.
    fn led_by(&self, osd: i32, up: &[i32]) -> Vec<i32> {
        let domain = self.domains.get(&osd);
        let is_near = |other: &i32| domain.is_some() && self.domains.get(other) == domain;
        let replaced = up
            .iter()
            .position(|other| *other == osd)
            .or_else(|| up.iter().position(is_near))
            .unwrap_or(up.len().saturating_sub(1));
        let others = up.iter().enumerate().filter(|(at, _)| *at != replaced);
        std::iter::once(osd).chain(others.map(|(_, other)| *other)).collect()
    }
}

impl Administrator {
    /// What places the groups of a RADOS pool at present.
    ///
    /// # Errors
    /// `NotFound` if there is no such pool; the errors of the monitors.
    pub async fn placement(&self, pool: &str) -> Result<PoolPlacement> {
        let dump: OsdDump = self.read(json!({ "prefix": "osd dump" })).await?;
        let Some(state) = dump.pools.iter().find(|state| state.pool_name == pool) else {
            return Err(Error::not_found(format!("the Ceph cluster has no pool {pool}"))
                .hint("see `ceph osd pool ls`"));
        };
        let mut groups = vec![];
        for number in 0..state.pg_num {
            let group = format!("{}.{number:x}", state.pool);
            let map: PgMap = self.read(json!({ "prefix": "pg map", "pgid": group })).await?;
            let osds = dump.pg_upmap.iter().find(|found| found.pgid == group);
            let items = dump.pg_upmap_items.iter().find(|found| found.pgid == group);
            let replaced = items.iter().flat_map(|items| &items.mappings);
            let overrides = Overrides {
                osds: osds.map(|found| found.osds.clone()).unwrap_or_default(),
                replaced: replaced.map(|one| (one.from, one.to)).collect(),
            };
            groups.push(GroupPlacement { group, up: map.up, overrides });
        }
        Ok(PoolPlacement {
            pool: pool.to_owned(),
            size: state.size,
            autoscale_mode: state.pg_autoscale_mode.clone(),
            groups,
            domains: self.domains(state.crush_rule).await?,
            osds: dump.osds.into_iter().map(|osd| (osd.osd, osd)).collect(),
            oldest_client: dump.require_min_compat_client,
        })
    }

    /// For each OSD, the bucket of the kind over which a rule spreads copies.
    async fn domains(&self, rule: i64) -> Result<BTreeMap<i32, i64>> {
        let rules: Vec<CrushRule> = self.read(json!({ "prefix": "osd crush rule dump" })).await?;
        let steps = rules.into_iter().find(|found| found.rule_id == rule).map(|found| found.steps);
        let kinds = steps.into_iter().flatten().map(|step| step.kind);
        let kind = kinds.rev().find(|kind| !kind.is_empty());
        let tree: OsdTree = self.read(json!({ "prefix": "osd tree" })).await?;
        Ok(domains_of(&tree, kind.as_deref().unwrap_or_default()))
    }

    /// Sets the overrides of a group in place of `present` ones.
    ///
    /// # Errors
    /// Those of the monitors.
    pub async fn set_overrides(
        &self,
        group: &str,
        present: &Overrides,
        wanted: &Overrides,
    ) -> Result<()> {
        if !present.replaced.is_empty() && present.replaced != wanted.replaced {
            self.ask(json!({ "prefix": "osd rm-pg-upmap-items", "pgid": group })).await?;
        }
        if present.osds != wanted.osds {
            let command = match wanted.osds.is_empty() {
                true => json!({ "prefix": "osd rm-pg-upmap", "pgid": group }),
                false => json!({ "prefix": "osd pg-upmap", "pgid": group, "id": wanted.osds }),
            };
            self.ask(command).await?;
        }
        if !wanted.replaced.is_empty() && present.replaced != wanted.replaced {
            let ids: Vec<i32> = wanted.replaced.iter().flat_map(|one| [one.0, one.1]).collect();
            self.ask(json!({ "prefix": "osd pg-upmap-items", "pgid": group, "id": ids })).await?;
        }
        Ok(())
    }

    /// Sets whether Ceph changes the number of groups of a pool: `on`, `warn` or `off`.
    ///
    /// # Errors
    /// Those of the monitors.
    pub async fn set_autoscale_mode(&self, pool: &str, mode: &str) -> Result<()> {
        let variable = "pg_autoscale_mode";
        let command =
            json!({ "prefix": "osd pool set", "pool": pool, "var": variable, "val": mode });
        self.ask(command).await.map(drop)
    }

    /// How many groups of a pool have `primary` as their primary (any OSD if it is `None`), and
    /// are served by it with all copies in place. The OSDs themselves say so.
    ///
    /// # Errors
    /// Those of the monitors. An OSD that does not answer counts as not ready.
    pub async fn primary_progress(
        &self,
        groups: &[String],
        primary: Option<i32>,
    ) -> Result<PrimaryProgress> {
        let mut progress = PrimaryProgress { groups: groups.len(), ..PrimaryProgress::default() };
        for group in groups {
            let map: PgMap = self.read(json!({ "prefix": "pg map", "pgid": group })).await?;
            let Some(first) = map.up.first().copied() else { continue };
            if primary.is_some_and(|primary| primary != first) {
                continue;
            }
            progress.mapped += 1;
            let query = json!({ "prefix": "pg", "cmd": "query", "pgid": group });
            let Ok(answer) = self.ask_osd(first, query).await else { continue };
            let state = serde_json::from_value::<GroupState>(answer);
            progress.clean += usize::from(state.is_ok_and(|state| state.is_settled(&map.up)));
        }
        Ok(progress)
    }

    async fn read<T: DeserializeOwned>(&self, command: serde_json::Value) -> Result<T> {
        serde_json::from_value(self.ask(command).await?).map_err(|error| {
            Error::corrupt(format!("the monitors' answer cannot be decoded: {error}"))
                .hint("check the cluster with `nacre ceph check`")
        })
    }
}

impl GroupState {
    /// Whether these OSDs serve the group with all copies in place.
    fn is_settled(&self, osds: &[i32]) -> bool {
        let flags: Vec<_> = self.state.split('+').collect();
        let has = |flag| flags.contains(&flag);
        has("active") && has("clean") && self.up == osds && self.acting == osds
    }
}

/// For each OSD in the tree, the bucket of this kind that contains it; the OSD itself if it is in
/// none.
fn domains_of(tree: &OsdTree, kind: &str) -> BTreeMap<i32, i64> {
    let parent_of = |id: i64| tree.nodes.iter().find(|node| node.children.contains(&id));
    let osds = tree.nodes.iter().filter(|node| node.kind == "osd");
    let domain = |osd: &TreeNode| {
        let mut at = osd;
        // A tree is at most as deep as it has nodes.
        for _ in 0..tree.nodes.len() {
            if at.kind == kind {
                return at.id;
            }
            let Some(parent) = parent_of(at.id) else { break };
            at = parent;
        }
        osd.id
    };
    osds.filter_map(|osd| Some((i32::try_from(osd.id).ok()?, domain(osd)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six OSDs on three hosts: 0 and 1, 2 and 3, 4 and 5.
    fn placement(up: &[i32]) -> PoolPlacement {
        let nodes = (0..3).map(|host| TreeNode {
            id: -2 - host,
            kind: "host".to_owned(),
            children: vec![2 * host, 2 * host + 1],
        });
        let osd = |id| TreeNode { id, kind: "osd".to_owned(), children: vec![] };
        let tree = OsdTree { nodes: nodes.chain((0..6).map(osd)).collect() };
        let state = |osd| OsdState { osd, up: 1, is_in: 1, primary_affinity: 1.0 };
        let (group, up) = ("7.0".to_owned(), up.to_vec());
        PoolPlacement {
            pool: "gold".to_owned(),
            size: 3,
            autoscale_mode: String::new(),
            groups: vec![GroupPlacement { group, up, overrides: Overrides::default() }],
            domains: domains_of(&tree, "host"),
            osds: (0..6).map(|osd| (osd, state(osd))).collect(),
            oldest_client: FIRST_RELEASE.to_owned(),
        }
    }

    fn planned(up: &[i32], osd: i32) -> Vec<i32> {
        placement(up).plan(osd).unwrap()["7.0"].clone()
    }

    #[test]
    fn a_copy_on_the_chosen_osd_becomes_the_primary_and_no_copy_moves() {
        assert_eq!(planned(&[0, 2, 4], 4), [4, 0, 2]);
        assert_eq!(planned(&[4, 2, 0], 4), [4, 2, 0]);
    }

    #[test]
    fn the_chosen_osd_replaces_the_copy_in_its_own_failure_domain() {
        assert_eq!(planned(&[0, 2, 4], 3), [3, 0, 4]);
        assert_eq!(planned(&[1, 2, 4], 0), [0, 2, 4]);
    }

    #[test]
    fn without_a_copy_in_its_failure_domain_the_chosen_osd_replaces_the_last_one() {
        let mut placement = placement(&[0, 2]);
        placement.size = 2;
        assert_eq!(placement.plan(5).unwrap()["7.0"], [5, 0]);
    }

    #[test]
    fn no_move_is_planned_to_an_osd_that_cannot_be_the_primary() {
        let change = |change: fn(&mut OsdState)| {
            let mut placement = placement(&[0, 2, 4]);
            change(placement.osds.get_mut(&4).unwrap());
            placement.plan(4).unwrap_err()
        };
        assert!(change(|osd| osd.up = 0).message().contains("does not serve"));
        assert!(change(|osd| osd.is_in = 0).message().contains("does not serve"));
        let refused = change(|osd| osd.primary_affinity = 0.5);
        assert!(refused.hint_text().unwrap().contains("primary-affinity osd.4 1"), "{refused}");
        assert!(placement(&[0, 2, 4]).plan(9).is_err());
    }

    #[test]
    fn no_move_is_planned_while_copies_are_missing_or_old_clients_may_connect() {
        assert!(placement(&[0, 2]).plan(0).unwrap_err().message().contains("2 of 3 copies"));
        let mut old = placement(&[0, 2, 4]);
        old.oldest_client = "jewel".to_owned();
        assert!(old.plan(0).unwrap_err().hint_text().unwrap().contains("luminous"));
    }

    #[test]
    fn a_group_is_settled_only_if_the_right_osds_serve_it_with_all_copies() {
        let state = |state: &str, acting: &[i32]| GroupState {
            state: state.to_owned(),
            up: vec![4, 0],
            acting: acting.to_vec(),
        };
        assert!(state("active+clean", &[4, 0]).is_settled(&[4, 0]));
        assert!(state("active+clean+scrubbing+deep", &[4, 0]).is_settled(&[4, 0]));
        assert!(!state("active+clean", &[4, 0]).is_settled(&[0, 4]));
        assert!(!state("active+remapped+backfilling", &[0, 4]).is_settled(&[4, 0]));
        assert!(!state("active+undersized", &[4, 0]).is_settled(&[4, 0]));
        assert!(!state("peering", &[4, 0]).is_settled(&[4, 0]));
    }
}
