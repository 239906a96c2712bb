//! The interface of map programs, as data.

use nacre_program::{Budget, FunctionSpec, Interface, Item};

/// The interface of map programs.
pub(super) const MAP_INTERFACE: Interface = Interface {
    purpose: "judges the commits of the map of the same name",
    languages: &["Luau"],
    functions: &[FunctionSpec {
        usage: "commit(proposal, map)",
        what: "runs in each commit; it may change `proposal.changes`, refuse the commit, and trigger others",
        is_required: true,
        arguments: ARGUMENTS,
    }],
    environment: &[],
    constants: &[],
    budget: Budget::DEFAULT,
};

const ARGUMENTS: &[Item] = &[
    Item::new("proposal.map", "the name of the map"),
    Item::new("proposal.source", "the authenticated author of the commit"),
    Item::new("proposal.epoch", "the epoch that the commit would begin"),
    Item::new("proposal.at", "the time, in microseconds since 1970"),
    Item::new(
        "proposal.chain",
        "the names of the maps whose programs triggered this commit, the first in front",
    ),
    Item::new("proposal.changes", "a list of `{key = …, value = …}`; a removal has no `value`"),
    Item::new("map.get(key)", "returns the value before the commit, or nil"),
    Item::new("map.deny(text)", "ends the commit with `denied`"),
    Item::new("map.invalid(text)", "ends the commit with `invalid`"),
    Item::new(
        "map.trigger(name, changes)",
        "commits the changes to another map, once this commit is done",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_exactly_the_environment_of_map_programs() {
        let page = include_str!("../../../../../docs/lua-api.md");
        let is_of_maps = |row: &&str| row.starts_with("| `proposal.") || row.starts_with("| `map.");
        let documented: Vec<_> = page.lines().filter(is_of_maps).collect();
        let row = |item: &Item| format!("| `{}` | {} |", item.usage, item.what);
        assert_eq!(documented, ARGUMENTS.iter().map(row).collect::<Vec<_>>());
    }
}
