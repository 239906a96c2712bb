//! `route-switch`: how many reads and writes pass the switch, the layer of a node that applies
//! routing rules, and how much time it adds to a request.
//!
//! The store below the switch answers at once, and everything runs in one thread, so the rate is
//! that of a switch on one core. A third of the requests match no rule. The rules have exact names,
//! prefixes, patterns and byte ranges. They send every request to this node, because a message to
//! another node would take much longer than the switch.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre::{ClusterFile, Layout};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_node::{NodeSwitch, Onward, RoutePrograms, RoutedLocations, SwitchLayer};
use nacre_object::{
    Capabilities, Error, ListPage, ListRequest, ObjectId, Op, OpResult, ProgramName, Reply,
    Request, Result, Stack, Store,
};
use nacre_program::Digest;
use nacre_registry::{Hook, KindFaults, LiveProgram, ProgramId, ProgramKind};
use nacre_route::limits::MAX_RULES;
use nacre_route::{ApplicationName, LiveRoutes, Record, RouteHook, Rule};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, in_turn, median};

const WORKERS: usize = 64;
const READ_BYTES: u64 = 4096;
const FEW: usize = 10;
/// How many rules have a pattern: an object name with a star before its end. A switch has at most
/// 1,024 such rules.
const PATTERNS: usize = 1000;
const PROGRAM: &str = "p";
const SOURCE: &str = "destinations = { \"home\" }\nfunction route(io)\n  return \"home\"\nend\n";
/// The aims for the rate, in IO a second on one core: with table rules, and with rules that name a
/// program.
const AIMS: [f64; 2] = [1e6, 200e3];
/// The aims for the time that the switch adds to a request, in microseconds: with table rules, and
/// with rules that name a program.
const ADDED_MICROS: [f64; 2] = [2.0, 10.0];
/// The aim for the rate with the most rules, as a part of the rate with few rules.
const FULL_SHARE: f64 = 1.0 / 1.5;

/// The rules of a switch.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rules {
    /// This many rules without a program.
    Table(usize),
    /// Rules that name a program.
    Program,
}

/// A store that the bench measures, and the rules of its switch if it has one.
struct Side {
    name: String,
    store: Arc<dyn Store>,
    rules: Option<Rules>,
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let table = [Rules::Table(FEW), Rules::Table(MAX_RULES), Rules::Program];
    let mut sides = vec![Side { name: "no switch".into(), store: bare().as_store(), rules: None }];
    for rules in table {
        sides.push(side(setup, rules).await?);
    }
    let (mut rates, mut micros) = (vec![vec![]; sides.len()], vec![vec![]; sides.len()]);
    for round in 0..setup.rounds {
        for at in in_turn(round, [0, 1, 2, 3]) {
            let side = &sides[at];
            rates[at].push(alone(&side.store, side.rules, WORKERS, setup.span).await?.rate);
            let one = alone(&side.store, side.rules, 1, setup.span).await?;
            micros[at].push(1e6 / one.rate);
        }
    }
    let rates: Vec<_> = rates.into_iter().map(median).collect();
    let micros: Vec<_> = micros.into_iter().map(median).collect();
    let rate = |at: usize, baseline: (String, f64)| {
        let of = ("route-switch", format!("IO a second and core, {}", sides[at].name), "IO/s");
        Figure::new(of, Better::Higher, rates[at], baseline)
    };
    for (at, aim) in [(1, AIMS[0]), (2, AIMS[0]), (3, AIMS[1])] {
        report(rate(at, ("the aim".into(), aim)).aiming_at(1.0));
        report(rate(at, ("no switch".into(), rates[0])));
    }
    report(rate(2, (sides[1].name.clone(), rates[1])).aiming_at(FULL_SHARE));
    for (at, aim) in [(1, ADDED_MICROS[0]), (2, ADDED_MICROS[0]), (3, ADDED_MICROS[1])] {
        let name = format!("added to a request of {READ_BYTES} B, {}", sides[at].name);
        let added = micros[at] - micros[0];
        let of = ("route-switch", name, "us");
        report(Figure::new(of, Better::Lower, added, ("the aim", aim)).aiming_at(1.0));
    }
    Ok(())
}

/// Runs the load on one thread of its own.
async fn alone(
    store: &Arc<dyn Store>,
    rules: Option<Rules>,
    workers: usize,
    span: Duration,
) -> Result<load::Outcome> {
    let store = Arc::clone(store);
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| Error::unavailable(error.to_string()))?;
        runtime.block_on(load::run(workers, span, |worker| {
            let (store, requests) = (Arc::clone(&store), requests(rules, worker as u64));
            move |number| {
                let store = Arc::clone(&store);
                let request = requests[number as usize % requests.len()].clone();
                async move { store.submit(request).await.map(drop) }
            }
        }))
    };
    tokio::task::spawn_blocking(run).await.map_err(|error| Error::unavailable(error.to_string()))?
}

/// The requests that a worker sends again and again. Rules match the objects of two thirds of them.
/// With rules that name a program all are writes; otherwise half are reads, and half are writes.
fn requests(rules: Option<Rules>, seed: u64) -> Vec<Request> {
    let mut random = Random::seeded(seed);
    let data = Bytes::from(vec![7; READ_BYTES as usize]);
    let count = match rules {
        Some(Rules::Table(count)) => count,
        _ => FEW,
    };
    let request = |number: u64| {
        let rule = random.below(count as u64) as usize;
        let object = match number % 3 {
            0 => format!("data/unmatched-{rule}"),
            _ => object_of(rule, count),
        };
        let offset = READ_BYTES * random.below(4);
        let op = match rules == Some(Rules::Program) || is_write(rule) {
            true => Op::Write { offset, data: data.clone() },
            false => Op::Read { offset, length: READ_BYTES },
        };
        let object: ObjectId = object.parse().ok()?;
        Request::new(object, vec![op]).ok()
    };
    (0..1024).filter_map(request).collect()
}

/// Whether the rule with this number has a pattern.
fn is_pattern(rule: usize, count: usize) -> bool {
    rule % 10 == 2 && rule / 10 < PATTERNS.min(count)
}

/// An object that the rule with this number matches.
fn object_of(rule: usize, count: usize) -> String {
    match rule % 10 {
        2 if is_pattern(rule, count) => format!("data/w{rule}/x/end"),
        0..=4 => format!("data/o{rule}"),
        _ => format!("data/p{rule}/object"),
    }
}

/// Whether a rule is about writes. The others are about reads.
fn is_write(rule: usize) -> bool {
    rule % 4 < 2
}

/// The header and destination of the rule with this number, in the syntax of a rule file.
fn line_of(rule: usize, count: usize) -> String {
    let object = match rule % 10 {
        2 if is_pattern(rule, count) => format!("data/w{rule}/*/end"),
        0..=4 => format!("data/o{rule}"),
        _ => format!("data/p{rule}/*"),
    };
    match rule % 4 {
        0 => format!("* w {object} -> home"),
        1 => format!("* w {object} 0..8192 -> home"),
        2 => format!("* r {object} -> home"),
        _ => format!("* r {object} 0..8192 -> home"),
    }
}

async fn side(setup: &Setup, rules: Rules) -> Result<Side> {
    let layout = Layout { engine: None, storage: 1, metadata: 0, addresses: vec![], sockets: true };
    let file = ClusterFile::draft(setup.folder.join("route-switch"), &layout)?;
    let [entry, ..] = file.nodes() else { return Err(Error::corrupt("a cluster has no nodes")) };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let live = LiveRoutes::new();
    RouteHook::new(Arc::clone(&clock)).installing_into(live.clone()).install(&program()?)?;
    let programs = RoutePrograms::of(live, KindFaults::of(ProgramKind::Route));
    let locations = RoutedLocations::of(&file, entry)?;
    let switch = Arc::new(NodeSwitch::new(
        Onward::uncached(bare()),
        locations,
        programs,
        clock,
        Record::default(),
    )?);
    let application: ApplicationName = "bench".parse()?;
    let parsed = |line: String| Rule::from_line(&application, &line);
    let (name, rules_of_side) = match rules {
        Rules::Table(count) => {
            let all = (0..count).map(|rule| parsed(line_of(rule, count)));
            (format!("{count} rules"), all.collect::<Result<Vec<_>>>()?)
        }
        Rules::Program => {
            let lines = ["* w data/o* -> program p follow", "* w data/p* -> program p follow"];
            let all = lines.map(|line| parsed(line.to_owned()));
            ("a program".to_owned(), all.into_iter().collect::<Result<Vec<_>>>()?)
        }
    };
    switch.install(vec![rules_of_side]).await?;
    let stack = bare().wrapped_by(|next| SwitchLayer::new(Onward::uncached(next), switch));
    Ok(Side { name, store: stack.as_store(), rules: Some(rules) })
}

fn program() -> Result<LiveProgram> {
    let name: ProgramName = PROGRAM.parse()?;
    let id = ProgramId::new(ProgramKind::Route, name);
    Ok(LiveProgram { id, version: 1, digest: Digest::of(SOURCE.as_bytes()), source: SOURCE.into() })
}

fn bare() -> Stack {
    Stack::without_watches(Arc::new(Instant(Bytes::from(vec![7; READ_BYTES as usize]))))
}

/// A store that answers at once and keeps nothing.
#[derive(Debug)]
struct Instant(Bytes);

#[async_trait]
impl Store for Instant {
    async fn submit(&self, request: Request) -> Result<Reply> {
        let result = |op: &Op| match op {
            Op::Read { .. } => OpResult::Data(self.0.clone()),
            _ => OpResult::Done,
        };
        Ok(Reply { version: 1, results: request.ops.iter().map(result).collect() })
    }

    async fn list(&self, _: ListRequest) -> Result<ListPage> {
        Ok(ListPage::default())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}
