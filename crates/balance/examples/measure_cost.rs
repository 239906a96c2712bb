//! Measures the CPU time of a balancer's two main tasks: measuring the load of 100,000 units, and
//! one decision of each policy.
//!
//! Run it with `cargo run --release -p nacre-balance --example measure_cost`.

use std::sync::Arc;

use nacre_balance::{Inputs, Policy, RankLoad, Unit, UnitRates};
use nacre_clock::{Clock, SystemClock};

const UNITS: usize = 100_000;
const ROUNDS: u32 = 20;

fn spent_by(clock: &Arc<dyn Clock>) -> std::time::Duration {
    clock.thread_time().unwrap_or_else(|| clock.monotonic())
}

fn main() -> nacre_object::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let rates = |at: usize| UnitRates { ird: at as f64, iwr: 1.0, ..UnitRates::default() };
    let rates: Vec<_> = (0..UNITS).map(rates).collect();
    for (what, source) in [
        ("the original string", "-- nothing"),
        ("the string IWR", "metaload = 'IWR'"),
        ("a function", "function metaload() return IRD + 2*IWR + READDIR + 2*FETCH + 4*STORE end"),
    ] {
        let policy = Policy::compile("measured", 1, source)?;
        policy.measure(&rates, &clock)?;
        let started = spent_by(&clock);
        for _ in 0..ROUNDS {
            policy.measure(&rates, &clock)?;
        }
        let spent = (spent_by(&clock) - started) / ROUNDS;
        println!("measure {UNITS} units with {what}: {spent:?}");
    }
    let unit = |at: usize| Unit { name: format!("unit{at}"), rates: rates[at], ..Unit::default() };
    let inputs = Inputs {
        ranks: (0..8)
            .map(|rank| RankLoad { auth: 1e9 / f64::from(rank + 1), ..RankLoad::default() })
            .collect(),
        units: (0..UNITS).map(unit).collect(),
        unit_loads: rates.iter().map(|rates| rates.ird).collect(),
        ..Inputs::default()
    };
    for (what, source) in [
        ("the original", "-- nothing"),
        (
            "all selectors",
            "howmuch = { 'big', 'small', 'big_small', 'half', 'big_half', 'small_half' }",
        ),
        ("a programmed selector", "howmuch = { function(units) return { #units } end }"),
        ("a placement", "function placement(unit) return unit.load > 0 end"),
    ] {
        let policy = Policy::compile("measured", 1, source)?;
        let started = spent_by(&clock);
        let moves = policy.decide(&inputs, &clock).map(|decision| decision.moves.len());
        println!(
            "decide on {UNITS} units with {what}: {:?}, {moves:?} moves",
            spent_by(&clock) - started
        );
    }
    Ok(())
}
