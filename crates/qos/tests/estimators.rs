//! Tests of the estimators of the SLO thesis: which of three equal tenants on three targets they
//! admit.

mod common;

use std::fmt::Write;

use common::{device, name};
use nacre_object::{Error, Result};
use nacre_qos::trace::{self, Trace, TraceFormat};
use nacre_qos::{
    Admission, Candidate, Estimator, Layout, Profile, ProfileRow, QueueTraces, Verdict,
};

/// Objects are named `TARGET.…`, or `TARGET+TARGET.…` with a copy.
struct ByName(usize);

impl Layout for ByName {
    fn targets(&self) -> usize {
        self.0
    }

    fn locate(&self, object: Option<&str>) -> Result<Vec<usize>> {
        let unknown = || Error::invalid("no target in the name");
        let (targets, _) = object.and_then(|object| object.split_once('.')).ok_or_else(unknown)?;
        targets.split('+').map(|target| target.parse().map_err(|_| unknown())).collect()
    }
}

/// 4 KiB take 1 ms.
fn profile() -> Profile {
    let row = ProfileRow {
        bytes: 4096,
        read_bytes_per_second: 4_096_000.0,
        write_bytes_per_second: 4_096_000.0,
    };
    Profile::new(vec![row]).unwrap()
}

/// 600 requests a second of 1 ms each for 10 s: 0.6 of one target.
fn trace_of(object_of: impl Fn(u64) -> String) -> Trace {
    let mut text = "nacre trace 1\n".to_owned();
    for request in 0..6000 {
        let micros = request * 1_000_000 / 600;
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        writeln!(text, "{seconds}.{rest:06} write 4096 {}", object_of(request)).unwrap();
    }
    trace::read(text.as_bytes(), Some(TraceFormat::Nacre)).unwrap()
}

fn balanced() -> Trace {
    trace_of(|request| format!("{}.object", request % 3))
}

fn unbalanced() -> Trace {
    trace_of(|_| "0.object".to_owned())
}

/// The admission after three tenants have asked, and how many were admitted.
fn admitted(trace: &Trace, estimator: Estimator) -> (Admission, usize) {
    let queues = estimator.queues(3);
    let mut admission = Admission::new((0..queues).map(device).collect(), 0).unwrap();
    let traces = QueueTraces::new(trace, &profile(), &ByName(3), 4096, estimator).unwrap();
    let mut count = 0;
    for (tenant, slo) in [("client1", 0.3), ("client2", 0.4), ("client3", 0.5)] {
        let own = Candidate::on_devices(name(tenant), slo, traces.flows().unwrap());
        let candidate = Candidate { sharing: estimator.sharing(), ..own };
        count += usize::from(admission.admit(candidate).unwrap() == Verdict::Admitted);
    }
    (admission, count)
}

#[test]
fn balanced_traces_are_admitted_unless_the_estimator_is_pessimistic() {
    assert_eq!(admitted(&balanced(), Estimator::PerTarget).1, 3);
    assert_eq!(admitted(&balanced(), Estimator::Uniform).1, 3);
    assert_eq!(admitted(&balanced(), Estimator::Optimistic).1, 3);
    assert_eq!(admitted(&balanced(), Estimator::Pessimistic).1, 1);
}

#[test]
fn unbalanced_traces_are_refused_unless_the_estimator_is_optimistic() {
    assert_eq!(admitted(&unbalanced(), Estimator::PerTarget).1, 1);
    assert_eq!(admitted(&unbalanced(), Estimator::Uniform).1, 1);
    assert_eq!(admitted(&unbalanced(), Estimator::Pessimistic).1, 1);
    let (admission, count) = admitted(&unbalanced(), Estimator::Optimistic);
    assert_eq!(count, 3);
    // It overloads the one target: each tenant needs 0.6 of it.
    let trace =
        &QueueTraces::new(&unbalanced(), &profile(), &ByName(3), 4096, Estimator::PerTarget);
    let need = trace.as_ref().unwrap().traces[&0].least_rate().unwrap();
    assert!(need * count as f64 > 1.7, "{need}");
    assert!(admission.latencies().iter().all(Option::is_some));
}

#[test]
fn a_replicated_write_loads_every_copy_and_a_read_the_first() {
    let text = "nacre trace 1\n0.0 write 4096 0+1.a\n1.0 read 4096 0+1.a\n2.0 read 4096 2.b\n";
    let trace = trace::read(text.as_bytes(), None).unwrap();
    let traces =
        QueueTraces::new(&trace, &profile(), &ByName(3), 4096, Estimator::PerTarget).unwrap();
    let work: Vec<_> = traces.traces.values().map(|trace| trace.work_seconds()).collect();
    assert_eq!(work, [0.002, 0.001, 0.001]);
    let pooled =
        QueueTraces::new(&trace, &profile(), &ByName(3), 4096, Estimator::Optimistic).unwrap();
    assert!((pooled.traces[&0].work_seconds() - 0.004 / 3.0).abs() < 1e-15);
}

#[test]
fn the_uniform_estimator_gives_every_target_the_bucket_of_the_busiest_one() {
    let trace = trace_of(|request| format!("{}.object", [0, 0, 1][request as usize % 3]));
    let (admission, count) = admitted(&trace, Estimator::Uniform);
    assert!(count > 0);
    for tenant in admission.tenants() {
        assert_eq!(tenant.buckets[0], tenant.buckets[1]);
        let busiest = tenant.candidate.flows[0].curve.least_rate();
        assert!(tenant.buckets[1].rate >= busiest, "{:?}", tenant.buckets);
    }
    let (own, _) = admitted(&trace, Estimator::PerTarget);
    let buckets = &own.tenants()[0].buckets;
    assert!(buckets[1].rate < buckets[0].rate);
}

#[test]
fn a_trace_of_whole_seconds_makes_no_curve() {
    let text = "1,0,8,0,1\n2,0,8,1,1\n";
    let trace = trace::read(text.as_bytes(), Some(TraceFormat::Tencent)).unwrap();
    let error = QueueTraces::new(&trace, &profile(), &ByName(1), 4096, Estimator::PerTarget);
    assert!(error.unwrap_err().to_string().contains("whole seconds"));
}

#[test]
fn a_layout_that_names_no_target_is_refused() {
    let text = "nacre trace 1\n0 read 1 7.a\n1 read 1 7.a\n";
    let trace = trace::read(text.as_bytes(), None).unwrap();
    let of = |estimator| QueueTraces::new(&trace, &profile(), &ByName(3), 1, estimator);
    let message = of(Estimator::PerTarget).unwrap_err().to_string();
    assert!(message.contains("the targets [7]; their indices must be below 3"), "{message}");
}

#[test]
fn every_estimator_is_found_by_its_name() {
    for estimator in Estimator::ALL {
        assert_eq!(estimator.as_str().parse::<Estimator>().unwrap(), estimator);
    }
    assert!("hopeful".parse::<Estimator>().unwrap_err().to_string().contains("pessimistic"));
}
