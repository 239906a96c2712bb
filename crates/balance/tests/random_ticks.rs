//! Random ticks and random results of policies: each decision is either valid or an error.

mod common;

use std::collections::HashSet;

use common::clock;
use nacre_balance::{Decision, Inputs, Policy, RankLoad, State, Unit, UnitRates};
use nacre_clock::Random;
use nacre_object::ErrorKind;

/// Parts from which random policies are made. Some are valid and some are not.
const METALOADS: &[&str] = &[
    "",
    "metaload = 'IWR'",
    "metaload = 'IRD - 3'",
    "metaload = '1 / IRD'",
    "function metaload() return IRD end",
    "function metaload() return nil end",
];
const MDSLOADS: &[&str] = &[
    "",
    "mdsload = 'MDSs[i].all'",
    "mdsload = 'MDSs[i].cpu / MDSs[i].capacity'",
    "mdsload = '-MDSs[i].auth'",
    "function mdsload(i) return MDSs[i + 1].auth end",
];
const WHENS: &[&str] = &[
    "",
    "when = 'true'",
    "when = 'math.random() < 0.5'",
    "when = [[if MDSs[whoami].load > 0 then]]",
    "function when() WRstate((RDstate() or 0) + 1) return true end",
    "function when() WRstate(units) return true end",
    "when = 'MDSs[whoami + 1].load == 0'",
];
const WHERES: &[&str] = &[
    "",
    "where = 'targets[math.random(#MDSs)] = total / 2'",
    "where = 'for i = 1, #MDSs do targets[i] = math.random() * total end targets[whoami] = nil'",
    "where = 'for i = 1, #MDSs do if i ~= whoami then targets[i] = authmetaload end end'",
    "where = 'targets[math.random(0, #MDSs + 1)] = math.random() * 100 - 10'",
    "where = 'targets[whoami % #MDSs + 1] = 1 / 0'",
    "where = 'targets = { [2] = 5, x = 1 }'",
];
const HOWMUCHS: &[&str] = &[
    "",
    "howmuch = { 'half', 'big_small', 'small' }",
    "howmuch = { 'big_half', 'small_half', 'big' }",
    "howmuch = { function(list) local all = {} for at in ipairs(list) do all[at] = at end return all end }",
    "howmuch = { function(list) return { math.random(0, #list + 1), math.random(1, 3) } end, 'half' }",
];
const PLACEMENTS: &[&str] = &[
    "",
    "function placement(unit, rank) return rank % 2 == 0 end",
    "function placement(unit) return #unit.name % 2 == 0 or nil end",
    "function placement() return math.random() < 0.9 and true or 7 end",
];

fn random_policy(random: &mut Random) -> Policy {
    let mut source = String::from("-- a random policy\n");
    for parts in [METALOADS, MDSLOADS, WHENS, WHERES, HOWMUCHS, PLACEMENTS] {
        source.push_str(random.pick(parts).unwrap());
        source.push('\n');
    }
    Policy::compile("balancer/random", 1, &source)
        .unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn random_load(random: &mut Random) -> f64 {
    match random.below(8) {
        0..=2 => 0.0,
        3 => 1e15 * random.below(1000) as f64,
        4 => random.below(1000) as f64 / 1e6,
        _ => random.below(100_000) as f64 / 100.0,
    }
}

fn random_inputs(random: &mut Random) -> Inputs {
    let ranks = 1 + random.below(6) as usize;
    let mut rank = |_| RankLoad {
        node: format!("n{}", random.below(3)),
        auth: random_load(random),
        all: random_load(random),
        cpu: random_load(random),
        mem: random_load(random),
        queue: random_load(random),
        requests: random_load(random),
        labels: Default::default(),
        capacity: random.below(3) as f64,
    };
    let ranks: Vec<_> = (0..ranks).map(&mut rank).collect();
    let mut unit = |at| Unit {
        name: format!("{at}{}", "x".repeat(random.below(3) as usize)),
        kind: String::new(),
        tenant: String::new(),
        rates: UnitRates {
            ird: random_load(random),
            iwr: random_load(random),
            ..UnitRates::default()
        },
    };
    let units: Vec<_> = (0..20).map(&mut unit).collect();
    let units: Vec<_> = units.into_iter().take(random.below(20) as usize).collect();
    Inputs {
        tick: random.next_u64(),
        whoami: random.below(ranks.len() as u64) as usize,
        ranks,
        unit_loads: vec![],
        units,
        state: State::default(),
    }
}

fn assert_sane(inputs: &Inputs, decision: &Decision, seed: u64) {
    let ranks = inputs.ranks.len();
    assert_eq!((decision.loads.len(), decision.targets.len()), (ranks, ranks), "seed {seed}");
    assert!(decision.loads.iter().all(|load| load.is_finite()), "seed {seed}");
    assert!(decision.targets.iter().all(|it| it.is_finite() && *it >= 0.0), "seed {seed}");
    assert_eq!(decision.targets[inputs.whoami], 0.0, "seed {seed}");
    assert!(decision.is_due || decision.moves.is_empty(), "seed {seed}");
    let mut moved = HashSet::new();
    for movement in &decision.moves {
        assert!(movement.to < ranks && movement.to != inputs.whoami, "seed {seed}");
        assert!(decision.targets[movement.to] > 0.0, "seed {seed}");
        assert!(moved.insert(&movement.unit), "seed {seed}: {} moves twice", movement.unit);
        let at = inputs.units.iter().position(|unit| unit.name == movement.unit);
        assert_eq!(Some(movement.load), at.map(|at| inputs.unit_loads[at]), "seed {seed}");
    }
    let all: f64 = inputs.unit_loads.iter().sum();
    assert!(decision.moved_load() <= all * (1.0 + 1e-9), "seed {seed}");
    for (rank, target) in decision.targets.iter().enumerate() {
        let sent = decision.moves.iter().filter(|movement| movement.to == rank);
        let sent: f64 = sent.map(|movement| movement.load).sum();
        // The sent load is nearer to the target than no load would be.
        assert!(sent <= 2.0 * target * (1.0 + 1e-9), "seed {seed}: {sent} for {target}");
    }
    assert!(serde_json::to_string(decision).is_ok(), "seed {seed}");
}

#[test]
fn every_decision_of_a_random_policy_is_valid_or_an_error() {
    let clock = clock();
    let (mut decided, mut failed) = (0, 0);
    for seed in 0..3000 {
        let mut random = Random::seeded(seed);
        let policy = random_policy(&mut random);
        let mut inputs = random_inputs(&mut random);
        let rates: Vec<_> = inputs.units.iter().map(|unit| unit.rates).collect();
        inputs.unit_loads = match policy.measure(&rates, &clock) {
            Ok(loads) => loads,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Fault, "seed {seed}: {error}");
                assert!(
                    error.fault().is_some_and(|site| site.line.is_some()),
                    "seed {seed}: {error}"
                );
                rates.iter().map(|rates| rates.ird).collect()
            }
        };
        match policy.decide(&inputs, &clock) {
            Ok(decision) => {
                assert_sane(&inputs, &decision, seed);
                assert_eq!(policy.decide(&inputs, &clock).unwrap(), decision, "seed {seed}");
                decided += 1;
            }
            Err(error) => {
                let kinds = [ErrorKind::Fault, ErrorKind::Exhausted, ErrorKind::Invalid];
                assert!(kinds.contains(&error.kind()), "seed {seed}: {error}");
                assert!(error.fault().is_some(), "seed {seed}: {error}");
                failed += 1;
            }
        }
    }
    assert!(decided > 1000 && failed > 200, "{decided} decided, {failed} failed");
}

#[test]
fn stored_inputs_come_back_exactly() {
    for seed in 0..300 {
        let mut random = Random::seeded(seed);
        let mut inputs = random_inputs(&mut random);
        let odd = |random: &mut Random| random.below(1 << 53) as f64 / 3e9;
        inputs.unit_loads = inputs.units.iter().map(|_| odd(&mut random)).collect();
        for rank in &mut inputs.ranks {
            (rank.auth, rank.all) = (odd(&mut random), odd(&mut random));
        }
        let stored = serde_json::to_string(&inputs).unwrap();
        assert_eq!(serde_json::from_str::<Inputs>(&stored).unwrap(), inputs, "seed {seed}");
    }
}

#[test]
fn a_source_of_random_pieces_never_panics() {
    const PIECES: &[&str] = &[
        "when",
        "where",
        "metaload",
        "mdsload",
        "howmuch",
        "mode",
        " = ",
        "'",
        "[[",
        "]]",
        "if ",
        " then ",
        " end ",
        "function ",
        "()",
        "targets[",
        "]",
        "MDSs",
        "[whoami]",
        ".load",
        "\n",
        "1",
        "nil",
        "return ",
        "{",
        "}",
        "'half'",
        "--",
        "--!mantle\n",
        "#!",
        "\u{feff}",
        "ü",
        "WRstate(",
        ")",
        "..",
        "local ",
        "x",
        ",",
        "do ",
        "while true ",
    ];
    let clock = clock();
    for seed in 0..3000 {
        let mut random = Random::seeded(seed);
        let pieces = random.below(30);
        let source: String = (0..pieces).map(|_| *random.pick(PIECES).unwrap()).collect();
        if let Ok(policy) = Policy::compile("balancer/random", 1, &source) {
            let _ = policy.rehearse(&clock);
        }
    }
}
