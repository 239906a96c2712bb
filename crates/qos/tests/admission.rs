//! Tests of admission: which tenants are admitted together, and what a refusal says.

mod common;

use common::{curve, device, name, random_curve};
use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_object::ErrorKind;
use nacre_qos::{
    Admission, Alternative, BoundsQuestion, Candidate, FirstFit, PlacedTenant, Queue, QueueFlow,
    Sharing, Verdict, bounds, first_fit, meets,
};

const CASES: SeedCases =
    SeedCases { file: "admission_seeds.txt", text: include_str!("admission_seeds.txt") };

fn admission(queues: usize) -> Admission {
    Admission::new((0..queues).map(device).collect(), 0).unwrap()
}

fn candidate(tenant: &str, slo_seconds: f64, lines: &[(f64, f64)]) -> Candidate {
    let flow = QueueFlow { queue: 0, curve: curve(lines) };
    Candidate::on_devices(name(tenant), slo_seconds, vec![flow])
}

fn admit(admission: &mut Admission, candidate: Candidate) -> Verdict {
    admission.admit(candidate).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_tenant_gets_the_least_rate_that_keeps_its_slo() {
    let mut admission = admission(1);
    // The curve's corners are a rate of 0.75 with a burst of 1 s, and a rate of 0.125 with a burst
    // of 4 s. An SLO of 2 s allows a burst of 2 s, between the two corners.
    let verdict = admit(&mut admission, candidate("a", 2.0, &[(0.75, 1.0), (0.125, 4.0)]));
    assert_eq!(verdict, Verdict::Admitted);
    let own = admission.tenants()[0].buckets[0];
    let burst = 2.0 * 0.999 * 0.999;
    assert!((own.burst_seconds - burst).abs() < 1e-6, "{own:?}");
    let rate = 0.75 - (burst - 1.0) / 3.0 * 0.625;
    assert!((own.rate - rate).abs() < 1e-6, "{own:?}");
}

#[test]
fn a_rejected_newcomer_changes_nothing() {
    let mut admission = admission(1);
    admit(&mut admission, candidate("a", 1.0, &[(0.5, 0.1), (0.2, 0.6)]));
    admit(&mut admission, candidate("b", 2.0, &[(0.5, 0.1), (0.2, 0.6)]));
    let before = admission.clone();
    let verdict = admit(&mut admission, candidate("c", 0.5, &[(0.4, 0.45)]));
    assert_eq!(verdict, Verdict::Refused);
    assert_eq!(admission, before);
}

#[test]
fn a_newcomer_may_change_the_buckets_of_others() {
    let mut admission = admission(1);
    admit(&mut admission, candidate("a", 1.0, &[(0.6, 0.1), (0.2, 0.9)]));
    let alone = admission.tenants()[0].buckets[0];
    let verdict = admit(&mut admission, candidate("b", 1.0, &[(0.2, 0.4)]));
    assert_eq!(verdict, Verdict::Admitted);
    let shared = admission.tenants()[0].buckets[0];
    assert!(shared.rate > alone.rate && shared.burst_seconds < alone.burst_seconds);
}

#[test]
fn tenants_that_share_no_queue_with_a_newcomer_keep_their_buckets() {
    let mut admission = admission(2);
    admit(&mut admission, candidate("a", 1.0, &[(0.6, 0.1), (0.2, 0.9)]));
    let before = admission.tenants()[0].clone();
    let flow = QueueFlow { queue: 1, curve: curve(&[(0.9, 0.5)]) };
    let other = Candidate::on_devices(name("b"), 1.0, vec![flow]);
    assert_eq!(admit(&mut admission, other), Verdict::Admitted);
    assert_eq!(admission.tenants()[0], before);
}

#[test]
fn the_shorter_slo_is_served_first() {
    let mut admission = admission(1);
    for (tenant, slo) in [("a", 1.0), ("b", 0.5), ("c", 2.0), ("d", 1.0)] {
        admit(&mut admission, candidate(tenant, slo, &[(0.1, 0.05)]));
    }
    assert_eq!(admission.priorities(), [1, 0, 2, 1]);
}

#[test]
fn an_evicted_tenant_makes_room() {
    let mut admission = admission(1);
    admit(&mut admission, candidate("a", 1.0, &[(0.6, 0.3)]));
    assert_eq!(admit(&mut admission, candidate("b", 1.0, &[(0.6, 0.3)])), Verdict::Refused);
    assert!(admission.evict(&name("a")));
    assert!(!admission.evict(&name("a")));
    assert_eq!(admit(&mut admission, candidate("b", 1.0, &[(0.6, 0.3)])), Verdict::Admitted);
}

#[test]
fn an_invalid_candidate_is_an_error() {
    let mut admission = admission(1);
    let good = candidate("a", 1.0, &[(0.1, 0.1)]);
    let flow = |queue| QueueFlow { queue, curve: curve(&[(0.1, 0.1)]) };
    let mut wrong = vec![];
    for slo_seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        wrong.push(Candidate { slo_seconds, ..good.clone() });
    }
    wrong.push(Candidate { flows: vec![], legs: vec![], ..good.clone() });
    wrong.push(Candidate { flows: vec![flow(1)], ..good.clone() });
    wrong.push(Candidate { flows: vec![flow(0), flow(0)], legs: vec![vec![0, 1]], ..good.clone() });
    wrong.push(Candidate { legs: vec![vec![0], vec![1]], ..good.clone() });
    wrong.push(Candidate { legs: vec![vec![]], ..good.clone() });
    for candidate in wrong {
        let error = admission.admit(candidate.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{candidate:?}");
    }
    assert_eq!(admit(&mut admission, good.clone()), Verdict::Admitted);
    assert_eq!(admission.admit(good).unwrap_err().kind(), ErrorKind::Exists);
    let queue = Queue { blocking_seconds: f64::NAN, ..device(0) };
    assert!(Admission::new(vec![queue], 0).is_err());
}

#[test]
fn a_curve_of_another_placement_is_stale() {
    let mut admission = Admission::new(vec![device(0)], 7).unwrap();
    let old = Candidate { placement_epoch: 6, ..candidate("a", 1.0, &[(0.1, 0.1)]) };
    assert_eq!(admission.admit(old.clone()).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(admit(&mut admission, Candidate { placement_epoch: 7, ..old }), Verdict::Admitted);
}

#[test]
fn a_change_of_the_placement_admits_all_tenants_anew() {
    let mut admission = admission(2);
    let flow = |queue| QueueFlow { queue, curve: curve(&[(0.6, 0.3)]) };
    let on = |tenant, queue| Candidate::on_devices(name(tenant), 1.0, vec![flow(queue)]);
    admit(&mut admission, on("a", 0));
    admit(&mut admission, on("b", 1));
    // In the new placement, the objects of both tenants are on one target.
    let moved = |tenant| Candidate { placement_epoch: 1, ..on(tenant, 1) };
    let (anew, refused) = admission.readmit(1, vec![moved("a"), moved("b")]).unwrap();
    assert_eq!(refused, [name("b")]);
    assert_eq!((anew.placement_epoch(), anew.tenants().len()), (1, 1));
    let old = admission.readmit(2, vec![moved("a")]).unwrap_err();
    assert_eq!(old.kind(), ErrorKind::Stale);
}

#[test]
fn outstanding_requests_count_against_the_slo() {
    let blocked = Queue { blocking_seconds: 0.6, ..device(0) };
    let mut admission = Admission::new(vec![blocked], 0).unwrap();
    assert_eq!(admit(&mut admission, candidate("a", 1.0, &[(0.1, 0.5)])), Verdict::Refused);
    assert_eq!(admit(&mut admission, candidate("a", 1.2, &[(0.1, 0.5)])), Verdict::Admitted);
    assert!((admission.latencies()[0].unwrap() - 1.1).abs() < 1e-3);
}

#[test]
fn latencies_of_stages_add_up_and_those_of_parallel_legs_do_not() {
    let flows: Vec<_> =
        (0..2).map(|queue| QueueFlow { queue, curve: curve(&[(0.1, 0.6)]) }).collect();
    let beside = Candidate::on_devices(name("a"), 1.0, flows);
    let in_series = Candidate { legs: vec![vec![0, 1]], ..beside.clone() };
    assert_eq!(admit(&mut admission(2), beside), Verdict::Admitted);
    assert_eq!(admit(&mut admission(2), in_series.clone()), Verdict::Refused);
    let mut admission = admission(2);
    let longer = Candidate { slo_seconds: 1.3, ..in_series };
    assert_eq!(admit(&mut admission, longer), Verdict::Admitted);
    assert!((admission.latencies()[0].unwrap() - 1.2).abs() < 1e-3);
}

#[test]
fn uniform_buckets_are_equal_and_enough_for_each_queue() {
    let lines: [&[(f64, f64)]; 2] = [&[(0.5, 0.1), (0.2, 0.6)], &[(0.4, 0.3)]];
    let flows = lines.iter().enumerate();
    let flows =
        flows.map(|(queue, lines)| QueueFlow { queue, curve: curve(lines) }).collect::<Vec<_>>();
    let own = Candidate::on_devices(name("a"), 1.0, flows);
    let uniform = Candidate { sharing: Sharing::Uniform, ..own.clone() };
    let mut admission = admission(2);
    assert_eq!(admit(&mut admission, uniform), Verdict::Admitted);
    let buckets = &admission.tenants()[0].buckets;
    assert_eq!(buckets[0], buckets[1]);
    for (bucket, flow) in buckets.iter().zip(&own.flows) {
        assert!(bucket.burst_seconds >= flow.curve.burst_at(bucket.rate).unwrap());
    }
}

#[test]
fn a_refusal_names_the_missed_promises_and_what_would_fit() {
    let mut admission = admission(2);
    admit(&mut admission, candidate("first", 0.012, &[(0.3, 0.008)]));
    let late = candidate("late", 0.012, &[(0.3, 0.006)]);
    let moved = QueueFlow { queue: 1, curve: curve(&[(0.3, 0.006)]) };
    let alternative = Alternative {
        what: "with its objects on target 1".to_owned(),
        candidate: Candidate::on_devices(name("late"), 0.012, vec![moved]),
    };
    let none = admission.refusal(&alternative.candidate, &[]).unwrap();
    assert_eq!(none, None);
    let refusal = admission.refusal(&late, &[alternative]).unwrap().unwrap();
    let misses: Vec<_> = refusal.misses.iter().map(|miss| miss.tenant.as_str()).collect();
    assert_eq!(misses, ["first", "late"]);
    for miss in &refusal.misses {
        assert!((miss.latency_seconds.unwrap() - 0.014).abs() < 1e-6, "{miss:?}");
    }
    let text = refusal.to_string();
    assert!(
        text.starts_with(
            "late is refused with 12.0 ms by the deterministic bound; first would miss its 12.0 ms by 2.000 ms"
        ),
        "{text}"
    );
    assert!(text.contains("instead of 12.0 ms"), "{text}");
    assert!(text.ends_with("with its objects on target 1"), "{text}");
    // The SLO that the refusal proposes is admitted. A 5% shorter one is not.
    let slo_seconds = refusal.fit.slo_seconds.unwrap();
    assert!(admission.fits(&Candidate { slo_seconds, ..late.clone() }).unwrap());
    assert!(!admission.fits(&Candidate { slo_seconds: slo_seconds * 0.95, ..late }).unwrap());
}

#[test]
fn a_refusal_for_too_much_work_says_what_rate_would_fit() {
    let mut admission = admission(1);
    admit(&mut admission, candidate("first", 1.0, &[(0.6, 0.01)]));
    let late = candidate("late", 2.0, &[(0.8, 0.01)]);
    let refusal = admission.refusal(&late, &[]).unwrap().unwrap();
    assert!((refusal.overloads[0].rate - 1.4).abs() < 1e-12);
    assert_eq!(refusal.misses.len(), 1);
    assert_eq!(refusal.misses[0].latency_seconds, None);
    let share = refusal.fit.rate_share.unwrap();
    assert!((share - 0.399 / 0.8).abs() < 2e-3, "{share}");
    assert!(admission.fits(&candidate("late", 2.0, &[(0.8 * share, 0.01)])).unwrap());
    assert_eq!(refusal.fit.slo_seconds, None);
    let text = refusal.to_string();
    assert!(text.contains("target-0 would have 140.0% of the work that it can do"), "{text}");
    assert!(text.contains("late would miss its 2000 ms without bound"), "{text}");
}

/// Tenants on some of three devices, in series or in parallel.
fn random_candidate(random: &mut Random, number: usize) -> Candidate {
    let slo_seconds = [0.05, 0.1, 0.2, 0.2, 0.5][random.below(5) as usize];
    let mut queues = vec![0, 1, 2];
    for _ in 0..random.below(3) {
        queues.remove(random.below(queues.len() as u64) as usize);
    }
    let flows: Vec<_> = queues
        .into_iter()
        .map(|queue| QueueFlow { queue, curve: random_curve(random, 0.1, slo_seconds / 3.0) })
        .collect();
    let mut candidate = Candidate::on_devices(name(&format!("t{number}")), slo_seconds, flows);
    if random.one_in(3) {
        candidate.legs = vec![(0..candidate.flows.len()).collect()];
    }
    if random.one_in(4) {
        candidate.sharing = Sharing::Uniform;
    }
    candidate
}

#[test]
fn every_admitted_tenant_keeps_its_promise_while_others_come_and_go() {
    let (mut admitted, mut refused) = (0, 0);
    CASES.each(40, |seed| {
        let mut random = Random::seeded(seed);
        let mut admission = admission(3);
        for number in 0..20 {
            if random.one_in(6) && !admission.tenants().is_empty() {
                let leaver = random.pick(admission.tenants()).unwrap().candidate.tenant.clone();
                admission.evict(&leaver);
            }
            let before = admission.clone();
            match admit(&mut admission, random_candidate(&mut random, number)) {
                Verdict::Admitted => admitted += 1,
                Verdict::Refused => {
                    refused += 1;
                    assert_eq!(admission, before);
                }
            }
            for (tenant, latency) in admission.tenants().iter().zip(admission.latencies()) {
                assert!(meets(latency, tenant.candidate.slo_seconds), "{tenant:?}: {latency:?}");
                for (bucket, flow) in tenant.buckets.iter().zip(&tenant.candidate.flows) {
                    let least = flow.curve.burst_at(bucket.rate).unwrap();
                    assert!(bucket.burst_seconds >= least, "below the r-b curve");
                }
            }
        }
    });
    println!("{admitted} admitted, {refused} refused");
    assert!(admitted > 100 && refused > 100, "{admitted} admitted, {refused} refused");
}

#[test]
fn fast_first_fit_places_as_plain_first_fit_does() {
    CASES.each(4, |seed| {
        let mut random = Random::seeded(seed);
        let tenants: Vec<_> = (0..40)
            .map(|number| {
                let slo_seconds = [0.05, 0.1, 0.2][random.below(3) as usize];
                PlacedTenant {
                    tenant: name(&format!("t{number}")),
                    slo_seconds,
                    violation: random.one_in(3).then_some(0.01),
                    curve: random_curve(&mut random, 1.2, slo_seconds / 2.0),
                }
            })
            .collect();
        let targets: Vec<_> = (0..6).map(device).collect();
        let plain = first_fit(targets.clone(), tenants.clone(), FirstFit::Plain).unwrap();
        let fast = first_fit(targets, tenants, FirstFit::Fast).unwrap();
        assert_eq!(plain.targets, fast.targets);
        assert_eq!(plain.admission, fast.admission);
        assert!(fast.programs < plain.programs, "{} of {}", fast.programs, plain.programs);
        let placed = plain.targets.iter().flatten().count();
        assert_eq!(placed, plain.admission.tenants().len());
        assert!(placed > 6, "{placed}");
    });
}

#[test]
fn tiny_coefficients_make_no_bucket_unsafe() {
    CASES.each(60, |seed| {
        let mut random = Random::seeded(seed);
        let mut admission = admission(1);
        for number in 0..4 {
            // Bursts of microseconds with SLOs of seconds give coefficients down to 1e-8.
            let lines: Vec<_> = (0..12)
                .map(|at| {
                    let rate = 0.2 - 0.015 * f64::from(at) - random.below(100) as f64 * 1e-7;
                    (rate, 1e-6 + f64::from(at * at) * 3e-8 * (1 + random.below(9)) as f64)
                })
                .collect();
            let slo = [1e-5, 1e-3, 1.0, 10.0][random.below(4) as usize];
            admit(&mut admission, candidate(&format!("t{number}"), slo, &lines));
        }
        for (tenant, latency) in admission.tenants().iter().zip(admission.latencies()) {
            assert!(meets(latency, tenant.candidate.slo_seconds));
            let bucket = tenant.buckets[0];
            let flow = &tenant.candidate.flows[0];
            assert!(flow.curve.shaper_delay(bucket).unwrap() < 1e-15);
        }
        assert!(!admission.tenants().is_empty());
    });
}

/// The lowest sum of rates for two tenants at one queue. It tries every corner of the linear
/// program.
fn least_rates(tenants: [(&[(f64, f64)], f64); 2]) -> Option<f64> {
    // The four variables are the rate and the burst of each tenant. Each row has their four
    // coefficients and the least value of the weighted sum.
    let mut rows: Vec<([f64; 4], f64)> = vec![];
    let usable = tenants.map(|(_, slo)| slo * 0.999);
    for (at, (lines, _)) in tenants.iter().enumerate() {
        let mut row = |rate: f64, burst: f64, least: f64| {
            let mut coefficients = [0.0; 4];
            (coefficients[2 * at], coefficients[2 * at + 1]) = (rate, burst);
            rows.push((coefficients, least));
        };
        for pair in lines.windows(2) {
            let [(r1, b1), (r2, b2)] = [pair[0], pair[1]];
            row(b2 - b1, r1 - r2, r1 * b2 - r2 * b1);
        }
        row(0.0, 1.0, lines[0].1);
        row(1.0, 0.0, lines[lines.len() - 1].0);
        row(-1.0, 0.0, -0.999);
        row(0.0, -1.0, -0.999 * usable[at]);
        let other = 1 - at;
        let slo = usable[at];
        let mut promise = [0.0; 4];
        promise[2 * at + 1] = -1.0 / slo;
        if usable[other] <= slo {
            promise[2 * other + 1] = -1.0 / slo;
        }
        if usable[other] < slo {
            promise[2 * other] = -1.0;
        }
        rows.push((promise, -1.0));
    }
    rows.push(([-1.0, 0.0, -1.0, 0.0], -0.999));
    let mut least = None;
    let count = rows.len();
    for one in 0..count {
        for two in one + 1..count {
            for three in two + 1..count {
                for four in three + 1..count {
                    let Some(corner) = common::corner([one, two, three, four].map(|at| rows[at]))
                    else {
                        continue;
                    };
                    let is_inside = rows.iter().all(|(row, bound)| {
                        let value: f64 = row.iter().zip(&corner).map(|(a, x)| a * x).sum();
                        value >= bound - 1e-11
                    });
                    if is_inside {
                        let sum = corner[0] + corner[2];
                        least = Some(least.map_or(sum, |least: f64| least.min(sum)));
                    }
                }
            }
        }
    }
    least
}

#[test]
fn the_rates_equal_the_lowest_sum_at_any_corner_of_the_program() {
    let (mut admitted, mut refused) = (0, 0);
    CASES.each(40, |seed| {
        let mut random = Random::seeded(seed);
        let slo = [0, 1].map(|_| [0.05, 0.1, 0.2][random.below(3) as usize]);
        let curves = slo.map(|slo| random_curve(&mut random, 1.0, slo * 1.2));
        let lines = curves.each_ref().map(|curve| {
            curve.lines().iter().map(|line| (line.rate, line.burst_seconds)).collect::<Vec<_>>()
        });
        let least = least_rates([(&lines[0], slo[0]), (&lines[1], slo[1])]);
        let mut admission = admission(1);
        let both = [0, 1].map(|at| {
            let tenant = format!("t{at}");
            admit(&mut admission, candidate(&tenant, slo[at], &lines[at]))
        });
        let is_admitted = both == [Verdict::Admitted; 2];
        assert_eq!(is_admitted, least.is_some(), "{least:?}");
        if let Some(least) = least {
            admitted += 1;
            let sum: f64 = admission.tenants().iter().map(|tenant| tenant.buckets[0].rate).sum();
            assert!((sum - least).abs() < 1e-8, "{sum} in place of {least}");
        } else {
            refused += 1;
        }
    });
    println!("{admitted} admitted, {refused} refused");
    assert!(admitted > 5 && refused > 5, "{admitted} admitted, {refused} refused");
}

#[test]
fn the_bounds_of_given_buckets_equal_the_values_computed_by_hand() {
    let text = r#"{"queues": [{"name": "disk"}], "tenants": [
        {"tenant": "a", "slo_seconds": 2, "flows": [{"queue": "disk", "rate": 0.25, "burst_seconds": 0.5}]},
        {"tenant": "b", "slo_seconds": 2, "flows": [{"queue": "disk", "rate": 0.125, "burst_seconds": 1}]},
        {"tenant": "c", "slo_seconds": 6, "flows": [{"queue": "disk", "rate": 0.125, "burst_seconds": 0.25}]},
        {"tenant": "d", "slo_seconds": 6, "flows": [{"queue": "disk", "rate": 0.5, "burst_seconds": 2.25}]}]}"#;
    let question: BoundsQuestion = serde_json::from_str(text).unwrap();
    let bounds = bounds(&question).unwrap();
    let latencies: Vec<_> = bounds.iter().map(|bound| bound.latency_seconds).collect();
    assert_eq!(latencies, [Some(1.5), Some(1.5), Some(6.4), Some(6.4)]);
    let kept: Vec<_> = bounds.iter().map(|bound| bound.is_kept).collect();
    assert_eq!(kept, [true, true, false, false]);
}

#[test]
fn bounds_of_traffic_at_a_missing_queue_are_refused() {
    let text = r#"{"queues": [], "tenants": [
        {"tenant": "a", "slo_seconds": 2, "flows": [{"queue": "disk", "rate": 0.25, "burst_seconds": 0.5}]}]}"#;
    let question: BoundsQuestion = serde_json::from_str(text).unwrap();
    let error = bounds(&question).unwrap_err().to_string();
    assert!(error.contains("there is no queue \"disk\""), "{error}");
}
