//! Tests of arrival curves, with known values and random traces. No curve may lie below its trace.

use std::time::Duration;

use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_qos::limits::MAX_CURVE_SEGMENTS;
use nacre_qos::{ArrivalCurve, Envelope, RateBurst, Segment, Service, WorkArrival, WorkTrace};

const CASES: SeedCases =
    SeedCases { file: "curve_seeds.txt", text: include_str!("curve_seeds.txt") };

fn bucket(rate: f64, burst_seconds: f64) -> RateBurst {
    RateBurst { rate, burst_seconds }
}

fn segments(curve: &ArrivalCurve) -> Vec<(f64, f64, f64)> {
    let of = |segment: Segment| (segment.start_seconds, segment.work_seconds, segment.rate);
    curve.segments().into_iter().map(of).collect()
}

/// The curve that begins at `work` and has these starts and rates.
fn curve(work: f64, starts: &[f64], rates: &[f64]) -> ArrivalCurve {
    let mut lines = vec![bucket(rates[0], work)];
    for (at, rate) in rates.iter().enumerate().skip(1) {
        let last = lines[at - 1];
        let work = last.work_within(starts[at]);
        lines.push(bucket(*rate, work - rate * starts[at]));
    }
    ArrivalCurve::lower_envelope(&lines).unwrap()
}

#[test]
fn the_envelope_drops_lines_that_are_nowhere_lowest() {
    let lines =
        [(1.0, 2.0), (0.75, 1.0), (0.5, 2.5), (0.25, 3.0), (0.125, 4.0)].map(|(r, b)| bucket(r, b));
    let curve = ArrivalCurve::lower_envelope(&lines).unwrap();
    assert_eq!(segments(&curve), [(0.0, 1.0, 0.75), (4.0, 4.0, 0.25), (8.0, 5.0, 0.125)]);
}

#[test]
fn pruning_joins_the_segments_that_rise_least() {
    let whole = curve(1.0, &[0.0, 1.0, 2.0, 3.0, 4.0], &[6.0, 5.0, 4.0, 3.0, 2.0]);
    assert_eq!(segments(&whole.pruned(5)), segments(&whole));
    let four = segments(&whole.pruned(4));
    let starts_and_rates: Vec<_> = four.iter().map(|(x, _, slope)| (*x, *slope)).collect();
    assert_eq!(starts_and_rates, [(0.0, 6.0), (1.0, 5.0), (2.0, 4.0), (3.5, 2.0)]);
    assert_eq!(segments(&whole.pruned(1)), [(0.0, 11.0, 2.0)]);
    assert_eq!(segments(&whole.pruned(0)), [(0.0, 11.0, 2.0)]);
}

#[test]
fn pruning_removes_late_segments_first() {
    let starts = [0.0, 1.0, 2.0, 3.0, 100.0, 200.0];
    let whole = curve(1.0, &starts, &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
    let rates: Vec<_> = segments(&whole.pruned(4)).iter().map(|(_, _, slope)| *slope).collect();
    assert_eq!(rates, [6.0, 5.0, 4.0, 3.0]);
}

#[test]
fn pruning_may_remove_the_first_segment() {
    let starts = [0.0, 0.1, 1.0, 2.0, 3.0, 4.0];
    let whole = curve(0.6, &starts, &[10.0, 6.0, 5.0, 4.0, 3.0, 2.0]);
    let pruned = segments(&whole.pruned(5));
    assert!((pruned[0].1 - 1.0).abs() < 1e-12, "{pruned:?}");
    assert_eq!((pruned.len(), pruned[0].0, pruned[0].2), (5, 0.0, 6.0));
}

#[test]
fn the_gap_to_a_service_equals_the_value_computed_by_hand() {
    let curve = ArrivalCurve::lower_envelope(&[bucket(0.5, 1.0)]).unwrap();
    let service = Service { rate: 1.0, latency_seconds: 2.0 };
    assert_eq!(curve.service_delay(service), Some(3.0));
    assert_eq!(curve.service_delay(Service { rate: 0.4, ..service }), None);
    assert_eq!(curve.service_delay(Service { rate: f64::NAN, ..service }), None);
    assert_eq!(curve.service_delay(Service { latency_seconds: f64::NAN, ..service }), None);
}

#[test]
fn a_shaper_on_the_r_b_curve_holds_no_request_back() {
    let lines = [(0.75, 1.0), (0.25, 3.0), (0.125, 4.0)].map(|(r, b)| bucket(r, b));
    let curve = ArrivalCurve::lower_envelope(&lines).unwrap();
    for rate in [0.125, 0.2, 0.25, 0.4, 0.75, 0.9] {
        let burst = curve.burst_at(rate).unwrap();
        assert_eq!(curve.shaper_delay(bucket(rate, burst)), Some(0.0), "{rate}");
        let delay = curve.shaper_delay(bucket(rate, burst - 0.1)).unwrap();
        assert!((delay - 0.1 / rate).abs() < 1e-9, "{rate}: {delay}");
    }
    assert_eq!(curve.shaper_delay(bucket(0.1, 100.0)), None);
    assert_eq!(curve.burst_at(0.1), None);
    assert_eq!(curve.burst_at(f64::NAN), None);
    assert_eq!(curve.burst_at(0.5), Some(2.0));
}

#[test]
fn a_trace_of_equal_gaps_needs_one_request_as_its_burst() {
    let arrivals: Vec<_> =
        (0..101).map(|at| WorkArrival { at_seconds: f64::from(at), work_seconds: 0.5 }).collect();
    let trace = WorkTrace::new(arrivals, 100.0).unwrap();
    assert_eq!(trace.least_rate().unwrap(), 50.5 / 100.0);
    let curve = ArrivalCurve::of_trace(&trace).unwrap();
    assert_eq!(curve.lines().len(), 1);
    assert_eq!(curve.burst_at(0.6), Some(0.5));
}

#[test]
fn a_trace_without_two_times_has_no_curve() {
    let arrival = |at_seconds| WorkArrival { at_seconds, work_seconds: 1.0 };
    let once = WorkTrace::new(vec![arrival(1.0), arrival(1.0)], 0.0).unwrap();
    assert!(ArrivalCurve::of_trace(&once).unwrap_err().to_string().contains("at one time"));
    assert!(ArrivalCurve::of_trace(&WorkTrace::new(vec![], 5.0).unwrap()).is_err());
}

#[test]
fn invalid_numbers_make_no_trace_and_no_curve() {
    let arrival = |at_seconds, work_seconds| WorkArrival { at_seconds, work_seconds };
    for arrivals in [
        vec![arrival(2.0, 1.0), arrival(1.0, 1.0)],
        vec![arrival(1.0, -1.0)],
        vec![arrival(1.0, f64::NAN)],
        vec![arrival(f64::NAN, 1.0)],
    ] {
        assert!(WorkTrace::new(arrivals.clone(), 5.0).is_err(), "{arrivals:?}");
    }
    assert!(WorkTrace::new(vec![arrival(0.0, 1.0), arrival(9.0, 1.0)], 5.0).is_err());
    assert!(ArrivalCurve::lower_envelope(&[]).is_err());
    assert!(ArrivalCurve::lower_envelope(&[bucket(f64::NAN, 1.0)]).is_err());
    assert!(ArrivalCurve::lower_envelope(&[bucket(0.5, -1.0)]).is_err());
}

#[test]
fn a_curve_survives_json_and_wrong_json_is_refused() {
    let whole = curve(1.0, &[0.0, 1.0, 2.0], &[6.0, 5.0, 4.0]);
    let text = serde_json::to_string(&whole).unwrap();
    assert_eq!(serde_json::from_str::<ArrivalCurve>(&text).unwrap(), whole);
    let gap = r#"{"segments":[{"start_seconds":0,"work_seconds":1,"rate":0.5},
        {"start_seconds":1,"work_seconds":2,"rate":0.1}]}"#;
    let late = r#"{"segments":[{"start_seconds":1,"work_seconds":1,"rate":0.5}]}"#;
    let convex = r#"{"segments":[{"start_seconds":0,"work_seconds":1,"rate":0.1},
        {"start_seconds":1,"work_seconds":1.1,"rate":0.5}]}"#;
    for wrong in [gap, late, convex, r#"{"segments":[]}"#] {
        assert!(serde_json::from_str::<ArrivalCurve>(wrong).is_err(), "{wrong}");
    }
}

/// A trace with bursts and pauses.
fn random_trace(random: &mut Random) -> WorkTrace {
    let mut now = 0.0;
    let mut arrivals = vec![];
    for _ in 0..2 + random.below(200) {
        now += match random.below(4) {
            0 => 0.0,
            1 => random.below(1000) as f64 / 1000.0,
            2 => random.below(1000) as f64 / 100.0,
            _ => random.below(1000) as f64 / 10_000.0,
        };
        let work_seconds = random.below(1000) as f64 / 4000.0;
        arrivals.push(WorkArrival { at_seconds: now, work_seconds });
    }
    now += 1.0;
    arrivals.push(WorkArrival { at_seconds: now, work_seconds: 0.1 });
    let first = arrivals[0].at_seconds;
    WorkTrace::new(arrivals, now - first).unwrap()
}

#[test]
fn no_window_of_a_trace_has_more_work_than_its_curve() {
    let mut pruned_ones = 0;
    CASES.each(60, |seed| {
        let mut random = Random::seeded(seed);
        let trace = random_trace(&mut random);
        let curve = ArrivalCurve::of_trace(&trace).unwrap();
        assert!(curve.lines().len() <= MAX_CURVE_SEGMENTS);
        pruned_ones += usize::from(curve.lines().len() == MAX_CURVE_SEGMENTS);
        let arrivals = trace.arrivals();
        for (at, first) in arrivals.iter().enumerate() {
            let mut work = 0.0;
            for last in &arrivals[at..] {
                work += last.work_seconds;
                let bound = curve.work_within(last.at_seconds - first.at_seconds);
                assert!(work <= bound + 1e-9, "{work} within a bound of {bound}");
            }
        }
    });
    println!("{pruned_ones} curves were pruned");
}

#[test]
fn pruning_only_raises_a_curve() {
    CASES.each(60, |seed| {
        let mut random = Random::seeded(seed);
        let lines: Vec<_> = (0..2 + random.below(40))
            .map(|_| bucket(random.below(1000) as f64 / 1000.0, random.below(1000) as f64 / 10.0))
            .collect();
        let whole = ArrivalCurve::lower_envelope(&lines).unwrap();
        for wanted in 1..=whole.lines().len() {
            let pruned = whole.pruned(wanted);
            assert!(pruned.lines().len() <= wanted);
            for step in 0..400 {
                let at = f64::from(step) / 4.0;
                let (before, after) = (whole.work_within(at), pruned.work_within(at));
                assert!(after >= before - 1e-9, "{after} below {before} at {at}");
            }
        }
    });
}

#[test]
fn the_envelope_is_the_least_of_all_lines() {
    CASES.each(60, |seed| {
        let mut random = Random::seeded(seed);
        let lines: Vec<_> = (0..1 + random.below(40))
            .map(|_| bucket(random.below(20) as f64 / 20.0, random.below(20) as f64))
            .collect();
        let curve = ArrivalCurve::lower_envelope(&lines).unwrap();
        for step in 0..400 {
            let at = f64::from(step);
            let least = lines.iter().map(|line| line.work_within(at)).fold(f64::INFINITY, f64::min);
            assert!((curve.work_within(at) - least).abs() < 1e-9);
        }
        for pair in curve.segments().windows(2) {
            assert!(pair[0].start_seconds < pair[1].start_seconds && pair[0].rate > pair[1].rate);
        }
    });
}

#[test]
fn the_combined_curve_lies_below_neither_of_the_two() {
    CASES.each(60, |seed| {
        let mut random = Random::seeded(seed);
        let one = ArrivalCurve::of_trace(&random_trace(&mut random)).unwrap();
        let other = ArrivalCurve::of_trace(&random_trace(&mut random)).unwrap();
        let both = one.or_more(&other);
        assert_eq!(both.least_rate(), one.least_rate().max(other.least_rate()));
        for step in 0..=100 {
            let rate = f64::from(step) / 100.0;
            let Some(burst) = both.burst_at(rate) else { continue };
            for single in [&one, &other] {
                assert!(burst >= single.burst_at(rate).unwrap() - 1e-9, "{rate}");
            }
        }
    });
}

#[test]
fn an_envelope_is_nowhere_below_the_curve_of_the_same_requests() {
    CASES.each(200, |seed| {
        let mut random = Random::seeded(seed);
        let mut envelope = Envelope::new(Duration::ZERO);
        let (mut at, mut arrivals) = (Duration::ZERO, vec![]);
        for _ in 0..random.below(300) + 2 {
            at += Duration::from_micros(random.below(20_000));
            let work_seconds = random.below(5_000) as f64 / 1e6 + 1e-6;
            envelope.record(work_seconds, at);
            arrivals.push(WorkArrival { at_seconds: at.as_secs_f64(), work_seconds });
        }
        at += Duration::from_secs(1);
        let Ok(curve) = envelope.curve(at) else { return };
        let text = serde_json::to_string(&curve).unwrap();
        let read: ArrivalCurve = serde_json::from_str(&text).unwrap();
        assert_eq!(read.lines().len(), curve.lines().len());
        for (first, begin) in arrivals.iter().enumerate() {
            let mut work = 0.0;
            for end in &arrivals[first..] {
                work += end.work_seconds;
                let span = end.at_seconds - begin.at_seconds;
                assert!(curve.work_within(span) >= work - 1e-9, "{span} s: {work} s of work");
            }
        }
    });
}

#[test]
fn an_envelope_without_requests_has_no_curve() {
    let envelope = Envelope::new(Duration::ZERO);
    assert!(envelope.curve(Duration::from_secs(9)).is_err());
}

#[test]
fn an_envelope_of_a_steady_flow_has_about_its_rate_and_one_request_as_burst() {
    let mut envelope = Envelope::new(Duration::ZERO);
    for request in 0..10_000_u32 {
        envelope.record(0.001, Duration::from_millis(10) * request);
    }
    let curve = envelope.curve(Duration::from_secs(100)).unwrap();
    assert!((curve.least_rate() / 0.1 - 1.0).abs() < 0.16, "{}", curve.least_rate());
    assert!(curve.burst_at(0.2).unwrap() < 0.0011);
}

#[test]
fn the_curve_of_two_flows_is_the_sum_of_their_curves() {
    let one = ArrivalCurve::lower_envelope(&[bucket(1.0, 0.0), bucket(0.25, 3.0)]).unwrap();
    let other = ArrivalCurve::lower_envelope(&[bucket(0.5, 1.0), bucket(0.125, 2.0)]).unwrap();
    let sum = one.plus(&other);
    for span in [0.0, 1.0, 2.5, 4.0, 9.0, 100.0] {
        let apart = one.work_within(span) + other.work_within(span);
        assert!((sum.work_within(span) - apart).abs() < 1e-9, "{span}");
    }
}
