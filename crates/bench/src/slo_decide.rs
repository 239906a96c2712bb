//! `slo-decide`: a scheduler takes, sends and completes requests, with 10,000 waiting.

use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};
use nacre_qos::scheduler::{
    DeviceLimits, NewRequest, Next, Scheduler, TenantId, TenantSettings, Ties, Work,
};
use nacre_qos::{IoKind, RateBurst};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;

/// Requests that wait.
const QUEUED: usize = 10_000;
/// Requests of one round.
const DECISIONS: u32 = 1_000_000;
const AIM_NANOS: f64 = 1000.0;
/// The tenants that the others are compared with.
const FEW: usize = 100;
const MANY: usize = 1000;

pub(crate) fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let mut nanos = [vec![], vec![]];
    for _ in 0..setup.rounds {
        for (tenants, nanos) in [FEW, MANY].into_iter().zip(&mut nanos) {
            nanos.push(round(tenants)?);
        }
    }
    let [few, many] = nanos.map(median);
    let figure = |tenants| format!("a request, {tenants} tenants, {QUEUED} queued");
    let of = |tenants| ("slo-decide", figure(tenants), "ns");
    let aim = ("the aim", AIM_NANOS);
    report(Figure::new(of(FEW), Better::Lower, few, aim).aiming_at(1.0));
    report(Figure::new(of(MANY), Better::Lower, many, aim).aiming_at(1.0));
    report(Figure::new(of(MANY), Better::Lower, many, (format!("{FEW} tenants"), few)));
    Ok(())
}

/// Nanoseconds to take, send and complete a request.
fn round(tenants: usize) -> Result<f64> {
    let clock = SystemClock::default();
    let mut scheduler = Scheduler::new(DeviceLimits::default(), Ties::FirstCome)?;
    let mut ids = vec![];
    for number in 0..tenants {
        let bucket = RateBurst { rate: 0.9 / tenants as f64, burst_seconds: 0.01 };
        let settings = match number % 4 {
            0 => TenantSettings::weighted(1.0),
            _ => TenantSettings::promised(number as u32 % 16, vec![bucket; 2]),
        };
        ids.push(scheduler.add_tenant(settings, clock.monotonic())?);
    }
    for number in 0..QUEUED {
        scheduler.enqueue(request(ids[number % tenants])?, clock.monotonic())?;
    }
    let began = clock.monotonic();
    for _ in 0..DECISIONS {
        let now = clock.monotonic();
        let Next::Send(sent) = scheduler.next(now) else {
            return Err(Error::corrupt("the scheduler lets the device idle while requests wait"));
        };
        scheduler.complete(sent.request, None, now);
        scheduler.enqueue(request(sent.tenant)?, now)?;
    }
    Ok((clock.monotonic() - began).as_nanos() as f64 / f64::from(DECISIONS))
}

fn request(tenant: TenantId) -> Result<NewRequest> {
    let work = Work::seconds(1e-5)?;
    Ok(NewRequest { tenant, kind: IoKind::Read, bytes: 4096, work, deadline: None })
}
