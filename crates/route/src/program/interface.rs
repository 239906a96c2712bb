//! The definitions that a route program must have, and the functions and data that it can use.

use nacre_program::{FunctionSpec, Interface, Item};

use crate::limits::ROUTE_BUDGET;

/// The interface of route programs.
pub(super) const ROUTE_INTERFACE: Interface = Interface {
    purpose: "decides where an IO goes that a rule hands to it",
    languages: &["Luau"],
    functions: FUNCTIONS,
    environment: ENVIRONMENT,
    constants: &[],
    budget: ROUTE_BUDGET,
};

/// The name of the function that decides.
pub(super) const FUNCTION: &str = "route";
/// The name of the list of destinations.
pub(super) const DESTINATIONS: &str = "destinations";
/// Functions of the sRoute paper that nodes do not offer to programs.
pub(super) const NOT_OFFERED: [&str; 2] = ["quiesce", "drain"];

const FUNCTIONS: &[FunctionSpec] = &[
    FunctionSpec {
        usage: "destinations",
        what: "no function but a list of strings: every destination that `route` may return or `insert` may be given",
        is_required: true,
        arguments: &[],
    },
    FunctionSpec {
        usage: "route(io)",
        what: "returns where the bytes go: one of `destinations`",
        is_required: true,
        arguments: IO,
    },
];

const IO: &[Item] = &[
    Item::new("io.source", "the authenticated entity that asks"),
    Item::new("io.tenant", "whose requests these are"),
    Item::new("io.operation", "\"write\""),
    Item::new(
        "io.object",
        "the object as rules write it: `POOL/NAME`, with backslashes where a name needs them",
    ),
    Item::new("io.pool", "its pool"),
    Item::new("io.name", "its name"),
    Item::new(
        "io.rule",
        "the header of the rule, restricted to this object; pass it to `insert` to send all these writes to one destination",
    ),
    Item::new("io.offset", "the first byte"),
    Item::new("io.length", "how many bytes the rule hands to the program"),
];

const ENVIRONMENT: &[Item] = &[
    Item::new(
        "insert(header, destination)",
        "inserts a rule right before the one that names the program; the header, as `io.rule` or `\"* w \" .. io.object .. \" 0..4KiB\"`, is about writes of the IO's object",
    ),
    Item::new("delete(header)", "deletes the rules of this header that the program inserted"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_exactly_the_interface_of_route_programs() {
        let page = include_str!("../../../../docs/lua-api.md");
        let (_, section) = page.split_once("## Route programs").expect("there is a section");
        let section = section.split("\n## ").next().expect("a section has a text");
        let documented: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let functions =
            FUNCTIONS.iter().map(|spec| format!("| `{}` | {} |", spec.usage, spec.what));
        let items = ENVIRONMENT.iter().chain(IO);
        let items = items.map(|item| format!("| `{}` | {} |", item.usage, item.what));
        assert_eq!(documented, functions.chain(items).collect::<Vec<_>>());
    }
}
