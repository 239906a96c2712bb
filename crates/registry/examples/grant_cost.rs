//! Measures how many nanoseconds a node takes to check a message against the grants of its sender.
//! There are two cases: only the last grant covers the message, or no grant does. `cargo run
//! --release -p nacre-registry --example grant_cost`

use std::hint::black_box;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{Demand, Error, Op, Request, Result};
use nacre_registry::{CallRules, Grant, Grants};

const MESSAGES: u32 = 2_000_000;

/// Makes `count` grants, all of them on the object's pool. Only the last one covers the object.
fn grants(count: usize) -> Result<Grants> {
    let others = (1..count).map(|n| format!("rw pool=data prefix=user-{n:03}/"));
    others.chain(["rw pool=data prefix=alice/".to_owned()]).map(|text| text.parse()).collect()
}

fn nanos_a_message(grants: &Grants, request: &Request) -> f64 {
    let clock = SystemClock::default();
    let begin = clock.monotonic();
    for _ in 0..MESSAGES {
        black_box(
            black_box(grants).allows(Demand::Request(black_box(request)), CallRules::default()),
        );
    }
    (clock.monotonic() - begin).as_nanos() as f64 / f64::from(MESSAGES)
}

fn main() -> Result<(), Error> {
    let append = |object: &str| {
        Request::new(object.parse()?, vec![Op::Append { data: vec![7; 128].into() }])
    };
    let (allowed, denied) = (append("data/alice/notes")?, append("data/bob/notes")?);
    let admin: Grants = [Grant::Admin].into_iter().collect();
    println!("admin: {:.0} ns", nanos_a_message(&admin, &allowed));
    for count in [1, 10, 100] {
        let grants = grants(count)?;
        let (last, none) = (nanos_a_message(&grants, &allowed), nanos_a_message(&grants, &denied));
        println!("{count} grants: {last:.0} ns if the last covers it, {none:.0} ns if none does");
    }
    Ok(())
}
