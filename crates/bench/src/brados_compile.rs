//! `brados-compile`: how long a program of 200 lines takes from its source to a class.

use std::time::Duration;

use nacre_brados::compile;
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;

const LINES: usize = 200;
const BOUND_MILLISECONDS: f64 = 50.0;
/// The measured program is `log.brados` with many copies of [`RULE`] after it. Every method on a
/// position must run each copy.
const PROGRAM: &str = include_str!("../../../programs/class/log.brados");
const RULE: &str = "  ret <= op{|o| [-22] if o.epoch <= 0 and o.pos > 17}\n";

pub(crate) fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let (clock, program) = (SystemClock::default(), program());
    let mut milliseconds = vec![];
    for _ in 0..setup.rounds {
        let before = clock.monotonic();
        compile(&program).map_err(|error| Error::invalid(error.to_string()))?;
        milliseconds.push(as_milliseconds(clock.monotonic() - before));
    }
    let of = ("brados-compile", format!("a program of {LINES} lines"), "ms");
    let bound = ("the bound", BOUND_MILLISECONDS);
    report(Figure::new(of, Better::Lower, median(milliseconds), bound).aiming_at(1.0));
    Ok(())
}

fn program() -> String {
    // Two lines open and close the block of the rules.
    let rules = LINES.saturating_sub(PROGRAM.lines().count() + 2);
    format!("{PROGRAM}bloom :more do\n{}end\n", RULE.repeat(rules))
}

fn as_milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
