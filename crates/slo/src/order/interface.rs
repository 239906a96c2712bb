//! The functions that order programs define, and the data that they get.

use nacre_program::{FunctionSpec, Interface, Item};

use crate::limits::ORDER_BUDGET;

/// The interface of orders of service.
pub(super) const ORDER_INTERFACE: Interface = Interface {
    purpose: "decides whose request a storage target serves next",
    languages: &["Luau"],
    functions: FUNCTIONS,
    environment: &[],
    constants: &[],
    budget: ORDER_BUDGET,
};

const FUNCTIONS: &[FunctionSpec] = &[FunctionSpec {
    usage: "choose(waiting)",
    what: "returns which tenant's request goes next, by its place in the list of tenants that have requests; `nil` leaves this decision to the native order",
    is_required: true,
    arguments: WAITING,
}];

const WAITING: &[Item] = &[
    Item::new("entry.tenant", "the tenant"),
    Item::new("entry.kind", "\"read\" or \"write\": its next request"),
    Item::new("entry.bytes", "the bytes that the request moves"),
    Item::new(
        "entry.work",
        "the work of the request in seconds; nil if it is known only when the request is done",
    ),
    Item::new("entry.waited", "how many seconds the request has waited"),
    Item::new("entry.number", "grows with each request that comes to the target"),
    Item::new(
        "entry.room",
        "whether the device has room for the request; if not, nothing is sent until a request is done",
    ),
    Item::new(
        "entry.slo",
        "the latency in seconds that the tenant was promised; nil without a promise",
    ),
    Item::new(
        "entry.priority",
        "the priority of the promise, lower ones first; nil without a promise",
    ),
    Item::new("entry.within", "whether the tenant is within its token buckets"),
    Item::new(
        "entry.ready",
        "how many seconds ago its buckets began to cover the request; below 0 if they do not yet",
    ),
    Item::new("entry.weight", "the weight of the tenant; 1 with a promise"),
    Item::new(
        "entry.share",
        "the work of the tenant's sent requests, divided by its weight; when it begins to wait, at least the share of the tenant served last",
    ),
    Item::new("entry.left_over", "the same, counted among tenants without a promise only"),
    Item::new(
        "entry.group",
        "the number of its group's sent requests, divided by the group's weight; tenants outside their buckets are one group, tenants without a promise the other",
    ),
    Item::new("entry.turn", "grows each time a tenant is served or begins to wait"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_exactly_the_fields_that_order_programs_get() {
        let page = include_str!("../../../../docs/lua-api.md");
        let (_, section) = page.split_once("## Orders of service").expect("there is a section");
        let section = section.split("\n## ").next().expect("a section has a text");
        let documented: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let functions =
            FUNCTIONS.iter().map(|spec| format!("| `{}` | {} |", spec.usage, spec.what));
        let items = WAITING.iter().map(|item| format!("| `{}` | {} |", item.usage, item.what));
        assert_eq!(documented, functions.chain(items).collect::<Vec<_>>());
    }
}
