//! A method has the same result on a holder as on the authority, whatever the program does.

mod common;

use std::time::Duration;

use common::Cluster;
use nacre_object::ErrorKind;
use nacre_resource::Resource;
use serde_json::{Value, json};
use tokio::time::sleep;

/// Runs the same calls by two clients and checks that both get the same answers. One client holds
/// the exclusive capability from the sixth call on; the other never holds it.
async fn assert_alike(methods: &str, calls: &[(&str, Value)]) -> Vec<Result<Value, ErrorKind>> {
    let source = format!("filetype.recovered(function() end)\n{methods}");
    let cluster = Cluster::new(1);
    cluster.install("plain", 1, &source);
    cluster.install("held", 1, &format!("filetype.capability('exclusive')\n{source}"));
    let (plain, held) =
        (cluster.create("/plain", "plain").await, cluster.create("/held", "held").await);
    for _ in 0..6 {
        call(&plain, "warm", &Value::Null).await.unwrap();
        call(&held, "warm", &Value::Null).await.unwrap();
    }
    let stat = cluster.open("/held").await.stat().await.unwrap();
    assert_eq!(stat.holders, [("alice".to_owned(), true)], "the calls run in the client");
    let mut answers = vec![];
    for (method, input) in calls {
        let (by_authority, by_holder) =
            (call(&plain, method, input).await, call(&held, method, input).await);
        assert_eq!(by_holder, by_authority, "{method} {input}");
        answers.push(by_holder);
    }
    held.release().await;
    let other = cluster.open("/held").await;
    assert_eq!(
        call(&other, "state", &Value::Null).await,
        call(&plain, "state", &Value::Null).await
    );
    answers
}

async fn call(resource: &Resource, method: &str, input: &Value) -> Result<Value, ErrorKind> {
    let called = resource.call(method, input.clone()).await;
    // A VM has only doubles, while JSON can write a whole number in two forms.
    let called = called.map(|value| match value.as_f64() {
        Some(number) => json!(number),
        None => value,
    });
    called.map_err(|error| error.kind())
}

const COMMON: &str = r#"
function init() return { n = 0, list = { 1, 2 } } end
filetype.write("warm", function(state) state.n = state.n + 1; return state.n end)
filetype.read("state", function(state) return state end)
"#;

fn with(methods: &str) -> String {
    format!("{COMMON}{methods}")
}

fn null(method: &str) -> (&str, Value) {
    (method, Value::Null)
}

#[tokio::test(start_paused = true)]
async fn a_method_that_fails_changes_nothing() {
    let methods = with(
        r#"
filetype.write("fail", function(state) state.n = 99; state.list[3] = 3; error("no") end)
filetype.write("refuse", function(state) state.n = 99; filetype.conflict("no") end)
filetype.write("spin", function(state) state.n = 99; while true do end end)
filetype.write("hoard", function(state) state.text = string.rep("x", 70000) end)
filetype.write("odd", function(state) state.f = string.rep end)
"#,
    );
    let calls =
        ["fail", "warm", "refuse", "warm", "spin", "state", "hoard", "state", "odd", "warm"];
    let answers = assert_alike(&methods, &calls.map(null)).await;
    let kinds: Vec<_> = answers.iter().filter_map(|answer| answer.clone().err()).collect();
    use ErrorKind::{Conflict, Exhausted, Fault, Invalid};
    assert_eq!(kinds, [Fault, Conflict, Exhausted, Exhausted, Invalid]);
    assert_eq!(answers[9], Ok(json!(9.0)));
}

#[tokio::test(start_paused = true)]
async fn a_method_that_would_change_its_file_type_is_refused() {
    let methods = with(
        r#"
local function none() end
filetype.write("add", function() filetype.write("another", none) end)
filetype.write("recover", function() filetype.recovered(none) end)
filetype.write("lend", function() filetype.capability("shared") end)
"#,
    );
    let answers = assert_alike(&methods, &["add", "recover", "lend", "warm"].map(null)).await;
    let refused = Err(ErrorKind::Invalid);
    assert_eq!(answers, [refused.clone(), refused.clone(), refused, Ok(json!(7.0))]);
}

#[tokio::test(start_paused = true)]
async fn a_program_keeps_nothing_between_calls() {
    let methods = with(
        r#"
local counted = 0
local seen = {}
filetype.write("upvalue", function() counted = counted + 1; return counted end)
filetype.write("table", function() table.insert(seen, 1); return #seen end)
filetype.write("global", function() total = (total or 0) + 1; return total end)
filetype.write("about", function(_, _, call) call.mine = (call.mine or 0) + 1; return call.mine end)
"#,
    );
    let calls =
        ["upvalue", "upvalue", "table", "table", "global", "global", "about", "about", "warm"];
    let answers = assert_alike(&methods, &calls.map(null)).await;
    assert!(answers[..8].iter().all(|answer| *answer == Ok(json!(1.0))), "{answers:?}");
}

/// A program that keeps a number in a local variable is refused when it is loaded. Every other
/// attempt to keep something is noticed while the program runs.
#[tokio::test(start_paused = true)]
async fn a_program_that_stays_loaded_keeps_nothing_between_calls() {
    for method in [
        r#"local seen = {} filetype.write("m", function() seen[#seen + 1] = 1; return #seen end)"#,
        r#"filetype.write("m", function() total = (total or 0) + 1; return total end)"#,
        r#"filetype.write("m", function(_, _, call) call.mine = (call.mine or 0) + 1; return call.mine end)"#,
        r#"filetype.write("m", function() _G.total = (_G.total or 0) + 1; return _G.total end)"#,
        r#"filetype.write("m", function() local t = getmetatable("").__index; return t == string and 1 or 1 end)"#,
    ] {
        let calls = [null("m"), null("m"), null("warm"), null("m"), null("state")];
        assert_alike(&with(method), &calls).await;
    }
}

#[tokio::test(start_paused = true)]
async fn changes_by_a_reading_method_are_dropped() {
    let methods = with(
        r#"
filetype.read("scribble", function(state) state.n = 99; return state.n end)
filetype.read("deep", function(state) state.list[1] = 99; return state.list[1] end)
"#,
    );
    let calls = ["scribble", "state", "deep", "state", "warm"];
    let answers = assert_alike(&methods, &calls.map(null)).await;
    assert_eq!(answers[0], Ok(json!(99.0)));
}

#[tokio::test(start_paused = true)]
async fn states_of_every_form_survive_a_capability() {
    let methods = with(
        r#"
filetype.write("set", function(state, input) state.value = input; return input end)
filetype.write("share", function(state) state.a = state.list; state.b = state.list; state.list[1] = 7 end)
filetype.write("empty", function(state) table.clear(state) end)
"#,
    );
    let values = [
        json!("text with \"quotes\" and \u{1F41A}"),
        json!([1, [2, [3, "x"]], {"k": true}]),
        json!({"deep": {"deeper": {"deepest": [false]}}}),
        json!(-1.5e300),
        json!("x".repeat(9_000)),
        Value::Null,
    ];
    let mut calls: Vec<_> = values.into_iter().map(|value| ("set", value)).collect();
    calls.extend(["share", "state", "share", "empty", "state"].map(null));
    assert_alike(&methods, &calls).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_its_method_has_stored_happens_once() {
    let methods = with(
        r#"filetype.write("stored", function(state) state.n = state.n + 100; filetype.store(); return state.n end)"#,
    );
    let calls = ["stored", "warm", "stored", "state"];
    let answers = assert_alike(&methods, &calls.map(null)).await;
    assert_eq!(answers[..3], [Ok(json!(106.0)), Ok(json!(107.0)), Ok(json!(207.0))]);
}

#[tokio::test(start_paused = true)]
async fn an_authority_stops_asking_a_silent_holder() {
    let cluster = Cluster::new(1);
    cluster.install(
        "held",
        1,
        &format!("filetype.capability('exclusive')\nfiletype.recovered(function() end)\n{COMMON}"),
    );
    let held = cluster.create("/held", "held").await;
    for _ in 0..6 {
        call(&held, "warm", &Value::Null).await.unwrap();
    }
    cluster.nodes.cut_off_clients(true);
    sleep(Duration::from_secs(1)).await;
    cluster.nodes.cut_off_clients(false);
    // Changes that were not stored are lost: this type's recovery continues from the stored state.
    let other = cluster.open("/held").await;
    assert!(call(&other, "warm", &Value::Null).await.is_ok());
    assert!(call(&held, "warm", &Value::Null).await.is_ok());
}
