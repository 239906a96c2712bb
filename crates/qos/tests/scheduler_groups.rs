//! Tests of a target that commits writes in groups: how many writes are outstanding, in which order
//! they are sent, and how long a promised write waits for other writes.

mod scheduling;

use std::time::Duration;

use nacre_qos::IoKind::Write;
use nacre_qos::scheduler::{
    Commits, DeviceLimits, KindLimits, NewRequest, Next, RequestId, Scheduler, TenantId,
    TenantSettings, Ties,
};
use nacre_qos::simulate::{
    NextGroup, Scenario, SimulatedDevice, SimulatedQueue, SimulatedRequest, SimulatedTenant, Step,
    simulate,
};
use scheduling::*;

/// Writes that may be outstanding: two groups.
const WRITES: usize = 64;
const BYTES: u64 = 3 << 19;
const GROUP: usize = WRITES / 2;

const fn limits(writes: usize) -> DeviceLimits {
    DeviceLimits {
        reads: KindLimits { requests: 16, bytes: BYTES },
        writes: KindLimits { requests: writes, bytes: BYTES },
    }
}

fn write(scheduler: &mut Scheduler, tenant: TenantId, bytes: u32) -> RequestId {
    let request = NewRequest { kind: Write, bytes, ..read_of(tenant, 0.001) };
    scheduler.enqueue(request, ms(0)).unwrap()
}

fn sent(scheduler: &mut Scheduler) -> Vec<RequestId> {
    let mut sent = vec![];
    while let Next::Send(next) = scheduler.next(ms(0)) {
        sent.push(next.request);
    }
    sent
}

#[test]
fn two_groups_of_writes_are_outstanding_and_the_next_is_sent_when_one_is_done() {
    let mut scheduler = Scheduler::new(limits(WRITES), Ties::FirstCome).unwrap();
    let tenant = weighted(&mut scheduler, 1.0);
    let writes: Vec<_> = (0..4 * GROUP).map(|_| write(&mut scheduler, tenant, 128)).collect();
    assert_eq!(sent(&mut scheduler), writes[..2 * GROUP]);
    for id in &writes[..GROUP] {
        scheduler.complete(*id, None, ms(0));
    }
    assert_eq!(sent(&mut scheduler), writes[2 * GROUP..3 * GROUP]);
    assert_eq!(scheduler.outstanding(), WRITES);
}

#[test]
fn large_writes_are_held_back_by_their_bytes() {
    let mut scheduler = Scheduler::new(limits(WRITES), Ties::FirstCome).unwrap();
    let tenant = weighted(&mut scheduler, 1.0);
    let writes: Vec<_> = (0..WRITES).map(|_| write(&mut scheduler, tenant, 256 << 10)).collect();
    assert_eq!(sent(&mut scheduler), writes[..6]);
}

#[test]
fn a_promised_write_goes_first_when_a_group_is_done() {
    let mut scheduler = Scheduler::new(limits(WRITES), Ties::FirstCome).unwrap();
    let high = promised(&mut scheduler, 0, &[(0.5, 10.0)]);
    let low = weighted(&mut scheduler, 1.0);
    let writes: Vec<_> = (0..2 * WRITES).map(|_| write(&mut scheduler, low, 128)).collect();
    assert_eq!(sent(&mut scheduler).len(), WRITES);
    let urgent = write(&mut scheduler, high, 128);
    assert_eq!(sent(&mut scheduler), [], "the target has all that it may");
    for id in &writes[..GROUP] {
        scheduler.complete(*id, None, ms(0));
    }
    let next = sent(&mut scheduler);
    assert_eq!((next[0], next.len()), (urgent, GROUP));
}

const SYNC: Duration = Duration::from_micros(160);
const OWN_WORK: Duration = Duration::from_micros(10);

/// The work of a write: its own work, plus its part of the two syncs of a full target.
fn work(writes: usize) -> Duration {
    OWN_WORK + 2 * SYNC / u32::try_from(writes).unwrap()
}

/// A tenant with writes at these times.
fn tenant(settings: TenantSettings, writes: usize, times: &[Duration]) -> SimulatedTenant {
    let step = Step { queue: 0, work: work(writes) };
    let request = |at: &Duration| SimulatedRequest {
        at: *at,
        kind: Write,
        bytes: 128,
        legs: vec![vec![step]],
    };
    SimulatedTenant { settings: vec![(0, settings)], requests: times.iter().map(request).collect() }
}

/// The latencies of tenants at a target that allows this many outstanding writes.
fn latencies(writes: usize, next: NextGroup, tenants: Vec<SimulatedTenant>) -> Vec<Vec<Duration>> {
    let device = SimulatedDevice::Groups { sync: SYNC, next };
    let queue = SimulatedQueue { limits: limits(writes), ties: Ties::FirstCome, device };
    simulate(&Scenario { queues: vec![queue], tenants }).unwrap()
}

#[test]
fn more_outstanding_writes_share_each_sync() {
    let finished = |writes| {
        let tenants = vec![tenant(TenantSettings::weighted(1.0), writes, &[ms(0); 4096])];
        *latencies(writes, NextGroup::AtOnce, tenants)[0].iter().max().unwrap()
    };
    let (few, many) = (finished(16), finished(WRITES));
    assert!(few > many * 3 / 2, "{few:?} with 16 writes outstanding, {many:?} with {WRITES}");
}

#[test]
fn a_promised_write_waits_for_outstanding_writes_and_for_its_own_group() {
    // All but one of the allowed writes are outstanding when the promised write arrives. As soon as
    // some of them are done, the next writes join the group of the promised write.
    let others = vec![ms(0); 4 * WRITES - 1];
    let full = work(WRITES) * u32::try_from(WRITES).unwrap();
    let bound = Commits::InGroups.blocking_seconds(0.0, full.as_secs_f64());
    let mut longest = Duration::ZERO;
    for next in [NextGroup::AtOnce, NextGroup::Gathered] {
        for micros in (0..3000).step_by(10) {
            let at = Duration::from_micros(micros);
            let low = tenant(TenantSettings::weighted(1.0), WRITES, &others);
            let high = TenantSettings::promised(0, vec![bucket(0.1, 0.001)]);
            let tenants = vec![low, tenant(high, WRITES, &[at])];
            longest = longest.max(latencies(WRITES, next, tenants)[1][0]);
        }
    }
    assert!(longest.as_secs_f64() <= bound + work(WRITES).as_secs_f64(), "{longest:?}");
    assert!(longest > full, "{longest:?}: what is outstanding takes {full:?}");
}
