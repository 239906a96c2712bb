//! `brados-call`: the methods of the log's storage interface by the class that is generated from
//! `log.brados`, beside those of `log.lua`, written by hand. Both keep an entry a key of the map. The
//! store is called as a node calls it, without a wire that would hide what a method costs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre::RadosOptions;
use nacre_brados::{Value, decode_reply, encode_request};
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, SystemClock};
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::{ClassCall, Error, ObjectId, Op, OpResult, Request, Result, Store};
use nacre_rados::RadosEngine;
use nacre_script::Budget;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, Runs};
use crate::scratch;

const GENERATED: &str = include_str!("../../../programs/class/log.brados");
const BY_HAND: &str = include_str!("../../../programs/class/log.lua");
/// The least share of the hand-written class's rate.
const AIM: f64 = 0.95;
const WORKERS: usize = 32;
/// Data of an entry.
const SIZES: [usize; 2] = [128, 4096];
/// Entries of each object that is read.
const READ_ENTRIES: u64 = 64;
const POOL: &str = "bench";

/// Which class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Generated,
    ByHand,
}

impl Side {
    fn class(self) -> &'static str {
        match self {
            Self::Generated => "log_generated",
            Self::ByHand => "log_by_hand",
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

/// What is measured: a store with both classes.
#[derive(Clone)]
struct Subject {
    store: Arc<dyn Store>,
    /// Where it keeps its data, for the name of the figures.
    place: &'static str,
    /// Tells the objects of this run from those of others.
    run: u64,
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let (runtime, clock) = classes()?;
    let options = Options::new(folder.path().join("embedded"), runtime, Arc::clone(&clock));
    let engine = EmbeddedEngine::open(options)?;
    let store: Arc<dyn Store> = Arc::new(engine.clone());
    let subject = Subject { store, place: "embedded", run: clock.now_micros() };
    let outcome = subject.compare(setup, report).await;
    engine.close();
    outcome
}

pub(crate) async fn run_on_ceph(
    setup: &Setup,
    options: &RadosOptions,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let (runtime, clock) = classes()?;
    let engine = RadosEngine::connect(options.clone(), runtime, Arc::clone(&clock)).await?;
    let subject = Subject { store: Arc::new(engine), place: "on Ceph", run: clock.now_micros() };
    subject.compare(setup, report).await
}

fn classes() -> Result<(Arc<ClassRuntime>, Arc<dyn Clock>)> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let runtime = ClassRuntime::new(Budget::default(), Arc::clone(&clock));
    for (side, source) in [(Side::Generated, GENERATED), (Side::ByHand, BY_HAND)] {
        runtime.install(&ClassProgram::new(side.class().parse()?, 1, source))?;
    }
    Ok((Arc::new(runtime), clock))
}

impl Subject {
    async fn compare(&self, setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
        for work in Work::ALL {
            let name = format!("{}, {}, {WORKERS} workers", work.name(), self.place);
            if !setup.wants(&name) {
                continue;
            }
            let (mut generated, mut by_hand) = (Runs::default(), Runs::default());
            for round in 0..setup.rounds {
                generated.push(self.measure(Side::Generated, work, round, setup.span).await?);
                by_hand.push(self.measure(Side::ByHand, work, round, setup.span).await?);
            }
            let baseline = ("log.lua, written by hand", by_hand.rate());
            let of = ("brados-call", name, "calls/s");
            report(Figure::new(of, Better::Higher, generated.rate(), baseline).aiming_at(AIM));
        }
        Ok(())
    }

    async fn measure(
        &self,
        side: Side,
        work: Work,
        round: usize,
        span: Duration,
    ) -> Result<Outcome> {
        let label =
            format!("{}-{}-{}-{round}", self.run, side.class(), work.name().replace(' ', "-"));
        let objects: Vec<ObjectId> = (0..WORKERS)
            .map(|worker| format!("{POOL}/{label}-{worker}").parse())
            .collect::<Result<_>>()?;
        for object in &objects {
            self.prepare(side, work, object).await?;
        }
        load::run(WORKERS, span, |worker| {
            let (subject, object) = (self.clone(), objects[worker].clone());
            move |n| {
                let (subject, object) = (subject.clone(), object.clone());
                async move { subject.call(side, &object, work.method(), work.input(side, n)).await }
            }
        })
        .await
    }

    /// Seals an object, and writes what will be read.
    async fn prepare(&self, side: Side, work: Work, object: &ObjectId) -> Result<()> {
        let seal = encoded(side, Work::Seal, &[1], None);
        self.call(side, object, "seal", seal.into()).await?;
        if let Work::Read(size) = work {
            let write = Work::Write(size);
            let entries = (0..READ_ENTRIES)
                .map(|n| self.call(side, object, write.method(), write.input(side, n)));
            futures::future::try_join_all(entries).await?;
        }
        Ok(())
    }

    async fn call(
        &self,
        side: Side,
        object: &ObjectId,
        method: &'static str,
        input: Bytes,
    ) -> Result<()> {
        let (class, method) = (side.class().parse()?, method.parse()?);
        let call = Op::Call(ClassCall { class, method, version: None, input });
        let reply = self.store.submit(Request::new(object.clone(), vec![call])?).await?;
        match (side, reply.results.first()) {
            (Side::ByHand, Some(OpResult::Called(_))) => Ok(()),
            (Side::Generated, Some(OpResult::Called(reply))) => succeeded(&reply.output),
            (_, other) => Err(Error::corrupt(format!("a call was answered {other:?}"))),
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
