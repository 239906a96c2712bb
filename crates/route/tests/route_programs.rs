//! Tests of route programs in the VM: the shipped programs, and what a program may and may not do.

use std::sync::Arc;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, ErrorKind};
use nacre_program::Digest;
use nacre_registry::{Hook, LiveProgram, ProgramId, ProgramKind};
use nacre_route::{
    Decision, Destination, Header, Io, LiveRoutes, RouteHook, RouteProgram, RuleChange,
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

fn shipped(name: &str) -> String {
    let path = format!("{}/../../programs/route/{name}.lua", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn compiled(source: &str) -> RouteProgram {
    RouteProgram::compile("route/p", 3, source, &clock()).unwrap_or_else(|error| panic!("{error}"))
}

fn decide(program: &RouteProgram, io: &str) -> nacre_object::Result<Decision> {
    let io = Io::parse(io).unwrap();
    program.decide(&Header::from_line("* w data/*").unwrap(), &io)
}

fn sent(program: &RouteProgram, io: &str) -> String {
    decide(program, io).unwrap_or_else(|error| panic!("{io}: {error}")).destination.to_string()
}

/// What is wrong with a program when it is put.
fn refusal(source: &str) -> String {
    let program = ProgramId::new(ProgramKind::Route, "p".parse().unwrap());
    RouteHook::new(clock()).check(&program, source).unwrap_err().to_string()
}

/// The kind of error with which a program does not compile.
fn kind_of_refusal(source: &str) -> ErrorKind {
    RouteProgram::compile("route/p", 1, source, &clock()).unwrap_err().kind()
}

fn failure(body: &str) -> Error {
    let source =
        format!("destinations = {{ \"home\", \"target t1\" }}\nfunction route(io)\n{body}\nend\n");
    decide(&compiled(&source), "w data/x 0..4").unwrap_err()
}

#[test]
fn shipped_programs_are_short_and_pass_the_check() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/route");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let program = ProgramId::new(ProgramKind::Route, "p".parse().unwrap());
        let hook = RouteHook::new(clock());
        hook.check(&program, &source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(hook.suspicions(&source), [], "{}", path.display());
        assert!(source.lines().count() <= 50 && source.starts_with("-- "), "{}", path.display());
        count += 1;
    }
    assert_eq!(count, 3);
}

#[test]
fn the_program_spread_sends_each_object_to_one_target_and_uses_all_targets() {
    let program = compiled(&shipped("spread"));
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    for number in 0..300 {
        let object = format!("data/{{batch}}{number}");
        let first = sent(&program, &format!("w {object} 0..4"));
        assert_eq!(sent(&program, &format!("w {object} 9..4096")), first);
        *counts.entry(first).or_default() += 1;
    }
    assert_eq!(counts.len(), 3);
    assert!(counts.values().all(|count| *count > 60), "{counts:?}");
}

#[test]
fn the_program_large_writes_does_not_send_small_writes_elsewhere() {
    let program = compiled(&shipped("large_writes"));
    assert_eq!(sent(&program, "w data/x 0..4KiB"), "home");
    assert_eq!(sent(&program, "w data/x 1MiB..2MiB"), "target storage.1");
}

#[test]
fn the_program_growing_objects_inserts_a_rule_for_the_object() {
    let program = compiled(&shipped("growing_objects"));
    assert_eq!(decide(&program, "w data/x 0..4KiB").unwrap().changes, []);
    let grown = decide(&program, r"w data/a\ b 1GiB..2GiB").unwrap();
    let header = Header::from_line(r"* w data/a\ b").unwrap();
    let destination = Destination::from_line("target storage.1").unwrap();
    assert_eq!(grown.changes, [RuleChange::Insert { header, destination }]);
}

#[test]
fn a_program_sees_the_header_of_an_io_and_cannot_change_it() {
    let source = r#"
        destinations = { "home" }
        function route(io)
          local seen = { io.source, io.tenant, io.operation, io.object, io.pool, io.name, io.rule,
            tostring(io.offset), tostring(io.length) }
          error(table.concat(seen, "|"))
        end"#;
    let error =
        decide(&compiled(source), r"entity:alice tenant:gold w data/a\ b 4..12").unwrap_err();
    let seen = r"alice|gold|write|data/a\ b|data|a b|* w data/a\ b|4|8";
    assert!(error.message().contains(seen), "{error}");
    let error = failure("io.offset = 0\nreturn \"home\"");
    assert!(error.message().contains("readonly"), "{error}");
}

#[test]
fn a_failure_names_program_version_and_line() {
    for (body, line, text) in [
        ("error(\"no\")", 3, "no"),
        ("return 7", 2, "returned a"),
        ("return \"target t9\"", 2, "not in the list `destinations`"),
        ("return \"nowhere\"", 2, "no destination"),
        ("while true do end", 3, ""),
        ("insert(io.rule, \"target t9\")", 3, "not in the list `destinations`"),
        ("insert(\"* w data/y\", \"home\")", 3, "other objects"),
        ("insert(\"* rw \" .. io.object, \"home\")", 3, "is about more than"),
        ("for i = 1, 99 do delete(io.rule) end return \"home\"", 3, "rules at most"),
    ] {
        let error = failure(body);
        let site = error.fault().unwrap_or_else(|| panic!("{body}: {error}"));
        assert_eq!((site.program.as_str(), site.version), ("route/p", 3), "{body}");
        assert_eq!(site.line, Some(line), "{body}: {error}");
        assert!(error.message().contains(text), "{body}: {error}");
    }
    assert_eq!(failure("while true do end").kind(), ErrorKind::Exhausted);
    let hungry = failure("local t = {} while true do t[#t + 1] = string.rep(\"x\", 1024) end");
    assert_eq!(hungry.kind(), ErrorKind::Exhausted);
    assert!(hungry.fault().is_some_and(|site| site.version == 3 && site.line.is_some()));
}

#[test]
fn a_program_keeps_nothing_between_calls() {
    let source = r#"
        destinations = { "home", "target t1" }
        local calls = 0
        count = 0
        function route(io)
          calls += 1
          count += 1
          destinations[3] = "target t9"
          return if calls == 1 and count == 1 then "home" else "target t1"
        end"#;
    let program = compiled(source);
    for _ in 0..3 {
        assert_eq!(sent(&program, "w data/x 0..4"), "home");
    }
}

#[test]
fn a_program_that_uses_features_no_node_has_is_refused_as_unsupported() {
    let with = |line: &str| {
        format!(
            "destinations = {{ \"home\" }}\nfunction route(io)\n  {line}\n  return \"home\"\nend"
        )
    };
    let text = refusal(&with("drain(io.rule)"));
    assert!(text.contains("line 3") && text.contains("unsupported: `drain`"), "{text}");
    assert_eq!(kind_of_refusal(&with("local q = quiesce")), ErrorKind::Unsupported);
    for to in ["pool spill", "object data/x", "bypass cache", "all t1,t2"] {
        let source =
            format!("destinations = {{ \"{to}\" }}\nfunction route(io) return \"{to}\" end");
        assert_eq!(kind_of_refusal(&source), ErrorKind::Unsupported, "{to}");
        assert!(refusal(&source).contains("unsupported: no node sends IO"), "{to}");
    }
    let named = "object nacre.routed/named/x";
    compiled(&format!(
        "destinations = {{ \"{named}\" }}\nfunction route(io) return \"{named}\" end"
    ));
}

#[test]
fn an_incomplete_or_malformed_program_is_refused_with_the_mistake() {
    let route = "function route(io) return \"home\" end\n";
    for (source, text) in [
        (route.to_owned(), "must set `destinations`"),
        (format!("destinations = {{}}\n{route}"), "is empty"),
        (format!("destinations = \"home\"\n{route}"), "it must be a list"),
        (format!("destinations = {{ 7 }}\n{route}"), "entry 1"),
        (format!("destinations = {{ \"home\", \"home\" }}\n{route}"), "twice"),
        (format!("destinations = {{ \"program q\" }}\n{route}"), "unsupported"),
        ("destinations = { \"home\" }".to_owned(), "must define a function `route`"),
        (format!("insert(\"* w a/b\", \"home\")\n{route}"), "while it decides about an IO"),
        (
            "destinations = { \"home\" }\nfunction route(io) return io.lenght > 1 end".to_owned(),
            "line 2",
        ),
    ] {
        let refused = refusal(&source);
        assert!(refused.contains(text), "{source}: {refused}");
    }
}

#[test]
fn a_node_runs_the_program_version_that_was_installed_last() {
    let (live, clock) = (LiveRoutes::new(), clock());
    let hook = RouteHook::new(clock).installing_into(live.clone());
    let install = |version, source: String| {
        let id = ProgramId::new(ProgramKind::Route, "p".parse().unwrap());
        let (digest, source) = (Digest::of(source.as_bytes()), source.into());
        hook.install(&LiveProgram { id, version, digest, source })
    };
    install(1, shipped("large_writes")).unwrap();
    let first = live.get("p").unwrap();
    install(2, shipped("spread")).unwrap();
    install(3, "function route(io) end".to_owned()).unwrap_err();
    assert_eq!(live.get("p").unwrap().version(), 2);
    assert_eq!(sent(&first, "w data/x 0..4"), "home", "who holds a version goes on with it");
}
