//! The order of service, one behaviour a test.

mod scheduling;

use std::time::Duration;

use nacre_clock::Random;
use nacre_qos::IoKind::{self, Read, Write};
use nacre_qos::scheduler::{
    DeviceLimits, KindLimits, NewRequest, Next, RequestId, Scheduler, Share, TenantSettings, Ties,
    Work,
};
use scheduling::*;

#[test]
fn the_higher_priority_goes_first_within_the_limits() {
    let mut scheduler = device(1);
    let low = promised(&mut scheduler, 2, &[(0.1, 1.0)]);
    let high = promised(&mut scheduler, 1, &[(0.1, 1.0)]);
    for tenant in [low, high, low, high] {
        enqueue(&mut scheduler, tenant, 0.1, ms(0));
    }
    assert_eq!(order(&mut scheduler, ms(0)), [high, high, low, low]);
}

#[test]
fn equal_priorities_take_turns_in_the_order_of_the_thesis() {
    let limits = DeviceLimits {
        reads: KindLimits { requests: 1, bytes: 1 },
        writes: KindLimits { requests: 1, bytes: 1 },
    };
    let mut scheduler = Scheduler::new(limits, Ties::Turns).unwrap();
    let [one, other] = [0, 1].map(|_| promised(&mut scheduler, 1, &[(0.1, 1.0)]));
    for tenant in [one, one, one, other, other] {
        enqueue(&mut scheduler, tenant, 0.1, ms(0));
    }
    assert_eq!(order(&mut scheduler, ms(0)), [one, other, one, other, one]);
}

#[test]
fn the_request_that_came_first_goes_first_if_priorities_are_equal() {
    let mut scheduler = device(1);
    let [one, other] = [0, 1].map(|_| promised(&mut scheduler, 1, &[(0.1, 1.0)]));
    for tenant in [one, one, other, one, other] {
        enqueue(&mut scheduler, tenant, 0.1, ms(0));
    }
    assert_eq!(order(&mut scheduler, ms(0)), [one, one, other, one, other]);
}

#[test]
fn a_request_that_waited_for_tokens_is_ranked_by_the_time_of_its_tokens() {
    let mut scheduler = device(1);
    let busy = promised(&mut scheduler, 0, &[(0.5, 10.0)]);
    let [greedy, modest] = [0, 1].map(|_| promised(&mut scheduler, 1, &[(0.1, 0.1)]));
    enqueue(&mut scheduler, busy, 2.0, ms(0));
    let Next::Send(sent) = scheduler.next(ms(0)) else { panic!("the device idles") };
    // The bucket of the greedy tenant covers its second request after 1 s. The bucket of the modest
    // tenant covers its request after 0.5 s.
    enqueue(&mut scheduler, greedy, 0.1, ms(0));
    enqueue(&mut scheduler, greedy, 0.1, ms(0));
    enqueue(&mut scheduler, modest, 0.1, ms(500));
    scheduler.complete(sent.request, None, ms(2000));
    assert_eq!(drain(&mut scheduler, ms(2000)), [(greedy, true), (modest, true), (greedy, true)]);
}

#[test]
fn a_tenant_within_its_limits_goes_before_one_outside() {
    let mut scheduler = device(1);
    let greedy = promised(&mut scheduler, 0, &[(0.1, 0.1)]);
    let modest = promised(&mut scheduler, 9, &[(0.1, 1.0)]);
    for tenant in [greedy, greedy, greedy, modest, modest] {
        enqueue(&mut scheduler, tenant, 0.1, ms(0));
    }
    let sent = drain(&mut scheduler, ms(0));
    let expected =
        [(greedy, true), (modest, true), (modest, true), (greedy, false), (greedy, false)];
    assert_eq!(sent, expected);
}

#[test]
fn tenants_outside_their_limits_take_turns_regardless_of_priority() {
    let mut scheduler = device(1);
    let high = promised(&mut scheduler, 0, &[(0.1, 0.1)]);
    let low = promised(&mut scheduler, 9, &[(0.1, 0.1)]);
    for tenant in [low, low, low, high, high, high] {
        enqueue(&mut scheduler, tenant, 0.1, ms(0));
    }
    assert_eq!(order(&mut scheduler, ms(0)), [high, low, high, low, high, low]);
}

#[test]
fn every_bucket_must_cover_the_request() {
    let mut scheduler = device(1);
    let tenant = promised(&mut scheduler, 0, &[(0.1, 1.0), (0.5, 0.2)]);
    for _ in 0..3 {
        enqueue(&mut scheduler, tenant, 0.1, ms(0));
    }
    let sent: Vec<_> = drain(&mut scheduler, ms(0)).iter().map(|(_, within)| *within).collect();
    assert_eq!(sent, [true, true, false]);
}

#[test]
fn tokens_come_back_at_the_rate_of_the_bucket() {
    let mut scheduler = device(1);
    let tenant = promised(&mut scheduler, 0, &[(0.1, 0.1)]);
    let other = promised(&mut scheduler, 1, &[(0.1, 1.0)]);
    enqueue(&mut scheduler, tenant, 0.1, ms(0));
    assert_eq!(drain(&mut scheduler, ms(0)), [(tenant, true)]);
    enqueue(&mut scheduler, tenant, 0.05, ms(0));
    enqueue(&mut scheduler, other, 0.1, ms(0));
    // The bucket covers the request after 0.5 s.
    assert_eq!(drain(&mut scheduler, ms(499))[0], (other, true));
    enqueue(&mut scheduler, tenant, 0.05, ms(499));
    enqueue(&mut scheduler, other, 0.1, ms(499));
    let tokens = scheduler.tenant(tenant, ms(999)).unwrap().tokens_seconds[0];
    // The request outside the limits took only the tokens that were there.
    assert!((tokens - 0.05).abs() < 1e-9, "{tokens}");
    assert_eq!(drain(&mut scheduler, ms(999))[0], (tenant, true));
}

#[test]
fn a_tenant_that_keeps_to_its_limits_stays_within_them_while_it_waits() {
    let mut scheduler = device(1);
    let first = promised(&mut scheduler, 0, &[(0.5, 10.0)]);
    let second = promised(&mut scheduler, 1, &[(0.1, 0.1)]);
    enqueue(&mut scheduler, first, 2.0, ms(0));
    let Next::Send(busy) = scheduler.next(ms(0)) else { panic!("the device is idle") };
    // While the device is busy, the second tenant sends its burst at once, and then requests
    // exactly at its rate.
    enqueue(&mut scheduler, second, 0.1, ms(0));
    enqueue(&mut scheduler, second, 0.1, ms(1000));
    enqueue(&mut scheduler, second, 0.1, ms(2000));
    assert!(scheduler.complete(busy.request, None, ms(2000)));
    assert_eq!(drain(&mut scheduler, ms(2000)), [(second, true); 3]);
}

#[test]
fn a_request_larger_than_the_burst_passes_when_the_bucket_is_full() {
    let mut scheduler = device(1);
    let large = promised(&mut scheduler, 0, &[(0.1, 0.1)]);
    let other = promised(&mut scheduler, 1, &[(0.5, 1.0)]);
    enqueue(&mut scheduler, large, 0.05, ms(0));
    assert_eq!(drain(&mut scheduler, ms(0)), [(large, true)]);
    enqueue(&mut scheduler, large, 0.5, ms(0));
    enqueue(&mut scheduler, other, 0.1, ms(499));
    assert_eq!(scheduler.tenant(large, ms(499)).unwrap().queued_requests, 1);
    let Next::Send(sent) = scheduler.next(ms(499)) else { panic!("nothing is sent") };
    assert_eq!(sent.tenant, other);
    scheduler.complete(sent.request, None, ms(499));
    enqueue(&mut scheduler, other, 0.1, ms(500));
    assert_eq!(drain(&mut scheduler, ms(500)), [(large, true), (other, true)]);
    let tokens = scheduler.tenant(large, ms(500)).unwrap().tokens_seconds[0];
    assert!((tokens + 0.4).abs() < 1e-9, "the bucket owes what it lent: {tokens}");
}

#[test]
fn a_request_of_unknown_work_passes_unless_the_bucket_is_empty() {
    let mut scheduler = device(4);
    let tenant = promised(&mut scheduler, 0, &[(0.1, 0.1)]);
    let unknown = NewRequest { work: Work::UNKNOWN, ..read_of(tenant, 0.0) };
    let first = scheduler.enqueue(unknown, ms(0)).unwrap();
    let Next::Send(sent) = scheduler.next(ms(0)) else { panic!("nothing is sent") };
    assert!(sent.is_within);
    scheduler.complete(first, Some(0.3), ms(0));
    let tokens = scheduler.tenant(tenant, ms(0)).unwrap().tokens_seconds[0];
    assert!((tokens + 0.2).abs() < 1e-9, "{tokens}");
    scheduler.enqueue(unknown, ms(0)).unwrap();
    let Next::Send(sent) = scheduler.next(ms(1999)) else { panic!("the device idles") };
    assert!(!sent.is_within);
    scheduler.enqueue(unknown, ms(1999)).unwrap();
    let Next::Send(sent) = scheduler.next(ms(2001)) else { panic!("the device idles") };
    assert!(sent.is_within);
}

#[test]
fn the_true_work_of_a_completed_request_corrects_its_charge() {
    let mut scheduler = device(1);
    let tenant = promised(&mut scheduler, 0, &[(0.1, 1.0)]);
    let mut tokens_after = |charged, truly| {
        let id = enqueue(&mut scheduler, tenant, charged, ms(0));
        assert!(matches!(scheduler.next(ms(0)), Next::Send(_)));
        scheduler.complete(id, Some(truly), ms(0));
        scheduler.tenant(tenant, ms(0)).unwrap().tokens_seconds[0]
    };
    assert!((tokens_after(0.25, 0.5) - 0.5).abs() < 1e-9);
    assert!((tokens_after(0.5, 0.25) - 0.25).abs() < 1e-9);
    assert!((tokens_after(0.25, f64::NAN) - 0.0).abs() < 1e-9, "what is no number changes nothing");
}

/// A device that takes two reads, and writes up to 8 KiB, at a time.
fn two_and_two() -> Scheduler {
    let reads = KindLimits { requests: 2, bytes: 1 << 20 };
    let writes = KindLimits { requests: 9, bytes: 8192 };
    Scheduler::new(DeviceLimits { reads, writes }, Ties::FirstCome).unwrap()
}

fn send_all(scheduler: &mut Scheduler) -> Vec<RequestId> {
    let mut sent = vec![];
    while let Next::Send(next) = scheduler.next(ms(0)) {
        sent.push(next.request);
    }
    sent
}

#[test]
fn reads_and_writes_have_separate_room_at_the_device() {
    let mut scheduler = two_and_two();
    let [one, other] = [0, 1].map(|_| weighted(&mut scheduler, 1.0));
    let mut ids = vec![];
    for (tenant, kind) in [(one, Read), (other, Write)].repeat(3) {
        let request = NewRequest { kind, ..read_of(tenant, 0.1) };
        ids.push(scheduler.enqueue(request, ms(0)).unwrap());
    }
    assert_eq!(send_all(&mut scheduler), ids[..4]);
    // After a write is done, the next write goes, and the third read still waits.
    scheduler.complete(ids[1], None, ms(0));
    assert_eq!(send_all(&mut scheduler), [ids[5]]);
}

#[test]
fn no_request_of_lower_priority_is_sent_while_a_tenant_within_its_limits_waits_for_the_device() {
    let mut scheduler = two_and_two();
    let high = promised(&mut scheduler, 0, &[(0.5, 10.0)]);
    let low = promised(&mut scheduler, 1, &[(0.5, 10.0)]);
    let other = weighted(&mut scheduler, 1.0);
    let writes: Vec<_> = (0..3)
        .map(|_| {
            let request = NewRequest { kind: Write, ..read_of(high, 0.1) };
            scheduler.enqueue(request, ms(0)).unwrap()
        })
        .collect();
    let reads = [low, other].map(|tenant| enqueue(&mut scheduler, tenant, 0.1, ms(0)));
    assert_eq!(send_all(&mut scheduler), writes[..2]);
    scheduler.complete(writes[0], None, ms(0));
    assert_eq!(send_all(&mut scheduler), [writes[2], reads[0], reads[1]]);
}

#[test]
fn an_overdue_request_holds_back_requests_of_lower_priority() {
    let mut scheduler = device(2);
    let high = promised(&mut scheduler, 0, &[(0.5, 10.0)]);
    let low = promised(&mut scheduler, 1, &[(0.5, 10.0)]);
    let stuck = enqueue(&mut scheduler, high, 0.1, ms(0));
    assert!(matches!(scheduler.next(ms(0)), Next::Send(next) if next.request == stuck));
    // Four requests are a full device: two reads and two writes.
    for _ in 0..4 {
        let id = enqueue(&mut scheduler, low, 0.1, ms(0));
        assert!(matches!(scheduler.next(ms(0)), Next::Send(next) if next.request == id));
        scheduler.complete(id, None, ms(0));
    }
    enqueue(&mut scheduler, low, 0.1, ms(0));
    assert_eq!(scheduler.next(ms(0)), Next::Nothing { deadline: None });
    let urgent = enqueue(&mut scheduler, high, 0.1, ms(0));
    assert!(matches!(scheduler.next(ms(0)), Next::Send(next) if next.request == urgent));
    scheduler.complete(stuck, None, ms(0));
    assert!(matches!(scheduler.next(ms(0)), Next::Send(next) if next.tenant == low));
}

#[test]
fn tenants_without_a_promise_share_by_weight() {
    let mut scheduler = device(1);
    let heavy = weighted(&mut scheduler, 3.0);
    let light = weighted(&mut scheduler, 1.0);
    for _ in 0..400 {
        // The light tenant's requests are larger: work counts, not requests.
        enqueue(&mut scheduler, heavy, 0.01, ms(0));
        enqueue(&mut scheduler, light, 0.02, ms(0));
    }
    let first: Vec<_> = order(&mut scheduler, ms(0)).into_iter().take(350).collect();
    let work = |tenant, work: f64| first.iter().filter(|own| **own == tenant).count() as f64 * work;
    let ratio = work(heavy, 0.01) / work(light, 0.02);
    assert!((ratio - 3.0).abs() < 0.1, "{ratio}");
}

#[test]
fn a_tenant_that_is_charged_for_other_work_waits_until_the_others_have_as_much() {
    let mut scheduler = device(1);
    let [background, other] = [0.5, 1.0].map(|weight| weighted(&mut scheduler, weight));
    // Charges do not add up: one second of work, twice as much by the weight.
    scheduler.charge(background, 1.0, ms(0));
    scheduler.charge(background, 1.0, ms(0));
    enqueue(&mut scheduler, background, 0.1, ms(0));
    for _ in 0..25 {
        enqueue(&mut scheduler, other, 0.1, ms(0));
    }
    let order = order(&mut scheduler, ms(0));
    let at = order.iter().position(|tenant| *tenant == background).unwrap();
    assert!((20..=21).contains(&at), "after two seconds of the other's work: {at}");

    scheduler.charge(background, 9.0, ms(0));
    enqueue(&mut scheduler, background, 0.1, ms(0));
    assert_eq!(drain(&mut scheduler, ms(0)), [(background, false)], "nobody else waits");
}

#[test]
fn a_tenant_outside_its_limits_counts_as_one_of_weight_1() {
    let mut scheduler = device(1);
    let greedy = promised(&mut scheduler, 0, &[(0.001, 0.01)]);
    let others = [0, 1, 2].map(|_| weighted(&mut scheduler, 1.0));
    for _ in 0..100 {
        for tenant in [greedy, others[0], others[1], others[2]] {
            enqueue(&mut scheduler, tenant, 0.01, ms(0));
        }
    }
    let first: Vec<_> = order(&mut scheduler, ms(0)).into_iter().take(201).collect();
    for tenant in [greedy, others[0], others[1], others[2]] {
        let count = first.iter().filter(|own| **own == tenant).count();
        assert!((49..=52).contains(&count), "{count}");
    }
}

#[test]
fn a_tenant_that_was_idle_does_not_catch_up() {
    let mut scheduler = device(1);
    let [busy, idle] = [0, 1].map(|_| weighted(&mut scheduler, 1.0));
    for _ in 0..50 {
        enqueue(&mut scheduler, busy, 0.01, ms(0));
    }
    assert_eq!(drain(&mut scheduler, ms(0)).len(), 50);
    for _ in 0..50 {
        enqueue(&mut scheduler, busy, 0.01, ms(1000));
        enqueue(&mut scheduler, idle, 0.01, ms(1000));
    }
    let first: Vec<_> = order(&mut scheduler, ms(1000)).into_iter().take(20).collect();
    let count = first.iter().filter(|own| **own == idle).count();
    assert!((9..=11).contains(&count), "{count}");
}

/// The times at which a textbook shaper lets each request pass. The tokens of its buckets never
/// exceed the burst.
fn shaped(buckets: &[(f64, f64)], requests: &[(f64, f64)]) -> Vec<f64> {
    let mut tokens: Vec<_> = buckets.iter().map(|(_, burst)| *burst).collect();
    let mut now = 0.0;
    let mut leaves = vec![];
    for (arrival, work) in requests {
        let start = f64::max(now, *arrival);
        let refill = |tokens: &mut Vec<f64>, passed: f64| {
            for (own, (rate, burst)) in tokens.iter_mut().zip(buckets) {
                *own = (*own + rate * passed).min(*burst);
            }
        };
        refill(&mut tokens, start - now);
        let wait = tokens
            .iter()
            .zip(buckets)
            .map(|(own, (rate, burst))| (work.min(*burst) - own).max(0.0) / rate);
        let wait = wait.fold(0.0, f64::max);
        refill(&mut tokens, wait);
        now = start + wait;
        for own in &mut tokens {
            *own -= work;
        }
        leaves.push(now);
    }
    leaves
}

#[test]
fn a_waiting_request_is_within_limits_from_the_moment_a_shaper_would_let_it_go() {
    for seed in 0..200 {
        let mut random = Random::seeded(seed);
        let mut scheduler = device(1);
        let buckets: Vec<_> = (0..1 + random.below(3))
            .map(|_| ((1 + random.below(7)) as f64 / 8.0, (1 + random.below(32)) as f64 / 128.0))
            .collect();
        let tenant = promised(&mut scheduler, 5, &buckets);
        let mut at = 0;
        let requests: Vec<_> = (0..30)
            .map(|_| {
                at += random.below(400);
                (at as f64 / 1000.0, random.below(64) as f64 / 256.0)
            })
            .collect();
        let leaves = shaped(&buckets, &requests);
        // The scheduler sends the requests in order. It sends each one some time after the shaper
        // lets it pass, and never before.
        let (mut arrived, mut sent, mut now) = (0, 0, 0.0);
        while sent < requests.len() {
            let late = random.below(300) as f64 / 1000.0;
            let send_at = f64::max(now, leaves[sent]) + late;
            while arrived < requests.len() && requests[arrived].0 <= send_at {
                let (at, work) = requests[arrived];
                enqueue(&mut scheduler, tenant, work, Duration::from_secs_f64(at));
                arrived += 1;
            }
            now = send_at;
            let Next::Send(next) = scheduler.next(Duration::from_secs_f64(now)) else {
                panic!("seed {seed}: the device idles")
            };
            assert!(next.is_within, "seed {seed}: request {sent} at {now}");
            scheduler.complete(next.request, None, Duration::from_secs_f64(now));
            sent += 1;
        }
    }
}

#[test]
fn each_io_kind_is_at_its_index() {
    for (at, kind) in IoKind::ALL.into_iter().enumerate() {
        assert_eq!(kind.index(), at);
    }
    assert!(matches!(TenantSettings::weighted(1.0).share, Share::Weighted { .. }));
}
