//! The definitions that a waypoint may have, and the data that it can use.

use nacre_program::{FunctionSpec, Interface, Item};

use crate::limits::WAYPOINT_BUDGET;

/// The interface of waypoints.
pub(super) const WAYPOINT_INTERFACE: Interface = Interface {
    purpose: "re-encodes or holds the IO that a rule sends through it",
    languages: &["Luau"],
    functions: FUNCTIONS,
    environment: &[],
    constants: &[],
    budget: WAYPOINT_BUDGET,
};

/// The name of the function that encodes.
pub(super) const ENCODE: &str = "encode";
/// The name of the function that decodes.
pub(super) const DECODE: &str = "decode";
/// The name of the function that says what an IO costs.
pub(super) const PRICE: &str = "price";
/// The name of the table of numbers for a waypoint that holds IO.
pub(super) const LIMIT: &str = "limit";

const FUNCTIONS: &[FunctionSpec] = &[
    FunctionSpec {
        usage: "encode(offset, bytes)",
        what: "turns the bytes that a client writes at `offset` into those that are stored; `bytes` is a buffer, which it changes in place",
        is_required: false,
        arguments: &[],
    },
    FunctionSpec {
        usage: "decode(offset, bytes)",
        what: "turns stored bytes into those that a read returns; a program has both functions or neither",
        is_required: false,
        arguments: &[],
    },
    FunctionSpec {
        usage: "price(io)",
        what: "returns what an IO costs, a number from 0 on, and its priority: of IO that waits, the one with the least number goes first; without a priority it is 0",
        is_required: false,
        arguments: IO,
    },
    FunctionSpec {
        usage: "limit",
        what: "no function but a table for a program with `price`: `rate` is the cost that goes on each second, `burst` the cost that may go on at once, `queue` how many IOs may wait",
        is_required: false,
        arguments: &[],
    },
];

const IO: &[Item] = &[
    Item::new("io.source", "the authenticated entity that asks"),
    Item::new("io.tenant", "whose requests these are"),
    Item::new("io.operation", "\"read\" or \"write\""),
    Item::new("io.pool", "the pool of the object"),
    Item::new("io.name", "the name of the object"),
    Item::new("io.offset", "the first byte; nil if the request concerns the whole object"),
    Item::new("io.bytes", "how many bytes it reads or writes"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_exactly_the_interface_of_waypoints() {
        let page = include_str!("../../../../docs/lua-api.md");
        let (_, section) = page.split_once("## Waypoints").expect("there is a section");
        let section = section.split("\n## ").next().expect("a section has a text");
        let documented: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let functions =
            FUNCTIONS.iter().map(|spec| format!("| `{}` | {} |", spec.usage, spec.what));
        let items = IO.iter().map(|item| format!("| `{}` | {} |", item.usage, item.what));
        assert_eq!(documented, functions.chain(items).collect::<Vec<_>>());
    }
}
