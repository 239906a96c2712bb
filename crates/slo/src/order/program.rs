//! `OrderProgram`: one compiled version of an order program.

use std::sync::Arc;
use std::time::Duration;

use mlua::{Function, Lua, Table, Value};
use nacre_clock::Clock;
use nacre_object::{Error, Result, TenantName};
use nacre_qos::scheduler::{
    DeviceLimits, NewRequest, Scheduler, ServiceOrder, TenantSettings, Ties, Waiting, Work,
};
use nacre_qos::{IoKind, RateBurst};
use nacre_script::{ProgramVersion, ProgramVm, Run, type_of};

use super::Candidate;
use crate::limits::ORDER_BUDGET;

thread_local! {
    static VM: ProgramVm<()> = const { ProgramVm::new() };
}

/// The function that an order program must define.
const FUNCTION: &str = "choose";

/// One compiled version of an order program.
#[derive(Debug)]
pub struct OrderProgram(ProgramVersion);

impl OrderProgram {
    /// Compiles a program, and runs its top level once.
    ///
    /// # Errors
    /// `Fault` with the line that fails; `Invalid` if the program does not define the function
    /// `choose`.
    pub fn compile(
        name: &str,
        version: u64,
        source: impl Into<Arc<str>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let version = ProgramVersion::new(name, version, source, clock, &ORDER_BUDGET);
        version.run(&VM, |run, ()| function(run).map(drop))?;
        Ok(Self(version))
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.0.number()
    }

    /// Asks the program whose request is served next. Returns the index of the tenant in
    /// `candidates`. `None` leaves the decision to the built-in order.
    ///
    /// # Errors
    /// `Fault` with the line where the program fails, or with the line of `choose` if its result is
    /// invalid; `Exhausted` if the program exceeds its budget.
    pub fn choose(&self, candidates: &[Candidate<'_>]) -> Result<Option<usize>> {
        let chosen = self.0.run(&VM, |run, ()| {
            let choose = function(run)?;
            let entries = candidates.iter().map(|candidate| to_lua(run.lua(), candidate));
            let entries = entries.collect::<mlua::Result<Vec<_>>>();
            let entries = entries.map_err(|error| run.explain(&error))?;
            let returned = run.call_for::<Value>(&choose, entries)?;
            place(&returned, candidates.len())
        });
        chosen.map_err(|error| self.0.blame(error, FUNCTION))
    }

    /// Tests the program on made-up tenants: first with tenants of all kinds, then with two at a
    /// time.
    ///
    /// # Errors
    /// As [`OrderProgram::choose`].
    pub(super) fn rehearse(&self) -> Result<()> {
        let waiting = made_up_tenants()?;
        let tenant = TenantName::new("made-up")?;
        let mut candidates = vec![];
        for waiting in &waiting {
            let slo_seconds = waiting.priority.map(|_| 0.02);
            candidates.push(Candidate { tenant: &tenant, slo_seconds, waiting });
        }
        self.choose(&candidates)?;
        candidates.windows(2).try_for_each(|pair| self.choose(pair).map(drop))
    }
}

fn function(run: &Run<'_>) -> Result<Function> {
    let hint = "define choose(waiting): it returns the position of a tenant in the list";
    run.required_function(FUNCTION, hint)
}

/// Creates an entry of the argument `waiting`.
fn to_lua(lua: &Lua, candidate: &Candidate<'_>) -> mlua::Result<Table> {
    let Candidate { tenant, slo_seconds, waiting } = candidate;
    let entry = lua.create_table_with_capacity(0, 16)?;
    entry.raw_set("tenant", tenant.as_str())?;
    entry.raw_set("kind", waiting.kind.as_str())?;
    entry.raw_set("bytes", f64::from(waiting.bytes))?;
    entry.raw_set("work", waiting.work_seconds)?;
    entry.raw_set("waited", waiting.waited.as_secs_f64())?;
    entry.raw_set("number", waiting.request.number() as f64)?;
    entry.raw_set("room", waiting.has_room)?;
    entry.raw_set("slo", *slo_seconds)?;
    entry.raw_set("priority", waiting.priority.map(f64::from))?;
    entry.raw_set("within", waiting.is_within)?;
    entry.raw_set("ready", waiting.ready_seconds)?;
    entry.raw_set("weight", waiting.weight)?;
    entry.raw_set("share", waiting.share)?;
    entry.raw_set("left_over", waiting.left_over_share)?;
    entry.raw_set("group", waiting.group_share)?;
    entry.raw_set("turn", waiting.turn as f64)?;
    Ok(entry)
}

/// Converts the result of `choose` into an index from 0 in a list of `length` tenants.
///
/// # Errors
/// `Invalid`, saying which results are allowed.
fn place(returned: &Value, length: usize) -> Result<Option<usize>> {
    let number = match returned {
        Value::Nil => return Ok(None),
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        other => {
            let text = format!("`choose` returned a {}", type_of(other));
            return Err(Error::invalid(text).hint("return a position in the list, or nil"));
        }
    };
    let is_place = number >= 1.0 && number <= length as f64 && number.fract() == 0.0;
    match is_place {
        true => Ok(Some(number as usize - 1)),
        false => {
            Err(Error::invalid(format!("`choose` returned {number}, but {length} tenants wait"))
                .hint(format!("return a position from 1 to {length}, or nil")))
        }
    }
}

/// Made-up tenants: one within its limits, one outside them, and one without a promise. Their
/// requests have known or unknown work.
fn made_up_tenants() -> Result<Vec<Waiting>> {
    struct Offered(Vec<Waiting>);
    impl ServiceOrder for Offered {
        fn choose(&mut self, waiting: &[Waiting]) -> Option<usize> {
            self.0 = waiting.to_vec();
            None
        }
    }
    let (came_at, now) = (Duration::from_secs(1), Duration::from_secs(2));
    let mut scheduler = Scheduler::new(DeviceLimits::default(), Ties::FirstCome)?;
    let bucket = |burst_seconds| RateBurst { rate: 0.01, burst_seconds };
    let large =
        scheduler.add_tenant(TenantSettings::promised(1, vec![bucket(1.0)]), Duration::ZERO)?;
    let small =
        scheduler.add_tenant(TenantSettings::promised(2, vec![bucket(1e-3)]), Duration::ZERO)?;
    let free = scheduler.add_tenant(TenantSettings::weighted(2.0), Duration::ZERO)?;
    for tenant in [large, small, free] {
        for (kind, work) in [
            (IoKind::Write, Work::seconds(1e-3)?),
            (IoKind::Read, Work::UNKNOWN),
            (IoKind::Read, Work::seconds(1e-3)?),
        ] {
            let request = NewRequest { tenant, kind, bytes: 4096, work, deadline: None };
            scheduler.enqueue(request, came_at)?;
        }
    }
    let mut offered = Offered(vec![]);
    // After each offer, the built-in order sends the first request of a tenant.
    for _ in 0..3 {
        scheduler.next_by(&mut offered, now);
    }
    Ok(offered.0)
}
