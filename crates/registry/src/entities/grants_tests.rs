//! Tests what grants allow and what they do not, demand by demand.

use bytes::Bytes;
use nacre_object::{
    ClassCall, ClassName, Demand, ListRequest, MethodName, ObjectId, ObjectName, Op, PoolName,
    Request,
};
use nacre_program::Digest;

use super::*;
use crate::maps::{commit_input, deletion_input, log_commit_input, triggered_commit_input};

/// The rights that calls of an invented log need. In the class `log`, `read` needs the right to
/// read the log, `write` the right to append, and any other method the right to write. Only nodes
/// may call the class `channels`.
fn rule<'a>(call: &ClassCall, object: &'a ObjectId) -> Option<CallNeed<'a>> {
    let right = match (call.class.as_str(), call.method.as_str()) {
        ("channels", _) => return Some(CallNeed::Admin),
        ("log", "read") => Right::Read,
        ("log", "write") => Right::Append,
        ("log", _) => Right::Write,
        _ => return None,
    };
    let log = object.name.as_str().strip_prefix("log/")?.split_once('/')?.0;
    (object.pool.as_str() == "log").then_some(CallNeed::Log { log, right })
}

const RULES: CallRules = CallRules::new(&[rule]);

fn grants(all: &[&str]) -> Grants {
    all.iter().map(|grant| grant.parse::<Grant>().unwrap()).collect()
}

fn object(text: &str) -> ObjectId {
    text.parse().unwrap()
}

fn allows_op(grants: &Grants, on: &str, op: Op) -> bool {
    grants.allows(Demand::Request(&Request::new(object(on), vec![op]).unwrap()), RULES)
}

fn read() -> Op {
    Op::Read { offset: 0, length: 1 }
}

fn append() -> Op {
    Op::Append { data: Bytes::from_static(b"x") }
}

fn call(class: &str, method: &str, input: Bytes) -> Op {
    let (class, method) = (ClassName::new(class).unwrap(), MethodName::new(method).unwrap());
    Op::Call(ClassCall { class, method, version: None, input })
}

fn calls(grants: &Grants, on: &str, class: &str, method: &str) -> bool {
    allows_op(grants, on, call(class, method, Bytes::new()))
}

fn commits(grants: &Grants, map: &str, keys: &[&str]) -> bool {
    let input = commit_input(map, keys);
    allows_op(grants, &format!("nacre.system/map/{map}"), call("map", "commit", input))
}

fn lists(grants: &Grants, pool: &str, prefix: &str) -> bool {
    let pool = PoolName::new(pool).unwrap();
    let request = ListRequest { pool, after: None, prefix: prefix.to_owned(), limit: 1 };
    grants.allows(Demand::List(&request), RULES)
}

fn asks(grants: &Grants, service: &str, method: &str) -> bool {
    grants.allows(Demand::Ask { service, method, input: b"" }, RULES)
}

#[test]
fn without_grants_an_entity_can_read_only_what_every_client_needs() {
    let none = Grants::default();
    assert!(!allows_op(&none, "data/a", read()));
    assert!(!allows_op(&none, "data/a", append()));
    assert!(!calls(&none, "data/a", "counter", "add"));
    assert!(!lists(&none, "data", "") && !asks(&none, "node", "status"));
    assert!(!none.allows(Demand::Watch(&object("data/a")), RULES));
    for map in ["pools", "nodes", "programs", "program-status"] {
        let on = format!("nacre.system/map/{map}");
        assert!(calls(&none, &on, "map", "get") && calls(&none, &on, "map", "history"), "{map}");
        assert!(none.allows(Demand::Watch(&object(&on)), RULES));
        assert!(!commits(&none, map, &["k"]), "{map}");
        assert!(!allows_op(&none, &on, read()) && !allows_op(&none, &on, append()), "{map}");
        assert!(!calls(&none, &on, "map", "bind"), "{map}");
    }
}

#[test]
fn a_pool_grant_covers_its_rights_and_its_prefix() {
    let some = grants(&["rw pool=data prefix=logs/", "r pool=other"]);
    assert!(allows_op(&some, "data/logs/a", read()) && allows_op(&some, "data/logs/a", append()));
    assert!(allows_op(&some, "data/logs/a", Op::Remove));
    assert!(!allows_op(&some, "data/log", read()) && !allows_op(&some, "log/logs/a", read()));
    assert!(allows_op(&some, "other/a", Op::Stat) && !allows_op(&some, "other/a", Op::Remove));
    assert!(!calls(&some, "data/logs/a", "counter", "add"));
    assert!(
        lists(&some, "data", "logs/x") && !lists(&some, "data", "") && lists(&some, "other", "")
    );
    assert!(some.allows(Demand::Watch(&object("other/a")), RULES));
    assert!(!some.allows(Demand::Notify(&object("other/a")), RULES));
    assert!(some.allows(Demand::Notify(&object("data/logs/a")), RULES));
    // If no grant covers one op, the whole transaction is refused.
    let both = Request::new(object("other/a"), vec![read(), append()]).unwrap();
    assert!(!some.allows(Demand::Request(&both), RULES));
}

#[test]
fn a_copy_needs_the_right_to_read_its_source() {
    let names = |source: &str| (ObjectName::new(source).unwrap(), "s".parse().unwrap());
    let clone = |source: &str| {
        let (source, snapshot) = names(source);
        Op::CloneFrom { source, snapshot }
    };
    let write = |source: &str| {
        let (source, snapshot) = names(source);
        Op::WriteFullFrom { source, snapshot }
    };
    let some = grants(&["w pool=data", "r pool=data prefix=open/"]);
    for copy in [&clone as &dyn Fn(&str) -> Op, &write] {
        assert!(allows_op(&some, "data/b", copy("open/a")));
        assert!(!allows_op(&some, "data/b", copy("a")));
        assert!(!allows_op(&some, "other/b", copy("open/a")));
    }
}

#[test]
fn a_grant_covers_calls_by_class_and_method_and_scripts_need_every_right() {
    let some = grants(&["x pool=data class=counter method=add prefix=visits", "rw pool=data"]);
    assert!(calls(&some, "data/visits", "counter", "add"));
    assert!(!calls(&some, "data/visits", "counter", "reset"));
    assert!(!calls(&some, "data/visits", "other", "add"));
    assert!(!calls(&some, "data/a", "counter", "add"));
    assert!(!calls(&some, "data/visits", "lua", "eval_json"));
    let any = grants(&["x pool=data"]);
    assert!(
        calls(&any, "data/a", "counter", "reset") && !calls(&any, "data/a", "lua", "eval_json")
    );
    assert!(calls(&grants(&["rwx pool=data"]), "data/a", "lua", "eval_json"));
    assert!(!calls(&any, "nacre.system/map/m", "map", "commit"));
}

#[test]
fn a_map_grant_covers_the_maps_calls_and_nothing_else_of_its_object() {
    let some = grants(&["r map=conf", "rw map=app.*"]);
    let conf = "nacre.system/map/conf";
    assert!(calls(&some, conf, "map", "get") && some.allows(Demand::Watch(&object(conf)), RULES));
    assert!(!commits(&some, "conf", &["k"]) && commits(&some, "app.x", &["k"]));
    assert!(!calls(&some, "nacre.system/map/confx", "map", "get"));
    for method in ["bind", "triggers", "triggers-done"] {
        assert!(!calls(&some, "nacre.system/map/app.x", "map", method), "{method}");
    }
    assert!(!calls(&some, "nacre.system/map/app.x", "lua", "eval_json"));
    assert!(!allows_op(&some, "nacre.system/map/app.x", append()));
    assert!(!allows_op(&some, "nacre.system/map/app.x", Op::GetAttributes));
    // Only nodes and administrators may send a commit that claims to be triggered by another map.
    let forged = call("map", "commit", triggered_commit_input("app.x"));
    assert!(!allows_op(&some, "nacre.system/map/app.x", forged));
    // A commit must name the map to whose object it is sent. Here it is sent to the object of
    // `app.x` but names `app.y`, which is refused even to an entity that may write both maps.
    let renamed = call("map", "commit", commit_input("app.y", &["k"]));
    assert!(!allows_op(&some, "nacre.system/map/app.x", renamed.clone()));
    assert!(allows_op(&grants(&["admin"]), "nacre.system/map/app.x", renamed));
}

#[test]
fn no_grant_but_admin_reaches_entities_or_nacres_own_maps() {
    let all = grants(&["rw map=*", "rw program=*", "rw log=*", "rwx pool=data", "r events"]);
    let admin = grants(&["admin"]);
    for map in ["entities", "nodes", "pools", "program-status", "layouts"] {
        assert!(!commits(&all, map, &["k"]) && commits(&admin, map, &["k"]), "{map}");
    }
    for map in ["entities", "nodes", "pools", "program-status", "layouts", "programs"] {
        let (on, program) = (format!("nacre.system/map/{map}"), format!("map/{map}"));
        assert!(!calls(&all, &on, "map", "bind") && calls(&admin, &on, "map", "bind"), "{map}");
        assert!(!commits(&all, "programs", &["class/a", &program]), "{map}");
        assert!(commits(&admin, "programs", &[&program]), "{map}");
    }
    assert!(calls(&all, "nacre.system/map/layouts", "map", "get"));
    assert!(!calls(&all, "nacre.system/map/entities", "map", "get"));
    assert!(!all.allows(Demand::Watch(&object("nacre.system/map/entities")), RULES));
    assert!(!all.allows(Demand::Notify(&object("nacre.system/map/entities")), RULES));
    assert!(!allows_op(&all, "nacre.system/other", read()) && !lists(&all, "nacre.system", ""));
    assert!(lists(&all, "nacre.system", "map/"));
    assert!(allows_op(&admin, "nacre.system/x", append()));
}

#[test]
fn a_program_grant_covers_the_programs_record_and_source() {
    let some = grants(&["rw program=class/counter", "r program=map/*"]);
    assert!(commits(&some, "programs", &["class/counter"]));
    assert!(!commits(&some, "programs", &["class/counter", "class/other"]));
    assert!(!commits(&some, "programs", &["map/m"]));
    assert!(!calls(&some, "nacre.system/map/m", "map", "bind"));
    assert!(calls(&grants(&["w program=map/m"]), "nacre.system/map/m", "map", "bind"));
    let source = "return 1";
    let object = format!("nacre.system/program/{}", Digest::of(source));
    let put = |text: &'static str| Op::WriteFull { data: Bytes::from_static(text.as_bytes()) };
    assert!(allows_op(&some, &object, put(source)) && allows_op(&some, &object, read()));
    assert!(!allows_op(&some, &object, put("return 2")), "it would replace another's source");
    assert!(!allows_op(&some, &object, Op::Remove) && !allows_op(&some, &object, append()));
    assert!(!allows_op(&grants(&["r program=*"]), &object, put(source)));
    assert!(!allows_op(&grants(&["rw map=*"]), &object, read()));
}

/// If the store does not tell watchers of a change, the committer does.
#[test]
fn an_entity_may_notify_about_a_system_object_that_it_may_change() {
    let notifies = |grant: &str, on: &str| {
        let on = object(&format!("nacre.system/{on}"));
        grants(&[grant]).allows(Demand::Notify(&on), RULES)
    };
    for on in ["map/programs", "events"] {
        assert!(notifies("w program=class/a", on), "{on}");
        assert!(!notifies("r program=*", on) && !notifies("rw map=*", on), "{on}");
    }
    assert!(notifies("w map=m", "map/m") && !notifies("r map=m", "map/m"));
    assert!(notifies("w log=orders", "map/log.orders"));
    for on in ["map/nodes", "map/layouts", "map/entities", "program/a", "other"] {
        assert!(!notifies("w program=*", on) && !notifies("rw map=*", on), "{on}");
    }
}

#[test]
fn a_log_grant_covers_the_logs_view_and_the_methods_of_its_objects() {
    let (reader, writer) = (grants(&["r log=orders"]), grants(&["rw log=orders"]));
    let on = "log/log/orders/0.0.1{orders.0.1.0}";
    assert!(calls(&reader, on, "log", "read") && !calls(&reader, on, "log", "write"));
    assert!(calls(&writer, on, "log", "write") && !calls(&reader, on, "log", "seal"));
    assert!(!calls(&writer, on, "other", "write") && !allows_op(&writer, on, append()));
    assert!(!calls(&writer, "log/log/orders2/0.0.1", "log", "read"));
    assert!(!calls(&writer, "data/log/orders/0.0.1", "log", "read"));
    assert!(calls(&reader, "nacre.system/map/log.orders", "map", "get"));
    assert!(
        !commits(&reader, "log.orders", &["view"]) && commits(&writer, "log.orders", &["view"])
    );
    assert!(!commits(&grants(&["rw map=*"]), "log.orders", &["view"]));
    assert!(!calls(&grants(&["rwd map=*"]), "nacre.system/map/log.orders", "map", "get"));
    // A program that decides about the log's view could replace the view.
    for (all, may) in [(&["w program=*"][..], false), (&["w program=map/*", "w log=orders"], true)]
    {
        let all = grants(all);
        assert_eq!(calls(&all, "nacre.system/map/log.orders", "map", "bind"), may);
        assert_eq!(commits(&all, "programs", &["map/log.orders"]), may);
    }
}

#[test]
fn a_producer_appends_to_a_log_and_neither_reads_nor_trims_it() {
    let producer = grants(&["a log=orders"]);
    let on = "log/log/orders/0.0.1{orders.0.1.0}";
    assert!(calls(&producer, on, "log", "write"));
    assert!(!calls(&producer, on, "log", "read") && !calls(&producer, on, "log", "trim"));
    assert!(calls(&producer, "nacre.system/map/log.orders", "map", "get"), "where to write");
    assert!(!commits(&producer, "log.orders", &["view"]));
    assert!(!calls(&producer, "log/log/other/0.0.1", "log", "write"));
    assert!(!calls(&producer, "nacre.system/map/log.other", "map", "get"));
}

#[test]
fn the_right_to_write_a_log_does_not_include_deleting_it() {
    let (writer, remover) = (grants(&["rw log=orders"]), grants(&["d log=orders"]));
    let commits_view = |grants: &Grants, view| {
        let commit = call("map", "commit", log_commit_input("orders", view));
        allows_op(grants, "nacre.system/map/log.orders", commit)
    };
    for (view, by_writer) in [
        (Some(r#"{"epoch":3}"#), true),
        (Some(r#"{"epoch":3,"removed":false}"#), true),
        (Some(r#"{"epoch":3,"removed":true}"#), false),
        (None, false),
    ] {
        assert_eq!(commits_view(&writer, view), by_writer, "{view:?}");
        assert_eq!(commits_view(&remover, view), !by_writer, "{view:?}");
    }
    let on = "log/log/orders/0.0.1{orders.0.1.0}";
    assert!(calls(&remover, on, "log", "seal") && calls(&remover, on, "log", "trim_to"));
    assert!(!calls(&remover, on, "log", "read") && !calls(&remover, on, "log", "write"));
}

#[test]
fn deleting_a_map_needs_the_right_to_delete_it() {
    let deletes = |grant: &str, on: &str, named: &str| {
        let delete = call("map", "delete", deletion_input(named));
        allows_op(&grants(&[grant]), &format!("nacre.system/map/{on}"), delete)
    };
    assert!(deletes("d map=conf", "conf", "conf"));
    assert!(!deletes("rw map=conf", "conf", "conf") && !deletes("d map=conf", "other", "other"));
    assert!(!deletes("d map=*", "conf", "other"), "in the name of another map");
    assert!(!deletes("d map=*", "pools", "pools") && !deletes("d map=*", "entities", "entities"));
    assert!(!deletes("d map=*", "log.orders", "log.orders"));
}

#[test]
fn grants_cover_services_and_the_cluster_log_by_name() {
    let some = grants(&["x service=node method=status", "x service=sequencer", "r events"]);
    assert!(asks(&some, "node", "status") && !asks(&some, "node", "stop"));
    assert!(asks(&some, "sequencer", "next"));
    assert!(calls(&some, "nacre.system/events", "events", "read"));
    assert!(!calls(&some, "nacre.system/events", "events", "append"));
    assert!(some.allows(Demand::Watch(&object("nacre.system/events")), RULES));
    assert!(calls(&grants(&["w program=class/a"]), "nacre.system/events", "events", "append"));
}

#[test]
fn only_an_administrator_delivers_messages_of_others() {
    let all = grants(&["rwx pool=data", "x pool=data class=channels"]);
    assert!(calls(&all, "data/a", "relay", "take"));
    for method in
        ["accept", "refuse", "forget", "settle", "resend", "remove", "claim", "begin", "unmark"]
    {
        assert!(!calls(&all, "data/a", "channels", method), "{method}");
        assert!(calls(&grants(&["admin"]), "data/a", "channels", method));
    }
    // Nor marks an object as sent from.
    let entries = vec![];
    assert!(!allows_op(&all, "nacre.system/channels/00", Op::MapSet { entries }));
}
