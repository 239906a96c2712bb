//! `brados-call`: compares two implementations of the log's storage interface, method by method:
//! the class generated from `log.brados`, and the hand-written `log.lua`. Both keep each entry in a
//! key of the object's map.
//!
//! The bench calls the store directly, as a node does. The cost of a call over the wire would hide
//! the cost of the method.

use std::time::Duration;

use bytes::Bytes;
use nacre_brados::Value;
use nacre_calls::{decode_reply, encode_request};
use nacre_object::{ClassName, Error, ObjectId, Result};
use nacre_rados::RadosOptions;
use nacre_tuner::{OwnEngine, Workbench};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, Runs, in_turn};

const GENERATED: &str = include_str!("../../../programs/class/log.brados");
const BY_HAND: &str = include_str!("../../../programs/class/log.lua");
/// The least share of the hand-written class's rate.
const AIM: f64 = 0.95;
const WORKERS: usize = 32;
/// Data of an entry.
const SIZES: [usize; 2] = [128, 4096];
/// Entries of each object that is read.
const READ_ENTRIES: u64 = 64;

/// Which class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Generated,
    ByHand,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Generated => "log_generated",
            Self::ByHand => "log_by_hand",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::Generated => GENERATED,
            Self::ByHand => BY_HAND,
        }
    }
}

/// Which method, and with how much data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Write(usize),
    Read(usize),
    Fill,
    Trim,
    Seal,
    MaxPosition,
}

impl Work {
    const ALL: [Work; 8] = [
        Self::Write(SIZES[0]),
        Self::Write(SIZES[1]),
        Self::Read(SIZES[0]),
        Self::Read(SIZES[1]),
        Self::Fill,
        Self::Trim,
        Self::Seal,
        Self::MaxPosition,
    ];

    fn method(self) -> &'static str {
        match self {
            Self::Write(_) => "write",
            Self::Read(_) => "read",
            Self::Fill => "fill",
            Self::Trim => "trim",
            Self::Seal => "seal",
            Self::MaxPosition => "max_position",
        }
    }

    fn name(self) -> String {
        match self {
            Self::Write(size) | Self::Read(size) => format!("{} of {size} B", self.method()),
            _ => self.method().to_owned(),
        }
    }

    /// What the n-th call of a worker asks for, as either class wants it.
    fn input(self, side: Side, n: u64) -> Bytes {
        let (numbers, data) = match self {
            Self::Write(size) => (vec![1, n], Some(vec![b'x'; size])),
            Self::Read(_) => (vec![1, n % READ_ENTRIES], None),
            Self::Fill | Self::Trim => (vec![1, n], None),
            // Sealed at 1 when the object was made.
            Self::Seal => (vec![n + 2], None),
            Self::MaxPosition => (vec![], None),
        };
        encoded(side, self, &numbers, data).into()
    }
}

fn encoded(side: Side, work: Work, numbers: &[u64], data: Option<Vec<u8>>) -> Vec<u8> {
    match side {
        Side::ByHand => {
            let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
            numbers.chain(data.unwrap_or_default()).collect()
        }
        Side::Generated => {
            let numbers = numbers.iter().map(|number| Value::Int(*number as i64));
            let mut row: Vec<_> = numbers.chain(data.map(Value::Bytes)).collect();
            if work == Work::MaxPosition {
                row.push(Value::Nil);
            }
            encode_request(&row)
        }
    }
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let engine = OwnEngine::embedded(&setup.folder)?;
    compare(setup, engine.bench(), "embedded", report).await
}

pub(crate) async fn run_on_ceph(
    setup: &Setup,
    options: &RadosOptions,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let engine = OwnEngine::on_ceph(options.clone()).await?;
    compare(setup, engine.bench(), "on Ceph", report).await
}

async fn compare(
    setup: &Setup,
    bench: &Workbench,
    place: &str,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let generated = Subject::install(bench, Side::Generated)?;
    let by_hand = Subject::install(bench, Side::ByHand)?;
    for work in Work::ALL {
        let name = format!("{}, {place}, {WORKERS} workers", work.name());
        if !setup.wants(&name) {
            continue;
        }
        let (mut of_generated, mut of_by_hand) = (Runs::default(), Runs::default());
        for round in 0..setup.rounds {
            let sides = [(&generated, &mut of_generated), (&by_hand, &mut of_by_hand)];
            for (subject, runs) in in_turn(round, sides) {
                runs.push(subject.measure(work, round, setup.span).await?);
            }
        }
        let baseline = ("log.lua, written by hand", of_by_hand.rate());
        let of = ("brados-call", name, "calls/s");
        report(Figure::new(of, Better::Higher, of_generated.rate(), baseline).aiming_at(AIM));
    }
    Ok(())
}

/// One of the classes, where it is measured.
#[derive(Clone)]
struct Subject {
    bench: Workbench,
    side: Side,
    class: ClassName,
}

impl Subject {
    fn install(bench: &Workbench, side: Side) -> Result<Self> {
        let class = side.name().parse()?;
        bench.install(&class, side.source())?;
        Ok(Self { bench: bench.clone(), side, class })
    }

    async fn measure(&self, work: Work, round: usize, span: Duration) -> Result<Outcome> {
        let label = format!("{}-{}-{round}", self.class, work.name().replace(' ', "-"));
        let objects: Vec<ObjectId> =
            (0..WORKERS).map(|worker| self.bench.object(&label, worker)).collect::<Result<_>>()?;
        for object in &objects {
            self.prepare(work, object).await?;
        }
        let outcome = load::run(WORKERS, span, |worker| {
            let (subject, object) = (self.clone(), objects[worker].clone());
            move |n| {
                let (subject, object) = (subject.clone(), object.clone());
                let input = work.input(subject.side, n);
                async move { subject.call(&object, work.method(), input).await }
            }
        })
        .await;
        self.bench.remove(&objects).await?;
        outcome
    }

    /// Seals an object, and writes what will be read.
    async fn prepare(&self, work: Work, object: &ObjectId) -> Result<()> {
        let seal = encoded(self.side, Work::Seal, &[1], None);
        self.call(object, "seal", seal.into()).await?;
        if let Work::Read(size) = work {
            let write = Work::Write(size);
            let entries = (0..READ_ENTRIES)
                .map(|n| self.call(object, write.method(), write.input(self.side, n)));
            futures::future::try_join_all(entries).await?;
        }
        Ok(())
    }

    async fn call(&self, object: &ObjectId, method: &str, input: Bytes) -> Result<()> {
        let output = self.bench.call(object, &self.class, method, input).await?;
        match self.side {
            Side::ByHand => Ok(()),
            Side::Generated => succeeded(&output),
        }
    }
}

/// A generated class replies its status, where one written by hand fails.
fn succeeded(reply: &[u8]) -> Result<()> {
    let outputs = decode_reply(reply).map_err(|error| Error::corrupt(error.to_string()))?;
    let status = outputs.iter().find(|(name, _)| name == "ret").map(|(_, rows)| rows);
    match status.map(Vec::as_slice) {
        // A read that found its entry replies nothing else.
        None => Ok(()),
        Some([row]) if row[..] == [Value::Int(0)] => Ok(()),
        other => Err(Error::corrupt(format!("the generated class replied {other:?}"))),
    }
}
