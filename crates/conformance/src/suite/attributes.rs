//! Extended attributes.

use nacre_object::ErrorKind::NotFound;
use nacre_object::{Op, OpResult};

use super::Bench;
use super::cases::{case, try_all};
use crate::ops::*;

checks![attributes_are_set_got_and_removed, attributes_are_listed_by_name];

async fn attributes_are_set_got_and_removed(bench: Bench) {
    let done = OpResult::Done;
    let one = || [set_attribute("a", "1")];
    let cases = [
        case("set makes the object")
            .when([set_attribute("a", "1"), get_attribute("a")])
            .answers([done.clone(), data("1")]),
        case("set again")
            .given(one())
            .when([set_attribute("a", ""), get_attribute("a")])
            .answers([done.clone(), data("")]),
        case("another name")
            .given(one())
            .when([get_attribute("b")])
            .fails(NotFound, "get-attribute"),
        case("removed")
            .given(one())
            .when([remove_attribute("a"), get_attribute("a")])
            .fails(NotFound, "get-attribute"),
        case("removed and set")
            .given(one())
            .when([remove_attribute("a"), set_attribute("a", "2"), get_attribute("a")])
            .answers([done.clone(), done.clone(), data("2")]),
        case("nothing to remove")
            .given(one())
            .when([remove_attribute("b")])
            .fails(NotFound, "remove-attribute"),
        case("of an absent object").when([get_attribute("a")]).fails(NotFound, "get-attribute"),
        case("all of an absent object").when([Op::GetAttributes]).fails(NotFound, "get-attributes"),
        case("removed from an absent object")
            .when([remove_attribute("a")])
            .fails(NotFound, "remove-attribute"),
        case("apart from map keys")
            .given([map_set([("a", "key")]), set_attribute("a", "attribute")])
            .when([get_attribute("a"), map_get(["a"])])
            .answers([data("attribute"), values([Some("key")])]),
    ];
    try_all(&bench, cases).await;
}

async fn attributes_are_listed_by_name(bench: Bench) {
    let set = |name: &str| set_attribute(name, name.to_owned());
    let named = |name: &str| (name.to_owned(), name.to_owned().into());
    let cases = [
        case("none")
            .given([create()])
            .when([Op::GetAttributes])
            .answers([OpResult::Attributes(vec![])]),
        case("in byte order, own writes included")
            .given([set("b"), set("ä"), set("a b"), set("B")])
            .when([set("a"), Op::GetAttributes])
            .answers([
                OpResult::Done,
                OpResult::Attributes(["B", "a", "a b", "b", "ä"].map(named).to_vec()),
            ]),
    ];
    try_all(&bench, cases).await;
}
