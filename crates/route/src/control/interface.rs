//! The definitions that a control program must have, and the functions and data that it can use.

use nacre_program::{FunctionSpec, Interface, Item};

use crate::limits::CONTROL_BUDGET;

/// The interface of control programs.
pub(super) const CONTROL_INTERFACE: Interface = Interface {
    purpose: "decides which rules a route application has",
    languages: &["Luau"],
    functions: FUNCTIONS,
    environment: ENVIRONMENT,
    constants: &[],
    budget: CONTROL_BUDGET,
};

/// The name of the function that decides.
pub(super) const FUNCTION: &str = "control";
/// The name of the table of settings.
pub(super) const SETTINGS: &str = "settings";
/// The setting that says whether the program gets the caches.
pub(super) const CACHES_SETTING: &str = "caches";
/// The setting that says which objects the switches count.
pub(super) const OBJECTS_SETTING: &str = "objects";

const FUNCTIONS: &[FunctionSpec] = &[
    FunctionSpec {
        usage: "settings",
        what: "no function but a table: the names of settings with their defaults, each a string, a number or a boolean; the setting `objects` says which objects the switches count, as in rules: `\"data/* logs/*\"`; with `caches = true` the program gets `cluster.cache`",
        is_required: false,
        arguments: &[],
    },
    FunctionSpec {
        usage: "control(cluster)",
        what: "called every second, or as `--every` says, and when an IO waits for a rule; changes the rules with `insert` and `delete`",
        is_required: true,
        arguments: CLUSTER,
    },
];

const CLUSTER: &[Item] = &[
    Item::new("cluster.now", "seconds since 1970"),
    Item::new(
        "cluster.seconds",
        "the time since the last call, over which the rates are counted; 0 if the controller has just started: then all rates are 0",
    ),
    Item::new("cluster.settings", "the settings by name, defaults included"),
    Item::new(
        "cluster.state",
        "a table that the program may change; the next call gets it again, also on another node; 60 KiB at most",
    ),
    Item::new("cluster.targets", "a list of the storage targets, sorted by name"),
    Item::new("target.name", "the name of the target and of its switch"),
    Item::new("target.answers", "whether its node has answered; if not, its rates are 0"),
    Item::new("target.requests", "requests of clients a second"),
    Item::new("target.reads", "those that only read"),
    Item::new("target.writes", "all others"),
    Item::new("target.routed_bytes", "bytes of its objects that are on other targets"),
    Item::new(
        "target.tenants",
        "a list of the busiest tenants there, each with `name`, `reads` and `writes` a second",
    ),
    Item::new(
        "cluster.objects",
        "a list of the busiest objects that the setting `objects` names, the busiest first",
    ),
    Item::new("object.object", "`POOL/NAME`, as rules write it"),
    Item::new("object.target", "the target that holds it"),
    Item::new("object.reads", "requests a second that only read"),
    Item::new("object.writes", "all others"),
    Item::new(
        "object.read_only_seconds",
        "for how many seconds the switch has seen only reads of the object; it forgets objects that are hardly used",
    ),
    Item::new(
        "cluster.cache",
        "the caches of the nodes: `bytes` of each node, and `tenants`; nil if nothing is cached",
    ),
    Item::new("tenant.name", "of `cluster.cache.tenants`: whose reads these are"),
    Item::new("tenant.reads", "its reads a second at all nodes"),
    Item::new(
        "tenant.share",
        "its share of each node's cache in bytes; nil if it has none of its own",
    ),
    Item::new(
        "tenant.curve",
        "its miss-ratio curve: a list of pairs of a size in bytes and the part of its reads that a cache of this size misses",
    ),
    Item::new(
        "cluster.rules",
        "a list of the application's rules before this call, each with `switch` and `rule`",
    ),
    Item::new(
        "cluster.waiting",
        "a list of the IO that waits for a rule, because a rule of the application sends it to `controller header`; an IO fails if no other rule is about it after the call",
    ),
    Item::new("io.object", "of `cluster.waiting`: `POOL/NAME`, as rules write it"),
    Item::new("io.target", "the target that holds it"),
    Item::new("io.operation", "`read`, `write`, `create` or `delete`"),
    Item::new("io.source", "the entity that has sent the IO"),
    Item::new("io.tenant", "the tenant of the IO"),
    Item::new("io.offset", "the first byte; nil if the IO concerns the whole object"),
    Item::new("io.length", "how many bytes; nil if the IO concerns the whole object"),
];

const ENVIRONMENT: &[Item] = &[
    Item::new(
        "insert(switch, rule)",
        "adds a rule such as `\"* w data/* -> pool nacre.routed follow\"` to the switch of a target, or to `every`; it replaces the application's rule of the same header there",
    ),
    Item::new(
        "delete(switch, header)",
        "removes the application's rule with this header, such as `\"* w data/*\"`; returns whether there was one",
    ),
    Item::new(
        "clear()",
        "removes all rules of the application; a program that then inserts all rules that it wants leaves none behind when its settings or its version change",
    ),
    Item::new(
        "share(tenant, bytes)",
        "gives a tenant a share of each node's cache; tenants that a call does not name lose theirs, but a call that names none changes nothing",
    ),
    Item::new("tell(text)", "writes an event to the cluster log"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_exactly_the_interface_of_control_programs() {
        let page = include_str!("../../../../docs/lua-api.md");
        let (_, section) = page.split_once("## Control programs").expect("there is a section");
        let section = section.split("\n## ").next().expect("a section has a text");
        let documented: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let functions =
            FUNCTIONS.iter().map(|spec| format!("| `{}` | {} |", spec.usage, spec.what));
        let items = ENVIRONMENT.iter().chain(CLUSTER);
        let items = items.map(|item| format!("| `{}` | {} |", item.usage, item.what));
        assert_eq!(documented, functions.chain(items).collect::<Vec<_>>());
    }
}
