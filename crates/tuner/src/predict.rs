//! Predicts the cost of a workload in a layout. The module runs the workload's transactions on an
//! object in memory that records their accesses. The engine's profile gives the cost of
//! transactions with such accesses. The profile was measured with methods that compute almost
//! nothing. So the module also measures how long the program computes in these runs, and adds this
//! time.

use std::sync::Arc;

use bytes::Bytes;
use nacre_calls::encode_request;
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_load::median;
use nacre_object::{CallContext, ClassCall, ClassHost, ClassName, EntityName, Result};
use nacre_program::Budget;

use crate::probe::{self, Probe};
use crate::profile::Profile;
use crate::shape::Shape;
use crate::sketch::Sketch;
use crate::workload::{Line, Pattern, Workload};

const CLASS: &str = "tuner_sketch";
/// How many requests of a filling line are tried. Further requests would make the same accesses.
const MAX_FILL_TRIED: u64 = 256;
/// Requests of each line of the mix that are tried.
const SAMPLES: usize = 24;
/// The same requests for every layout.
const SEED: u64 = 1;

/// A program with its layout, on an object in memory.
struct Trial {
    clock: Arc<dyn Clock>,
    runtime: ClassRuntime,
    class: ClassName,
    context: CallContext,
    object: Sketch,
    next: u64,
    random: Random,
}

/// The accesses of a request, and how long its method computed.
struct Tried {
    shape: Shape,
    seconds: f64,
}

/// Predicts the time in seconds for each transaction of the mix: the average time between the ends
/// of two successive transactions.
///
/// # Errors
/// `Invalid` if the source is not a program or lacks a method of the workload; any error of a
/// request.
pub(crate) fn seconds(source: &str, workload: &Workload, profile: &Profile) -> Result<f64> {
    let mut trial = Trial::new(source)?;
    for Line { count, request } in &workload.fill {
        for _ in 0..(*count).min(MAX_FILL_TRIED) {
            trial.request(request)?;
        }
    }
    let probed = seconds_of_a_probe()?;
    let (mut sum, mut weights) = (0.0, 0.0);
    for Line { count, request } in &workload.mix {
        let tried: Vec<Tried> =
            (0..SAMPLES).map(|_| trial.request(request)).collect::<Result<_>>()?;
        let stored = tried.iter().map(|one| profile.seconds(&one.shape, workload.concurrency));
        let stored = stored.sum::<f64>() / SAMPLES as f64;
        let computed = median(tried.iter().map(|one| one.seconds).collect()) - probed;
        sum += *count as f64 * (stored + computed.max(0.0));
        weights += *count as f64;
    }
    Ok(sum / weights)
}

/// How long the method of a probe runs if it makes no access.
fn seconds_of_a_probe() -> Result<f64> {
    let mut trial = Trial::new(probe::SOURCE)?;
    let nothing = Probe { access: None, count: 0, bytes: 0 };
    let runs: Vec<f64> = (0..SAMPLES)
        .map(|_| trial.call(nothing.method(), nothing.request(0)).map(|tried| tried.seconds))
        .collect::<Result<_>>()?;
    Ok(median(runs))
}

impl Trial {
    fn new(source: &str) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let runtime = ClassRuntime::new(Budget::default(), Arc::clone(&clock));
        let class: ClassName = CLASS.parse()?;
        runtime.install(&ClassProgram::new(class.clone(), 1, source))?;
        let context = CallContext { source: EntityName::local(), now_micros: clock.now_micros() };
        let random = Random::seeded(SEED);
        Ok(Self { clock, runtime, class, context, object: Sketch::default(), next: 0, random })
    }

    fn request(&mut self, request: &Pattern) -> Result<Tried> {
        let row = request.draw(&mut self.next, &mut self.random);
        self.call(&request.method, encode_request(&row).into())
    }

    fn call(&mut self, method: &str, input: Bytes) -> Result<Tried> {
        let (class, method) = (self.class.clone(), method.parse()?);
        let call = ClassCall { class, method, version: None, input };
        let begun = self.clock.monotonic();
        self.runtime.call(&call, &mut self.object, &self.context)?;
        let seconds = (self.clock.monotonic() - begun).as_secs_f64();
        Ok(Tried { shape: self.object.take_shape(), seconds })
    }
}
