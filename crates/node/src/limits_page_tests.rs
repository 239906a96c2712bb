//! The limits in docs/operations.md must equal those in the code.

use nacre_embedded::DEFAULT_RESERVE_BYTES;
use nacre_log::limits::{MAX_LOG_NAME_BYTES, MAX_RECORD_BYTES};
use nacre_object::limits as object;
use nacre_registry::limits as registry;
use nacre_resource::limits::MAX_PATH_BYTES;

const PAGE: &str = include_str!("../../../docs/operations.md");

/// Every limit of the page, with the value in the code.
fn limits() -> Vec<(&'static str, u64)> {
    let script_millis = nacre_program::DEFAULT_TIME.as_millis() as u64;
    let small = |limit: usize| limit as u64;
    vec![
        ("the byte stream of an object", object::MAX_OBJECT_BYTES),
        ("the name of an object", small(object::MAX_OBJECT_NAME_BYTES)),
        ("the name of a pool, class or program", small(object::MAX_IDENTIFIER_BYTES)),
        ("the name of a log", small(MAX_LOG_NAME_BYTES)),
        ("the path of a resource", small(MAX_PATH_BYTES)),
        ("a key of an object's map", small(object::MAX_MAP_KEY_BYTES)),
        ("a value of an object's map", small(object::MAX_MAP_VALUE_BYTES)),
        ("an attribute's value", small(object::MAX_ATTRIBUTE_VALUE_BYTES)),
        ("attributes of an object", small(object::MAX_ATTRIBUTES)),
        ("snapshots of an object", small(object::MAX_SNAPSHOTS)),
        ("operations of one request", small(object::MAX_OPS)),
        ("a request", small(object::MAX_REQUEST_BYTES)),
        ("a reply", small(object::MAX_REPLY_BYTES)),
        ("what one transaction writes, its scripts included", small(object::MAX_TRANSACTION_BYTES)),
        ("a record of a log", small(MAX_RECORD_BYTES)),
        ("entries of a map", registry::MAX_ENTRIES),
        ("keys and values of a map together", registry::MAX_MAP_BYTES),
        ("a value of a map", small(registry::MAX_VALUE_BYTES)),
        ("changes of one commit to a map", small(registry::MAX_CHANGES)),
        ("epochs in the history of a map", registry::MAX_HISTORY_EPOCHS),
        ("events in the cluster log", registry::MAX_EVENTS),
        ("the source of a program", small(nacre_program::MAX_SOURCE_BYTES)),
        ("versions of a program", small(registry::MAX_VERSIONS)),
        ("the time of one run of a script", script_millis),
        ("steps of one run of a script", nacre_program::DEFAULT_STEPS),
        ("the memory of one run of a script", small(nacre_program::DEFAULT_MEMORY_BYTES)),
        ("the output of one run of a script", small(nacre_program::DEFAULT_OUTPUT_BYTES)),
        ("room held back on each target's disk", DEFAULT_RESERVE_BYTES),
    ]
}

/// The rows of the page's table of limits: the name and the value.
fn rows() -> Vec<(&'static str, u64)> {
    let (_, section) = PAGE.split_once("## Limits").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let table = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    let row = |line: &'static str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (what, limit) = (cells.next().unwrap(), cells.next().unwrap());
        (what, limit.replace(',', "").parse().unwrap())
    };
    table.map(row).collect()
}

#[test]
fn the_operators_page_lists_the_limits_of_the_code() {
    assert_eq!(rows(), limits());
}
