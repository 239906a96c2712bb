//! Tests of waypoints in the VM: the shipped programs, and what a program may and may not do.

use std::sync::Arc;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, ErrorKind};
use nacre_registry::{Hook, ProgramId, ProgramKind};
use nacre_route::limits::WAYPOINT_RUN_BYTES;
use nacre_route::{Io, Price, WaypointHook, WaypointKind, WaypointProgram};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

fn shipped(name: &str) -> String {
    let path = format!("{}/../../programs/waypoint/{name}.lua", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn compiled(source: &str) -> WaypointProgram {
    WaypointProgram::compile("waypoint/p", 3, source, &clock())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// What is wrong with a program when it is put.
fn refusal(source: &str) -> String {
    let program = ProgramId::new(ProgramKind::Waypoint, "p".parse().unwrap());
    WaypointHook::new(clock()).check(&program, source).unwrap_err().to_string()
}

const IDENTITY: &str = "function encode() end\nfunction decode() end\n";

#[test]
fn the_shipped_programs_pass_their_dry_run_and_have_fifty_lines_at_most() {
    for name in ["scramble", "limit"] {
        let source = shipped(name);
        assert!(source.lines().count() <= 50, "{name}");
        let program = ProgramId::new(ProgramKind::Waypoint, name.parse().unwrap());
        let hook = WaypointHook::new(clock());
        hook.check(&program, &source).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(hook.suspicions(&source), []);
    }
}

#[test]
fn scramble_changes_bytes_by_their_offset_and_restores_them() {
    let program = compiled(&shipped("scramble"));
    assert_eq!(program.kind(), WaypointKind { encodes: true, holds: false });
    let clear: Vec<u8> = (0..WAYPOINT_RUN_BYTES).map(|at| (at % 7) as u8).collect();
    let stored = program.encode(3, &clear).unwrap();
    assert_eq!(program.decode(3, &stored).unwrap(), clear);
    assert_eq!(program.decode(13, &stored[10..20]).unwrap(), clear[10..20]);
    let same = clear.iter().zip(&stored).filter(|(a, b)| a == b).count();
    assert!(same < clear.len() / 64, "{same} bytes are stored as they are");
    assert_ne!(program.encode(0, &[0; 8]).unwrap(), program.encode(8, &[0; 8]).unwrap());
}

#[test]
fn limit_lets_small_reads_go_first_and_counts_bytes() {
    let program = compiled(&shipped("limit"));
    assert_eq!(program.kind(), WaypointKind { encodes: false, holds: true });
    assert_eq!(program.limit().unwrap().longest, 1000);
    let price = |io: &str, bytes| program.price(&Io::parse(io).unwrap(), bytes).unwrap();
    assert_eq!(price("r data/a 0..4KiB", 4096), Price { cost: 1.0, priority: 0.0 });
    assert_eq!(price("w data/a 0..4KiB", 4096), Price { cost: 1.0, priority: 1.0 });
    assert_eq!(price("r data/a", 1 << 20), Price { cost: 17.0, priority: 2.0 });
}

#[test]
fn a_program_is_refused_if_decoding_does_not_undo_encoding() {
    let wrong =
        "function encode(offset, bytes)\n  buffer.fill(bytes, 0, 7)\nend\nfunction decode() end\n";
    let said = refusal(wrong);
    assert!(said.contains("`decode` does not undo `encode` at offset"), "{said}");
    assert!(said.contains("line 1"), "{said}");
}

#[test]
fn a_program_is_refused_if_bytes_depend_on_how_a_range_is_divided() {
    let by_length = "local function turn(offset, bytes)\n  for at = 0, buffer.len(bytes) - 1 do\n    \
                     buffer.writeu8(bytes, at, bit32.bxor(buffer.readu8(bytes, at), buffer.len(bytes) % 256))\n  \
                     end\nend\nencode = turn\ndecode = turn\n";
    let said = refusal(by_length);
    assert!(said.contains("each byte may depend only on its offset and value"), "{said}");
    let by_neighbours = "function encode(offset, bytes)\n  for at = buffer.len(bytes) - 1, 1, -1 do\n    \
                         buffer.writeu8(bytes, at, bit32.bxor(buffer.readu8(bytes, at), buffer.readu8(bytes, at - 1)))\n  \
                         end\nend\nfunction decode(offset, bytes)\n  for at = 1, buffer.len(bytes) - 1 do\n    \
                         buffer.writeu8(bytes, at, bit32.bxor(buffer.readu8(bytes, at), buffer.readu8(bytes, at - 1)))\n  \
                         end\nend\n";
    let said = refusal(by_neighbours);
    assert!(said.contains("each byte may depend only on its offset and value"), "{said}");
}

#[test]
fn a_program_must_define_what_belongs_together() {
    for (source, expected) in [
        ("", "defines nothing that a waypoint does"),
        ("function encode() end", "defines `encode` but not `decode`"),
        ("function decode() end", "defines `decode` but not `encode`"),
        ("function price() return 1 end", "defines `price` but not `limit`"),
        ("limit = { rate = 1, burst = 1, queue = 1 }", "defines `limit` but not `price`"),
        ("limit = 7\nfunction price() return 1 end", "`limit` is a number"),
        ("limit = { rate = 1, burst = 1 }\nfunction price() return 1 end", "`limit.queue` is not"),
        (
            "limit = { rate = 0, burst = 1, queue = 1 }\nfunction price() return 1 end",
            "the rate 0 is not a number above 0",
        ),
        (
            "limit = { rate = 1, burst = 1, queue = 0.5 }\nfunction price() return 1 end",
            "the longest queue",
        ),
        (
            "limit = { rate = 1, burst = 1, queue = 1 }\nfunction price() return -1 end",
            "`price` returned -1 as the cost",
        ),
        (
            "limit = { rate = 1, burst = 1, queue = 1 }\nfunction price() return 1, \"x\" end",
            "a priority that is no number",
        ),
    ] {
        let said = refusal(source);
        assert!(said.contains(expected), "{source}: {said}");
    }
}

#[test]
fn a_fault_names_the_program_its_version_and_the_line() {
    let check = |error: Error, line: u32| {
        let site = error.fault().cloned().unwrap_or_else(|| panic!("{error}"));
        assert_eq!((site.program.as_str(), site.version), ("waypoint/p", 3), "{error}");
        assert_eq!(site.line, Some(line), "{error}");
    };
    let failing = compiled("function encode(offset)\n  error(\"no\")\nend\nfunction decode() end");
    check(failing.encode(0, b"a").unwrap_err(), 2);
    let lossy =
        compiled("\nfunction encode(_, bytes) buffer.fill(bytes, 0, 0) end\nfunction decode() end");
    let error = lossy.encode(0, b"a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fault);
    check(error, 2);
    let endless =
        compiled("\n\nfunction encode()\n  while true do end\nend\nfunction decode() end");
    let error = endless.encode(0, b"a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.fault().is_some_and(|site| site.line.is_some()), "{error}");
    let limit = "limit = { rate = 1, burst = 1, queue = 1 }\nfunction price(io)\n  return io.nothing.at\nend";
    check(compiled(limit).price(&Io::parse("r data/a").unwrap(), 0).unwrap_err(), 3);
}

#[test]
fn marks_of_two_versions_are_of_the_same_code_if_their_sources_are_equal() {
    let name = "p".parse().unwrap();
    let mark = |source: &str, version| {
        WaypointProgram::compile("waypoint/p", version, source, &clock()).unwrap().mark(&name)
    };
    assert!(mark(IDENTITY, 1).is_same_code(&mark(IDENTITY, 2)));
    assert!(!mark(IDENTITY, 1).is_same_code(&mark(&format!("{IDENTITY}--"), 1)));
}
