//! Fuzzes programs, requests, replies and test scripts. Each input must be accepted or refused in
//! bounded time, without a panic. The class of an accepted program must load.

mod support;

use std::sync::Arc;
use std::time::Duration;

use nacre_brados::{Script, check, compile, format};
use nacre_calls::{decode_reply, decode_request};
use nacre_class::check_program;
use nacre_clock::{Clock, SystemClock};
use nacre_fuzz::{fuzz, fuzz_slow};

use support::Subject;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// How many inputs a short run tries if each is compiled and loaded.
const PROGRAMS_SHORT_RUN: u64 = 6_000;
/// No program may take longer to compile, even with an unoptimised compiler on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Programs of the data files.
fn samples() -> Vec<Vec<u8>> {
    let files = [
        include_str!("behaviour/tables.txt"),
        include_str!("behaviour/rules.txt"),
        include_str!("behaviour/channels.txt"),
    ];
    let programs = files.into_iter().flat_map(support::cases);
    programs.map(|(_, program, _)| program.into_bytes()).collect()
}

#[test]
fn fuzz_programs() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    fuzz_slow(CRATE, "programs", PROGRAMS_SHORT_RUN, &samples(), |input| {
        let source = String::from_utf8_lossy(input);
        let started = clock.monotonic();
        let compiled = compile(&source);
        assert!(clock.monotonic() - started < MAX_TIME, "it takes too long");
        if let Ok(formatted) = format(&source) {
            assert_eq!(format(&formatted).as_ref(), Ok(&formatted), "formatting it again");
        }
        let Ok(compiled) = compiled else {
            for diagnostic in check(&source) {
                diagnostic.render("program", &source);
            }
            return false;
        };
        if let Err(error) = check_program(&compiled.class.lua, &clock) {
            panic!("{error}\n{}", compiled.class.lua);
        }
        true
    });
}

#[test]
fn fuzz_requests() {
    let program = "state do
  table :t, [:k:string, :n:int?] => [:v:bytes?, :b:bool?]
  interface input, :put, [:k:string, :n:int?, :v:bytes?, :b:bool?]
  interface output, :ret, [:k, :n, :v, :b]
end
bloom do
  t <+- put
  ret <= (put * t).rights(:k => :k)
end
";
    let subject = Subject::new(program);
    let sample = b"s\x01\0\0\0ai\x05\0\0\0\0\0\0\0ns\0\0\0\0t".to_vec();
    let valid = [&b"s\x01\0\0\0ai\x05\0\0\0\0\0\0\0"[..], b"s\0\0\0\0t"].concat();
    assert!(subject.call_raw("put", sample).is_err(), "a value too many is refused");
    fuzz_slow(CRATE, "requests", PROGRAMS_SHORT_RUN, &[valid], |input| {
        match subject.call_raw("put", input.to_vec()) {
            Ok(output) => decode_reply(&output).is_ok(),
            Err(error) => {
                assert_eq!(error.kind(), nacre_object::ErrorKind::Invalid, "{error}");
                false
            }
        }
    });
}

#[test]
fn fuzz_replies() {
    let sample = b"\x03ret\x02\x02\0\0\0i\x05\0\0\0\0\0\0\0ns\0\0\0\0t".to_vec();
    fuzz(CRATE, "replies", &[sample], |input| decode_reply(input).is_ok());
}

#[test]
fn fuzz_rows() {
    let sample = b"i\x05\0\0\0\0\0\0\0ns\x02\0\0\0abtf".to_vec();
    fuzz(CRATE, "rows", &[sample], |input| decode_request(input).is_ok());
}

#[test]
fn fuzz_scripts() {
    let sample =
        b"== a case\nput 'a', -1, nil, true -> ret('a', 2) out()\nget -> nothing\n".to_vec();
    fuzz(CRATE, "test_scripts", &[sample], |input| {
        Script::parse(&String::from_utf8_lossy(input)).is_ok()
    });
}
