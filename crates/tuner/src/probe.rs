//! Measures the cost of transactions with certain accesses on an engine.
//!
//! A probe is a Luau method (`probe.lua`) that makes one kind of access `count` times. So the
//! measured time is that of a whole transaction: the call, the method, its accesses and the commit.

use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use nacre_load as load;
use nacre_object::{ClassName, ObjectId, Result};

use crate::shape::Access;
use crate::workbench::Workbench;

pub(crate) const SOURCE: &str = include_str!("probe.lua");
const CLASS: &str = "tuner_probe";
/// How many entries and parts of the stream an object has, as in `probe.lua`. The next constant is
/// the number of attributes.
const NUMBERS: usize = 16;
const ATTRIBUTES: usize = 4;
/// How many entries a range has.
const RANGE: usize = 8;
/// Bytes of a key.
const KEY_BYTES: usize = 8;
/// How many items one transaction writes to fill an object. The size of a transaction is bounded.
const FILL_AT_ONCE: usize = 4;
/// The longest attribute that is measured. Attributes are meant for little data, and every engine
/// accepts this length.
pub(crate) const MAX_ATTRIBUTE_BYTES: usize = 4096;

/// The accesses of one transaction of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// `None` for nothing at all.
    pub access: Option<Access>,
    pub count: u8,
    pub bytes: usize,
}

impl Probe {
    fn code(&self) -> u8 {
        let at = |access| Access::ALL.iter().position(|one| *one == access);
        self.access.and_then(at).map_or(0, |at| at as u8 + 1)
    }

    pub fn method(&self) -> &'static str {
        if self.access.is_some_and(Access::writes) { "change" } else { "look" }
    }

    /// The request of a transaction that begins with the number `first`.
    pub fn request(&self, first: u32) -> Bytes {
        let mut input = vec![self.code(), self.count];
        input.extend_from_slice(&first.to_le_bytes());
        input.extend_from_slice(&(self.bytes as u32).to_le_bytes());
        if self.access.is_some_and(Access::writes) {
            input.resize(input.len() + self.bytes, b'x');
        }
        input.into()
    }

    /// Bytes that one access carries.
    pub fn carried(&self) -> usize {
        match self.access {
            Some(Access::MapRange) => RANGE * (self.bytes + KEY_BYTES),
            _ => self.bytes,
        }
    }
}

/// Objects with values of one size, for probes of that size.
pub(crate) struct Prober<'a> {
    bench: &'a Workbench,
    class: ClassName,
    objects: Vec<ObjectId>,
}

impl<'a> Prober<'a> {
    /// Makes an object for each of `depth` workers.
    pub async fn prepare(bench: &'a Workbench, depth: usize, bytes: usize) -> Result<Self> {
        let class: ClassName = CLASS.parse()?;
        bench.install(&class, SOURCE)?;
        let label = format!("probe-{depth}-{bytes}");
        let objects: Vec<_> =
            (0..depth).map(|number| bench.object(&label, number)).collect::<Result<_>>()?;
        let prober = Self { bench, class, objects };
        try_join_all(prober.objects.iter().map(|object| prober.fill(object, bytes))).await?;
        Ok(prober)
    }

    async fn fill(&self, object: &ObjectId, bytes: usize) -> Result<()> {
        let count = FILL_AT_ONCE as u8;
        for first in (0..NUMBERS).step_by(FILL_AT_ONCE) {
            for access in [Access::MapSet, Access::StreamWrite] {
                let probe = Probe { access: Some(access), count, bytes };
                self.do_once(object, probe, first).await?;
            }
        }
        let access = Some(Access::AttributeSet);
        let bytes = bytes.min(MAX_ATTRIBUTE_BYTES);
        self.do_once(object, Probe { access, count: ATTRIBUTES as u8, bytes }, 0).await
    }

    async fn do_once(&self, object: &ObjectId, probe: Probe, first: usize) -> Result<()> {
        let request = probe.request(first as u32);
        self.bench.call(object, &self.class, probe.method(), request).await.map(drop)
    }

    /// The average seconds between the ends of two successive transactions of all workers together.
    pub async fn seconds(&self, probe: Probe, span: Duration) -> Result<f64> {
        let outcome = load::run(self.objects.len(), span, |worker| {
            let (bench, class) = (self.bench.clone(), self.class.clone());
            let object = self.objects[worker].clone();
            move |n| {
                let request = probe.request((n % NUMBERS as u64) as u32);
                let (bench, class, object) = (bench.clone(), class.clone(), object.clone());
                async move { bench.call(&object, &class, probe.method(), request).await.map(drop) }
            }
        })
        .await?;
        Ok(1.0 / outcome.rate)
    }

    /// Removes what was made.
    pub async fn clean(self) -> Result<()> {
        self.bench.remove(&self.objects).await
    }
}
