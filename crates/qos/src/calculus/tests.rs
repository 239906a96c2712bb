//! Compares the calculus with values on which the papers' published code and our own computation
//! agree.

use super::*;

const fn flow(rate: f64, burst_seconds: f64, priority: usize) -> Flow {
    Flow { bucket: RateBurst { rate, burst_seconds }, priority }
}

const fn bucket(rate: f64, burst_seconds: f64) -> RateBurst {
    RateBurst { rate, burst_seconds }
}

const fn service(rate: f64, latency_seconds: f64) -> Service {
    Service { rate, latency_seconds }
}

#[test]
fn flows_of_one_queue_have_the_delays_computed_by_hand() {
    let flows = [flow(0.25, 0.5, 1), flow(0.125, 1.0, 1), flow(0.125, 0.25, 2), flow(0.5, 2.25, 2)];
    let delays = queue_delays(Service::DEVICE, &flows);
    assert_eq!(delays, [Some(1.5), Some(1.5), Some(6.4), Some(6.4)]);
}

#[test]
fn the_order_of_the_flows_does_not_matter() {
    let flows = [flow(0.5, 2.25, 2), flow(0.125, 1.0, 1), flow(0.125, 0.25, 2), flow(0.25, 0.5, 1)];
    let delays = queue_delays(Service::DEVICE, &flows);
    assert_eq!(delays, [Some(6.4), Some(1.5), Some(6.4), Some(1.5)]);
}

#[test]
fn two_flows_add_their_rates_and_bursts() {
    assert_eq!(bucket(0.25, 1.0).plus(bucket(0.5, 2.0)), bucket(0.75, 3.0));
}

#[test]
fn a_flow_leaves_a_service_with_the_burst_that_waited() {
    assert_eq!(bucket(0.25, 1.0).after(service(1.0, 4.0)), bucket(0.25, 2.0));
}

#[test]
fn a_higher_priority_leaves_less_and_later_service() {
    let left = service(1.0, 2.0).left_over(bucket(0.5, 3.0));
    assert_eq!(left, Some(service(0.5, 2.0 + (3.0 + 0.5 * 2.0) / 0.5)));
}

#[test]
fn services_in_series_have_the_least_rate_and_the_sum_of_latencies() {
    assert_eq!(service(1.0, 2.0).then(service(0.5, 3.0)), service(0.5, 5.0));
}

#[test]
fn a_service_without_rate_gives_no_bound() {
    assert_eq!(Service::DEVICE.left_over(bucket(1.0, 0.0)), None);
    assert_eq!(Service::DEVICE.left_over(bucket(1.5, 0.0)), None);
    assert_eq!(service(0.0, 0.0).delay(bucket(0.0, 1.0)), None);
    let flows = [flow(1.0, 0.5, 0), flow(0.1, 0.1, 1)];
    assert_eq!(queue_delays(Service::DEVICE, &flows), [Some(0.5), None]);
}

#[test]
fn a_flow_faster_than_its_service_has_no_bound() {
    assert_eq!(Service::DEVICE.delay(bucket(1.01, 0.0)), None);
    assert_eq!(Service::DEVICE.delay(bucket(1.0, 2.0)), Some(2.0));
}

#[test]
fn nan_never_meets_an_slo() {
    let none = f64::NAN;
    assert_eq!(Service::DEVICE.left_over(bucket(none, 0.0)), None);
    assert_eq!(Service::DEVICE.delay(bucket(none, 0.0)), None);
    assert_eq!(Service::DEVICE.delay(bucket(0.5, none)), None);
    let flows = [flow(none, 0.5, 0), flow(0.1, 0.1, 1)];
    let delays = queue_delays(Service::DEVICE, &flows);
    assert!(delays.iter().all(|delay| !meets(*delay, 1e9)), "{delays:?}");
    assert!(!meets(Some(none), 1.0));
    assert!(!meets(Some(0.5), none));
    assert!(!meets(None, 1.0));
    assert!(meets(Some(1.0), 1.0));
}

#[test]
fn the_shorter_slo_has_the_higher_priority() {
    assert_eq!(priorities(&[1.0, 0.5, 2.0, 1.0]), [1, 0, 2, 1]);
    assert_eq!(priorities(&[]), [0; 0]);
}

#[test]
fn a_latency_is_the_sum_over_stages_and_the_maximum_over_legs() {
    assert_eq!(stages_latency([Some(1.0), Some(2.5)]), Some(3.5));
    assert_eq!(stages_latency([Some(1.0), None]), None);
    assert_eq!(legs_latency([Some(1.0), Some(2.5), Some(2.0)]), Some(2.5));
    assert_eq!(legs_latency([Some(1.0), None]), None);
}
