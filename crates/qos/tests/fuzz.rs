//! No input makes the crate panic, and accepted input has only valid numbers.

use nacre_fuzz::{fuzz, fuzz_slow};
use nacre_object::Result;
use nacre_qos::trace::{TraceFormat, read};
use nacre_qos::{ArrivalCurve, BoundsQuestion, Estimator, Layout, Profile, QueueTraces, bounds};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// Reads each input in eight formats and computes a curve from it.
const SHORT_RUN: u64 = 3000;

struct OneTarget;

impl Layout for OneTarget {
    fn targets(&self) -> usize {
        1
    }

    fn locate(&self, _: Option<&str>) -> Result<Vec<usize>> {
        Ok(vec![0])
    }
}

#[test]
fn fuzz_traces() {
    let samples = [
        "100,0x1,DiskWrite\n5000,ff,DiskRead\n",
        "128166372003061629,usr,0,Read,7014609920,24576,41286\n",
        "419,W,8792731648,16384,1577808144360767\n725,R,0,512,1577808144360813\n",
        "fio version 3 iolog\n878 /dev/a write 0 16384\n900 /dev/a read 0 512\n",
        "fio version 2 iolog\nf wait 5\nf read 0 1\nf wait 9\nf write 0 1\n",
        "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [k]\n",
        include_str!("../samples/nacre.trace"),
    ];
    let profile: Profile = serde_json::from_str(include_str!("../samples/profile.json")).unwrap();
    let samples = samples.map(|text| text.as_bytes().to_vec());
    fuzz_slow(CRATE, "traces", SHORT_RUN, &samples, |input| {
        for format in TraceFormat::ALL {
            let _ = read(input, Some(format));
        }
        let Ok(trace) = read(input, None) else { return false };
        let traces = QueueTraces::new(&trace, &profile, &OneTarget, 1, Estimator::PerTarget);
        if let Ok(flows) = traces.and_then(|traces| traces.flows()) {
            assert!(flows.iter().flat_map(|flow| flow.curve.lines()).all(|line| line.is_valid()));
        }
        true
    });
}

#[test]
fn fuzz_questions_about_bounds() {
    let samples = [include_bytes!("../samples/bound.json").to_vec()];
    fuzz(CRATE, "bounds", &samples, |input| {
        let Ok(question) = serde_json::from_slice::<BoundsQuestion>(input) else { return false };
        let Ok(bounds) = bounds(&question) else { return false };
        assert!(bounds.iter().all(|bound| bound.latency_seconds.is_none_or(f64::is_finite)));
        true
    });
}

#[test]
fn fuzz_profiles_and_curves() {
    let curve = br#"{"segments":[{"start_seconds":0,"work_seconds":1,"rate":0.5}]}"#.to_vec();
    let samples = [include_bytes!("../samples/profile.json").to_vec(), curve];
    fuzz(CRATE, "profiles", &samples, |input| {
        let profile = serde_json::from_slice::<Profile>(input);
        if let Ok(profile) = &profile {
            let work = profile.work_seconds(nacre_qos::IoKind::Read, 4096);
            assert!(work >= 0.0, "{work}");
        }
        let curve = serde_json::from_slice::<ArrivalCurve>(input);
        if let Ok(curve) = &curve {
            assert!(curve.segments().iter().all(|segment| segment.work_seconds >= 0.0));
        }
        profile.is_ok() || curve.is_ok()
    });
}
