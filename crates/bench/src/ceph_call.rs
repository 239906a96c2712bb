//! `call --engine ceph:…`: a Luau method that does one map set, run by nacre's class inside the
//! OSD. There are three baselines:
//!
//! - the same script in Ceph's own `cls_lua`;
//! - a C++ class of Ceph that only sets the key, which is the best that a class can reach;
//! - the same omap set without any class.
//!
//! All four take turns, with the same kind of client. The bench reports rates, and the CPU time of
//! an operation, which varies less on a busy machine. It also reports how much memory the class
//! adds to the OSDs of this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{ClassCall, Error, Op, Request, Result, Store};
use nacre_program::Budget;
use nacre_rados::RadosOptions;
use nacre_rados::{PlainClient, RadosEngine};

use crate::bench::Setup;
use crate::cpu_micros::CpuMicros;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, in_turn};
use crate::processes::Processes;
use crate::side::Side;

const WORKERS: usize = 32;
/// Objects of a worker: more than one, so that placement groups take turns.
const OBJECTS: u64 = 2;
const VALUE: &str = "sixteen bytes...";
const POOL: &str = "bench";
const CLASS: &str = "setter";
const SOURCE: &str = "\
function set(input, output) objclass.map_set_val('key', input) end
objclass.register(set)
";
const STOCK_AIM: f64 = 1.7;
const RAW_AIM: f64 = 0.85;

/// Calls and classes after which memory is looked at.
const MEMORY_CALLS: u64 = 100_000;
const MEMORY_CLASSES: u64 = 50;
/// MiB that the class may add to an OSD.
const MEMORY_BOUND_MIB: f64 = 32.0;

/// Who sets the key.
#[derive(Debug, Clone, Copy)]
enum Way {
    Nacre,
    ClsLua,
    /// A C++ class of Ceph that only sets the key. It shows how much it costs to call a class at
    /// all.
    Compiled,
    Raw,
}

/// The clients of all ways.
#[derive(Clone)]
struct Clients {
    engine: RadosEngine,
    runtime: Arc<ClassRuntime>,
    plain: PlainClient,
}

pub(crate) async fn run(
    setup: &Setup,
    options: &RadosOptions,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let clients = Clients::connect(options).await?;
    if setup.wants("call") {
        clients.compare(setup, options, report).await?;
    }
    if setup.wants("memory") {
        clients.weigh(options, report).await?;
    }
    Ok(())
}

impl Clients {
    async fn connect(options: &RadosOptions) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let runtime = Arc::new(ClassRuntime::new(Budget::default(), Arc::clone(&clock)));
        runtime.install(&ClassProgram::new(CLASS.parse()?, 1, SOURCE))?;
        let engine = RadosEngine::connect(options.clone(), runtime.clone(), clock).await?;
        let plain = PlainClient::connect(options.clone(), POOL).await?;
        Ok(Self { engine, runtime, plain })
    }

    async fn compare(
        &self,
        setup: &Setup,
        options: &RadosOptions,
        report: &mut dyn FnMut(Figure),
    ) -> Result<()> {
        // Of OSDs on other machines only the rates are known.
        let osds = Processes::osds_of(options).ok();
        let (mut nacre, mut stock, mut raw) = (Side::default(), Side::default(), Side::default());
        let mut compiled = Side::default();
        let before = self.engine.osd_counts().by_plugin;
        for round in 0..setup.rounds {
            let sides = [
                (Way::Nacre, &mut nacre),
                (Way::ClsLua, &mut stock),
                (Way::Compiled, &mut compiled),
                (Way::Raw, &mut raw),
            ];
            for (way, side) in in_turn(round, sides) {
                side.push(self.measure(way, setup.span, osds.as_ref()).await?);
            }
        }
        if self.engine.osd_counts().by_plugin == before {
            return Err(Error::unavailable("the OSDs do not have the class nacre").hint(
                "see `nacre ceph check`; `make bench ENGINE=ceph` brings a cluster of its own",
            ));
        }
        let name = |what: &str| {
            format!("on Ceph, one map set of {} B, {WORKERS} workers{what}", VALUE.len())
        };
        let figure = |name: String, ours: &Side, baseline: (&str, &Side)| {
            let baseline = (baseline.0, baseline.1.runs.rate());
            Figure::new(("call", name, "ops/s"), Better::Higher, ours.runs.rate(), baseline)
        };
        let script = ("the same script in stock cls_lua", &stock);
        let set = ("the same omap set as a bare librados op", &raw);
        let class = ("the same through Ceph's class timeindex in C++", &compiled);
        report(figure(name(""), &nacre, script).aiming_at(STOCK_AIM));
        report(figure(name(""), &nacre, set).aiming_at(RAW_AIM));
        // Two limits: an operation without a class is faster than any class, and a class in C++ is
        // faster than one in Luau.
        report(figure(name(", no class at all"), &raw, script));
        report(figure(name(", Ceph's class timeindex in C++"), &compiled, script));
        report(figure(name(", Ceph's class timeindex in C++"), &compiled, set));
        report(figure(name(""), &nacre, class));
        let p99 = ("the same script in stock cls_lua", stock.runs.p99_micros());
        let of = ("call", name(", p99"), "us");
        report(Figure::new(of, Better::Lower, nacre.runs.p99_micros(), p99));
        let cpu = |what: &str, ours: f64, baseline: (&str, f64)| {
            let of = ("call", name(&format!(", CPU of the {what}")), "us");
            Figure::new(of, Better::Lower, ours, baseline)
        };
        for (baseline, side) in [script, set, class] {
            if osds.is_some() {
                report(cpu("OSDs", nacre.osd_micros(), (baseline, side.osd_micros())));
            }
            report(cpu("client", nacre.client_micros(), (baseline, side.client_micros())));
        }
        Ok(())
    }

    /// Measures one way for a while. Returns the outcome, and the CPU time of each operation.
    async fn measure(
        &self,
        way: Way,
        span: Duration,
        osds: Option<&Processes>,
    ) -> Result<(Outcome, CpuMicros)> {
        let (before, count) = (CpuMicros::now(osds)?, Arc::new(AtomicU64::new(0)));
        let outcome = self.load(way, span, &count).await?;
        let operations = count.load(Ordering::Relaxed);
        Ok((outcome, CpuMicros::now(osds)?.each_since(&before, operations)))
    }

    async fn load(&self, way: Way, span: Duration, count: &Arc<AtomicU64>) -> Result<Outcome> {
        load::run(WORKERS, span, |worker| {
            let (clients, count) = (self.clone(), Arc::clone(count));
            move |n| {
                let clients = clients.clone();
                count.fetch_add(1, Ordering::Relaxed);
                async move {
                    clients.set(way, CLASS, &format!("call-{worker}-{}", n % OBJECTS)).await
                }
            }
        })
        .await
    }

    async fn set(&self, way: Way, class: &str, object: &str) -> Result<()> {
        let value = Bytes::from_static(VALUE.as_bytes());
        match way {
            Way::Nacre => {
                let (class, method) = (class.parse()?, "set".parse()?);
                let call = ClassCall { class, method, version: None, input: value };
                let object = format!("{POOL}/{object}").parse()?;
                self.engine.submit(Request::new(object, vec![Op::Call(call)])?).await.map(drop)
            }
            Way::ClsLua => self.plain.eval(object, SOURCE, "set", &value).await.map(drop),
            Way::Compiled => {
                let input = timeindex_entry("key", VALUE);
                let answer = self.plain.submit(object, c"timeindex", c"add", input).await?;
                match answer.status {
                    0.. => Ok(()),
                    status => Err(Error::from_status(status, "timeindex.add failed")),
                }
            }
            Way::Raw => self.plain.set_key(object, "key", value).await,
        }
    }

    /// Measures how much memory an OSD gains through many calls of many classes, compared with the
    /// same number of operations without a class.
    async fn weigh(&self, options: &RadosOptions, report: &mut dyn FnMut(Figure)) -> Result<()> {
        let osds = Processes::osds_of(options)?;
        for number in 0..MEMORY_CLASSES {
            let source = format!("-- class {number}\n{SOURCE}");
            let name = format!("{CLASS}-{number}").parse()?;
            self.runtime.install(&ClassProgram::new(name, 1, source))?;
        }
        self.repeat(Way::Raw).await?;
        let bare = osds.mib()?;
        self.repeat(Way::Nacre).await?;
        let once = osds.mib()?;
        self.repeat(Way::Nacre).await?;
        let twice = osds.mib()?;
        let what = format!("{MEMORY_CALLS} calls of {MEMORY_CLASSES} classes");
        let of = |name: &str| ("call", format!("on Ceph, memory per OSD added by {name}"), "MiB");
        let bound = ("the bound", MEMORY_BOUND_MIB);
        let mut tell = |name: &str, added: f64| {
            // Less than nothing is nothing.
            let added = added.max(0.01);
            report(Figure::new(of(name), Better::Lower, added, bound).aiming_at(1.0));
        };
        tell(&what, once - bare);
        tell(&format!("as many again after {what}"), twice - once);
        Ok(())
    }

    /// As many operations as memory is measured after.
    async fn repeat(&self, way: Way) -> Result<()> {
        let each = MEMORY_CALLS / WORKERS as u64;
        let workers = (0..WORKERS).map(|worker| {
            let clients = self.clone();
            async move {
                for n in 0..each {
                    let class = format!("{CLASS}-{}", n % MEMORY_CLASSES);
                    clients.set(way, &class, &format!("memory-{worker}")).await?;
                }
                Ok::<_, Error>(())
            }
        });
        futures::future::try_join_all(workers).await.map(drop)
    }
}

/// The input of Ceph's method `timeindex.add` that sets one key, in Ceph's encoding: a list of one
/// entry.
///
/// The entry consists of two version bytes, a length, a time (seconds, nanoseconds), the rest of
/// the key and the value.
fn timeindex_entry(key: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let versioned =
        |body: Vec<u8>| [&[1, 1][..], &(body.len() as u32).to_le_bytes(), &body].concat();
    let entry = versioned([&[0; 8][..], &text(key), &text(value)].concat());
    versioned([&1u32.to_le_bytes()[..], &entry].concat())
}
