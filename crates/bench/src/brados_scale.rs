//! `brados-scale`: point operations of a generated class on the embedded engine. It compares a
//! table of many rows with a table of few rows. A method that scanned the table would be much
//! slower on many rows.

use std::time::Duration;

use bytes::Bytes;
use nacre_brados::Value;
use nacre_calls::{BATCH_SUFFIX, MAX_BATCH_REQUESTS, decode_answers, encode_batch};
use nacre_calls::{decode_reply, encode_request};
use nacre_clock::Random;
use nacre_object::{ClassName, Error, ObjectId, Result};
use nacre_tuner::{OwnEngine, Workbench};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, Runs};

const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;
/// How much longer an operation on many rows may take: 1.5 times.
const AIM: f64 = 1.0 / 1.5;
const WORKERS: usize = 1;
const VALUE_BYTES: usize = 64;
const CLASS: &str = "rows";
const PROGRAM: &str = "\
state do
  table :rows, [:key:int] => [:value:bytes]
  interface input, :put, [:key:int, :value:bytes]
  interface input, :get, [:key:int]
  interface input, :take, [:key:int]
  interface output, :found, [] => [:value:bytes]
  interface output, :taken, [] => [:key:int]
  interface output, :last, [] => [:key:int]
end
bloom do
  rows <+- put
  found <= (get * rows).rights(:key => :key){|r| [r.value]}
  rows <- (take * rows).rights(:key => :key)
  taken <= (take * rows).rights(:key => :key){|r| [r.key]}
  temp :greatest <= rows.group([], max(:key))
  last <= (take * greatest).rights
end
";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Reading a row.
    Get,
    /// Inserts a row between others and deletes it again, so that the table keeps its length.
    PutAndTake,
    /// The same with the row of the greatest key, which an aggregate is kept of.
    PutAndTakeLast,
}

impl Work {
    const ALL: [Self; 3] = [Self::Get, Self::PutAndTake, Self::PutAndTakeLast];

    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::PutAndTake => "put and take of a row",
            Self::PutAndTakeLast => "put and take of the last row",
        }
    }
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let engine = OwnEngine::embedded(&setup.folder)?;
    let few = Table::filled(engine.bench(), FEW).await?;
    let many = Table::filled(engine.bench(), MANY).await?;
    for work in Work::ALL {
        let name = format!("{} in a table of {MANY} rows, median", work.name());
        if !setup.wants(&name) {
            continue;
        }
        let (mut of_few, mut of_many) = (Runs::default(), Runs::default());
        for _ in 0..setup.rounds {
            of_few.push(few.measure(work, setup.span).await?);
            of_many.push(many.measure(work, setup.span).await?);
        }
        let baseline = (format!("{FEW} rows"), of_few.median_micros());
        let of = ("brados-scale", name, "us");
        let figure = Figure::new(of, Better::Lower, of_many.median_micros(), baseline);
        report(figure.aiming_at(AIM));
    }
    Ok(())
}

/// An object with so many rows.
#[derive(Clone)]
struct Table {
    bench: Workbench,
    class: ClassName,
    object: ObjectId,
    rows: u64,
}

impl Table {
    async fn filled(bench: &Workbench, rows: u64) -> Result<Self> {
        let class: ClassName = CLASS.parse()?;
        bench.install(&class, PROGRAM)?;
        let object = bench.object("rows", rows as usize)?;
        let table = Self { bench: bench.clone(), class, object, rows };
        table.fill().await?;
        Ok(table)
    }

    async fn fill(&self) -> Result<()> {
        let method = format!("put{BATCH_SUFFIX}");
        for first in (0..self.rows).step_by(MAX_BATCH_REQUESTS) {
            let numbers = first..self.rows.min(first + MAX_BATCH_REQUESTS as u64);
            let requests: Vec<_> = numbers.map(|number| put(key_of(number))).collect();
            let output = self.call(&method, encode_batch(u32::MAX, &requests)).await?;
            let answers = decode_answers(output, requests.len())?;
            if answers.len() < requests.len() || answers.iter().any(|answer| answer.status < 0) {
                return Err(Error::corrupt("the class refused rows that the table should store"));
            }
        }
        Ok(())
    }

    async fn measure(&self, work: Work, span: Duration) -> Result<Outcome> {
        load::run(WORKERS, span, |worker| {
            let (table, mut random) = (self.clone(), Random::seeded(worker as u64));
            move |_| {
                let (table, number) = (table.clone(), random.below(table.rows));
                async move { table.work(work, number).await }
            }
        })
        .await
    }

    async fn work(&self, work: Work, number: u64) -> Result<()> {
        let between = match work {
            Work::Get => return self.call("get", request(key_of(number))).await.map(drop),
            Work::PutAndTake => key_of(number) + 1,
            Work::PutAndTakeLast => key_of(self.rows),
        };
        self.call("put", put(between).into()).await?;
        let taken = self.call("take", request(between)).await?;
        let outputs = decode_reply(&taken).map_err(|error| Error::corrupt(error.to_string()))?;
        if outputs.iter().any(|(name, _)| name == "taken") {
            return Ok(());
        }
        Err(Error::corrupt(format!("row {between} is missing")))
    }

    async fn call(&self, method: &str, input: Bytes) -> Result<Bytes> {
        self.bench.call(&self.object, &self.class, method, input).await
    }
}

/// The key of a row by its number: between two there is room for another.
fn key_of(number: u64) -> u64 {
    2 * number
}

fn put(key: u64) -> Vec<u8> {
    encode_request(&[Value::Int(key as i64), Value::Bytes(vec![b'x'; VALUE_BYTES])])
}

fn request(key: u64) -> Bytes {
    encode_request(&[Value::Int(key as i64)]).into()
}
