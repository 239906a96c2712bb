//! Checks that a class keeps no state between calls, although its chunk runs only once for many
//! calls. For this, no function of the class may assign to a global or to a variable outside the
//! function. The test reads the assignments from the bytecode of Lua's compiler.

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use nacre_brados::{Compiled, compile, with_layout};
use nacre_clock::Random;
use support::generator::Generated;
use support::layouts;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class");
const RANDOM_PROGRAMS: u64 = 60;
/// How many layouts of each program are checked, each with the later ones as former layouts.
const MAX_LAYOUTS: usize = 4;

/// The instructions of a class, function by function, as `luac -l` lists them.
fn listing(lua: &str) -> String {
    let mut luac = Command::new("luac5.3")
        .args(["-l", "-p", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("luac5.3 is there: apt-get install lua5.3");
    let mut stdin = luac.stdin.take().unwrap();
    let text = lua.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = luac.wait_with_output().unwrap();
    writer.join().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The assignments in a class's functions to variables that exist longer than a call of the
/// function.
fn lasting_assignments(lua: &str) -> Vec<String> {
    let listing = listing(lua);
    let (mut is_main, mut found) = (true, vec![]);
    for line in listing.lines() {
        match line.split_whitespace().next() {
            Some("main") => is_main = true,
            Some("function") => is_main = false,
            _ if is_main => {}
            _ if line.contains("\tSETUPVAL") || line.contains("\tSETTABUP") => {
                found.push(line.trim().to_owned());
            }
            _ => {}
        }
    }
    assert!(listing.matches("function <").count() > 3, "it was compiled");
    found
}

fn check(name: &str, compiled: &Compiled) {
    let found = lasting_assignments(&compiled.class.lua);
    assert!(found.is_empty(), "{name} keeps something: {found:?}\n{}", compiled.class.lua);
}

#[test]
fn no_function_assigns_to_state_that_outlives_a_call() {
    let mut programs = 0;
    for entry in fs::read_dir(Path::new(PROGRAMS)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "brados") {
            let source = fs::read_to_string(&path).unwrap();
            let layouts = layouts(&source, MAX_LAYOUTS);
            for (at, present) in layouts.iter().enumerate() {
                let source = with_layout(&source, present, &layouts[at + 1..]);
                check(&path.display().to_string(), &compile(&source).unwrap());
            }
            programs += 1;
        }
    }
    assert!(programs > 15, "only {programs} programs were looked at");
    // Some random programs are mistaken.
    let random = (0..RANDOM_PROGRAMS)
        .filter_map(|seed| compile(&Generated::new(&mut Random::seeded(seed)).source).ok());
    let looked_at = random.inspect(|compiled| check("a random program", compiled)).count();
    assert!(looked_at > 20, "only {looked_at} random programs were looked at");
}

#[test]
fn the_check_finds_assignments_to_state_that_outlives_a_call() {
    let keeps = "local count, seen = 0, {}\n\
                 local function a() count = count + 1 end\n\
                 local function b() seen.x = 1 end\n\
                 local function c() forgotten = 1 end\n\
                 local function d() local own = {} own.x = 1 end\n";
    assert_eq!(lasting_assignments(keeps).len(), 3);
}
