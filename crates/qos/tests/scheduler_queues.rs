//! Tests of the scheduler's queues: their limits, deadlines and settings.

mod scheduling;

use nacre_object::{Error, ErrorKind};
use nacre_qos::scheduler::{
    DeviceLimits, KindLimits, NewRequest, Next, Refused, Scheduler, TenantSettings, Ties, Work,
};
use scheduling::{bucket, device, drain, enqueue, ms, promised, read_of, weighted};

#[test]
fn a_full_queue_refuses_with_the_time_to_wait() {
    let mut scheduler = device(1);
    let settings =
        TenantSettings { queue_requests: 2, ..TenantSettings::promised(0, vec![bucket(0.5, 1.0)]) };
    let tenant = scheduler.add_tenant(settings, ms(0)).unwrap();
    for _ in 0..2 {
        enqueue(&mut scheduler, tenant, 0.25, ms(0));
    }
    // Half a second of work at half a second a second.
    let refused = scheduler.enqueue(read_of(tenant, 0.25), ms(0)).unwrap_err();
    assert_eq!(refused, Refused::QueueFull(ms(1000)));
    let error = Error::from(refused);
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.to_string().contains("try again in 1000 ms"), "{error}");
    assert!(matches!(scheduler.next(ms(0)), Next::Send(_)));
    assert!(scheduler.enqueue(read_of(tenant, 0.25), ms(0)).is_ok());
}

#[test]
fn a_queue_is_bounded_in_bytes_too() {
    let mut scheduler = device(1);
    let settings = TenantSettings { queue_bytes: 8192, ..TenantSettings::weighted(1.0) };
    let tenant = scheduler.add_tenant(settings, ms(0)).unwrap();
    for _ in 0..2 {
        enqueue(&mut scheduler, tenant, 0.1, ms(0));
    }
    let refused = scheduler.enqueue(read_of(tenant, 0.1), ms(0)).unwrap_err();
    assert!(matches!(refused, Refused::QueueFull(_)), "{refused:?}");
}

#[test]
fn a_request_that_would_miss_its_deadline_is_refused_at_once() {
    let mut scheduler = device(1);
    let tenant = promised(&mut scheduler, 0, &[(0.5, 1.0)]);
    enqueue(&mut scheduler, tenant, 0.5, ms(0));
    let with = |deadline| NewRequest { deadline: Some(ms(deadline)), ..read_of(tenant, 0.1) };
    let refused = scheduler.enqueue(with(900), ms(0)).unwrap_err();
    assert_eq!(refused, Refused::TooLate(ms(1000)));
    assert!(scheduler.enqueue(with(1000), ms(0)).is_ok());
}

#[test]
fn a_request_whose_deadline_passes_in_the_queue_is_answered_and_not_sent() {
    let mut scheduler = device(1);
    let tenant = weighted(&mut scheduler, 1.0);
    enqueue(&mut scheduler, tenant, 0.5, ms(0));
    assert!(matches!(scheduler.next(ms(0)), Next::Send(_)));
    let request = NewRequest { deadline: Some(ms(200)), ..read_of(tenant, 0.1) };
    let id = scheduler.enqueue(request, ms(0)).unwrap();
    assert_eq!(scheduler.next(ms(199)), Next::Nothing { deadline: Some(ms(200)) });
    assert_eq!(scheduler.next(ms(200)), Next::Expired(id));
    assert_eq!(scheduler.next(ms(200)), Next::Nothing { deadline: None });
    assert_eq!(scheduler.queued(), 0);
}

#[test]
fn a_cancelled_request_costs_no_tokens() {
    let mut scheduler = device(1);
    let tenant = promised(&mut scheduler, 0, &[(0.1, 1.0)]);
    let id = enqueue(&mut scheduler, tenant, 0.5, ms(0));
    assert!(scheduler.cancel(tenant, id, ms(0)));
    assert!(!scheduler.cancel(tenant, id, ms(0)));
    assert_eq!(scheduler.tenant(tenant, ms(0)).unwrap().tokens_seconds, [1.0]);
    assert_eq!(scheduler.next(ms(0)), Next::Nothing { deadline: None });
}

#[test]
fn new_settings_apply_at_once_and_give_no_second_burst() {
    let mut scheduler = device(1);
    let tenant = promised(&mut scheduler, 1, &[(0.1, 0.2)]);
    let other = promised(&mut scheduler, 0, &[(0.1, 1.0)]);
    enqueue(&mut scheduler, tenant, 0.2, ms(0));
    assert_eq!(drain(&mut scheduler, ms(0)), [(tenant, true)]);
    for owner in [other, tenant] {
        enqueue(&mut scheduler, owner, 0.1, ms(0));
    }
    // The tenant is first now, and has used 0.2 s of its burst of 0.3 s.
    let more = TenantSettings::promised(0, vec![bucket(0.1, 0.3)]);
    scheduler.set_tenant(tenant, more, ms(0)).unwrap();
    let less = TenantSettings::promised(1, vec![bucket(0.1, 1.0)]);
    scheduler.set_tenant(other, less, ms(0)).unwrap();
    enqueue(&mut scheduler, tenant, 0.1, ms(0));
    let sent = drain(&mut scheduler, ms(0));
    assert_eq!(sent, [(tenant, true), (other, true), (tenant, false)]);
}

#[test]
fn a_removed_tenant_returns_its_waiting_requests() {
    let mut scheduler = device(2);
    let tenant = promised(&mut scheduler, 0, &[(0.1, 1.0)]);
    let sent = enqueue(&mut scheduler, tenant, 0.1, ms(0));
    assert!(matches!(scheduler.next(ms(0)), Next::Send(_)));
    let waiting = enqueue(&mut scheduler, tenant, 0.1, ms(0));
    assert_eq!(scheduler.remove_tenant(tenant), [waiting]);
    assert_eq!(scheduler.remove_tenant(tenant), []);
    let refused = scheduler.enqueue(read_of(tenant, 0.1), ms(0)).unwrap_err();
    assert_eq!(Error::from(refused).kind(), ErrorKind::NotFound);
    // A later tenant of the same slot is not charged for the removed one.
    let next = promised(&mut scheduler, 0, &[(0.1, 1.0)]);
    assert!(scheduler.complete(sent, Some(5.0), ms(0)));
    assert_eq!(scheduler.tenant(next, ms(0)).unwrap().tokens_seconds, [1.0]);
    assert_eq!(scheduler.next(ms(0)), Next::Nothing { deadline: None });
}

#[test]
fn invalid_settings_are_refused() {
    let mut scheduler = device(1);
    let wrong = [
        TenantSettings::promised(0, vec![]),
        TenantSettings::promised(0, vec![bucket(0.1, 1.0); 17]),
        TenantSettings::promised(0, vec![bucket(-0.1, 1.0)]),
        TenantSettings::promised(0, vec![bucket(f64::NAN, 1.0)]),
        TenantSettings::promised(0, vec![bucket(0.1, 0.0)]),
        TenantSettings::weighted(0.0),
        TenantSettings::weighted(f64::NAN),
        TenantSettings::weighted(1e6),
    ];
    for settings in wrong {
        let error = scheduler.add_tenant(settings.clone(), ms(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{settings:?}");
    }
    for work in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(Work::seconds(work).is_err(), "{work}");
    }
    let nothing = KindLimits { requests: 0, bytes: 1 };
    let limits = DeviceLimits { reads: nothing, ..DeviceLimits::default() };
    assert_eq!(Scheduler::new(limits, Ties::Turns).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn the_default_device_limits_are_those_of_the_public_enforcer() {
    let limits = DeviceLimits::default();
    assert_eq!((limits.reads.requests, limits.reads.bytes), (48, 1_572_864));
    assert_eq!((limits.writes.requests, limits.writes.bytes), (96, 3_145_728));
}

#[test]
fn settings_survive_json() {
    for settings in
        [TenantSettings::promised(3, vec![bucket(0.25, 0.5)]), TenantSettings::weighted(2.0)]
    {
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<TenantSettings>(&text).unwrap(), settings);
    }
}

#[test]
fn a_burst_after_silence_is_refused_only_once_its_rate_of_service_is_known() {
    let mut scheduler = device(1);
    let tenant = weighted(&mut scheduler, 1.0);
    let with = |deadline| NewRequest { deadline: Some(ms(deadline)), ..read_of(tenant, 0.01) };
    for _ in 0..100 {
        scheduler.enqueue(with(5000), ms(0)).unwrap();
    }
    // The device completes ten requests in a second. So the 90 requests that still wait need nine
    // seconds.
    for tenth in 1..=10 {
        let Next::Send(sent) = scheduler.next(ms(100 * (tenth - 1))) else { panic!("none waits") };
        assert!(scheduler.complete(sent.request, None, ms(100 * tenth)));
    }
    let refused = scheduler.enqueue(with(6000), ms(1000)).unwrap_err();
    assert!(matches!(refused, Refused::TooLate(wait) if wait > ms(8000)), "{refused:?}");
    assert!(scheduler.enqueue(with(15_000), ms(1000)).is_ok());
}
