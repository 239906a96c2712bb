//! What file types define and find, as data.

use nacre_program::{FunctionSpec, Interface, Item};

use crate::limits::CALL_BUDGET;

/// The interface of file types.
pub(super) const FILE_TYPE_INTERFACE: Interface = Interface {
    purpose: "gives shared resources their state and methods",
    languages: &["Luau"],
    functions: &[FunctionSpec {
        usage: "init()",
        what: "returns the state of a new resource; without it that is nil",
        is_required: false,
        arguments: &[],
    }],
    environment: ENVIRONMENT,
    constants: &[],
    budget: CALL_BUDGET,
};

const ENVIRONMENT: &[Item] = &[
    Item::new(
        "filetype.read(name, method)",
        "adds a method that only reads: `method(state, input, call)` returns the output",
    ),
    Item::new(
        "filetype.write(name, method)",
        "adds a method that changes `state` in place: it returns the output",
    ),
    Item::new(
        "filetype.recovered(function)",
        "makes the type recovered: after a take-over `function(state)` changes the last stored state in place",
    ),
    Item::new(
        "filetype.store()",
        "in a method that writes: has this change stored before the call is answered",
    ),
    Item::new(
        "filetype.capability(mode, program)",
        "lets clients run the methods themselves: `\"shared\"` those that read, `\"exclusive\"` all; `program` decides who, best effort without it",
    ),
    Item::new("filetype.deny(text)", "ends the call with `denied`; nothing changes"),
    Item::new("filetype.conflict(text)", "ends the call with `conflict`; nothing changes"),
    Item::new("filetype.invalid(text)", "ends the call with `invalid`; nothing changes"),
    Item::new("filetype.not_found(text)", "ends the call with `not found`; nothing changes"),
    Item::new("call.client", "who calls: the authenticated entity"),
    Item::new("call.tenant", "whose requests these are"),
    Item::new(
        "call.now",
        "the time in seconds since 1970, as the clock of the authority or of the holder has it",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_exactly_the_functions_and_data_of_file_types() {
        let page = include_str!("../../../../docs/lua-api.md");
        let (_, section) = page.split_once("## File types").expect("there is a section");
        let section = section.split("\n## ").next().expect("a section has a text");
        let documented: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let functions = FILE_TYPE_INTERFACE.functions.iter();
        let functions = functions.map(|spec| format!("| `{}` | {} |", spec.usage, spec.what));
        let items = ENVIRONMENT.iter().map(|item| format!("| `{}` | {} |", item.usage, item.what));
        assert_eq!(documented, functions.chain(items).collect::<Vec<_>>());
    }
}
