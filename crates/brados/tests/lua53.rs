//! Runs generated classes on Lua 5.3, which stock Ceph uses. As in Ceph, a read does not see the
//! writes of the same call. The cases are those of `behaviour.rs`.

mod support;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use nacre_brados::{Expected, Script, Step, compile};
use nacre_calls::{decode_reply, encode_request};

use support::{bytes, hexadecimal, in_layouts};

const OSD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/cls_lua.lua");
const FILES: [&str; 3] = [
    include_str!("behaviour/tables.txt"),
    include_str!("behaviour/rules.txt"),
    include_str!("behaviour/channels.txt"),
];

/// What each request came to: status and output.
fn run(lua: &str, steps: &[&Step]) -> Vec<(i32, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let class = folder.path().join("class.lua");
    fs::write(&class, lua).unwrap();
    let mut osd = Command::new("lua5.3")
        .arg(OSD)
        .arg(&class)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("lua5.3 is there: apt-get install lua5.3");
    let requests: String = steps
        .iter()
        .map(|step| format!("{} {}\n", step.method, hexadecimal(&encode_request(&step.row))))
        .collect();
    osd.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
    let output = osd.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (status, digits) = line.split_once('\t').unwrap_or_else(|| panic!("{line}"));
        (status.parse().unwrap(), bytes(digits))
    };
    lines.lines().map(line).collect()
}

fn agrees(expected: &Expected, (status, output): &(i32, Vec<u8>)) -> bool {
    match expected {
        Expected::Reply(outputs) => *status == 0 && decode_reply(output).as_ref() == Ok(outputs),
        Expected::Failure(kind) => match kind.as_str() {
            "invalid" => *status == -22,
            "conflict" => *status == -125,
            "fault" => *status == -5,
            other => panic!("{other} is no failure of a class"),
        },
    }
}

/// Layouts of each program that are tried.
const MAX_LAYOUTS: usize = 8;

#[test]
fn generated_classes_run_on_lua_5_3_in_every_layout() {
    let mut count = 0;
    for (name, program, script) in FILES.into_iter().flat_map(support::cases) {
        let script = Script::parse(&format!("== {name}\n{script}")).unwrap();
        let steps: Vec<_> = script.cases.iter().flat_map(|case| &case.steps).collect();
        for source in in_layouts(&program, MAX_LAYOUTS) {
            let compiled = compile(&source)
                .unwrap_or_else(|errors| panic!("{}", errors.render(&name, &source)));
            let outcomes = run(&compiled.class.lua, &steps);
            assert_eq!(outcomes.len(), steps.len(), "{name}");
            for (step, outcome) in steps.iter().zip(outcomes) {
                let place = || format!("{name}\n{source}\n  {}", step.text);
                assert!(agrees(&step.expected, &outcome), "{}\n  but {outcome:?}", place());
                count += 1;
            }
        }
    }
    assert!(count > 500, "only {count} requests were made");
}
