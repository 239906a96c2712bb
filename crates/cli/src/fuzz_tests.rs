//! Tests random command lines: each is parsed, or refused as a usage error with status 2.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;

use clap::{CommandFactory, Parser};
use nacre_fuzz::fuzz_slow;

use super::Arguments;
use crate::commands::init::host_and_port;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// Command lines of a short run: clap builds all its commands for each.
const SHORT_RUN: u64 = 1_000;

/// Sample command lines. Together they have every kind of value that the command takes. `|`
/// separates words.
const SAMPLES: [&str; 44] = [
    "init|--targets|3|--metadata|2|--listen|127.0.0.1:7000|--tls-only",
    "up|--metrics-port|9100",
    "demo|--help",
    "brados|tune|kv.brados|--workload|w|--seconds|0.5",
    "--cluster|d|--json|status",
    "events",
    "--identity|f|entity|add|alice|--grant|rw pool=data prefix=a b|--tenant|t|--out|a.json",
    "entity|grant|alice|x pool=d class=c method=m|r events",
    "entity|tenant|alice|gold",
    "object|put|data/o|-",
    "object|get|data/o|--offset|7|--length|18446744073709551615|--at|s",
    "object|write|data/o|--offset|7|-",
    "object|truncate|data/o|9",
    "object|zero|data/{t}o|9|9",
    "class|call|data/o|counter|add|--input|7",
    "program|put|class/counter|counter.lua|--activate",
    "program|wait|class/counter|3|--timeout|30",
    "map|set|m|k=v|l=|--epoch|7",
    "map|get|m|k",
    "map|history|m|--limit|3",
    "log|create|l|--width|3|--slots|100",
    "log|append|l",
    "log|move|l|meta.1",
    "balancer|set|sequencers|--tick|1",
    "resource|create|/a/b|--type|ids",
    "resource|call|/a/b|next|--input|1",
    "log|read|l",
    "balancer|simulate|p.lua|--ranks|5|--units|9|--seconds|60|--tick|2.5|--seed|7",
    "balancer|cephfs|push|p.lua|--name|p|--fs|f|--ceph|/c?user=u|--watch|7",
    "slo|admit|gold|--latency|20ms|--rate|100|--size|4k|--op|read|--burst|8|--few-objects|--violation|0.001",
    "slo|whatif|gold|--latency|0.5s|--trace-file|t|--format|msr|--pool|p|--percentile|99.9",
    "slo|replay|t|u|--pool|p|--speed|2|--hdr-log|h|--no-prepare",
    "slo|watch|gold|--seconds|30",
    "slo|order|earliest_deadline",
    "slo|advise|--apply|--json",
    "slo|curve|t|--profile|p|--targets|3|--estimator|uniform|--format|msr|--block-bytes|4096",
    "slo|place|f|--profile|p|--plain|--violation|0.01",
    "slo|bound|f|--violation|0.01",
    "route|put|f|--force|--timeout|9",
    "route|rm|a|--no-wait",
    "route|trace|entity:alice|r|data/o|0..4KiB",
    "route|start|tail|--program|t|--set|alpha=3|--every|0.5|--timeout|9",
    "route|stop|tail|--no-wait",
    "--version",
];

#[test]
fn clap_accepts_the_definition_of_the_command() {
    Arguments::command().debug_assert();
}

#[test]
fn fuzz_command_lines() {
    let samples = SAMPLES.map(|line| line.replace('|', "\n").into_bytes());
    fuzz_slow(CRATE, "command_lines", SHORT_RUN, &samples, |input| {
        let words = input.split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.into()));
        match Arguments::try_parse_from([OsString::from("nacre")].into_iter().chain(words)) {
            Ok(arguments) => !format!("{arguments:?}").is_empty(),
            Err(error) => {
                // Status 0 is that of help and version, which were asked for rightly.
                let asked_rightly = !error.use_stderr();
                assert_eq!(error.exit_code(), if asked_rightly { 0 } else { 2 });
                write!(std::io::sink(), "{}", error.render()).unwrap();
                asked_rightly
            }
        }
    });
}

#[test]
fn fuzz_addresses() {
    let samples = ["h:7000", "[::1]:1", "127.0.0.1:0"].map(|text| text.as_bytes().to_vec());
    nacre_fuzz::fuzz(CRATE, "addresses", &samples, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let Ok((host, _)) = host_and_port(text) else { return false };
        assert!(!host.is_empty() && text.starts_with(host));
        true
    });
}
