//! The interface of balancer policies, as data: the hooks that they set and the globals they get.

use nacre_program::{FunctionSpec, Interface, Item};

use crate::limits::DECISION_BUDGET;

/// The interface of balancer policies.
pub const BALANCER_INTERFACE: Interface = Interface {
    purpose: "decides which units of load move to which rank",
    languages: &["Luau"],
    functions: FUNCTIONS,
    environment: ENVIRONMENT,
    constants: &[],
    budget: DECISION_BUDGET,
};

/// A hook that a policy may leave out.
const fn hook(usage: &'static str, what: &'static str) -> FunctionSpec {
    FunctionSpec { usage, what, is_required: false, arguments: &[] }
}

const FUNCTIONS: &[FunctionSpec] = &[
    hook(
        "metaload()",
        "returns the load of the unit whose counters are in `IRD` and so on; or a string with an expression",
    ),
    hook("mdsload(i)", "returns the load of the rank `i`; or a string with an expression"),
    hook(
        "when()",
        "returns whether load has to move; or a string that ends with an open `if … then`, that returns a truth value, or that sets `when`",
    ),
    hook(
        "where()",
        "fills `targets`; or a string that does. After a string `when` with an open `if … then`, it sees the locals of `when`",
    ),
    FunctionSpec {
        usage: "placement(unit, rank)",
        what: "returns false if the unit must not move to the rank",
        is_required: false,
        arguments: UNIT,
    },
];

const UNIT: &[Item] = &[
    Item::new("unit.name", "the name of the unit"),
    Item::new("unit.kind", "its file type, as `sequencer`"),
    Item::new("unit.tenant", "whose it is"),
    Item::new("unit.load", "its load, as `metaload` gave it"),
];

const ENVIRONMENT: &[Item] = &[
    Item::new("whoami", "the number of this rank, from 1; in the Ceph dialect from 0"),
    Item::new("MDSs", "the list of the ranks; empty while units are measured"),
    Item::new("mds", "another name of `MDSs`; in the Ceph dialect the ranks by number, from 0"),
    Item::new("MDSs[i].auth", "the load of the units of which the rank is the authority"),
    Item::new("MDSs[i].all", "the load of all units that the rank has"),
    Item::new("MDSs[i].cpu", "CPU use in percent"),
    Item::new("MDSs[i].mem", "memory use in percent"),
    Item::new("MDSs[i].q", "requests that wait"),
    Item::new("MDSs[i].req", "requests a second"),
    Item::new("MDSs[i].load", "what `mdsload` gave for the rank"),
    Item::new("MDSs[i].node", "the name of the node that serves the rank"),
    Item::new("MDSs[i].labels", "what the operator says of the node, a table of strings"),
    Item::new(
        "MDSs[i].capacity",
        "how much the node can take in comparison with others; 1 if nobody says",
    ),
    Item::new("total", "the sum of the loads of all ranks"),
    Item::new(
        "authmetaload",
        "the load of this rank's units now, which is newer than its heartbeat",
    ),
    Item::new("allmetaload", "the same with the units of which another rank is the authority"),
    Item::new("IRD", "reads of the unit that is measured; of all units in the other hooks"),
    Item::new("IWR", "writes, likewise"),
    Item::new("READDIR", "listings, likewise"),
    Item::new("FETCH", "fetches from the store, likewise"),
    Item::new("STORE", "writes to the store, likewise"),
    Item::new("units", "the list of this rank's units: `name`, `kind`, `tenant`, `load`"),
    Item::new(
        "targets",
        "the result: `targets[i] = load` sends load to the rank `i`; an entry for this rank voids all",
    ),
    Item::new(
        "WRstate(value)",
        "keeps a value for the next decision: a number, a string, a truth value, a list, or a table with strings as keys",
    ),
    Item::new("RDstate()", "returns that value; nil if none was kept"),
    Item::new("WRState(value)", "another name of `WRstate`"),
    Item::new("RDState()", "another name of `RDstate`"),
    Item::new("max(a, b)", "returns the larger of two numbers"),
    Item::new("min(a, b)", "returns the smaller of two numbers"),
    Item::new("Max(a, b)", "another name of `max`"),
    Item::new("Min(a, b)", "another name of `min`"),
    Item::new(
        "BAL_LOG(level, …)",
        "adds a line to the log of the decision; the level is an integer",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lua_reference_lists_exactly_what_balancer_policies_are_given() {
        let page = include_str!("../../../../docs/lua-api.md");
        let (_, section) = page.split_once("## Balancer policies").expect("there is a section");
        let section = section.split("\n## ").next().expect("a section has a text");
        let rows = |items: &[(&str, &str)]| {
            items.iter().map(|(usage, what)| format!("| `{usage}` | {what} |")).collect::<Vec<_>>()
        };
        let hooks: Vec<_> = FUNCTIONS.iter().map(|spec| (spec.usage, spec.what)).collect();
        let items: Vec<_> =
            UNIT.iter().chain(ENVIRONMENT).map(|item| (item.usage, item.what)).collect();
        let documented: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(documented, [rows(&hooks), rows(&items)].concat());
    }
}
