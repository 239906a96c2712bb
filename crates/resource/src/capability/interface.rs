//! What capability programs define and find, as data.

use nacre_program::{FunctionSpec, Interface, Item};

use crate::limits::CAPABILITY_BUDGET;

/// The interface of capability programs.
pub(super) const CAPABILITY_INTERFACE: Interface = Interface {
    purpose: "decides which client holds a capability, how long, and who is next",
    languages: &["Luau"],
    functions: FUNCTIONS,
    environment: &[],
    constants: &[],
    budget: CAPABILITY_BUDGET,
};

const FUNCTIONS: &[FunctionSpec] = &[
    FunctionSpec {
        usage: "grant(ask)",
        what: "returns a table with the conditions of the grant, or `true` for one that ends as soon as another client asks; `false` for round trips for one second, or a number: round trips for so many seconds, at most 10",
        is_required: true,
        arguments: ASK,
    },
    FunctionSpec {
        usage: "keep(holding, ask)",
        what: "returns how many seconds more a holder keeps what another client asks for, whatever the conditions of its grant; without it the conditions count",
        is_required: false,
        arguments: HOLDING,
    },
    FunctionSpec {
        usage: "turn(waiting)",
        what: "returns which of the clients that wait is served next, by its place in the list of what they ask; without it, the first",
        is_required: false,
        arguments: &[],
    },
];

const ASK: &[Item] = &[
    Item::new("ask.client", "the authenticated entity that asks"),
    Item::new("ask.tenant", "whose requests these are"),
    Item::new(
        "ask.wish",
        "\"exclusive\" or \"shared\" if it asks for a capability, \"write\" or \"read\" if it asks for one operation; `grant` is asked about the former two",
    ),
    Item::new("ask.waited", "how many seconds it has waited"),
    Item::new(
        "ask.alone",
        "for how many seconds no other client has asked, or changed the state if `ask` only reads; `math.huge` if none ever did",
    ),
    Item::new("ask.waiting", "how many others wait"),
    Item::new("ask.operations", "operations that its tenant has done by earlier grants"),
];

const HOLDING: &[Item] = &[
    Item::new("holding.client", "the authenticated entity that holds it"),
    Item::new("holding.tenant", "whose requests these are"),
    Item::new("holding.mode", "\"exclusive\" or \"shared\""),
    Item::new("holding.held", "for how many seconds it has been held"),
    Item::new("holding.operations", "operations that the holder has told of"),
];

/// The conditions that `grant` returns.
const CONDITIONS: &[Item] = &[
    Item::new("hold", "seconds that the holder may keep the grant when others ask"),
    Item::new("operations", "after so many operations the holder asks again"),
];

/// The names of the conditions.
pub(super) fn condition_names() -> impl Iterator<Item = &'static str> {
    CONDITIONS.iter().map(Item::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_exactly_what_capability_programs_are_given() {
        let page = include_str!("../../../../docs/lua-api.md");
        let (_, section) = page.split_once("## Capability programs").expect("there is a section");
        let section = section.split("\n## ").next().expect("a section has a text");
        let documented: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let functions =
            FUNCTIONS.iter().map(|spec| format!("| `{}` | {} |", spec.usage, spec.what));
        let items = ASK.iter().chain(HOLDING).chain(CONDITIONS);
        let items = items.map(|item| format!("| `{}` | {} |", item.usage, item.what));
        assert_eq!(documented, functions.chain(items).collect::<Vec<_>>());
    }
}
