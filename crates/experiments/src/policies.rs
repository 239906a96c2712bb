//! The shipped policies that figures compare, and the constants in them that a figure changes.

use nacre_balance::Policy;
use nacre_object::{Error, Result};

/// A shipped policy, with some of its numbers changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PolicyPlan {
    /// Its name.
    pub name: &'static str,
    /// Its name below a bar.
    pub short: &'static str,
    source: &'static str,
    /// Lines of the source, and what they are in this figure.
    changed: &'static [(&'static str, &'static str)],
    /// What goes before the source.
    before: &'static str,
}

macro_rules! shipped {
    ($file:literal) => {
        include_str!(concat!("../../../programs/balancer/", $file, ".lua"))
    };
}

pub(crate) const NEVER: PolicyPlan = PolicyPlan::shipped("one rank", shipped!("never"));
/// The policy that moves nothing, for figures with several ranks.
pub(crate) const NO_BALANCING: PolicyPlan =
    PolicyPlan { name: "no balancing", short: "none", ..NEVER };
pub(crate) const GREEDY: PolicyPlan =
    PolicyPlan { short: "uneven", ..PolicyPlan::shipped("greedy_spill", shipped!("greedy_spill")) };
pub(crate) const GREEDY_EVEN: PolicyPlan = PolicyPlan {
    short: "even",
    ..PolicyPlan::shipped("greedy_spill_even", shipped!("greedy_spill_even"))
};
pub(crate) const FILL: PolicyPlan = PolicyPlan {
    short: "fill",
    ..PolicyPlan::shipped("fill_and_spill", shipped!("fill_and_spill"))
};
/// The policy of `FILL`, written for CephFS. There a policy keeps no state, and does not know a
/// rank's CPU use.
pub(crate) const CEPH_FILL: PolicyPlan = PolicyPlan {
    name: "fill_and_spill",
    short: "fill",
    ..PolicyPlan::shipped("ceph/fill_and_spill", shipped!("ceph/fill_and_spill"))
};
pub(crate) const FILL_A_TENTH: PolicyPlan = PolicyPlan {
    name: "fill_and_spill, 10 %",
    short: "fill 10 %",
    changed: &[("divisor = 4", "divisor = 10")],
    ..FILL
};
pub(crate) const HASH: PolicyPlan = PolicyPlan::shipped("hash", shipped!("hash"));
pub(crate) const HYBRID: PolicyPlan = PolicyPlan {
    short: "hybrid",
    ..PolicyPlan::shipped("cephfs_hybrid", shipped!("cephfs_hybrid"))
};
pub(crate) const WORKLOAD: PolicyPlan = PolicyPlan {
    short: "workload",
    ..PolicyPlan::shipped("cephfs_workload", shipped!("cephfs_workload"))
};
pub(crate) const CPU: PolicyPlan =
    PolicyPlan { short: "CPU", ..PolicyPlan::shipped("cephfs_cpu", shipped!("cephfs_cpu")) };
pub(crate) const AGGRESSIVE: PolicyPlan = PolicyPlan {
    short: "aggressive",
    ..PolicyPlan::shipped("adaptable_aggressive", shipped!("adaptable_aggressive"))
};
pub(crate) const TOO_AGGRESSIVE: PolicyPlan = PolicyPlan {
    short: "too aggressive",
    ..PolicyPlan::shipped("adaptable_too_aggressive", shipped!("adaptable_too_aggressive"))
};
/// The policy moves load only above a minimum of writes. This minimum is above the rate at which
/// the clients compile, and below the rate at which they link.
pub(crate) const CONSERVATIVE: PolicyPlan = PolicyPlan {
    short: "conservative",
    changed: &[("minimum = 1000", "minimum = 14000")],
    ..PolicyPlan::shipped("adaptable_conservative", shipped!("adaptable_conservative"))
};
pub(crate) const SEQUENCERS: PolicyPlan = PolicyPlan::shipped("sequencers", shipped!("sequencers"));

/// The policy `sequencers`, set to move half of the load at a time. The variants pause for
/// different numbers of ticks after a migration.
pub(crate) const BACK_OFFS: [PolicyPlan; 3] = [
    PolicyPlan {
        name: "no pause",
        changed: &[HALF_UNITS, ("BACK_OFF_TICKS = 3", "BACK_OFF_TICKS = 0")],
        ..SEQUENCERS
    },
    PolicyPlan { name: "3 ticks", changed: &[HALF_UNITS], ..SEQUENCERS },
    PolicyPlan {
        name: "6 ticks",
        changed: &[HALF_UNITS, ("BACK_OFF_TICKS = 3", "BACK_OFF_TICKS = 6")],
        ..SEQUENCERS
    },
];
const HALF_UNITS: (&str, &str) = ("MIGRATION = \"full\"", "MIGRATION = \"half\"");

/// The policies that the Malacology paper prints for migrations of two sizes. When the next rank
/// has no load, they move half of the load, or all of it, to that rank.
const HALF: &str = "metaload = 'IRD + IWR'\nmdsload = 'MDSs[i][\"all\"]'\n\
    when = 'if whoami == 1 and #units == 2 and MDSs[whoami][\"load\"] > .01 then'\n\
    where = 'targets[whoami+1] = MDSs[whoami][\"load\"]/2'\nhowmuch = { 'half' }\n";
const FULL: &str = "metaload = 'IRD + IWR'\nmdsload = 'MDSs[i][\"all\"]'\n\
    when = 'if whoami == 1 and #units == 2 and MDSs[whoami][\"load\"] > .01 then'\n\
    where = 'targets[whoami+1] = MDSs[whoami][\"load\"]'\nhowmuch = { 'big_first' }\n";
const PROXY: &str = "mode = 'proxy'\n";
/// Client mode and proxy mode, each with migrations of half and of all load. Each entry has a name
/// for its files, and the best gain in the Malacology paper, if it gives one.
pub(crate) const MODES: [(PolicyPlan, &str, Option<f64>); 4] = [
    (PolicyPlan::shipped("client mode, half", HALF), "client-half", None),
    (PolicyPlan::shipped("client mode, full", FULL), "client-full", None),
    (
        PolicyPlan { before: PROXY, ..PolicyPlan::shipped("proxy mode, half", HALF) },
        "proxy-half",
        None,
    ),
    (
        PolicyPlan { before: PROXY, ..PolicyPlan::shipped("proxy mode, full", FULL) },
        "proxy-full",
        Some(2.0),
    ),
];

impl PolicyPlan {
    /// A policy as it is.
    const fn shipped(name: &'static str, source: &'static str) -> Self {
        Self { name, short: name, source, changed: &[], before: "" }
    }

    /// Its source.
    ///
    /// # Errors
    /// `Invalid` if the shipped policy has no line that a figure changes.
    pub fn source(&self) -> Result<String> {
        let mut source = format!("{}{}", self.before, self.source);
        for (line, with) in self.changed {
            if !source.contains(line) {
                return Err(Error::invalid(format!("{} has no line `{line}`", self.name)));
            }
            source = source.replace(line, with);
        }
        Ok(source)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`PolicyPlan::source`].
    pub fn compile(&self) -> Result<Policy> {
        Policy::compile(self.name, 1, &self.source()?)
    }
}
