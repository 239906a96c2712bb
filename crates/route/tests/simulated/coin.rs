//! A route program that chooses destinations at random.

use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_object::Error;
use nacre_route::{
    Declared, Destination, Header, ObjectMatch, ProgramAsk, ProgramDecision, Programs, RefusedIo,
    RuleChange, Span,
};

use super::store::destination;
use super::{BLOCK_BYTES, BLOCKS, Endpoint};

/// How often the program fails.
const FAILS_ONE_IN: u64 = 20;

/// What it says to some questions.
pub fn answer(
    asks: &[ProgramAsk],
    random: &mut Random,
    told: &mut Chronicle,
) -> Result<Vec<ProgramDecision>, RefusedIo> {
    told.note("program asked");
    if random.one_in(FAILS_ONE_IN) {
        told.note("program failed");
        return Err(RefusedIo(Error::invalid("the coin is lost")));
    }
    Ok(asks.iter().map(|ask| decide(ask, random)).collect())
}

/// What the program declares.
pub fn coin(version: u64) -> Programs {
    let destinations = vec![destination(Endpoint::Home), destination(Endpoint::Away)];
    [("coin".parse().unwrap(), Declared { version, destinations })].into()
}

fn toss(random: &mut Random) -> Destination {
    destination(if random.one_in(2) { Endpoint::Home } else { Endpoint::Away })
}

/// What it says. Now and then it inserts or deletes a rule about some blocks.
fn decide(ask: &ProgramAsk, random: &mut Random) -> ProgramDecision {
    let from = random.below(BLOCKS);
    let to = from + 1 + random.below(BLOCKS - from);
    let span = Span::new(from * BLOCK_BYTES, to * BLOCK_BYTES).unwrap();
    let object = ObjectMatch::Exact(ask.io.object.clone());
    let header = Header { span, object, ..ask.header.clone() };
    let changes = match random.below(6) {
        0 => vec![RuleChange::Insert { header, destination: toss(random) }],
        1 | 2 => vec![RuleChange::Delete(header)],
        _ => vec![],
    };
    ProgramDecision { rule: ask.rule, span: ask.io.span, destination: toss(random), changes }
}
